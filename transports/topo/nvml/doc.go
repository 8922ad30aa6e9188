// Package nvml asks NVIDIA's management library about the GPUs of the running host, for [topo.Options].
//
// The library is loaded at run time. A function that the installed driver lacks would end the process when called, so each
// is looked up before its first call; what is missing stays absent.
package nvml

import "hopbench/transports/topo"

// Source reads NVML. The zero value loads the library by its usual name.
type Source struct {
	// Path is the library to load instead; empty for the usual one.
	Path string
}

var _ topo.NVMLSource = Source{}
