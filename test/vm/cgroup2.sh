#!/bin/bash
# Control groups of version 2: as root, and as an ordinary user to whom a group was delegated, as systemd does with Delegate=yes.
set -euo pipefail
uname -sr
cat /proc/self/cgroup /sys/fs/cgroup/cgroup.controllers
tests=(src/compute/process/cgroup.test.ts)
bin/neap-node --test --test-reporter=spec --test-force-exit --test-timeout=600000 "${tests[@]}"

group=/sys/fs/cgroup/user.slice/delegated.scope
mkdir -p "$group" /tmp/home
echo '+cpu +memory +io +pids' > /sys/fs/cgroup/cgroup.subtree_control
echo '+cpu +memory +io +pids' > /sys/fs/cgroup/user.slice/cgroup.subtree_control
chown nobody "$group" "$group"/cgroup.{procs,subtree_control,threads} /tmp/home
echo $$ > "$group/cgroup.procs"
HOME=/tmp/home setpriv --reuid=65534 --regid=65534 --clear-groups \
  bin/neap-node --test --test-reporter=spec --test-force-exit --test-timeout=600000 "${tests[@]}"
