# Measures the space of directories: argument: the share of a core that it may take. Standard input: lines "PROJECT PATH". PROJECT is the number
# of a project whose directories share blocks with each other, or 0 for a directory that is no store, such as a template. Perl, because Node has
# no ioctl. Writes a line for each directory:
#
#   APPARENT REAL OWN HISTORY EXACT
#
# the bytes of its files, of their blocks, of those blocks that no other directory has, and of those among them that only its history has; "-" for
# the last two where the filesystem does not tell (FIEMAP; linux/fiemap.h). EXACT is 0 where a project has too many extents: then only blocks that no
# other file has count as its own. Then "project NUMBER BYTES" for each project, the blocks that several directories of it have and no other one,
# and "other BYTES", the blocks of directories that are no stores, and those that several projects have.
use strict;
use Time::HiRes qw(time sleep);

my ($FS_IOC_FIEMAP, $LAST, $UNKNOWN, $SHARED) = (0xC020660B, 0x1, 0x2, 0x2000);
my ($HEAD, $EXTENT, $AT_ONCE) = (32, 56, 512);
# Their values on Linux: O_RDONLY | O_NONBLOCK | O_NOFOLLOW. The files may belong to a tenant's code.
my $OPEN = 04000 | (`uname -m` =~ /^(aarch64|arm)/ ? 0100000 : 0400000);
# A tenant decides how many files and extents there are: for each directory so much time, in all so many extents of 26 bytes.
my ($MAX_SECONDS, $MAX_EXTENTS, $MAX_DEPTH) = (30, 3_000_000, 32);
# Shared extents are sorted by parts of the disk.
my $PART = 2**28;
my $HISTORY = qr/^(wal|bases|base\.making|spare(\.\w+)?)$/;

my ($share, $parent) = ($ARGV[0] || 1, getppid());
my (@found, %inexact, %events, $extents, $began, $worked);
my ($at, $history);

# Rests so that it takes its share of a core, and ends with the process that has started it.
sub rest {
  my $now = time;
  $worked += $now - $began;
  exit 1 if getppid() != $parent;
  sleep(($now - $began) * (1 / $share - 1)) if $share < 1;
  $began = time;
}

sub keep_extent {
  my ($start, $length) = @_;
  return if $inexact{$found[$at]{project}};
  if (++$extents > $MAX_EXTENTS) { $inexact{$found[$at]{project}} = 1; return }
  while ($length > 0) {
    my $part = int($start / $PART);
    my $here = ($part + 1) * $PART - $start;
    $here = $length if $here > $length;
    # An end sorts before a beginning at the same place.
    $events{$part} .= pack('Q>CL>', $start, 1, $at * 2 + $history) . pack('Q>CL>', $start + $here, 0, $at * 2 + $history);
    ($start, $length) = ($start + $here, $length - $here);
  }
}

# Counts the blocks of a file. Returns false where the filesystem does not tell.
sub read_extents {
  my ($name) = @_;
  sysopen(my $file, $name, $OPEN) or return 1;
  my $from = 0;
  for (;;) {
    my $map = pack('QQLLLL', $from, ~0 - $from, 0, 0, $AT_ONCE, 0) . "\0" x ($EXTENT * $AT_ONCE);
    ioctl($file, $FS_IOC_FIEMAP, $map) or return 0;
    my $mapped = (unpack('QQLL', $map))[3] or return 1;
    for my $i (0 .. $mapped - 1) {
      my ($logical, $physical, $length, undef, undef, $flags) = unpack('QQQQQL', substr($map, $HEAD + $EXTENT * $i, $EXTENT));
      if ($flags & $SHARED && !($flags & $UNKNOWN)) { keep_extent($physical, $length) }
      else {
        $found[$at]{own} += $length;
        $found[$at]{history} += $length if $history;
      }
      return 1 if $flags & $LAST;
      $from = $logical + $length;
    }
  }
}

# Reads an open directory. Names are resolved relative to it: code in a compute may exchange directories meanwhile.
sub read_directory {
  my ($directory, $depth) = @_;
  chdir $directory or return;
  my ($files, @below) = (0);
  while (defined(my $name = readdir $directory)) {
    next if $name eq '.' or $name eq '..';
    rest() if ++$files % 64 == 0;
    if ($worked > $MAX_SECONDS) { $inexact{$found[$at]{project}} = 1; return }
    my @stat = lstat $name or next;
    if (-d _) { push @below, [$name, $stat[0], $stat[1]]; next }
    next unless -f _;
    $found[$at]{apparent} += $stat[7];
    $found[$at]{real} += $stat[12] * 512;
    $found[$at]{silent} = 1 if $stat[12] && !$found[$at]{silent} && !read_extents($name);
  }
  for my $each (@below) {
    my ($name, $device, $inode) = @$each;
    $history = $name =~ $HISTORY ? 1 : 0 if $depth == 0;
    if ($depth == $MAX_DEPTH) { $inexact{$found[$at]{project}} = 1; return }
    opendir(my $opened, $name) or next;
    my @stat = stat $opened;
    read_directory($opened, $depth + 1) if $stat[0] == $device && $stat[1] == $inode;
    chdir $directory or return;
  }
}

# Counts the shared blocks of a part of the disk: the directories that have the blocks between two events, and their projects, are known by their
# number and the sum of their numbers, which is the only one's if there is one.
my ($other, %of_project) = (0);
sub count_part {
  my ($events) = @_;
  my (%directories, %projects);
  my ($files, $count, $sum, $project_count, $project_sum, $data, $from) = (0, 0, 0, 0, 0, 0, 0);
  my $left = 0;
  for my $event (sort unpack('(a13)*', $events)) {
    rest() if ++$left % 4096 == 0;
    my ($where, $begins, $number) = unpack('Q>CL>', $event);
    if ($count > 0 && $where > $from) {
      my $bytes = $where - $from;
      if ($count == 1) {
        # A store that has a shared block once shares it with a directory that is not in the input.
        if ($files > 1 || !$found[$sum]{project}) {
          $found[$sum]{shared} += $bytes;
          $found[$sum]{shared_history} += $bytes if $data == 0;
        }
      } elsif ($project_count == 1) { $of_project{$project_sum} += $bytes }
      else { $other += $bytes }
    }
    $from = $where;
    my ($directory, $is_data, $step) = ($number >> 1, !($number & 1), $begins ? 1 : -1);
    my $project = $found[$directory]{project};
    $files += $step;
    $data += $step if $is_data;
    my $before = $directories{$directory} || 0;
    if (($directories{$directory} = $before + $step) == 0 || $before == 0) {
      $count += $step;
      $sum += $step * $directory;
      my $others = $projects{$project} || 0;
      if (($projects{$project} = $others + $step) == 0 || $others == 0) {
        $project_count += $step;
        $project_sum += $step * $project;
      }
    }
  }
}

my @input = map { chomp; [split / /, $_, 2] } <STDIN>;
$began = time;
for my $each (@input) {
  my ($project, $path) = @$each;
  push @found, { project => $project, map { $_ => 0 } qw(apparent real own history shared shared_history silent) };
  ($at, $history, $worked) = ($#found, 0, 0);
  opendir(my $opened, $path) or next;
  read_directory($opened, 0);
}
$worked = 0;
count_part(delete $events{$_}) for sort { $a <=> $b } keys %events;
for my $each (@found) {
  my $is_exact = !$inexact{$each->{project}};
  my ($own, $of_history) = ($each->{own}, $each->{history});
  if ($is_exact) { ($own, $of_history) = ($own + $each->{shared}, $of_history + $each->{shared_history}) }
  else { $of_project{$each->{project}} += $each->{shared} }
  $other += $each->{silent} ? $each->{real} : $own if !$each->{project};
  ($own, $of_history) = ('-', '-') if $each->{silent};
  print join(' ', $each->{apparent}, $each->{real}, $own, $of_history, $is_exact ? 1 : 0), "\n";
}
$other += delete $of_project{0} || 0;
print "project $_ $of_project{$_}\n" for sort { $a <=> $b } keys %of_project;
print "other $other\n";
