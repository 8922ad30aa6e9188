#!/usr/bin/env bash
# Makes release archives of linux/amd64 and linux/arm64 under dist/, with their checksums. The same commit and toolchain give the
# same bytes. An architecture without a C compiler for it is built without cgo (memory copy and TCP only) and its name says so.
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."

version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
rm -rf dist
mkdir -p dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for arch in amd64 arm64; do
  machine=$(case $arch in amd64) echo x86_64 ;; arm64) echo aarch64 ;; esac)
  cc=
  if [[ $(go env GOHOSTARCH) = "$arch" ]]; then cc=$(command -v gcc || true); else cc=$(command -v "$machine-linux-gnu-gcc" || true); fi
  name=hopbench-$version-linux-$arch
  ldflags="-s -w -buildid= -X hopbench/bench/internal/cli.release=$version"
  if [[ -n $cc ]]; then
    cgo=1 ldflags+=" -extldflags=-Wl,-z,lazy,--build-id=none"
  else
    cgo=0 name+=-nocgo
    echo "dist: no C compiler for $arch ($machine-linux-gnu-gcc): built without cgo, so with memory copy and TCP only"
  fi
  mkdir -p "$work/$name"
  CC=$cc CGO_ENABLED=$cgo GOOS=linux GOARCH=$arch CGO_CFLAGS="-O2 -Wno-deprecated-declarations -ffile-prefix-map=$PWD=." \
    go build -trimpath -buildvcs=false -ldflags "$ldflags" -o "$work/$name/hopbench" ./bench
  for file in LICENSE README.md harness/METHOD.md; do
    [[ ! -e $file ]] || cp "$file" "$work/$name/"
  done
  tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w -cf - "$name" |
    gzip -9n >"dist/$name.tar.gz"
done
(cd dist && sha256sum ./*.tar.gz >SHA256SUMS && cat SHA256SUMS)
