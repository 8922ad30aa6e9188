package cli

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hopbench/results"
)

// meshResults is the result file of a mesh of eight hosts in two switch groups, of which host n5 is slow by half, with an incast at n0.
func meshResults(t *testing.T, seed uint64, slow float64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mesh.jsonl")
	w, err := results.Create(path, results.Refuse, &results.Header{ToolVersion: "test"})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	add := func(a, b int, schedule string, v float64) {
		c := &results.Cell{Transport: "tcp", Label: "tcp", Realm: results.RealmSoftware, Definition: "bandwidth.confirmed", Operation: "read", Direction: "forward", TotalBytes: 1 << 20, PieceBytes: 1 << 20,
			Descriptors: 1, Depth: 16, Streams: 1, Concurrency: 1, InitiatorMemory: "host", TargetMemory: "host", Schedule: schedule, InitiatorHost: fmt.Sprintf("n%d", a), TargetHost: fmt.Sprintf("n%d", b),
			Status: results.StatusOK, Bandwidth: &results.Bandwidth{BytesPerSecond: v, Rounds: []float64{v}}}
		if err := w.Cell(c); err != nil {
			t.Fatal(err)
		}
		l := *c
		l.Definition, l.Bandwidth, l.Depth, l.TotalBytes, l.PieceBytes = "latency.completion", nil, 1, 4096, 4096
		p50 := 1e5 / v
		l.Latency = &results.Latency{Samples: 1000, P50Seconds: &p50, RoundsP50Seconds: []float64{p50}}
		if err := w.Cell(&l); err != nil {
			t.Fatal(err)
		}
	}
	for a := range 8 {
		for b := range 8 {
			v := 10e9 * math.Exp(0.01*r.NormFloat64())
			if a == 5 || b == 5 {
				v *= slow
			}
			if a == b {
				continue
			}
			add(a, b, "all-pairs", v)
			if b == 0 {
				add(a, b, "incast", v/7)
			}
		}
	}
	if err := w.Close(results.StateComplete, ""); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMeshFiles(t *testing.T) {
	file, whole := meshResults(t, 1, 0.5), meshResults(t, 2, 1)
	dir := t.TempDir()
	groups, twice := filepath.Join(dir, "groups.txt"), filepath.Join(dir, "twice.txt")
	for path, text := range map[string]string{groups: "n0 a\nn1 a\nn2 a\nn3 a\nn4 b\nn5 b\nn6 b\nn7 b\n", twice: "n0 a\nn0 b\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	model := []string{"ttft", "llama-3.1-8b", "--isl", "4096", "--prefill-rate", "20000", "--block-size", "16", "--extrapolate", "--results", file}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a table":              {[]string{"table", file}, 0, "host n5"},
		"the view":             {[]string{"table", file, "--view", "mesh", "--groups", groups}, 0, "host n5"},
		"CSV":                  {[]string{"table", file, "--view", "mesh", "--format", "csv"}, 0, "What is out of line,host n5"},
		"a large least effect": {[]string{"table", file, "--view", "mesh", "--min-effect", "60%"}, 0, "nothing"},
		"no least effect":      {[]string{"table", file, "--min-effect", "0"}, 2, "a part above 0"},
		"a host twice":         {[]string{"table", file, "--groups", twice}, 2, "line 2: host n0 stands twice"},
		"no such file":         {[]string{"table", file, "--groups", twice + "x"}, 2, "--groups"},
		"a map by default":     {[]string{"plot", file, "--out", filepath.Join(dir, "figures"), "--format", "svg"}, 0, "heat.svg"},
		"compared":             {[]string{"compare", whole, file}, 1, "host n5: worse"},
		"compared, mended":     {[]string{"compare", file, whole, "--groups", groups}, 0, "host n5: better"},
		"the median pair":      {model, 0, "tcp, median pair,"},
		"the slowest":          {append(model, "--pair", "slowest"), 0, "tcp, slowest pair,"},
		"two hosts, loaded":    {append(model, "--pair", "n3,n0", "--schedule", "loaded"), 0, "n3 to n0, incast"},
		"no such schedule":     {append(model, "--schedule", "bisection"), 2, "there are all-pairs, incast"},
		"no such pair":         {append(model, "--pair", "n3,n99"), 2, "no row is of the pair n3,n99"},
	} {
		code, stdout, stderr := commandRun(t, c.args...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: %d, want %d and %q:\n%s%s", name, code, c.code, c.want, stdout, stderr)
		}
	}
}
