#!/usr/bin/env bash
# Counts the instructions that the verbs loop spends on a message, by callgrind, over a double of libibverbs that completes
# at once: what is left is ours. Depth 128, post lists of 16, one completion for 16, a stamp for each message. "self" is the loop's own
# functions; "inclusive" has also the double's and the C library's.
#
# Needs valgrind and gcc.
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../transports/internal/ibverbs"
work=$(mktemp -d "${TMPDIR:-/tmp}/count.XXXXXX")
trap 'rm -rf "$work"' EXIT
gcc -shared -fPIC -O2 -pthread -Wl,-soname,libibverbs.so.1 -Wl,--version-script=testdata/fakeverbs/fakeverbs.map -o "$work/libibverbs.so.1" testdata/fakeverbs/fakeverbs.c
gcc -std=gnu17 -O2 -g -pthread -o "$work/count" testdata/count/count.c ./*.c -ldl
count() { # MESSAGES DEPTH BATCH SIGNAL_EVERY BYTES
  FAKEVERBS_NO_COPY=1 valgrind --tool=callgrind --callgrind-out-file="$work/out" "$work/count" "$work/libibverbs.so.1" "$@" 2>"$work/err"
  callgrind_annotate --auto=no --threshold=100 "$work/out" > "$work/self"
  callgrind_annotate --auto=no --threshold=100 --inclusive=yes "$work/out" > "$work/inclusive"
  awk -v n="$1" -v text="depth $2, batch $3, a completion for $4, $5 bytes" '
    match($0, /[a-z]+\.[ch]:[a-z_0-9.]+/) {
      count = $1; gsub(",", "", count); count += 0; split(substr($0, RSTART, RLENGTH), at, ":")
      if (at[1] ~ /^(initiate|serve|turns|done|prepare|message|wait|library|loop|mark)\.[ch]$/) own[FILENAME] += count
      if (FILENAME ~ /inclusive$/ && at[2] ~ /^hv_initiate/ && count > whole) whole = count
    }
    END { for (f in own) if (f ~ /self$/) printf "%s: self %.1f, inclusive %.1f instructions a message\n", text, own[f] / n, whole / n }' "$work/self" "$work/inclusive"
}
count 200000 128 16 16 64
count 200000 128 1 1 64
count 200000 1 1 1 64
