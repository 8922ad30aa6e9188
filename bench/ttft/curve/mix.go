package curve

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// mix is the requests of one set of piece sizes, as one model's caches of several lengths are: by the bytes of the whole request, for
// each number at once.
type mix struct {
	by       map[float64]*mixed
	parallel []float64
}

// mixed is a mix with one number at once. A larger request of the same sizes has other proportions (a state stays, blocks grow): the mean size
// is kept beside the time, so that a question is held to the proportions that were measured.
type mixed struct {
	points             [4][][2]float64 // by bytes: seconds, low, high, mean piece
	mid, low, high, at line
	bounded            bool
}

// nearly is how far the mean piece of a question may lie from that of the measured requests of the same sizes.
const nearly = 0.05

// mixKey names a set of sizes.
func mixKey(shape []Shape) string {
	var sizes []float64
	for _, s := range shape {
		sizes = append(sizes, s.PieceBytes)
	}
	slices.Sort(sizes)
	var b strings.Builder
	for _, s := range slices.Compact(sizes) {
		fmt.Fprintf(&b, "%.0f ", s)
	}
	return b.String()
}

// whole is the bytes and pieces of a shape.
func whole(shape []Shape) (bytes, count float64) {
	for _, s := range shape {
		bytes += s.PieceBytes * s.Count
		count += s.Count
	}
	return bytes, count
}

func (c *Curve) putMix(p Point) {
	if c.mixes == nil {
		c.mixes = map[string]*mix{}
	}
	key := mixKey(p.Mix)
	m := c.mixes[key]
	if m == nil {
		m = &mix{by: map[float64]*mixed{}}
		c.mixes[key] = m
	}
	t := m.by[p.Parallel]
	if t == nil {
		t = &mixed{bounded: true}
		m.by[p.Parallel] = t
	}
	bytes, count := whole(p.Mix)
	low, high := p.Low, p.High
	if !(low > 0) || !(high >= low) {
		low, high, t.bounded = p.Seconds, p.Seconds, false
	}
	for i, v := range []float64{p.Seconds, low, high, bytes / count} {
		t.points[i] = append(t.points[i], [2]float64{bytes, v})
	}
	c.points++
}

func (m *mix) seal() {
	for parallel, t := range m.by {
		m.parallel = append(m.parallel, parallel)
		t.mid, t.low, t.high, t.at = newLine(t.points[0]), newLine(t.points[1]), newLine(t.points[2]), newLine(t.points[3])
	}
	slices.Sort(m.parallel)
}

// asMix answers a request of several sizes from measured requests of the same sizes in about the same proportions. No answer: Seconds is 0.
func (c *Curve) asMix(shape []Shape, parallel float64) (Answer, string) {
	m := c.mixes[mixKey(shape)]
	if m == nil {
		return Answer{}, ""
	}
	bytes, count := whole(shape)
	return between(m.parallel, parallel, func(n float64) (Answer, string) {
		t := m.by[n]
		mean, _ := t.at.at(bytes, 0, 0)
		if math.Abs(bytes/count/mean-1) > nearly {
			return Answer{}, ""
		}
		a := Answer{Bounded: t.bounded, Latency: c.startup(shape[0].PieceBytes)}
		outside := ""
		var inside bool
		if a.Seconds, inside = t.mid.at(bytes, 0, 1); !inside {
			outside = fmt.Sprintf("a request of %.0f bytes in pieces of these sizes, measured %.0f to %.0f", bytes, t.mid.low(), t.mid.high())
		}
		a.Low, _ = t.low.at(bytes, 0, 1)
		a.High, _ = t.high.at(bytes, 0, 1)
		if !t.mid.has(bytes) {
			a.Notes = append(a.Notes, "interpolated between measured requests of the same sizes of pieces")
		}
		return a, outside
	})
}

// bySize answers a request of several sizes from lists of one size each: every size takes its share of the time of a request of as many pieces
// that all had it. What a request costs beyond its pieces is so counted once.
func (c *Curve) bySize(shape []Shape, parallel float64) (Answer, string) {
	_, count := whole(shape)
	sum := Answer{Bounded: true}
	outside := ""
	for _, s := range shape {
		a, o := c.asList([]Shape{{s.PieceBytes, count}}, parallel)
		if a.Seconds == 0 {
			return Answer{}, ""
		}
		share := s.Count / count
		sum.Seconds += share * a.Seconds
		sum.Low += share * a.Low
		sum.High += share * a.High
		sum.Latency += share * a.Latency
		sum.Bounded = sum.Bounded && a.Bounded
		outside = join(outside, o)
		for _, n := range a.Notes {
			if !slices.Contains(sum.Notes, n) {
				sum.Notes = append(sum.Notes, n)
			}
		}
	}
	sum.Notes = append(sum.Notes, "pieces of several sizes: put together from lists of one size each")
	return sum, outside
}
