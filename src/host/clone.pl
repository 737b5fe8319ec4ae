# Clones of data directories by reflinks, on Linux. What a clone of a running server needs beside its files is written by `complete`.
#
# The files of a running server are copied while it writes them, as pg_rewind and a backup from a standby do: the control file first, then
# all files, then the WAL from the redo position of that control file up to an end that the server has told since. Recovery from there
# repairs all pages, since full_page_writes is always on: a page that was written meanwhile has a full image in this WAL. backup_label
# and pg_control say so as for a backup from a standby, so that Postgres fails if it cannot replay up to that end.
use strict;

my ($FICLONE, $FSGETXATTR) = (0x40049409, 0x801c581f);
# Of Btrfs, with struct btrfs_ioctl_vol_args_v2 (linux/btrfs.h).
my ($SNAPSHOT_CREATE, $SUBVOLUME_CREATE) = (0x50009417, 0x50009418);
my ($SUBVOLUME_INODE, $STUB_INODE) = (256, 2);
my ($CONTROL, $CONTROL_BYTES) = ('global/pg_control', 8192);
my $SEGMENT_BYTES = 1 << 24;
my ($CHUNK_FILES, $CHUNK_BYTES) = (32, 1 << 16);
# So many numbers of 4 bytes a pipe holds (pipe(7)).
my $PIPE_NUMBERS = 16_384;
my $RELATION = qr{^(global|base/\d+)/\d+(_[a-z]+)?(\.\d+)?$};
# States of a cluster in pg_control.h.
my ($SHUT_DOWN, $SHUT_DOWN_IN_RECOVERY, $IN_RECOVERY, $IN_PRODUCTION) = (1, 2, 5, 6);
# Places in pg_control of Postgres 15 to 18.
my %AT = (state => 16, checkpoint => 32, redo => 40, timeline => 48, full_page_writes => 56, end => 136, end_timeline => 144);

# Opens a path below an open directory, each name relative to the one before it and never a link: code in a compute may exchange them.
# Undef where there is none.
sub open_below {
  my ($directory, $path, $flags) = @_;
  my $at = $directory;
  my @names = split m{/}, $path;
  while (defined(my $name = shift @names)) {
    my $mode = Fcntl::O_NOFOLLOW() | Fcntl::O_NONBLOCK() | (@names ? Fcntl::O_DIRECTORY() : $flags // 0);
    sysopen(my $next, '/proc/self/fd/' . fileno($at) . "/$name", $mode) or return undef;
    $at = $next;
  }
  return $at;
}

sub open_tree {
  my ($path) = @_;
  sysopen(my $top, $path, Fcntl::O_DIRECTORY() | Fcntl::O_NOFOLLOW()) or fail($path);
  return $top;
}

sub create_file {
  my ($path, $uid, $gid) = @_;
  sysopen(my $file, $path, Fcntl::O_WRONLY() | Fcntl::O_CREAT() | Fcntl::O_EXCL(), 0600) or fail($path);
  $uid eq '-' or chown $uid, $gid, $file or fail($path);
  return $file;
}

# Clones one open file. Some files of a filesystem that clones cannot be cloned, as those without copy-on-write on Btrfs.
sub clone_into {
  my ($from, $to, $path) = @_;
  return if ioctl($to, $FICLONE, fileno($from) + 0);
  my $position = 0;
  while (my $length = sysread($from, my $bytes, $CHUNK_BYTES) // fail($path)) {
    sysseek $to, $position, 0;
    # Zeros take no room.
    ($bytes =~ tr/\0//c ? syswrite $to, $bytes : $length) == $length or fail($path);
    $position += $length;
  }
  truncate($to, $position) && $to->sync or fail($path);
}

sub write_new {
  my ($path, $text, $uid, $gid) = @_;
  my $file = create_file($path, $uid, $gid);
  (syswrite($file, $text) // -1) == length $text or fail($path);
  return $file;
}

# Clones a tree, its files in CPUS processes. LEFT_OUT: a pattern of paths. Files that vanish meanwhile are left out.
sub clone_tree {
  my ($source, $target, $uid, $gid, $left_out, $cpus) = @_;
  my ($top, @work) = open_tree($source);
  my @directories = ('');
  while (defined(my $below = shift @directories)) {
    my $directory = length $below ? open_below($top, $below, Fcntl::O_DIRECTORY()) // next : $top;
    my $here = '/proc/self/fd/' . fileno $directory;
    my @files;
    for my $found (files_in($here)) {
      my $name = substr $found, 1 + length $here;
      my $path = length $below ? "$below/$name" : $name;
      next if $path =~ $left_out || $path eq $CONTROL;
      # Most files are relations: what these names are is looked at when they are open.
      if ($path =~ $RELATION) { push @files, $name; next }
      lstat $found or next;
      if (-d _) { make_owned("$target/$path", $uid, $gid); push @directories, $path }
      elsif (-f _) { push @files, $name }
    }
    push @work, [$below, splice @files, 0, $CHUNK_FILES] while @files;
  }
  # Each takes the next piece of work when it has done the last: one file may take as long as all others.
  pipe(my $next, my $queue) or fail('pipe');
  my @helpers = map { my $pid = fork // fail('fork'); $pid or take_work($top, $next, $queue, $target, $uid, $gid, \@work); $pid } 2 .. $cpus;
  push @helpers, write_numbers($next, $queue, scalar @work);
  close $queue;
  clone_pieces($top, $next, $target, $uid, $gid, \@work);
  for my $pid (@helpers) { waitpid $pid, 0; exit(($? >> 8) || 128) if $? }
}

# Writes the numbers of all work. More than the pipe holds are written by another process, which is returned: this one reads as well.
sub write_numbers {
  my ($next, $queue, $count) = @_;
  my $is_long = $count > $PIPE_NUMBERS;
  my $pid = $is_long ? fork // fail('fork') : 0;
  return $pid if $pid;
  # It ends when those that read have ended.
  close $next if $is_long;
  syswrite $queue, pack('N', $_) for 0 .. $count - 1;
  exit 0 if $is_long;
  return;
}

sub take_work {
  my ($top, $next, $queue, @more) = @_;
  close $queue;
  clone_pieces($top, $next, @more);
  exit 0;
}

sub clone_pieces {
  my ($top, $next, $target, $uid, $gid, $work) = @_;
  while (sysread($next, my $number, 4)) {
    my ($below, @names) = @{$work->[unpack 'N', $number]};
    my $directory = length $below ? open_below($top, $below, Fcntl::O_DIRECTORY()) // next : $top;
    # A name that is relative to it is found sooner than through /proc.
    chdir $directory or fail("$target/$below");
    clone_file(undef, $_, "$target/" . (length $below ? "$below/$_" : $_), $uid, $gid) for @names;
  }
}

# Clones a file of an open directory; undef: of the working directory. Returns whether the file was there.
sub clone_file {
  my ($directory, $name, $target, $uid, $gid) = @_;
  my $place = $directory ? '/proc/self/fd/' . fileno($directory) . "/$name" : $name;
  sysopen(my $from, $place, Fcntl::O_NOFOLLOW() | Fcntl::O_NONBLOCK()) or return 0;
  return 0 unless -f $from;
  my $to = create_file($target, $uid, $gid);
  clone_into($from, $to, $target) if -s _;
  return 1;
}

# Makes a subvolume of Btrfs, as a snapshot of the open directory SOURCE if that is given. Data directories are subvolumes there: a snapshot
# takes the same time whatever their extents. Returns false on another filesystem, or if SOURCE is no subvolume.
sub make_subvolume {
  my ($request, $path, $source) = @_;
  return 0 if $source && (stat $source)[1] != $SUBVOLUME_INODE;
  my ($parent, $name) = $path =~ m{(.*)/(.*)};
  ioctl(open_tree($parent), $request, pack 'q Q Q x32 a4040', $source ? fileno $source : 0, 0, 0, $name) or return 0;
  return chmod 0700, $path;
}

# Removes paths of a pattern from a snapshot, as what a clone leaves out, and gives the other files to this user.
sub keep_files {
  my ($top, $uid, $gid, $left_out) = @_;
  my @directories = ($top);
  own_entry($top, $uid, $gid);
  while (defined(my $directory = shift @directories)) {
    for my $path (files_in($directory)) {
      my $name = substr $path, 1 + length $top;
      my $inode = (lstat $path)[1];
      my $is_kept = $name !~ $left_out;
      # A subvolume in the source is an empty directory in its snapshot.
      if (-d _ && $inode == $STUB_INODE) { rmdir $path or fail($path) }
      elsif (-d _ && !$is_kept) { discard($path) }
      elsif (-d _) { push @directories, $path; own_entry($path, $uid, $gid) }
      elsif (-f _ && $is_kept) { own_entry($path, $uid, $gid) }
      else { unlink $path or fail($path) }
    }
  }
}

# snapshot FROM PLACE UID GID: makes PLACE a snapshot of pgdata in FROM, which no server writes. Gone: that is no subvolume of Btrfs.
sub snapshot {
  my ($from, $place, $uid, $gid) = @_;
  require Fcntl;
  make_subvolume($SNAPSHOT_CREATE, $place, open_tree("$from/pgdata")) or leave('gone');
  keep_files($place, $uid, $gid, qr/(?!)/);
  leave('done');
}

sub own_entry {
  my ($path, $uid, $gid) = @_;
  return $uid eq '-' || chown($uid, $gid, $path) || fail($path);
}

sub make_owned {
  my ($path, $uid, $gid) = @_;
  mkdir $path, 0700 or fail($path);
  own_entry($path, $uid, $gid);
}

# Postgres rewrites the control file in place: two equal reads in a row show that neither is torn.
sub read_control {
  my ($directory) = @_;
  my $file = open_below($directory, $CONTROL);
  $file && -f $file or fail($CONTROL);
  my ($before, $now) = ('');
  for (1 .. 1000) {
    sysseek $file, 0, 0;
    defined sysread($file, $now, $CONTROL_BYTES) or fail($CONTROL);
    return $now if $now eq $before;
    $before = $now;
  }
  fail($CONTROL);
}

# clone HOME FENCE UID GID REMOVED FROM RUNS BASE LEFT_OUT CPUS SYNC: fills pgdata with a clone of that in FROM. RUNS: "1" where a server may
# run in FROM; "spare" for a spare of FROM, for which there is time, and which is not made while a server runs; "" for files that never
# change. BASE: where a server runs, a spare of this base is to be taken, unless it is "". Live, and based, if that was taken: a server
# runs, and `complete` is to complete the copy. SYNC as in sync_home.
sub clone {
  my ($home, $fence, $uid, $gid, $removed, $from, $runs, $base, $left_out, $cpus, $sync) = @_;
  require Fcntl;
  require IO::Handle;
  my $is_spare = $runs eq 'spare';
  my ($locks, $state) = begin_copy($home, $fence, $gid, $removed, $runs ? $from : '-');
  # Clones that were asked for go first: both would wait for each other's locks on files.
  leave('busy') if $is_spare && ($state eq 'running' || grep { !m{/spare\.making$} && noted_copy($_) } files_in("$from/copies"));
  give_way() if $is_spare;
  my $making = "$home/pgdata.making";
  discard($making) if -e $making;
  my $top = open_tree("$from/pgdata");
  my $tablespaces = open_below($top, 'pg_tblspc', Fcntl::O_DIRECTORY());
  if ($tablespaces && files_in('/proc/self/fd/' . fileno $tablespaces)) {
    print STDERR "The parent has tablespaces of its own: a branch cannot be made of it. Drop them first.\n";
    exit 128 + 1;
  }
  my $control = read_control($top);
  my $is_taken =
    $state eq 'running' ? length $base && take_base($from, $base, $making) : !$is_spare && take_spare($from, $making, $control);
  if (!$is_taken) {
    if (make_subvolume($SNAPSHOT_CREATE, $making, $top)) { keep_files($making, $uid, $gid, qr/$left_out|^$CONTROL$/) }
    else {
      make_owned($making, $uid, $gid) unless make_subvolume($SUBVOLUME_CREATE, $making) && own_entry($making, $uid, $gid);
      clone_tree("$from/pgdata", $making, $uid, $gid, qr/$left_out/, $cpus);
    }
    # Later is too late for a server that runs, whose last checkpoint may be another by now.
    if ($state eq 'running') { write_new("$making/$CONTROL", $control, $uid, $gid) }
    else { clone_file($top, $CONTROL, "$making/$CONTROL", $uid, $gid) or fail($CONTROL) }
  }
  finish($home, $uid, $gid, $from, $runs, $sync, $is_taken) if $state ne 'running';
  unlink "$home/copier", "$from/copies/" . $home =~ s{.*/}{}r;
  leave($state ne 'running' ? 'done' : $is_taken ? 'based' : 'live');
}

sub discard {
  my ($path) = @_;
  system('rm', '-rf', $path) == 0 or fail($path);
}

# Moves a spare of FROM into place, unless a server has run in FROM since it was made: each run writes another control file. Its files are
# their server's from its first start on.
sub take_spare {
  my ($from, $making, $control) = @_;
  for my $spare (spares_of($from)) { return 1 if (control_of_spare($spare) // '') eq $control && move_spare($spare, $making) }
  return 0;
}

sub spares_of { return sort grep { m{/spare(\.\d+)?$} } files_in($_[0]) }

# Moves a spare of a BASE of FROM into place, if a server that runs in FROM still has the WAL that follows.
sub take_base {
  my ($from, $base, $making) = @_;
  for my $spare (spares_of($base)) {
    my $control = control_of_spare($spare) // next;
    my ($timeline, $redo, $end) = map { unpack $_->[1], substr $control, $AT{$_->[0]}, 8 } ['timeline', 'L'], ['redo', 'Q'], ['end', 'Q'];
    my $follows = segment_name($timeline, $end || $redo);
    open_below(open_tree("$from/pgdata"), "pg_wal/$follows") or return 0;
    move_spare($spare, $making) or next;
    # The last segment that it has may have been half written then.
    unlink "$making/backup_label", grep { m{/([0-9A-F]{24})$} && $1 ge $follows } files_in("$making/pg_wal");
    return 1;
  }
  return 0;
}

sub control_of_spare {
  my ($spare) = @_;
  sysopen(my $top, $spare, Fcntl::O_DIRECTORY() | Fcntl::O_NOFOLLOW()) or return undef;
  my $file = open_below($top, "pgdata/$CONTROL") or return undef;
  sysread($file, my $control, $CONTROL_BYTES) == $CONTROL_BYTES or return undef;
  return $control;
}

sub move_spare {
  my ($spare, $making) = @_;
  rename "$spare/pgdata", $making or return 0;
  return 1 if -e "$making/$CONTROL";
  # It was being removed.
  discard($making);
  return 0;
}

# A file of fewer bytes has few extents.
my ($LARGE_BYTES, $COUNT_SECONDS) = (1 << 20, 3);

# extents HOME LIMIT: stale if the large files in pgdata have more extents, as far as the filesystem tells (struct fsxattr in linux/fs.h).
sub count_extents {
  my ($home, $limit) = @_;
  require Fcntl;
  my $top = open_below(open_tree($home), 'pgdata/base', Fcntl::O_DIRECTORY()) // leave('gone');
  # The tenant decides how many files and directories there are.
  my ($extents, $until) = (0, time + $COUNT_SECONDS);
  opendir(my $databases, '/proc/self/fd/' . fileno $top) or leave('gone');
  while (defined(my $database = readdir $databases)) {
    next if $database =~ /^\.\.?$/;
    my $directory = open_below($top, $database, Fcntl::O_DIRECTORY()) or next;
    chdir $directory or next;
    opendir(my $names, '.') or next;
    while (defined(my $name = readdir $names)) {
      leave($extents > $limit ? 'stale' : 'done') if $extents > $limit || time > $until;
      lstat $name or next;
      next unless -f _ && -s _ > $LARGE_BYTES;
      sysopen(my $file, $name, Fcntl::O_NOFOLLOW() | Fcntl::O_NONBLOCK()) or next;
      my $attributes = "\0" x 28;
      $extents += (unpack 'L3', $attributes)[2] if ioctl($file, $FSGETXATTR, $attributes);
    }
  }
  leave($extents > $limit ? 'stale' : 'done');
}

# complete HOME FENCE UID GID FROM SYNC END TIMELINE SUBSCRIBED STATE: completes the clone of a running server, which has written its WAL up
# to the position END ("0/3000028") since. STATE as `clone` left it. Stale: from its last checkpoint on there is no recovery to there.
sub complete {
  my ($home, $fence, $uid, $gid, $from, $sync, $end, $timeline, $subscribed, $state) = @_;
  require Fcntl;
  require IO::Handle;
  enter($home, $fence);
  leave('gone') unless -d "$home/pgdata.making";
  finish($home, $uid, $gid, $from, 1, $sync, 0, $end, $timeline, $subscribed, $state eq 'based');
  leave('done');
}

sub finish {
  my ($home, $uid, $gid, $from, $runs, $sync, $has_wal, $end, $timeline, $subscribed, $is_based) = @_;
  my $making = "$home/pgdata.making";
  my $control = read_control(open_tree($making));
  my $wal = open_below(open_tree("$from/pgdata"), 'pg_wal', Fcntl::O_DIRECTORY()) // fail("$from/pgdata/pg_wal");
  my $field = sub { unpack $_[1], substr $control, $AT{$_[0]}, 8 };
  my ($state, $tli, $redo) = ($field->('state', 'L'), $field->('timeline', 'L'), $field->('redo', 'Q'));
  # A store that was itself cloned from a running server, or fetched from a repository, and never started: all of its WAL is needed.
  my $is_backup = inherit_recovery($home, $from) || -e "$making/backup_label";
  if (defined $end) {
    my ($high, $low) = map { hex } split m{/}, $end;
    $end = $high << 32 | $low;
    my $has_redo = $is_based ? $state == $SHUT_DOWN || $state == $SHUT_DOWN_IN_RECOVERY : $state == $IN_PRODUCTION;
    leave('stale') unless $has_redo && $tli == hex $timeline && $field->('full_page_writes', 'C');
    for (my $position = $redo - $redo % $SEGMENT_BYTES; $position < $end; $position += $SEGMENT_BYTES) {
      my $name = segment_name($tli, $position);
      next if $is_based && -e "$making/pg_wal/$name";
      # Postgres gives a segment that it needs no more another name, and writes it anew.
      my $path = '/proc/self/fd/' . fileno($wal) . "/$name";
      my @before = lstat $path;
      clone_file($wal, $name, "$making/pg_wal/$name", $uid, $gid) && same_file(\@before, [lstat $path]) or leave('stale');
    }
    # The page of a checkpoint just after a restore is of the timeline before.
    my $history = sprintf '%08X.history', $tli;
    clone_file($wal, $history, "$making/pg_wal/$history", $uid, $gid) if $tli > 1 && !-e "$making/pg_wal/$history";
    unlink "$making/$CONTROL" or fail("$making/$CONTROL");
    my @written = (
      write_new("$making/backup_label", label_of($tli, $redo, $field->('checkpoint', 'Q')), $uid, $gid),
      write_new("$making/$CONTROL", in_recovery($control, $tli, $end), $uid, $gid),
    );
    $_->sync or fail($making) for @written;
  }
  else {
    my $first = segment_name($tli, $redo);
    # The checkpoint record ends the WAL and is shorter than this. Later segments are old ones kept for recycling.
    my $last = $state == $SHUT_DOWN ? segment_name($tli, $field->('checkpoint', 'Q') + 512) : undef;
    my $here = '/proc/self/fd/' . fileno $wal;
    for my $name ($has_wal ? () : grep { /^[0-9A-F]{8}([0-9A-F]{16}|\.history)$/ } map { substr $_, 1 + length $here } files_in($here)) {
      next unless $is_backup || length $name < 24 || $name ge $first && (!defined $last || $name le $last);
      clone_file($wal, $name, "$making/pg_wal/$name", $uid, $gid);
    }
    # After a crash, subscriptions may exist in the WAL only. A parent that never ran has its own parent's; its mark records them.
    $subscribed = !$is_backup && $state != $SHUT_DOWN || !-z "$making/global/6100";
  }
  write_file("$home/subscribed", '') if $runs && ($subscribed || -e "$from/subscribed");
  inherit_password($home, $from);
  sync_home($home, $sync) if $sync eq 'all';
  rename $making, "$home/pgdata" or fail("$home/pgdata");
  sync_home($home, 'log');
}

# A clone has its parent's passwords until its first start.
sub inherit_password {
  my ($home, $from) = @_;
  inherit_note($home, $from, 'password_of', 0644);
}

# A clone of a store whose first start is to recover it (recover_store.ts) recovers in the same way. Returns whether it does.
sub inherit_recovery {
  my ($home, $from) = @_;
  inherit_note($home, $from, 'recovery', 0600) or return 0;
  my $signal = "$home/pgdata.making/recovery.signal";
  -e $signal or write_new($signal, '', (stat "$home/pgdata.making")[4, 5]);
  return 1;
}

# Copies a note of the home that a clone is made of. Returns whether there is one.
sub inherit_note {
  my ($home, $from, $name, $mode) = @_;
  unlink "$home/$name", "$home/$name.new";
  clone_file(open_tree($from), $name, "$home/$name.new", '-', '-') or return 0;
  chmod $mode, "$home/$name.new" or fail("$home/$name.new");
  rename "$home/$name.new", "$home/$name" or fail("$home/$name");
  return 1;
}

# Makes a clone durable. XFS commits changes of metadata in their order, and a clone is nothing else: one fsync is enough for all of them
# ("log"). Other filesystems are synced ("all").
sub sync_home {
  my ($home, $sync) = @_;
  if ($sync eq 'all') { system('sync', '-f', $home) == 0 or fail($home); return }
  open_tree($home)->sync or fail($home);
}

sub segment_name {
  my ($timeline, $position) = @_;
  return sprintf '%08X%08X%08X', $timeline, $position >> 32, ($position & 0xFFFFFFFF) / $SEGMENT_BYTES;
}

sub label_of {
  my ($timeline, $redo, $checkpoint) = @_;
  my ($from, $at) = map { sprintf '%X/%X', $_ >> 32, $_ & 0xFFFFFFFF } $redo, $checkpoint;
  my $file = segment_name($timeline, $redo);
  return "START WAL LOCATION: $from (file $file)\nCHECKPOINT LOCATION: $at\nBACKUP METHOD: streamed\nBACKUP FROM: standby\n"
    . "LABEL: neap\nSTART TIMELINE: $timeline\n";
}

# A control file from which recovery is to reach this end. Its checksum lies behind its last field, at a place that differs by version.
sub in_recovery {
  my ($control, $timeline, $end) = @_;
  my @table = map { my $crc = $_; $crc = $crc & 1 ? $crc >> 1 ^ 0x82F63B78 : $crc >> 1 for 1 .. 8; $crc } 0 .. 255;
  my $checksum = sub {
    my $crc = 0xFFFFFFFF;
    $crc = $table[($crc ^ $_) & 0xFF] ^ $crc >> 8 for unpack "C$_[0]", $control;
    return $crc ^ 0xFFFFFFFF;
  };
  my ($place) = grep { unpack('L', substr $control, $_, 4) == $checksum->($_) } map { 4 * $_ } 48 .. 120;
  defined $place or fail($CONTROL);
  substr($control, $AT{state}, 4) = pack "L", $SHUT_DOWN_IN_RECOVERY;
  substr($control, $AT{end}, 12) = pack 'Q L', $end, $timeline;
  substr($control, $place, 4) = pack 'L', $checksum->($place);
  return $control;
}

# Gives a clone whose first recovery was killed its label again. Postgres puts it away when it begins, and without it would look for the
# end of the backup in vain.
sub repeat_recovery {
  my ($pgdata) = @_;
  return if !-e "$pgdata/backup_label.old" || -e "$pgdata/backup_label" || -e "$pgdata/recovery.signal";
  require Fcntl;
  my ($state) = unpack 'L', substr read_control(open_tree($pgdata)), $AT{state}, 4;
  $state == $IN_RECOVERY or return;
  rename "$pgdata/backup_label.old", "$pgdata/backup_label" or fail("$pgdata/backup_label");
}
