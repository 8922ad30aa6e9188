package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"hopbench/harness/mesh"
)

// printDry says what would be measured, and for how long.
func (f *meshFlags) printDry(me place) error {
	var names []string
	if len(me.Hosts) == me.Size {
		names = me.Hosts
	}
	l, err := f.layout(me.Size, names, nil)
	if err != nil {
		return usagef("%v", err)
	}
	rows, seconds := l.Cost(f.plans, f.bothWays, f.oneWay)
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
			"plans": f.plans, "rank_source": me.Source,
		})
	}
	return writeDry(f.env.Stdout, me, l, rows, seconds, names)
}

// mostRounds is how many rounds a dry run spells out.
const mostRounds = 16

func writeDry(w io.Writer, me place, l *mesh.Layout, rows int, seconds float64, names []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %d ranks: %s in %s, %s, about %s\n", l.Pattern, me.Size, count(l.Pairs(), "pair"), count(len(l.Stages), "round"), count(rows, "row"), (time.Duration(seconds * float64(time.Second))).Round(time.Second))
	called := func(n int) string {
		if names == nil {
			return strconv.Itoa(n)
		}
		return names[n]
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
