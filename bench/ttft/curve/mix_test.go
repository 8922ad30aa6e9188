package curve

import (
	"math"
	"strings"
	"testing"

	"hopbench/results"
)

// mixedCell is a request of two sizes that took 1 us for each piece beside its bytes at 2 GB/s.
func mixedCell(small, smalls, large, larges int64) results.Cell {
	c := listCell(large, larges, 1)
	c.Descriptors = smalls + larges
	c.TotalBytes = small*smalls + large*larges
	c.Pieces = []results.Piece{{SizeBytes: small, Count: smalls}, {SizeBytes: large, Count: larges}}
	one := float64(c.TotalBytes)/2e9 + float64(c.Descriptors)*1e-6
	c.Bandwidth = &results.Bandwidth{BytesPerSecond: float64(c.TotalBytes) / one}
	return c
}

func took(c results.Cell) float64 { return float64(c.TotalBytes) / c.Bandwidth.BytesPerSecond }

// A request of several sizes is asked of requests of the same sizes, and a list of one size that happens to have their mean is another thing.
func TestMixesAreTheirOwn(t *testing.T) {
	// 1000 pieces of 4 KiB and 1000 of 64 KiB have a mean of 34 KiB.
	mixed, twice := mixedCell(4096, 1000, 65536, 1000), mixedCell(4096, 2000, 65536, 2000)
	uniform := listCell(34816, 2000, 1)
	uniform.Bandwidth = &results.Bandwidth{BytesPerSecond: 1e6} // a thousand times slower: it must not answer
	curves, _, err := FromCells([]results.Cell{uniform, mixed, twice})
	if err != nil || len(curves) != 1 {
		t.Fatalf("%d curves, %v", len(curves), err)
	}
	c := curves[0]
	shape := []Shape{{4096, 1000}, {65536, 1000}}
	for _, s := range [][]Shape{shape, {shape[1], shape[0]}} {
		a, err := c.At(s, 1, true)
		if err != nil || math.Abs(a.Seconds/took(mixed)-1) > 1e-9 || len(a.Notes) > 0 {
			t.Errorf("%v: %g s, measured %g (%v, %v)", s, a.Seconds, took(mixed), a.Notes, err)
		}
	}
	a, err := c.At([]Shape{{34816, 2000}}, 1, true)
	if err != nil || math.Abs(a.Seconds/took(uniform)-1) > 1e-9 {
		t.Errorf("a list of one size: %g s, measured %g (%v)", a.Seconds, took(uniform), err)
	}
	// Between two of them, and beyond.
	a, err = c.At([]Shape{{4096, 1500}, {65536, 1500}}, 1, true)
	if err != nil || math.Abs(a.Seconds/(1.5*took(mixed))-1) > 0.01 || !strings.Contains(strings.Join(a.Notes, " "), "interpolated between measured requests of the same sizes") {
		t.Errorf("half as many again: %g s, want about %g (%v, %v)", a.Seconds, 1.5*took(mixed), a.Notes, err)
	}
	if _, err := c.At([]Shape{{4096, 9000}, {65536, 9000}}, 1, true); err == nil || !strings.Contains(err.Error(), "in pieces of these sizes, measured") {
		t.Errorf("beyond: %v", err)
	}
	// The same sizes in other proportions are not that mix, and nothing else was measured of 4 KiB.
	if a, err := c.At([]Shape{{4096, 10}, {65536, 1990}}, 1, true); err == nil {
		t.Errorf("other proportions: %g s, want a refusal", a.Seconds)
	}
}

// Without a measured mix the sizes are put together from lists of one size each.
func TestMixFromLists(t *testing.T) {
	var cells []results.Cell
	for _, piece := range []int64{4096, 65536} {
		for _, n := range []int64{1000, 4000} {
			cells = append(cells, listCell(piece, n, 1))
		}
	}
	curves, _, err := FromCells(cells)
	if err != nil {
		t.Fatal(err)
	}
	shape := []Shape{{4096, 500}, {65536, 1500}}
	want := (500*4096+1500*65536)/2e9 + 2000*1e-6
	a, err := curves[0].At(shape, 1, true)
	if err != nil || math.Abs(a.Seconds/want-1) > 0.01 || !strings.Contains(strings.Join(a.Notes, " "), "several sizes") {
		t.Errorf("%g s, want %g (%v, %v)", a.Seconds, want, a.Notes, err)
	}
	if _, err := curves[0].At([]Shape{{4096, 10}, {65536, 10}}, 1, true); err == nil {
		t.Error("twenty pieces are answered from a thousand")
	}
}

func TestSpread(t *testing.T) {
	c := asRequest(listCell(32768, 2000, 1))
	for i := range 40 { // 10 % up and down: sigma is the logarithm of it
		c.RequestSeconds = append(c.RequestSeconds, 0.5*math.Exp(0.1*float64(1-2*(i%2))))
	}
	other := asRequest(listCell(16384, 2000, 1)) // another mean, the same spread: it is not the spread between cells
	for i := range 40 {
		other.RequestSeconds = append(other.RequestSeconds, 0.01*math.Exp(0.1*float64(1-2*(i%2))))
	}
	burst := asRequest(listCell(32768, 2000, 8)) // requests that share the link are no ranks on links of their own
	burst.RequestSeconds = []float64{1, 2, 3, 4, 5, 6, 7, 8}
	few := asRequest(listCell(32768, 2000, 1))
	few.RequestSeconds = []float64{1, 2}
	for _, k := range []struct {
		name  string
		cells []results.Cell
		sigma float64
		n     int
	}{{"two cells", []results.Cell{c, other, burst}, 0.1 * math.Sqrt(80.0/78), 80}, {"a burst alone", []results.Cell{burst}, 0, 0}, {"too few", []results.Cell{few}, 0, 2}} {
		curves, _, err := FromCells(k.cells)
		if err != nil {
			t.Fatal(err)
		}
		sigma, n, ok := curves[0].Spread()
		if math.Abs(sigma-k.sigma) > 1e-9 || n != k.n || ok != (k.sigma > 0) {
			t.Errorf("%s: sigma %g from %d (%v), want %g from %d", k.name, sigma, n, ok, k.sigma, k.n)
		}
	}
	many := c
	many.RequestSeconds = make([]float64, 10_000)
	for i := range many.RequestSeconds {
		many.RequestSeconds[i] = float64(i + 1)
	}
	if got := Times(&many); len(got) != mostTimes || got[0] != 1 || got[mostTimes-1] < 9900 {
		t.Errorf("%d times of 10000, the last %g", len(got), got[len(got)-1])
	}
}
