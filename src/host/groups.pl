# Control groups of a compute, which hold it to its size (cgroups(7)). GROUPS: lines of "join DIRECTORY" and "set FILE VALUE", divided by
# tabs. A limit that cannot be set is left: the compute runs without it.
use strict;

sub put {
  my ($path, $value) = @_;
  open(my $file, '>', $path) or return;
  syswrite $file, $value;
}

# Makes the groups and returns those to join.
sub make_groups {
  my @joined;
  for (split /\n/, $_[0]) {
    my ($what, $path, $value) = split /\t/;
    if ($what eq 'set') { put($path, $value); next }
    mkdir $path, 0755 or mkdir $path =~ s{/[^/]+$}{}r, 0755 and mkdir $path, 0755;
    push @joined, $path;
  }
  return @joined;
}

# Moves a server into its groups. The kernel takes up to 25 ms for the first one (it waits until no CPU forks), so the server starts
# meanwhile; join_children moves those that it has forked before.
sub join_groups {
  my ($pid, @groups) = @_;
  put("$_/cgroup.procs", $pid) for @groups;
}

sub join_children {
  my ($pid, @groups) = @_;
  return unless @groups;
  my %inside = map { $_ => 1 } numbers_in("$groups[-1]/cgroup.procs");
  join_groups($_, @groups) for grep { !$inside{$_} } numbers_in("/proc/$pid/task/$pid/children");
}

sub numbers_in {
  my ($path) = @_;
  open(my $file, '<', $path) or return;
  local $/;
  return split ' ', <$file> // '';
}
