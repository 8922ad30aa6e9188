package mesh

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"hopbench/harness/mesh/schedule"
)

// Patterns are the names of the patterns, the first of which is what is measured where nothing is asked for.
var Patterns = []string{"all-pairs", "half", "ring", "bisection", "incast", "one-to-all", "prefill-decode", "matrix"}

// Ask is a pattern by name with the ranks that it is about.
type Ask struct {
	Name string
	// Names are what ranks are called, by number; nil where they have not met: lists then hold numbers alone.
	Names []string
	// Present says whether a rank is in the mesh, by number; nil: all are. Pairs of those that are not are left out.
	Present []bool
	// Left and Right are the halves of a bisection, Prefill and Decode the ranks of prefill-decode: "node1,node2" or "0-3,7".
	// Sources and To are those of an incast, From and Targets those of one-to-all; empty lists are all other ranks, To and From rank 0.
	Left, Right, Prefill, Decode, Sources, To, From, Targets string
	// Matrix is the byte matrix's file.
	Matrix io.Reader
	// Isolated measures each pair alone, and Loaded all at once. Neither: what the pattern is for.
	Isolated, Loaded bool
}

// Stage is pairs of ranks that move data at once.
type Stage struct {
	Schedule string // of its rows
	Pairs    []schedule.Pair
	// Sum is set where the rows of the pairs have a sum that means something: they load something together.
	Sum bool
	// Bytes are what each pair moves, once in each round; nil: a rate is measured.
	Bytes map[schedule.Pair]uint64
	// Background stages have a load of bulk writes between the same pairs beside what they measure.
	Background bool
}

// Layout is a pattern spelt out.
type Layout struct {
	Pattern string
	Stages  []Stage
	// BothDirections is set where a pair stands for both of its directions.
	BothDirections bool
}

// Moved is the schedule of the pairs of a byte matrix that move their bytes once, all begun together.
const Moved = "matrix, moved"

// Isolated is the schedule of a pair that moves data alone.
const Isolated = "isolated"

// WithBackground is what a schedule is called when a background load runs beside it.
func WithBackground(name string) string { return name + ", background" }

// Lay spells a pattern out for size ranks. Errors name the flag, and the rank or host, that is wrong.
func Lay(size int, a Ask) (*Layout, error) {
	if size < 2 {
		return nil, fmt.Errorf("a mesh has at least 2 ranks, not %d", size)
	}
	given := a.Names
	if given == nil {
		given = make([]string, size)
	}
	names := make([]string, size)
	for n := range names {
		if names[n] = strconv.Itoa(n); n < len(a.Names) && a.Names[n] != "" {
			names[n] = a.Names[n]
		}
	}
	a.Names = names
	l := &Layout{Pattern: a.Name}
	var rounds []schedule.Round
	var moves map[schedule.Pair]uint64
	var together string // schedule of all at once, where that is the pattern's own
	var err error
	switch a.Name {
	case "all-pairs", "half", "ring":
		// Ranks that are absent leave no holes: the rounds are made of those that are here.
		var here []int
		for n := range size {
			if a.Present == nil || a.Present[n] {
				here = append(here, n)
			}
		}
		rule := map[string]func(int) []schedule.Round{"all-pairs": schedule.AllPairs, "half": schedule.Half, "ring": schedule.Ring}[a.Name]
		for _, r := range rule(len(here)) {
			round := schedule.Round{}
			for _, p := range r {
				round = append(round, schedule.Pair{From: here[p.From], To: here[p.To]})
			}
			rounds = append(rounds, round)
		}
		l.BothDirections = a.Name != "ring"
	case "bisection":
		rounds, err = a.bisection(size)
		together = a.Name
	case "prefill-decode":
		var prefill, decode []int
		if prefill, err = a.list("prefill", a.Prefill, nil); err == nil {
			if decode, err = a.list("decode", a.Decode, nil); err == nil {
				rounds, err = schedule.PrefillDecode(prefill, decode)
			}
		}
		together = a.Name
	case "incast", "one-to-all":
		rounds, err = a.star(size)
		together = a.Name
	case "matrix":
		var moved []schedule.Traffic
		if moved, err = a.matrix(given); err == nil {
			moves = map[schedule.Pair]uint64{}
			round := schedule.Round{}
			for _, t := range moved {
				moves[t.Pair] = t.Bytes
				round = append(round, t.Pair)
			}
			rounds = []schedule.Round{round}
		}
		together = a.Name
	default:
		return nil, fmt.Errorf("--pattern: there is no %q; want %s", a.Name, strings.Join(Patterns, ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("--pattern %s: %w", a.Name, err)
	}
	rounds = a.present(rounds)
	pairs := schedule.Pairs(rounds)
	if len(pairs) == 0 {
		return nil, fmt.Errorf("--pattern %s: no pair of ranks is left", a.Name)
	}
	if err := schedule.Check(size, rounds, false, schedule.Any); err != nil {
		return nil, fmt.Errorf("--pattern %s: %w", a.Name, err)
	}
	alone, loaded := a.Isolated, a.Loaded
	if together != "" && !alone && !loaded {
		alone, loaded = true, true
	}
	if together == "" && !alone {
		for _, r := range rounds {
			l.Stages = append(l.Stages, Stage{Schedule: a.Name, Pairs: r})
		}
	}
	if alone {
		for _, r := range schedule.Alone(pairs) {
			l.Stages = append(l.Stages, Stage{Schedule: Isolated, Pairs: r})
		}
	}
	if loaded {
		if together == "" {
			together = map[string]string{"all-pairs": "all-to-all", "half": "half at once", "ring": "ring at once"}[a.Name]
		}
		l.Stages = append(l.Stages, Stage{Schedule: together, Pairs: pairs, Sum: true})
		if moves != nil {
			l.Stages = append(l.Stages, Stage{Schedule: Moved, Pairs: pairs, Bytes: moves})
		}
	}
	return l, nil
}

// AddBackground puts after each stage the same one with a load beside it.
func (l *Layout) AddBackground() {
	var all []Stage
	for _, s := range l.Stages {
		with := s
		with.Schedule, with.Background = WithBackground(s.Schedule), true
		all = append(all, s, with)
	}
	l.Stages = all
}

// Pairs is how many pairs of ranks a layout measures, each once.
func (l *Layout) Pairs() int {
	seen := map[schedule.Pair]bool{}
	for _, s := range l.Stages {
		for _, p := range s.Pairs {
			seen[p] = true
		}
	}
	return len(seen)
}

// list reads a list of ranks; empty is what without gives, and an error where that is nil.
func (a *Ask) list(flag, text string, without func() []int) ([]int, error) {
	if text == "" {
		if without != nil {
			return without(), nil
		}
		return nil, fmt.Errorf("give --%s, a list of ranks or hosts", flag)
	}
	ranks, err := schedule.Hosts(text, a.Names)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return ranks, nil
}

// one is a list of one rank; empty is rank 0.
func (a *Ask) one(flag, text string) (int, error) {
	ranks, err := a.list(flag, text, func() []int { return []int{0} })
	if err != nil {
		return 0, err
	}
	if len(ranks) != 1 {
		return 0, fmt.Errorf("--%s: %d ranks; it is one", flag, len(ranks))
	}
	return ranks[0], nil
}

func others(size int, but []int) []int {
	var all []int
	for n := range size {
		if !slices.Contains(but, n) {
			all = append(all, n)
		}
	}
	return all
}

// bisection is one rank of a half with one of the other, all across the cut: the lower numbers against the upper where no halves are given.
func (a *Ask) bisection(size int) ([]schedule.Round, error) {
	left, err := a.list("left", a.Left, func() []int { return nil })
	if err != nil {
		return nil, err
	}
	right, err := a.list("right", a.Right, func() []int { return nil })
	if err != nil {
		return nil, err
	}
	switch {
	case left == nil && right == nil:
		all := others(size, nil)
		left, right = all[:size/2], all[size/2:]
	case left == nil:
		left = others(size, right)
	case right == nil:
		right = others(size, left)
	}
	rounds, err := schedule.Bisection(left, right)
	if err != nil {
		return nil, err
	}
	return rounds[:1], nil // each rank of the smaller half once: the usual measure
}

// star is many to one, or one to many.
func (a *Ask) star(size int) ([]schedule.Round, error) {
	centre, many, one, rest := "to", "sources", a.To, a.Sources
	if a.Name == "one-to-all" {
		centre, many, one, rest = "from", "targets", a.From, a.Targets
	}
	middle, err := a.one(centre, one)
	if err != nil {
		return nil, err
	}
	around, err := a.list(many, rest, func() []int { return others(size, []int{middle}) })
	if err != nil {
		return nil, err
	}
	var pairs []schedule.Pair
	if a.Name == "one-to-all" {
		pairs, err = schedule.OneToAll(middle, around)
	} else {
		pairs, err = schedule.Incast(around, middle)
	}
	return schedule.Together(pairs), err
}

// matrix reads the byte matrix. Its first line may be names; those of ranks that have none are not taken for such.
func (a *Ask) matrix(names []string) ([]schedule.Traffic, error) {
	if a.Matrix == nil {
		return nil, fmt.Errorf("give the byte matrix with --matrix FILE")
	}
	bytes, err := schedule.ReadMatrix(a.Matrix, names)
	if err != nil {
		return nil, err
	}
	return schedule.FromMatrix(bytes)
}

// present leaves out pairs of ranks that are not here.
func (a *Ask) present(rounds []schedule.Round) []schedule.Round {
	if a.Present == nil {
		return rounds
	}
	var kept []schedule.Round
	for _, r := range rounds {
		r = slices.DeleteFunc(slices.Clone(r), func(p schedule.Pair) bool { return !a.Present[p.From] || !a.Present[p.To] })
		if len(r) > 0 {
			kept = append(kept, r)
		}
	}
	return kept
}
