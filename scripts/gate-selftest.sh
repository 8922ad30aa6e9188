#!/usr/bin/env bash
# Shows that the gate works on this machine: one build against itself passes, and against a build that is slowed on
# purpose (build tag hopbench_slow) fails. Four cells each. Exit status 1 where the slowed build passes or the gate
# fires on identical code.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-$(mktemp -d)/gate}
rounds=${ROUNDS:-16}
mkdir -p "$out"
go build -o "$out/hopbench" ./bench
go build -tags hopbench_slow -o "$out/hopbench-slow" ./bench
if cmp -s "$out/hopbench" "$out/hopbench-slow"; then
	echo "gate-selftest.sh: the tag hopbench_slow changes nothing" >&2
	exit 1
fi
cells=(--transport "${TRANSPORT:-tcp}" --op write --metric bandwidth,latency --sizes 4KiB,1MiB --rounds 5)

echo "== A/A: must pass"
scripts/gate.sh --base "$out/hopbench" --head "$out/hopbench" --aa --rounds "$rounds" --out "$out/aa" -- "${cells[@]}" || {
	echo "gate-selftest.sh: the gate fires on identical code" >&2
	exit 1
}
echo "== the slowed build: must fail"
rc=0
scripts/gate.sh --base "$out/hopbench" --head "$out/hopbench-slow" --rounds "$rounds" --out "$out/slow" --noise "$out/aa" -- "${cells[@]}" || rc=$?
if [ "$rc" -ne 1 ] || ! grep -q '"verdict": "regression"' "$out/slow/compare.json"; then
	echo "gate-selftest.sh: the slowed build passes (exit status $rc)" >&2
	exit 1
fi
echo "gate-selftest.sh: identical code passes, the slowed build fails"
