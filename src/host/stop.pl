# How a server is stopped (docs/stops.md). Each call takes the step that is due by the time since the first one, which the server's note keeps:
#
#   SIGINT (fast shutdown) --SENDERS s--> SIGTERM to walsenders --IMMEDIATE s, CHECKPOINT s without sessions--> SIGQUIT (immediate shutdown)
#     --KILL s--> SIGKILL to all of its processes
#
# After an immediate shutdown, and after SIGKILL, the next start recovers from the WAL: no commit is lost.
use strict;

sub urge_to_stop {
  my ($home, $senders, $immediate, $checkpoint, $kill) = @_;
  my $pid = running_server($home) or return end_orphans($home);
  my $now = uptime();
  my ($since, $quit) = read_stop($home);
  note_stop($home, $since = $now, 0) unless $since;
  if ($quit) {
    return kill 'QUIT', $pid if $now - $quit < $kill;
    return kill 'KILL', $pid, holders("$home/server.lock");
  }
  my @titles = children_of($pid);
  if ($now - $since >= (has_sessions(@titles) ? $immediate : $checkpoint)) {
    note_stop($home, $since, $now);
    return kill 'QUIT', $pid;
  }
  kill 'INT', $pid;
  # The shutdown waits until the client of a walsender has confirmed all WAL. A client behind a paused proxy, or one that hangs, never does.
  if ($now - $since >= $senders) { kill 'TERM', $_->[0] for grep { $_->[1] =~ /^postgres: (?:\S+: )?walsender / } @titles }
  # Until the server has noticed, its file says that it is ready, and the next start would adopt it.
  for (1 .. 1000) {
    last if is_stopping("$home/pgdata") || started($pid) eq '';
    select undef, undef, undef, 0.001;
  }
}

# Pids and titles of a server's processes besides the first. Empty where the kernel does not tell.
sub children_of {
  my ($pid) = @_;
  return map { [$_, title_of($_)] } numbers_in("/proc/$pid/task/$pid/children");
}

sub title_of {
  my ($pid) = @_;
  open(my $file, '<', "/proc/$pid/cmdline") or return '';
  local $/;
  return (<$file> // '') =~ tr/\0/ /r;
}

# Whether more runs than the processes that write the shutdown checkpoint, and those that outlive it.
sub has_sessions { return grep { $_->[1] !~ /^postgres: (?:\S+: )?(?:checkpointer|io worker|archiver|walsender)\b/ } @_ }

# Ends what a killed server has left: its sessions run on until their queries end, and keep its lock. Returns how many there were.
sub end_orphans {
  my ($home) = @_;
  # A copy that fills this home has its lock as well.
  if (open(my $note, '<', "$home/copier")) {
    my ($pid, $start) = (<$note> // '') =~ /^(\d+) (.+)/;
    return 0 if $pid && $start eq started($pid);
  }
  my @orphans = holders("$home/server.lock") or return 0;
  kill 'QUIT', @orphans;
  for (1 .. 50) {
    select undef, undef, undef, 0.02;
    last unless holders("$home/server.lock");
  }
  kill 'KILL', holders("$home/server.lock");
  return scalar @orphans;
}

# The processes that have the exclusive lock of a file, by the kernel's word (proc_pid_fdinfo(5)): those that wait for it have it open too.
sub holders {
  my ($path) = @_;
  return grep { $_ != $$ } split /\s+/, `lsof -t -- '$path'` unless -d '/proc/self';
  my $wanted = [stat $path];
  return grep {
    my $pid = $_;
    $pid != $$ && grep { same_file([stat $_], $wanted) && is_lock("/proc/$pid/fdinfo/" . s{.*/}{}r) } files_in("/proc/$pid/fd");
  } map { m{/(\d+)$} ? $1 : () } files_in('/proc');
}

sub is_lock {
  my ($path) = @_;
  open(my $file, '<', $path) or return 0;
  return scalar grep { /^lock:.*FLOCK +ADVISORY +WRITE/ } <$file>;
}

# Since when a server is being stopped, and since when at once, in seconds of uptime; 0: it is not. Overwritten in place in the server's note:
# on a full disk as well.
sub stop_times { return sprintf "%-16s %-16s\n", @_ }

sub read_stop {
  my ($home) = @_;
  open(my $file, '<', "$home/server") or return (0, 0);
  my (undef, undef, $times) = <$file>;
  return ($times // '') =~ /^([\d.]+) +([\d.]+)/ ? ($1, $2) : (0, 0);
}

sub note_stop {
  my ($home, @times) = @_;
  open(my $file, '+<', "$home/server") or return;
  my ($process, $instance) = (scalar <$file>, scalar <$file>);
  # A note of an earlier Neap has no instance.
  return unless defined $instance;
  seek $file, length($process) + length $instance, 0;
  print $file stop_times(@times);
}

# A clock that nobody sets: seconds since boot, where there is one.
sub uptime {
  open(my $file, '<', '/proc/uptime') or return time;
  return (split / /, <$file>)[0];
}

sub running_server { my ($home) = @_; return server_of($home) || unnoted_server("$home/pgdata") }

# A server that was started without walls and without a note, by Neap as it was before these: it is only ever stopped.
sub unnoted_server {
  my ($pgdata) = @_;
  my ($pid) = (postmaster_file($pgdata))[0] =~ /^(\d+)/;
  return works_in($pid, $pgdata) ? $pid : 0;
}

# What a server says of itself in the eighth line of its file.
sub is_stopping {
  my ($pgdata) = @_;
  my @lines = postmaster_file($pgdata) or return 1;
  return ($lines[7] // '') =~ /^stopping/;
}

# The lines of postmaster.pid. The server's own user may have put anything in its place: a link, a FIFO, or a file of terabytes.
sub postmaster_file {
  my ($pgdata) = @_;
  require Fcntl;
  my $flags = Fcntl::O_RDONLY() | Fcntl::O_NOFOLLOW() | Fcntl::O_NONBLOCK();
  sysopen(my $file, "$pgdata/postmaster.pid", $flags) or return;
  return unless -f $file;
  sysread($file, my $text, 4096);
  return split /\n/, $text;
}

