#!/usr/bin/env bash
# Runs a script of this directory as root in a virtual machine with Debian's kernel, whose control groups are of version 2: test/vm/run.sh SCRIPT.
# The machine sees this one's files, read-only, below a filesystem in memory. Needs Debian's packages qemu-system-x86, busybox-static, cpio,
# kmod and apt. KVM=yes uses KVM instead of emulation. Prints the console and ends as the script does.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
script=$(basename "$1")
memory=${MEMORY:-6G}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/neap-vm
mkdir -p "$cache"
cd "$cache"

kernel=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
if [ ! -d "$kernel" ]; then
  rm -rf unpacked && mkdir unpacked
  apt-get -qq download "$kernel"
  dpkg-deb -x "$kernel"_*.deb unpacked
  rm "$kernel"_*.deb
  mv unpacked "$kernel"
fi
release=$(ls "$kernel/lib/modules")
[ -f "$kernel/lib/modules/$release/modules.dep" ] || depmod -b "$kernel" "$release"

first=$(mktemp -d)
trap 'rm -rf "$first"' EXIT
mkdir -p "$first"/{bin,proc,dev,lower,upper,root}
cp /bin/busybox "$first/bin/"
for module in virtio_pci 9pnet_virtio 9p overlay; do
  modprobe --show-depends -d "$PWD/$kernel" -S "$release" "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' > "$first/modules"
mapfile -t modules < "$first/modules"
number=100
for module in "${modules[@]}"; do cp "$module" "$first/$((number++)).ko"; done
cat > "$first/init" <<EOF
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
for module in /*.ko; do /bin/busybox insmod \$module; done
/bin/busybox mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=524288,cache=loose host /lower
/bin/busybox mount -t tmpfs -o size=90% upper /upper
/bin/busybox mkdir /upper/changed /upper/work
/bin/busybox mount -t overlay -o lowerdir=/lower,upperdir=/upper/changed,workdir=/upper/work overlay /root
/bin/busybox umount /proc
exec /bin/busybox switch_root /root /bin/bash $here/inside.sh $script
EOF
chmod +x "$first/init"
(cd "$first" && find . | cpio -o -H newc --quiet | gzip -1) > "$cache/first.gz"

# A KVM inside another virtual machine may hang at boot: emulation is slow but sure.
[ "${KVM:-no}" = yes ] && accelerate=(-accel kvm -cpu host) || accelerate=(-accel tcg,thread=multi -cpu max)
qemu-system-x86_64 "${accelerate[@]}" -smp "${CPUS:-$(nproc)}" -m "$memory" -nodefaults -no-reboot -nographic -serial stdio \
  -kernel "$kernel/boot/vmlinuz-$release" -initrd "$cache/first.gz" \
  -append "console=ttyS0 quiet panic=-1 cgroup_no_v1=all psi=1" \
  -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap | tee "$cache/console"
grep -q '^the script ended with 0' "$cache/console"
