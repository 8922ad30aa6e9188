package ttft

import (
	"math"
	"strings"
	"testing"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/link"
	"hopbench/results"
)

// The spread of the ranks is that of requests alone on the link, where these were measured; a request alone takes the median of its
// slowest rank, and no draw; what is given replaces what was measured; a request of one rank has no slowest.
func TestRanksSpreadAsMeasured(t *testing.T) {
	const sigma = 0.1
	var cells []results.Cell
	for _, n := range []int64{1000, 100_000} {
		c := results.Cell{
			Transport: "roce", Label: "roce", Realm: results.RealmHardware, Definition: "bandwidth.notified", Operation: "read", Direction: "forward",
			PieceBytes: 4096, TotalBytes: 4096 * n, Descriptors: n, Depth: 1, Streams: 1, Concurrency: 1, InitiatorMemory: "host", TargetMemory: "host",
			Status: results.StatusOK, Bandwidth: &results.Bandwidth{BytesPerSecond: 1e9}, Settings: map[string]string{"request": "x"},
		}
		for i := range 50 {
			c.RequestSeconds = append(c.RequestSeconds, math.Exp(sigma*float64(1-2*(i%2))))
		}
		cells = append(cells, c)
	}
	curves, _, err := curve.FromCells(cells)
	if err != nil {
		t.Fatal(err)
	}
	l := link.Measured(curves[0])
	measured := sigma * math.Sqrt(100.0/98) // two cells, each with a mean of its own
	s := base(t)
	s.Layout.Prefill, s.Layout.Decode = kvcache.Parallel{TP: 8}, kvcache.Parallel{TP: 8}
	p, err := Alone(s, l, 8000)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(p.RankSigma-measured) > 1e-9 || p.Provenance["rank_spread"] != "measured" {
		t.Errorf("sigma %g (%s), want %g measured", p.RankSigma, p.Provenance["rank_spread"], measured)
	}
	// The median of the slowest of eight: each below it with probability 0.5^(1/8).
	want := p.Request.Seconds * math.Exp(measured*math.Sqrt2*math.Erfinv(2*math.Pow(0.5, 1.0/8)-1))
	if got := *p.Result.Transfer.P50; math.Abs(got/want-1) > 0.003 { // a bucket of the histogram
		t.Errorf("a request alone takes %g s, want %g", got, want)
	}
	for seed := range uint64(3) {
		s.Seed = seed
		if again, err := Alone(s, l, 8000); err != nil || *again.Result.Transfer.P50 != *p.Result.Transfer.P50 {
			t.Errorf("seed %d: a request alone takes %g s, and another time %g (%v)", seed, *again.Result.Transfer.P50, *p.Result.Transfer.P50, err)
		}
	}
	given := 0.0
	s.RankSigma = &given
	if p, err := Alone(s, l, 8000); err != nil || p.RankSigma != 0 || p.Provenance["rank_spread"] != "given" {
		t.Errorf("none is given: %g %q %v", p.RankSigma, p.Provenance["rank_spread"], err)
	}
	one := base(t)
	if p, err := Alone(one, l, 100); err == nil && (p.RankSigma != 0 || p.Provenance["rank_spread"] != "") {
		t.Errorf("one rank has a spread of %g", p.RankSigma)
	} else if err != nil && !strings.Contains(err.Error(), "outside") {
		t.Error(err)
	}
}
