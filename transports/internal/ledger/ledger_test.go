package ledger

import (
	"errors"
	"strings"
	"testing"

	"hopbench/transports/fault"
)

func TestReverseOrder(t *testing.T) {
	l := Ledger{Name: "x"}
	r, err := l.Register()
	if err != nil {
		t.Fatal(err)
	}
	ended := map[string]int{}
	end := func(what string, err error) func() error {
		return func() error { ended[what]++; return err }
	}
	r.Lend()
	for what, err := range map[string]error{"x: 1 regions and 1 endpoints": l.Close(end("transport", nil)), "x: 1 endpoints still use": r.Close(end("region", nil))} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("closed while something was borrowed: %v", err)
		}
	}
	if len(ended) > 0 {
		t.Errorf("ended in spite of it: %v", ended)
	}
	r.Return()
	busy := errors.New("busy")
	if err := r.Close(end("region", busy)); !errors.Is(err, busy) {
		t.Errorf("the library's refusal is lost: %v", err)
	}
	if err := l.Close(nil); err == nil {
		t.Error("closed over a region that the library keeps")
	}
	for range 2 {
		if err := r.Close(end("region", nil)); err != nil {
			t.Error(err)
		}
	}
	if err := l.Close(end("transport", busy)); !errors.Is(err, busy) {
		t.Errorf("the library's refusal is lost: %v", err)
	}
	for range 2 {
		if err := l.Close(end("transport", nil)); err != nil {
			t.Error(err)
		}
	}
	if ended["region"] != 2 || ended["transport"] != 2 { // one refusal and one success each
		t.Errorf("ended so often: %v", ended)
	}
	if _, err := l.Register(); err == nil {
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
