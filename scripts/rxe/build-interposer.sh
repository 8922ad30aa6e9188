#!/usr/bin/env bash
# Builds the interposer: build-interposer.sh OUTPUT.so
set -euo pipefail
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
exec "${CC:-gcc}" -shared -fPIC -O2 -Wall -Wextra -Wl,--version-script="$here/interposer.map" -o "${1:?usage: build-interposer.sh OUTPUT.so}" \
  "$here/interposer.c" -Wl,--no-as-needed -l:libibverbs.so.1
