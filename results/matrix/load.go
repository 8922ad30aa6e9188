package matrix

import (
	"cmp"
	"slices"
	"strings"

	"hopbench/results"
)

// Load is what the flows of a schedule do to each other: each beside the same pair's figure when it was alone.
type Load struct {
	Loaded   *Layer           `json:"-"`
	Alone    *Layer           `json:"-"`
	Key      results.Identity `json:"key"` // of the loaded layer
	Title    string           `json:"title"`
	Flows    []Flow           `json:"flows"`   // the slowest first
	Missing  int              `json:"missing"` // flows of the schedule that failed, or that have no figure alone
	Slowdown *Distribution    `json:"slowdown,omitempty"`
	// SlowdownP99 is the 99th percentile over the flows (nearest rank); absent with fewer than 100.
	SlowdownP99 *float64 `json:"slowdown_p99,omitempty"`
	// Jain is Jain's index of the flows' bandwidths, 1 where all are alike and 1/n where one has everything; and JainOfOwn that of the part of its own
	// isolated figure that each keeps, which does not hold it against a flow that its link is slower. Absent for latencies.
	Jain      *float64 `json:"jain,omitempty"`
	JainOfOwn *float64 `json:"jain_of_own,omitempty"`
	// Sum and SumAlone are the flows' bandwidths added up, in bytes a second. Absent for latencies, and where the flows take turns.
	Sum      *float64 `json:"sum_bytes_per_second,omitempty"`
	SumAlone *float64 `json:"sum_alone_bytes_per_second,omitempty"`
	// P99 and P99Alone are the largest 99th percentile of a flow's latency (or of its requests' time), in seconds.
	P99      *float64 `json:"p99_seconds,omitempty"`
	P99Alone *float64 `json:"p99_alone_seconds,omitempty"`
}

// Flow is one pair, alone and loaded. Slowdown is how many times slower it is: above 1 it is.
type Flow struct {
	Initiator string  `json:"initiator"`
	Target    string  `json:"target"`
	Alone     float64 `json:"alone"`
	Loaded    float64 `json:"loaded"`
	Slowdown  float64 `json:"slowdown"`
}

// Loads sets each schedule beside the quietest one of the same pairs: each alone, or in rounds of pairs that share no host.
func (m *Mesh) Loads() []Load {
	layers := m.Layers()
	quiet := quietest(layers)
	var out []Load
	for _, l := range layers {
		if a := quiet[without(l.Key)]; a != l && busy(a.Key.Schedule) < 2 {
			out = append(out, load(l, a))
		}
	}
	return out
}

func load(l, alone *Layer) Load {
	o := Load{Loaded: l, Alone: alone, Key: l.Key, Title: l.Title()}
	var slowdowns, loaded, kept []float64
	var sum, before, p99, p99Alone float64
	for _, from := range l.Hosts() {
		row := l.mesh.id[from]
		if row >= len(l.rows) {
			continue
		}
		for to, p := range l.rows[row] {
			if p.state == unknown {
				continue
			}
			q := alone.at(row, to)
			if p.state != measured || q.state != measured {
				o.Missing++
				continue
			}
			f := Flow{Initiator: from, Target: l.mesh.hosts[to], Alone: q.value, Loaded: p.value, Slowdown: q.value / p.value}
			if l.Latency() {
				f.Slowdown = p.value / q.value
			}
			o.Flows = append(o.Flows, f)
			slowdowns, loaded, kept = append(slowdowns, f.Slowdown), append(loaded, p.value), append(kept, 1/f.Slowdown)
			sum, before = sum+p.value, before+q.value
			p99, p99Alone = max(p99, float64(p.p99)), max(p99Alone, float64(q.p99))
		}
	}
	slices.Sort(slowdowns)
	o.Slowdown = DistributionOf(slowdowns)
	if len(slowdowns) >= 100 {
		v := quantile(slowdowns, 0.99)
		o.SlowdownP99 = &v
	}
	if !l.Latency() && len(loaded) > 0 && atOnce(l.Key.Schedule) { // flows in turn share nothing: their sum would be of what never was
		a, b := Jain(loaded), Jain(kept)
		o.Jain, o.JainOfOwn, o.Sum, o.SumAlone = &a, &b, &sum, &before
	}
	if p99 > 0 {
		o.P99 = &p99
	}
	if p99Alone > 0 {
		o.P99Alone = &p99Alone
	}
	slices.SortStableFunc(o.Flows, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(b.Slowdown, a.Slowdown), natural(a.Initiator, b.Initiator), natural(a.Target, b.Target))
	})
	return o
}

// background is what a schedule's name ends in where a load runs beside it.
const background = ", background"

// atOnce says whether all flows of a schedule run at the same time. A background load beside pairs that take turns does not make them.
func atOnce(schedule string) bool {
	switch strings.TrimSuffix(strings.TrimSuffix(schedule, bothWays), background) {
	case "", "isolated", "all-pairs", "half", "ring":
		return false
	}
	return true
}

// Jain is the index of fairness of shares: their sum squared over n times the sum of their squares (Jain, Chiu and Hawe, A quantitative measure of fairness,
// DEC Research Report TR-301, 1984). It is 1 of no shares, or of shares that are all 0.
func Jain(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, s := range shares {
		sum, squares = sum+s, squares+s*s
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}
