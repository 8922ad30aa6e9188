package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hopbench/results"
)

// meshFile writes a mesh of n hosts: six rounds a pair, 3 % of noise between pairs and 1 % between rounds.
func meshFile(t *testing.T, n int, seed uint64, slow func(a, b int) float64, failed func(a, b int) bool) string {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 8))
	path := filepath.Join(t.TempDir(), fmt.Sprintf("mesh-%d.jsonl", seed))
	w, err := results.Create(path, results.Refuse, &results.Header{Schema: results.Schema, ToolVersion: "v1", Started: time.Date(2026, 12, 1, 0, int(seed), 0, 0, time.UTC), Hosts: []results.Host{}})
	if err != nil {
		t.Fatal(err)
	}
	for a := range n {
		for b := range n {
			if a == b {
				continue
			}
			v := 10e9 * math.Exp(0.03*r.NormFloat64()) * slow(a, b)
			c := results.Cell{Transport: "tcp", Label: "tcp", Realm: results.RealmHardware, Definition: "bandwidth.confirmed", Operation: "write", Direction: "forward",
				PieceBytes: 1 << 20, TotalBytes: 1 << 20, Descriptors: 1, Pattern: "contiguous", Depth: 16, Streams: 1, Concurrency: 1, InitiatorMemory: "host", TargetMemory: "host",
				Wait: "adaptive", InitiatorHost: fmt.Sprintf("n%d", a), TargetHost: fmt.Sprintf("n%d", b), Schedule: "all-pairs", Status: results.StatusOK,
				Bandwidth: &results.Bandwidth{BytesPerSecond: v}}
			for range 6 {
				c.Bandwidth.Rounds = append(c.Bandwidth.Rounds, v*math.Exp(0.01*r.NormFloat64()))
			}
			l := c
			l.Definition, l.Bandwidth, l.TotalBytes, l.PieceBytes, l.Depth = "latency.half_rtt", nil, 64, 64, 1
			p50 := 1e5 / v
			l.Latency = &results.Latency{Samples: 1000, P50Seconds: &p50, RoundsP50Seconds: []float64{p50, p50 * 1.01, p50 * 0.99, p50, p50, p50 * 1.005}}
			if failed != nil && failed(a, b) {
				c.Status, c.Reason, c.Bandwidth = results.StatusFailed, "cut", nil
			}
			for _, cell := range []*results.Cell{&c, &l} {
				if err := w.Cell(cell); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := w.Close(results.StateComplete, ""); err != nil {
		t.Fatal(err)
	}
	return path
}

func meshes2(t *testing.T, n int, slow func(a, b int) float64, failed func(a, b int) bool, o Options) *Report {
	t.Helper()
	plain := func(a, b int) float64 { return 1 }
	var sets []*Set
	for _, f := range []string{meshFile(t, n, 1, plain, nil), meshFile(t, n, 2, slow, failed)} {
		s, err := Load(f)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, s)
	}
	r, err := Compare(sets[0], sets[1], o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func with(h int, by float64) func(a, b int) float64 {
	return func(a, b int) float64 {
		if a == h || b == h {
			return by
		}
		return 1
	}
}

func TestMeshes(t *testing.T) {
	for name, c := range map[string]struct {
		slow    func(a, b int) float64
		verdict string
		changes string // of the mesh of bandwidth
		whole   string
	}{
		"the same":        {func(a, b int) float64 { return 1 }, Same, "", Same},
		"a host":          {with(3, 0.6), Regression, "host n3 worse", Same},
		"a host is whole": {with(3, 1.8), Improvement, "host n3 better", Same},
		"all":             {func(a, b int) float64 { return 0.8 }, Regression, "", Worse},
		"all are better":  {func(a, b int) float64 { return 1.3 }, Improvement, "", Better},
		"a pair": {func(a, b int) float64 {
			if a == 2 && b == 5 {
				return 0.4
			}
			return 1
		}, Regression, "pair n2 to n5 worse", Same},
		"all, and a host more": {func(a, b int) float64 { return 0.8 * with(3, 0.5)(a, b) }, Regression, "host n3 worse", Worse},
	} {
		r := meshes2(t, 10, c.slow, nil, Options{})
		var changes []string
		for _, s := range r.Meshes[0].Changes {
			changes = append(changes, s.Name+" "+s.Verdict)
		}
		if len(r.Meshes) != 2 || r.Verdict != c.verdict || strings.Join(changes, "; ") != c.changes || r.Meshes[0].Whole.Verdict != c.whole {
			t.Errorf("%s: %s, mesh %s, %q\n%s", name, r.Verdict, r.Meshes[0].Whole.Verdict, changes, strings.Join(r.meshLines(), "\n"))
		}
		if failures := r.Failures(Regression); (len(failures) > 0) != (c.verdict == Regression) {
			t.Errorf("%s: fails on %q", name, failures)
		}
		for _, row := range r.Rows {
			if row.Verdict == OfMesh && (row.Old == nil || row.New == nil || row.Ratio == nil) {
				t.Fatalf("%s: a row without its figures: %+v", name, row)
			}
		}
	}
}

// TestMeshText: two meshes of 24 hosts are some lines that name hosts, not a row for each of 1104 pairs.
func TestMeshText(t *testing.T) {
	r := meshes2(t, 24, with(7, 0.5), func(a, b int) bool { return a == 1 && b == 2 }, Options{})
	var b strings.Builder
	if err := r.WriteText(&b, nil); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if n := strings.Count(text, "\n"); n > 30 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	for _, want := range []string{"host n7: worse: -49.9 %", "551 pairs of 24 hosts", "cut", "regression: mesh worse: host n7"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	b.Reset()
	if err := r.WriteMarkdown(&b, nil); err != nil || strings.Count(b.String(), "\n") > 50 || !strings.Contains(b.String(), "host n7") {
		t.Errorf("%v:\n%s", err, b.String())
	}
	if os.Getenv("SHOW") != "" {
		fmt.Println(text)
	}
}

// TestFloorsHoldForPairs: an absolute bound holds for each pair of a mesh, and a broken one stands in the table.
func TestFloorsHoldForPairs(t *testing.T) {
	r := meshes2(t, 10, with(3, 0.97), nil, Options{Floors: []Floor{{Metric: Bandwidth, Value: 9.5e9}}})
	broken := 0
	for _, row := range r.shown() {
		if row.FloorBroken != "" {
			broken++
		}
	}
	if broken == 0 {
		t.Error("no pair breaks the bound")
	}
}

// TestSmallMeshesAreRows: three hosts have no others to be told from.
func TestSmallMeshesAreRows(t *testing.T) {
	r := meshes2(t, 3, with(1, 0.5), nil, Options{})
	if len(r.Meshes) != 0 || len(r.Rows) != 12 || r.Rows[0].Verdict == OfMesh {
		t.Errorf("%d meshes, %d rows", len(r.Meshes), len(r.Rows))
	}
}

// TestMeshesOfOneBuild: two runs of the same mesh are found different in few comparisons.
func TestMeshesOfOneBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of comparisons take some seconds")
	}
	r := rand.New(rand.NewPCG(6, 6))
	wrong := 0
	const runs = 1000
	for range runs {
		var rows meshRows
		rows.better, rows.minimum, rows.metric = "higher", 0.03, Bandwidth
		for a := range 8 {
			for b := range 8 {
				if a != b {
					ratio := math.Exp(0.04 * r.NormFloat64())
					rows.rows = append(rows.rows, &Row{Identity: results.Identity{InitiatorHost: fmt.Sprint("n", a), TargetHost: fmt.Sprint("n", b)}, Ratio: &ratio})
				}
			}
		}
		m := rows.judge(&Options{Alpha: 0.05}, 1)
		if len(m.Changes) > 0 || m.Whole.Verdict == Worse || m.Whole.Verdict == Better {
			wrong++
		}
	}
	t.Logf("%d of %d comparisons of one build with itself are found different", wrong, runs)
	if wrong > runs/20 {
		t.Errorf("%d of %d comparisons of one build with itself are found different", wrong, runs)
	}
}
