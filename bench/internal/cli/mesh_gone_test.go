package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"hopbench/harness"
	"hopbench/harness/control"
	"hopbench/harness/mesh"
	"hopbench/transports/fault"
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
