package matrix

import (
	"cmp"
	"math"
	"slices"
)

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
