package results

import (
	"errors"
	"fmt"
	"math"

	"hopbench/results/stat"
)

// Round is what one round of a bandwidth cell gave. Times are seconds on one monotonic clock.
type Round struct {
	Bytes         float64   // payload that was confirmed
	Start         float64   // the first post
	End           float64   // the last confirmation
	Operations    int64     // confirmed, over all streams
	Stamps        []float64 // confirmations that were stamped, of all streams; may be empty
	BytesPerStamp float64   // payload that one stamp stands for
	StampEvery    int       // completions that one stamp stands for
}

// BandwidthOf makes a cell's bandwidth from its rounds, in their order: the median of the rounds
// with its 95 % interval, and the slowest and fastest window of any of them. converged says whether the interval is within
// 2.5 %. The warnings go into the cell. No round, or one without time or bytes, is an error.
func BandwidthOf(rounds []Round) (b *Bandwidth, converged bool, warnings []string, err error) {
	if len(rounds) == 0 {
		return nil, false, nil, errors.New("bandwidth: no rounds")
	}
	b = &Bandwidth{}
	var slowest, fastest *stat.Window
	for i, r := range rounds {
		seconds := r.End - r.Start
		if !(seconds > 0) || !(r.Bytes > 0) || math.IsInf(seconds, 0) || math.IsInf(r.Bytes, 0) {
			return nil, false, nil, fmt.Errorf("bandwidth: round %d: %v bytes in %v s", i, r.Bytes, seconds)
		}
		b.Rounds = append(b.Rounds, r.Bytes/seconds)
		b.RoundsSeconds = append(b.RoundsSeconds, seconds)
		b.RoundsOperations = append(b.RoundsOperations, r.Operations)
		if w, ok := stat.SlowestWindow(r.Start, r.Stamps, r.BytesPerStamp, r.StampEvery); ok && (slowest == nil || w.BytesPerSecond < slowest.BytesPerSecond) {
			slowest = &w
		}
		if w, ok := stat.FastestWindow(r.Start, r.Stamps, r.BytesPerStamp, r.StampEvery); ok && (fastest == nil || w.BytesPerSecond > fastest.BytesPerSecond) {
			fastest = &w
		}
	}
	i, err := stat.Median(b.Rounds, stat.Confidence)
	if err != nil {
		return nil, false, nil, fmt.Errorf("bandwidth: %w", err)
	}
	b.BytesPerSecond, b.Low, b.High = i.Center, i.Low, i.High
	if i.Low != nil {
		b.Confidence = &i.Confidence
	}
	if slowest != nil {
		b.SlowestWindowBytesPerSecond, b.WindowSeconds = &slowest.BytesPerSecond, &slowest.Seconds
		b.BestWindowBytesPerSecond = &fastest.BytesPerSecond
	}
	warnings = append(i.Warnings, stat.FindTrend(b.Rounds).Warnings()...)
	return b, stat.Converged(b.Rounds), warnings, nil
}

// LatencyOf makes a cell's latency from the samples of its rounds, in seconds, in their order. Percentiles
// come from all samples together, the interval from the rounds' medians; converged says whether it is within 2.5 %. The
// warnings go into the cell. No sample at all, or a round without one, is an error.
func LatencyOf(rounds [][]float64) (l *Latency, converged bool, warnings []string, err error) {
	if len(rounds) == 0 {
		return nil, false, nil, errors.New("latency: no rounds")
	}
	all := stat.NewHistogram()
	l = &Latency{PercentileRule: stat.PercentileRule}
	for i, r := range rounds {
		m, err := stat.Center(r)
		if err != nil {
			return nil, false, nil, fmt.Errorf("latency: round %d: %w", i, err)
		}
		l.RoundsP50Seconds = append(l.RoundsP50Seconds, m)
		if err := all.Record(r...); err != nil {
			return nil, false, nil, fmt.Errorf("latency: round %d: %w", i, err)
		}
	}
	l.Samples = all.Count()
	for _, f := range []struct {
		to  **float64
		get func() (float64, bool)
	}{
		{&l.MinSeconds, all.Min}, {&l.MaxSeconds, all.Max}, {&l.MeanSeconds, all.Mean},
		{&l.P50Seconds, func() (float64, bool) { return all.Quantile(0.5) }},
		{&l.P90Seconds, func() (float64, bool) { return all.Quantile(0.9) }},
		{&l.P99Seconds, func() (float64, bool) { return all.Quantile(0.99) }},
		{&l.P999Seconds, func() (float64, bool) { return all.Quantile(0.999) }},
	} {
		if v, ok := f.get(); ok {
			*f.to = &v
		}
	}
	if l.P50Seconds == nil { // one sample is its own median
		v := l.RoundsP50Seconds[0]
		l.P50Seconds = &v
	}
	l.LargestSeconds = all.Largest()
	if l.Distribution, err = all.Encode(); err != nil {
		return nil, false, nil, fmt.Errorf("latency: %w", err)
	}
	unit, bound := stat.HistogramUnit, stat.RelativeError
	l.DistributionUnit, l.RelativeError = &unit, &bound
	i, err := stat.Median(l.RoundsP50Seconds, stat.Confidence)
	if err != nil {
		return nil, false, nil, fmt.Errorf("latency: %w", err)
	}
	l.P50LowSeconds, l.P50HighSeconds = i.Low, i.High
	if i.Low != nil {
		l.Confidence = &i.Confidence
	}
	warnings = append(i.Warnings, stat.FindTrend(l.RoundsP50Seconds).Warnings()...)
	return l, stat.Converged(l.RoundsP50Seconds), warnings, nil
}

// Histogram decodes the distribution of a latency's samples, for other tools' percentile rules and for
// plots. A latency without one is an error.
func (l *Latency) Histogram() (*stat.Histogram, error) {
	if l.Distribution == "" {
		return nil, errors.New("the record carries no distribution")
	}
	if l.DistributionUnit == nil || *l.DistributionUnit != stat.HistogramUnit {
		return nil, errors.New("the distribution counts another unit")
	}
	return stat.DecodeHistogram(l.Distribution)
}
