package cuda

/*
#cgo CFLAGS: -std=gnu17 -Wall -Wextra
#cgo LDFLAGS: -ldl -pthread
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"os"
	"sync/atomic"
	"unsafe"
)

// Library is an opened libcuda after cuInit.
type Library struct {
	table *C.struct_hb_cuda
	// users are the open Library and its open contexts: the last one to go takes the table along.
	users atomic.Int32
}

// Open opens a driver library by name or path ("" means [DefaultLibrary]) and initialises it. An error is an
// [*Unavailable] that says which of the ways to have no GPU this is.
func Open(path string) (*Library, error) {
	return openAt(path, "/")
}

// openAt reads what explains a refusal below root.
func openAt(path, root string) (*Library, error) {
	if path == "" {
		path = DefaultLibrary
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var table *C.struct_hb_cuda
	var words [2048]C.char
	why := C.hb_cuda_open(name, &table, &words[0], C.size_t(len(words)))
	l := &Library{table: table}
	l.users.Store(1)
	u := &Unavailable{Library: path, Kernel: kernelDriver(root), OnBus: onBus(root)}
	if table != nil {
		u.Library = l.Path()
		u.API = l.api()
	}
	switch why {
	case 0:
	case 1:
		u.State, u.Detail = NoLibrary, C.GoString(&words[0])
		return nil, u
	default:
		u.State, u.Detail = TooOld, C.GoString(&words[0])
		C.hb_cuda_close(table)
		return nil, u
	}
	if err := l.check("cuInit", C.hb_cuInit(table, 0)); err != nil {
		u.State, u.Err = stateOf(err), err
		u.Visible, u.VisibleSet = os.LookupEnv("CUDA_VISIBLE_DEVICES")
		C.hb_cuda_close(table)
		return nil, u
	}
	return l, nil
}

// Close gives the library back; contexts that are still open keep it. The driver itself stays initialised in the process.
func (l *Library) Close() {
	if l.users.Add(-1) == 0 {
		C.hb_cuda_close(l.table)
	}
}

// Path is the file that the loader chose.
func (l *Library) Path() string {
	var path [4096]C.char
	C.hb_cuda_path(l.table, &path[0], C.size_t(len(path)))
	return C.GoString(&path[0])
}

// Double is what the library says of itself where it is a stand-in for tests, and empty for a real one.
func (l *Library) Double() string {
	if l.table.double_name == nil {
		return ""
	}
	return C.GoString(l.table.double_name)
}

// api is cuDriverGetVersion, which works before cuInit: 1000 x major + 10 x minor; 0 where it fails.
func (l *Library) api() int {
	var v C.int
	if l.table.cuDriverGetVersion == nil || C.hb_cuDriverGetVersion(l.table, &v) != 0 {
		return 0
	}
	return int(v)
}

// Version is the newest CUDA version that the driver supports, as "12.8", followed by what a double says of itself.
func (l *Library) Version() string {
	v := apiVersion(l.api())
	if d := l.Double(); d != "" {
		v += " (" + d + ")"
	}
	return v
}
