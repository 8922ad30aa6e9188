package matrix

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// few says what little two or three hosts say.
func (g *judged) few(y grid) {
	switch {
	case y.n < 2:
		g.doubt("no pair has a figure")
		return
	case y.n == 2:
		g.doubt("two hosts are one pair: there is nothing to compare it with")
		g.gap(y)
		return
	}
	g.doubt("three hosts are too few to tell a slow host from a fast pair")
	g.gap(y)
}

// explain says how much could be found, and what stands in the way.
func (g *judged) explain() {
	noise := 1 - math.Exp(-g.sigma)
	pair := 1 - math.Exp(math.Min(g.least, -g.sigma*g.farPair()))
	typical := slices.Clone(g.degree)
	slices.Sort(typical)
	host := 1 - math.Exp(math.Min(g.least, -g.sigma*g.criticalHost()/math.Sqrt(float64(typical[len(typical)/2]))))
	g.out.Noise, g.out.PairFound, g.out.HostFound = &noise, &pair, &host
	if g.oneWay {
		g.doubt("most pairs were measured one way alone: whether a host is slow as initiator or as target cannot be told")
	}
	var thin []string
	for h, d := range g.degree {
		if d < 3 {
			thin = append(thin, g.hosts[h])
		}
	}
	if len(thin) > 0 {
		g.doubt("%s with fewer than three figures cannot be judged: %s", hostsText(len(thin)), some(thin, 8))
	}
	// What the hosts' own parts do not explain.
	if both, low, high, share := levels(g.rest, g.least, 20); both {
		a, b := g.base(g.normal()+low), g.base(g.normal()+high)
		g.doubt("the figures fall into two groups, %.0f %% near %s and the others near %s: what is normal cannot be told from these alone", 100*share, g.layer.Figure(a), g.layer.Figure(b))
	}
}

func hostsText(n int) string {
	if n == 1 {
		return "1 host"
	}
	return fmt.Sprintf("%d hosts", n)
}

// some is the first of names, and how many more there are.
func some(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// levels says whether figures fall into two groups: a fifth of them at least in either, further apart than the least effect, and the parting explains nine
// tenths of their variance (of one normal population it explains 64 %, of one that is even over a range 75 %).
func levels(y []float64, least float64, fewest int) (two bool, low, high, share float64) {
	v := slices.DeleteFunc(slices.Clone(y), func(x float64) bool { return x != x })
	n := len(v)
	if n < fewest {
		return false, 0, 0, 0
	}
	slices.Sort(v)
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	mean := sum / float64(n)
	all := 0.0
	for _, x := range v {
		all += (x - mean) * (x - mean)
	}
	best, at, part := 0.0, 0, 0.0
	for k := 1; k < n; k++ {
		part += v[k-1]
		a, b := part/float64(k), (sum-part)/float64(n-k)
		if s := float64(k)*(a-mean)*(a-mean) + float64(n-k)*(b-mean)*(b-mean); s > best {
			best, at = s, k
		}
	}
	if all == 0 || best/all < 0.9 || at*5 < n || (n-at)*5 < n {
		return false, 0, 0, 0
	}
	low, high = median(v[:at]), median(v[at:])
	return low-high <= least, low, high, float64(at) / float64(n)
}

// failures says which hosts have nothing but failures, and which pairs failed besides.
func (g *judged) failures() {
	n := len(g.hosts)
	tried, bad := make([]int, n), make([]int, n)
	var pairs [][2]int
	gone := 0
	for a := range n {
		for b := range n {
			switch g.layer.at(g.ids[a], g.ids[b]).state {
			case failed:
				pairs = append(pairs, [2]int{a, b})
				bad[a]++
				bad[b]++
			case waived:
				gone++
				continue
			case unknown:
				continue
			}
			tried[a]++
			tried[b]++
		}
	}
	if gone > 0 {
		g.doubt("%d pairs were waived: this transport does not run there", gone)
	}
	whole := make([]bool, n)
	dead := 0
	for h := range n {
		if whole[h] = tried[h] > 1 && bad[h] == tried[h]; whole[h] {
			dead++
		}
	}
	if dead == n { // everything failed: no host is the cause
		clear(whole)
	}
	of := map[int]int{}
	for _, p := range pairs {
		r := g.layer.open(g.layer.at(g.ids[p[0]], g.ids[p[1]])).Reason
		h := p[0]
		if !whole[h] {
			h = p[1]
		}
		if whole[h] {
			if k, ok := of[h]; ok {
				g.out.Failures[k].Cells++
				continue
			}
			of[h] = len(g.out.Failures)
			g.out.Failures = append(g.out.Failures, Failure{Host: g.hosts[h], Cells: 1, Reason: r})
			continue
		}
		g.out.Failures = append(g.out.Failures, Failure{Host: g.hosts[p[0]], Peer: g.hosts[p[1]], Cells: 1, Reason: r})
	}
}
