package cuda

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"unsafe"
)

// Alloc allocates device memory the classic way (cuMemAlloc): the kind that nvidia-peermem, DMA-BUF export and CUDA IPC
// all take.
func (th *Thread) Alloc(bytes uint64) (Pointer, error) {
	var p C.hb_ptr
	err := th.lib.check("cuMemAlloc_v2", C.hb_cuMemAlloc_v2(th.lib.table, &p, C.size_t(bytes)))
	return Pointer(p), err
}

// Free frees what Alloc gave.
func (th *Thread) Free(p Pointer) error {
	return th.lib.check("cuMemFree_v2", C.hb_cuMemFree_v2(th.lib.table, C.hb_ptr(p)))
}

// Memory is the free and the total memory of the device in bytes.
func (th *Thread) Memory() (available, total uint64, err error) {
	var a, t C.size_t
	err = th.lib.check("cuMemGetInfo_v2", C.hb_cuMemGetInfo_v2(th.lib.table, &a, &t))
	return uint64(a), uint64(t), err
}

// AllocHost allocates page-locked host memory that every context of the process may use (CU_MEMHOSTALLOC_PORTABLE).
// It is not Go heap: the slice must not be used after FreeHost.
func (th *Thread) AllocHost(bytes int) ([]byte, error) {
	var p unsafe.Pointer
	if err := th.lib.check("cuMemHostAlloc", C.hb_cuMemHostAlloc(th.lib.table, &p, C.size_t(bytes), 1)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

// FreeHost frees what AllocHost gave.
func (th *Thread) FreeHost(b []byte) error {
	return th.lib.check("cuMemFreeHost", C.hb_cuMemFreeHost(th.lib.table, unsafe.Pointer(unsafe.SliceData(b))))
}

// Pin page-locks host memory that was mapped outside the Go heap, so that copy engines reach it directly. Unpin ends it.
func (th *Thread) Pin(b []byte) error {
	return th.lib.check("cuMemHostRegister_v2", C.hb_cuMemHostRegister_v2(th.lib.table, unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(b)), 1))
}

// Unpin ends Pin.
func (th *Thread) Unpin(b []byte) error {
	return th.lib.check("cuMemHostUnregister", C.hb_cuMemHostUnregister(th.lib.table, unsafe.Pointer(unsafe.SliceData(b))))
}

// Set fills device memory with one byte, on the stream.
func (th *Thread) Set(p Pointer, value byte, bytes uint64, s Stream) error {
	return th.lib.check("cuMemsetD8Async", C.hb_cuMemsetD8Async(th.lib.table, C.hb_ptr(p), C.uchar(value), C.size_t(bytes), s.handle))
}

// ToDevice queues a copy of host bytes to device memory. The bytes must not be Go heap and must stay until the stream
// has passed the copy; only pinned bytes are copied behind the caller's back, others make the call wait.
func (th *Thread) ToDevice(to Pointer, from []byte, s Stream) error {
	return th.lib.check("cuMemcpyHtoDAsync_v2",
		C.hb_cuMemcpyHtoDAsync_v2(th.lib.table, C.hb_ptr(to), unsafe.Pointer(unsafe.SliceData(from)), C.size_t(len(from)), s.handle))
}

// ToHost queues a copy of device memory to host bytes, with ToDevice's conditions.
func (th *Thread) ToHost(to []byte, from Pointer, s Stream) error {
	return th.lib.check("cuMemcpyDtoHAsync_v2",
		C.hb_cuMemcpyDtoHAsync_v2(th.lib.table, unsafe.Pointer(unsafe.SliceData(to)), C.hb_ptr(from), C.size_t(len(to)), s.handle))
}

// SyncMemops makes every copy that touches the allocation synchronous, which RDMA into it needs
// (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS): else a copy that was reported complete may still be on its way when the NIC reads.
func (th *Thread) SyncMemops(p Pointer) error {
	on := C.int(1)
	const syncMemops = 6
	return th.lib.check("cuPointerSetAttribute", C.hb_cuPointerSetAttribute(th.lib.table, unsafe.Pointer(&on), syncMemops, C.hb_ptr(p)))
}

// Range is the allocation that an address lies in.
func (th *Thread) Range(p Pointer) (base Pointer, bytes uint64, err error) {
	var b C.hb_ptr
	var n C.size_t
	err = th.lib.check("cuMemGetAddressRange_v2", C.hb_cuMemGetAddressRange_v2(th.lib.table, &b, &n, C.hb_ptr(p)))
	return Pointer(b), uint64(n), err
}

// DMABuf exports device memory as a DMA-BUF descriptor for an RDMA device to import. Address and size must be multiples
// of the host page; the descriptor is the caller's to close. Over PCIe is asked for first (the mapping that a NIC needs
// on machines where the default goes another way; drivers of CUDA 12.8 and newer know it) and then without: how says
// which was granted.
func (th *Thread) DMABuf(p Pointer, bytes uint64) (fd int, how string, err error) {
	page := uint64(os.Getpagesize())
	if uint64(p)%page != 0 || bytes%page != 0 || bytes == 0 {
		return -1, "", fmt.Errorf("export device memory: %d bytes at %#x are not whole pages of %d", bytes, uint64(p), page)
	}
	const (
		dmaBufFD    = 1
		mappingPCIe = 1
	)
	for _, try := range []struct {
		flags C.ulonglong
		how   string
	}{{mappingPCIe, "DMA-BUF over PCIe"}, {0, "DMA-BUF"}} {
		got := C.int(-1)
		err = th.lib.check("cuMemGetHandleForAddressRange",
			C.hb_cuMemGetHandleForAddressRange(th.lib.table, unsafe.Pointer(&got), C.hb_ptr(p), C.size_t(bytes), dmaBufFD, try.flags))
		if err == nil {
			return int(got), try.how, nil
		}
	}
	return -1, "", err
}

// FlushRDMAWrites makes what an RDMA device has written visible to the whole system. Devices that order such writes
// themselves need it not, and a driver that does not know the call has no such devices.
func (th *Thread) FlushRDMAWrites() error {
	const currentContext, toAllDevices = 0, 200
	err := th.lib.check("cuFlushGPUDirectRDMAWrites", C.hb_cuFlushGPUDirectRDMAWrites(th.lib.table, currentContext, toAllDevices))
	var e *Error
	if errors.As(err, &e) && (e.Code == codeAbsent || e.Code == codeNotSupported) {
		return nil
	}
	return err
}
