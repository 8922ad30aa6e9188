package prefill

import (
	"math"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	m, err := Table([][2]float64{{2000, 0.3}, {1000, 0.2}, {4000, 0.6}}, "measured", "x")
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(m.Floor-0.1) > 1e-12 {
		t.Errorf("floor %g, want 0.1", m.Floor)
	}
	for n, want := range map[int]float64{1000: 0.2, 2000: 0.3, 4000: 0.6, 3000: 0.45, 500: 0.15, 8000: 1.2} {
		if got := m.Seconds(n); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d tokens: %g, want %g", n, got, want)
		}
	}
	if m.Outside(999) == "" || m.Outside(4001) == "" || m.Outside(1500) != "" {
		t.Error("the measured range is not 1000 to 4000")
	}
	last := 0.0
	for n := range 9000 {
		if w := m.Work(n); w < last-1e-12 {
			t.Fatalf("work falls at %d tokens", n)
		} else {
			last = w
		}
	}
}

func TestBadTables(t *testing.T) {
	for want, p := range map[string][][2]float64{
		"no points": nil, "not a measurement": {{0, 1}}, "twice": {{5, 1}, {5, 2}}, "less than": {{5, 2}, {6, 1}}, "in NaN": {{5, math.NaN()}},
	} {
		if _, err := Table(p, "", ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := Rate(v, 0); err == nil {
			t.Errorf("a rate of %g is accepted", v)
		}
	}
}

// Llama-3.1-8B at 8192 tokens by hand: 2 x 8.03e9 x 8192 + 2 x 32 x 8192^2 x 32
// x 128 = 1.3156e14 + 1.759e13, on 989e12 x 0.5.
func TestFLOPs(t *testing.T) {
	f := FLOPs{ActiveParams: 8.03e9, Attention: 32 * 32 * 128, Peak: 989e12, GPUs: 1, MFU: 0.5}
	m, err := f.Model()
	if err != nil {
		t.Fatal(err)
	}
	want := (2*8.03e9*8192 + 2*32*8192.0*8192*32*128) / (989e12 * 0.5)
	if got := m.Seconds(8192); math.Abs(got/want-1) > 1e-12 {
		t.Errorf("%g s, want %g", got, want)
	}
	if m.Provenance != "projected" || !strings.Contains(m.Source, "MFU of 50 %") {
		t.Errorf("%s: %s", m.Provenance, m.Source)
	}
	for _, bad := range []FLOPs{{}, {ActiveParams: 1}, {ActiveParams: 1, Peak: 1}, {ActiveParams: 1, Peak: 1, MFU: 1.5, GPUs: 1}, {ActiveParams: 1, Peak: 1, MFU: 0.5}} {
		if _, err := bad.Model(); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	// A window costs its square and then grows straight.
	f.Attention, f.Windowed = 0, []Window{{Width: 100, Tokens: 10}}
	f.ActiveParams = 1e-9
	w, err := f.Model()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := w.Work(20)/w.Work(10), (200.0*100+400*10*10)/(200*100); math.Abs(got-want) > 1e-6 {
		t.Errorf("20 tokens cost %g times 10 in a window of 10, want %g", got, want)
	}
}
