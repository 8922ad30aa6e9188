//go:build !cgo

package nvml

import "hopbench/transports/topo"

// ReadNVML says that this program has no binding of the library.
func (Source) ReadNVML() topo.NVML { return topo.NVML{Error: "built without cgo"} }
