package mem

import "hopbench/transports/fault"

// allocateDevice gives pinned and device memory.
func allocateDevice(s Spec) (Buffer, error) {
	return nil, fault.New(fault.MemoryKind, "allocate "+s.Name()+" memory", "", "this build has no CUDA back end")
}
