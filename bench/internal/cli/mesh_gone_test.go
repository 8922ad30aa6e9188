package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"hopbench/harness"
	"hopbench/harness/control"
	"hopbench/harness/mesh"
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/tcp"
)

// asked is a peer that answers nothing but whether it is there.
type asked struct {
	harness.Peer
	err error
}

func (a asked) Alive(context.Context) error { return a.err }

// TestGone: whoever is gone is told once, after a cell failed and not before, with what is known of how.
func TestGone(t *testing.T) {
	m := &mesh.Mesh{}
	for n, err := range []error{nil, nil, fault.New(fault.PeerVanished, "ask", "", "broke"), fault.New(fault.PeerDeadline, "ask", "", "no answer"), fault.New(fault.PeerVanished, "ask", "", control.Interrupted)} {
		m.Members = append(m.Members, &mesh.Member{Member: control.Member{Number: n, Host: "vm"}, Peer: asked{err: err}})
	}
	var said []string
	say := func(s string) { said = append(said, s) }
	var all tally
	all.missed(t.Context(), m, say)
	if said != nil {
		t.Errorf("no cell failed: %q", said)
	}
	for range 2 {
		all.failed++
		all.missed(t.Context(), m, say)
	}
	want := "rank 2 on vm is gone: its control connection ended; rank 3 on vm is gone: it gives no sign; rank 4 on vm was interrupted"
	if got := strings.Join(said, "; "); got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	said = nil
	f := meshFlags{env: &Env{Stderr: writer(say)}}
	var exit exitError
	if err := f.verdict(&all); !errors.As(err, &exit) || !strings.Contains(strings.Join(said, ""), want) {
		t.Errorf("the end says %q (%v)", said, err)
	}
}

// writer is a function that takes text.
type writer func(string)

func (w writer) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

// TestIdleFlags: a flag that would change nothing is refused, and ranks in no pair are named.
func TestIdleFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--pattern ring --to 2":                    "--to is of --pattern incast",
		"--pattern incast --to=":                   "--to is empty",
		"--isolated=false --loaded=false":          "nothing would be measured",
		"--pattern bisection --left 0,1 --right 2": "in no pair: 1",
		"--rank 5":             "not below the size",
		"--wait-for-ranks -3s": "at least 1s",
	} {
		var said strings.Builder
		env := &Env{Stdin: strings.NewReader(""), Stdout: &said, Stderr: &said, Drivers: []transports.Driver{tcp.New()}, Now: time.Now, Getenv: func(string) string { return "" }}
		cmd := newMesh(env)
		cmd.SetContext(t.Context())
		cmd.SetArgs(append([]string{"--dry-run", "--size", "3", "--transport", "tcp"}, strings.Fields(args)...))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); err != nil {
			said.WriteString(err.Error())
		}
		if !strings.Contains(said.String(), want) {
			t.Errorf("%s: %s", args, &said)
		}
	}
}
