// Package controlpb is the generated code of the control protocol, peer.proto. Package control is its only user.
package controlpb

//go:generate ./generate.sh
