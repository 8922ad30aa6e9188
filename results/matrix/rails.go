package matrix

import (
	"cmp"
	"math"
	"slices"
)

// rails compares the rails that the same pairs were measured over, and makes one finding of a host, a pair or a group that is slow on most of them.
func (j Judge) rails(reports []Report) {
	key := func(r *Report) (out struct {
		k    any
		rail bool
	}) {
		k := r.Key
		out.rail = k.Rail != "" && k.Rail != "all"
		k.Rail = ""
		out.k = k
		return out
	}
	stacks := map[any][]*Report{}
	var order []any
	for i := range reports {
		if k := key(&reports[i]); k.rail {
			if stacks[k.k] == nil {
				order = append(order, k.k)
			}
			stacks[k.k] = append(stacks[k.k], &reports[i])
		}
	}
	for _, k := range order {
		stack := stacks[k]
		if len(stack) < 2 {
			continue
		}
		for i, r := range stack {
			if f := j.rail(stack, i); f != nil {
				r.Findings = append([]Finding{*f}, r.Findings...)
			}
		}
		everywhere(stack)
	}
}

// rail compares a rail with the median of the others, pair by pair.
func (j Judge) rail(stack []*Report, at int) *Finding {
	l := stack[at].Layer
	var ratios, expected []float64
	slow := 0
	for from, row := range l.rows {
		for to := range row {
			if row[to].state != measured {
				continue
			}
			var others []float64
			for i, o := range stack {
				if p := o.Layer.at(from, to); i != at && p.state == measured {
					others = append(others, math.Log(p.value))
				}
			}
			if len(others) == 0 {
				continue
			}
			m := middle(others)
			d := math.Log(row[to].value) - m
			if l.Latency() {
				d = -d
			}
			if d <= math.Log(1-j.MinEffect)/2 {
				slow++
			}
			ratios, expected = append(ratios, d), append(expected, m)
		}
	}
	n := len(ratios)
	if n < 3 {
		return nil
	}
	m := middle(slices.Clone(ratios))
	away := make([]float64, n)
	for i, r := range ratios {
		away[i] = math.Abs(r - m)
	}
	sigma := max(middle(away)/0.6745, 1e-6)
	score := -m / sigma * math.Sqrt(float64(n))
	critical := critical(n+1, true, false, j.FalseAlarm/float64(len(stack)))
	if m > math.Log(1-j.MinEffect) || 3*slow < 2*n || score < critical {
		return nil
	}
	f := &Finding{Kind: Rail, Rail: l.Key.Rail, Role: "both", Slow: slow, Of: n, Score: score, Critical: critical}
	if l.Latency() {
		m = -m
	}
	f.Change, f.Expected = math.Exp(m)-1, math.Exp(middle(expected))
	f.Value = f.Expected * (1 + f.Change)
	return f
}

// everywhere makes one finding, without a rail and in the first report, of what most rails of a stack find alike.
func everywhere(stack []*Report) {
	type what struct{ kind, host, peer, group, other string }
	of := func(f Finding) what { return what{f.Kind, f.Host, f.Peer, f.Group, f.Other} }
	seen := map[what][]Finding{}
	var order []what
	for _, r := range stack {
		for _, f := range r.Findings {
			if f.Kind == Rail {
				continue
			}
			if seen[of(f)] == nil {
				order = append(order, of(f))
			}
			seen[of(f)] = append(seen[of(f)], f)
		}
	}
	for _, w := range order {
		all := seen[w]
		if len(all) < 2 || 3*len(all) < 2*len(stack) {
			continue
		}
		slices.SortFunc(all, func(a, b Finding) int { return cmp.Compare(math.Abs(a.Change), math.Abs(b.Change)) })
		f := all[len(all)/2]
		f.Rail, f.Slow, f.Of = "", 0, 0
		for _, o := range all {
			f.Slow, f.Of = f.Slow+o.Slow, f.Of+o.Of
			if o.Role != f.Role {
				f.Role = "both"
			}
		}
		for _, r := range stack {
			r.Findings = slices.DeleteFunc(r.Findings, func(o Finding) bool { return of(o) == w })
		}
		stack[0].Findings = append(stack[0].Findings, f)
	}
}
