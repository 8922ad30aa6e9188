package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"hopbench/harness"
	"hopbench/harness/mesh"
	"hopbench/harness/mesh/schedule"
	"hopbench/results/unit"
)

// printDry says what would be measured, and for how long.
func (f *meshFlags) printDry(me place) error {
	names := me.hostNames()
	l, err := f.layout(me.Size, names, nil)
	if err != nil {
		return usagef("%v", err)
	}
	rows, seconds := l.Cost(f.plans, f.bothWays, f.oneWay)
	b := f.burden(l, me.Size, rows)
	if f.run.json {
		e := json.NewEncoder(f.env.Stdout)
		e.SetIndent("", "  ")
		type round struct {
			Schedule string   `json:"schedule"`
			Pairs    [][2]int `json:"pairs"` // initiator, target
		}
		rounds := []round{}
		for _, s := range l.Stages {
			r := round{Schedule: s.Schedule}
			for _, p := range s.Pairs {
				r.Pairs = append(r.Pairs, [2]int{p.From, p.To})
			}
			rounds = append(rounds, r)
		}
		return e.Encode(map[string]any{
			"pattern": l.Pattern, "ranks": me.Size, "pairs": l.Pairs(), "rounds": rounds, "rows": rows, "estimate_seconds": seconds,
			"result_bytes": b.result, "control_calls": b.calls, "memory_bytes": b.memory, "plans": f.plans, "rank_source": me.Source,
		})
	}
	return writeDry(f.env.Stdout, me, l, rows, seconds, b, names)
}

// burden is what a mesh puts on its first rank and on its disk, by what one of each thing costs (package schedule).
type burden struct{ result, memory, calls int64 }

func (f *meshFlags) burden(l *mesh.Layout, ranks, rows int) burden {
	cells, bytes, rounds := int64(0), int64(0), int64(0)
	for i := range f.plans {
		p := &f.plans[i]
		n, each := int64(p.Cells()), int64(schedule.BandwidthRowBytes)
		if p.Metrics[0] == harness.Latency {
			each = schedule.LatencyRowBytes
		}
		cells, bytes = cells+n, bytes+n*each
		rounds = max(rounds, int64(max(p.Rounds, harness.MinRounds)))
	}
	n, links := int64(ranks), int64(0)
	for _, s := range l.Stages {
		links += int64(len(s.Pairs))
	}
	links *= int64(len(f.plans))
	return burden{
		result: int64(rows)*bytes/max(cells, 1) + n*schedule.HostBytes,
		calls:  links*schedule.LinkCalls + int64(rows)*(schedule.CellCalls+schedule.RoundCalls*rounds),
		memory: n*schedule.ConnectionBytes + n*n*(cells*schedule.PlaceBytes+schedule.JudgeBytes),
	}
}

// about is a number of bytes in three digits.
func about(n int64) string { return strings.TrimSuffix(unit.Rate(float64(n)), "/s") }

func many(n int64) string {
	if n < 1e6 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%.1f million", float64(n)/1e6)
}

// mostRounds is how many rounds a dry run spells out.
const mostRounds = 16

func writeDry(w io.Writer, me place, l *mesh.Layout, rows int, seconds float64, load burden, names []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %d ranks: %s in %s, %s, about %s,\n", l.Pattern, me.Size, count(l.Pairs(), "pair"), count(len(l.Stages), "round"), count(rows, "row"), (time.Duration(seconds * float64(time.Second))).Round(time.Second))
	fmt.Fprintf(&b, "the result file about %s; rank 0 about %s of memory, the completions of the rows that are being measured apart, and %s calls of the control channel\n",
		about(load.result), about(load.memory), many(load.calls))
	called := func(n int) string {
		if names == nil {
			return strconv.Itoa(n)
		}
		return names[n]
	}
	all, own := make([]bool, me.Size), make([]string, me.Size)
	for n := range all {
		all[n], own[n] = true, called(n)
	}
	if idle := unused(l, all, own); idle != "" {
		fmt.Fprintf(&b, "in no pair: %s\n", idle)
	}
	for i, s := range l.Stages {
		if i == mostRounds {
			fmt.Fprintf(&b, "and %d more rounds\n", len(l.Stages)-i)
			break
		}
		var pairs []string
		for j, p := range s.Pairs {
			if j == mostRounds {
				pairs = append(pairs, fmt.Sprintf("and %d more", len(s.Pairs)-j))
				break
			}
			pairs = append(pairs, called(p.From)+"->"+called(p.To))
		}
		fmt.Fprintf(&b, "%4d  %s: %s\n", i+1, s.Schedule, strings.Join(pairs, "  "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
