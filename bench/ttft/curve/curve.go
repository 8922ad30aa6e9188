// Package curve answers how long a KV-shaped transfer takes on a link that was
// measured: it interpolates between the cells of result files, in the logarithm
// of size, number of pieces and requests at once, and never fits a line through
// them, because real links have steps (a change of protocol makes 256 KiB
// faster than 128 KiB on published NDR figures).
//
// Sizes are bytes, times seconds. Reading and writing the target's memory (pull and
// push) are different curves.
package curve

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Point is one measurement.
type Point struct {
	PieceBytes  float64
	Descriptors float64 // pieces of one request
	Parallel    float64 // requests, or streams, at once
	// Seconds is the time of one request of that many pieces, while Parallel of
	// them run. Of a Rate point it is the time between the completions of two
	// requests in a full pipeline, all streams together: bytes over bandwidth.
	Seconds float64
	// Low and High bound it; both 0 where they are not known.
	Low, High float64
	// Rate says that Seconds is that of a pipeline and not of a request alone.
	Rate bool
	// Mix is the request's pieces where they are of several sizes; PieceBytes is then their mean.
	Mix []Shape
}

// Origin says what was measured, and where.
type Origin struct {
	Transport string `json:"transport"`
	Label     string `json:"label"`
	Realm     string `json:"realm"`
	Operation string `json:"operation"` // write (push) or read (pull)
	// Memory, GPU way and PCI distance of the two sides, as the cells say them.
	Memory      [2]string `json:"memory"`
	GPUWay      [2]string `json:"gpu_way"`
	PCIDistance [2]string `json:"pci_distance"`
	NUMANode    [2]string `json:"numa_node"`
	Rail        string    `json:"rail,omitempty"`
	Provenance  string    `json:"provenance"` // measured, reference or projected
	Source      string    `json:"source,omitempty"`
}

// Curve is what was measured on one path with one operation.
type Curve struct {
	Origin Origin
	points int
	// Requests of many pieces, of one piece, and pipelines: three families that
	// are never interpolated into one another, for between one piece and
	// thousands lies no straight line, not even of logarithms.
	lists, single, rate family
	// Requests of pieces of several sizes are a family for each set of sizes.
	mixes  map[string]*mix
	spread spread
}

// family is the tables of one kind of point by the number at once.
type family struct {
	by       map[float64]*tables
	parallel []float64 // its keys, ascending
}

// tables are the point values and their two bounds.
type tables struct {
	mid, low, high grid
	bounded        bool
	parallel       float64
	points         [3][][3]float64
}

// Shape is a part of a request: count pieces of one size.
type Shape struct {
	PieceBytes float64
	Count      float64
}

// Answer is the time of a request, with its interval and how it came about.
type Answer struct {
	Seconds   float64
	Low, High float64 // equal to Seconds where no interval is known
	Bounded   bool    // whether Low and High are an interval
	// Latency is the part of Seconds before bytes flow: that of the first piece.
	Latency float64
	// Notes say what is not plainly measured; empty for a measured cell itself.
	Notes []string
}

// Outside is the error of a question about what was not measured.
type Outside struct {
	Curve string // label of the curve
	What  string
}

func (e *Outside) Error() string {
	return fmt.Sprintf("%s: outside what was measured: %s", e.Curve, e.What)
}

// New makes a curve of points. An error says which point is not a measurement.
func New(origin Origin, points []Point) (*Curve, error) {
	c := &Curve{Origin: origin}
	for i, p := range points {
		for _, v := range []float64{p.PieceBytes, p.Descriptors, p.Parallel, p.Seconds} {
			if !(v > 0) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("curve %s: point %d: %g is not a positive number", origin.Label, i, v)
			}
		}
		c.put(p)
	}
	if c.points == 0 {
		return nil, fmt.Errorf("curve %s: no points", origin.Label)
	}
	for _, f := range []*family{&c.lists, &c.single, &c.rate} {
		f.seal()
	}
	for _, m := range c.mixes {
		m.seal()
	}
	return c, nil
}

func (c *Curve) put(p Point) {
	if len(p.Mix) > 1 {
		c.putMix(p)
		return
	}
	f := &c.lists
	switch {
	case p.Rate:
		f = &c.rate
	case p.Descriptors == 1:
		f = &c.single
	}
	if f.by == nil {
		f.by = map[float64]*tables{}
	}
	t := f.by[p.Parallel]
	if t == nil {
		t = &tables{bounded: true, parallel: p.Parallel}
		f.by[p.Parallel] = t
	}
	low, high := p.Low, p.High
	if !(low > 0) || !(high >= low) {
		low, high, t.bounded = p.Seconds, p.Seconds, false
	}
	for i, v := range []float64{p.Seconds, low, high} {
		t.points[i] = append(t.points[i], [3]float64{p.PieceBytes, p.Descriptors, v})
	}
	c.points++
}

// At answers for one request of the given shape while parallel of them run,
// this one included. With strict, what was not measured is an *Outside error;
// else it is answered from the nearest edge and noted.
func (c *Curve) At(shape []Shape, parallel float64, strict bool) (Answer, error) {
	count := 0.0
	for _, s := range shape {
		if !(s.PieceBytes > 0) || !(s.Count > 0) {
			return Answer{}, fmt.Errorf("curve %s: %g pieces of %g bytes", c.Origin.Label, s.Count, s.PieceBytes)
		}
		count += s.Count
	}
	if count == 0 || !(parallel >= 1) {
		return Answer{}, errors.New("curve: an empty request")
	}
	ways := []func([]Shape, float64) (Answer, string){c.asList, c.pipelined, c.oneByOne}
	switch {
	case count == 1:
		ways = []func([]Shape, float64) (Answer, string){c.oneByOne, c.pipelined}
	case len(shape) > 1:
		ways = []func([]Shape, float64) (Answer, string){c.asMix, c.bySize, c.pipelined, c.oneByOne}
	}
	// The first way that was measured at this place; where none was, the first
	// that has anything to say.
	var a Answer
	outside := ""
	for _, way := range ways {
		b, o := way(shape, parallel)
		if b.Seconds > 0 && (a.Seconds == 0 || o == "") {
			a, outside = b, o
		}
		if b.Seconds > 0 && o == "" {
			break
		}
	}
	if a.Seconds == 0 {
		outside = "nothing that a request can be put together from"
	}
	if a.Seconds == 0 {
		return Answer{}, &Outside{c.Origin.Label, outside}
	}
	if outside != "" {
		if strict {
			return Answer{}, &Outside{c.Origin.Label, outside}
		}
		a.Notes = append(a.Notes, "extrapolated: "+outside)
	}
	a.Latency = min(a.Latency, a.Seconds)
	if !a.Bounded {
		a.Low, a.High = a.Seconds, a.Seconds
	}
	return a, nil
}

// asList answers a request of pieces of one size from requests that were measured as lists of pieces.
func (c *Curve) asList(shape []Shape, parallel float64) (Answer, string) {
	return c.lists.between(parallel, func(t *tables) (Answer, string) {
		s := shape[0]
		a := Answer{Bounded: t.bounded, Latency: c.startup(s.PieceBytes)}
		var exact bool
		var outside string
		a.Seconds, a.Low, a.High, exact, outside = t.at(s.PieceBytes, s.Count)
		if !exact {
			a.Notes = append(a.Notes, "interpolated between measured sizes or counts")
		}
		return a, outside
	})
}

// startup is what one piece takes beyond its bytes at the pipeline's rate, or,
// where no pipeline was measured, the time of the smallest piece; 0 where no
// single piece as small was measured.
func (c *Curve) startup(piece float64) float64 {
	if len(c.single.parallel) == 0 {
		return 0
	}
	t := c.single.by[c.single.parallel[0]]
	if piece < t.mid.size[0]*(1-slack) {
		return 0 // a bulk transfer's time says nothing of a piece's
	}
	if len(c.rate.parallel) == 0 {
		least, _, _, _, _ := t.at(t.mid.size[0], 1)
		return least
	}
	one, _, _, _, _ := t.at(piece, 1)
	each, _, _, _, _ := c.rate.by[c.rate.parallel[0]].at(piece, 1)
	return max(0, one-each)
}

// pipelined answers from a plain sweep: the first piece takes its latency, and
// each further one follows at the pipeline's rate at its size.
func (c *Curve) pipelined(shape []Shape, parallel float64) (Answer, string) {
	start := c.startup(shape[0].PieceBytes)
	note := "put together from a plain sweep: latency of a piece, then the pipeline's rate at the pieces' size"
	if len(c.single.parallel) == 0 {
		note += "; no latency was measured"
	}
	f := &c.rate
	return f.between(parallel, func(t *tables) (Answer, string) {
		a := Answer{Bounded: t.bounded, Latency: start, Seconds: start, Low: start, High: start, Notes: []string{note}}
		outside := ""
		for _, s := range shape {
			mid, low, high, _, out := t.at(s.PieceBytes, 1)
			// The pipeline is shared by its requests: each waits for the others' pieces.
			n := s.Count * t.parallel
			a.Seconds += mid * n
			a.Low += low * n
			a.High += high * n
			outside = join(outside, out)
		}
		return a, outside
	})
}

// oneByOne answers from single pieces, which is exact for one piece; more are
// added as if each waited for the one before: an upper bound, and it says so.
func (c *Curve) oneByOne(shape []Shape, parallel float64) (Answer, string) {
	return c.single.between(parallel, func(t *tables) (Answer, string) {
		a := Answer{Bounded: t.bounded, Latency: c.startup(shape[0].PieceBytes)}
		outside := ""
		many := len(shape) > 1 || shape[0].Count > 1
		exact := true
		for _, s := range shape {
			mid, low, high, ex, out := t.at(s.PieceBytes, 1)
			a.Seconds += mid * s.Count
			a.Low += low * s.Count
			a.High += high * s.Count
			exact = exact && ex
			outside = join(outside, out)
		}
		if !exact {
			a.Notes = append(a.Notes, "interpolated between measured sizes or counts")
		}
		if many {
			a.Notes = append(a.Notes, "only single pieces were measured: they are added as if each waited for the one before, which is an upper bound")
			outside = join(outside, "a request of more than one piece")
		}
		return a, outside
	})
}

// between interpolates in the number of requests at once. An empty family has
// no answer: Seconds is 0.
func (f *family) between(parallel float64, at func(*tables) (Answer, string)) (Answer, string) {
	return between(f.parallel, parallel, func(n float64) (Answer, string) { return at(f.by[n]) })
}

// between interpolates between the answers at the numbers at once that were measured.
func between(measured []float64, parallel float64, at func(float64) (Answer, string)) (Answer, string) {
	if len(measured) == 0 {
		return Answer{}, ""
	}
	first, last := measured[0], measured[len(measured)-1]
	i, found := slices.BinarySearch(measured, parallel)
	if found {
		return at(parallel)
	}
	if i == 0 || i == len(measured) {
		edge := measured[min(i, len(measured)-1)]
		a, outside := at(edge)
		if a.Seconds == 0 {
			return a, ""
		}
		// Those at once share what was had by the most, or the fewest, that were measured.
		scale := parallel / edge
		shared := func(v float64) float64 { return a.Latency + max(0, v-a.Latency)*scale }
		a.Seconds, a.Low, a.High = shared(a.Seconds), shared(a.Low), shared(a.High)
		return a, join(outside, fmt.Sprintf("%g at once, measured %g to %g", parallel, first, last))
	}
	below, above := measured[i-1], measured[i]
	a, outside := at(below)
	b, o := at(above)
	if a.Seconds == 0 || b.Seconds == 0 {
		return Answer{}, ""
	}
	outside = join(outside, o)
	w := (math.Log(parallel) - math.Log(below)) / (math.Log(above) - math.Log(below))
	mix := func(x, y float64) float64 {
		if !(x > 0) || !(y > 0) {
			return (1-w)*x + w*y
		}
		return math.Exp((1-w)*math.Log(x) + w*math.Log(y))
	}
	r := Answer{
		Seconds: mix(a.Seconds, b.Seconds), Low: mix(a.Low, b.Low), High: mix(a.High, b.High),
		Bounded: a.Bounded && b.Bounded, Latency: mix(a.Latency, b.Latency),
		Notes: append(a.Notes, fmt.Sprintf("interpolated between %.0f and %.0f requests at once", below, above)),
	}
	return r, outside
}

func join(a, b string) string {
	if a == "" || a == b {
		return b
	}
	if b == "" {
		return a
	}
	return a + "; " + b
}

// MaxParallel is the largest number of requests (or streams) at once that was measured.
func (c *Curve) MaxParallel() float64 {
	top := 1.0
	for _, f := range []*family{&c.lists, &c.rate} {
		if n := len(f.parallel); n > 0 {
			top = max(top, f.parallel[n-1])
		}
	}
	for _, m := range c.mixes {
		top = max(top, m.parallel[len(m.parallel)-1])
	}
	return top
}

// Bulk is the largest bandwidth seen on the curve in bytes/s, over all sizes
// and numbers at once: the ceiling beside which a shape's bandwidth is put.
func (c *Curve) Bulk() float64 {
	top := 0.0
	for _, f := range []*family{&c.lists, &c.single, &c.rate} {
		for parallel, t := range f.by {
			for _, p := range t.points[0] {
				b := p[0] * p[1] / p[2]
				if f != &c.rate {
					b *= parallel // each of them moves that much in that time
				}
				top = max(top, b)
			}
		}
	}
	for _, m := range c.mixes {
		for parallel, t := range m.by {
			for _, p := range t.points[0] {
				top = max(top, p[0]/p[1]*parallel)
			}
		}
	}
	return top
}
