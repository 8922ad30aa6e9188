#!/usr/bin/env bash
# Installs what hopbench's build and tests on this machine lack, with the machine's own package manager, and says what. Nothing
# is installed twice, and what cannot be installed is named with what it costs; only Go itself is required.
#
#   setup.sh            what `make run` needs: a C compiler, iproute2, the RDMA headers
#   setup.sh --tests    also what the tests compare with and boot: iperf3, sockperf, qperf, perftest, QEMU, ...
#   setup.sh --list     says what is missing and installs nothing
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."

tests=0 list=0
for argument in "$@"; do
  case $argument in
    --tests) tests=1 ;;
    --list) list=1 ;;
    *) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
  esac
done

manager=
for m in apt-get dnf yum apk zypper pacman; do
  if command -v "$m" >/dev/null; then manager=$m; break; fi
done

# name() gives a thing's package: NAME apt dnf apk zypper pacman, "-" where the manager has none.
name() {
  local column
  case $manager in apt-get) column=2 ;; dnf|yum) column=3 ;; apk) column=4 ;; zypper) column=5 ;; pacman) column=6 ;; *) echo -; return ;; esac
  awk -v thing="$1" -v c=$column '$1 == thing { print $c }' <<'TABLE'
gcc        gcc               gcc               gcc            gcc               gcc
libc       libc6-dev         glibc-devel       musl-dev       glibc-devel       glibc
git        git               git               git            git               git
iproute2   iproute2          iproute           iproute2       iproute2          iproute2
verbs      libibverbs-dev    rdma-core-devel   rdma-core-dev  rdma-core-devel   rdma-core
iperf3     iperf3            iperf3            iperf3         iperf             iperf3
sockperf   sockperf          sockperf          -              -                 -
qperf      qperf             qperf             -              qperf             -
perftest   perftest          perftest          -              perftest          perftest
providers  ibverbs-providers libibverbs        -              libibverbs1       rdma-core
ibv        ibverbs-utils     libibverbs-utils  -              libibverbs-utils  rdma-core
rdma       rdma-core         rdma-core         rdma-core      rdma-core         rdma-core
qemu       qemu-system-x86   qemu-system-x86-core qemu-system-x86_64 qemu-x86   qemu-system-x86
busybox    busybox-static    busybox           busybox-static busybox-static    busybox
cpio       cpio              cpio              cpio           cpio              cpio
kmod       kmod              kmod              kmod           kmod              kmod
jq         jq                jq                jq             jq                jq
protoc     protobuf-compiler protobuf-compiler protoc         protobuf-devel    protobuf
munged     munge             munge             munge          munge             munge
slurmctld  slurmctld         slurm-slurmctld   -              slurm             slurm-llnl
slurmd     slurmd            slurm-slurmd      -              slurm-node        slurm-llnl
srun       slurm-client      slurm             -              slurm             slurm-llnl
openmpi    openmpi-bin       openmpi           openmpi        openmpi           openmpi
mpich      mpich             mpich             -              mpich             mpich
chromium   chromium          chromium          chromium       chromium          chromium
unshare    util-linux        util-linux        util-linux     util-linux        util-linux
nft        nftables          nftables          nftables       nftables          nftables
TABLE
}

has() { # whether a thing is here
  case $1 in
    gcc) command -v "${CC:-gcc}" ;;
    libc) [[ -e /usr/include/stdio.h ]] ;;
    verbs) [[ -e /usr/include/infiniband/verbs.h ]] ;;
    iproute2) command -v ip || [[ -x /sbin/ip || -x /usr/sbin/ip ]] ;;
    providers) compgen -G '/usr/lib*/*/libibverbs/librxe-rdmav*.so' || compgen -G '/usr/lib*/libibverbs/librxe-rdmav*.so' ;;
    perftest) command -v ib_write_bw ;;
    ibv) command -v ibv_devinfo ;;
    rdma) [[ -e /usr/lib/udev/rules.d/60-rdma-persistent-naming.rules || -d /etc/rdma ]] ;;
    qemu) command -v "qemu-system-$(uname -m)" ;;
    kmod) command -v modprobe || [[ -x /sbin/modprobe ]] ;;
    munged|slurmctld|slurmd) command -v "$1" || [[ -x /usr/sbin/$1 ]] ;;
    openmpi) command -v mpirun.openmpi || { command -v mpirun && mpirun --version | grep -q 'Open MPI'; } ;;
    mpich) command -v mpiexec.hydra ;;
    chromium) command -v chromium || command -v chromium-browser || command -v google-chrome ;;
    nft) command -v nft || [[ -x /usr/sbin/nft ]] ;;
    *) command -v "$1" ;;
  esac >/dev/null 2>&1
}

cost() {
  case $1 in
    gcc|libc) echo "hopbench is built without cgo: memory copy and TCP only, no verbs and no CUDA" ;;
    verbs) echo "hopbench is built without verbs: InfiniBand and RoCE are waived" ;;
    iproute2|unshare|nft) echo "tests in network namespaces are skipped" ;;
    git) echo "the build does not know its version" ;;
    protoc) echo "\`make generate\` does not work" ;;
    iperf3|sockperf|qperf|perftest) echo "comparisons with $1 are skipped" ;;
    munged|slurmctld|slurmd|srun) echo "tests of mesh under a real Slurm are skipped" ;;
    chromium) echo "tests of the report's page in a browser are skipped" ;;
    openmpi|mpich) echo "tests of mesh under a real mpirun are skipped" ;;
    *) echo "tests on soft-RoCE in a virtual machine are skipped" ;;
  esac
}

if ! command -v go >/dev/null; then
  echo "setup: there is no go command. hopbench needs Go $(awk '$1 == "go" { print $2 }' go.mod) or newer: https://go.dev/dl" >&2
  exit 1
fi

things=(gcc libc git iproute2 verbs)
[[ $tests = 0 ]] || things+=(unshare nft iperf3 sockperf qperf perftest providers ibv rdma qemu busybox cpio kmod jq protoc munged slurmctld slurmd srun openmpi mpich chromium)
missing=() packages=()
for t in "${things[@]}"; do
  if has "$t"; then continue; fi
  missing+=("$t")
  p=$(name "$t")
  [[ $p = - ]] || packages+=("$p")
done
if [[ ${#missing[@]} = 0 ]]; then
  echo "setup: everything is here (${things[*]})"
  exit 0
fi
echo "setup: missing: ${missing[*]}"
[[ $list = 0 ]] || exit 0

as=()
if [[ $(id -u) != 0 ]]; then
  if sudo -n true 2>/dev/null; then as=(sudo -n); else packages=(); echo "setup: neither root nor sudo without a password: nothing is installed"; fi
fi
install() {
  case $manager in
    apt-get) "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -q "$@" ;;
    dnf|yum) "${as[@]}" "$manager" install -y -q "$@" ;;
    apk) "${as[@]}" apk add -q "$@" ;;
    zypper) "${as[@]}" zypper --non-interactive --quiet install --no-recommends "$@" ;;
    pacman) "${as[@]}" pacman -S --noconfirm --needed "$@" ;;
  esac
}
if [[ ${#packages[@]} -gt 0 && -n $manager ]]; then
  echo "setup: $manager installs: ${packages[*]}"
  log=$(mktemp)
  [[ $manager != apt-get ]] || "${as[@]}" apt-get update -q >"$log" 2>&1 || true
  # All at once is quick; where one of them does not exist here, each on its own.
  install "${packages[@]}" </dev/null >>"$log" 2>&1 || for p in "${packages[@]}"; do
    install "$p" </dev/null >>"$log" 2>&1 || echo "setup: $manager could not install $p: $(tail -1 "$log")"
  done
  rm -f "$log"
fi
for t in "${missing[@]}"; do
  if has "$t"; then echo "setup: installed $t"; else echo "setup: still without $t: $(cost "$t")"; fi
done
