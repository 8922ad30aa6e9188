package matrix

import (
	"math"
	"math/rand/v2"
	"testing"
)

// students is noise with heavier tails: Student's t of five degrees of freedom, to a standard deviation of 1.
func students(r *rand.Rand) float64 {
	sum := 0.0
	for range 5 {
		v := r.NormFloat64()
		sum += v * v
	}
	return r.NormFloat64() / math.Sqrt(sum/5) / math.Sqrt(5.0/3)
}

func even(r *rand.Rand) float64 { return (r.Float64()*2 - 1) * math.Sqrt(3) }

// simulation is meshes of one kind, and what was said of them.
type simulation struct {
	n      int
	sigma  float64
	draw   func(*rand.Rand) float64
	skip   func(a, b int) bool
	slow   func(a, b int) float64
	layers int
	meshes int
	judge  Judge
}

// run counts the meshes with a finding, by whether is says of it that it should be there.
func (s simulation) run(t testing.TB, is func(Finding) bool) (found, other int) {
	r := rand.New(rand.NewPCG(uint64(s.n), 11))
	for range s.meshes {
		m := New(Options{})
		for layer := range max(1, s.layers) {
			for a := range s.n {
				for b := range s.n {
					if a == b || s.skip != nil && s.skip(a, b) {
						continue
					}
					v := 10e9 * math.Exp(s.sigma*s.draw(r))
					if s.slow != nil {
						v *= s.slow(a, b)
					}
					c := bandwidth(hostName(a), hostName(b), v)
					c.TotalBytes <<= layer
					if err := m.Add(c); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		hit, miss := false, false
		for _, p := range m.Reports(s.judge) {
			for _, f := range p.Findings {
				if is(f) {
					hit = true
				} else {
					miss = true
				}
			}
		}
		if hit {
			found++
		}
		if miss {
			other++
		}
	}
	return found, other
}

// TestSimulatedMeshes states how often a mesh without anything slow has a finding, and how often what is slow is found and named as what it is. The seeds are
// fixed, so the counts are.
func TestSimulatedMeshes(t *testing.T) {
	if testing.Short() {
		t.Skip("some thousands of meshes take half a minute")
	}
	nothing := func(Finding) bool { return false }
	upper := func(a, b int) bool { return a > b }
	half := func(n int) func(a, b int) bool { return func(a, b int) bool { return (a+b)%2 == 0 } }
	quarter := func(a, b int) bool { return (a*31+b*17)%4 == 0 }
	one := 0.0001 // a least effect so small that chance alone decides
	for _, c := range []struct {
		name   string
		s      simulation
		atMost int // meshes of a thousand with a finding
	}{
		{"4 hosts, 3 % noise", simulation{n: 4, sigma: 0.03, draw: normal}, 50},
		{"5 hosts, 3 % noise", simulation{n: 5, sigma: 0.03, draw: normal}, 50},
		{"8 hosts, 3 % noise", simulation{n: 8, sigma: 0.03, draw: normal}, 50},
		{"16 hosts, 3 % noise", simulation{n: 16, sigma: 0.03, draw: normal}, 50},
		{"64 hosts, 3 % noise", simulation{n: 64, sigma: 0.03, draw: normal}, 50},
		{"8 hosts, 10 % noise", simulation{n: 8, sigma: 0.1, draw: normal}, 50},
		{"8 hosts, no least effect", simulation{n: 8, sigma: 0.03, draw: normal, judge: Judge{MinEffect: one}}, 50},
		{"16 hosts, no least effect", simulation{n: 16, sigma: 0.03, draw: normal, judge: Judge{MinEffect: one}}, 50},
		{"8 hosts, four sizes, no least effect", simulation{n: 8, sigma: 0.03, draw: normal, layers: 4, judge: Judge{MinEffect: one}}, 50},
		{"8 hosts, noise even over a range", simulation{n: 8, sigma: 0.03, draw: even}, 50},
		{"8 hosts, one way", simulation{n: 8, sigma: 0.03, draw: normal, skip: upper, judge: Judge{MinEffect: one}}, 50},
		{"12 hosts, a quarter blank", simulation{n: 12, sigma: 0.03, draw: normal, skip: quarter, judge: Judge{MinEffect: one}}, 50},
		{"16 hosts, the half schedule", simulation{n: 16, sigma: 0.03, draw: normal, skip: half(16), judge: Judge{MinEffect: one}}, 50},
		{"8 hosts, heavy tails", simulation{n: 8, sigma: 0.03, draw: students}, 200}, // said, not promised
		{"64 hosts, heavy tails", simulation{n: 64, sigma: 0.03, draw: students}, 200},
	} {
		c.s.meshes = 1000
		if c.s.n > 32 {
			c.s.meshes = 200
		}
		_, other := c.s.run(t, nothing)
		t.Logf("nothing slow: %-40s %4.1f %% of %d meshes have a finding", c.name, 100*float64(other)/float64(c.s.meshes), c.s.meshes)
		if other*1000 > c.atMost*c.s.meshes {
			t.Errorf("%s: %d of %d meshes have a finding; at most %d of 1000", c.name, other, c.s.meshes, c.atMost)
		}
	}

	host := func(h int) func(Finding) bool {
		return func(f Finding) bool { return f.Kind == Host && f.Host == hostName(h) && f.Peers == nil }
	}
	pair := func(f Finding) bool { return f.Kind == Pair && f.Host == hostName(1) && f.Peer == hostName(3) }
	onePair := func(by float64) func(a, b int) float64 {
		return slowIf(func(a, b int) bool { return min(a, b) == 1 && max(a, b) == 3 }, by)
	}
	for _, c := range []struct {
		name    string
		s       simulation
		is      func(Finding) bool
		atLeast int // meshes of a thousand in which it is found
		others  int // at most
	}{
		{"a host 10 % slow of 6, 3 % noise", simulation{n: 6, sigma: 0.03, draw: normal, slow: slowIf(isHost(2), 0.9)}, host(2), 0, 50},
		{"a host 10 % slow of 8, 3 % noise", simulation{n: 8, sigma: 0.03, draw: normal, slow: slowIf(isHost(2), 0.9)}, host(2), 990, 50},
		{"a host 10 % slow of 16, 3 % noise", simulation{n: 16, sigma: 0.03, draw: normal, slow: slowIf(isHost(2), 0.9)}, host(2), 990, 50},
		{"a host 10 % slow of 64, 3 % noise", simulation{n: 64, sigma: 0.03, draw: normal, slow: slowIf(isHost(2), 0.9)}, host(2), 990, 50},
		{"a host 30 % slow of 4, 3 % noise", simulation{n: 4, sigma: 0.03, draw: normal, slow: slowIf(isHost(2), 0.7)}, host(2), 900, 50},
		{"a host 10 times slow of 8, 3 % noise", simulation{n: 8, sigma: 0.03, draw: normal, slow: slowIf(isHost(2), 0.1)}, host(2), 990, 50},
		{"a pair 20 % slow of 8 hosts, 3 % noise", simulation{n: 8, sigma: 0.03, draw: normal, slow: onePair(0.8)}, pair, 900, 50},
		{"a pair 30 % slow of 8 hosts, 3 % noise", simulation{n: 8, sigma: 0.03, draw: normal, slow: onePair(0.7)}, pair, 990, 50},
		{"a pair 30 % slow of 64 hosts, 3 % noise", simulation{n: 64, sigma: 0.03, draw: normal, slow: onePair(0.7)}, pair, 990, 50},
	} {
		c.s.meshes = 1000
		if c.s.n > 32 {
			c.s.meshes = 200
		}
		found, other := c.s.run(t, c.is)
		t.Logf("%-48s found in %5.1f %%, something else as well in %4.1f %% of %d meshes", c.name, 100*float64(found)/float64(c.s.meshes), 100*float64(other)/float64(c.s.meshes), c.s.meshes)
		if found*1000 < c.atLeast*c.s.meshes || other*1000 > c.others*c.s.meshes {
			t.Errorf("%s: found in %d, others in %d of %d", c.name, found, other, c.s.meshes)
		}
	}
}

// TestSlowHostIsNeverReportedAsPairs: whatever it is slow by, and however the mesh is measured, no finding of a pair has the slow host in it.
func TestSlowHostIsNeverReportedAsPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	named := 0
	for i := range 600 {
		n := 5 + r.IntN(20)
		h := r.IntN(n)
		by := 0.05 + 0.8*r.Float64()
		w := truth{n: n, sigma: 0.03, slow: slowIf(isHost(h), by)}
		if i%3 == 1 {
			w.slow = slowIf(func(a, b int) bool { return a == h }, by)
		}
		if i%3 == 2 {
			w.skip = func(a, b int) bool { return a > b }
		}
		for _, f := range w.findings(t, r, Judge{}) {
			if f.Kind == Pair && (f.Host == hostName(h) || f.Peer == hostName(h)) {
				t.Errorf("mesh %d: host %d of %d is slow by %.0f %%, and %s is named", i, h, n, 100*(1-by), f.Name())
			}
			if f.Kind == Host && f.Host == hostName(h) {
				named++
			}
		}
	}
	if named < 590 {
		t.Errorf("the host is named in %d of 600", named)
	}
}

// TestThousandHosts: a mesh that is larger than most takes 24 bytes a pair, and its one slow host is named.
func TestThousandHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("a million pairs take some seconds")
	}
	m := truth{n: 1000, sigma: 0.03, slow: slowIf(isHost(7), 0.8)}.mesh(t, rand.New(rand.NewPCG(1, 2)))
	if m.Bytes() > 25e6 {
		t.Errorf("%d bytes", m.Bytes())
	}
	if got := names(m.Reports(Judge{})[0].Findings); got != "host n7" {
		t.Errorf("%s", got)
	}
}
