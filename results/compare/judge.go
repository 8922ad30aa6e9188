package compare

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
)

// series is what a verdict is made from: one metric of one cell over both sides.
type series struct {
	points   []point // in the order of time where that is known
	ordered  bool
	higher   bool    // whether more is better
	minimum  float64 // least effect that matters, as a ratio: 0.03
	floor    float64 // A/A: least effect that can be told from none, as a ratio; NaN is not known
	floorWhy string
}

// outcome is the verdict over one series.
type outcome struct {
	old, new           float64 // medians
	ratio              float64
	low, high          float64 // NaN: too few samples
	p, adjusted        float64
	needed             int // samples a side; 0: enough
	detectable         float64
	interleaved        bool
	verdict, reason    string
	warnings           []string
	oldCount, newCount int
}

// judge gives every series its verdict. fast leaves out what only a reader needs, for simulations.
func judge(all []*series, alpha float64, fast bool) []*outcome {
	out := make([]*outcome, len(all))
	p, least := make([]float64, len(all)), make([]float64, len(all))
	ends := make([][]int, len(all))
	work := each
	if fast {
		work = func(n int, f func(int)) { // a simulation runs many comparisons side by side itself
			for i := range n {
				f(i)
			}
		}
	}
	work(len(all), func(i int) { out[i], ends[i], p[i], least[i] = all[i].measure() })
	adjusted, takesPart, family := holm(p, least, alpha)
	work(len(all), func(i int) {
		out[i].p, out[i].adjusted = p[i], adjusted[i]
		if takesPart[i] {
			all[i].decide(out[i], ends[i], alpha, family, fast)
			return
		}
		o, cells := out[i], len(all)
		o.verdict = TooFew
		o.needed = roundsNeeded(alpha/float64(cells), o.interleaved)
		o.reason = fmt.Sprintf("%d against %d samples cannot reach the p of %.2g that %d rows need: at least %d a side",
			o.oldCount, o.newCount, alpha/float64(cells), cells, o.needed)
	})
	return out
}

// each calls f with 0 to n-1 on all CPUs.
func each(n int, f func(int)) {
	var wg sync.WaitGroup
	workers := min(n, runtime.GOMAXPROCS(0))
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				f(i)
			}
		})
	}
	wg.Wait()
}

// blocks are the ends of the blocks in which the sides alternate, nil where they do not.
func (s *series) blocks() []int {
	if !s.ordered {
		return nil
	}
	sides := make([]bool, len(s.points))
	for k, p := range s.points {
		sides[k] = p.isNew
	}
	return blocks(sides)
}

// measure makes the ratio, the p, and the least p that could have come out.
func (s *series) measure() (o *outcome, ends []int, p, least float64) {
	o = &outcome{low: math.NaN(), high: math.NaN(), detectable: math.NaN()}
	ends = s.blocks()
	o.interleaved = ends != nil
	oldLogs, newLogs := split(s.points)
	o.oldCount, o.newCount = len(oldLogs), len(newLogs)
	oldMedian, newMedian := median(oldLogs), median(newLogs)
	o.old, o.new, o.ratio = math.Exp(oldMedian), math.Exp(newMedian), math.Exp(newMedian-oldMedian)
	return o, ends, test(s.points, ends, s.higher), leastP(s.points, ends)
}

// wide is the number of minimum effects that must lie outside the interval for "same".
const wide = 3

func (s *series) decide(o *outcome, ends []int, alpha float64, family int, fast bool) {
	effect := math.Abs(math.Log(o.ratio))
	matters := effect >= math.Log1p(s.minimum)
	significant := o.adjusted <= alpha
	if fast && !(significant && matters) {
		o.verdict = Same
		return
	}
	if !fast {
		low, high, ok := interval(s.points, ends, 0.95, s.higher)
		if ok {
			// The ratio of medians is another estimate than the one that the interval surrounds; on
			// skewed samples it may fall outside by a hair.
			center := math.Log(o.ratio)
			low, high = math.Min(low, center), math.Max(high, center)
			o.low, o.high = math.Exp(low), math.Exp(high)
			se := (high - low) / (2 * 1.96)
			z := math.Sqrt2 * math.Erfinv(1-alpha/float64(family))
			o.detectable = math.Max(s.minimum, math.Expm1((z+0.84)*se))
		}
		s.shape(o)
	}
	worse := (o.ratio < 1) == s.higher
	switch {
	case significant && matters:
		if !math.IsNaN(s.floor) && effect < math.Log1p(s.floor) {
			o.verdict = Undecided
			o.reason = fmt.Sprintf("%.1f %% is below the noise floor of %.1f %% (%s)", 100*math.Expm1(effect), 100*s.floor, s.floorWhy)
			return
		}
		if why := s.unstable(o, effect); why != "" {
			o.verdict, o.reason = Undecided, why
			return
		}
		o.verdict = Better
		if worse {
			o.verdict = Worse
		}
	case significant:
		o.verdict = Same
		o.reason = fmt.Sprintf("a difference, but of less than the %.3g %% that matter", 100*s.minimum)
	case matters:
		o.verdict = Undecided
		o.reason = fmt.Sprintf("%.1f %% that may be chance: p %.2g after correction", 100*math.Expm1(effect), o.adjusted)
	case math.IsNaN(o.low):
		o.verdict = Undecided
		o.reason = "too few samples for an interval"
	case math.Max(math.Abs(math.Log(o.low)), math.Abs(math.Log(o.high))) > math.Log1p(wide*s.minimum):
		o.verdict = Undecided
		o.reason = fmt.Sprintf("a change of %.3g %% could hide in this noise", 100*wide*s.minimum)
	default:
		o.verdict = Same
	}
}

// shape looks at each side for itself: drift and two levels.
func (s *series) shape(o *outcome) {
	oldLogs, newLogs := split(s.points)
	for _, side := range []struct {
		name string
		logs []float64
	}{{"old", oldLogs}, {"new", newLogs}} {
		if change, found := drift(side.logs); found && s.ordered && math.Abs(math.Log1p(change)) >= math.Log1p(s.minimum) {
			o.warnings = append(o.warnings, fmt.Sprintf("drift: %s changes by %+.1f %% from its first to its last sample", side.name, 100*change))
		}
		if gap, found := phases(side.logs); found && gap >= math.Log1p(s.minimum) {
			o.warnings = append(o.warnings, fmt.Sprintf("two phases: %s stands at two levels, %.1f %% apart", side.name, 100*math.Expm1(gap)))
		}
	}
}

// unstable tells a difference that the order of the runs could have made. Interleaved runs take a slow
// change out; where all old samples come before all new ones nothing does, so a side whose samples
// depend on the ones before them, or that moves by half as much on its own, decides nothing, unless
// the difference is far beyond all that either side did.
func (s *series) unstable(o *outcome, effect float64) string {
	if o.interleaved || !s.ordered {
		return ""
	}
	oldLogs, newLogs := split(s.points)
	const beside = ", and the runs were not interleaved"
	for _, side := range []struct {
		name string
		logs []float64
	}{{"old", oldLogs}, {"new", newLogs}} {
		if len(side.logs) < leastForShape {
			continue
		}
		if span := slices.Max(side.logs) - slices.Min(side.logs); effect >= 2*span {
			continue
		}
		if change, found := drift(side.logs); found && math.Abs(math.Log1p(change)) >= effect/2 {
			return fmt.Sprintf("%s drifts by %+.1f %% by itself%s", side.name, 100*change, beside)
		}
		if gap, found := phases(side.logs); found && gap >= effect/2 {
			return fmt.Sprintf("%s stands at two levels %.1f %% apart by itself%s", side.name, 100*math.Expm1(gap), beside)
		}
		half := len(side.logs) / 2
		moved := math.Abs(median(slices.Clone(side.logs[:half])) - median(slices.Clone(side.logs[half:])))
		if moved >= effect/2 {
			return fmt.Sprintf("%s moves by %.1f %% from its first half to its second by itself%s", side.name, 100*math.Expm1(moved), beside)
		}
		if dependent(side.logs) {
			return fmt.Sprintf("each sample of %s is like the one before it (a drift or phases of the machine)%s", side.name, beside)
		}
	}
	return ""
}
