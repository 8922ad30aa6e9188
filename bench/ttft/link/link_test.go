package link

import (
	"math"
	"strings"
	"testing"

	"hopbench/bench/ttft/curve"
)

func TestGiven(t *testing.T) {
	l, err := Given("x", Spec{Low: 1e9, High: 4e9, Latency: 1e-3, PerDescriptor: 1e-6})
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Time([]curve.Shape{{PieceBytes: 1e6, Count: 1000}}, 2, true)
	if err != nil {
		t.Fatal(err)
	}
	if want := 1e-3 + 2*(0.5+1e-3); math.Abs(a.Seconds-want) > 1e-12 {
		t.Errorf("%g s, want %g", a.Seconds, want)
	}
	if want := 1e-3 + 2*(0.25+1e-3); math.Abs(a.Low-want) > 1e-12 || !a.Bounded {
		t.Errorf("low %g s, want %g", a.Low, want)
	}
	b, err := l.Faster(2).Time([]curve.Shape{{PieceBytes: 1e6, Count: 1000}}, 2, true)
	if err != nil || math.Abs(b.Seconds-1e-3-(a.Seconds-1e-3)/2) > 1e-12 {
		t.Errorf("twice as fast: %g s (%v)", b.Seconds, err)
	}
	if !strings.Contains(l.Label, "given") || l.Provenance != "given" {
		t.Errorf("%q (%s) does not say that it is given", l.Label, l.Provenance)
	}
	for _, s := range []Spec{{}, {Low: 2, High: 1}, {Low: 1, High: math.Inf(1)}, {Low: 1, High: 1, Latency: -1}, {Low: 1, High: 1, PerDescriptor: math.NaN()}} {
		if _, err := Given("x", s); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

// References carry their source, say that they are references, and NVLink
// between ordinary pods is hypothetical.
func TestReferences(t *testing.T) {
	list, err := References(0)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, l := range list {
		have[l.Transport] = true
		if l.Provenance != "reference" || l.Source == "" || !strings.Contains(l.Label, "(reference)") || len(l.Notes) == 0 {
			t.Errorf("%+v", l)
		}
		if (l.Hypothetical != "") != (l.Transport == "cuda-peer") {
			t.Errorf("%s: hypothetical %q", l.Label, l.Hypothetical)
		}
	}
	for _, want := range []string{"cuda-peer", "infiniband", "roce", "tcp"} {
		if !have[want] {
			t.Errorf("no reference for %s", want)
		}
	}
}
