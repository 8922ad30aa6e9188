package ttft

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft/prefill"
)

// PrefillByFLOPs is a model's prefill time by arithmetic, for where no
// measurement is at hand. params are the parameters active for a token; 0
// takes the catalogue's figure, and its absence is an error.
func PrefillByFLOPs(m *kvcache.Model, params float64, gpu prefill.GPU, gpus int, mfu, floor float64) (*prefill.Model, error) {
	note := "(parameters given; " + gpu.Source + ")"
	if params == 0 {
		if m.ActiveParams == nil {
			return nil, errors.New("the number of active parameters is not known for " + m.Name + ": give it, or a measured prefill rate or table")
		}
		params = float64(*m.ActiveParams)
		note = "(parameters of the catalogue; " + gpu.Source + ")"
	}
	f := prefill.FLOPs{ActiveParams: params, Peak: gpu.Peak, GPUs: gpus, MFU: mfu, Floor: floor, Note: note}
	windows := map[int]float64{}
	for _, l := range m.Layers {
		heads := float64(m.Heads)
		switch l.Kind {
		case kvcache.Full, kvcache.Shared:
			f.Attention += heads * float64(l.KDim+l.VDim) / 2
		case kvcache.Window, kvcache.Chunked:
			windows[l.Window] += heads * float64(l.KDim+l.VDim) / 2
		case kvcache.Latent:
			// Prefill works on expanded heads: rope and 128 for scores, 128 for values,
			// as in every published MLA model.
			f.Attention += heads * float64(l.RopeDim+128+128) / 2
		case kvcache.Compressed:
			windows[max(1, l.Window)] += heads * float64(l.KDim)
			if l.Ratio > 0 {
				f.Attention += heads * float64(l.KDim) / float64(l.Ratio)
			}
		}
	}
	for _, tokens := range slices.Sorted(maps.Keys(windows)) { // in one order: sums of floats differ in their last bits by it
		if tokens > 0 {
			f.Windowed = append(f.Windowed, prefill.Window{Width: windows[tokens], Tokens: float64(tokens)})
		}
	}
	p, err := f.Model()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	return p, nil
}
