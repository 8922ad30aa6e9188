package stat

import (
	"fmt"
	"math"
	"slices"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// HistogramUnit is the seconds that one count of a histogram's value stands for: a picosecond, so
	// that the half of a round trip of a few clock ticks keeps its precision.
	HistogramUnit = 1e-12
	// RelativeError bounds the distance of a percentile from the sample that it stands for, where the sample is
	// at least 2 ns: three significant digits, half a bucket to either side.
	RelativeError = 0.0005

	longest    = 24 * 3600 * 1e12 // picoseconds
	maxEncoded = 1 << 18          // bytes of base64; the densest histograms stay far below
	maxBytes   = 1 << 24          // of counts, in a decoded histogram
	kept       = 8                // largest samples that are kept exactly
)

// PercentileRule says how a percentile's rank is chosen, for the record.
const PercentileRule = "nearest rank: the sample of rank ceil(q*n); p99 from 100 samples up, p99.9 from 1000"

// Histogram collects times in fixed memory (about 0.4 MB) with a fixed relative error. The least and the
// eight greatest samples are exact. It is not safe for use by several goroutines.
type Histogram struct {
	h       *hdr.Histogram
	least   float64
	sum     float64
	largest []float64 // descending, at most kept
	exact   bool      // false after DecodeHistogram: the least and the largest are then bucket bounds
}

// NewHistogram returns an empty histogram.
func NewHistogram() *Histogram {
	return &Histogram{h: hdr.New(1, longest, 3), exact: true}
}

// Record adds samples, in seconds. Negative, NaN and infinite ones and those beyond a day are an error, and
// none after it is recorded.
func (g *Histogram) Record(seconds ...float64) error {
	for _, s := range seconds {
		if !(s >= 0) || s > longest*HistogramUnit {
			return fmt.Errorf("a time of %v s", s)
		}
		if err := g.h.RecordValue(int64(math.Round(s / HistogramUnit))); err != nil {
			return fmt.Errorf("a time of %v s: %w", s, err)
		}
		if g.h.TotalCount() == 1 || s < g.least {
			g.least = s
		}
		g.sum += s
		g.keep(s)
	}
	return nil
}

func (g *Histogram) keep(s float64) {
	if len(g.largest) == kept && s <= g.largest[kept-1] {
		return
	}
	i, _ := slices.BinarySearchFunc(g.largest, s, func(e, t float64) int {
		if e >= t {
			return -1
		}
		return 1
	})
	g.largest = slices.Insert(g.largest, i, s)
	if len(g.largest) > kept {
		g.largest = g.largest[:kept]
	}
}

// Count is the number of samples.
func (g *Histogram) Count() int64 { return g.h.TotalCount() }

// Min is the least sample; ok is false without samples.
func (g *Histogram) Min() (seconds float64, ok bool) {
	if g.Count() == 0 {
		return 0, false
	}
	if !g.exact {
		return float64(g.h.Min()) * HistogramUnit, true
	}
	return g.least, true
}

// Max is the greatest sample; ok is false without samples.
func (g *Histogram) Max() (seconds float64, ok bool) {
	if g.Count() == 0 {
		return 0, false
	}
	if !g.exact {
		return float64(g.h.Max()) * HistogramUnit, true
	}
	return g.largest[0], true
}

// Mean is the mean of the samples; ok is false without samples.
func (g *Histogram) Mean() (seconds float64, ok bool) {
	if g.Count() == 0 {
		return 0, false
	}
	if !g.exact {
		return g.h.Mean() * HistogramUnit, true
	}
	return g.sum / float64(g.Count()), true
}

// Largest are the greatest samples, at most eight, the greatest first. It is empty for a decoded histogram.
func (g *Histogram) Largest() []float64 { return slices.Clone(g.largest) }

// Supports reports whether n samples are enough for the quantile q: at least one sample must lie
// above it, so p90 needs 10, p99 needs 100 and p99.9 needs 1000.
func Supports(q float64, n int64) bool {
	return n > 0 && q >= 0 && q < 1 && float64(n)*(1-q) >= 1-1e-6
}

// Quantile is the sample of rank ceil(q*n), within RelativeError. ok is false where Supports is.
func (g *Histogram) Quantile(q float64) (seconds float64, ok bool) {
	n := g.Count()
	if !Supports(q, n) {
		return 0, false
	}
	// The small term undoes the rounding of q itself: 0.99*100 must be rank 99, not 100.
	return g.Rank(max(1, int64(math.Ceil(q*float64(n)-1e-6))))
}

// Rank is the sample of the given rank, 1 the least, within RelativeError; the eight greatest are exact.
// ok is false for a rank below 1 or above Count.
func (g *Histogram) Rank(rank int64) (seconds float64, ok bool) {
	n := g.Count()
	if rank < 1 || rank > n {
		return 0, false
	}
	if i := n - rank; i < int64(len(g.largest)) {
		return g.largest[i], true
	}
	var seen int64
	for _, bar := range g.h.Distribution() {
		if seen += bar.Count; seen >= rank {
			v := float64(bar.From+bar.To) / 2 * HistogramUnit
			low, _ := g.Min()
			high, _ := g.Max()
			return min(max(v, low), high), true
		}
	}
	return 0, false
}

// Bar is a bucket of a histogram: Count samples between From and To, in seconds.
type Bar struct {
	From, To float64
	Count    int64
}

// Bars lists the buckets that hold samples, in ascending order.
func (g *Histogram) Bars() []Bar {
	var out []Bar
	for _, b := range g.h.Distribution() {
		if b.Count > 0 {
			out = append(out, Bar{float64(b.From) * HistogramUnit, float64(b.To) * HistogramUnit, b.Count})
		}
	}
	return out
}

// Encode is the histogram in HdrHistogram's V2 format, compressed, as base64. Its values count
// HistogramUnit.
func (g *Histogram) Encode() (string, error) {
	b, err := g.h.EncodeV2()
	if err != nil {
		return "", fmt.Errorf("histogram: %w", err)
	}
	return string(b), nil
}

// DecodeHistogram reads what Encode wrote. Counts that contradict each other are an error, not a panic.
func DecodeHistogram(text string) (*Histogram, error) {
	if len(text) > maxEncoded {
		return nil, fmt.Errorf("histogram: %d bytes of base64, more than %d", len(text), maxEncoded)
	}
	h, err := hdr.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	if h == nil || h.TotalCount() < 0 {
		return nil, fmt.Errorf("histogram: counts are not valid")
	}
	if h.ByteSize() > maxBytes {
		return nil, fmt.Errorf("histogram: %d bytes of counts, more than %d", h.ByteSize(), maxBytes)
	}
	return &Histogram{h: h}, nil
}
