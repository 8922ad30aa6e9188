//go:build !race

// The simulations are arithmetic on values that nothing shares; under the race detector they would take minutes and show nothing.

package compare

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// noise makes a machine's log-values over time, with a spread of about the given size.
type noise struct {
	name string
	make func(r *rand.Rand, n int, spread float64) []float64
}

var noises = []noise{
	{"normal", func(r *rand.Rand, n int, spread float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = spread * r.NormFloat64()
		}
		return v
	}},
	{"heavy-tailed", func(r *rand.Rand, n int, spread float64) []float64 { // Student's t, 3 degrees
		v := make([]float64, n)
		for i := range v {
			v[i] = spread / math.Sqrt(3) * studentT3(r)
		}
		return v
	}},
	{"drifting", func(r *rand.Rand, n int, spread float64) []float64 { // a trend of three spreads over the run and a random walk
		v := make([]float64, n)
		slope := 3 * spread * (2*r.Float64() - 1)
		walk := 0.0
		for i := range v {
			walk += spread / 4 * r.NormFloat64()
			v[i] = spread/2*r.NormFloat64() + slope*float64(i)/float64(n) + walk
		}
		return v
	}},
	{"two-phase", func(r *rand.Rand, n int, spread float64) []float64 { // two levels two spreads apart, left after 8 samples on average
		v := make([]float64, n)
		high := r.IntN(2) == 1
		for i := range v {
			if r.IntN(8) == 0 {
				high = !high
			}
			v[i] = spread / 3 * r.NormFloat64()
			if high {
				v[i] += 2 * spread
			}
		}
		return v
	}},
}

// trial builds a comparison of identical noise but for a slowdown of its first cell.
func trial(r *rand.Rand, kind noise, rounds, cells int, spread, slowdown float64, pattern string) []*series {
	sides := order(pattern)
	all := make([]*series, cells)
	for c := range all {
		values := kind.make(r, 2*rounds, spread)
		s := &series{ordered: true, higher: true, minimum: 0.03, floor: math.NaN()}
		for i, isNew := range sides {
			v := values[i]
			if isNew && c == 0 {
				v += math.Log1p(-slowdown)
			}
			s.points = append(s.points, point{v, isNew})
		}
		all[c] = s
	}
	return all
}

// withFloor sets the floor from the old side's own rounds, as a comparison does.
func withFloor(all []*series) []*series {
	for _, s := range all {
		setOwnFloor(s)
	}
	return all
}

type rates struct{ falseAlarms, found, comparisons int }

// simulate counts comparisons with a false "worse" (of an unchanged cell) and those that find the slowed one.
func simulate(kind noise, rounds, cells int, spread, slowdown float64, comparisons int, pattern string, seed uint64) rates {
	const workers = 2
	var wg sync.WaitGroup
	part := make([]rates, workers)
	for w := range workers {
		wg.Go(func() {
			for n := w; n < comparisons; n += workers {
				r := rand.New(rand.NewPCG(seed, uint64(n)))
				all := withFloor(trial(r, kind, rounds, cells, spread, slowdown, pattern))
				alarm := false
				for i, o := range judge(all, 0.05, true) {
					if o.verdict != Worse {
						continue
					}
					if slowdown > 0 && i == 0 {
						part[w].found++
					} else {
						alarm = true
					}
				}
				if alarm {
					part[w].falseAlarms++
				}
				part[w].comparisons++
			}
		})
	}
	wg.Wait()
	return rates{part[0].falseAlarms + part[1].falseAlarms, part[0].found + part[1].found, part[0].comparisons + part[1].comparisons}
}

// The promise: at most 5 % of comparisons of identical builds report a regression, whatever the noise.
func TestFalseAlarms(t *testing.T) {
	for k, kind := range noises {
		for _, spread := range []float64{0.01, 0.03, 0.05, 0.10, 0.20} {
			got := simulate(kind, 16, 25, spread, 0, 1000, gateOrder(16), uint64(100+k))
			t.Logf("%-12s spread %4.0f %%: %d of %d comparisons report a regression", kind.name, 100*spread, got.falseAlarms, got.comparisons)
			if got.falseAlarms > 50 {
				t.Errorf("%s noise of %v: %d false alarms in 1,000 comparisons of 25 cells", kind.name, spread, got.falseAlarms)
			}
		}
	}
}

// And with power: 16 rounds a side, 3 % noise, one of 25 cells slowed.
func TestPowerPromise(t *testing.T) {
	for _, c := range []struct {
		slowdown float64
		least    int
	}{{0.10, 990}, {0.05, 800}} {
		got := simulate(noises[0], 16, 25, 0.03, c.slowdown, 1000, gateOrder(16), 17)
		t.Logf("slowdown %.0f %%: found in %d of 1,000, %d with a false alarm beside it", 100*c.slowdown, got.found, got.falseAlarms)
		if got.found < c.least {
			t.Errorf("slowdown of %v found in %d of 1,000, want %d", c.slowdown, got.found, c.least)
		}
	}
}

// Runs that are not interleaved cannot be held to that promise on a machine that drifts: a level that changes between the
// sides is a difference, whatever made it (POWER.md has the rates). On a steady machine they keep it, and find what is plain.
func TestNotInterleaved(t *testing.T) {
	pattern := repeat("A", 16) + repeat("B", 16)
	for k, kind := range noises[:2] {
		for _, spread := range []float64{0.03, 0.10} {
			got := simulate(kind, 16, 25, spread, 0, 400, pattern, uint64(300+k))
			t.Logf("%-12s spread %4.0f %%: %d of 400 comparisons report a regression", kind.name, 100*spread, got.falseAlarms)
			if got.falseAlarms > 20 {
				t.Errorf("%s noise of %v: %d false alarms", kind.name, spread, got.falseAlarms)
			}
		}
	}
	got := simulate(noises[0], 16, 25, 0.03, 0.10, 400, pattern, 18)
	t.Logf("slowdown 10 %%: found in %d of 400", got.found)
	if got.found < 340 {
		t.Errorf("slowdown of 10 %% found in %d of 400", got.found)
	}
}

// powerTable is POWER.md's body; written by -update, and compared in part by every run.
func powerTable(comparisons int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### False alarms\n\nShare of comparisons of identical noise (16 rounds a side, 25 cells) that report at least one regression, in %%; 1,000 comparisons each.\n\n")
	fmt.Fprintf(&b, "| noise | order | 1 %% | 3 %% | 5 %% | 10 %% | 20 %% |\n|---|---|--:|--:|--:|--:|--:|\n")
	for k, kind := range noises {
		for _, o := range []struct{ name, pattern string }{{"A B B A", gateOrder(16)}, {"all A, then all B", repeat("A", 16) + repeat("B", 16)}} {
			fmt.Fprintf(&b, "| %s | %s |", kind.name, o.name)
			for _, spread := range []float64{0.01, 0.03, 0.05, 0.10, 0.20} {
				got := simulate(kind, 16, 25, spread, 0, 1000, o.pattern, uint64(100+k))
				fmt.Fprintf(&b, " %.1f |", 100*float64(got.falseAlarms)/float64(got.comparisons))
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "\n### What is found\n\nShare of comparisons that name the one slowed cell, in %%, normal noise, order A B B A; %d comparisons each.\n\n", comparisons)
	fmt.Fprintf(&b, "| rounds a side | cells | noise | 5 %% slower | 10 %% slower | 20 %% slower |\n|--:|--:|--:|--:|--:|--:|\n")
	for _, rounds := range []int{8, 12, 16, 24, 32} {
		for _, cells := range []int{4, 25, 100} {
			for _, spread := range []float64{0.01, 0.03, 0.05, 0.10} {
				fmt.Fprintf(&b, "| %d | %d | %.0f %% |", rounds, cells, 100*spread)
				for _, slow := range []float64{0.05, 0.10, 0.20} {
					got := simulate(noises[0], rounds, cells, spread, slow, comparisons, gateOrder(rounds), uint64(1000*rounds+cells))
					fmt.Fprintf(&b, " %.0f |", 100*float64(got.found)/float64(got.comparisons))
				}
				b.WriteString("\n")
			}
		}
	}
	return b.String()
}

const powerHead = `# What the comparison finds, and how often it cries wolf

This page is made by ` + "`go test ./results/compare -run TestPowerTable -update`" + `: from simulations with fixed seeds, and at its end from recorded noise of real soft-RoCE.
"Noise" is the standard deviation of a round around the cell's level. A regression is reported where a cell's p survives Holm's
correction at 5 % over all cells and the ratio of medians is off by at least 3 %; where the sides do not alternate, by at least the noise floor as well that the
rounds of the old side show.

The test of sides that alternate relabels the rounds inside blocks of four, exactly: whatever the noise, a p of 5 % is 5 %. Its scores (Savage's) lean on
the fast rounds, since what disturbs a machine only slows it: in the recorded rxe below, bursts of retries make up to a quarter of a cell's rounds more than 5 %
slow, many in a row. Mann-Whitney's scores, which take slow rounds for as telling as fast ones, missed the promise on four of its cells: they found 10 % in 90 to 98 %
of comparisons and 5 % in 70 to 87 %. On normal noise they find 5 % in 86 of 100 comparisons, and these in 82. The scores were chosen by looking at
the first recording, so its table shows that they do what they were chosen for. The second was made after the choice: over its cells 10 % is found in 99.7 % of
comparisons and 5 % in 96.2 %, and in the one cell where retries come in bursts (4 KiB sends) in 97.2 and 90.4 %. So 99 % holds for a slowed cell whichever it is,
and not for each: bursts that cover a comparison hide 10 % in it.

The noises: normal; heavy-tailed (Student's t with 3 degrees of freedom); drifting (a trend of up to three spreads over the run and a
random walk); two-phase (two levels two spreads apart, left after 8 rounds on average).

Runs that are not interleaved (all of one build, then all of the other) are at the mercy of a machine that drifts: their rows
below show it. That is why the gate alternates A B B A, and why a comparison of runs that do not alternate says so.

`

func TestPowerTable(t *testing.T) {
	if !*update {
		text, err := os.ReadFile("POWER.md")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), powerHead) {
			t.Error("POWER.md is not the one that this test makes; run with -update")
		}
		// One row is made again: a change of the statistics must not leave the page behind.
		got := simulate(noises[0], 16, 25, 0.03, 0.05, 400, gateOrder(16), uint64(1000*16+25))
		row := fmt.Sprintf("| 16 | 25 | 3 %% | %.0f |", 100*float64(got.found)/float64(got.comparisons))
		if !strings.Contains(string(text), row) {
			t.Errorf("POWER.md has no row %q; run with -update", row)
		}
		return
	}
	text := powerHead + powerTable(400)
	machines := loadRecorded(t)
	for i, name := range slices.Sorted(maps.Keys(machines)) {
		if i == 0 {
			text += "\n### On recorded noise\n\nReal rounds (results/runs/noise) cut into comparisons of 16 rounds a side by contiguous interleaved blocks, and slowed by scaling. Noise is here a robust standard deviation inside windows of 32 rounds, which leaves bursts out.\n"
		}
		table, _, _ := recordedTable(name, machines[name], 1000)
		text += "\n" + table
	}
	if err := os.WriteFile("POWER.md", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
