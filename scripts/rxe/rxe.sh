#!/usr/bin/env bash
# Runs a command where soft-RoCE devices are: real libibverbs, real kernel verbs and real data without an RDMA NIC.
#
#   rxe.sh [--guests 2] [--mtu 4200[,1500]] [--vm] [--limit SECONDS] [--out DIR] -- COMMAND...
#
# Where this kernel has the module rdma_rxe, the devices are made here. Where it has not (cloud kernels, containers), a
# Debian kernel is booted under QEMU's software emulation over this machine's own root file system, read-only with a
# throw-away overlay, so that every program of this machine runs there; --vm asks for that in any case. The command runs
# as root by /bin/sh -c, in this directory, with:
#
#   rxe0   on veth0: 10.9.0.1/24 and fd00:9::1/64, MTU 4200 (RoCE 4096)
#   rxe1   on veth2: 10.9.1.1/24, a second rail
#   rxe6   on veth6: fd00:96::1/64 alone, no IPv4
#
# With --guests 2 two machines run it, HOPBENCH_GUEST=0 and 1, joined by an Ethernet: rxe0 on eth0, 10.9.2.1 and 10.9.2.2,
# with an MTU each. What the command writes under $RXE_OUT is in --out (default ./out; out/0 and out/1 for two). The exit
# status is the command's; 125 says that a machine did not come up, 124 that it ran past the limit.
#
# Needs for the virtual machine: qemu-system-x86 busybox-static cpio kmod iproute2 rdma-core (Debian's names), and apt to
# fetch the kernel once into ${XDG_CACHE_HOME:-~/.cache}/hopbench-rxe; nothing is installed.
set -euo pipefail

guests=1 mtu=4200 vm=0 limit=480 out=$PWD/out
while [[ $# -gt 0 ]]; do
  case $1 in
    --guests) guests=$2; shift 2 ;;
    --mtu) mtu=$2; shift 2 ;;
    --vm) vm=1; shift ;;
    --limit) limit=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --) shift; break ;;
    -h|--help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "rxe.sh: unknown argument $1 (see --help)" >&2; exit 2 ;;
  esac
done
[[ $# -gt 0 ]] || { echo "rxe.sh: no command (see --help)" >&2; exit 2; }
command=$*
cache=${XDG_CACHE_HOME:-$HOME/.cache}/hopbench-rxe

# ---- devices on this kernel ----

make_devices() { # also runs in the guest: only sh, ip and rdma
  add() { # NAME VETH PEER MTU ADDRESS...
    local name=$1 dev=$2 peer=$3 mtu=$4; shift 4
    ip link add "$dev" type veth peer name "$peer"
    for address in "$@"; do ip addr add "$address" dev "$dev" nodad; done
    ip link set "$dev" mtu "$mtu" up; ip link set "$peer" mtu "$mtu" up
    rdma link add "$name" type rxe netdev "$dev"
  }
  add rxe0 veth0 veth1 "$1" 10.9.0.1/24 fd00:9::1/64
  add rxe1 veth2 veth3 "$1" 10.9.1.1/24
  add rxe6 veth6 veth7 "$1" fd00:96::1/64
}

if [[ $vm = 0 && $guests = 1 && $(id -u) = 0 ]] && modprobe rdma_rxe 2>/dev/null; then
  mkdir -p "$out"
  trap 'for dev in veth0 veth2 veth6; do ip link del "$dev" 2>/dev/null || true; done' EXIT
  make_devices "${mtu%%,*}"
  ulimit -l unlimited
  RXE_OUT=$(realpath "$out") HOPBENCH_RXE=module timeout "$limit" /bin/sh -c "$command"
  exit
fi

# ---- the virtual machine ----

for tool in qemu-system-x86_64 busybox cpio depmod ip rdma; do
  command -v "$tool" >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || {
    echo "rxe.sh: this kernel has no rdma_rxe module, and the virtual machine needs $tool" >&2; exit 125; }
done
PATH=$PATH:/usr/sbin:/sbin
mkdir -p "$cache"
exec 9>"$cache/lock"; flock 9
if [[ ! -d $cache/kernel/lib/modules ]]; then
  package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-/ {print $2; exit}')
  work=$(mktemp -d "$cache/fetch.XXXX")
  (cd "$work" && apt-get download "$package" >&2 && dpkg -x linux-image-*.deb kernel)
  mv "$work/kernel" "$cache/kernel"; rm -r "$work"
fi
release=$(ls "$cache/kernel/lib/modules")

# A small first root: busybox, and the modules for the shared folders, the overlay, networks and soft-RoCE, which needs a crc32.
modules="virtio_pci 9pnet_virtio 9p overlay crc32_generic crc32_pclmul veth virtio_net rdma_rxe ib_uverbs rdma_ucm sch_netem sch_tbf"
initrd=$cache/initrd-$(echo "$modules $release" | cat - "${BASH_SOURCE[0]}" | sha256sum | cut -c1-16).gz
if [[ ! -f $initrd ]]; then
  tree=$(mktemp -d)
  mkdir -p "$tree"/{bin,proc,sys,dev,newroot}
  cp "$(command -v busybox)" "$tree/bin/busybox"
  depmod -b "$cache/kernel" "$release"
  for module in $modules; do
    modprobe -d "$cache/kernel" -S "$release" --show-depends "$module" | awk '$1 == "insmod" {print $2}'
  done | sort -u | while read -r file; do install -D -m 644 "$file" "$tree/${file#"$cache/kernel/"}"; done
  cp "$cache/kernel/lib/modules/$release"/modules.{builtin,order,builtin.modinfo} "$tree/lib/modules/$release/" 2>/dev/null || true
  depmod -b "$tree" "$release"
  cat > "$tree/init" <<INIT
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for m in $modules; do modprobe \$m; done
mkdir -p /ro /rw
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose root /ro
mount -t tmpfs rw /rw; mkdir -p /rw/upper /rw/work
mount -t overlay overlay -o lowerdir=/ro,upperdir=/rw/upper,workdir=/rw/work /newroot
mkdir -p /newroot/out
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 out /newroot/out
for d in proc sys dev; do mount --move /\$d /newroot/\$d; done
mount -t tmpfs run /newroot/run # /tmp is the machine's own under the overlay: the command's folder may lie there
mkdir -p /newroot/dev/shm /newroot/dev/pts
mount -t tmpfs shm /newroot/dev/shm; mount -t devpts pts /newroot/dev/pts
ip link set lo up
chroot /newroot /bin/bash /out/.guest.sh; echo \$? > /newroot/out/.status
sync; poweroff -f
INIT
  chmod +x "$tree/init"
  (cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) > "$initrd.tmp"
  mv "$initrd.tmp" "$initrd"; rm -r "$tree"
fi
flock -u 9

# The emulated HPET costs a system call and a trap for each look at the clock, of which a benchmark has many, and makes perftest's cycle counter unsteady. Where this
# machine keeps its own time by a steady counter, the guest takes that one.
clock=
case $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource 2>/dev/null) in tsc | kvm-clock) clock="clocksource=tsc tsc=reliable" ;; esac

# boot N FOLDER NETWORK...: one machine, its console on standard output.
boot() {
  local n=$1 folder=$2 my_mtu=$3; shift 3
  mkdir -p "$folder"; rm -f "$folder/.status"
  {
    echo "export PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C"
    echo "export RXE_OUT=/out HOPBENCH_RXE=vm HOPBENCH_GUEST=$n"
    if [[ $guests = 1 ]]; then
      declare -f make_devices; echo "make_devices $my_mtu"
    else
      echo "ip addr add 10.9.2.$((n + 1))/24 dev eth0; ip link set eth0 mtu $my_mtu up; rdma link add rxe0 type rxe netdev eth0"
    fi
    echo "ulimit -l unlimited"
    # The GID of an address appears a little after it.
    echo "for i in 1 2 3 4 5 6 7 8 9 10; do cat /sys/class/infiniband/rxe0/ports/1/gids/1 2>/dev/null | grep -q ffff && break; sleep 0.3; done"
    printf 'cd %q\n%s\n' "$PWD" "$command"
  } > "$folder/.guest.sh"
  timeout "$limit" nice qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max -smp 2 -m "${RXE_MEMORY:-4G}" \
    -nodefaults -no-reboot -nographic -serial stdio \
    -kernel "$cache/kernel/boot/vmlinuz-$release" -initrd "$initrd" -append "console=ttyS0 $clock quiet loglevel=3 panic=-1" \
    -fsdev "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap" -device virtio-9p-pci,fsdev=root,mount_tag=root \
    -fsdev "local,id=out,path=$folder,security_model=none,multidevs=remap" -device virtio-9p-pci,fsdev=out,mount_tag=out "$@" </dev/null
}

status_of() { # FOLDER QEMU-STATUS
  if [[ -f $1/.status ]]; then cat "$1/.status"; elif [[ $2 = 124 ]]; then echo 124; else echo 125; fi
}

out=$(mkdir -p "$out" && realpath "$out")
if [[ $guests = 1 ]]; then
  rc=0; boot 0 "$out" "${mtu%%,*}" | sed -u 's/\r$//; s/\x1b\[[0-9;?=]*[a-zA-Z]//g; s/\x1bc//g' || rc=$?
  exit "$(status_of "$out" "$rc")"
fi
port=$((20000 + $$ % 20000)) # joins the two machines on loopback
boot 0 "$out/0" "${mtu%%,*}" -netdev "socket,id=n,listen=127.0.0.1:$port" -device virtio-net-pci,netdev=n,mac=52:54:00:09:02:01,host_mtu=9000 > "$out/0.log" & first=$!
sleep 1
boot 1 "$out/1" "${mtu##*,}" -netdev "socket,id=n,connect=127.0.0.1:$port" -device virtio-net-pci,netdev=n,mac=52:54:00:09:02:02,host_mtu=9000 > "$out/1.log" & second=$!
rc0=0; wait $first || rc0=$?
rc1=0; wait $second || rc1=$?
for n in 0 1; do sed "s/\r$//; s/\x1b\[[0-9;?=]*[a-zA-Z]//g; s/\x1bc//g; s/^/guest $n: /" "$out/$n.log"; done
a=$(status_of "$out/0" $rc0) b=$(status_of "$out/1" $rc1)
[[ $a = 0 ]] && exit "$b"
exit "$a"
