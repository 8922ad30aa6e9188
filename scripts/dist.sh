#!/usr/bin/env bash
# Makes release archives of linux/amd64 and linux/arm64 under dist/, with their checksums, each with the report's planner built in. The
# same commit and toolchain give the same bytes. An architecture without a C compiler for it is built without cgo (memory copy and TCP
# only) and its name says so. Each program that this machine can run is asked what it is, and must say that it has the planner.
#
# DIST   folder of the archives, emptied first (default dist)
# ARCHES architectures (default "amd64 arm64")
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."

version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
dist=${DIST:-dist}
rm -rf "$dist"
mkdir -p "$dist"
make --no-print-directory planner
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for arch in ${ARCHES:-amd64 arm64}; do
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
    go build -tags planner -trimpath -buildvcs=false -ldflags "$ldflags" -o "$work/$name/hopbench" ./bench
  if [[ $(go env GOHOSTARCH) = "$arch" ]]; then
    told=$("$work/$name/hopbench" --version)
    if [[ $told != *"planner: built in"* ]]; then
      echo "dist: the program for $arch does not have the report's planner:" >&2
      echo "$told" >&2
      exit 1
    fi
  fi
  for file in LICENSE README.md harness/METHOD.md; do
    [[ ! -e $file ]] || cp "$file" "$work/$name/"
  done
  tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w -cf - "$name" |
    gzip -9n >"$dist/$name.tar.gz"
done
(cd "$dist" && sha256sum ./*.tar.gz >SHA256SUMS && cat SHA256SUMS)
