package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// Device is what the driver says of one visible GPU. Ordinals count the visible ones: CUDA_VISIBLE_DEVICES has been
// applied, so NVML's index of the same GPU may be another. PCI bus ids agree between the two.
type Device struct {
	Ordinal       int
	Name          string
	UUID          string // "GPU-…", "MIG-…" for an instance
	BusID         string // "0000:18:00.0", lower case
	MIG           bool
	Bytes         uint64 // total memory
	Compute       string // "9.0"
	CopyEngines   int
	GPUDirectRDMA bool
	DMABuf        bool // its memory can be exported as a DMA-BUF descriptor
}

// Codes that callers tell apart.
const (
	codeOutOfMemory       = 2
	codePeerUnsupported   = 217
	codeNotReady          = 600
	codePeerAlready       = 704
	codeNotSupported      = 801
	codeAbsent            = -1 // not CUDA's: the loaded library has no such function
	codeAlreadyRegistered = 712
)

// Error is the refusal of one call of the driver.
type Error struct {
	Op   string // the function: "cuMemAlloc_v2"
	Code int    // CUresult
	Name string // "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // the driver's own sentence
}

// Error names the call, the code and the driver's sentence.
func (e *Error) Error() string {
	if e.Code == codeAbsent {
		return e.Op + ": the installed driver has no such function"
	}
	if e.Text == "" {
		return fmt.Sprintf("%s: %s", e.Op, e.Native())
	}
	return fmt.Sprintf("%s: %s: %s", e.Op, e.Native(), e.Text)
}

// Native is the code as it is looked up: "CUDA_ERROR_OUT_OF_MEMORY (2)".
func (e *Error) Native() string {
	return fmt.Sprintf("%s (%d)", e.Name, e.Code)
}

// DefaultLibrary is the name under which the driver installs its user library. The name without ".1" belongs to the
// toolkit's stub and is not tried.
const DefaultLibrary = "libcuda.so.1"

func apiVersion(v int) string {
	if v <= 0 {
		return "of unknown version"
	}
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10)
}

// kernelDriver is the version of the kernel's NVIDIA module below root, or empty.
func kernelDriver(root string) string {
	text, err := os.ReadFile(filepath.Join(root, "proc/driver/nvidia/version"))
	if err != nil {
		return ""
	}
	// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.163.01  Release Build  (...)"
	line, _, _ := strings.Cut(string(text), "\n")
	for _, word := range strings.Fields(line) {
		if strings.Count(word, ".") >= 1 && strings.Trim(word, "0123456789.") == "" {
			return word
		}
	}
	return ""
}

// onBus counts NVIDIA's VGA and 3D controllers below root.
func onBus(root string) int {
	n := 0
	vendors, _ := filepath.Glob(filepath.Join(root, "sys/bus/pci/devices/*/vendor"))
	for _, v := range vendors {
		vendor, _ := os.ReadFile(v)
		class, _ := os.ReadFile(filepath.Join(filepath.Dir(v), "class"))
		if strings.TrimSpace(string(vendor)) == "0x10de" && strings.HasPrefix(string(class), "0x03") {
			n++
		}
	}
	return n
}

// Piece is Length bytes at an offset of the local and at an offset of the remote side. Its layout is that of
// transports.Piece, which native loops read as it is.
type Piece struct {
	Local, Remote, Length uint64
}

// Side is one end of a copy: an address, and the context whose device holds it (nil for host memory, which must not be
// Go heap).
type Side struct {
	Address uint64
	Context *Context
}

// Way is a direction: from Local to Remote, or back where Read is set.
type Way struct {
	Local, Remote Side
	Read          bool
}

// Loop is what a native loop is given. Operation i is Pieces[Ends[i-1]:Ends[i]]; the operations repeat in order. Times
// are nanoseconds of CLOCK_MONOTONIC.
type Loop struct {
	Way            Way
	Pieces         []Piece
	Ends           []uint32
	Stream         Stream
	Events         []Event // as many as operations may be in flight
	Count          uint64  // operations; 0 leaves the end to Deadline
	Deadline       int64   // 0 leaves the end to Count
	BytesPerSecond float64 // pace; 0 for none
	Spin, Stall    time.Duration
	Stop           *atomic.Uint32
	Stamps         []int64
	Every          uint64
	// Notify, where set, is a pair of eventfds: one that tells the target that an operation has landed, one for its reply.
	Notify *[2]int
}

// Done is what a native loop gives back.
type Done struct {
	Start, FirstUse int64
	Ops, Bytes      uint64
	Stamps          int // entries of Loop.Stamps that are filled
}

// Echo is the way back of a ping-pong, queued on the other device's stream.
type Echo struct {
	Way     Way
	Stream  Stream
	Event   Event
	Context *Context // of the stream and the event
}

// Pointer is an address of device memory. The processor must not follow it.
type Pointer uint64

// ErrStalled means that the device did not pass an event within the limit.
var ErrStalled = errors.New("the device made no progress")
