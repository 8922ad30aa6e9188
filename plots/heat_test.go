package plots

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hopbench/results"
)

// meshRun is a mesh of n hosts of two kinds that are mixed, with one slow host and one pair cut, in the order of a schedule and both ways as forward and reverse.
func meshRun(n int) results.Run {
	r := rand.New(rand.NewPCG(uint64(n), 2))
	out := results.Run{File: "mesh.jsonl"}
	add := func(a, b int, direction string) {
		v := 12e9 * math.Exp(0.02*r.NormFloat64())
		if a%2 != b%2 {
			v /= 2
		}
		if a == 3 || b == 3 {
			v /= 4
		}
		c := rate("tcp", "write", 4<<20, 1e-3, v)
		c.Direction, c.Schedule, c.InitiatorHost, c.TargetHost = direction, "all-pairs", fmt.Sprintf("node%d", a), fmt.Sprintf("node%d", b)
		if a == 1 && b == 5 {
			c.Status, c.Reason, c.Bandwidth = results.StatusFailed, "cut", nil
		}
		out.Cells = append(out.Cells, c)
		l := c
		l.Definition, l.TotalBytes, l.Bandwidth = "latency.half_rtt", 64, nil
		if c.Bandwidth != nil {
			p50 := 1 / v * 1e5
			l.Latency = &results.Latency{Samples: 10, P50Seconds: &p50, RoundsP50Seconds: []float64{p50}}
		}
		out.Cells = append(out.Cells, l)
	}
	for _, k := range r.Perm(n * n) {
		if a, b := k/n, k%n; a < b {
			add(a, b, "forward")
			add(b, a, "reverse")
		}
	}
	sum := rate("tcp", "write", 4<<20, 1e-3, 1e9)
	sum.Rail, sum.Schedule = "all", "incast"
	out.Cells = append(out.Cells, sum)
	return out
}

func TestHeatOfAMesh(t *testing.T) {
	f, err := Heat([]results.Run{meshRun(12)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var panels []string
	rows := map[string][]string{}
	points := 0
	for _, s := range f.Series() {
		if !slices.Contains(panels, s.Panel) {
			panels = append(panels, s.Panel)
		}
		rows[s.Panel] = append(rows[s.Panel], s.Label)
		points += len(s.Points)
	}
	if len(panels) != 4 || points != 4*131 {
		t.Fatalf("%d points in %q", points, panels)
	}
	if got := strings.Join(rows[panels[0]], " "); got != "node0 node1 node2 node3 node4 node5 node6 node7 node8 node9 node10 node11" {
		t.Errorf("hosts are not in their order: %s", got)
	}
	clustered := rows[panels[1]]
	if !strings.HasPrefix(panels[1], "Like beside like: ") || clustered[11] != "node3" {
		t.Errorf("%s: %v", panels[1], clustered)
	}
	changes := 0
	for i := 1; i < 11; i++ {
		if odd(clustered[i]) != odd(clustered[i-1]) {
			changes++
		}
	}
	if changes != 1 {
		t.Errorf("like does not stand beside like: %v", clustered)
	}
	if text := strings.Join(f.Caption, "\n"); !strings.Contains(text, "host node3") {
		t.Errorf("the caption does not name the slow host:\n%s", text)
	}
}

func odd(name string) bool { return strings.ContainsAny(name[len(name)-1:], "13579") }

// TestLargeHeat: 64 hosts are drawn with names, and too many are told.
func TestLargeHeat(t *testing.T) {
	f, err := Heat([]results.Run{meshRun(64)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]bool{}
	for _, s := range f.Series() {
		texts[s.Label] = true
	}
	if len(texts) != 64 {
		t.Errorf("%d rows", len(texts))
	}
	many := results.Run{File: "many.jsonl"}
	for i := range 400 {
		c := rate("tcp", "write", 4<<20, 1e-3, 1e9)
		c.InitiatorHost, c.TargetHost = fmt.Sprintf("n%d", i), fmt.Sprintf("n%d", i+1)
		many.Cells = append(many.Cells, c)
	}
	if _, err := Heat([]results.Run{many}, Options{}); err == nil {
		t.Error("a map of 401 hosts is drawn")
	}
}
