package ledger

import (
	"errors"
	"strings"
	"testing"

	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

func TestReverseOrder(t *testing.T) {
	b, err := mem.Allocate(mem.Spec{Kind: mem.Host, Bytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l, other := Ledger{Name: "x"}, Ledger{Name: "y"}
	r, err := l.Register(b)
	if err != nil {
		t.Fatal(err)
	}
	if !l.Holds(r) || other.Holds(r) || l.Holds(nil) {
		t.Error("whose region it is")
	}
	ended := 0
	end := func(err error) func() error { return func() error { ended++; return err } }
	r.Lend()
	for what, err := range map[string]error{"x: 1 regions and 1 endpoints": l.Close(end(nil)), "x: 1 endpoints still use": r.Close()} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("closed while something was borrowed: %v", err)
		}
	}
	r.Return()
	if err := l.Close(end(nil)); err == nil || ended > 0 {
		t.Errorf("closed over an open region: %v", err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	busy := errors.New("busy")
	if err := l.Close(end(busy)); !errors.Is(err, busy) {
		t.Errorf("the library's refusal is lost: %v", err)
	}
	for range 2 {
		if err := l.Close(end(nil)); err != nil {
			t.Error(err)
		}
	}
	if ended != 2 { // one refusal and one success
		t.Errorf("ended %d times", ended)
	}
	if _, err := l.Register(b); err == nil {
		t.Error("a closed transport registers memory")
	}
}

func TestDirectory(t *testing.T) {
	var d Directory[string]
	a, b := d.Enter("a"), d.Enter("b")
	if got, err := d.Find(b); got != "b" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	d.Leave(a)
	for _, address := range [][]byte{nil, a, make([]byte, 7), make([]byte, 8), make([]byte, 9)} {
		if _, err := d.Find(address); fault.CodeOf(err) != fault.OneProcess {
			t.Errorf("%x: %v", address, err)
		}
	}
}
