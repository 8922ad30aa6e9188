#!/usr/bin/env bash
# Runs the program itself on soft-RoCE devices, where rxe.sh has made them: rails over two devices, GPU memory of a double of libcuda that
# is staged, and a target that is killed in mid-run. Each step says what it saw; the first that is not as it should be ends it with 1.
#
#   command.sh HOPBENCH FOLDER-OF-LIBCUDA      by scripts/test-verbs.sh
set -euo pipefail
hopbench=$1 cuda=$2
patient="--phase-timeout 120s" # an emulated processor reads a thousand slots of a GID table, on both sides
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "command.sh: $*" >&2; exit 1; }
rows() { # FILE PATTERN...: how many cells match all of them
  local file=$1; shift
  local lines; lines=$(grep '"record":"cell"' "$file" || true)
  for pattern; do lines=$(grep -e "$pattern" <<< "$lines" || true); done
  grep -c . <<< "$lines" || true
}

echo "command.sh: rails: two devices, each alone, then both, one way and both ways"
"$hopbench" run $patient --device rxe0,rxe1 --sizes 64KiB --rounds 2 --round 100ms --out "$work/rails.jsonl" || die "a run over two rails failed"
for rail in rxe0 rxe1; do
  for schedule in isolated together; do
    for direction in forward both; do
      n=$(rows "$work/rails.jsonl" "\"rail\":\"$rail\"" "\"schedule\":\"$schedule\"" "\"direction\":\"$direction\"" '"status":"ok"' '"verified":true')
      [[ $n = 1 ]] || die "$n rows of $rail $schedule $direction that are right; 1 is due"
    done
  done
done
n=$(rows "$work/rails.jsonl" '"rail":"all"' '"status":"ok"'); [[ $n = 2 ]] || die "$n sums of the rails; 2 are due"
"$hopbench" run --rails auto --transport roce --dry-run > "$work/auto" || die "--rails auto --dry-run failed"
grep -q '# roce, 3 rails: rxe0; rxe1; rxe6; each alone' "$work/auto" || die "--rails auto: $(head -3 "$work/auto")"
rc=0; "$hopbench" run --device rxe0,rxe9 2> "$work/err" || rc=$?
[[ $rc = 2 ]] && grep -q 'there is no rxe9; did you mean' "$work/err" || die "an unknown device: status $rc, $(cat "$work/err")"

echo "command.sh: GPU memory of a double of libcuda, staged"
LD_LIBRARY_PATH=$cuda FAKECUDA_DEVICES=1 "$hopbench" run $patient --transport roce --device rxe0 --remote-device rxe0 --mem cuda:0 --gpu-direct staged --staging-chunk 131072 \
  --staging-depth 4 --op write,read,send --sizes 1MiB --metric bandwidth,latency --rounds 2 --round 100ms --out "$work/staged.jsonl" > /dev/null 2> "$work/err" || true
grep -q 'realm double' "$work/err" || die "figures over a double were shown: $(cat "$work/err")"
n=$(rows "$work/staged.jsonl" '"label":"roce, staged, same host"' '"realm":"double"' '"verified":true' '"device_to_host":' '"host_to_device":' '"wire":' '"initiator_gpu_way":"staged"')
[[ $n = 6 ]] || die "$n staged rows with their phases; 6 are due: $(rows "$work/staged.jsonl" .) in all, $(grep -o '"reason":"[^"]*"' "$work/staged.jsonl" | head -1)"
grep -o '"label":"roce, staged[^"]*"\|"phases_seconds":{[^}]*}' "$work/staged.jsonl" | head -2
rc=0; LD_LIBRARY_PATH=$cuda FAKECUDA_DEVICES=1 "$hopbench" run $patient --transport roce --device rxe0 --mem cuda:0 --gpu-direct dmabuf --sizes 64 2> "$work/err" > /dev/null || rc=$?
[[ $rc = 3 ]] && grep -q 'gpudirect.dmabuf' "$work/err" || die "a required way that is not there: status $rc, $(cat "$work/err")"

echo "command.sh: the target's process is killed in mid-run"
"$hopbench" serve --listen 10.9.0.1:18515 > "$work/serve" 2>&1 & serve=$!
for _ in $(seq 100); do grep -q -i token "$work/serve" && break; sleep 0.2; done
token=$(grep -o '[0-9a-f]\{64\}' "$work/serve" | head -1)
[[ -n $token ]] || die "serve made no token: $(cat "$work/serve")"
# One long loop after the other; the first line says that one has ended, and the next is well under way a little later.
HOPBENCH_TOKEN=$token "$hopbench" run $patient --transport roce --device rxe0 --peer 10.9.0.1:18515 --op write --metric bandwidth --sizes 4KiB --forever --interval 8s \
  > "$work/out" 2> "$work/err" & run=$!
for _ in $(seq 600); do [[ -s $work/out ]] && break; kill -0 "$run" 2>/dev/null || break; sleep 0.2; done
[[ -s $work/out ]] || die "the run came to no loop: $(cat "$work/err")"
sleep 3
kill -KILL "$serve"; killed=$(date +%s.%N)
rc=0; wait "$run" || rc=$?
took=$(awk -v a="$killed" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
[[ $rc = 1 ]] || die "a run whose target was killed ended with $rc: $(cat "$work/err")"
grep -q -e 'status 12' -e 'vanished' "$work/err" || die "nothing says that the peer is gone: $(cat "$work/err")"
echo "ended $took s after serve was killed, status $rc: $(head -1 "$work/err")"
awk -v t="$took" 'BEGIN { exit !(t < 30) }' || die "it took $took s"
echo "command.sh: all right"
