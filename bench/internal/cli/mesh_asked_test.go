package cli

import (
	"slices"
	"strings"
	"testing"

	"hopbench/harness/control"
	"hopbench/harness/mesh"
)

// TestRanksThatWereAskedForSomethingElse are told, once for each command line; one that was asked for nothing is not.
func TestRanksThatWereAskedForSomethingElse(t *testing.T) {
	member := func(n int, asked ...string) *mesh.Member {
		return &mesh.Member{Member: control.Member{Number: n, Host: "h", Asked: asked}}
	}
	got := otherwise([]*mesh.Member{
		member(0, "--op read", "--sizes 4MiB"), member(1, "--op read", "--sizes 4MiB"), member(2), member(3, "--op read", "--sizes 1MiB"),
		member(4, "--sizes 4MiB"), member(5, "--op read", "--sizes 1MiB"),
	})
	want := []string{
		"rank 3 on h and 1 more was started with --sizes 1MiB and without --sizes 4MiB: what counts is the command line of rank 0 on h",
		"rank 4 on h was started without --op read: what counts is the command line of rank 0 on h",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestAskedFlags are those that say what is measured, never a token's file or a rank's number, and short.
func TestAskedFlags(t *testing.T) {
	long := strings.Repeat("1KiB,", 40) + "2KiB"
	asked := func(args ...string) []string {
		f := &meshFlags{env: &Env{}, run: &runFlags{env: &Env{}}}
		cmd := newMesh(&Env{})
		cmd.ResetFlags()
		f.define(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		return f.asked()
	}
	if got := asked("--rank", "3", "--token-file", "secret", "--out", "x", "--op", "read,write", "--depth", "4", "--one-way"); !slices.Equal(got, []string{"--depth 4", "--one-way true", "--op read,write"}) {
		t.Errorf("%q", got)
	}
	a, b := asked("--sizes", long), asked("--sizes", long+",4KiB")
	if len(a) != 1 || len(a[0]) > 100 || slices.Equal(a, b) {
		t.Errorf("%q and %q", a, b)
	}
}
