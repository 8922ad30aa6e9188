package kvcache

import (
	"fmt"
	"strconv"
	"strings"

	"hopbench/results/unit"
)

const maxRanks = 1024

// ParseParallel reads one side's layout: tp=8,pp=1,dp=2,dp-attention,rails=8,nics=0:0:1:1.
func ParseParallel(text string) (Parallel, error) {
	var p Parallel
	seen := map[string]bool{}
	for _, part := range strings.Split(text, ",") {
		key, value, hasValue := strings.Cut(strings.TrimSpace(part), "=")
		if seen[key] {
			return p, fmt.Errorf("%q: %s stands twice", text, key)
		}
		seen[key] = true
		var into *int
		switch key {
		case "tp":
			into = &p.TP
		case "pp":
			into = &p.PP
		case "dp":
			into = &p.DP
		case "rails":
			into = &p.Rails
		case "dp-attention":
			if hasValue {
				b, err := strconv.ParseBool(value)
				if err != nil {
					return p, fmt.Errorf("%q: dp-attention is true or false, not %q", text, value)
				}
				p.AttentionDP = b
			} else {
				p.AttentionDP = true
			}
			continue
		case "nics":
			for _, nic := range strings.Split(value, ":") {
				n, err := strconv.Atoi(nic)
				if err != nil || n < 0 {
					return p, fmt.Errorf("%q: nics is a NIC number a rank, as 0:0:1:1, not %q", text, value)
				}
				p.NICs = append(p.NICs, n)
			}
			continue
		default:
			return p, fmt.Errorf("%q: %q is not known (tp, pp, dp, dp-attention, rails, nics)", text, part)
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return p, fmt.Errorf("%q: %s must be a positive whole number, not %q", text, key, value)
		}
		*into = n
	}
	return p, p.normal("").err
}

// side is a Parallel with its defaults filled in and its ranks numbered.
type side struct {
	name   string
	tp     int // ranks that attention is split over
	world  int // ranks of a worker in one pipeline stage
	pp     int
	nics   []int // of each rank of the worker
	idle   int   // rails that no rank uses
	note   string
	stages [][2]int // layers [from, to) of each stage
	err    error
}

func (p Parallel) normal(name string) side {
	s := side{name: name, tp: max(1, p.TP), pp: max(1, p.PP)}
	s.world = s.tp
	prefix := name
	if prefix != "" {
		prefix += ": "
	}
	fail := func(format string, args ...any) side {
		s.err = fmt.Errorf(prefix+format, args...)
		return s
	}
	for _, v := range []struct {
		key string
		n   int
	}{{"tp", p.TP}, {"pp", p.PP}, {"dp", p.DP}, {"rails", p.Rails}} {
		if v.n < 0 || v.n > maxRanks {
			return fail("%s must be 1 to %d, not %d", v.key, maxRanks, v.n)
		}
	}
	if s.tp*s.pp > maxRanks {
		return fail("tp %d x pp %d is above %d ranks", s.tp, s.pp, maxRanks)
	}
	switch {
	case p.AttentionDP:
		dp := p.DP
		if dp == 0 {
			dp = s.tp
		}
		if s.tp%dp != 0 {
			return fail("dp %d does not divide tp %d, as attention's data parallelism needs", dp, s.tp)
		}
		s.tp /= dp
		s.note = fmt.Sprintf("%sattention runs data-parallel over %d groups of the %d ranks: a request uses one group, the first is shown", prefix, dp, s.world)
	case p.DP > 1:
		s.note = fmt.Sprintf("%sone request uses one of %d replicas: the first, with ranks and NICs of its own", prefix, p.DP)
	}
	ranks := s.world * s.pp
	rails := p.Rails
	if rails == 0 {
		rails = ranks
	}
	if p.NICs != nil {
		if len(p.NICs) != ranks {
			return fail("nics names %s for %s", unit.Count(len(p.NICs), "NIC"), unit.Count(ranks, "rank"))
		}
		for i, nic := range p.NICs {
			if nic < 0 || (p.Rails > 0 && nic >= p.Rails) {
				return fail("nics: rank %d is on NIC %d, of %d rails", i, nic, p.Rails)
			}
		}
		s.nics = p.NICs
		return s
	}
	s.idle = max(0, rails-ranks)
	for rank := range ranks {
		s.nics = append(s.nics, rank*min(rails, ranks)/ranks)
	}
	return s
}

// rank is the number, in the worker, of attention rank t of a pipeline stage.
func (s side) rank(stage, t int) int { return stage*s.world + t }

// split divides layers over stages as vLLM does (distributed/utils.py, get_pp_indices): evenly, and what remains goes one
// each to the stages before the last, from the back. Draft layers go to the last stage.
func (s *side) split(layers, draft int) error {
	if s.pp > layers {
		return fmt.Errorf("%s: pp %d is above the model's %d layers", s.name, s.pp, layers)
	}
	counts := make([]int, s.pp)
	for i := range counts {
		counts[i] = layers / s.pp
	}
	for i := range layers % s.pp {
		counts[s.pp-2-i]++
	}
	counts[s.pp-1] += draft
	from := 0
	for _, n := range counts {
		s.stages = append(s.stages, [2]int{from, from + n})
		from += n
	}
	return nil
}
