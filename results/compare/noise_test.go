package compare

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// The noise floor: a difference that the same build shows against itself is not a verdict.
func TestNoiseFloorFromRunsOfOneBuild(t *testing.T) {
	m := newMaker(t)
	random := rand.New(rand.NewPCG(4, 4))
	var noise []string
	for i := range 32 { // whole runs differ by 20 %
		noise = append(noise, m.file(i, withRounds(plain(64), 1e9*math.Exp(0.2*random.NormFloat64()))))
	}
	old, new := m.interleaved(16, []int64{64}, 64, 0.93, 0.01)
	if v := verdictOf(compared(t, old, new, Options{}), 64); v != Worse {
		t.Errorf("without A/A runs: %s", v)
	}
	r := compared(t, old, new, Options{Noise: m.load(noise...)})
	if row := r.Rows[0]; row.Verdict != Undecided || !strings.Contains(row.Reason, "noise floor") || *row.NoiseFloor < 0.07 {
		t.Errorf("%+v", row)
	}
	// Two runs a side whose medians differ more inside a side than between the sides.
	a := m.load(m.file(0, withRounds(plain(64), 100, 101, 102, 103, 104, 105)), m.file(3, withRounds(plain(64), 120, 121, 122, 123, 124, 125)))
	b := m.load(m.file(1, withRounds(plain(64), 96, 95.5, 96.5, 97.2, 97.4, 98)), m.file(2, withRounds(plain(64), 112, 112.5, 113.5, 114.5, 115, 116)))
	row := compared(t, a, b, Options{}).Rows[0]
	if row.Verdict == Worse || !strings.Contains(row.NoiseFloorSource, "pairs of runs") {
		t.Errorf("%+v", row)
	}
}

func TestDriftAndPhasesAreSaid(t *testing.T) {
	m := newMaker(t)
	falling, phased := make([]float64, 16), make([]float64, 16)
	random := rand.New(rand.NewPCG(6, 6))
	for i := range 16 {
		falling[i] = 1e9 * (1 - 0.02*float64(i)) * (1 + 0.002*random.NormFloat64())
		phased[i] = 1e9 * (1 + 0.01*random.NormFloat64())
		if i >= 9 {
			phased[i] *= 0.7
		}
	}
	flat := make([]float64, 16)
	for i := range flat {
		flat[i] = 0.75e9 * (1 + 0.01*random.NormFloat64())
	}
	r := compared(t, m.load(m.file(0, withRounds(plain(64), falling...))), m.load(m.file(1, withRounds(plain(64), flat...))), Options{})
	row := r.Rows[0]
	if row.Verdict != Undecided || !strings.Contains(strings.Join(row.Warnings, " "), "drift: old") || !strings.Contains(row.Reason, "drifts") {
		t.Errorf("%+v", row)
	}
	r = compared(t, m.load(m.file(2, withRounds(plain(64), phased...))), m.load(m.file(3, withRounds(plain(64), flat...))), Options{})
	row = r.Rows[0]
	if row.Verdict == Worse || !strings.Contains(strings.Join(row.Warnings, " "), "two phases: old") {
		t.Errorf("%+v", row)
	}
}
