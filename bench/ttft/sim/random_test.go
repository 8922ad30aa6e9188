package sim

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"hopbench/bench/ttft/load"
)

// Deployments drawn at random, small pools and all: every request ends, the
// parts add up, no part is negative, and no share exceeds one.
func TestAnyDeployment(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 99))
		pick := func(list ...int) int { return list[rng.IntN(len(list))] }
		requests := 60 + rng.IntN(200)
		lengths := func(r *rand.Rand) (int, int) { return 1 + r.IntN(3000), 1 + r.IntN(40) }
		c := Config{
			Prefill: Prefill{
				Workers: pick(1, 2, 5), Work: func(n int) float64 { return 1e-5*float64(n) + 1e-9*float64(n)*float64(n) },
				Floor: float64(pick(0, 1)) * 0.01, Budget: pick(0, 1, 512, 4096), Prompts: pick(0, 1, 3), Pool: pick(0, 3000, 9000), Cache: pick(0, 0, 20),
			},
			Decode: Decode{Workers: pick(1, 3), Step: func(n int) float64 { return 0.01 + 1e-4*float64(n) }, Batch: pick(0, 1, 8), Pool: pick(0, 3040, 9000), Cache: pick(0, 0, 20)},
			Wire: Wire{
				Demand: func(from, to int) Demand {
					b := float64(to-from) * 1e5
					return Demand{Bytes: b, Latency: 1e-4, Seconds: 1e-4 + b/2e9}
				},
				EgressLanes: pick(0, 1, 4), IngressLanes: pick(0, 1, 3), Ranks: pick(0, 8), Sigma: float64(pick(0, 1)) * 0.3,
				Spine: float64(pick(0, 0, 3)) * 1e9,
			},
			Serving: Serving{
				Overlap: Overlap(pick(0, 1, 2)), Layers: pick(1, 4), Forwarded: rng.IntN(2) == 0, Aligned: rng.IntN(2) == 0,
				Concurrent: rng.IntN(2) == 0, Pull: rng.IntN(2) == 0, Router: 0.001, Handover: 0.002, Lease: float64(pick(0, 0, 1)) * 0.3,
			},
			Seed: seed,
		}
		if rng.IntN(2) == 0 {
			c.Wire.Egress, c.Wire.Ingress = []float64{1e9, 2e9}, []float64{3e9}
		}
		if c.Serving.Overlap != Serial {
			c.Serving.Pull, c.Serving.Concurrent = false, true
		}
		c.Load = load.Poisson(float64(pick(1, 10, 100)), requests, lengths, seed)
		if rng.IntN(2) == 0 {
			c.Concurrency = pick(1, 4, 50)
			c.Load = load.Burst(requests, lengths, seed)
		}
		if c.Prefill.Cache > 0 {
			c.Load = &shared{Source: c.Load, rng: rng}
		}
		r, err := Run(c)
		var never *Unserviceable
		if errors.As(err, &never) {
			continue
		}
		if err != nil {
			t.Errorf("seed %d: %v\n%+v", seed, err, c.Serving)
			continue
		}
		if r.Requests != int64(requests) || r.Completed+r.Expired != r.Requests || r.TTFT.Samples != r.Completed {
			t.Errorf("seed %d: %d requests, %d completed, %d expired, %d counted", seed, r.Requests, r.Completed, r.Expired, r.TTFT.Samples)
		}
		if r.TTFT.Mean != nil && math.Abs(r.Mean.Sum()-*r.TTFT.Mean) > 1e-9*(1+*r.TTFT.Mean) {
			t.Errorf("seed %d: parts add up to %.12g, TTFT is %.12g", seed, r.Mean.Sum(), *r.TTFT.Mean)
		}
		for _, v := range []float64{r.Mean.Queue, r.Mean.QueueDecode, r.Mean.Prefill, r.Mean.Transfer, r.Mean.Orchestration, r.Mean.FirstDecode} {
			if v < -1e-9 || math.IsNaN(v) {
				t.Errorf("seed %d: a part is %g: %+v", seed, v, r.Mean)
				break
			}
		}
		u := r.Utilisation
		for _, v := range []*float64{u.Prefill, u.Egress, u.Ingress, u.Spine, u.Decode, u.DecodeBatch, u.PrefillPool, u.DecodePool} {
			if v != nil && (*v < 0 || *v > 1+1e-6 || math.IsNaN(*v)) {
				t.Errorf("seed %d: a utilisation of %g: %+v", seed, *v, u)
			}
		}
	}
}

// shared gives prompts blocks of 100 tokens, half of them from a few prefixes.
type shared struct {
	load.Source
	rng *rand.Rand
	n   uint64
}

func (s *shared) Next(r *load.Request) bool {
	if !s.Source.Next(r) {
		return false
	}
	prefix := uint64(s.rng.IntN(3)) << 40
	for i := range (r.Input + 99) / 100 {
		key := prefix + uint64(i)
		if i > 10 {
			s.n++
			key = 1<<50 + s.n
		}
		r.Blocks = append(r.Blocks, key)
	}
	r.BlockTokens = 100
	return true
}
