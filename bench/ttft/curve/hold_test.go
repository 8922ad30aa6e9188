package curve

import (
	"math"
	"strings"
	"testing"

	"hopbench/results"
)

// listCell took a second for each 2 GB of each request at once, and 1 us for each of its pieces.
func listCell(piece, n, together int64) results.Cell {
	one := float64(piece*n)/2e9 + float64(n)*1e-6
	return results.Cell{
		Transport: "tcp", Label: "tcp, same host", Realm: "software", Definition: "bandwidth.notified", Operation: "write", Direction: "forward",
		PieceBytes: piece, TotalBytes: piece * n, Descriptors: n, Pattern: "scattered", Depth: 1, Streams: together, Concurrency: together,
		InitiatorMemory: "host", TargetMemory: "host", Status: results.StatusOK,
		Bandwidth: &results.Bandwidth{BytesPerSecond: float64(piece*n) / one}, Settings: map[string]string{},
	}
}

func asRequest(c results.Cell) results.Cell {
	c.Settings = map[string]string{"request": "a model"}
	return c
}

func TestRequestsHeldAgainstASweep(t *testing.T) {
	var sweep []results.Cell
	for _, together := range []int64{1, 8} {
		for _, piece := range []int64{16384, 32768} {
			for _, n := range []int64{1000, 4000} {
				sweep = append(sweep, listCell(piece, n, together))
			}
		}
	}
	bulk := asRequest(listCell(32768*2000, 1, 1))
	cells := []results.Cell{asRequest(listCell(32768, 2000, 1)), asRequest(listCell(32768, 2000, 8)), asRequest(listCell(32768, 9000, 1)), bulk}
	// What answers for itself proves nothing: the same request, wildly wrong, among the sweep must not count.
	wrong := asRequest(listCell(32768, 2000, 1))
	wrong.Bandwidth = &results.Bandwidth{BytesPerSecond: 1}
	held, err := Hold(cells, append(sweep, wrong))
	if err != nil {
		t.Fatal(err)
	}
	if len(held) != 3 {
		t.Fatalf("%d held; the bulk ceiling is none", len(held))
	}
	for i, h := range held {
		if math.Abs(h.Ratio()-1) > 1e-6 {
			t.Errorf("%d: projected %g of measured %g", i, h.Projected.Seconds, h.Measured)
		}
		if outside := strings.Contains(h.Refused, "9000"); outside != (i == 2) {
			t.Errorf("%d: %q", i, h.Refused)
		}
	}
	reading := asRequest(listCell(32768, 2000, 1))
	reading.Operation = "read"
	deep := asRequest(listCell(32768, 2000, 1))
	deep.Depth = 16
	held, err = Hold([]results.Cell{reading, deep}, sweep)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range held {
		if h.Refused == "" || h.Ratio() != 0 {
			t.Errorf("%s at depth %d from a sweep of writes at depth 1: %+v", h.Cell.Operation, h.Cell.Depth, h)
		}
	}
}
