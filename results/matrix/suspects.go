package matrix

import (
	"cmp"
	"math"
	"slices"
)

// culprit is what is slow as one: a host, or several.
type culprit struct {
	hosts   []int
	finding Finding
}

// slowHosts finds the hosts whose own part is out of line. The parts are against their median and most of a host's figures must be slow against the
// population's, so those that are found are fewer than half.
func (g *judged) slowHosts() (slow []culprit) {
	type part struct {
		host  int
		log   float64
		score float64
		role  string
	}
	mean := func(h int) float64 { return (g.from[h] + g.to[h]) / 2 }
	all := make([]float64, 0, g.n)
	for h := range g.n {
		all = append(all, mean(h))
	}
	mid := middle(slices.Clone(all))
	away := make([]float64, g.n)
	for h, v := range all {
		away[h] = math.Abs(v - mid)
	}
	critical := g.criticalHost()
	natural := middle(away) / 0.6745 // how much hosts differ here anyway
	var found []part
	for h := range g.n {
		in, out := g.figures(h)
		if in+out < 3 {
			continue
		}
		score := func(log float64, n int) float64 { return -log / g.sigma * math.Sqrt(float64(n)) }
		p := part{host: h, log: mean(h), score: score(mean(h), in+out), role: "both"}
		if !g.oneWay && in >= 3 && out >= 3 {
			a, b := score(g.from[h], out), score(g.to[h], in)
			one, two := g.from[h], g.to[h]
			role, log, s := "initiator", one, a
			if two < one {
				role, log, s, one, two = "target", two, b, two, one
			}
			// The better side is normal: less than half as slow as the other, and not slow by itself.
			if two > one/2 && (two > g.least || min(a, b) < critical/2) && s >= critical && log <= g.least {
				p = part{host: h, log: log, score: s, role: role}
			}
		}
		if p.log > g.least || p.score < critical || g.n >= 6 && -p.log < 3*natural {
			continue
		}
		// A median is moved a little by what is slow with some alone: that is for the pairs to say.
		if slow, of := g.count(h, [2]bool{p.role != "target", p.role != "initiator"}); 4*slow < 3*of {
			continue
		}
		found = append(found, p)
	}
	if two, low, high, share := levels(all, g.least, fewest); two && len(found) == 0 && high-low > 2*critical*g.sigma/math.Sqrt(float64(slices.Max(g.degree))) {
		var less, more []string
		for h, v := range all {
			if v-low < high-v {
				less = append(less, g.hosts[h])
			} else {
				more = append(more, g.hosts[h])
			}
		}
		g.doubt("the hosts fall into two groups, of which one is slower by %.0f %% (%.0f %% of the hosts): %s; and %s: which of them is normal cannot be told from these alone",
			100*(1-math.Exp(low-high)), 100*share, some(less, 8), some(more, 8))
	}
	slices.SortStableFunc(found, func(a, b part) int { return cmp.Compare(a.log, b.log) })
	for _, p := range found {
		g.slow[p.host] = true
		f := Finding{Kind: Host, Host: g.hosts[p.host], Role: p.role, Rail: g.layer.Key.Rail, Expected: g.base(g.normal()), Change: g.change(p.log), Score: p.score, Critical: critical}
		f.Value = f.Expected * (1 + f.Change)
		f.Slow, f.Of = g.count(p.host, [2]bool{p.role != "target", p.role != "initiator"})
		slow = append(slow, culprit{[]int{p.host}, f})
	}
	if len(found) > 0 {
		g.doubt("pairs of a slow host are not judged by themselves")
	}
	return slow
}

// normal is the level that most pairs are at.
func (g *judged) normal() float64 {
	n := [kinds]int{}
	most := 0
	for k, v := range g.y {
		if v == v {
			n[g.kind(k)]++
		}
	}
	for k := range n {
		if n[k] > n[most] {
			most = k
		}
	}
	return g.level[most]
}

// figures is how many figures a host has as target and as initiator.
func (g *judged) figures(h int) (in, out int) {
	for o := range g.n {
		if v := g.at(o, h); v == v {
			in++
		}
		if v := g.at(h, o); v == v {
			out++
		}
	}
	return in, out
}

// count is how many of a host's figures in its roles, as initiator and as target, are slower than the population by half the least effect.
func (g *judged) count(h int, roles [2]bool) (slow, of int) {
	for o := range g.n {
		for role, k := range []int{h*g.n + o, o*g.n + h} {
			if v := g.y[k]; roles[role] && v == v {
				of++
				if v-g.level[g.kind(k)] <= g.least/2 {
					slow++
				}
			}
		}
	}
	return slow, of
}

// fold puts the slow hosts of one label together: the ranks of a host, or the hosts of a switch group. They are one where two of them and two
// thirds of their label are slow, and the hosts outside of it are half of the mesh at least.
func (g *judged) fold(slow []culprit, labels []string, kind string) []culprit {
	members := map[string][]int{}
	for h, name := range labels {
		members[name] = append(members[name], h)
	}
	of := map[string][]culprit{}
	for _, u := range slow {
		name := labels[u.hosts[0]]
		of[name] = append(of[name], u)
	}
	var out []culprit
	done := map[string]bool{}
	for _, u := range slow {
		name := labels[u.hosts[0]]
		all, hosts := of[name], 0
		for _, o := range all {
			hosts += len(o.hosts)
		}
		if n := len(members[name]); name == "" || len(all) < 2 || 3*hosts < 2*n || 2*n > g.n {
			out = append(out, u)
			continue
		}
		if done[name] {
			continue
		}
		done[name] = true
		all = slices.SortedFunc(slices.Values(all), func(a, b culprit) int { return cmp.Compare(math.Abs(a.finding.Change), math.Abs(b.finding.Change)) })
		f := all[len(all)/2].finding
		f.Kind, f.Host, f.Hosts, f.Slow, f.Of = kind, "", nil, 0, 0
		if kind == Group {
			f.Group = name
		} else {
			f.Host = name
		}
		for _, o := range all {
			if o.finding.Role != f.Role {
				f.Role = "both"
			}
			f.Slow, f.Of, f.Score = f.Slow+o.finding.Slow, f.Of+o.finding.Of, max(f.Score, o.finding.Score)
		}
		for _, h := range members[name] {
			f.Hosts = append(f.Hosts, g.hosts[h])
		}
		out = append(out, culprit{members[name], f})
	}
	return out
}
