package curve

import (
	"encoding/csv"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"hopbench/results"
)

func ndr(t *testing.T) [][2]float64 {
	t.Helper()
	f, err := os.Open("../testdata/nixlbench-ndr400.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out [][2]float64
	for _, row := range rows[1:] {
		s, err1 := strconv.ParseFloat(row[0], 64)
		us, err2 := strconv.ParseFloat(row[1], 64)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		out = append(out, [2]float64{s, us * 1e-6})
	}
	return out
}

// Every second size of a published table predicts the others. From 1 MiB up
// within 7 %; below, where the protocol changes, the miss is printed.
func TestInterpolationOfNDR(t *testing.T) {
	table := ndr(t)
	var knots []Point
	for i := 0; i < len(table); i += 2 {
		knots = append(knots, Point{PieceBytes: table[i][0], Descriptors: 1, Parallel: 1, Seconds: table[i][1]})
	}
	c, err := New(Origin{Transport: "infiniband", Label: "NDR"}, knots)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(table); i += 2 {
		size, want := table[i][0], table[i][1]
		a, err := c.At([]Shape{{size, 1}}, 1, true)
		if i == len(table)-1 { // beyond the last knot
			var out *Outside
			if !errors.As(err, &out) {
				t.Errorf("%.0f bytes lie beyond the knots: error %v, want Outside", size, err)
			}
			a, err = c.At([]Shape{{size, 1}}, 1, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		off := a.Seconds/want - 1
		t.Logf("%9.0f bytes: %.2f us predicted, %.2f measured (%+.1f %%) %v", size, a.Seconds*1e6, want*1e6, 100*off, a.Notes)
		if size >= 1<<20 && math.Abs(off) > 0.07 {
			t.Errorf("%.0f bytes: off by %.1f %%, want 7", size, 100*off)
		}
		if len(a.Notes) == 0 {
			t.Errorf("%.0f bytes: not said to be interpolated", size)
		}
	}
	// A straight line through the same table is what this package does not do.
	a, _ := c.At([]Shape{{table[6][0], 1}}, 1, true)
	if math.Abs(a.Seconds/table[6][1]-1) > 1e-12 {
		t.Errorf("a knot itself gives %g, want %g", a.Seconds, table[6][1])
	}
}

func cell(definition, op string, piece, descriptors, depth, streams, concurrency int64) results.Cell {
	return results.Cell{
		Transport: "tcp", Label: "tcp, same host", Realm: results.RealmSoftware, Definition: definition, Operation: op, Direction: "forward",
		PieceBytes: piece, TotalBytes: piece * descriptors, Descriptors: descriptors, Depth: depth, Streams: streams, Concurrency: concurrency,
		InitiatorMemory: "host", TargetMemory: "host", Status: results.StatusOK,
	}
}

func bandwidth(c results.Cell, v float64) results.Cell {
	low, high := v*0.9, v*1.1
	c.Bandwidth = &results.Bandwidth{BytesPerSecond: v, Low: &low, High: &high}
	return c
}

func latency(c results.Cell, v float64) results.Cell {
	c.Latency = &results.Latency{Samples: 1000, P50Seconds: &v}
	return c
}

func TestCellsMakeCurves(t *testing.T) {
	cells := []results.Cell{
		latency(cell("latency.completion", "write", 4096, 1, 1, 1, 1), 20e-6),
		latency(cell("latency.completion", "write", 65536, 1, 1, 1, 1), 40e-6),
		bandwidth(cell("bandwidth.confirmed", "write", 4096, 1, 16, 1, 1), 1e9),
		bandwidth(cell("bandwidth.confirmed", "write", 65536, 1, 16, 1, 1), 4e9),
		bandwidth(cell("bandwidth.confirmed", "write", 65536, 1, 16, 8, 1), 8e9),
		bandwidth(cell("bandwidth.confirmed", "write", 65536, 1, 4, 1, 1), 2e9), // shallower: not used
		bandwidth(cell("bandwidth.confirmed", "read", 65536, 1, 16, 1, 1), 3e9),
		{Transport: "roce", Status: results.StatusWaived, Realm: results.RealmHardware},
	}
	curves, skipped, err := FromCells(cells)
	if err != nil {
		t.Fatal(err)
	}
	if len(curves) != 2 || curves[0].Origin.Operation != "read" || curves[1].Origin.Operation != "write" {
		t.Fatalf("%d curves, want one to read and one to write", len(curves))
	}
	if len(skipped) != 1 || !strings.Contains(skipped[0], "waived") {
		t.Errorf("skipped %q, want the waived cell", skipped)
	}
	push := curves[1]
	a, err := push.At([]Shape{{65536, 1000}}, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	each := 65536 / 4e9
	want := 40e-6 - each + 1000*each
	if math.Abs(a.Seconds-want) > 1e-12 {
		t.Errorf("1000 pieces take %g, want latency and pipeline %g", a.Seconds, want)
	}
	if !a.Bounded || a.Low >= a.Seconds || a.High <= a.Seconds {
		t.Errorf("interval %g to %g around %g", a.Low, a.High, a.Seconds)
	}
	b, err := push.At([]Shape{{65536, 1000}}, 8, true)
	if err != nil {
		t.Fatal(err)
	}
	if want := 40e-6 - each + 8000*65536/8e9; math.Abs(b.Seconds-want) > 1e-12 {
		t.Errorf("with eight at once %g, want %g", b.Seconds, want)
	}
	for name, q := range map[string]struct {
		s Shape
		p float64
	}{
		"size":     {Shape{1 << 20, 10}, 1},
		"smaller":  {Shape{512, 10}, 1},
		"parallel": {Shape{65536, 10}, 64},
	} {
		var out *Outside
		if _, err := push.At([]Shape{q.s}, q.p, true); !errors.As(err, &out) {
			t.Errorf("%s: error %v, want Outside", name, err)
		}
		a, err := push.At([]Shape{q.s}, q.p, false)
		if err != nil || !strings.Contains(strings.Join(a.Notes, " "), "extrapolated") {
			t.Errorf("%s: %v %v, want it labelled", name, a.Notes, err)
		}
	}
	if got := push.Bulk(); math.Abs(got-8e9) > 1 {
		t.Errorf("bulk %g, want 8e9", got)
	}
}

// Lists that were measured are used as they are, and never mixed with single pieces.
func TestListsBeforePipelines(t *testing.T) {
	cells := []results.Cell{
		latency(cell("latency.completion", "write", 32768, 1, 1, 1, 1), 20e-6),
		bandwidth(cell("bandwidth.confirmed", "write", 32768, 1, 16, 1, 1), 10e9),
		bandwidth(cell("bandwidth.notified", "write", 32768, 1024, 1, 1, 1), 5e9),
		bandwidth(cell("bandwidth.confirmed", "write", 32768, 1024, 1, 1, 1), 9e9),
		bandwidth(cell("bandwidth.notified", "write", 32768, 4096, 1, 1, 1), 5e9),
		bandwidth(cell("bandwidth.notified", "write", 32768, 1024, 1, 1, 8), 8e9),
	}
	curves, _, err := FromCells(cells)
	if err != nil {
		t.Fatal(err)
	}
	c := curves[0]
	a, err := c.At([]Shape{{32768, 2048}}, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	if want := 2048 * 32768 / 5e9; math.Abs(a.Seconds/want-1) > 1e-9 {
		t.Errorf("2048 pieces take %g, want %g from the notified lists", a.Seconds, want)
	}
	a, err = c.At([]Shape{{32768, 1024}}, 8, true)
	if err != nil {
		t.Fatal(err)
	}
	if want := 8 * 1024 * 32768 / 8e9; math.Abs(a.Seconds/want-1) > 1e-9 {
		t.Errorf("with eight at once %g, want %g", a.Seconds, want)
	}
	// 100 pieces were not measured as a list; between one and 1024 there is no
	// line to draw, so the pipeline answers.
	a, err = c.At([]Shape{{32768, 100}}, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	if want := 20e-6 + 99*32768/10e9; math.Abs(a.Seconds/want-1) > 1e-9 {
		t.Errorf("100 pieces take %g, want %g", a.Seconds, want)
	}
}

func TestOnlySinglePieces(t *testing.T) {
	curves, _, err := FromCells([]results.Cell{latency(cell("latency.completion", "write", 4096, 1, 1, 1, 1), 20e-6)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := curves[0].At([]Shape{{4096, 10}}, 1, true); err == nil {
		t.Error("ten pieces are answered from one, without a word")
	}
	a, err := curves[0].At([]Shape{{4096, 10}}, 1, false)
	if err != nil || math.Abs(a.Seconds-200e-6) > 1e-12 || !strings.Contains(strings.Join(a.Notes, " "), "upper bound") {
		t.Errorf("%v %v", a, err)
	}
}

func TestRefusals(t *testing.T) {
	c := latency(cell("latency.completion", "write", 4096, 1, 1, 1, 1), 1e-6)
	c.Realm = results.RealmDouble
	if _, _, err := FromCells([]results.Cell{c}); err == nil || !strings.Contains(err.Error(), "double") {
		t.Errorf("error %v, want a test double to be refused", err)
	}
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := New(Origin{Label: "x"}, []Point{{PieceBytes: 1, Descriptors: 1, Parallel: 1, Seconds: v}}); err == nil {
			t.Errorf("a point of %g seconds is accepted", v)
		}
	}
	if _, err := New(Origin{}, nil); err == nil {
		t.Error("a curve without points is accepted")
	}
	good, _ := New(Origin{}, []Point{{PieceBytes: 1, Descriptors: 1, Parallel: 1, Seconds: 1}})
	for _, s := range [][]Shape{nil, {{0, 1}}, {{1, -1}}, {{math.NaN(), 1}}} {
		if _, err := good.At(s, 1, false); err == nil {
			t.Errorf("shape %v is answered", s)
		}
	}
}

// The cells of a KV-shaped run: lists and their bulk ceiling, one and eight
// requests at once, each on a stream of its own, one after the other.
func TestCellsOfAKVRun(t *testing.T) {
	list := func(concurrency int64, rate float64) results.Cell {
		c := bandwidth(cell("bandwidth.notified", "read", 32768, 32000, 1, concurrency, concurrency), rate)
		return c
	}
	bulk := func(concurrency int64, rate float64) results.Cell {
		return bandwidth(cell("bandwidth.notified", "read", 32768*32000, 1, 1, concurrency, concurrency), rate)
	}
	curves, _, err := FromCells([]results.Cell{list(1, 2e9), list(8, 4e9), bulk(1, 5e9), bulk(8, 6e9)})
	if err != nil {
		t.Fatal(err)
	}
	c := curves[0]
	if c.MaxParallel() != 8 {
		t.Errorf("most at once %g, want 8", c.MaxParallel())
	}
	const bytes = 32768 * 32000
	for _, q := range []struct {
		shape    Shape
		parallel float64
		want     float64
	}{
		{Shape{32768, 32000}, 1, bytes / 2e9}, {Shape{32768, 32000}, 8, 8 * bytes / 4e9},
		{Shape{bytes, 1}, 1, bytes / 5e9}, {Shape{bytes, 1}, 8, 8 * bytes / 6e9},
	} {
		a, err := c.At([]Shape{q.shape}, q.parallel, true)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(a.Seconds/q.want-1) > 1e-9 || a.Latency != 0 && q.shape.Count > 1 {
			t.Errorf("%v with %g at once: %g s (latency %g), want %g", q.shape, q.parallel, a.Seconds, a.Latency, q.want)
		}
	}
	if got := c.Bulk(); math.Abs(got/6e9-1) > 1e-9 {
		t.Errorf("bulk %g, want 6e9", got)
	}
	// Between one and eight.
	a, err := c.At([]Shape{{32768, 32000}}, 4, true)
	if err != nil || a.Seconds <= bytes/2e9 || a.Seconds >= 8*bytes/4e9 {
		t.Errorf("with four at once %g s (%v)", a.Seconds, err)
	}
}
