# The way out of a compute whose project allows one. pasta(1) carries packets between a device in the compute's network
# namespace and sockets of this machine; a filter that nft(8) loads into that namespace says which addresses they may go
# to. Routes could not: a socket that names its device (SO_BINDTODEVICE, IP_PKTINFO) passes an unreachable route. The
# compute has no capability to change either.
use strict;

my ($CAP_NET_ADMIN, $CAP_SYS_ADMIN) = (12, 21);
my $PR_SET_KEEPCAPS = 8;
my ($PR_CAP_AMBIENT, $PR_CAP_AMBIENT_RAISE) = (47, 2);
my $CAPABILITY_VERSION_3 = 0x20080522;
# The resolver as walls.ts has it. 192.0.0.0/29 is for the inner side of a translator (RFC 7335), never a real network.
my ($ADDRESS, $PREFIX, $GATEWAY, $RESOLVER) = ('192.0.0.2', 29, '192.0.0.1', '192.0.0.3');
my @NO_PORTS = map { ($_, 'none') } qw(-t -u -T -U);
my @PASTA = (qw(pasta --quiet --config-net --netns-only --no-map-gw --no-netns-quit --ns-ifname out), @NO_PORTS,
  '--address', $ADDRESS, '--netmask', $PREFIX, '--gateway', $GATEWAY, '--dns-forward', $RESOLVER);
my $EGRESS_SECONDS = 3;
# Root's helpers run as this user, who has no files: nobody.
my $HELPER_UID = 65534;
my ($AT_FDCWD, $CHARACTER_DEVICE, $TUN) = (-100, 0020666, 10 << 8 | 200);

# A network namespace for this process alone: the helper stays in that of the host.
sub leave_network {
  my ($walls) = @_;
  my ($call) = parse_walls($walls);
  kernel($call->{unshare}, $NAMESPACE{network}) or fail('unshare network');
}

# Gives the network of process PID a way out within FILTER, a ruleset for nft. ROOT: an empty directory to mount on.
# What carries the packets belongs to the pid namespace whose first process is PID, and ends with it. Returns the pid of
# a process that ends, with 0, when the way is open; undef where none could be forked.
sub open_egress {
  my ($walls, $root, $filter, $pid) = @_;
  my $helper = fork;
  return $helper if !defined $helper || $helper;
  my ($call, %has) = parse_walls($walls);
  chdir '/';
  open STDIN, '<', '/dev/null';
  my $network = "/proc/$pid/ns/net";
  open(my $file, '<', $network) or fail($network);
  # The filter must never be loaded into the namespace of the host.
  die "process $pid has no network of its own\n" if same_file([stat $file], [stat '/proc/self/ns/net']);
  # Bound to a file, pasta may open it without rights over that process, which it gives up first. Debian's and Ubuntu's
  # AppArmor profile for pasta allows /run/user/UID/netns only, where Podman has them.
  my $place = -d '/run/user' ? '/run/user' : $root;
  kernel($call->{unshare}, $NAMESPACE{files}) or fail('unshare');
  mount($call, 'none', '/', '', $REC | $PRIVATE);
  mount($call, 'tmpfs', $place, 'tmpfs', $NOSUID | $NOEXEC, 'mode=755,size=64k');
  make_path($place, "/$</netns");
  my $bound = "$place/$</netns/compute";
  write_file($bound, '');
  mount($call, $network, $bound, '', $BIND);
  drop_root($call, "$place/tun") if !$<;
  keep_capabilities($call);
  my $loader = open(my $rules, '|-') // fail('fork');
  if (!$loader) {
    kernel($call->{setns}, fileno($file) + 0, $NAMESPACE{network}) or fail('setns network');
    exec qw(nft -f -) or fail('nft');
  }
  print $rules $filter;
  close $rules or exit 1;
  exec @PASTA, '--netns', $bound or fail('pasta');
}

# Waits for a helper, and says on the standard error what became of it where there is no way out.
sub await_egress {
  my ($helper) = @_;
  return print STDERR "WARNING:  no way out of this compute: fork: $!\n" unless defined $helper;
  local $SIG{ALRM} = sub { kill 'KILL', $helper };
  alarm $EGRESS_SECONDS;
  waitpid $helper, 0;
  alarm 0;
  print STDERR "WARNING:  no way out of this compute: pasta or nft failed\n" if $?;
}

# Becomes a user without files; its rights stay until keep_capabilities. TUN: a path for a device that this user may
# open, since some machines have it for root only.
sub drop_root {
  my ($call, $tun) = @_;
  my $mask = umask 0;
  mount($call, $tun, '/dev/net/tun', '', $BIND) if kernel($call->{mknodat}, $AT_FDCWD, $tun, $CHARACTER_DEVICE, $TUN);
  umask $mask;
  kernel($call->{prctl}, $PR_SET_KEEPCAPS, 1, 0, 0, 0) or fail('keep capabilities');
  become($HELPER_UID, $HELPER_UID);
}

# Keeps only what entering and changing a network namespace needs, for the programs that this process becomes, too.
sub keep_capabilities {
  my ($call) = @_;
  my $bits = 1 << $CAP_NET_ADMIN | 1 << $CAP_SYS_ADMIN;
  my ($header, $data) = (pack('L l', $CAPABILITY_VERSION_3, 0), pack('L6', ($bits) x 3, 0, 0, 0));
  kernel($call->{capset}, $header, $data) or fail('capset');
  for ($CAP_NET_ADMIN, $CAP_SYS_ADMIN) {
    kernel($call->{prctl}, $PR_CAP_AMBIENT, $PR_CAP_AMBIENT_RAISE, $_ + 0, 0, 0) or fail('ambient capabilities');
  }
}

# probe_egress WALLS ROOT FILTER: opens a way out of an empty namespace and ends it; fails with the reason.
sub probe_egress {
  my ($walls, $root, $filter) = @_;
  make_directory($root, 0755);
  unshare_walls($walls, 'network');
  pipe(my $left, my $leaving) or fail('pipe');
  pipe(my $told, my $telling) or fail('pipe');
  my $pid = fork // fail('fork');
  if (!$pid) {
    close $telling;
    leave_network($walls);
    syswrite $leaving, "\n";
    <$told>;
    exit 0;
  }
  close $leaving;
  close $told;
  <$left> // fail('a network namespace');
  my $helper = open_egress($walls, $root, $filter, $pid) // fail('fork');
  await_egress($helper);
  my $failed = $?;
  kill 'KILL', $pid;
  waitpid $pid, 0;
  exit($failed ? 1 : 0);
}
