package schedule

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestAllPairs(t *testing.T) {
	for n := range 130 {
		rounds := AllPairs(n)
		if err := Check(n, rounds, true, Every); err != nil {
			t.Fatalf("%d hosts: %v", n, err)
		}
		want := max(0, n-1+n%2)
		if n < 2 {
			want = 0
		}
		if len(rounds) != want {
			t.Errorf("%d hosts: %d rounds, want %d", n, len(rounds), want)
		}
		from := make([]int, n)
		for r, round := range rounds {
			if len(round) != n/2 {
				t.Fatalf("%d hosts: round %d has %d pairs", n, r, len(round))
			}
			for _, p := range round {
				from[p.From]++
			}
		}
		for h, f := range from {
			if 2*f < n-1-2 || 2*f > n-1+2 {
				t.Errorf("%d hosts: host %d is the initiator of %d of its %d pairs", n, h, f, n-1)
			}
		}
		if err := Check(n, BothWays(rounds), true, EachWay); err != nil {
			t.Fatalf("%d hosts, both ways: %v", n, err)
		}
	}
}

func TestHalf(t *testing.T) {
	for n := 2; n < 130; n++ {
		rounds := Half(n)
		if err := Check(n, rounds, true, Any); err != nil {
			t.Fatalf("%d hosts: %v", n, err)
		}
		if want := (n + n%2) / 2; len(rounds) != want {
			t.Errorf("%d hosts: %d rounds, want %d", n, len(rounds), want)
		}
		degree := make([]int, n)
		next := make([][]int, n)
		for _, p := range Pairs(rounds) {
			degree[p.From]++
			degree[p.To]++
			next[p.From] = append(next[p.From], p.To)
			next[p.To] = append(next[p.To], p.From)
		}
		for h, d := range degree {
			if n%2 == 0 && d != n/2 || d < (n-1)/2 || d > (n+1)/2 {
				t.Errorf("%d hosts: host %d has %d pairs", n, h, d)
			}
		}
		reached, stack := map[int]bool{0: true}, []int{0}
		for len(stack) > 0 {
			h := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for _, o := range next[h] {
				if !reached[o] {
					reached[o] = true
					stack = append(stack, o)
				}
			}
		}
		if len(reached) != n {
			t.Errorf("%d hosts: only %d are connected", n, len(reached))
		}
	}
}

func TestRing(t *testing.T) {
	for n := range 40 {
		rounds := Ring(n)
		if err := Check(n, rounds, true, Any); err != nil {
			t.Fatalf("%d hosts: %v", n, err)
		}
		want := n
		if n < 3 {
			want = max(0, n-1)
		}
		if got := len(Pairs(rounds)); got != want {
			t.Errorf("%d hosts: %d pairs, want %d", n, got, want)
		}
		if err := Check(n, Together(Pairs(rounds)), false, Any); err != nil {
			t.Errorf("%d hosts: %v", n, err)
		}
	}
}

func hosts(from, to int) (out []int) {
	for h := from; h < to; h++ {
		out = append(out, h)
	}
	return out
}

func TestBipartite(t *testing.T) {
	for a := 1; a < 12; a++ {
		for b := 1; b < 12; b++ {
			rounds, err := Bisection(hosts(0, a), hosts(a, a+b))
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(a+b, rounds, true, Any); err != nil {
				t.Fatalf("%d and %d: %v", a, b, err)
			}
			pairs := Pairs(rounds)
			if len(pairs) != a*b || len(rounds) != max(a, b) {
				t.Errorf("%d and %d: %d pairs in %d rounds", a, b, len(pairs), len(rounds))
			}
			for _, p := range pairs {
				if p.From >= a || p.To < a {
					t.Errorf("%d and %d: %v does not cross the cut", a, b, p)
				}
			}
			if err := Check(a+b, Disjoint(pairs), true, Any); err != nil {
				t.Error(err)
			}
			if got := len(Disjoint(pairs)); got > 2*max(a, b)-1 {
				t.Errorf("%d and %d: the greedy rounds are %d", a, b, got)
			}
		}
	}
}

func TestPatternsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"bisection repeat":  {second(Bisection([]int{0, 1, 0}, []int{2})), "left: rank 0 stands twice"},
		"bisection overlap": {second(Bisection([]int{0, 1}, []int{1, 2})), "rank 1 is in left and in right"},
		"bisection empty":   {second(Bisection(nil, []int{1})), "left: no hosts"},
		"incast itself":     {second(Incast([]int{1, 2}, 2)), "rank 2 is in sources and in target"},
		"incast repeat":     {second(Incast([]int{1, 1}, 2)), "sources: rank 1 stands twice"},
		"one to all":        {second(OneToAll(3, []int{1, 3})), "rank 3 is in source and in targets"},
		"prefill":           {second(PrefillDecode([]int{0}, []int{4, 4})), "decode: rank 4 stands twice"},
		"negative":          {second(Incast([]int{-1}, 2)), "sources: host -1"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestCheckRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		n        int
		rounds   []Round
		disjoint bool
		cover    Cover
		want     string
	}{
		"self":      {3, []Round{{{1, 1}}}, false, Any, "host 1 is paired with itself"},
		"stranger":  {3, []Round{{{0, 3}}}, false, Any, "host 3 of 3"},
		"negative":  {3, []Round{{{-1, 0}}}, false, Any, "host -1 of 3"},
		"busy":      {4, []Round{{{0, 1}, {2, 0}}}, true, Any, "round 0: host 0 stands in two pairs"},
		"twice":     {3, []Round{{{0, 1}}, {{0, 1}}}, true, Any, "round 1: host 0 to host 1 a second time"},
		"back":      {2, []Round{{{0, 1}}, {{1, 0}}}, true, Every, "round 1: host 1 to host 0 a second time"},
		"missing":   {3, []Round{{{0, 1}}, {{2, 0}}}, true, Every, "host 1 to host 2 is missing (2 of 3 pairs)"},
		"one way":   {2, []Round{{{0, 1}}}, true, EachWay, "host 1 to host 0 is missing (1 of 2 pairs)"},
		"too large": {MostHosts + 1, nil, true, Any, "between 0 and"},
	} {
		err := Check(c.n, c.rounds, c.disjoint, c.cover)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// A pair that is moved to another round is found wherever it is moved.
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 4 + r.IntN(20)
		rounds := AllPairs(n)
		a, b := r.IntN(len(rounds)), r.IntN(len(rounds))
		if a == b {
			continue
		}
		rounds[b] = append(rounds[b], rounds[a][0])
		rounds[a] = rounds[a][1:]
		err := Check(n, rounds, true, Every)
		if n%2 == 0 && err == nil {
			t.Fatalf("%d hosts: a pair moved from round %d to %d is not found", n, a, b)
		}
	}
}

func TestTogetherAndAlone(t *testing.T) {
	pairs, err := Incast([]int{1, 2, 3}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := Together(pairs); len(got) != 1 || len(got[0]) != 3 {
		t.Errorf("together: %v", got)
	}
	if got := Alone(pairs); len(got) != 3 || len(got[2]) != 1 || got[2][0] != (Pair{3, 0}) {
		t.Errorf("alone: %v", got)
	}
	if got := Disjoint(pairs); len(got) != 3 {
		t.Errorf("an incast has no two pairs that can be apart: %v", got)
	}
	if Together(nil) != nil {
		t.Error("no pairs make no round")
	}
}

func TestHosts(t *testing.T) {
	names := []string{"a", "b", "c-1", "d", "d", "7"}
	for text, want := range map[string]string{
		"a,b": "0 1", " b , 0": "1 0", "c-1": "2", "0-3": "0 1 2 3", "7": "5", "4": "4",
	} {
		got, err := Hosts(text, names)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if s := strings.Trim(strings.ReplaceAll(strings.Trim(sprint(got), "[]"), ",", ""), " "); s != want {
			t.Errorf("%q: %s, want %s", text, s, want)
		}
	}
	for text, want := range map[string]string{
		"a,0":   "a (rank 0) stands twice",
		"a,b,a": "a (rank 0) stands twice",
		"x":     `no host is called "x"`,
		"d":     "host d has ranks 3 and 4: name a rank",
		"3-1":   "a range goes upwards",
		"2-9":   "the mesh has ranks 0 to 5",
		"a,,b":  "an item is empty",
		"":      "an item is empty",
	} {
		if _, err := Hosts(text, names); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
