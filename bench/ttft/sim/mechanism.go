package sim

// Mechanism is one thing the model has beyond "prefill, then bytes over
// bandwidth". Each can be switched off, to see what it does to the answer.
type Mechanism int

// The mechanisms. Off means what the comment says.
const (
	Sharing       Mechanism = iota // each transfer has the links to itself
	Alignment                      // decode looks up at once and not at step boundaries
	Pools                          // both KV pools are without limit, and no lease ends
	PrefixCache                    // every prompt is computed, and crosses, in full
	RankSpread                     // every rank takes the median time
	Batching                       // prefill takes one prompt at a time, whole
	Overlapping                    // the transfer begins after prefill
	Orchestration                  // router and handover cost nothing
	FirstStep                      // the first token needs no decode step
	StepGrowth                     // a decode step takes as long as with a batch of 1
)

// Mechanisms lists all of them, in a fixed order.
func Mechanisms() []Mechanism {
	return []Mechanism{Sharing, Alignment, Pools, PrefixCache, RankSpread, Batching, Overlapping, Orchestration, FirstStep, StepGrowth}
}

func (m Mechanism) String() string {
	names := [...]string{"sharing", "alignment", "pools", "prefix-cache", "rank-spread", "batching", "overlap", "orchestration", "first-step", "step-growth"}
	if m < 0 || int(m) >= len(names) {
		return "unknown"
	}
	return names[m]
}

// Without returns the configuration with a mechanism switched off. The load
// must be set anew before it is run: a Source is used once.
func (c Config) Without(m Mechanism) Config {
	switch m {
	case Sharing:
		c.Wire.Egress, c.Wire.Ingress, c.Wire.Spine = nil, nil, 0
	case Alignment:
		c.Serving.Aligned = false
	case Pools:
		c.Prefill.Pool, c.Decode.Pool, c.Serving.Lease = 0, 0, 0
	case PrefixCache:
		c.Prefill.Cache, c.Decode.Cache = 0, 0
	case RankSpread:
		c.Wire.Sigma = 0
	case Batching:
		c.Prefill.Budget, c.Prefill.Prompts = 0, 1
	case Overlapping:
		c.Serving.Overlap = Serial
	case Orchestration:
		c.Serving.Router, c.Serving.Handover = 0, 0
	case FirstStep:
		c.Serving.Forwarded = true
	case StepGrowth:
		step := c.Decode.Step
		c.Decode.Step = func(int) float64 { return step(1) }
	}
	return c
}
