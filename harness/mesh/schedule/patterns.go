package schedule

import (
	"fmt"
	"strconv"
	"strings"
)

// Ring is each host to the next, and the last to the first: n pairs, in which every host sends and receives. Its rounds have no host twice: two
// rounds, three where n is odd (the last has one pair), one where n is 2. Together(Pairs(...)) is the ring under load.
func Ring(n int) []Round {
	if n < 2 {
		return nil
	}
	if n == 2 {
		return []Round{{{0, 1}}}
	}
	rounds := make([]Round, 2+n%2)
	for i := range n {
		r := i % 2
		if i == n-1 && n%2 == 1 {
			r = 2
		}
		rounds[r] = append(rounds[r], Pair{i, (i + 1) % n})
	}
	return rounds
}

// Bisection is every host of one half with every host of the other, in as many rounds as the larger half has hosts: in each, every host of the
// smaller half is busy once, all of them across the cut. The first round alone is the usual measure of bisection bandwidth; the halves need not be
// of one size.
func Bisection(left, right []int) ([]Round, error) {
	if err := distinct(list{"left", left}, list{"right", right}); err != nil {
		return nil, err
	}
	return across(left, right), nil
}

// PrefillDecode is every prefill host with every decode host, in rounds that have no host twice. Together(Pairs(...)) is all of them at once.
func PrefillDecode(prefill, decode []int) ([]Round, error) {
	if err := distinct(list{"prefill", prefill}, list{"decode", decode}); err != nil {
		return nil, err
	}
	return across(prefill, decode), nil
}

// across is the rounds of a complete bipartite graph: a rectangle in which each row is the one before it, shifted.
func across(from, to []int) []Round {
	m := max(len(from), len(to))
	rounds := make([]Round, m)
	for r := range rounds {
		for i := range min(len(from), len(to)) {
			if len(from) <= len(to) {
				rounds[r] = append(rounds[r], Pair{from[i], to[(i+r)%m]})
			} else {
				rounds[r] = append(rounds[r], Pair{from[(i+r)%m], to[i]})
			}
		}
	}
	return rounds
}

// Incast is each source to one host: Together makes them all send at once.
func Incast(sources []int, to int) ([]Pair, error) {
	if err := distinct(list{"sources", sources}, list{"target", []int{to}}); err != nil {
		return nil, err
	}
	var out []Pair
	for _, s := range sources {
		out = append(out, Pair{s, to})
	}
	return out, nil
}

// OneToAll is one host to each target.
func OneToAll(from int, targets []int) ([]Pair, error) {
	if err := distinct(list{"source", []int{from}}, list{"targets", targets}); err != nil {
		return nil, err
	}
	var out []Pair
	for _, t := range targets {
		out = append(out, Pair{from, t})
	}
	return out, nil
}

// list is hosts and what they are in a pattern.
type list struct {
	name  string
	hosts []int
}

// distinct refuses empty lists and hosts that stand twice, in one list or in two.
func distinct(lists ...list) error {
	where := map[int]string{}
	for _, l := range lists {
		if len(l.hosts) == 0 {
			return fmt.Errorf("schedule: %s: no hosts", l.name)
		}
		for _, h := range l.hosts {
			if h < 0 {
				return fmt.Errorf("schedule: %s: host %d", l.name, h)
			}
			if before, ok := where[h]; ok {
				if before == l.name {
					return fmt.Errorf("schedule: %s: rank %d stands twice", l.name, h)
				}
				return fmt.Errorf("schedule: rank %d is in %s and in %s", h, before, l.name)
			}
			where[h] = l.name
		}
	}
	return nil
}

// Hosts reads a list of hosts, "node1,node7" or "0-3,8", among the names of a mesh: each item is a name, a rank, or a range of ranks. A name that is
// unknown, or that is given to several ranks, and a host that stands twice are errors that name it.
func Hosts(text string, names []string) ([]int, error) {
	by := map[string][]int{}
	for i, n := range names {
		by[n] = append(by[n], i)
	}
	var out []int
	have := map[int]bool{}
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			return nil, fmt.Errorf("schedule: host list %q: an item is empty", text)
		}
		first, last, err := find(item, names, by)
		if err != nil {
			return nil, err
		}
		for h := first; h <= last; h++ {
			if have[h] {
				return nil, fmt.Errorf("schedule: host list %q: %s (rank %d) stands twice", text, names[h], h)
			}
			have[h] = true
			out = append(out, h)
		}
	}
	return out, nil
}

// called lists what ranks are called, a few of many.
func called(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// find is the ranks that an item of a list means, from first to last. A name comes before a number.
func find(item string, names []string, by map[string][]int) (first, last int, err error) {
	if at := by[item]; len(at) == 1 {
		return at[0], at[0], nil
	} else if len(at) > 1 {
		return 0, 0, fmt.Errorf("schedule: host %s has ranks %d and %d: name a rank", item, at[0], at[1])
	}
	a, b, ranged := strings.Cut(item, "-")
	if !ranged {
		b = a
	}
	first, err1 := strconv.Atoi(a)
	last, err2 := strconv.Atoi(b)
	switch {
	case err1 != nil || err2 != nil:
		return 0, 0, fmt.Errorf("schedule: no host is called %q: the ranks are %s", item, called(names))
	case first > last:
		return 0, 0, fmt.Errorf("schedule: %q: a range goes upwards", item)
	case first < 0 || last >= len(names):
		return 0, 0, fmt.Errorf("schedule: %q: the mesh has ranks 0 to %d", item, len(names)-1)
	}
	return first, last, nil
}
