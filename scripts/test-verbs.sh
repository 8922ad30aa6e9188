#!/usr/bin/env bash
# Tests the verbs transports on real verbs: soft-RoCE on this kernel, or in a virtual machine (scripts/rxe/rxe.sh), in one
# machine and between two, and the program itself there (scripts/rxe/command.sh: rails, staged GPU memory, a target that is killed).
# Everything is built out here, since a compiler under emulation takes minutes. --run runs tests of that name alone.
#
# The doctor is asked about such a machine last.
#
#   test-verbs.sh [--short] [--run REGEXP] [--where-possible]
#
# --where-possible skips, and says why, where no such machine can be had; else that is a failure.
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."
short= run=. lenient=0
while [[ $# -gt 0 ]]; do
  case $1 in
    --short) short=-test.short; shift ;;
    --run) run=$2; shift 2 ;;
    --where-possible) lenient=1; shift ;;
    *) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
  esac
done
if [[ $lenient = 1 ]] && ! scripts/rxe/rxe.sh --limit 60 --out "$(mktemp -d)" -- true >/dev/null 2>&1; then
  echo "skipped: needs guest: this machine gives no soft-RoCE, neither by its kernel nor by a virtual machine (scripts/rxe/rxe.sh -- true says why)"
  exit 0
fi
out=$(mktemp -d "${TMPDIR:-/tmp}/test-verbs.XXXXXX")
trap 'rm -rf "$out"' EXIT
go test -c -o "$out/verbs.test" ./transports/verbs
scripts/rxe/build-interposer.sh "$out/interposer.so"
mkdir "$out/cuda"
"${CC:-gcc}" -O2 -fPIC -shared -pthread -Wl,-soname,libcuda.so.1 -Wl,-z,nodelete -o "$out/cuda/libcuda.so.1" transports/internal/cuda/testdata/fakecuda/*.c
go build -o "$out/hopbench" ./bench
cp scripts/rxe/command.sh "$out/"
then=
[[ $run != . ]] || then="&& bash \$RXE_OUT/command.sh \$RXE_OUT/hopbench \$RXE_OUT/cuda"
cd transports/verbs
../../scripts/rxe/rxe.sh --limit 600 --out "$out" -- \
  "HOPBENCH_REQUIRE_RXE=1 HOPBENCH_INTERPOSER=\$RXE_OUT/interposer.so HOPBENCH_FAKECUDA=\$RXE_OUT/cuda/libcuda.so.1 \$RXE_OUT/verbs.test -test.v -test.timeout 460s $short -test.run '$run' $then" |
  grep --line-buffered -v -e "^=== " -e "^ *--- PASS: TestNothingIsLeftBehind/" && status=0 || status=$?
[[ $status = 0 ]] || { echo "test-verbs.sh: the tests in one machine failed" >&2; exit 1; }
[[ $run = . || TestTwoHosts =~ $run ]] || exit 0
mkdir -p "$out"/two/{0,1}; cp "$out/verbs.test" "$out/two/0/"; cp "$out/verbs.test" "$out/two/1/"
../../scripts/rxe/rxe.sh --vm --guests 2 --mtu 4200,1500 --limit 150 --out "$out/two" -- \
  "HOPBENCH_TWO_HOSTS=1 \$RXE_OUT/verbs.test -test.v -test.timeout 120s -test.run '^TestTwoHosts\$'"
cd ../..
HOPBENCH_REQUIRE=guest go test -count=1 -timeout 15m -run '^TestGuest' ./bench/internal/nettest
