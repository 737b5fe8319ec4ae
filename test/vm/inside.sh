#!/bin/bash
# The first process of the virtual machine: mounts what a machine has, runs the script and turns the machine off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
cd "$(dirname "$0")/../.." || exit
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs run /run
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
# No answer to a name ever comes here.
echo 'nameserver 127.0.0.1' > /run/resolv.conf
bash "test/vm/$1"
echo "the script ended with $?"
sync
echo o > /proc/sysrq-trigger
sleep 60
