// Package mem gives the memory that transports move: buffers outside the Go heap, of the kinds that a KV cache lives in.
//
// A [Buffer] is allocated once, touched once (so that the first measured byte meets no page fault), filled and verified
// outside the clock, and closed after the last region that was registered over it. Its [Facts] say what was asked and what
// the kernel gave: huge pages and NUMA placement are requests, never assumed.
package mem

import (
	"fmt"
	"strconv"
	"strings"

	"hopbench/transports/fault"
)

// Kind names where a buffer lives.
type Kind string

const (
	Host   Kind = "host"   // pageable host memory
	Pinned Kind = "pinned" // page-locked host memory that a GPU's copy engines reach directly
	CUDA   Kind = "cuda"   // device memory of one GPU
)

// Spec is what is asked for. The zero value of each field but Bytes means: no wish.
type Spec struct {
	Kind      Kind
	Device    string // for CUDA: index, UUID or MIG name; empty otherwise
	Bytes     uint64
	HugePages string // "", "transparent" (madvise), "2MiB" or "1GiB" (reserved pages; fails if there are none)
	NUMANode  *int   // preferred node of host memory
}

// Buffer is a piece of memory that a transport can register.
type Buffer interface {
	// Facts is what was asked for and what was given.
	Facts() Facts
	// Len is the size in bytes.
	Len() uint64
	// Bytes is the memory itself where the CPU may touch it, nil for device memory. It is not Go heap: it must not be used after Close.
	Bytes() []byte
	// Addr is the address that a device library registers: virtual for host memory, a device pointer for CUDA.
	Addr() uintptr
	// CopyIn and CopyOut move bytes between the Go heap and the buffer at an offset. They are for filling and verifying, never inside a clock.
	CopyIn(off uint64, src []byte) error
	CopyOut(off uint64, dst []byte) error
	// Close frees the memory. A second Close does nothing.
	Close() error
}

// Facts is the record of a buffer, for the result file.
type Facts struct {
	Kind       Kind   `json:"kind"`
	Device     string `json:"device,omitempty"`
	Bytes      uint64 `json:"bytes"`
	PageBytes  uint64 `json:"page_bytes,omitempty"` // of the pages that back it, as far as the kernel says
	HugeAsked  string `json:"huge_asked,omitempty"` // Spec.HugePages
	HugeBytes  uint64 `json:"huge_bytes,omitempty"` // how much of it huge pages back
	NUMAAsked  *int   `json:"numa_asked,omitempty"` //
	NUMANode   *int   `json:"numa_node,omitempty"`  // where its first page lies; absent where the kernel does not say
	Allocation string `json:"allocation,omitempty"` // "mmap", "cuMemAlloc", "cuMemHostAlloc"
}

// ParseKind reads "host", "pinned" or "cuda:N" (N an index, a GPU UUID or a MIG name) as a flag gives it.
func ParseKind(s string) (Kind, string, error) {
	kind, device, found := strings.Cut(s, ":")
	switch Kind(kind) {
	case Host, Pinned:
		if found {
			return "", "", fmt.Errorf("memory %q: %s takes no device", s, kind)
		}
		return Kind(kind), "", nil
	case CUDA:
		if !found {
			return CUDA, "0", nil
		}
		if n, err := strconv.Atoi(device); device == "" || (err == nil && n < 0) {
			return "", "", fmt.Errorf("memory %q: want cuda:N with N an index, a UUID or a MIG name", s)
		}
		return CUDA, device, nil
	}
	return "", "", fmt.Errorf("memory %q: want host, pinned or cuda:N", s)
}

// Name is the kind as a flag and a result row give it: "host", "cuda:1".
func (s Spec) Name() string {
	if s.Kind == CUDA {
		return "cuda:" + s.Device
	}
	return string(s.Kind)
}

// Allocate gives a buffer, zeroed and touched. Errors are *fault.Error: memory.exhausted where the kernel has no room,
// memory.kind where this build or host has no such memory.
func Allocate(s Spec) (Buffer, error) {
	if s.Bytes == 0 {
		return nil, fault.New(fault.MemoryKind, "allocate "+s.Name()+" memory", "", "a buffer needs at least one byte")
	}
	switch s.Kind {
	case Host, "":
		return allocateHost(s)
	case Pinned, CUDA:
		return allocateDevice(s)
	}
	return nil, fault.New(fault.MemoryKind, "allocate memory", "", "there is no kind %q", s.Kind)
}

// inRange says whether [off, off+n) lies in a buffer of size bytes, without overflow.
func inRange(off, n, size uint64) error {
	if off > size || n > size-off {
		return fmt.Errorf("bytes %d to %d lie outside a buffer of %d", off, off+n, size)
	}
	return nil
}
