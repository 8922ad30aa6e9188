// Package load makes the requests that a projection is run under: Poisson
// arrivals, or a recorded trace. Times are seconds from the start, lengths
// are tokens.
package load

import "math/rand/v2"

// Request is one prompt.
type Request struct {
	// Arrival is seconds since the start of the load.
	Arrival float64
	// Input is the prompt's length in tokens, at least 1.
	Input int
	// Output is the number of tokens generated, at least 1.
	Output int
	// Blocks are the hashes of the prompt's blocks, in order; two requests that
	// share their first n hashes share those n blocks of KV. Nil where a source
	// has none. The slice belongs to the source and must not be changed.
	Blocks []uint64
	// BlockTokens is the number of prompt tokens under each hash; 0 when Blocks is nil.
	BlockTokens int
}

// Source yields requests in order of arrival. Next fills *Request and says
// whether there was one. A Source is used once and by one goroutine.
type Source interface {
	Next(*Request) bool
}

// Lengths draws the prompt and output length of one request.
type Lengths func(*rand.Rand) (input, output int)

// Fixed gives every request the same lengths.
func Fixed(input, output int) Lengths {
	return func(*rand.Rand) (int, int) { return input, output }
}

// Poisson yields n requests whose gaps are exponential with mean 1/rate
// seconds. The same seed gives the same requests on every machine.
func Poisson(rate float64, n int, lengths Lengths, seed uint64) Source {
	return &poisson{
		rate: rate, left: n, lengths: lengths,
		gaps: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)),
		size: rand.New(rand.NewPCG(seed, 0xd1b54a32d192ed03)),
	}
}

// Burst yields n requests that all arrive at time 0: the source of a closed
// loop, whose users take the next request when their last one has ended.
func Burst(n int, lengths Lengths, seed uint64) Source {
	return &poisson{left: n, lengths: lengths, size: rand.New(rand.NewPCG(seed, 0xd1b54a32d192ed03))}
}

// poisson keeps gaps and lengths on separate random streams, so that another
// mix of lengths is met by the same arrivals.
type poisson struct {
	rate    float64
	left    int
	now     float64
	lengths Lengths
	gaps    *rand.Rand
	size    *rand.Rand
}

func (p *poisson) Next(r *Request) bool {
	if p.left <= 0 {
		return false
	}
	p.left--
	if p.gaps != nil {
		p.now += p.gaps.ExpFloat64() / p.rate
	}
	in, out := p.lengths(p.size)
	*r = Request{Arrival: p.now, Input: in, Output: out}
	return true
}
