package stat

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Confidence is the level of the intervals that a cell carries.
const Confidence = 0.95

// Within is how near to the median both ends of its interval must be for a cell to have converged:
// 2.5 %, netperf's default for its repeated runs.
const Within = 0.025

// Interval is a median and the bounds that hold the true median with the given confidence.
type Interval struct {
	Center     float64  // the median, in the values' unit
	Low, High  *float64 // nil where there are too few values for a bound
	Confidence float64  // the level that the bounds really have, at least what was asked for; 0 without bounds
	N          int      // values
	Warnings   []string // to be shown beside the figure
}

// Median returns the median of the values and its interval by order statistics. The order of
// the values does not matter and they are not changed. No values, or one that is NaN or infinite, is
// an error.
func Median(values []float64, confidence float64) (Interval, error) {
	if err := check(values); err != nil {
		return Interval{}, err
	}
	if !(confidence > 0 && confidence < 1) {
		return Interval{}, fmt.Errorf("confidence %v: not between 0 and 1", confidence)
	}
	sample := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	s := benchmath.AssumeNothing.Summary(sample, confidence)
	out := Interval{Center: s.Center, N: len(values)}
	for _, w := range s.Warnings {
		out.Warnings = append(out.Warnings, w.Error())
	}
	if !math.IsInf(s.Lo, 0) && !math.IsInf(s.Hi, 0) {
		out.Low, out.High, out.Confidence = &s.Lo, &s.Hi, s.Confidence
	}
	return out, nil
}

// Center returns the median alone, for samples too many for an interval to be asked for. The values are not changed. No
// values, or one that is NaN or infinite, is an error.
func Center(values []float64) (float64, error) {
	if err := check(values); err != nil {
		return 0, err
	}
	return median(values), nil
}

// Spread is the larger distance of a bound from the median, as a part of the median. ok is false where
// a bound is absent or the median is 0.
func (i Interval) Spread() (spread float64, ok bool) {
	if i.Low == nil || i.High == nil || i.Center == 0 {
		return 0, false
	}
	return max(*i.High-i.Center, i.Center-*i.Low) / math.Abs(i.Center), true
}

// Converged reports whether the rounds are enough: the 95 % interval of their median is within 2.5 %
// of it on both sides. Fewer than six values never converge.
func Converged(values []float64) bool {
	i, err := Median(values, Confidence)
	if err != nil {
		return false
	}
	spread, ok := i.Spread()
	return ok && spread <= Within
}

var errNone = errors.New("no samples")

func check(values []float64) error {
	if len(values) == 0 {
		return errNone
	}
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("sample %d is %v", i, v)
		}
	}
	return nil
}
