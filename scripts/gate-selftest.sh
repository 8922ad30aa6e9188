#!/usr/bin/env bash
# Shows that the gate works on this machine: one build against itself passes, and against a build that is slowed on
# purpose (build tag hopbench_slow) fails. Four cells each. Exit status 1 where the slowed build passes or the gate
# fires on identical code.
#
#   gate-selftest.sh [DIR]           over TCP
#   gate-selftest.sh --rxe [DIR]     over soft-RoCE: by the kernel's module, else in the virtual machine of scripts/rxe
#   ROUNDS=16                        turns a side
#   COMPARE="--min-effect 10%"       more arguments of hopbench compare
set -euo pipefail
cd "$(dirname "$0")/.."
rxe= inside=
while [[ ${1:-} == --* ]]; do
	case $1 in
	--rxe) rxe=1 ;;
	--inside) inside=1 ;; # the devices are here, the builds are in DIR
	*) echo "gate-selftest.sh: there is no flag $1" >&2; exit 2 ;;
	esac
	shift
done
out=$(realpath -m "${1:-$(mktemp -d)/gate}")
rounds=${ROUNDS:-16}
if [ -z "$inside" ]; then
	mkdir -p "$out"
	go build -o "$out/hopbench" ./bench
	go build -tags hopbench_slow -o "$out/hopbench-slow" ./bench
	if cmp -s "$out/hopbench" "$out/hopbench-slow"; then
		echo "gate-selftest.sh: the tag hopbench_slow changes nothing" >&2
		exit 1
	fi
	if [ -n "$rxe" ]; then # what the guest writes lies in its own folder until it ends
		scripts/rxe/rxe.sh --limit "${LIMIT:-3000}" --out "$out/rxe" -- \
			"ROUNDS=$rounds COMPARE='${COMPARE:---min-effect 10%}' BUILDS='$out' scripts/gate-selftest.sh --rxe --inside \$RXE_OUT"
		exit
	fi
fi
builds=${BUILDS:-$out}
if [ -n "$rxe" ]; then
	# One operation at a time: with several on their way the wire hides what the slowed build does.
	cells=(--transport roce --op write --metric bandwidth,latency --sizes 4KiB,16KiB --depth 1 --rounds 3 --phase-timeout 2m --stall-timeout 1m)
else
	cells=(--transport "${TRANSPORT:-tcp}" --op write --metric bandwidth,latency --sizes 4KiB,1MiB --rounds 5)
fi

echo "== A/A: must pass"
scripts/gate.sh --base "$builds/hopbench" --head "$builds/hopbench" --aa --rounds "$rounds" --out "$out/aa" --compare-args "${COMPARE:-}" -- "${cells[@]}" || {
	echo "gate-selftest.sh: the gate fires on identical code" >&2
	exit 1
}
echo "== the slowed build: must fail"
rc=0
scripts/gate.sh --base "$builds/hopbench" --head "$builds/hopbench-slow" --rounds "$rounds" --out "$out/slow" --noise "$out/aa" \
	--compare-args "${COMPARE:-}" -- "${cells[@]}" || rc=$?
if [ "$rc" -ne 1 ] || ! grep -q '"verdict": "regression"' "$out/slow/compare.json"; then
	echo "gate-selftest.sh: the slowed build passes (exit status $rc)" >&2
	exit 1
fi
echo "gate-selftest.sh: identical code passes, the slowed build fails"
