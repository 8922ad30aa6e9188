package matrix

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hopbench/results"
)

func ptr[T any](v T) *T { return &v }

// bandwidth is a cell of a pair.
func bandwidth(from, to string, v float64) *results.Cell {
	return &results.Cell{
		Transport: "tcp", Label: "tcp", Realm: results.RealmHardware, Definition: "bandwidth.confirmed", Operation: "write", Direction: "forward",
		PieceBytes: 1 << 20, TotalBytes: 1 << 20, Descriptors: 1, Pattern: "contiguous", Depth: 16, Streams: 1, Concurrency: 1,
		InitiatorMemory: "host", TargetMemory: "host", Wait: "adaptive", InitiatorHost: from, TargetHost: to, Schedule: "isolated",
		Status: results.StatusOK, Bandwidth: &results.Bandwidth{BytesPerSecond: v, Rounds: []float64{v}},
	}
}

func latency(from, to string, v float64) *results.Cell {
	c := bandwidth(from, to, 1)
	c.Definition, c.Bandwidth, c.Depth = "latency.half_rtt", nil, 1
	c.Latency = &results.Latency{Samples: 1000, P50Seconds: &v, P99Seconds: ptr(2 * v), RoundsP50Seconds: []float64{v}}
	return c
}

func failure(from, to, why string) *results.Cell {
	c := bandwidth(from, to, 1)
	c.Status, c.Reason, c.Bandwidth, c.Realm, c.Label = results.StatusFailed, why, nil, "", ""
	return c
}

// truth is a mesh: who is how much slower, by the factor that a figure is multiplied with.
type truth struct {
	n     int
	sigma float64
	skip  func(a, b int) bool
	slow  func(a, b int) float64
}

func hostName(h int) string { return fmt.Sprintf("n%d", h) }

func (w truth) mesh(t testing.TB, r *rand.Rand) *Mesh {
	t.Helper()
	m := New(Options{})
	for a := range w.n {
		for b := range w.n {
			if a == b || w.skip != nil && w.skip(a, b) {
				continue
			}
			v := 10e9 * math.Exp(w.sigma*r.NormFloat64())
			if w.slow != nil {
				v *= w.slow(a, b)
			}
			if err := m.Add(bandwidth(hostName(a), hostName(b), v)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}

func (w truth) findings(t testing.TB, r *rand.Rand, j Judge) []Finding {
	var out []Finding
	for _, p := range w.mesh(t, r).Reports(j) {
		out = append(out, p.Findings...)
	}
	return out
}

func names(f []Finding) string {
	var out []string
	for _, x := range f {
		s := x.Name()
		if x.Kind == Host && x.Role != "both" {
			s += " as " + x.Role
		}
		if len(x.Peers) > 0 {
			s += " with " + strings.Join(x.Peers, " ")
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func isHost(hosts ...int) func(a, b int) bool {
	return func(a, b int) bool { return slices.Contains(hosts, a) || slices.Contains(hosts, b) }
}

func slowIf(is func(a, b int) bool, by float64) func(a, b int) float64 {
	return func(a, b int) float64 {
		if is(a, b) {
			return by
		}
		return 1
	}
}

// TestNamed holds the findings to what was made slow: in twenty meshes each, with 3 % noise, every one must say this and nothing else.
func TestNamed(t *testing.T) {
	leaf := func(n, size int) map[string]string {
		g := map[string]string{}
		for h := range n {
			g[hostName(h)] = fmt.Sprintf("leaf%d", h/size)
		}
		return g
	}
	pair := func(x, y int) func(a, b int) bool {
		return func(a, b int) bool { return a == x && b == y || a == y && b == x }
	}
	for name, c := range map[string]struct {
		w    truth
		j    Judge
		want string
	}{
		"nothing":             {w: truth{n: 8}, want: ""},
		"a host, ten times":   {w: truth{n: 8, slow: slowIf(isHost(5), 0.1)}, want: "host n5"},
		"a host of four":      {w: truth{n: 4, slow: slowIf(isHost(1), 0.3)}, want: "host n1"},
		"a host of five":      {w: truth{n: 5, slow: slowIf(isHost(1), 0.5)}, want: "host n1"},
		"two hosts":           {w: truth{n: 8, slow: slowIf(isHost(2, 6), 0.5)}, want: "host n2; host n6"},
		"two hosts of many":   {w: truth{n: 40, slow: slowIf(isHost(2, 6), 0.8)}, want: "host n2; host n6"},
		"three of eight":      {w: truth{n: 8, slow: slowIf(isHost(0, 1, 2), 0.5)}, want: "host n0; host n1; host n2"},
		"a pair":              {w: truth{n: 8, slow: slowIf(pair(1, 4), 0.5)}, want: "pair n1 and n4"},
		"a pair of many":      {w: truth{n: 32, slow: slowIf(pair(1, 4), 0.7)}, want: "pair n1 and n4"},
		"one way of a pair":   {w: truth{n: 8, slow: slowIf(func(a, b int) bool { return a == 1 && b == 4 }, 0.5)}, want: "pair n1 to n4"},
		"a sender":            {w: truth{n: 8, slow: slowIf(func(a, b int) bool { return a == 3 }, 0.5)}, want: "host n3 as initiator"},
		"a receiver":          {w: truth{n: 8, slow: slowIf(func(a, b int) bool { return b == 3 }, 0.5)}, want: "host n3 as target"},
		"a host and a pair":   {w: truth{n: 10, slow: func(a, b int) float64 { return slowIf(isHost(5), 0.5)(a, b) * slowIf(pair(1, 2), 0.5)(a, b) }}, want: "host n5; pair n1 and n2"},
		"one way alone":       {w: truth{n: 8, skip: func(a, b int) bool { return a > b }, slow: slowIf(isHost(5), 0.5)}, want: "host n5"},
		"one way, four hosts": {w: truth{n: 4, skip: func(a, b int) bool { return a > b }, slow: slowIf(isHost(2), 0.02)}, want: "host n2"},
		"blanks":              {w: truth{n: 12, skip: func(a, b int) bool { return (a*7+b*3)%4 == 0 }, slow: slowIf(isHost(5), 0.5)}, want: "host n5"},
		"with some": {w: truth{n: 12, slow: slowIf(func(a, b int) bool { return a == 0 && b > 7 || b == 0 && a > 7 }, 0.5)},
			want: "host n0 with n8 n9 n10 n11"},
		"a switch group":    {w: truth{n: 16, slow: slowIf(isHost(4, 5, 6, 7), 0.5)}, j: Judge{Groups: leaf(16, 4)}, want: "switch group leaf1"},
		"two switch groups": {w: truth{n: 16, slow: slowIf(func(a, b int) bool { return a/4 == 1 && b/4 == 2 || a/4 == 2 && b/4 == 1 }, 0.5)}, j: Judge{Groups: leaf(16, 4)}, want: "switch groups leaf1 and leaf2 with each other"},
		"slower across":     {w: truth{n: 16, slow: slowIf(func(a, b int) bool { return a/8 != b/8 }, 0.5)}, j: Judge{Groups: leaf(16, 8)}, want: ""},
		"slower across host": {w: truth{n: 16, slow: func(a, b int) float64 {
			return slowIf(func(a, b int) bool { return a/8 != b/8 }, 0.5)(a, b) * slowIf(isHost(3), 0.7)(a, b)
		}}, j: Judge{Groups: leaf(16, 8)}, want: "host n3"},
		"within a group": {w: truth{n: 16, slow: slowIf(func(a, b int) bool { return a/4 == 1 && b/4 == 1 }, 0.5)}, j: Judge{Groups: leaf(16, 4)}, want: "switch group leaf1 within itself"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := 0
			for seed := range uint64(20) {
				w := c.w
				w.sigma = 0.03
				got := names(sorted(w.findings(t, rand.New(rand.NewPCG(seed, 1)), c.j)))
				if got != c.want {
					if wrong++; wrong < 4 {
						t.Logf("seed %d: %q, want %q", seed, got, c.want)
					}
				}
			}
			if wrong > 1 { // the chance of a false finding is 5 % a mesh
				t.Errorf("%d of 20 meshes", wrong)
			}
		})
	}
}

func sorted(f []Finding) []Finding {
	slices.SortStableFunc(f, func(a, b Finding) int { return strings.Compare(a.Kind+a.Name(), b.Kind+b.Name()) })
	return f
}

// TestNoDoubtOfAFoundHost: where a host is named, nothing says that it could not be.
func TestNoDoubtOfAFoundHost(t *testing.T) {
	for n := 4; n < 9; n++ {
		for _, r := range (truth{n: n, sigma: 0.01, slow: slowIf(isHost(1), 0.3)}).mesh(t, rand.New(rand.NewPCG(uint64(n), 1))).Reports(Judge{}) {
			if names(r.Findings) != "host n1" || strings.Contains(strings.Join(r.Doubts, "\n"), "cannot be told") {
				t.Errorf("%d hosts: %s, and %q", n, names(r.Findings), r.Doubts)
			}
		}
	}
}

// TestNotTold: what cannot be told is said, and nothing is named.
func TestNotTold(t *testing.T) {
	for name, c := range map[string]struct {
		w    truth
		want string
	}{
		"one pair":          {truth{n: 2, sigma: 0.03}, "two hosts are one pair"},
		"three":             {truth{n: 3, sigma: 0.03}, "three hosts are too few"},
		"three, slow":       {truth{n: 3, sigma: 0.03, slow: slowIf(isHost(1), 0.1)}, "look at n1 first"},
		"three, a receiver": {truth{n: 3, sigma: 0.03, slow: slowIf(func(_, b int) bool { return b == 1 }, 0.02)}, "times slower: look at n1 as target"},
		"one way of a pair": {truth{n: 3, sigma: 0.03, slow: slowIf(func(a, b int) bool { return a == 0 && b == 1 }, 0.02)}, "n0 to n1: "},
		"two, one way":      {truth{n: 2, sigma: 0.03, slow: slowIf(func(a, _ int) bool { return a == 1 }, 0.02)}, "n1 to n0: "},
		"half of the links": {truth{n: 12, sigma: 0.03, slow: func(a, b int) float64 {
			if (min(a, b)*5+max(a, b)*11)%2 == 0 {
				return 0.4
			}
			return 1
		}}, "fall into two groups"},
		"half of the hosts": {truth{n: 8, sigma: 0.01, slow: slowIf(isHost(4, 5, 6, 7), 0.5)}, "fall into two groups"},
		"half, each by itself": {truth{n: 8, sigma: 0.01, slow: func(a, b int) float64 {
			return slowIf(func(a, b int) bool { return a > 3 }, 0.5)(a, b) * slowIf(func(a, b int) bool { return b > 3 }, 0.5)(a, b)
		}}, "the hosts fall into two groups, of which one is slower by 50 % (50 % of the hosts): n4, n5, n6, n7; and n0, n1, n2, n3"},
		"a ring": {truth{n: 8, sigma: 0.03, skip: func(a, b int) bool { return b != (a+1)%8 }}, "too few to tell"},
	} {
		var doubts []string
		var found []Finding
		for _, p := range c.w.mesh(t, rand.New(rand.NewPCG(3, 3))).Reports(Judge{}) {
			doubts, found = append(doubts, p.Doubts...), append(found, p.Findings...)
		}
		if !strings.Contains(strings.Join(doubts, "\n"), c.want) {
			t.Errorf("%s: %q does not say %q", name, doubts, c.want)
		}
		if len(found) > 0 {
			t.Errorf("%s: %s", name, names(found))
		}
	}
}

func TestAdd(t *testing.T) {
	m := New(Options{})
	for _, c := range []*results.Cell{bandwidth("n10", "n2", 1e9), bandwidth("n2", "n10", 2e9), failure("n1", "n2", "cut"), latency("n1", "n10", 5e-6)} {
		if err := m.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	other := bandwidth("", "", 1)
	again := bandwidth("n10", "n2", 5e9)
	reverse := bandwidth("n1", "n10", 3e9)
	reverse.Direction = "reverse"
	wrong := bandwidth("n2", "n1", 3e9)
	wrong.Verified = ptr(false)
	for _, c := range []*results.Cell{other, again, reverse, wrong} {
		if err := m.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(m.Hosts(), " "); got != "n1 n2 n10" {
		t.Errorf("hosts: %s", got)
	}
	layers := m.Layers()
	if len(layers) != 2 {
		t.Fatalf("%d layers", len(layers))
	}
	l := layers[0]
	if got := fmt.Sprint(l.Values()); got != "[1e+09 2e+09 3e+09]" {
		t.Errorf("values: %s", got)
	}
	if p := l.At("n1", "n2"); p.Status != results.StatusFailed || p.Reason != "cut" || p.Value != 0 {
		t.Errorf("the failed row: %+v", p)
	}
	if p := l.At("n2", "n1"); p.Status != results.StatusFailed || p.Reason != "the payload was wrong" {
		t.Errorf("the wrong row: %+v", p)
	}
	if p := l.At("n10", "n1"); p.Status != "" {
		t.Errorf("a pair that was not measured: %+v", p)
	}
	if p := l.At("n7", "n1"); p.Status != "" {
		t.Errorf("a host that is not there: %+v", p)
	}
	if p := layers[1].At("n1", "n10"); p.Value != 5e-6 || p.P99 < 9.9e-6 || !layers[1].Latency() {
		t.Errorf("latency: %+v", p)
	}
	if m.Other() != 1 || l.again != 1 {
		t.Errorf("%d of no pair, %d again", m.Other(), l.again)
	}
	double := bandwidth("a", "b", 1)
	double.Realm = results.RealmDouble
	if err := m.Add(double); !errors.Is(err, ErrDouble) {
		t.Errorf("a double: %v", err)
	}
}

func TestFailedBeforeItsPathIsAdopted(t *testing.T) {
	m := New(Options{Hosts: []string{"z", "a"}})
	for _, c := range []*results.Cell{failure("z", "a", "no route"), bandwidth("a", "z", 1e9)} {
		if err := m.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(m.Hosts(), " "); got != "z a" {
		t.Errorf("the order that was given: %s", got)
	}
	layers := m.Layers()
	if len(layers) != 1 || layers[0].At("z", "a").Reason != "no route" {
		t.Fatalf("%d layers", len(layers))
	}
	// Rows that come later go to the layer too, whichever they are.
	if err := m.Add(failure("a", "z", "late")); err != nil {
		t.Fatal(err)
	}
	if layers = m.Layers(); len(layers) != 1 || layers[0].At("a", "z").Value != 1e9 {
		t.Errorf("%d layers after a late failure", len(layers))
	}
}

func TestMemoryIsBounded(t *testing.T) {
	m := New(Options{MostBytes: 24 * 1000})
	var err error
	for a := 0; a < 100 && err == nil; a++ {
		for b := 0; b < 100 && err == nil; b++ {
			if a != b {
				err = m.Add(bandwidth(hostName(a), hostName(b), 1e9))
			}
		}
	}
	if err == nil || m.Bytes() > 24*1200 {
		t.Errorf("%d bytes, %v", m.Bytes(), err)
	}
}

func TestFailuresAreOfHostsWhereTheyAre(t *testing.T) {
	m := New(Options{})
	for a := range 6 {
		for b := range 6 {
			c := bandwidth(hostName(a), hostName(b), 1e9)
			switch {
			case a == b:
				continue
			case a == 3 || b == 3:
				c = failure(hostName(a), hostName(b), "gone")
			case a == 1 && b == 2:
				c = failure(hostName(a), hostName(b), "cut")
			}
			if err := m.Add(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	reports := m.Reports(Judge{})
	got := fmt.Sprint(reports[0].Failures)
	if want := "[{n3  10 gone} {n1 n2 1 cut}]"; got != want && got != "[{n1 n2 1 cut} {n3  10 gone}]" && got != "[{n3  10 gone} {n1 n2 1 cut}]" {
		t.Errorf("%s, want %s", got, want)
	}
	s := Suspects(reports)
	if len(s) != 2 || s[0].Name != "host n3" || s[0].Kind != "failed" {
		t.Errorf("%+v", s)
	}
}

// TestQuietest: of the schedules of a mesh the one with the least beside a pair is judged and held against the others.
func TestQuietest(t *testing.T) {
	m := New(Options{})
	for _, schedule := range []string{"all-to-all", "all-pairs", "all-pairs, background", "all-pairs, both ways", "all-to-all, both ways", "incast"} {
		for a := range 5 {
			for b := range 5 {
				if a == b || schedule == "incast" && b > 0 {
					continue
				}
				c := bandwidth(hostName(a), hostName(b), 1e9)
				c.Schedule = schedule
				if err := m.Add(c); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var judged, loads []string
	for _, r := range m.Reports(Judge{}) {
		judged = append(judged, r.Key.Schedule)
	}
	for _, l := range m.Loads() {
		loads = append(loads, l.Key.Schedule+" after "+l.Alone.Key.Schedule)
	}
	if got := strings.Join(judged, "; "); got != "all-pairs; all-pairs, both ways" {
		t.Errorf("judged: %s", got)
	}
	if got := strings.Join(loads, "; "); got != "all-to-all after all-pairs; all-pairs, background after all-pairs; all-to-all, both ways after all-pairs, both ways; incast after all-pairs" {
		t.Errorf("loads: %s", got)
	}
}

func TestLoads(t *testing.T) {
	m := New(Options{})
	for i, v := range []float64{10, 10, 8, 10} {
		c := bandwidth(hostName(i), "sink", v*1e9)
		l := bandwidth(hostName(i), "sink", []float64{2.5, 2.5, 4, 1}[i]*1e9)
		l.Schedule = "incast"
		for _, c := range []*results.Cell{c, l} {
			if err := m.Add(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	lost := failure("n9", "sink", "gone")
	lost.Schedule, lost.Realm = "incast", results.RealmHardware
	if err := m.Add(lost); err != nil {
		t.Fatal(err)
	}
	loads := m.Loads()
	if len(loads) != 1 {
		t.Fatalf("%d loads", len(loads))
	}
	o := loads[0]
	if o.Missing != 1 || len(o.Flows) != 4 || o.Flows[0].Initiator != "n3" || o.Flows[0].Slowdown != 10 || o.Flows[3].Slowdown != 2 {
		t.Errorf("%+v", o)
	}
	if *o.Sum != 10e9 || *o.SumAlone != 38e9 || o.Slowdown.Median != 4 || o.SlowdownP99 != nil {
		t.Errorf("sum %v of %v, %+v", *o.Sum, *o.SumAlone, o.Slowdown)
	}
	// (2.5+2.5+4+1)^2 / (4 * (6.25+6.25+16+1)) = 100/118
	if math.Abs(*o.Jain-100.0/118) > 1e-12 {
		t.Errorf("Jain's index is %v", *o.Jain)
	}
	// of own: 0.25, 0.25, 0.5, 0.1: 1.1^2 / (4 * 0.385)
	if math.Abs(*o.JainOfOwn-1.21/1.54) > 1e-12 {
		t.Errorf("Jain's index of the parts is %v", *o.JainOfOwn)
	}
	if Jain([]float64{3, 3, 3}) != 1 || Jain([]float64{0, 0, 5}) != 1.0/3 || Jain(nil) != 1 {
		t.Error("Jain's index of plain cases")
	}
}

// Nothing was measured: all pairs are waived, or the run ended before its first figure.
func TestNoFigureAtAll(t *testing.T) {
	w := truth{n: 4, skip: func(a, b int) bool { return true }}
	if got := w.findings(t, rand.New(rand.NewPCG(1, 1)), Judge{}); len(got) != 0 {
		t.Errorf("an empty mesh has findings: %s", names(got))
	}
	if f := (&fit{degree: make([]int, 4)}); f.parameters() != 0 {
		t.Errorf("a fit of nothing has %d parameters", f.parameters())
	}
}
