package matrix

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestRails(t *testing.T) {
	add := func(m *Mesh, slow func(a, b, rail int) float64) {
		r := rand.New(rand.NewPCG(5, 5))
		for rail := range 4 {
			for a := range 6 {
				for b := range 6 {
					if a == b {
						continue
					}
					c := bandwidth(hostName(a), hostName(b), 10e9*math.Exp(0.03*r.NormFloat64())*slow(a, b, rail))
					c.Rail = fmt.Sprintf("mlx5_%d", rail)
					if err := m.Add(c); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	for name, c := range map[string]struct {
		slow func(a, b, rail int) float64
		want string
	}{
		"a rail": {func(a, b, rail int) float64 { return map[bool]float64{true: 0.6, false: 1}[rail == 2] }, "rail mlx5_2"},
		"a host": {func(a, b, rail int) float64 { return slowIf(isHost(4), 0.5)(a, b) }, "host n4"},
		"one of both": {func(a, b, rail int) float64 {
			return map[bool]float64{true: slowIf(isHost(4), 0.5)(a, b), false: 1}[rail == 1]
		}, "host n4, rail mlx5_1"},
		"nothing": {func(a, b, rail int) float64 { return 1 }, ""},
	} {
		m := New(Options{})
		add(m, c.slow)
		var all []Finding
		for _, p := range m.Reports(Judge{}) {
			all = append(all, p.Findings...)
		}
		if got := names(sorted(all)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestRanksOfAHost: several ranks of a host that are slow together are the host.
func TestRanksOfAHost(t *testing.T) {
	for name, c := range map[string]struct {
		slow func(a, b int) bool // by rank
		want string
	}{
		"a host":       {func(a, b int) bool { return a/4 == 2 || b/4 == 2 }, "host h2"},
		"a rank":       {func(a, b int) bool { return a == 9 || b == 9 }, "host h2/9"},
		"across hosts": {func(a, b int) bool { return a/4 != b/4 }, ""},
		"nothing":      {func(a, b int) bool { return false }, ""},
	} {
		r, wrong := rand.New(rand.NewPCG(9, 9)), 0
		for range 20 {
			m := New(Options{})
			for a := range 16 {
				for b := range 16 {
					v := 10e9 * math.Exp(0.03*r.NormFloat64()) * slowIf(c.slow, 0.4)(a, b)
					if a == b {
						continue
					}
					if err := m.Add(bandwidth(fmt.Sprintf("h%d/%d", a/4, a), fmt.Sprintf("h%d/%d", b/4, b), v)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := names(sorted(m.Reports(Judge{})[0].Findings)); got != c.want {
				wrong++
				t.Logf("%s: %q, want %q", name, got, c.want)
			}
		}
		if wrong > 1 {
			t.Errorf("%s: %d of 20", name, wrong)
		}
	}
}
