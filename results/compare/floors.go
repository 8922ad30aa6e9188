package compare

import (
	"fmt"
	"math"
	"slices"

	"hopbench/results"
	"hopbench/results/unit"
)

// setFloor learns the least effect that this machine can tell from none, from the best A/A pairs that
// are at hand: runs of one build given for it, else the runs of one side against each other, else the
// old side's own samples dealt into two. Sides that alternate are tested against just that, relabelling within their blocks: their own samples
// have no more to say, and a floor from half of them would only hide what the test finds.
func (o *Options) setFloor(s *series, id results.Identity, metric string, a, b []observation) {
	if o.Noise != nil {
		if c := o.Noise.cells[id]; c != nil && len(c.series[metric]) > 0 {
			v := c.series[metric]
			if runsOf(v) >= runsAsSamples && runsOf(a) >= runsAsSamples {
				v = perRun(v)
			}
			logs := make([]float64, len(v))
			for i, x := range v {
				logs[i] = math.Log(x.value)
			}
			if f, ok := floor(logs, smaller(s)); ok {
				s.floor, s.floorWhy = math.Expm1(f), fmt.Sprintf("A/A: %d samples of one build", len(logs))
				return
			}
		}
	}
	if runsOf(a) < runsAsSamples || runsOf(b) < runsAsSamples {
		if f, n := betweenRuns(a, b); n > 0 {
			s.floor, s.floorWhy = math.Expm1(f), fmt.Sprintf("%d pairs of runs of one build", n)
			return
		}
	}
	setOwnFloor(s)
}

func smaller(s *series) int {
	a, b := s.count()
	return min(a, b)
}

// setOwnFloor learns a floor from the old side's own samples, dealt into two interleaved halves, where the sides do not alternate.
func setOwnFloor(s *series) {
	s.floor = math.NaN()
	if s.blocks() != nil {
		return
	}
	oldLogs, _ := split(s.points)
	if f, ok := floor(oldLogs, smaller(s)); ok {
		s.floor, s.floorWhy = math.Expm1(f), "the old side against itself"
	}
}

// betweenRuns is the largest log ratio of medians between two runs of one side, over the root of the
// number of runs that a side's median rests on: what one process differs by from the next.
func betweenRuns(a, b []observation) (value float64, pairs int) {
	for _, side := range [][]observation{a, b} {
		m := perRun(side)
		for i := range m {
			for j := range i {
				value = math.Max(value, math.Abs(math.Log(m[i].value/m[j].value)))
				pairs++
			}
		}
	}
	return value / math.Sqrt(float64(min(runsOf(a), runsOf(b)))), pairs
}

// floors holds the new side to the absolute bounds, row by row.
func (o *Options) floors(rows []*Row) error {
	for _, f := range o.Floors {
		if !slices.ContainsFunc(Metrics(), func(k [2]string) bool { return k[0] == f.Metric }) {
			return fmt.Errorf("bound on an unknown metric %q", f.Metric)
		}
		held := false
		for _, r := range rows {
			if r.Metric != f.Metric || f.Pattern != "" && !Match(f.Pattern, r.Cell) {
				continue
			}
			if r.New == nil {
				if r.Broken { // fails by itself
					held = true
				}
				continue
			}
			held = true
			switch {
			case f.Above && *r.New > f.Value:
				r.FloorBroken = fmt.Sprintf("%s is above %s", Value(f.Metric, *r.New), Value(f.Metric, f.Value))
			case !f.Above && *r.New < f.Value:
				r.FloorBroken = fmt.Sprintf("%s is below %s", Value(f.Metric, *r.New), Value(f.Metric, f.Value))
			}
		}
		if !held {
			return fmt.Errorf("no row of new has %s for the bound to hold (a bound on nothing can never fail)", f.Metric)
		}
	}
	return nil
}

// Value prints a figure of a metric for people.
func Value(metric string, v float64) string {
	switch metric {
	case Bandwidth, "slowest_window_bandwidth":
		return unit.Rate(v)
	case Latency, "latency_p99":
		return unit.Seconds(v)
	case "message_rate":
		return unit.Number(v) + " /s"
	case "cpu_initiator", "cpu_target", "cpu_host":
		return unit.Number(v) + " s/GB"
	}
	return unit.Number(v)
}
