// Package stat turns samples into the figures of a cell: the median with its
// confidence interval, percentiles, the slowest window, drift. It takes plain slices in
// seconds, bytes or bytes a second and knows nothing of cells.
//
// The median and its interval are golang.org/x/perf/benchmath's, by order statistics,
// with no assumption about the distribution; a 95 % interval needs six values.
// Percentiles come from an HdrHistogram of fixed relative error, by nearest rank.
// A figure that the samples do not support is absent (ok is false, a bound is
// nil), never 0.
package stat
