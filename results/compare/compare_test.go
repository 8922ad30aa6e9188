package compare

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hopbench/results"
)

func TestGateFindsTheSlowedCellAlone(t *testing.T) {
	m := newMaker(t)
	old, new := m.interleaved(16, []int64{4096, 65536, 1 << 20, 16 << 20}, 65536, 0.9, 0.02)
	r := compared(t, old, new, Options{})
	if !r.Interleaved || r.Verdict != Regression || r.Tested != 4 {
		t.Errorf("interleaved %v, verdict %s, tested %d", r.Interleaved, r.Verdict, r.Tested)
	}
	for _, row := range r.Rows {
		if want := map[bool]string{true: Worse, false: row.Verdict}[row.TotalBytes == 65536]; row.Verdict != want || row.TotalBytes != 65536 && (row.Verdict == Worse || row.Verdict == Better) {
			t.Errorf("%s: %s (%s)", row.Cell, row.Verdict, row.Reason)
		}
	}
	if f := r.Failures(Regression); len(f) != 1 || !strings.Contains(f[0], "64KiB") {
		t.Error(f)
	}
	if !strings.Contains(r.Headline, "tcp/write/bandwidth.confirmed/64KiB") {
		t.Error(r.Headline)
	}
	// the other way round it is an improvement, and passes
	r = compared(t, new, old, Options{})
	if r.Verdict != Improvement || len(r.Failures(Regression, Missing)) != 0 {
		t.Error(r.Verdict, r.Failures(Regression))
	}
}

func TestLatencyIsWorseUpwards(t *testing.T) {
	m := newMaker(t)
	c := plain(64)
	c.Definition, c.Depth = "latency.half_rtt", 1
	old := m.file(0, withRounds(c, 10e-6, 10.1e-6, 9.9e-6, 10.05e-6, 9.95e-6, 10.02e-6))
	new := m.file(1, withRounds(c, 12e-6, 12.1e-6, 11.9e-6, 12.05e-6, 11.95e-6, 12.02e-6))
	r := compared(t, m.load(old), m.load(new), Options{})
	if len(r.Rows) != 1 || r.Rows[0].Verdict != Worse || r.Rows[0].Metric != Latency {
		t.Fatalf("%+v", r.Rows)
	}
	if got := *r.Rows[0].Ratio; math.Abs(got-1.2) > 0.01 {
		t.Error(got)
	}
}

// All samples alike on each side, and different between them.
func TestConstantSamples(t *testing.T) {
	m := newMaker(t)
	old := m.file(0, withRounds(plain(64), 115, 115, 115, 115, 115, 115))
	new := m.file(1, withRounds(plain(64), 79, 79, 79, 79, 79, 79))
	r := compared(t, m.load(old), m.load(new), Options{})
	if r.Rows[0].Verdict != Worse || *r.Rows[0].RatioLow > 79./115+1e-9 {
		t.Errorf("%+v", r.Rows[0])
	}
	r = compared(t, m.load(old), m.load(m.file(2, withRounds(plain(64), 115, 115, 115, 115, 115, 115))), Options{})
	if r.Rows[0].Verdict != Same {
		t.Errorf("%+v", r.Rows[0])
	}
}

func TestTooFewSamplesSayHowMany(t *testing.T) {
	m := newMaker(t)
	old := m.file(0, withRounds(plain(64), 100))
	new := m.file(1, withRounds(plain(64), 50))
	r := compared(t, m.load(old), m.load(new), Options{})
	row := r.Rows[0]
	if row.Verdict != TooFew || row.SamplesNeeded != 4 || row.RatioLow != nil || r.Verdict != Undecided {
		t.Errorf("%+v", row)
	}
	if f := r.Failures(Regression); len(f) != 1 || !strings.Contains(f[0], "cannot fail") || !strings.Contains(f[0], "at least 4") {
		t.Error(f)
	}
	// With more cells the correction needs more: 4 against 4 is enough for one cell and not for 25.
	var a, b []results.Cell
	for i := range 25 {
		a = append(a, withRounds(plain(64<<i), 100, 101, 102, 103))
		b = append(b, withRounds(plain(64<<i), 50, 51, 52, 53))
	}
	r = compared(t, m.load(m.file(2, a...)), m.load(m.file(3, b...)), Options{})
	if r.Rows[3].Verdict != TooFew || r.Rows[3].SamplesNeeded != 7 || r.Tested != 0 {
		t.Errorf("%+v", r.Rows[3])
	}
	r = compared(t, m.load(m.file(4, a[:1]...)), m.load(m.file(5, b[:1]...)), Options{})
	if r.Rows[0].Verdict != Worse {
		t.Errorf("%+v", r.Rows[0])
	}
}

func TestOneSideOnly(t *testing.T) {
	m := newMaker(t)
	six := []float64{100, 101, 102, 103, 104, 105}
	waived := plain(1 << 20)
	waived.Transport, waived.Status, waived.Reason = "roce", "waived", "no RDMA device"
	both := plain(1 << 20)
	both.Transport = "roce"
	old := m.load(m.file(0, withRounds(plain(64), six...), withRounds(plain(128), six...), withRounds(both, six...)))
	new := m.load(m.file(1, withRounds(plain(64), six...), withRounds(plain(1<<20), six...), waived))
	r := compared(t, old, new, Options{})
	got := map[string]string{}
	for _, row := range r.Rows {
		got[row.Cell] = row.Verdict
	}
	want := map[string]string{
		"tcp/write/bandwidth.confirmed/64B/depth=16/software":   Same,
		"tcp/write/bandwidth.confirmed/128B/depth=16/software":  Missing,
		"tcp/write/bandwidth.confirmed/1MiB/depth=16/software":  Added,
		"roce/write/bandwidth.confirmed/1MiB/depth=16/software": Missing,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(r.Failures(Regression)) != 0 || len(r.Failures(Missing)) != 2 {
		t.Error(r.Failures(Missing))
	}
	if f := r.Failures(Missing)[0]; !strings.Contains(f, "no RDMA device") {
		t.Error(f)
	}
	if r.Compared != 1 {
		t.Errorf("cells of one side entered the comparison: %d", r.Compared)
	}
}

func TestNotComparable(t *testing.T) {
	m := newMaker(t)
	six := []float64{100, 101, 102, 103, 104, 105}
	base := withRounds(plain(64), six...)
	for _, c := range []struct {
		name   string
		change func(*results.Cell)
		want   string
	}{
		{"definition", func(c *results.Cell) { c.Definition = "bandwidth.notified" }, "definition: bandwidth.confirmed, then bandwidth.notified"},
		{"memory", func(c *results.Cell) { c.TargetMemory = "cuda:0" }, "target memory: host, then cuda:0"},
		{"realm", func(c *results.Cell) { c.Realm = "hardware" }, "realm: software, then hardware"},
		{"path", func(c *results.Cell) {
			c.Label = "tcp"
			c.Path = &results.Path{Initiator: &results.Side{Route: "routed"}}
		}, "path: tcp, same host, then tcp [routed > ?]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := base
			c.change(&other)
			r := compared(t, m.load(m.file(0, base)), m.load(m.file(1, other)), Options{})
			if len(r.Rows) != 1 || r.Rows[0].Verdict != NotComparable || !strings.Contains(r.Rows[0].Reason, c.want) {
				t.Errorf("%+v", r.Rows)
			}
			if f := r.Failures(); len(f) == 0 {
				t.Error("a comparison without a comparable cell passes")
			}
		})
	}
	// asked for, another wait is no obstacle; another definition always is
	other := base
	other.Wait = "spin"
	r := compared(t, m.load(m.file(0, base)), m.load(m.file(1, other)), Options{Across: []string{"wait"}})
	if len(r.Rows) != 1 || r.Rows[0].Verdict != Same {
		t.Errorf("%+v", r.Rows)
	}
	if _, err := Compare(m.load(m.file(0, base)), m.load(m.file(1, other)), Options{Across: []string{"definition"}}); err == nil {
		t.Error("compared across definitions")
	}
}

// A flaky base is no excuse and no trap: what is right is compared, and a head that fails no more often is no regression.
func TestFailuresOnBothSides(t *testing.T) {
	m := newMaker(t)
	failed := plain(64)
	failed.Status, failed.Reason = "failed", "timed out"
	sides := func(oldBad, newBad int) (*Set, *Set) {
		var a, b []string
		for i, isNew := range order(gateOrder(16)) {
			c := withRounds(plain(64), 1e9*(1+0.001*float64(i%7)))
			if isNew {
				if len(b) < newBad {
					c = failed
				}
				b = append(b, m.file(i, c))
			} else {
				if len(a) < oldBad {
					c = failed
				}
				a = append(a, m.file(i, c))
			}
		}
		return m.load(a...), m.load(b...)
	}
	for _, c := range []struct {
		old, new int
		want     string
	}{{0, 1, Worse}, {1, 0, Same}, {1, 1, Same}, {2, 1, Same}, {1, 2, Same}, {1, 9, Worse}, {16, 16, NotComparable}} {
		old, new := sides(c.old, c.new)
		r := compared(t, old, new, Options{})
		if len(r.Rows) != 1 || r.Rows[0].Verdict != c.want {
			t.Errorf("%d and %d failed: %+v", c.old, c.new, r.Rows)
		}
	}
}

func TestMinEffectByPattern(t *testing.T) {
	m := newMaker(t)
	old, new := m.interleaved(16, []int64{4096, 65536}, 65536, 0.9, 0.01)
	r := compared(t, old, new, Options{MinEffects: []Effect{{"", 0.03}, {"*64KiB*", 0.2}}})
	if v := verdictOf(r, 65536); v != Same {
		t.Error(v)
	}
	if _, err := Compare(old, new, Options{MinEffects: []Effect{{"*nothing*", 0.2}}}); err == nil {
		t.Error("a pattern that matches nothing is taken")
	}
	if _, err := Compare(old, new, Options{Cells: []string{"roce*"}}); err == nil {
		t.Error("a filter that matches nothing is taken")
	}
}

func TestAbsoluteFloors(t *testing.T) {
	m := newMaker(t)
	old, new := m.interleaved(16, []int64{4096, 65536}, 65536, 0.5, 0.01)
	r := compared(t, old, new, Options{Floors: []Floor{{Metric: Bandwidth, Value: 0.8e9}}})
	n := 0
	for _, row := range r.Rows {
		if row.FloorBroken != "" {
			n++
			if row.TotalBytes != 65536 {
				t.Error(row.FloorBroken)
			}
		}
	}
	if n != 1 || len(r.Failures()) != 1 { // one row passes: the other fails all the same
		t.Error(n, r.Failures())
	}
	if _, err := Compare(old, new, Options{Floors: []Floor{{Metric: Latency, Value: 1}}}); err == nil {
		t.Error("a bound on no row passes")
	}
}
