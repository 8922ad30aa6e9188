#!/usr/bin/env bash
# Builds the container image with the first builder that works here: docker, podman or buildah. Without one, the file is checked
# by the test that also `make test` runs, and nothing is built.
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."
version=${VERSION:-dev}
go test ./bench/internal/house -run 'TestContainerFile' -count=1

arguments=(--build-arg "VERSION=$version" --tag "hopbench:$version" .)
if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
  exec docker build "${arguments[@]}"
elif command -v podman >/dev/null; then
  exec podman build "${arguments[@]}"
elif command -v buildah >/dev/null; then
  exec buildah build "${arguments[@]}"
fi
echo "image: no builder that works is here (docker with a reachable daemon, podman, buildah); Dockerfile was checked and nothing was built"
