package table

import (
	"bytes"
	"math"
	"testing"

	"hopbench/results"
)

// asKV is a cell of a KV-shaped request: n pieces, its bursts' requests about the time that its bandwidth says.
func asKV(t *testing.T, request string, piece, n, together int64, seconds float64, times int) results.Cell {
	t.Helper()
	c := bw(t, "tcp", "tcp, same host", results.RealmSoftware, "write", piece*n, float64(piece*n*together)/seconds)
	c.Depth, c.Streams, c.Concurrency, c.Descriptors, c.PieceBytes = 1, together, together, n, piece
	c.Settings = map[string]string{"request": request}
	if n > 1 {
		c.Pattern = "scattered"
	}
	for i := range times {
		c.RequestSeconds = append(c.RequestSeconds, seconds*(0.9+0.2*float64(i)/float64(times)))
	}
	return c
}

func TestRequestsAndTheCostOfAPiece(t *testing.T) {
	var cells []results.Cell
	for _, together := range []int64{1, 8} {
		for i, n := range []int64{1024, 2048, 4096} {
			request := []string{"a model, 1024 tokens", "a model, 2048 tokens", "a model, 4096 tokens"}[i]
			bulk := float64(n) * 32768 / 2e9 * float64(together)
			// A piece costs 1 us alone, 8 us among eight.
			cells = append(cells, asKV(t, request, 32768, n, together, bulk+float64(n-1)*1e-6*float64(together), 60*int(together)),
				asKV(t, request, 32768*n, 1, together, bulk, 60*int(together)))
		}
	}
	var b bytes.Buffer
	if err := Write(&b, []results.Run{run(cells...)}, Options{Width: 140}); err != nil {
		t.Fatal(err)
	}
	golden(t, "requests.txt", b.String())
}

func TestTheFitNeedsThreeCounts(t *testing.T) {
	pairs := []extra{{pieces: 10, seconds: 20}, {pieces: 20, seconds: 40}, {pieces: 10, seconds: 20}}
	if _, _, ok := slope(pairs); ok {
		t.Error("two counts gave a fit")
	}
	s, d, ok := slope(append(pairs, extra{pieces: 40, seconds: 80}))
	if !ok || math.Abs(s-2) > 1e-12 || d > 1e-12 {
		t.Errorf("%g, %g, %v; a cost of 2 a piece without an error was given", s, d, ok)
	}
}
