# Walls around a compute, put up in the process that becomes Postgres: namespaces, a root directory of its own, limits, a filter of system
# calls. Linux only. WALLS is "MACHINE:name,name,…"; each name is one wall. Sources: namespaces(7), mount_namespaces(7), seccomp(2).
use strict;

my %NUMBERS = (
  x64 => {
    arch => 0xC000003E, mount => 165, umount => 166, pivot_root => 155, unshare => 272, setns => 308, prctl => 157, prlimit => 302,
    socket => 41, clone => 56, clone3 => 435, capset => 126, mknodat => 259, ioctl => 16,
    # ptrace syslog iopl ioperm chroot acct swapon swapoff reboot init_module delete_module quotactl add_key request_key keyctl kexec_load
    # perf_event_open open_by_handle_at process_vm_readv process_vm_writev kcmp finit_module bpf userfaultfd kexec_file_load personality
    # flock memfd_create inotify_init inotify_add_watch inotify_init1 fanotify_init
    denied => [101, 103, 172, 173, 161, 163, 167, 168, 169, 175, 176, 179, 248, 249, 250, 246, 298, 304, 310, 311, 312, 313, 321, 323, 320, 135,
      73, 319, 253, 254, 294, 300],
  },
  arm64 => {
    arch => 0xC00000B7, mount => 40, umount => 39, pivot_root => 41, unshare => 97, setns => 268, prctl => 167, prlimit => 261,
    socket => 198, clone => 220, clone3 => 435, capset => 91, mknodat => 33, ioctl => 29,
    denied => [117, 116, 51, 89, 224, 225, 142, 105, 106, 60, 217, 218, 219, 104, 241, 265, 270, 271, 272, 273, 280, 282, 294, 92,
      32, 279, 27, 26, 262],
  },
);
# Of those, what they would be for: flock would release server.lock, which Postgres inherits and by which alone Neap knows that it runs.
# A memfd is a file without a mount that forbids to execute it. What inotify holds counts for the user that Neap runs as too.
# Of both machines: io_uring_*, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, pidfd_getfd, mount_setattr.
my @DENIED = (425 .. 427, 428 .. 433, 438, 442);
my %NAMESPACE = (files => 0x20000, ipc => 0x8000000, user => 0x10000000, processes => 0x20000000, network => 0x40000000);
my ($RDONLY, $NOSUID, $NODEV, $NOEXEC, $REMOUNT, $BIND, $REC, $PRIVATE, $DETACH) = (1, 2, 4, 8, 32, 4096, 16384, 1 << 18, 2);
my ($RLIMIT_CORE, $RLIMIT_NPROC, $RLIMIT_NOFILE) = (4, 6, 7);
my ($PR_SET_NO_NEW_PRIVS, $PR_SET_SECCOMP, $SECCOMP_MODE_FILTER) = (38, 22, 2);
my ($EPERM, $ENOSYS, $EAFNOSUPPORT) = (1, 38, 97);
my $MAX_FILES = 4096;

# What WALLS says: the numbers of this machine's system calls, and the set of names.
sub parse_walls {
  my ($machine, $names) = split /:/, $_[0], 2;
  return ($NUMBERS{$machine} // {}, map { $_ => 1 } split /,/, $names // '');
}

sub kernel { my ($number, @args) = @_; return defined $number && syscall($number, @args) >= 0 }

sub mount {
  my ($call, $source, $target, $type, $flags, $data) = @_;
  kernel($call->{mount}, $source, $target, $type, $flags, $data // 0) or fail("mount $target");
}

# Leaves the namespaces of the host, all but that of mounts, which the child leaves for itself, and BUT. An ordinary user needs one of users
# first.
sub unshare_walls {
  my ($walls, $but) = @_;
  my ($call, %has) = parse_walls($walls);
  my ($uid, $gid) = ($<, $( + 0);
  my $flags = 0;
  $flags |= $NAMESPACE{$_} for grep { $has{$_} && $_ ne ($but // '') } qw(user processes network ipc);
  return unless $flags;
  kernel($call->{unshare}, $flags) or fail('unshare');
  return unless $has{user};
  write_file('/proc/self/setgroups', 'deny');
  write_file('/proc/self/uid_map', "$uid $uid 1\n");
  write_file('/proc/self/gid_map', "$gid $gid 1\n");
}

# MOUNTS: lines of "exec|read|write PATH", or "resolver ADDRESS". What is not listed does not exist for the compute; what it can write it cannot execute or load.
sub change_root {
  my ($call, $root, $mounts) = @_;
  kernel($call->{unshare}, $NAMESPACE{files}) or fail('unshare');
  mount($call, 'none', '/', '', $REC | $PRIVATE);
  my $sealed = $NOSUID | $NODEV | $NOEXEC;
  mount($call, 'tmpfs', $root, 'tmpfs', $sealed, 'mode=755,size=1m');
  for (['/tmp', ',size=64m'], ['/dev/shm', '']) {
    make_path($root, $_->[0]);
    mount($call, 'tmpfs', "$root$_->[0]", 'tmpfs', $sealed, "mode=1777$_->[1]");
  }
  for my $device (qw(null zero random urandom)) {
    write_file("$root/dev/$device", '');
    mount($call, "/dev/$device", "$root/dev/$device", '', $BIND);
  }
  my %mode = (exec => $RDONLY | $NODEV, read => $RDONLY | $NODEV | $NOEXEC, write => $NODEV | $NOEXEC);
  for (split /\n/, $mounts) {
    my ($mode, $path) = split / /, $_, 2;
    if ($mode eq 'resolver') { make_path($root, '/etc'); write_file("$root/etc/resolv.conf", "nameserver $path\n"); next }
    # As /lib is a link to usr/lib where both were merged.
    if ($path =~ m{^/[^/]+$} && -l $path) { symlink readlink $path, "$root$path"; next }
    next unless -e $path;
    if (-d $path) { make_path($root, $path) }
    else { make_path($root, $path =~ s{/[^/]+$}{}r); write_file("$root$path", '') }
    mount($call, $path, "$root$path", '', $BIND | $REC);
    mount($call, 'none', "$root$path", '', $BIND | $REMOUNT | $NOSUID | $mode{$mode});
  }
  my $here = '.';
  chdir $root or fail($root);
  kernel($call->{pivot_root}, $here, $here) or fail('pivot_root');
  kernel($call->{umount}, $here, $DETACH) or fail('umount');
  chdir '/';
  mount($call, 'none', '/', '', $REMOUNT | $BIND | $RDONLY | $sealed);
}

sub make_path {
  my ($root, $path) = @_;
  my $at = $root;
  for (grep { length } split m{/}, $path) { $at .= "/$_"; make_directory($at, 0755) }
}

# Within which PROCESSES may run, each with MAX_FILES open, and no core dump holds a tenant's memory.
sub limit {
  my ($call, $processes) = @_;
  my %limit = ($RLIMIT_CORE => 0, $RLIMIT_NPROC => $processes, $RLIMIT_NOFILE => $MAX_FILES);
  for (sort keys %limit) {
    my $pair = pack 'Q2', ($limit{$_}) x 2;
    kernel($call->{prlimit}, 0, $_ + 0, $pair, 0) or fail('prlimit');
  }
}

# A filter in classic BPF: instructions of code, jump if true, jump if false, operand. Postgres needs none of the calls that it denies.
sub filter_calls {
  my ($call) = @_;
  my ($LOAD, $AND, $EQUAL, $AT_LEAST, $ANY_BIT, $RETURN) = (0x20, 0x54, 0x15, 0x35, 0x45, 0x06);
  my ($ALLOW, $KILL, $ERRNO) = (0x7FFF0000, 0x80000000, 0x00050000);
  my $code = '';
  my $add = sub { $code .= pack 'S C C L', @_ };
  my $deny = sub { my ($number, $errno) = @_; $add->($EQUAL, 0, 1, $number); $add->($RETURN, 0, 0, $ERRNO | $errno) };
  $add->($LOAD, 0, 0, 4);
  $add->($EQUAL, 1, 0, $call->{arch});
  $add->($RETURN, 0, 0, $KILL);
  $add->($LOAD, 0, 0, 0);
  # The x32 numbers of x86-64.
  $add->($AT_LEAST, 0, 1, 0x40000000);
  $add->($RETURN, 0, 0, $ERRNO | $ENOSYS);
  $deny->($_, $EPERM) for @$call{qw(mount umount pivot_root unshare setns)}, @{$call->{denied}}, @DENIED;
  # Its flags lie in memory, where no filter can look: callers fall back to clone.
  $deny->($call->{clone3}, $ENOSYS);
  # A clone into namespaces of its own (CLONE_NEWNS to CLONE_NEWNET).
  $add->($EQUAL, 0, 4, $call->{clone});
  $add->($LOAD, 0, 0, 16);
  $add->($ANY_BIT, 0, 1, 0x7E020000);
  $add->($RETURN, 0, 0, $ERRNO | $EPERM);
  $add->($RETURN, 0, 0, $ALLOW);
  # Requests to Btrfs (type 0x94): pgdata is a subvolume there, which its owner could make read-only, so that no deletion removes it.
  $add->($EQUAL, 0, 5, $call->{ioctl});
  $add->($LOAD, 0, 0, 24);
  $add->($AND, 0, 0, 0xFF00);
  $add->($EQUAL, 0, 1, 0x9400);
  $add->($RETURN, 0, 0, $ERRNO | $EPERM);
  $add->($RETURN, 0, 0, $ALLOW);
  # Sockets of other families than Unix, IPv4 and IPv6.
  $add->($EQUAL, 0, 5, $call->{socket});
  $add->($LOAD, 0, 0, 16);
  $add->($EQUAL, 3, 0, 1);
  $add->($EQUAL, 2, 0, 2);
  $add->($EQUAL, 1, 0, 10);
  $add->($RETURN, 0, 0, $ERRNO | $EAFNOSUPPORT);
  $add->($RETURN, 0, 0, $ALLOW);
  my $program = pack 'S x6 P', length($code) / 8, $code;
  kernel($call->{prctl}, $PR_SET_SECCOMP, $SECCOMP_MODE_FILTER, $program, 0, 0) or fail('seccomp');
}

# Puts up the walls that are a process' own, and becomes another user. After this it can only run what it was given.
sub enclose {
  my ($walls, $root, $mounts, $processes, $uid, $gid) = @_;
  my ($call, %has) = parse_walls($walls);
  change_root($call, $root, $mounts) if $has{files};
  limit($call, $processes) if $has{limits};
  become($uid, $gid);
  return unless $has{calls};
  kernel($call->{prctl}, $PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or fail('no_new_privs');
  filter_calls($call);
}

# Makes a server's socket directory one that the server cannot write any more, and checks what it made there: a link that it put in the place
# of its socket would lead Neap's superuser elsewhere.
sub seal {
  my ($walls, $sockets, $uid, $pid) = @_;
  my ($call, %has) = parse_walls($walls);
  if ($uid ne '-') {
    chown 0, 0, $sockets or fail($sockets);
    # The server may have opened it to itself while it was its own.
    chmod 0700, $sockets or fail($sockets);
  }
  elsif ($has{files}) {
    for my $namespace ($has{user} ? qw(user mnt) : 'mnt') {
      open(my $file, '<', "/proc/$pid/ns/$namespace") or fail("/proc/$pid/ns/$namespace");
      next if same_file([stat $file], [stat "/proc/self/ns/$namespace"]);
      kernel($call->{setns}, fileno($file) + 0, 0) or fail("setns $namespace");
    }
    mount($call, 'none', $sockets, '', $REMOUNT | $BIND | $RDONLY | $NOSUID | $NODEV | $NOEXEC);
  }
  my $owner = $uid eq '-' ? $< : $uid;
  for (files_in($sockets)) {
    my @found = lstat $_;
    next if m{/\.s\.PGSQL\.\d+$} && -S _ && $found[4] == $owner || m{/\.s\.PGSQL\.\d+\.lock$} && -f _;
    print STDERR "FATAL:  $_ is no socket of this server\n";
    kill 'KILL', $pid;
    exit 128 + $EPERM;
  }
}

# probe WALL…: writes the names of those that can be put up here.
sub probe {
  my ($machine, $directory, @names) = @_;
  my $user = $< && grep { $_ eq 'user' } @names;
  make_directory($directory, 0755);
  for my $name (@names) {
    my $walls = join ':', $machine, join ',', $user && $name ne 'limits' && $name ne 'calls' ? ('user', $name) : $name;
    my $pid = fork // fail('fork');
    if (!$pid) {
      open STDERR, '>', '/dev/null';
      unshare_walls($walls);
      enclose($walls, $directory, "exec /usr\nread /etc/hosts", 4096, '-', '-');
      exit 0;
    }
    waitpid $pid, 0;
    syswrite STDOUT, "$name\n" unless $?;
  }
  leave('done');
}
