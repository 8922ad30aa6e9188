package matrix

import "math"

// Distribution is where figures lie: the rank of q of n is the least that q times n does not exceed.
type Distribution struct {
	Count  int     `json:"count"`
	Min    float64 `json:"min"`
	P5     float64 `json:"p5"`
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
}

// DistributionOf is where the figures lie, which are in ascending order; nil of none.
func DistributionOf(sorted []float64) *Distribution {
	n := len(sorted)
	if n == 0 {
		return nil
	}
	return &Distribution{n, sorted[0], quantile(sorted, 0.05), median(sorted), quantile(sorted, 0.95), sorted[n-1]}
}

// quantile is the nearest rank of figures in ascending order.
func quantile(sorted []float64, q float64) float64 {
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(q*float64(len(sorted))-1e-9))-1))]
}

// median is that of figures in ascending order; the mean of the two in the middle.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[n/2] + sorted[(n-1)/2]) / 2
}
