# One short-lived process for every effect on a server's home directory. Perl, because an effect must hold kernel locks that Node cannot
# take, drop to another uid and become Postgres, and one perl does that in about a millisecond, the same on Linux and macOS.
#
#   perl effect.pl ACTION HOME FENCE ...
#
# HOME holds: pgdata, conf, server.lock (held by Postgres for its life, or by a copy that fills pgdata), server (which process that is),
# effect.lock (held by one effect), fence (the highest "epoch seq generation" that acted here). FENCE "-" leaves it alone.
use strict;

my ($LOCK_SH, $LOCK_EX, $LOCK_NB) = (1, 2, 4);
my %EXIT = (done => 0, fenced => 80, held => 81, gone => 82, busy => 83, live => 84, stale => 85, based => 86);
my ($ENOENT, $ENOTDIR, $ENOSPC) = (2, 20, 28);
my $EDQUOT = $^O eq "linux" ? 122 : 69;

sub leave { exit $EXIT{$_[0]} }
# The code says what was wrong too: on a full disk the words may never reach their file.
sub fail { my $errno = $! + 0; print STDERR "$_[0]: $!\n"; exit 128 + $errno % 128 }
sub is_absent { return $! == $ENOENT || $! == $ENOTDIR }

# Opens a lock file and takes its lock, waiting at most the given seconds. Undef: the file cannot be opened; 0: another holds it.
sub lock_file {
  my ($path, $mode, $seconds) = @_;
  # A compute that could open it could hold it as well.
  my $mask = umask 077;
  my $opened = open(my $file, '+>>', $path);
  umask $mask;
  return undef unless $opened;
  return $file if flock($file, $mode | $LOCK_NB);
  return 0 unless $seconds;
  local $SIG{ALRM} = sub { };
  alarm $seconds;
  my $taken = flock($file, $mode);
  alarm 0;
  return $taken ? $file : 0;
}

sub same_file { my ($x, $y) = @_; return @$x && @$y && $x->[0] == $y->[0] && $x->[1] == $y->[1] }

# Takes the home's effect lock and lets only an attempt through that is not older than the last one. The lock ends with this process.
my $effect_lock;
sub enter {
  my ($home, $fence) = @_;
  leave('gone') unless -d $home;
  $effect_lock = lock_file("$home/effect.lock", $LOCK_EX, 4);
  defined $effect_lock or is_absent() ? leave('gone') : fail("$home/effect.lock");
  leave('busy') unless $effect_lock;
  leave('gone') unless same_file([stat $effect_lock], [stat "$home/effect.lock"]);
  return if $fence eq '-';
  my @last;
  if (open(my $file, '<', "$home/fence")) {
    @last = (<$file> // '') =~ /\d+/g;
  }
  # One of two numbers is from before there were epochs.
  unshift @last, 0 while @last < 3;
  my @own = split / /, $fence;
  my ($order) = grep { $_ } map { $own[$_] <=> $last[$_] } 0 .. 2;
  leave('fenced') if ($order // 0) < 0;
  return unless $order;
  # Overwritten in place, one write of fixed width: a kill leaves the old fence or the new one, never none.
  open(my $file, -e "$home/fence" ? '+<' : '>', "$home/fence") or fail("$home/fence");
  syswrite($file, sprintf("%-20s %-20s %-20s\n", @own)) or fail("$home/fence");
}

# Whether a process is alive and works in that data directory. Every process of a server does, and a reused pid does not.
sub works_in {
  my ($pid, $pgdata) = @_;
  return 0 unless $pid && $pid > 1;
  return same_file([stat "/proc/$pid/cwd"], [stat $pgdata]) if -d '/proc/self';
  my ($cwd) = grep { s/^n// } split /\n/, `lsof -a -p $pid -d cwd -Fn`;
  return defined $cwd && same_file([stat $cwd], [stat $pgdata]);
}

sub become {
  my ($uid, $gid) = @_;
  return if $uid eq '-';
  $( = $gid;
  $) = "$gid $gid";
  ($<, $>) = ($uid, $uid);
  fail("uid $uid") unless $< == $uid && $> == $uid && $( == $gid;
}

# Names a process for good: a pid alone may be another's by now.
sub started {
  my ($pid) = @_;
  if (open(my $stat, '<', "/proc/$pid/stat")) {
    my ($fields) = (<$stat> // '') =~ /.*\) (.*)/;
    return (split / /, $fields // '')[19] // '';
  }
  return -d '/proc/self' ? '' : join ' ', split ' ', `ps -o lstart= -p $pid`;
}

# The process of a copy that is noted in a file: 0 if it has ended, undef without a note.
sub noted_copy {
  open(my $file, '<', $_[0]) or return undef;
  my ($pid, $start) = (<$file> // '') =~ /^(\d+) (.+)/ or return undef;
  return $start eq started($pid) ? $pid : 0;
}

# Kills the copies that are noted in these files, and forgets them. Returns how many there were.
sub end_copies {
  my $ended = 0;
  for my $note (@_) {
    my $pid = noted_copy($note) // next;
    # With its helpers, which have its locks too: it leads a session.
    $ended += kill 'KILL', -$pid if $pid;
    unlink $note;
  }
  return $ended;
}

sub files_in {
  my ($directory) = @_;
  opendir(my $entries, $directory) or return;
  return map { "$directory/$_" } grep { !/^\.\.?$/ } readdir $entries;
}

sub write_file {
  my ($path, $text) = @_;
  open(my $file, '>', $path) or fail($path);
  print $file $text;
  close $file or fail($path);
}

sub make_directory {
  my ($path, $mode) = @_;
  mkdir $path, $mode and return;
  # The look for it sets another reason.
  my $reason = $!;
  -d $path or do { $! = $reason; fail($path) };
}

# The server of a home, by what its start noted: a pid alone may be another's by now, and inside its walls it does not know its own.
sub server_of {
  my ($home) = @_;
  open(my $file, '<', "$home/server") or return 0;
  my ($pid, $start) = (<$file> // '') =~ /^(\d+) (.+)/ or return 0;
  return $start eq started($pid) && !is_ending($pid) ? $pid : 0;
}

# The first process of a namespace of pids is ending for as long as its children take to end.
sub is_ending {
  my ($pid) = @_;
  open(my $stat, '<', "/proc/$pid/stat") or return 0;
  my ($state, undef, undef, undef, undef, undef, $flags) = split / /, (<$stat> // '') =~ s/.*\) //sr;
  return $state eq 'Z' || $flags & 4;
}

# Gives the files of a home to this user if they are another's: after a restore from a backup, a move, or when two stores had one uid.
# The data directory itself comes last, so that a kill in between is followed by another round.
sub own {
  my ($home, $uid, $gid) = @_;
  return if $uid eq '-';
  my @home = stat $home or fail($home);
  $home[4] == 0 && $home[5] == $gid or chown 0, $gid, $home or fail($home);
  ($home[2] & 07777) == 0710 or chmod 0710, $home or fail($home);
  my @data = stat "$home/pgdata" or fail("$home/pgdata");
  return if $data[4] == $uid && $data[5] == $gid;
  chmod 0700, "$home/pgdata" or fail("$home/pgdata");
  system('find', "$home/pgdata", '-depth', '-exec', 'chown', '-h', "$uid:$gid", '{}', '+') == 0 or fail("$home/pgdata");
}

# start HOME FENCE UID GID WALLS ROOT MOUNTS INSTANCE PROCESSES GROUPS SOCKETS EGRESS CONFIG HBA POSTGRES...: starts Postgres, which
# inherits server.lock, within walls and control groups, with a way out within the filter EGRESS unless that is empty. Ends as it does, or, as soon as
# the caller says on the standard input that it is ready, with its socket directory sealed.
sub start {
  my ($home, $fence, $uid, $gid, $walls, $root, $mounts, $instance, $processes, $groups, $sockets, $egress, $config, $hba,
    @postgres) = @_;
  enter($home, $fence);
  leave('gone') unless -d "$home/pgdata";
  my $server_lock;
  {
    local $^F = 255;
    $server_lock = lock_file("$home/server.lock", $LOCK_EX, 0);
    if (defined $server_lock && !$server_lock) {
      leave('held') if running_server($home);
      # A start never waits for a copy of this home: the copy begins anew from the server that will run.
      leave('held') unless end_copies(files_in("$home/copies")) || end_orphans($home);
      $server_lock = lock_file("$home/server.lock", $LOCK_EX, 2);
    }
  }
  fail("$home/server.lock") unless defined $server_lock;
  leave('busy') unless $server_lock;
  own($home, $uid, $gid);
  repeat_recovery("$home/pgdata");
  # What a killed server left is stale now, or what its tenant put in its place: the lock is ours.
  unlink "$home/server", "$home/pgdata/postmaster.pid", "$home/pgdata/postmaster.opts", files_in($sockets);
  make_directory($sockets, 0700);
  $uid eq '-' or chown $uid, $gid, $sockets or fail($sockets);
  make_directory("$home/conf", 0755);
  write_file("$home/conf/neap.conf", $config);
  write_file("$home/conf/pg_hba.conf", $hba);
  make_directory($root, 0755);
  my @groups = make_groups($groups);
  unshare_walls($walls, $egress eq '' ? '' : 'network');
  pipe(my $noted, my $note) or fail('pipe');
  pipe(my $left, my $leaving) or fail('pipe');
  my $pid = fork // fail('fork');
  if (!$pid) {
    close $note;
    leave_network($walls) if $egress ne '';
    close $leaving;
    <$noted>;
    enclose($walls, $root, $mounts, $processes, $uid, $gid);
    open STDIN, '<', '/dev/null';
    # Libraries that a program finds from where it lies are found through /proc, which there is none of inside the walls.
    $ENV{LD_LIBRARY_PATH} = $postgres[0] =~ s{/bin/[^/]+$}{/lib}r;
    exec { $postgres[0] } @postgres or fail($postgres[0]);
  }
  close $server_lock;
  write_file("$home/server", "$pid " . started($pid) . "\n$instance\n" . stop_times(0, 0));
  close $effect_lock;
  close $note;
  close $leaving;
  <$left> if $egress ne '';
  my $helper = $egress eq '' ? undef : open_egress($walls, $root, $egress, $pid);
  join_groups($pid, @groups);
  my $is_ready = await_ready($pid);
  join_children($pid, @groups);
  leave('held') unless $is_ready;
  await_egress($helper) if $egress ne '';
  seal($walls, $sockets, $uid, $pid);
  leave('done');
}

# Returns whether the caller says that this server is ready, by its pid: it may have seen another, which has ended since, or waits no
# longer, or is gone. Ends as the server does when it ends before.
sub await_ready {
  my ($pid) = @_;
  for (;;) {
    vec(my $wanted = '', fileno STDIN, 1) = 1;
    my $told = select($wanted, undef, undef, 0.05);
    if (waitpid($pid, 1) == $pid) {
      kill $? & 127, $$ if $? & 127;
      exit $? >> 8;
    }
    next unless $told > 0;
    return (<STDIN> // '') eq "$pid\n";
  }
}

# seal HOME FENCE UID WALLS SOCKETS: as a start does in the end, for a server whose start was interrupted.
sub seal_running {
  my ($home, $fence, $uid, $walls, $sockets) = @_;
  enter($home, $fence);
  my $pid = server_of($home) or leave('gone');
  seal($walls, $sockets, $uid, $pid);
  leave('done');
}

# configure HOME FENCE CONFIG: gives what runs here another configuration, which it reads when it is told to.
sub configure {
  my ($home, $fence, $config) = @_;
  enter($home, $fence);
  replace_file("$home/conf/neap.conf", $config);
  leave('done');
}

# Replaces a file, in one step as long as the disk has room and inodes; else in its own blocks: that writes are refused must be written on a full disk.
sub replace_file {
  my ($path, $text) = @_;
  if (open(my $new, '>', "$path.new")) {
    print $new $text;
    return rename("$path.new", $path) || fail($path) if close $new;
  }
  $! == $ENOSPC || $! == $EDQUOT or fail("$path.new");
  unlink "$path.new";
  open(my $file, '+<', $path) or fail($path);
  print $file $text or fail($path);
  truncate($file, length $text) or fail($path);
  close $file or fail($path);
}

# Lets computes and the control plane go first. The kernel derives the priority of reads and writes from the niceness (ioprio_set(2)),
# and shares the CPUs by session where it groups processes automatically: then the niceness of the session counts (sched(7)).
sub give_way {
  my $nice = 5;
  setpriority(0, 0, $nice);
  open(my $group, '>', '/proc/self/autogroup') or return;
  print $group $nice;
}

# Takes the lock of a home whose pgdata is to be filled, and lets others find the process that fills it. Returns the locks, which last as
# long as this process, and "running" when a server runs on the PARENT, else "rest": that server then cannot start before it ends this
# process. REMOVED exists once the branch was removed. PARENT "-": a template or a base, which never runs.
sub begin_copy {
  my ($home, $fence, $gid, $removed, $parent) = @_;
  leave('gone') if length $removed && -e $removed;
  make_directory($home, 0710);
  enter($home, $fence);
  # A copier holds the lock for a moment after its last step: until then a clone of this home would take it for a server.
  leave(lock_file("$home/server.lock", $LOCK_SH, 0) || running_server($home) ? 'done' : 'held') if -d "$home/pgdata";
  $gid eq '-' or chown 0, $gid, $home or fail($home);
  if (length $removed && -e $removed) {
    unlink files_in($home);
    rmdir $home;
    leave('gone');
  }
  my $server_lock = lock_file("$home/server.lock", $LOCK_EX, 0);
  leave('held') if defined $server_lock && !$server_lock;
  fail("$home/server.lock") unless $server_lock;
  my $note = "$$ " . started($$) . "\n";
  unlink "$home/copy.error";
  write_file("$home/copier", $note);
  close $effect_lock;
  return ([$server_lock], 'rest') if $parent eq '-';
  enter($parent, '-');
  my $parent_lock = lock_file("$parent/server.lock", $LOCK_SH, 0);
  if ($parent_lock) {
    repeat_recovery("$parent/pgdata");
    make_directory("$parent/copies", 0700);
    my ($id) = $home =~ m{([^/]+)$};
    write_file("$parent/copies/$id", $note);
  }
  close $effect_lock;
  return ([$server_lock, $parent_lock], $parent_lock ? 'rest' : 'running');
}

# copy HOME FENCE GID REMOVED PARENT COPIER...: becomes the copier that fills pgdata and holds server.lock meanwhile. It is told
# as its last argument whether the parent is at "rest" or "running".
sub copy {
  my ($home, $fence, $gid, $removed, $parent, @copier) = @_;
  local $^F = 255;
  my ($locks, $state) = begin_copy($home, $fence, $gid, $removed, $parent);
  give_way();
  exec { $copier[0] } @copier, $state or fail($copier[0]);
}

# pack HOME FENCE GIVES_WAY PACKER...: becomes the program that packs the data of a store at rest, or unpacks them, and holds server.lock
# meanwhile, noted as a copier. Held: a server runs, or another packs.
sub pack_store {
  my ($home, $fence, $gives_way, @packer) = @_;
  enter($home, $fence);
  local $^F = 255;
  my $server_lock = lock_file("$home/server.lock", $LOCK_EX, 0);
  fail("$home/server.lock") unless defined $server_lock;
  leave('held') unless $server_lock;
  write_file("$home/copier", "$$ " . started($$) . "\n");
  close $effect_lock;
  give_way() if $gives_way eq 'yes';
  exec { $packer[0] } @packer or fail($packer[0]);
}

# stop HOME FENCE SOCKETS SENDERS IMMEDIATE CHECKPOINT KILL: takes the step of a stop that is due (stop.pl). Done: no server runs here, and its
# socket directory is gone, unless that is empty here; held: one does.
sub stop {
  my ($home, $fence, $sockets, @seconds) = @_;
  enter($home, $fence);
  my $free = lock_file("$home/server.lock", $LOCK_SH, 0);
  fail("$home/server.lock") unless defined $free;
  if ($free) {
    # No start makes it meanwhile: that holds both locks. A tenant may have left a directory in it, which goes with the store.
    if (length $sockets) { unlink files_in($sockets); rmdir $sockets }
    leave('done');
  }
  # A copy into a store that is to be stopped belongs to an operation that has failed, or begins anew.
  end_copies("$home/copier");
  urge_to_stop($home, @seconds);
  leave('held');
}

# wait HOME SECONDS: returns when nothing runs here, at most after so many seconds. Shared, so that lookers do not see each other.
sub wait_free {
  my ($home, $seconds) = @_;
  leave('gone') unless -d $home;
  my $free = lock_file("$home/server.lock", $LOCK_SH, $seconds);
  leave($free ? 'done' : 'held') if defined $free;
  # Not knowing is not the same as nothing running.
  is_absent() ? leave('gone') : fail("$home/server.lock");
}

# remove HOME FENCE REMOVED TRASH SIGNAL: moves HOME away for good, when nothing runs in it. Held: something does, and it was
# signalled; KILL goes to every process that holds the lock.
sub remove {
  my ($home, $fence, $removed, $trash, $signal) = @_;
  leave('done') if -e $removed && !-d $home;
  make_directory($home, 0710);
  enter($home, $fence);
  end_copies("$home/copier", files_in("$home/copies"));
  my $free = lock_file("$home/server.lock", $LOCK_EX, 0);
  fail("$home/server.lock") unless defined $free;
  if (!$free) {
    my $pid = running_server($home);
    kill $signal, $signal eq 'KILL' ? holders("$home/server.lock") : $pid || ();
    leave('held');
  }
  # The fence says the same, and a second name for it needs no room: what is removed to make room must not fail for want of it.
  link "$home/fence", $removed or -e $removed or write_file($removed, "$fence\n");
  rename $home, "$trash.$$" or fail($trash);
  leave('done');
}

# end HOME: kills the copy that fills HOME.
sub end {
  my ($home) = @_;
  enter($home, '-');
  end_copies("$home/copier");
  leave('done');
}

# The number that Linux gives pidfd_open on every kind of machine (its manual page: since 5.3).
my $PIDFD_OPEN = 434;

# watch: reads pids from its input, one a line, and writes each on a line as soon as that process has ended. Ends with its input.
sub watch {
  my (%ends, %followed, $text);
  $| = 1;
  my $ended = sub { my ($pid) = @_; delete $ends{$pid}; delete $followed{$pid}; print "$pid\n" };
  for (;;) {
    my $wanted = '';
    vec($wanted, $_, 1) = 1 for fileno STDIN, map { fileno $_ } values %ends;
    # Where no descriptor tells of an end, one looks.
    select(my $found = $wanted, undef, undef, %followed ? 1 : undef);
    kill 0, $_ or $ended->($_) for keys %followed;
    vec($found, fileno $ends{$_}, 1) and $ended->($_) for keys %ends;
    next unless vec($found, fileno STDIN, 1);
    sysread(STDIN, $text, 4096, length($text //= '')) or leave('done');
    while ($text =~ s/^(\d+)\n//) {
      my $pid = $1 + 0;
      my $descriptor = $^O eq 'linux' ? syscall($PIDFD_OPEN, $pid, 0) : -1;
      $descriptor >= 0 ? open($ends{$pid}, '<&=', $descriptor) : kill(0, $pid) ? $followed{$pid} = 1 : $ended->($pid);
    }
  }
}

# take SECONDS: locks the file that the caller has open as descriptor 3, for the caller.
sub take {
  my ($seconds) = @_;
  open(my $file, '>>&=', 3) or fail('descriptor 3');
  local $SIG{ALRM} = sub { };
  alarm $seconds;
  leave(flock($file, $LOCK_EX) ? 'done' : 'busy');
}

# serve: forks an effect for each line "run ID OUTPUT ARGUMENT..." of its input, and writes "ID CODE COMPLAINT" when it has ended; CODE is -1
# where a signal ended it. OUTPUT: the file for all that it writes, or "-". "tell ID TEXT" goes to its standard input, which then ends. All
# but CODE is in hexadecimal digits, since a path may hold any byte. Ends with its input; effects go on.
my %effects;

sub serve {
  require POSIX;
  # For clones, of which each would load them.
  require Fcntl;
  require IO::Handle;
  $SIG{PIPE} = 'IGNORE';
  my $text = '';
  for (;;) {
    my $wanted = '';
    vec($wanted, $_, 1) = 1 for fileno STDIN, map { fileno $_->{life} } values %effects;
    select($wanted, undef, undef, undef) > 0 or next;
    for my $id (grep { vec($wanted, fileno $effects{$_}{life}, 1) } keys %effects) {
      next if sysread($effects{$id}{life}, $effects{$id}{complaint}, 4096, length $effects{$id}{complaint});
      waitpid $effects{$id}{pid}, 0;
      answer($id, $? & 127 ? -1 : $? >> 8, $effects{$id}{complaint});
      delete $effects{$id};
    }
    next unless vec($wanted, fileno STDIN, 1);
    sysread(STDIN, $text, 65536, length $text) or leave('done');
    obey(map { pack 'H*', $_ } split / /, $1, -1) while $text =~ s/^(.*)\n//;
  }
}

sub answer {
  my ($id, $code, $complaint) = @_;
  syswrite STDOUT, join(' ', unpack('H*', $id), $code, unpack('H*', substr $complaint, 0, 8192)) . "\n";
}

sub obey {
  my ($what, $id, @given) = @_;
  if ($what eq 'tell') {
    # It may have ended meanwhile.
    my $effect = $effects{$id} or return;
    my $input = delete $effect->{input} or return;
    syswrite $input, $given[0] if length $given[0];
    return;
  }
  my ($output, @arguments) = @given;
  pipe(my $life, my $living) or return answer($id, 128 + $!, 'pipe');
  pipe(my $told, my $input) or return answer($id, 128 + $!, 'pipe');
  my $pid = fork // return answer($id, 128 + $!, 'fork');
  if ($pid) {
    $effects{$id} = { pid => $pid, life => $life, input => $input, complaint => '' };
    return;
  }
  $SIG{PIPE} = 'DEFAULT';
  POSIX::setsid();
  # An effect that had these would keep the others from hearing of this process' end.
  %effects = ();
  close $input;
  open STDIN, '<&', $told or fail('standard input');
  open STDOUT, '>>', $output eq '-' ? '/dev/null' : $output or fail($output);
  open STDERR, '>&', $output eq '-' ? $living : \*STDOUT or fail('standard error');
  close $living if $output eq '-';
  $0 = "neap effect: @arguments[0, 1]";
  perform(@arguments);
  exit;
}

my %ACTION = (serve => \&serve, probe => \&probe, probe_egress => \&probe_egress, start => \&start, seal => \&seal_running, configure => \&configure, copy => \&copy, clone => \&clone, extents => \&count_extents, snapshot => \&snapshot, complete => \&complete, pack => \&pack_store, stop => \&stop, wait => \&wait_free, remove => \&remove, end => \&end, take => \&take, watch => \&watch);
sub perform { my $action = $ACTION{+shift} or die "unknown action\n"; $action->(@_) }
umask 022;
perform(@ARGV);
