#!/usr/bin/env bash
# Makes a folder of results/runs: this program and its peers on the same devices in the same minutes, each file with its command.
#
#   publish.sh rxe DIR     soft-RoCE in the virtual machine of scripts/rxe/rxe.sh, with perftest's ib_write_bw, ib_read_bw, ib_send_bw
#   publish.sh tcp DIR     TCP between two processes of this host, with iperf3 (two CPUs, as hopbench) and qperf
#
# DIR is new, or has no such file yet. hopbench is bin/hopbench; it must be of a commit, not of a changed tree. Wants a quiet machine.
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."
what=${1:-} dir=${2:-}
[[ $what = rxe || $what = tcp ]] && [[ -n $dir ]] || { sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
if bin/hopbench --version | grep -q -e -dirty; then
  echo "publish.sh: $(bin/hopbench --version): commit and build first" >&2
  exit 2
fi
mkdir -p "$dir"
out=$(mktemp -d "${TMPDIR:-/tmp}/publish.XXXXXX")
trap 'rm -rf "$out"' EXIT

note() { printf '%s    # %s\n' "$1" "$2" >>"$dir/COMMAND"; } # FILE COMMAND
new() { [[ ! -e $dir/$1 ]] || { echo "publish.sh: $dir/$1 is there already" >&2; exit 2; }; }

rxe() {
  new rxe.jsonl; new perftest.jsonl
  local run="bin/hopbench run --transport roce --op write,read,send --sizes 64,4KiB,64KiB,1MiB --rounds 9 --round 200ms"
  cat >"$out/steps.sh" <<STEPS
set -e
$run --out \$RXE_OUT/rxe.jsonl >&2
for op in write read send; do
  for size in 4096 65536 1048576; do
    ib_\${op}_bw -d rxe0 -x 1 -F -s \$size -D 3 -t 16 -u 14 >/dev/null & server=\$!
    sleep 2
    ib_\${op}_bw -d rxe0 -x 1 -F -s \$size -D 3 -t 16 -u 14 10.9.0.1 >\$RXE_OUT/perftest-\$op-\$size.txt
    wait \$server
  done
done
STEPS
  scripts/rxe/rxe.sh --vm --limit 900 --out "$out" -- 'bash $RXE_OUT/steps.sh'
  cp "$out/rxe.jsonl" "$dir/rxe.jsonl"
  bin/hopbench import "$out"/perftest-*.txt --realm emulated -o "$dir/perftest.jsonl"
  note rxe.jsonl "scripts/rxe/rxe.sh --vm -- '$run --out \$RXE_OUT/rxe.jsonl'"
  note perftest.jsonl "there: ib_{write,read,send}_bw -d rxe0 -x 1 -F -s {4096,65536,1048576} -D 3 -t 16 -u 14; then hopbench import --realm emulated"
}

tcp() {
  new tcp.jsonl; new iperf3.jsonl; new qperf.jsonl
  local run="bin/hopbench run --transport tcp --op write,send --sizes 64,64KiB,1MiB --rounds 9 --round 200ms"
  $run --out "$dir/tcp.jsonl" >/dev/null
  note tcp.jsonl "$run"
  local port=$((20000 + RANDOM % 20000)) server size
  for size in 65536 1048576; do
    iperf3 -s -1 -B 127.0.0.1 -p $port >/dev/null & server=$!
    sleep 0.5
    iperf3 -c 127.0.0.1 -p $port -A 0,1 -l $size -t 3 -J >"$out/iperf3-$size.json"
    wait $server
  done
  qperf -lp $port >/dev/null & server=$!
  sleep 0.5
  qperf 127.0.0.1 -lp $port -t 2 -v -m 64 conf tcp_lat >"$out/qperf.txt"
  kill $server 2>/dev/null || true
  wait $server 2>/dev/null || true
  bin/hopbench import "$out"/iperf3-*.json -o "$dir/iperf3.jsonl"
  bin/hopbench import "$out/qperf.txt" --realm software -o "$dir/qperf.jsonl"
  note iperf3.jsonl "iperf3 -c 127.0.0.1 -A 0,1 -l {65536,1048576} -t 3 -J; then hopbench import"
  note qperf.jsonl "qperf 127.0.0.1 -t 2 -v -m 64 conf tcp_lat; then hopbench import --realm software"
}
"$what"
