package prefill

import (
	"fmt"
	"strings"
)

// GPU is a peak rate with its source.
type GPU struct {
	Name   string
	Peak   float64 // dense BF16 FLOP/s: data sheets print twice that, "with sparsity"
	Source string
}

// GPUs lists the known ones. Peaks are NVIDIA's data sheets', without sparsity.
func GPUs() []GPU {
	return []GPU{
		{"a100", 312e12, "NVIDIA A100 data sheet: 312 TFLOPS BF16 (624 with sparsity)"},
		{"h100", 989e12, "NVIDIA H100 SXM data sheet: 1,979 TFLOPS BF16 with sparsity"},
		{"h200", 989e12, "NVIDIA H200 SXM data sheet: 1,979 TFLOPS BF16 with sparsity"},
		{"h800", 989e12, "as H100 SXM: the export variant differs in its links"},
		{"b200", 2250e12, "NVIDIA HGX B200 data sheet: 4.5 PFLOPS BF16 a GPU with sparsity"},
	}
}

// FindGPU finds a GPU by name; the error lists those that are known.
func FindGPU(name string) (GPU, error) {
	var names []string
	for _, g := range GPUs() {
		if strings.EqualFold(g.Name, name) {
			return g, nil
		}
		names = append(names, g.Name)
	}
	return GPU{}, fmt.Errorf("GPU %q is not known; known are %s", name, strings.Join(names, ", "))
}
