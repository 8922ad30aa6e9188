#!/bin/sh
# Regenerates the Go code of the control protocol. protoc comes from the system (package protobuf-compiler); the two plug-ins
# are pinned as tools in go.mod.
set -eu
cd "$(dirname "$0")"
exec protoc --proto_path=. \
	--plugin=protoc-gen-go="$(go tool -n protoc-gen-go)" --go_out=. --go_opt=paths=source_relative \
	--plugin=protoc-gen-go-grpc="$(go tool -n protoc-gen-go-grpc)" --go-grpc_out=. --go-grpc_opt=paths=source_relative \
	peer.proto
