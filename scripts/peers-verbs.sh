#!/usr/bin/env bash
# Compares the verbs loops with perftest's, in turn on the same soft-RoCE device: bandwidth of write, read and send at 4 KiB,
# 64 KiB and 1 MiB at the same depth, and the wall clock of a write round trip and of a read. perftest's cycle counter is
# unsteady in a guest, so its latency is taken from the difference of two iteration counts. Prints each ratio with its 95 %
# interval over the rounds. "retries" asks instead what makes soft-RoCE send requests again: ROUNDS loops of 100 ms with and without
# pauses, beside perftest.
#
#   peers-verbs.sh [ROUNDS [bandwidth|latency|retries]]      default 7; needs perftest, and a quiet machine
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."
out=$(mktemp -d "${TMPDIR:-/tmp}/peers-verbs.XXXXXX")
trap 'rm -rf "$out"' EXIT
go test -c -o "$out/verbs.test" ./transports/verbs
scripts/rxe/rxe.sh --limit 1800 --out "$out" -- \
  "HOPBENCH_PEERS=${1:-7} HOPBENCH_PEERS_ONLY=${2:-} \$RXE_OUT/verbs.test -test.v -test.timeout 1700s -test.run '^TestAgainstPerftest\$'" | tee "$out/log" | grep --line-buffered -e '^PEERS' -e '_test.go' -e FAIL || true
grep -q -- '--- PASS: TestAgainstPerftest' "$out/log"
