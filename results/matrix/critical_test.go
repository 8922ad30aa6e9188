package matrix

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// noise is a mesh of n hosts with nothing but noise in the logarithm, both ways or one way.
func noise(r *rand.Rand, n int, sigma float64, oneWay bool, draw func(*rand.Rand) float64) grid {
	g := grid{n: n, y: make([]float64, n*n)}
	for a := range n {
		for b := range n {
			g.y[a*n+b] = math.NaN()
			if a != b && (!oneWay || a < b == ((a+b)%2 == 0)) {
				g.y[a*n+b] = sigma * draw(r)
			}
		}
	}
	return g
}

func normal(r *rand.Rand) float64 { return r.NormFloat64() }

// worst is how far out the slowest pair and the slowest host are, as the findings take it.
func worst(f *fit) (pair, host float64) {
	for _, r := range f.rest {
		if r == r {
			pair = max(pair, -r/f.sigma)
		}
	}
	for h := range f.n {
		in, out := 0, 0
		for o := range f.n {
			if v := f.at(h, o); v == v {
				out++
			}
			if v := f.at(o, h); v == v {
				in++
			}
		}
		host = max(host, -(f.from[h]+f.to[h])/2/f.sigma*math.Sqrt(float64(in+out)))
		if !f.oneWay {
			host = max(host, -f.from[h]/f.sigma*math.Sqrt(float64(out)), -f.to[h]/f.sigma*math.Sqrt(float64(in)))
		}
	}
	return pair, host
}

// TestCritical measures the factors of critical: with CALIBRATE set it prints them, else it holds a few of the table to within what the
// simulation itself varies by.
func TestCritical(t *testing.T) {
	sizes, meshes := []int{4, 8, 24}, 2000
	if os.Getenv("CALIBRATE") != "" {
		sizes, meshes = []int{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 24, 32, 48, 64, 96, 128}, 20000
	}
	for _, oneWay := range []bool{false, true} {
		for _, n := range sizes {
			r := rand.New(rand.NewPCG(uint64(n), 7))
			count := max(400, min(meshes, meshes*20*20/n/n))
			var pairs, hosts []float64
			for range count {
				p, h := worst(polish(noise(r, n, 1, oneWay, normal)))
				pairs, hosts = append(pairs, p), append(hosts, h)
			}
			slices.Sort(pairs)
			slices.Sort(hosts)
			p, h := quantile(pairs, 0.975), quantile(hosts, 0.975)
			if os.Getenv("CALIBRATE") != "" {
				fmt.Printf("oneWay %-5v n %3d: pair %7.2f factor %6.3f   host %7.2f factor %6.3f\n", oneWay, n,
					p, p/(critical(n, false, oneWay, 0.05)/factor(n, false, oneWay)), h, h/(critical(n, true, oneWay, 0.05)/factor(n, true, oneWay)))
				continue
			}
			for name, c := range map[string][2]float64{"pair": {p, critical(n, false, oneWay, 0.05)}, "host": {h, critical(n, true, oneWay, 0.05)}} {
				if n == fewest && oneWay && name == "pair" { // never found: see the table
					continue
				}
				if c[0] > 1.15*c[1] || c[0] < 0.8*c[1] {
					t.Errorf("one way %v, %d hosts, %s: 97.5 %% are below %.2f; the table says %.2f", oneWay, n, name, c[0], c[1])
				}
			}
		}
	}
}

// TestTurns: pairs that take turns have no sum, with a background load beside them or without; flows at once do.
func TestTurns(t *testing.T) {
	for schedule, want := range map[string]bool{"": false, "isolated": false, "isolated, background": false, "all-pairs, background, both ways": false, "incast": true, "incast, background": true, "ring at once, both ways": true} {
		if atOnce(schedule) != want {
			t.Errorf("%q at once: %v", schedule, !want)
		}
	}
}
