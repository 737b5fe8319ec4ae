# Reads directories from the standard input, one a line, and writes for each: the bytes of its files, those of their blocks on the disk, and those
# of blocks that no other file shares, or "-" where the filesystem does not tell (FIEMAP; linux/fiemap.h). Perl, because Node has no ioctl.
use strict;

my ($FS_IOC_FIEMAP, $LAST, $SHARED, $UNKNOWN) = (0xC020660B, 0x1, 0x2000, 0x2);
my ($HEAD, $EXTENT, $AT_ONCE) = (32, 56, 512);
# Their values on Linux: O_RDONLY | O_NONBLOCK | O_NOFOLLOW. The files may belong to a tenant's code.
my $OPEN = 04000 | (`uname -m` =~ /^(aarch64|arm)/ ? 0100000 : 0400000);

sub own_bytes {
  my ($path) = @_;
  sysopen(my $file, $path, $OPEN) or return 0;
  my ($own, $from) = (0, 0);
  for (;;) {
    my $map = pack('QQLLLL', $from, ~0 - $from, 0, 0, $AT_ONCE, 0) . "\0" x ($EXTENT * $AT_ONCE);
    ioctl($file, $FS_IOC_FIEMAP, $map) or return undef;
    my $mapped = (unpack('QQLL', $map))[3];
    return $own unless $mapped;
    for my $i (0 .. $mapped - 1) {
      my ($logical, undef, $length, undef, undef, $flags) = unpack('QQQQQL', substr($map, $HEAD + $EXTENT * $i, $EXTENT));
      $own += $length unless $flags & $SHARED;
      return $own if $flags & $LAST;
      $from = $logical + $length;
    }
  }
}

while (my $top = <STDIN>) {
  chomp $top;
  my ($bytes, $real, $own, @unread) = (0, 0, 0, $top);
  while (defined(my $directory = pop @unread)) {
    opendir(my $entries, $directory) or next;
    for my $name (grep { !/^\.\.?$/ } readdir $entries) {
      my $path = "$directory/$name";
      my @found = lstat $path or next;
      push @unread, $path and next if -d _;
      next unless -f _;
      $bytes += $found[7];
      $real += $found[12] * 512;
      my $file = defined $own && $found[12] ? own_bytes($path) : 0;
      $own = defined $own && defined $file ? $own + $file : undef;
    }
  }
  $| = 1;
  print "$bytes $real ", $own // '-', "\n";
}
