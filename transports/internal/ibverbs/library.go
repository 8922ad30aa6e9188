//go:build cgo

package ibverbs

/*
#cgo CFLAGS: -std=gnu17 -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"syscall"
	"unsafe"
)

// Library is the opened library. There is one a process: it is never closed, since its providers stay for life.
type Library struct {
	Path   string // the file that the loader chose
	Absent string // optional functions that it lacks, each NAME@VERSION
	Double string // what a stand-in for tests calls itself; empty for the real library
}

var loading sync.Mutex

// Load opens a library by name or path ("" means [DefaultLibrary]). The first that opens stays: later calls give the same.
func Load(name string) (*Library, error) {
	if name == "" {
		name = DefaultLibrary
	}
	loading.Lock()
	defer loading.Unlock()
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	var r C.struct_hv_library
	C.hv_load(c, &r)
	if r.headers == 0 {
		return nil, ErrNoHeaders
	}
	l := &Library{Path: C.GoString(&r.path[0]), Absent: C.GoString(&r.optional[0]), Double: C.GoString(&r.marker[0])}
	if r.loaded == 0 {
		return nil, &LoadError{Name: name, Path: l.Path, Text: C.GoString(&r.error[0]), Missing: C.GoString(&r.missing[0])}
	}
	return l, nil
}

// errno gives a call's answer as an error: nil for 0.
func errno(call string, e C.int) error {
	if e == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", call, syscall.Errno(e))
}

// Devices lists what the library can open. ENOSYS in the error means that the kernel has no RDMA stack loaded.
func (l *Library) Devices() ([]Device, error) {
	var list [256]C.struct_hv_device
	var n C.int
	if err := errno("ibv_get_device_list", C.hv_devices(&list[0], C.int(len(list)), &n)); err != nil {
		return nil, err
	}
	var out []Device
	for i := range list[:min(int(n), len(list))] {
		d := &list[i]
		out = append(out, Device{Name: C.GoString(&d.name[0]), Node: C.GoString(&d.node[0]), GUID: uint64(d.guid),
			NodeType: int(d.node_type), Transport: int(d.transport)})
	}
	return out, nil
}

// StatusText is the library's words for a completion's status.
func StatusText(status int) string { return C.GoString(C.hv_status_text(C.int(status))) }

// Now is CLOCK_MONOTONIC in nanoseconds, the clock of the loops.
func Now() int64 { return int64(C.hv_now()) }
