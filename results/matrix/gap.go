package matrix

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Gap is a part of the figures that lies far below the others where these are too few for a finding: each direction of a pair by itself.
type Gap struct {
	Pairs    []string `json:"pairs"` // "n0 to n1"
	Value    float64  `json:"value"` // median of theirs, and Expected of the others', in bytes a second or seconds
	Expected float64  `json:"expected"`
	Change   float64  `json:"change"`         // Value over Expected, less 1
	Times    float64  `json:"times"`          // how many times slower
	Look     string   `json:"look,omitempty"` // whom all of them, and none of the others, have in common
}

// Text is the gap as a sentence.
func (p Gap) Text(l *Layer) string {
	s := fmt.Sprintf("%s: %s where the others have %s, %.3g times slower", some(p.Pairs, 6), l.Figure(p.Value), l.Figure(p.Expected), p.Times)
	if p.Look != "" {
		s += ": look at " + p.Look + " first"
	}
	return s
}

// way is the figure of one direction of a pair.
type way struct {
	from, to int
	v        float64
}

// gap sets the report's gap: of one kind of pairs, the figures below the widest step. The step is wider than what the figures above it differ
// by among themselves, three times; where these are too few to differ, it is half of a figure.
func (g *judged) gap(y grid) {
	f := fit{grid: y}
	var best *Gap
	for kind := range kinds {
		var all []way
		for k, v := range y.y {
			if v == v && f.kind(k) == kind {
				all = append(all, way{k / y.n, k % y.n, v})
			}
		}
		slices.SortStableFunc(all, func(a, b way) int { return cmp.Compare(a.v, b.v) })
		cut, step := 0, 0.0
		for i := 1; i < len(all); i++ {
			if d := all[i].v - all[i-1].v; d > step && 3*i <= 2*len(all) {
				cut, step = i, d
			}
		}
		if cut == 0 {
			continue
		}
		slow, rest := all[:cut], all[cut:]
		least := max(-2*g.least, 3*(rest[len(rest)-1].v-rest[0].v))
		if len(all) < 4 {
			least = max(least, math.Ln2)
		}
		if step < least {
			continue
		}
		value := func(w []way) float64 {
			var v []float64
			for _, x := range w {
				v = append(v, x.v)
			}
			return middle(v)
		}
		low, high := value(slow), value(rest)
		p := &Gap{Value: g.base(low), Expected: g.base(high), Change: g.change(low - high), Times: math.Exp(high - low), Look: g.common(slow, rest)}
		for _, w := range slow {
			p.Pairs = append(p.Pairs, g.hosts[w.from]+" to "+g.hosts[w.to])
		}
		slices.SortFunc(p.Pairs, natural)
		if best == nil || p.Times > best.Times {
			best = p
		}
	}
	if g.out.Gap = best; best != nil {
		g.doubt("%s", best.Text(g.layer))
	}
}

// common is the host that all slow figures, two at least, and none of the rest have in common, in both of its roles or in one.
func (g *judged) common(slow, rest []way) string {
	if len(slow) < 2 {
		return ""
	}
	for role, is := range []func(w way, h int) bool{
		func(w way, h int) bool { return w.from == h || w.to == h },
		func(w way, h int) bool { return w.from == h },
		func(w way, h int) bool { return w.to == h },
	} {
		for h, name := range g.hosts {
			other := func(w way) bool { return !is(w, h) }
			if slices.ContainsFunc(slow, other) || slices.ContainsFunc(rest, func(w way) bool { return is(w, h) }) {
				continue
			}
			if role == 0 {
				return name
			}
			return name + " as " + side(g.layer.Key, []string{"", "initiator", "target"}[role])
		}
	}
	return ""
}
