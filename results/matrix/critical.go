package matrix

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// critical is how many standard errors the slowest of the pairs, or of the hosts, of a mesh of n hosts is out by with the given chance where nothing is slow, by
// noise that is normal in the logarithm and a spread that is itself estimated from the rests.
//
// It is the normal quantile for as many pairs, or hosts in their three roles, times a factor for how little n hosts say of their own spread. The
// factor was simulated (TestCritical: 97.5 % of meshes keep below): it grows without bound towards the number of hosts at which a fit has as many
// parts as figures.
func critical(n int, hosts, oneWay bool, chance float64) float64 {
	n = max(n, fewest)
	tests := float64(n * (n - 1))
	if oneWay {
		tests /= 2
	}
	if hosts {
		if tests = float64(3 * n); oneWay {
			tests = float64(n)
		}
	}
	normal := distuv.UnitNormal.Quantile(1 - min(0.25, chance/2/tests)) // half of the chance is the pairs', half the hosts'
	return normal * factor(n, hosts, oneWay)
}

// factors are those of hosts by number, as simulated with 20,000 meshes (from 24 hosts on with fewer): of pairs and of hosts, both ways and one way.
var factors = []struct {
	n                                  int
	pair, host, oneWayPair, oneWayHost float64
}{
	{4, 1.34, 1.71, 20, 2.04}, // four hosts, one way: six figures for four parts; no pair stands out of that
	{5, 1.61, 1.88, 1.85, 2.69},
	{6, 1.24, 1.34, 1.31, 1.63},
	{7, 1.29, 1.46, 1.39, 1.72},
	{8, 1.17, 1.29, 1.22, 1.42},
	{9, 1.20, 1.36, 1.28, 1.51},
	{10, 1.14, 1.28, 1.19, 1.40},
	{11, 1.15, 1.31, 1.20, 1.43},
	{12, 1.10, 1.27, 1.13, 1.34},
	{13, 1.12, 1.30, 1.16, 1.38},
	{16, 1.08, 1.26, 1.10, 1.32},
	{24, 1.05, 1.26, 1.06, 1.28},
	{1 << 30, 1.04, 1.26, 1.04, 1.26}, // a median's standard error is 1.2533 times the mean's
}

// factor is that of the table, between two of its rows the larger.
func factor(n int, hosts, oneWay bool) float64 {
	of := func(i int) float64 {
		f := factors[i]
		switch {
		case hosts && oneWay:
			return f.oneWayHost
		case hosts:
			return f.host
		case oneWay:
			return f.oneWayPair
		}
		return f.pair
	}
	for i := range factors {
		if factors[i].n == n {
			return of(i)
		}
		if factors[i].n > n {
			return max(of(i), of(max(0, i-1)))
		}
	}
	return of(len(factors) - 1)
}

func (g *judged) criticalPair() float64 { return g.critical(false) }

func (g *judged) criticalHost() float64 { return g.critical(true) }

// critical is that of a full mesh of as many hosts, or with blanks the larger of two neighbours: odd numbers and even ones differ.
func (g *judged) critical(hosts bool) float64 {
	n := g.effective()
	v := critical(n, hosts, g.oneWay, g.FalseAlarm/math.Pow(float64(g.many), 1.3))
	if n < g.n {
		v = max(v, critical(n-1, hosts, g.oneWay, g.FalseAlarm/math.Pow(float64(g.many), 1.3)))
	}
	return v
}

// effective is the number of hosts of a full mesh that would have as many figures for each part of the fit: blanks say nothing.
func (g *judged) effective() int {
	p := float64(g.parameters())
	ratio := float64(g.cells) / p
	// A full mesh of n hosts has n(n-1) figures for 2n-1 parts, or half as many for n.
	var n float64
	if g.oneWay {
		n = 2*ratio + 1
	} else {
		n = ratio + 0.5 + math.Sqrt((ratio+0.5)*(ratio+0.5)-ratio)
	}
	return min(int(math.Round(n)), g.n)
}
