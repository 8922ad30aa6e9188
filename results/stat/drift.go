package stat

import (
	"fmt"
	"math"
	"slices"
)

// minTrend is the least number of rounds that a trend is looked for in.
const minTrend = 10

// Trend is what the order of the rounds says.
type Trend struct {
	Drift  bool    // the values rise or fall over the run by more than chance and more than Within
	Change float64 // relative change from the first third's median to the last third's: -0.1 is 10 % less
	P      float64 // two-sided p-value of the Mann-Kendall test that there is no trend
	Steps  bool    // the values stand in two groups with a gap between: the machine had two states
	Low    float64 // median of the lower group where Steps
	High   float64 // median of the upper group where Steps
}

// FindTrend looks for drift and for two phases in the rounds of a cell, in the order in which they
// ran. Under ten values nothing is found. Drift is by the Mann-Kendall test (H. B. Mann, Econometrica 13, 1945;
// M. G. Kendall, Rank Correlation Methods, with the correction for ties) at the level 0.01, and only where the change
// is also more than Within. Two phases are two groups, each of at least a fifth of the values, whose gap is more than
// Within of the median and more than twice the spread of either group.
func FindTrend(values []float64) Trend {
	if len(values) < minTrend || check(values) != nil {
		return Trend{P: 1}
	}
	t := Trend{P: mannKendall(values)}
	third := len(values) / 3
	first, last := median(values[:third]), median(values[len(values)-third:])
	if first != 0 {
		t.Change = last/first - 1
	}
	t.Drift = t.P < 0.01 && math.Abs(t.Change) > Within
	t.Steps, t.Low, t.High = steps(values)
	return t
}

// Warnings are the lines to show beside a figure; none where nothing was found.
func (t Trend) Warnings() []string {
	var out []string
	if t.Drift {
		out = append(out, fmt.Sprintf("the rounds drift: %+.1f %% from the first third to the last (Mann-Kendall p = %.2g)", 100*t.Change, t.P))
	}
	if t.Steps {
		out = append(out, fmt.Sprintf("the rounds stand in two groups, %+.1f %% apart: the median hides a change of state", 100*(t.High/t.Low-1)))
	}
	return out
}

// mannKendall is the two-sided p-value of the Mann-Kendall trend test, by the normal approximation with
// correction for continuity and ties.
func mannKendall(v []float64) float64 {
	n := len(v)
	s := 0
	for i := range v {
		for j := i + 1; j < n; j++ {
			switch {
			case v[j] > v[i]:
				s++
			case v[j] < v[i]:
				s--
			}
		}
	}
	f := float64(n)
	variance := f * (f - 1) * (2*f + 5)
	sorted := slices.Sorted(slices.Values(v))
	for i := 0; i < n; {
		j := i
		for j < n && sorted[j] == sorted[i] {
			j++
		}
		t := float64(j - i)
		variance -= t * (t - 1) * (2*t + 5)
		i = j
	}
	variance /= 18
	if variance <= 0 || s == 0 {
		return 1
	}
	z := (math.Abs(float64(s)) - 1) / math.Sqrt(variance)
	return math.Erfc(z / math.Sqrt2)
}

func steps(v []float64) (found bool, low, high float64) {
	s := slices.Sorted(slices.Values(v))
	least := max(2, (len(s)+4)/5)
	cut, gap := 0, 0.0
	for i := least; i <= len(s)-least; i++ {
		if g := s[i] - s[i-1]; g > gap {
			cut, gap = i, g
		}
	}
	if cut == 0 {
		return false, 0, 0
	}
	middle := math.Abs(median(s))
	spread := max(s[cut-1]-s[0], s[len(s)-1]-s[cut])
	low, high = median(s[:cut]), median(s[cut:])
	return low > 0 && gap > Within*middle && gap > 2*spread, low, high
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return s[n/2-1]/2 + s[n/2]/2
}
