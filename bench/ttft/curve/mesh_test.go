package curve

import (
	"fmt"
	"strings"
	"testing"

	"hopbench/results"
)

// mesh is three hosts, alone, and as an incast at a with its sum.
func mesh() []results.Cell {
	var out []results.Cell
	add := func(from, to, schedule, direction string, v float64) {
		c := bandwidth(cell("bandwidth.confirmed", "write", 65536, 1, 16, 1, 1), v)
		c.InitiatorHost, c.TargetHost, c.Schedule, c.Direction = from, to, schedule, direction
		out = append(out, c)
	}
	add("a", "b", "all-pairs", "forward", 10e9)
	add("b", "a", "all-pairs", "reverse", 9e9)
	add("a", "c", "all-pairs", "forward", 2e9)
	add("b", "a", "incast", "forward", 4e9)
	add("c", "a", "incast", "forward", 1e9)
	sum := bandwidth(cell("bandwidth.confirmed", "write", 65536, 1, 16, 1, 1), 5e9)
	sum.Rail, sum.Schedule = "all", "incast"
	out = append(out, sum)
	lost := cell("bandwidth.confirmed", "write", 65536, 1, 16, 1, 1)
	lost.InitiatorHost, lost.TargetHost, lost.Schedule, lost.Status, lost.Reason = "c", "b", "all-pairs", results.StatusFailed, "cut"
	return append(out, lost)
}

func TestSelection(t *testing.T) {
	for _, c := range []struct {
		s    Selection
		want string
	}{
		{Selection{}, "tcp, same host, median pair, all-pairs: 9.0"},
		{Selection{Pair: "slowest"}, "tcp, same host, slowest pair, all-pairs: 2.0"},
		{Selection{Pair: "a, b"}, "tcp, same host, a to b, all-pairs: 10.0"},
		{Selection{Pair: "b,a"}, "tcp, same host, b to a, all-pairs: 9.0"},
		{Selection{Schedule: "incast"}, "tcp, same host, median pair, incast: 1.0"},
		{Selection{Schedule: "loaded", Pair: "b,a"}, "tcp, same host, b to a, incast: 4.0"},
		{Selection{Schedule: "all-pairs"}, "tcp, same host, median pair, all-pairs: 9.0"},
	} {
		cells, err := c.s.Take(mesh())
		if err != nil {
			t.Errorf("%+v: %v", c.s, err)
			continue
		}
		var got []string
		for _, k := range cells {
			if k.Schedule != "" || k.InitiatorHost != "" || k.Direction != "forward" {
				t.Errorf("%+v: a row of a mesh is left: %+v", c.s, k.Identity())
			}
			got = append(got, fmt.Sprintf("%s: %.1f", k.Label, k.Bandwidth.BytesPerSecond/1e9))
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%+v: %s, want %s", c.s, s, c.want)
		}
	}
	for _, c := range []struct {
		s    Selection
		want string
	}{
		{Selection{Schedule: "bisection"}, `no row is of the schedule "bisection"; there are all-pairs, incast`},
		{Selection{Pair: "a,z"}, "no row is of the pair a,z; the hosts are a, b, c"},
		{Selection{Pair: "a"}, `not "a"`},
		{Selection{Pair: "a,b,c"}, `not "a,b,c"`},
	} {
		if _, err := c.s.Take(mesh()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.s, err, c.want)
		}
	}
	two := append(mesh(), mesh()[3])
	two[len(two)-1].Schedule = "bisection"
	if _, err := (Selection{Schedule: "loaded"}).Take(two); err == nil || !strings.Contains(err.Error(), "bisection, incast") {
		t.Errorf("two loaded schedules: %v", err)
	}
	if _, err := (Selection{Schedule: "loaded"}).Take(mesh()[:3]); err == nil || !strings.Contains(err.Error(), "no schedule has several flows") {
		t.Errorf("no loaded schedule: %v", err)
	}
}

// TestMeshIsOneCurve: without a choice the pairs of a mesh are their median, and what is loaded is said to be left out.
func TestMeshIsOneCurve(t *testing.T) {
	curves, skipped, err := FromCells(mesh())
	if err != nil || len(curves) != 1 || curves[0].Origin.Label != "tcp, same host, median pair, all-pairs" {
		t.Fatalf("%v, %d curves, skipped %q", err, len(curves), skipped)
	}
	curves, skipped, err = FromCells(mesh()[3:6])
	if err != nil || len(curves) != 0 || len(skipped) != 1 || !strings.Contains(skipped[0], "schedule incast") {
		t.Errorf("%v, %d curves, skipped %q", err, len(curves), skipped)
	}
}
