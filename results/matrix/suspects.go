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

// suspect is a pair whose rest is out of line.
type suspect struct {
	from, to int
	rest     float64
	score    float64
}

// pairFindings names the pairs that are slow by themselves: first those that two switch groups have in common, then those that a host has in common, then
// the pairs that are left.
func (g *judged) pairFindings() {
	critical := g.farPair()
	var found []suspect
	for a := range g.n {
		for b := range g.n {
			r := g.rest[a*g.n+b]
			if r != r || r > g.least || -r/g.sigma < critical || g.slow[a] || g.slow[b] || g.degree[a] < 3 || g.degree[b] < 3 {
				continue
			}
			// The pair's own rounds must not hold what is expected of it.
			p, expected := g.layer.at(g.ids[a], g.ids[b]), g.base(g.at(a, b)-r)
			if g.layer.Latency() && p.low > 0 && float64(p.low) <= expected || !g.layer.Latency() && p.high > 0 && float64(p.high) >= expected {
				continue
			}
			found = append(found, suspect{a, b, r, -r / g.sigma})
		}
	}
	found = g.between(found)
	found = g.shared(found)
	// Of a pair that is slow both ways the host that comes first stands first.
	worst := map[[2]int]float64{}
	for _, s := range found {
		k := [2]int{min(s.from, s.to), max(s.from, s.to)}
		worst[k] = min(worst[k], s.rest)
	}
	slices.SortStableFunc(found, func(a, b suspect) int {
		x, y := [2]int{min(a.from, a.to), max(a.from, a.to)}, [2]int{min(b.from, b.to), max(b.from, b.to)}
		return cmp.Or(cmp.Compare(worst[x], worst[y]), slices.Compare(x[:], y[:]), cmp.Compare(a.from, b.from))
	})
	done := map[[2]int]bool{}
	for _, s := range found {
		if done[[2]int{s.to, s.from}] {
			continue
		}
		done[[2]int{s.from, s.to}] = true
		f := Finding{Kind: Pair, Host: g.hosts[s.from], Peer: g.hosts[s.to], Role: "initiator", Rail: g.layer.Key.Rail, Slow: 1, Of: 1, Score: s.score, Critical: critical}
		log, expected := s.rest, g.at(s.from, s.to)-s.rest
		if k := slices.IndexFunc(found, func(o suspect) bool { return o.from == s.to && o.to == s.from }); k >= 0 {
			f.Role, f.Slow, f.Of = "both", 2, 2
			log, expected = (log+found[k].rest)/2, (expected+g.at(s.to, s.from)-found[k].rest)/2
		} else if v := g.at(s.to, s.from); v == v {
			f.Of = 2
		}
		f.Change, f.Expected = g.change(log), g.base(expected)
		f.Value = f.Expected * (1 + f.Change)
		g.out.Findings = append(g.out.Findings, f)
	}
}

// farPair is how many sigmas a pair must be slow by: more than chance, and more than noise with tails on both sides.
func (g *judged) farPair() float64 {
	return max(g.criticalPair(), tailFactor*g.fastTail()/g.sigma)
}

const (
	tailRank   = 3
	tailFactor = 2.0
)

// fastTail is the third largest rest on the fast side, of pairs without a slow host. Noise whose tails are heavier than normal has them on both sides: a
// pair must be slower than others are fast by a good part to stand out of it.
func (g *judged) fastTail() float64 {
	top := make([]float64, tailRank)
	for k, r := range g.rest {
		a, b := k/g.n, k%g.n
		if r > top[0] && !g.slow[a] && !g.slow[b] {
			top[0] = r
			slices.Sort(top)
		}
	}
	return top[0]
}

// shared takes out the pairs of a host that is slow with some of the others, three and a quarter of them at least, and makes one finding of them.
func (g *judged) shared(found []suspect) []suspect {
	for {
		peers := make([]map[int]bool, g.n)
		for h := range peers {
			peers[h] = map[int]bool{}
		}
		for _, s := range found {
			peers[s.from][s.to], peers[s.to][s.from] = true, true
		}
		best := 0
		for h := range peers {
			if len(peers[h]) > len(peers[best]) {
				best = h
			}
		}
		all := 0
		for o := range g.n {
			if a, b := g.at(best, o), g.at(o, best); a == a || b == b {
				all++
			}
		}
		if len(peers[best]) < 3 || 4*len(peers[best]) < all {
			return found
		}
		f := Finding{Kind: Host, Host: g.hosts[best], Role: "both", Rail: g.layer.Key.Rail, Slow: len(peers[best]), Of: all, Critical: g.farPair()}
		for o := range g.n {
			if peers[best][o] {
				f.Peers = append(f.Peers, g.hosts[o])
			}
		}
		var rests, expected []float64
		ways := [2]bool{}
		found = slices.DeleteFunc(found, func(s suspect) bool {
			if s.from != best && s.to != best {
				return false
			}
			rests, expected = append(rests, s.rest), append(expected, g.at(s.from, s.to)-s.rest)
			ways[0], ways[1] = ways[0] || s.from == best, ways[1] || s.to == best
			f.Score = max(f.Score, s.score)
			return true
		})
		if ways[0] != ways[1] {
			f.Role = map[bool]string{true: "initiator", false: "target"}[ways[0]]
		}
		f.Change, f.Expected = g.change(middle(rests)), g.base(middle(expected))
		f.Value = f.Expected * (1 + f.Change)
		g.out.Findings = append(g.out.Findings, f)
	}
}

// between takes out the pairs of two switch groups whose pairs are slow together, four of them and two thirds at least, and makes one finding of them.
func (g *judged) between(found []suspect) []suspect {
	type block struct{ a, b string }
	of := func(a, b int) block {
		x, y := g.group[a], g.group[b]
		if natural(x, y) > 0 {
			x, y = y, x
		}
		return block{x, y}
	}
	rests := map[block][]float64{}
	var blocks []block
	for a := range g.n {
		for b := range g.n {
			r := g.rest[a*g.n+b]
			if r != r || g.machine[a] == g.machine[b] || g.group[a] == "" || g.group[b] == "" || g.slow[a] || g.slow[b] {
				continue
			}
			k := of(a, b)
			if rests[k] == nil {
				blocks = append(blocks, k)
			}
			rests[k] = append(rests[k], r)
		}
	}
	for _, k := range blocks {
		v, slow := rests[k], 0
		for _, r := range v {
			if r <= g.least/2 {
				slow++
			}
		}
		m := middle(slices.Clone(v))
		score := -m / g.sigma * math.Sqrt(float64(len(v)))
		if len(v) < 4 || 3*slow < 2*len(v) || m > g.least || score < g.criticalHost() || 3*len(v) > g.cells {
			continue
		}
		f := Finding{Kind: Group, Group: k.a, Other: k.b, Role: "both", Rail: g.layer.Key.Rail, Slow: slow, Of: len(v), Score: score, Critical: g.criticalHost(), Change: g.change(m)}
		kind := across
		if k.a == k.b {
			kind = within
		}
		f.Expected = g.base(g.level[kind])
		f.Value = f.Expected * (1 + f.Change)
		g.out.Findings = append(g.out.Findings, f)
		found = slices.DeleteFunc(found, func(s suspect) bool { return of(s.from, s.to) == k })
	}
	return found
}

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
