// Package prefill says how long a prefill worker computes a prompt: from a
// measured table, else from a measured rate, else from floating-point
// operations with a stated utilisation. Times are seconds, lengths tokens.
package prefill

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"hopbench/results/unit"
)

// Model is the time of a prompt. It is immutable.
//
// A prompt alone takes Floor + Work(n). Chunks of it take differences of Work,
// so that attention to the tokens before a chunk is in its price, and prompts
// that begin in the same iteration share its floor.
type Model struct {
	// Provenance is measured, given, or projected.
	Provenance string
	// Source describes the numbers in one line.
	Source string
	// Floor is the time of an iteration however short its prompts.
	Floor float64
	// Low and High are the range of lengths that was measured; 0 and +Inf where
	// the model has no range.
	Low, High float64

	work func(tokens float64) float64
}

// Work is the time of tokens 0 to n of a prompt beyond the floor. It does not decrease.
func (m *Model) Work(n int) float64 { return m.work(float64(n)) }

// Seconds is the time of a prompt of n tokens alone.
func (m *Model) Seconds(n int) float64 { return m.Floor + m.work(float64(n)) }

// Outside says what is not measured about a prompt of n tokens, or is empty.
func (m *Model) Outside(n int) string {
	if float64(n) < m.Low || float64(n) > m.High {
		return fmt.Sprintf("prefill of %d tokens, measured %.0f to %.0f", n, m.Low, m.High)
	}
	return ""
}

// Table interpolates measured times, between points straight in tokens: prefill
// is a floor and work that grows about in proportion, which a straight line between
// logarithms bends (on published times of Qwen3-8B every second row predicts the
// others within 6 % straight, and within 9 % in logarithms). Above the last point the time goes on with the last two points' slope, and
// at least in proportion to the tokens; below the first, with the floor that a
// straight line through the first two points leaves at no tokens.
func Table(points [][2]float64, provenance, source string) (*Model, error) {
	if len(points) == 0 {
		return nil, errors.New("prefill table: no points")
	}
	p := slices.Clone(points)
	slices.SortFunc(p, func(a, b [2]float64) int {
		if a[0] < b[0] {
			return -1
		}
		return 1
	})
	for i, v := range p {
		if !(v[0] >= 1) || !(v[1] > 0) || math.IsInf(v[0], 0) || math.IsInf(v[1], 0) {
			return nil, fmt.Errorf("prefill table: %g tokens in %g s is not a measurement", v[0], v[1])
		}
		if i > 0 && v[0] == p[i-1][0] {
			return nil, fmt.Errorf("prefill table: %g tokens twice", v[0])
		}
		if i > 0 && v[1] < p[i-1][1] {
			return nil, fmt.Errorf("prefill table: %g tokens take %g s, less than %g tokens with %g s", v[0], v[1], p[i-1][0], p[i-1][1])
		}
	}
	m := &Model{Provenance: provenance, Source: source, Low: p[0][0], High: p[len(p)-1][0]}
	if len(p) > 1 {
		slope := (p[1][1] - p[0][1]) / (p[1][0] - p[0][0])
		m.Floor = max(0, p[0][1]-slope*p[0][0])
	}
	floor := m.Floor
	last := len(p) - 1
	grow := 1.0
	if last > 0 {
		grow = max(1, math.Log(p[last][1]/p[last-1][1])/math.Log(p[last][0]/p[last-1][0]))
	}
	m.work = func(n float64) float64 {
		switch {
		case n <= p[0][0]:
			return (p[0][1] - floor) * n / p[0][0]
		case n >= p[last][0]:
			return p[last][1]*math.Pow(n/p[last][0], grow) - floor
		}
		i, _ := slices.BinarySearchFunc(p, n, func(e [2]float64, n float64) int {
			if e[0] < n {
				return -1
			}
			return 1
		})
		a, b := p[i-1], p[i]
		return a[1] + (b[1]-a[1])*(n-a[0])/(b[0]-a[0]) - floor
	}
	return m, nil
}

// Rate is a measured number of tokens a second of one worker, with a floor.
func Rate(tokensPerSecond, floor float64) (*Model, error) {
	if !(tokensPerSecond > 0) || math.IsInf(tokensPerSecond, 0) {
		return nil, fmt.Errorf("prefill rate: %g tokens a second", tokensPerSecond)
	}
	if !(floor >= 0) || math.IsInf(floor, 0) {
		return nil, fmt.Errorf("prefill floor: %g s", floor)
	}
	return &Model{
		Provenance: "given", Source: fmt.Sprintf("%.0f tokens/s a worker, given", tokensPerSecond), Floor: floor, High: math.Inf(1),
		work: func(n float64) float64 { return n / tokensPerSecond },
	}, nil
}

// FLOPs is what the arithmetic of a prompt takes.
type FLOPs struct {
	ActiveParams float64 // parameters a token passes through
	Attention    float64 // sum over full-attention layers of heads x head width
	Windowed     []Window
	Peak         float64 // FLOP/s of one GPU, dense, in the dtype that computes
	GPUs         int     // of one worker
	MFU          float64 // 0 to 1: the share of the peak that is reached
	Floor        float64
	Note         string // where peak and parameters come from
}

// Window is a group of layers that attend to Tokens tokens at most.
type Window struct {
	Width  float64 // sum over the layers of heads x head width
	Tokens float64
}

// Model is the time by operations: 2 for each active parameter and token (a
// multiply and an add), and causal attention's 2 n^2 x heads x width for each
// layer (scores and values, 2 each, half of the square). Sources: Kaplan et
// al., arXiv:2001.08361, section 2.1; Mooncake, FAST'25, equation 1, has the
// same terms. The utilisation is not a constant of a GPU: published prefill
// lies between 5 and 82 % of the peak, by model and length.
func (f FLOPs) Model() (*Model, error) {
	switch {
	case !(f.ActiveParams > 0):
		return nil, fmt.Errorf("prefill by FLOPs: active parameters %g", f.ActiveParams)
	case !(f.Peak > 0):
		return nil, fmt.Errorf("prefill by FLOPs: peak %g", f.Peak)
	case !(f.MFU > 0 && f.MFU <= 1):
		return nil, fmt.Errorf("prefill by FLOPs: MFU %g is not above 0 and at most 1", f.MFU)
	case f.GPUs < 1:
		return nil, fmt.Errorf("prefill by FLOPs: %d GPUs", f.GPUs)
	case !(f.Floor >= 0):
		return nil, fmt.Errorf("prefill by FLOPs: floor %g", f.Floor)
	}
	rate := f.Peak * f.MFU * float64(f.GPUs)
	return &Model{
		Provenance: "projected",
		Source:     strings.TrimSpace(fmt.Sprintf("2 x %.3g billion active parameters and attention, on %s of %.4g TFLOP/s at an assumed MFU of %.0f %% %s", f.ActiveParams/1e9, unit.Count(f.GPUs, "GPU"), f.Peak/1e12, 100*f.MFU, f.Note)),
		Floor:      f.Floor, High: math.Inf(1),
		work: func(n float64) float64 {
			ops := 2*f.ActiveParams*n + 2*f.Attention*n*n
			for _, w := range f.Windowed {
				if n <= w.Tokens {
					ops += 2 * w.Width * n * n
				} else {
					ops += 2*w.Width*w.Tokens*w.Tokens + 4*w.Width*w.Tokens*(n-w.Tokens)
				}
			}
			return ops / rate
		},
	}, nil
}
