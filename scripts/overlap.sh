#!/usr/bin/env bash
# How much of staging the ring hides: 64 MiB from one GPU's memory over a wire into another's, on the double of libcuda, whose copy
# engines take real time at a set rate. Prints the share of the slowest phase alone that the whole transfer reaches, with rings of 1, 2 and 4
# chunks. Asked: at least 95 % with a ring of 2 or 4, and under 70 % with a ring of 1, which can hide nothing. Wants a quiet machine.
#
#   overlap.sh [TRANSFERS]      of each ring (5)
set -euo pipefail
cd "$(dirname "$0")/.."
go test -run '^$' -bench Overlap -benchtime "${1:-5}x" ./transports/internal/staging | awk '
	/^Benchmark.*depth=/ {
		match($1, /depth=[0-9]+/); ring = substr($1, RSTART + 6, RLENGTH - 6)
		for (i = 2; i < NF; i++) { if ($(i + 1) == "%-of-slowest") share = $i; if ($(i + 1) == "total-ms") total = $i; if ($(i + 1) == "slowest-alone-ms") alone = $i }
		good = ring == 1 ? share < 70 : share >= 95
		printf "ring of %d: %.1f %% of the slowest phase alone (%.1f ms; alone %.1f ms): %s\n", ring, share, total, alone, good ? "as asked" : "NOT as asked"
		bad += !good; seen++
		next
	}
	/FAIL|panic/ { print; bad++ }
	END { exit seen < 3 || bad > 0 }'
