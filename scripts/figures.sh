#!/usr/bin/env bash
# Draws plots/figures anew from a committed run. The same run and the same code give the same bytes: a projection is kept as it is in the
# repository where a new one differs in nothing but the version of the tool that made it.
#
#   scripts/figures.sh RUN.jsonl
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."
hopbench=${hopbench:-bin/hopbench}
run=${1:?name a result file}
out=plots/figures
mkdir -p $out

draw() { # KIND NAME INPUT
  local format
  for format in svg png; do "$hopbench" plot --kind "$1" --out "$out/$2.$format" --force "$3"; done
}
project() { # NAME ARGUMENTS...
  local file=$out/$1.json new
  new=$(mktemp)
  shift
  "$hopbench" ttft "$@" --json >"$new"
  if [[ -e $file ]] && cmp -s <(grep -v '^  "tool":' "$file") <(grep -v '^  "tool":' "$new"); then
    rm "$new"
  else
    chmod 644 "$new"
    mv "$new" "$file"
  fi
  echo "$file"
}

for kind in bandwidth latency cpu; do draw $kind tcp-$kind "$run"; done

# Soft-RoCE in an emulated machine, beside perftest there: how the code behaves, and no link.
draw bandwidth rxe-bandwidth results/runs/rxe-guest-2026-12-01

project ttft-98s --example dynamo-98s
draw ttft ttft-98s $out/ttft-98s.json

# The worked example of the README: what this host's TCP and the field's stated links give a prompt of 8000 tokens.
project ttft-8b llama-3.1-8b --isl 8000 --results "$run" --transport tcp --reference --against-isl 1000,2000,4000,8000,16000,32000,64000 --find crossings
draw ttft ttft-8b $out/ttft-8b.json
draw ttft-length ttft-8b-length $out/ttft-8b.json
