#!/usr/bin/env bash
# A Slurm cluster of virtual nodes on this machine for as long as one command runs: munged, slurmctld and a slurmd a node, in
# namespaces of their own. Nothing of an installed Slurm is touched, no port of the machine is taken, and when the command ends, or
# this script is killed, the kernel ends all that was started. Needs root, and of Debian or Ubuntu munge, slurmctld, slurmd and
# slurm-client.
#
#   scripts/slurm/cluster.sh [--nodes N] [--cpus N] COMMAND...
#   scripts/slurm/cluster.sh srun -N 4 -n 4 bin/hopbench mesh --token-file FILE     a task a node; -n 4 alone fills one node first
#   scripts/slurm/cluster.sh --nodes 2 sbatch --wait --nodes=2 scripts/slurm/mesh.sbatch
#
# The nodes are called n1, n2, ... and have an address each inside. The exit status is that of the command; 125 where the cluster does
# not start, with the end of its logs.
set -euo pipefail

usage() { sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
nodes=4 cpus=8 inside=
while [[ $# -gt 0 ]]; do
  case $1 in
    --nodes) nodes=$2; shift 2 ;;
    --cpus) cpus=$2; shift 2 ;;
    --inside) inside=$2; shift 2 ;;
    --) shift; break ;;
    -*) usage ;;
    *) break ;;
  esac
done
[[ $# -gt 0 && $nodes =~ ^[1-9][0-9]?$ && $cpus =~ ^[1-9][0-9]*$ ]] || usage
PATH=$PATH:/usr/sbin:/sbin

if [[ -z $inside ]]; then
  for tool in munged slurmctld slurmd srun unshare setpriv ip; do
    command -v "$tool" >/dev/null || { echo "cluster: there is no $tool (Debian: munge slurmctld slurmd slurm-client util-linux iproute2)" >&2; exit 125; }
  done
  [[ $(id -u) = 0 ]] || { echo "cluster: namespaces and slurmd need root" >&2; exit 125; }
  # Only a name: inside, a file system of its own lies on it. Below /tmp, since munged wants every folder above its socket open to all.
  dir=$(mktemp -d /tmp/hopbench-slurm.XXXXXX)
  trap 'rmdir "$dir"' EXIT
  # The first process of the namespace is the script again: with it all others end, and it ends with this one, however this one does.
  setpriv --pdeathsig KILL unshare --mount --net --pid --fork --kill-child=KILL --mount-proc \
    "$(realpath "${BASH_SOURCE[0]}")" --nodes "$nodes" --cpus "$cpus" --inside "$dir" -- "$@" <&0 &
  namespace=$! rc=0
  trap 'kill -KILL "$namespace"; wait "$namespace" 2>/dev/null; exit 143' HUP INT TERM
  wait "$namespace" || rc=$?
  exit "$rc"
fi

mount -t tmpfs -o mode=755 hopbench-slurm "$inside"
dir=$inside here=$(dirname "$(realpath "${BASH_SOURCE[0]}")") host=$(hostname -s)
fail() {
  echo "cluster: $1" >&2
  tail -n 20 "$dir"/*.log >&2 || true
  exit 125
}
# wait_for WHAT SECONDS COMMAND...: until the command succeeds.
wait_for() {
  local what=$1 until=$((SECONDS + $2))
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < until)) || fail "$what is not there after its time"
    sleep 0.1
  done
}

# Addresses that are not loopback, since Slurm asks getaddrinfo for those of the families that a real interface has (AI_ADDRCONFIG);
# of the range for benchmarks (RFC 2544).
address() { echo "198.18.0.$1"; }
ip link set lo up
ip link add nodes type veth peer name unused
for ((i = 1; i <= nodes; i++)); do ip address add "$(address "$i")/24" dev nodes; done
ip link set nodes up
ip link set unused up
mkdir "$dir/state"
{
  cat /etc/hosts
  for ((i = 1; i <= nodes; i++)); do echo "$(address "$i") n$i"; done
} >"$dir/hosts"
mount --bind "$dir/hosts" /etc/hosts
{
  sed "s|@DIR@|$dir|; s|@HOST@|$host|; s|@ADDRESS@|$(address 1)|" "$here/cluster.conf"
  for ((i = 1; i <= nodes; i++)); do
    echo "NodeName=n$i NodeHostname=$host NodeAddr=$(address "$i") Port=$((17000 + i)) CPUs=$cpus State=UNKNOWN"
  done
} >"$dir/slurm.conf"
# No control groups are used, but slurmd looks for them all the same, and where the host has only the second version asks systemd for
# some: it is told not to, from the release on that can be (https://slurm.schedmd.com/cgroup.conf.html), or not to look for these.
release=$(slurmd -V | sed -n 's/^[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1\2/p')
if ((${release:-0} >= 2405)); then echo CgroupPlugin=disabled; else echo CgroupPlugin=cgroup/v1; fi >"$dir/cgroup.conf"
export SLURM_CONF=$dir/slurm.conf

(umask 077 && head -c 128 /dev/urandom >"$dir/munge.key")
munged --socket="$dir/munge.sock" --key-file="$dir/munge.key" --pid-file="$dir/munged.pid" --seed-file="$dir/munge.seed" \
  --log-file="$dir/munged.log" || fail "munged does not start"
slurmctld -f "$SLURM_CONF" || fail "slurmctld does not start"
wait_for "slurmctld" 30 scontrol ping
for ((i = 1; i <= nodes; i++)); do
  mkdir "$dir/spool-n$i"
  slurmd -f "$SLURM_CONF" -N "n$i" || fail "slurmd of n$i does not start"
done
ready() { [[ $(sinfo --noheader --Node --states=idle --format=%N | wc -l) = "$nodes" ]]; }
wait_for "the nodes" 60 ready
rc=0
"$@" || rc=$?
exit "$rc"
