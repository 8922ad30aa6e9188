package table

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"hopbench/results"
	"hopbench/results/matrix"
)

// meshRun is a mesh of n hosts with 2 % noise, one host at a third, one pair cut, and an incast at host 0 beside it.
func meshRun(n int) results.Run {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	run := results.Run{File: "mesh.jsonl", Header: results.Header{Schema: results.Schema, ToolVersion: "v1", Started: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
		Settings: map[string]string{}}, Footer: &results.Footer{State: results.StateComplete}}
	name := func(h int) string { return fmt.Sprintf("node%d", h) }
	for h := range n {
		run.Header.Hosts = append(run.Header.Hosts, results.Host{Hostname: name(h), Role: fmt.Sprintf("rank %d", h)})
	}
	add := func(a, b int, v float64, schedule string) {
		c := results.Cell{Transport: "tcp", Label: "tcp", Realm: results.RealmSoftware, Definition: "bandwidth.confirmed", Operation: "write", Direction: "forward",
			PieceBytes: 4 << 20, TotalBytes: 4 << 20, Descriptors: 1, Pattern: "contiguous", Depth: 16, Streams: 1, Concurrency: 1, InitiatorMemory: "host", TargetMemory: "host",
			Wait: "adaptive", Schedule: schedule, InitiatorHost: name(a), TargetHost: name(b), Status: results.StatusOK, Bandwidth: &results.Bandwidth{BytesPerSecond: v, Rounds: []float64{v}}}
		if a == 1 && b == 4 {
			c.Status, c.Reason, c.Code, c.Bandwidth, c.Realm = results.StatusFailed, "the connection was cut", "peer.vanished", nil, ""
		}
		run.Cells = append(run.Cells, c)
		if schedule != "all-pairs" {
			return
		}
		l := c
		l.Definition, l.Bandwidth, l.TotalBytes, l.PieceBytes, l.Depth = "latency.half_rtt", nil, 64, 64, 1
		if l.Status == results.StatusOK {
			p50, p99 := 20e-6*math.Exp(0.02*r.NormFloat64()), 35e-6
			l.Latency = &results.Latency{Samples: 1000, P50Seconds: &p50, P99Seconds: &p99, RoundsP50Seconds: []float64{p50}}
		}
		run.Cells = append(run.Cells, l)
	}
	for a := range n {
		for b := range n {
			if a == b {
				continue
			}
			v := 3e9 * math.Exp(0.02*r.NormFloat64())
			if a == 2 || b == 2 {
				v /= 3
			}
			add(a, b, v, "all-pairs")
		}
	}
	for a := 1; a < n; a++ {
		add(a, 0, 3e9/float64(n-1), "incast")
	}
	run.Footer.Cells = int64(len(run.Cells))
	return run
}

func TestMeshView(t *testing.T) {
	for name, c := range map[string]struct {
		hosts  int
		format Format
	}{"mesh-8.txt": {8, Text}, "mesh-64.txt": {64, Text}, "mesh-5.csv": {5, CSV}, "mesh-5.md": {5, Markdown}} {
		var b bytes.Buffer
		if err := Write(&b, []results.Run{meshRun(c.hosts)}, Options{View: Mesh, Format: c.format}); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.String())
		if c.hosts < 64 {
			continue
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 120 {
				t.Errorf("a line of %d columns: %s", n, line)
			}
		}
	}
}

// TestMeshOwn: without a view, the pairs of a mesh stand as a mesh, and never as columns of a sweep.
func TestMeshOwn(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, []results.Run{meshRun(6)}, Options{}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"host node2", "the connection was cut", "Flows together against each alone"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "node1 to node3") {
		t.Errorf("pairs stand in the tables of paths:\n%s", text)
	}
}

func TestMeshViewRefuses(t *testing.T) {
	err := Write(&bytes.Buffer{}, []results.Run{{File: "x", Cells: []results.Cell{{Transport: "tcp", Definition: "bandwidth.confirmed"}}}}, Options{View: Mesh})
	if err == nil || !strings.Contains(err.Error(), "no row is of a pair of hosts") {
		t.Errorf("%v", err)
	}
}

func TestMarks(t *testing.T) {
	d := &matrix.Distribution{Median: 10}
	got := ""
	for _, v := range []float64{10, 9.6, 9.4, 5, 0.4, 12} {
		got += string(mark(matrix.Place{Status: results.StatusOK, Value: v}, d, false, 0.05))
		got += string(mark(matrix.Place{Status: results.StatusOK, Value: 100 / v}, d, true, 0.05))
	}
	if got != "....995500++" {
		t.Errorf("%s", got)
	}
}

// TestMeshIsMeasured: a file of pairs alone has cells.
func TestMeshIsMeasured(t *testing.T) {
	if page := render(t, Options{}, meshRun(6)); strings.Contains(page, "no cell was measured") {
		t.Error(page)
	}
}
