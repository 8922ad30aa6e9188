// Package schedule decides which hosts of a mesh measure which at the same time, and says beforehand what that will cost.
//
// A host is its index, from 0. A Round is pairs that are measured at once; the rounds of AllPairs, Half, Ring, Bisection and
// PrefillDecode have no host twice, so that no pair shares a host's link with another. Together makes one round of all pairs, Alone
// a round of each: the loaded and the isolated run of the same flows. Check holds any schedule to its promises.
package schedule

import "fmt"

// Pair is an initiator and a target. Which way the bytes go is the operation's matter.
type Pair struct{ From, To int }

// Round is pairs that are measured at the same time.
type Round []Pair

// AllPairs is every pair of n hosts once, in n-1 rounds of n/2 pairs that have no host twice: the circle method of round-robin
// tournaments. With an odd n there are n rounds, and in each another host rests. Every host is about as often the initiator as the target
// (the two counts differ by two at most). BothWays adds the other direction.
func AllPairs(n int) []Round {
	if n < 2 {
		return nil
	}
	rounds := make([]Round, circle(n)-1)
	for r := range rounds {
		rounds[r] = meet(n, r)
	}
	return rounds
}

// Half is every second round of AllPairs: n/2 of the n-1 rounds, (n+1)/2 of n where n is odd. Each host is measured with n/2 others (an odd n: with
// (n-1)/2 or (n+1)/2), and the pairs that are measured connect all hosts. So a host that is slow with all is found as surely as a host with half
// as many others lets it; a pair that is slow alone is found only where it is among the half that is measured, and nothing is known of the rest.
func Half(n int) []Round {
	if n < 2 {
		return nil
	}
	var rounds []Round
	for r := 0; r < circle(n)-1; r += 2 {
		rounds = append(rounds, meet(n, r))
	}
	return rounds
}

// circle is the number of places of the circle method: n, or one more where n is odd, the last of which is nobody.
func circle(n int) int { return n + n%2 }

// meet is round r of the circle method: the last place stays, the others walk round it.
func meet(n, r int) Round {
	m := circle(n) - 1 // places that walk
	out := make(Round, 0, n/2)
	add := func(a, b int, turned bool) {
		switch {
		case a >= n || b >= n: // the place of nobody
		case turned:
			out = append(out, Pair{b, a})
		default:
			out = append(out, Pair{a, b})
		}
	}
	add(m, r, r%2 == 1)
	for k := 1; k <= m/2; k++ {
		add((r+k)%m, (r-k+m)%m, k%2 == 1)
	}
	return out
}

// BothWays puts after each round the same pairs with initiator and target exchanged.
func BothWays(rounds []Round) []Round {
	out := make([]Round, 0, 2*len(rounds))
	for _, r := range rounds {
		back := make(Round, len(r))
		for i, p := range r {
			back[i] = Pair{p.To, p.From}
		}
		out = append(out, r, back)
	}
	return out
}

// Pairs is all pairs of the rounds in their order.
func Pairs(rounds []Round) []Pair {
	var out []Pair
	for _, r := range rounds {
		out = append(out, r...)
	}
	return out
}

// Together is one round of all pairs: the loaded run.
func Together(pairs []Pair) []Round {
	if len(pairs) == 0 {
		return nil
	}
	return []Round{append(Round(nil), pairs...)}
}

// Alone is a round for each pair: the isolated run, in which nothing else is on the fabric.
func Alone(pairs []Pair) []Round {
	out := make([]Round, len(pairs))
	for i, p := range pairs {
		out[i] = Round{p}
	}
	return out
}

// Disjoint puts the pairs into rounds that have no host twice, each pair into the first that has room: at most twice as many rounds, less one, as
// the busiest host has pairs. The pairs of a round share no host, but may share a switch.
func Disjoint(pairs []Pair) []Round {
	var rounds []Round
	used := map[int][]uint64{} // host: a bit a round
	for _, p := range pairs {
		a, b := used[p.From], used[p.To]
		r := 0
		for ; taken(a, r) || taken(b, r); r++ {
		}
		if r == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[r] = append(rounds[r], p)
		used[p.From], used[p.To] = take(a, r), take(b, r)
	}
	return rounds
}

func taken(bits []uint64, r int) bool { return r/64 < len(bits) && bits[r/64]>>(r%64)&1 == 1 }

func take(bits []uint64, r int) []uint64 {
	for r/64 >= len(bits) {
		bits = append(bits, 0)
	}
	bits[r/64] |= 1 << (r % 64)
	return bits
}

// Cover is which pairs a schedule must have.
type Cover int

const (
	Any     Cover = iota // whichever; none twice in the same direction
	Every                // every two hosts once, in either direction
	EachWay              // every two hosts once in each direction
)

// Check holds a schedule of n hosts to its promises and says what is wrong first: a host that is none of the n, a host with itself, a pair twice, a
// pair that is missing, and, with disjoint, a host twice in a round.
func Check(n int, rounds []Round, disjoint bool, cover Cover) error {
	if n < 0 || n > MostHosts {
		return fmt.Errorf("schedule: %d hosts: between 0 and %d", n, MostHosts)
	}
	seen := make([]uint64, (n*n+63)/64)
	last := make([]int, n) // the round in which a host was seen last, from 1
	pairs := 0
	for r, round := range rounds {
		for _, p := range round {
			for _, h := range []int{p.From, p.To} {
				if h < 0 || h >= n {
					return fmt.Errorf("schedule: round %d: host %d of %d", r, h, n)
				}
			}
			if p.From == p.To {
				return fmt.Errorf("schedule: round %d: host %d is paired with itself", r, p.From)
			}
			if disjoint {
				for _, h := range []int{p.From, p.To} {
					if last[h] == r+1 {
						return fmt.Errorf("schedule: round %d: host %d stands in two pairs", r, h)
					}
					last[h] = r + 1
				}
			}
			a, b := p.From, p.To
			if cover == Every && a > b {
				a, b = b, a
			}
			at := a*n + b
			if taken(seen, at) {
				return fmt.Errorf("schedule: round %d: host %d to host %d a second time", r, p.From, p.To)
			}
			seen[at/64] |= 1 << (at % 64)
			pairs++
		}
	}
	want := map[Cover]int{Any: pairs, Every: n * (n - 1) / 2, EachWay: n * (n - 1)}[cover]
	if pairs == want {
		return nil
	}
	for a := range n {
		for b := range n {
			if a == b || cover == Every && a > b {
				continue
			}
			if !taken(seen, a*n+b) {
				return fmt.Errorf("schedule: host %d to host %d is missing (%d of %d pairs)", a, b, pairs, want)
			}
		}
	}
	return nil
}

// MostHosts is the most hosts of a mesh: above it a matrix alone takes gigabytes.
const MostHosts = 10_000
