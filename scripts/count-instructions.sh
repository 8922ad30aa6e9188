#!/usr/bin/env bash
# Counts the instructions that the verbs loop spends on a message, by callgrind, over a double of libibverbs that completes
# at once: what is left is ours. "self" is the loop's own functions; "inclusive" has also the double's and the C library's. Where perftest is installed
# its loops are counted over the same double: what its program itself executes for 200,000 messages less that for 100,000.
#
# Needs valgrind and gcc; perftest to compare.
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

command -v ib_write_bw >/dev/null || { echo "perftest is not installed: its loops were not counted"; exit 0; }
# perftest also loads libraries that need the real libibverbs, so the double stands before it under a name of its own. Its calls of the newer
# interface (ibv_wr_*) would reach the real one: it is told to post in the old way, as ours does.
gcc -shared -fPIC -O2 -pthread -Wl,-soname,fakeverbs.so -Wl,--version-script=testdata/count/preload.map -o "$work/preload.so" testdata/fakeverbs/fakeverbs.c testdata/count/iova2.c
port=$((20000 + $$ % 20000))
run() { # PROGRAM MESSAGES ARGUMENTS...: the instructions of the program's own code
  local program=$1 n=$2 server; shift 2
  port=$((port + 1))
  set -- -d fake0 -n "$n" --use_old_post_send -F -p "$port" "$@"
  FAKEVERBS_LINK=1 FAKEVERBS_NO_COPY=1 LD_PRELOAD=$work/preload.so timeout 120 "$program" "$@" >/dev/null 2>&1 & server=$!
  for _ in $(seq 100); do grep -qi ":$(printf %04X "$port") .* 0A " /proc/net/tcp /proc/net/tcp6 && break; sleep 0.1; done
  FAKEVERBS_LINK=1 FAKEVERBS_NO_COPY=1 LD_PRELOAD=$work/preload.so timeout 120 valgrind --tool=callgrind --callgrind-out-file="$work/out" "$program" "$@" 127.0.0.1 >"$work/err" 2>&1 ||
    { cat "$work/err" >&2; kill "$server" 2>/dev/null || true; return 1; }
  wait "$server" || true
  callgrind_annotate --auto=no --threshold=100 "$work/out" | awk -v object="/$program]" '{ c = $1; gsub(",", "", c) } index($0, object) { s += c } END { printf "%d\n", s }'
}
perftest() { # TEXT PROGRAM ARGUMENTS...
  local text=$1 program=$2 few many; shift 2
  few=$(run "$program" 100000 "$@")
  many=$(run "$program" 200000 "$@")
  awk -v text="$text" -v few="$few" -v many="$many" 'BEGIN { printf "perftest, %s: self %.1f instructions a message\n", text, (many - few) / 100000 }'
}
perftest "ib_write_bw, depth 128, lists of 16, a completion for 16" ib_write_bw -s 64 -t 128 -l 16 -Q 16
perftest "ib_write_bw, depth 128, one by one, a completion each" ib_write_bw -s 64 -t 128 -Q 1
perftest "ib_read_lat, depth 1" ib_read_lat -s 64
