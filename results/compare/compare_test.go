package compare

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hopbench/results"
)

var update = flag.Bool("update", false, "write the golden files and POWER.md anew")

// maker writes result files for tests.
type maker struct {
	t   *testing.T
	dir string
	n   int
}

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func plain(size int64) results.Cell {
	return results.Cell{
		Transport: "tcp", Label: "tcp, same host", Realm: "software", Definition: "bandwidth.confirmed", Operation: "write", Direction: "forward",
		PieceBytes: size, TotalBytes: size, Descriptors: 1, Pattern: "contiguous", Depth: 16, Streams: 1, Concurrency: 1,
		InitiatorMemory: "host", TargetMemory: "host", Wait: "adaptive", Status: "ok",
	}
}

func withRounds(c results.Cell, rounds ...float64) results.Cell {
	if strings.HasPrefix(c.Definition, "latency") {
		m := rounds[len(rounds)/2]
		c.Latency = &results.Latency{Samples: 100, P50Seconds: &m, RoundsP50Seconds: rounds}
	} else {
		c.Bandwidth = &results.Bandwidth{BytesPerSecond: rounds[len(rounds)/2], Rounds: rounds}
	}
	return c
}

// file writes a run that began the given number of minutes after the start.
func (m *maker) file(minute int, cells ...results.Cell) string {
	m.t.Helper()
	m.n++
	name := filepath.Join(m.dir, fmt.Sprintf("%04d.jsonl", m.n))
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.Encode(results.Header{Schema: results.Schema, ToolVersion: "1", Started: start.Add(time.Duration(minute) * time.Minute), Hosts: []results.Host{{Hostname: "h", Kernel: "6.1"}}})
	for _, c := range cells {
		if err := e.Encode(c); err != nil {
			m.t.Fatal(err)
		}
	}
	e.Encode(results.Footer{State: "complete", Cells: int64(len(cells))})
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		m.t.Fatal(err)
	}
	return name
}

func (m *maker) load(files ...string) *Set {
	m.t.Helper()
	s, err := Load(files...)
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

func newMaker(t *testing.T) *maker { return &maker{t: t, dir: t.TempDir()} }

// interleaved writes a gate's runs of cells of the given sizes, A B B A; the new side of size slow is slowed.
func (m *maker) interleaved(rounds int, sizes []int64, slow int64, factor, spread float64) (old, new *Set) {
	random := rand.New(rand.NewPCG(20, uint64(rounds)))
	var a, b []string
	for i, isNew := range order(gateOrder(rounds)) {
		var cells []results.Cell
		for _, size := range sizes {
			v := 1e9 * math.Exp(spread*random.NormFloat64())
			if isNew && size == slow {
				v *= factor
			}
			cells = append(cells, withRounds(plain(size), v))
		}
		f := m.file(i, cells...)
		if isNew {
			b = append(b, f)
		} else {
			a = append(a, f)
		}
	}
	return m.load(a...), m.load(b...)
}

func compared(t *testing.T, old, new *Set, o Options) *Report {
	t.Helper()
	r, err := Compare(old, new, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func verdictOf(r *Report, size int64) string {
	for _, row := range r.Rows {
		if row.TotalBytes == size {
			return row.Verdict
		}
	}
	return "no row"
}

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

func TestOtherSchemaIsRefusedByName(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.jsonl")
	os.WriteFile(name, []byte(`{"record":"header","schema":"hopbench.results/v2","tool_version":"9","started":"2026-01-01T00:00:00Z","hosts":[]}`+"\n"), 0o644)
	if _, err := Load(name); err == nil || !strings.Contains(err.Error(), "hopbench.results/v2") {
		t.Error(err)
	}
}

func TestBrokenCells(t *testing.T) {
	m := newMaker(t)
	six := []float64{100, 101, 102, 103, 104, 105}
	fine := withRounds(plain(64), six...)
	failed := plain(64)
	failed.Status, failed.Reason = "failed", "connection reset by peer"
	wrong := fine
	no := false
	wrong.Verified = &no
	zero := withRounds(plain(64), 100, 0, 102)
	for _, c := range []struct {
		name string
		cell results.Cell
		want string
	}{{"failed", failed, "connection reset"}, {"corrupt", wrong, "payload was wrong"}, {"zero", zero, "no measurement"}} {
		r := compared(t, m.load(m.file(0, fine)), m.load(m.file(1, c.cell)), Options{})
		if r.Rows[0].Verdict != Worse || !strings.Contains(r.Rows[0].Reason, c.want) || r.Verdict != Regression || len(r.Failures(Regression)) == 0 {
			t.Errorf("%s: %+v", c.name, r.Rows[0])
		}
		r = compared(t, m.load(m.file(0, c.cell)), m.load(m.file(1, fine)), Options{})
		if r.Rows[0].Verdict != NotComparable {
			t.Errorf("%s on the old side: %+v", c.name, r.Rows[0])
		}
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

// The noise floor: a difference that the same build shows against itself is not a verdict.
func TestNoiseFloorFromRunsOfOneBuild(t *testing.T) {
	m := newMaker(t)
	random := rand.New(rand.NewPCG(4, 4))
	var noise []string
	for i := range 32 { // whole runs differ by 20 %
		noise = append(noise, m.file(i, withRounds(plain(64), 1e9*math.Exp(0.2*random.NormFloat64()))))
	}
	old, new := m.interleaved(16, []int64{64}, 64, 0.93, 0.01)
	if v := verdictOf(compared(t, old, new, Options{}), 64); v != Worse {
		t.Errorf("without A/A runs: %s", v)
	}
	r := compared(t, old, new, Options{Noise: m.load(noise...)})
	if row := r.Rows[0]; row.Verdict != Undecided || !strings.Contains(row.Reason, "noise floor") || *row.NoiseFloor < 0.07 {
		t.Errorf("%+v", row)
	}
	// Two runs a side whose medians differ more inside a side than between the sides.
	a := m.load(m.file(0, withRounds(plain(64), 100, 101, 102, 103, 104, 105)), m.file(3, withRounds(plain(64), 120, 121, 122, 123, 124, 125)))
	b := m.load(m.file(1, withRounds(plain(64), 96, 95.5, 96.5, 97.2, 97.4, 98)), m.file(2, withRounds(plain(64), 112, 112.5, 113.5, 114.5, 115, 116)))
	row := compared(t, a, b, Options{}).Rows[0]
	if row.Verdict == Worse || !strings.Contains(row.NoiseFloorSource, "pairs of runs") {
		t.Errorf("%+v", row)
	}
}

func TestDriftAndPhasesAreSaid(t *testing.T) {
	m := newMaker(t)
	falling, phased := make([]float64, 16), make([]float64, 16)
	random := rand.New(rand.NewPCG(6, 6))
	for i := range 16 {
		falling[i] = 1e9 * (1 - 0.02*float64(i)) * (1 + 0.002*random.NormFloat64())
		phased[i] = 1e9 * (1 + 0.01*random.NormFloat64())
		if i >= 9 {
			phased[i] *= 0.7
		}
	}
	flat := make([]float64, 16)
	for i := range flat {
		flat[i] = 0.75e9 * (1 + 0.01*random.NormFloat64())
	}
	r := compared(t, m.load(m.file(0, withRounds(plain(64), falling...))), m.load(m.file(1, withRounds(plain(64), flat...))), Options{})
	row := r.Rows[0]
	if row.Verdict != Undecided || !strings.Contains(strings.Join(row.Warnings, " "), "drift: old") || !strings.Contains(row.Reason, "drifts") {
		t.Errorf("%+v", row)
	}
	r = compared(t, m.load(m.file(2, withRounds(plain(64), phased...))), m.load(m.file(3, withRounds(plain(64), flat...))), Options{})
	row = r.Rows[0]
	if row.Verdict == Worse || !strings.Contains(strings.Join(row.Warnings, " "), "two phases: old") {
		t.Errorf("%+v", row)
	}
}

func TestSameFileOnBothSides(t *testing.T) {
	m := newMaker(t)
	f := m.file(0, withRounds(plain(64), 100, 101, 102, 103, 104, 105))
	r := compared(t, m.load(f), m.load(f), Options{})
	if !r.SameFiles || r.Verdict != Same || !strings.Contains(strings.Join(r.Warnings, " "), "the same file") {
		t.Errorf("%+v", r)
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	header := `{"record":"header","schema":"hopbench.results/v1","tool_version":"1","started":"2026-01-01T00:00:00Z","hosts":[]}` + "\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "empty.jsonl"},
		{"foreign", "hello\n", "foreign.jsonl:1"},
		{"other JSON", `{"a":1}` + "\n", "other JSON.jsonl:1"},
		{"NaN", header + `{"record":"cell","transport":"tcp","status":"ok","definition":"bandwidth.confirmed","bandwidth":{"bytes_per_second":NaN,"rounds":[]}}` + "\n" + header, "NaN.jsonl:2"},
		{"negative", header + `{"record":"cell","transport":"tcp","status":"ok","definition":"bandwidth.confirmed","bandwidth":{"bytes_per_second":-1,"rounds":[-1]}}` + "\n", "negative"},
		{"double", header + `{"record":"cell","transport":"tcp","realm":"double","status":"ok","definition":"bandwidth.confirmed","bandwidth":{"bytes_per_second":1,"rounds":[1]}}` + "\n", "double"},
	} {
		p := filepath.Join(dir, c.name+".jsonl")
		os.WriteFile(p, []byte(c.text), 0o644)
		if _, err := Load(p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// a truncated last line costs that line
	p := filepath.Join(dir, "cut.jsonl")
	whole, _ := json.Marshal(withRounds(plain(64), 1, 2, 3))
	os.WriteFile(p, []byte(header+string(whole)+"\n"+string(whole[:40])), 0o644)
	s, err := Load(p)
	if err != nil || len(s.Warnings) == 0 || len(s.cells) != 1 {
		t.Error(s, err)
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("an empty folder is taken")
	}
	if _, err := Load(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there is taken")
	}
}

func TestRenderings(t *testing.T) {
	m := newMaker(t)
	six := []float64{100e6, 101e6, 102e6, 103e6, 104e6, 105e6}
	slow := []float64{80e6, 81e6, 82e6, 83e6, 84e6, 85e6}
	evil := plain(1 << 20)
	evil.Status, evil.Reason = "failed", "<script>alert(1)</script> | `x` \x1b[31m"
	old := m.load(m.file(0, withRounds(plain(64), six...), withRounds(plain(4096), six...), withRounds(plain(1<<20), six...)))
	new := m.load(m.file(1, withRounds(plain(64), six...), withRounds(plain(4096), slow...), evil))
	r := compared(t, old, new, Options{})
	failures := r.Failures(Regression)
	var text, markdown, js bytes.Buffer
	r.WriteText(&text, failures)
	r.WriteMarkdown(&markdown, failures)
	if err := r.WriteJSON(&js); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*bytes.Buffer{"report.txt": &text, "report.md": &markdown, "report.json": &js} {
		golden := filepath.Join("testdata", name)
		if *update {
			os.MkdirAll("testdata", 0o755)
			os.WriteFile(golden, b.Bytes(), 0o644)
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), b.String()); d != "" {
			t.Errorf("%s (-update writes it anew):\n%s", name, d)
		}
		if name != "report.txt" && strings.Contains(b.String(), "<script>") || strings.Contains(b.String(), "\x1b") {
			t.Errorf("%s: text of a result file acts", name)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{{"*", "", true}, {"tcp/*", "tcp/write/x", true}, {"tcp", "tcp/write", false}, {"*64KiB*", "tcp/64KiB/x", true}, {"t?p", "tcp", true}, {"*a*b", "xaxbxb", true}, {"*a*b", "xaxbx", false}, {"", "x", false}} {
		if got := Match(c.pattern, c.name); got != c.want {
			t.Errorf("%q on %q: %v", c.pattern, c.name, got)
		}
	}
}

// A thousand files of a hundred cells: memory is bounded by what is kept, not by what is read.
func TestThousandFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 1,000 files; not with -short")
	}
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(12, 12))
	var line bytes.Buffer
	bytesWritten := 0
	for i := range 1000 {
		line.Reset()
		e := json.NewEncoder(&line)
		e.Encode(results.Header{Schema: results.Schema, ToolVersion: "1", Started: start.Add(time.Duration(i) * time.Minute), Hosts: []results.Host{{Hostname: "h"}}})
		for c := range 100 {
			cell := plain(64 << (c % 20))
			cell.Streams = int64(1 + c/20)
			cell.Warnings = []string{strings.Repeat("a long text that nothing here needs ", 8)}
			rounds := make([]float64, 8)
			for k := range rounds {
				rounds[k] = 1e9 * math.Exp(0.03*random.NormFloat64())
			}
			e.Encode(withRounds(cell, rounds...))
		}
		e.Encode(results.Footer{State: "complete", Cells: 100})
		side := "old"
		if i%4 == 1 || i%4 == 2 {
			side = "new"
		}
		os.MkdirAll(filepath.Join(dir, side), 0o755)
		os.WriteFile(filepath.Join(dir, side, fmt.Sprintf("%04d.jsonl", i)), line.Bytes(), 0o644)
		bytesWritten += line.Len()
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	old, new := (&maker{t: t}).load(filepath.Join(dir, "old")), (&maker{t: t}).load(filepath.Join(dir, "new"))
	r := compared(t, old, new, Options{})
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d MB read in %v, %d MB kept, %d rows", bytesWritten>>20, took, kept>>20, len(r.Rows))
	if !r.Interleaved || r.Tested != 100 {
		t.Errorf("interleaved %v, %d rows", r.Interleaved, r.Tested)
	}
	if kept > int64(bytesWritten)/2 {
		t.Errorf("keeps %d of %d bytes", kept, bytesWritten)
	}
	runtime.KeepAlive(old)
	runtime.KeepAlive(new)
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"record":"header","schema":"hopbench.results/v1","tool_version":"1","started":"2026-01-01T00:00:00Z","hosts":[]}` + "\n" +
		`{"record":"cell","transport":"tcp","status":"ok","definition":"bandwidth.confirmed","bandwidth":{"bytes_per_second":1,"rounds":[1,1e308,5e-324]}}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := filepath.Join(t.TempDir(), "f.jsonl")
		os.WriteFile(p, b, 0o644)
		s, err := Load(p)
		if err != nil {
			return
		}
		r, err := Compare(s, s, Options{})
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := r.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		r.WriteText(&out, r.Failures(FailOn()...))
		r.WriteMarkdown(&out, r.Failures(FailOn()...))
	})
}
