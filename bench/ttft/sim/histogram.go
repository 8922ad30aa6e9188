package sim

import "math"

// Buckets are logarithmic: perOctave of them to each doubling, from 2^lowest
// seconds. A quantile is then right within half a bucket, 0.14 %, however many
// samples there are, and the memory is fixed.
const (
	perOctave = 256
	lowest    = -34 // 58 ps
	octaves   = 64  // up to 1e9 s
)

// histogram counts seconds. Mean, least and largest are exact.
type histogram struct {
	counts     []int64
	n          int64
	sum        float64
	least, top float64
}

func newHistogram() histogram { return histogram{counts: make([]int64, perOctave*octaves+1)} }

// bucket 0 holds what is too small to count, zero above all.
func bucket(v float64, per int) int {
	if !(v > 0) {
		return 0
	}
	i := int(math.Floor((math.Log2(v)-lowest)*float64(per))) + 1
	return min(max(i, 0), per*octaves)
}

func (h *histogram) add(v float64) {
	h.counts[bucket(v, perOctave)]++
	if h.n == 0 || v < h.least {
		h.least = v
	}
	if h.n == 0 || v > h.top {
		h.top = v
	}
	h.n++
	h.sum += v
}

// quantile is the smallest value with at least q of the samples at or below it
// (the nearest-rank rule), to a bucket's width.
func (h *histogram) quantile(q float64) float64 {
	rank := int64(math.Ceil(q * float64(h.n)))
	rank = min(max(rank, 1), h.n)
	seen := int64(0)
	for i, c := range h.counts {
		if seen += c; seen >= rank {
			if i == 0 {
				return max(0, h.least)
			}
			v := math.Exp2(lowest + (float64(i)-0.5)/perOctave)
			return min(max(v, h.least), h.top)
		}
	}
	return h.top
}

// times is the summary: quantiles only where the samples carry them.
func (h *histogram) times() Times {
	if h.n == 0 {
		return Times{}
	}
	t := Times{Samples: h.n, Mean: ptr(h.sum / float64(h.n)), Min: ptr(h.least), Max: ptr(h.top), P50: ptr(h.quantile(0.5))}
	if h.n >= 10 {
		t.P90 = ptr(h.quantile(0.9))
	}
	if h.n >= 100 {
		t.P99 = ptr(h.quantile(0.99))
	}
	return t
}

func ptr(v float64) *float64 { return &v }

// profile keeps the parts of the requests by their TTFT, to tell what a
// request near a quantile is made of. Coarser than histogram: 32 to an octave.
type profile struct {
	counts []int64
	parts  []Parts
	n      int64
}

const perProfile = 32

func newProfile() profile {
	return profile{counts: make([]int64, perProfile*octaves+1), parts: make([]Parts, perProfile*octaves+1)}
}

func (p *profile) add(ttft float64, parts *Parts) {
	i := bucket(ttft, perProfile)
	p.counts[i]++
	p.n++
	p.parts[i].add(parts)
}

// near is the mean of the parts of the requests from quantile low to high,
// widened to whole buckets.
func (p *profile) near(low, high float64) Parts {
	from := int64(math.Ceil(low * float64(p.n)))
	to := max(from, int64(math.Ceil(high*float64(p.n))))
	from, to = min(max(from, 1), p.n), min(max(to, 1), p.n)
	var sum Parts
	var n, seen int64
	for i, c := range p.counts {
		if c > 0 && seen+c >= from && seen < to {
			sum.add(&p.parts[i])
			n += c
		}
		seen += c
	}
	return sum.over(float64(n))
}
