//go:build cgo

package ibverbs

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"syscall"
	"unsafe"
)

// Context is an open device with its protection domain.
type Context struct{ c *C.hv_context }

// Open opens a device by name. ENODEV: the library does not list it; EACCES, EPERM: its node is not for this user.
func (l *Library) Open(name string) (*Context, error) {
	n := C.CString(name)
	defer C.free(unsafe.Pointer(n))
	var c *C.hv_context
	if err := errno("ibv_open_device", C.hv_open(n, &c)); err != nil {
		return nil, err
	}
	return &Context{c}, nil
}

// Close closes the device. EBUSY: something of it is still open.
func (c *Context) Close() error { return errno("ibv_close_device", C.hv_close(c.c)) }

// Limits asks the device what it can hold.
func (c *Context) Limits() (Limits, error) {
	var a C.struct_hv_device_limits
	if err := errno("ibv_query_device", C.hv_query_device(c.c, &a)); err != nil {
		return Limits{}, err
	}
	return Limits{Firmware: C.GoString(&a.firmware[0]), Vendor: uint32(a.vendor), Part: uint32(a.part), MaxRegion: uint64(a.max_region),
		MaxQP: int(a.max_qp), MaxWork: int(a.max_work), MaxSGE: int(a.max_sge), MaxSGERead: int(a.max_sge_read), MaxCQ: int(a.max_cq),
		MaxCQE: int(a.max_cqe), MaxRegions: int(a.max_regions), MaxReadsIn: int(a.max_reads_in), MaxReadsOut: int(a.max_reads_out), Ports: int(a.ports)}, nil
}

// Port asks for a port's state.
func (c *Context) Port(port int) (Port, error) {
	var p C.struct_hv_port
	if err := errno("ibv_query_port", C.hv_query_port(c.c, C.int(port), &p)); err != nil {
		return Port{}, err
	}
	return Port{MaxMessage: uint64(p.max_message), State: int(p.state), PhysicalState: int(p.physical_state), Link: int(p.link_layer),
		MaxMTU: int(p.max_mtu), ActiveMTU: int(p.active_mtu), GIDs: int(p.gids), PKeys: int(p.pkeys), LID: int(p.lid), SMLID: int(p.sm_lid),
		LMC: int(p.lmc), SMSL: int(p.sm_sl), Width: int(p.width), Speed: int(p.speed), Flags: int(p.flags)}, nil
}

// GID reads one slot of a port's table; an error means that the slot is empty or not readable.
func (c *Context) GID(port, index int) (GID, error) {
	var g C.struct_hv_gid
	if err := errno("ibv_query_gid", C.hv_query_gid(c.c, C.int(port), C.int(index), &g)); err != nil {
		return GID{}, err
	}
	out := GID{Index: index, Type: int(g._type), Ifindex: uint32(g.ifindex)}
	for i, b := range g.raw {
		out.Raw[i] = byte(b)
	}
	return out, nil
}

// GIDs reads the used slots of a port in one call. ENOSYS: the library or the kernel is older than the call.
func (c *Context) GIDs(port int) ([]GID, error) {
	list := make([]C.struct_hv_gid, 1024)
	var n C.int
	if err := errno("ibv_query_gid_table", C.hv_query_gids(c.c, C.int(port), &list[0], C.int(len(list)), &n)); err != nil {
		return nil, err
	}
	var out []GID
	for i := range list[:n] {
		g := GID{Index: int(list[i].index), Type: int(list[i]._type), Ifindex: uint32(list[i].ifindex)}
		for k, b := range list[i].raw {
			g.Raw[k] = byte(b)
		}
		out = append(out, g)
	}
	return out, nil
}

// PKey reads one slot of a port's partition keys.
func (c *Context) PKey(port, index int) (uint16, error) {
	var k C.uint16_t
	err := errno("ibv_query_pkey", C.hv_query_pkey(c.c, C.int(port), C.int(index), &k))
	return uint16(k), err
}

// Event takes one asynchronous event of the device, if one is waiting: its type as IBV_EVENT_* counts, and the queue pair.
func (c *Context) Event() (kind int, qpn uint32, ok bool) {
	var k C.int
	var q C.uint32_t
	if C.hv_async_event(c.c, &k, &q) != 0 {
		return 0, 0, false
	}
	return int(k), uint32(q), true
}

// Region is a registration.
type Region struct {
	r             *C.hv_region
	Local, Remote uint32 // keys
	Relaxed       bool   // relaxed ordering was given
}

// Register makes memory at an address reachable. The memory must stay where it is until Close.
func (c *Context) Register(address uintptr, length uint64, access Access) (*Region, error) {
	var r *C.hv_region
	var k C.struct_hv_keys
	if err := errno("ibv_reg_mr", C.hv_register(c.c, C.uint64_t(address), C.uint64_t(length), C.int(access), &r, &k)); err != nil {
		return nil, err
	}
	return &Region{r: r, Local: uint32(k.local), Remote: uint32(k.remote), Relaxed: k.relaxed != 0}, nil
}

// RegisterDMABuf makes memory behind a DMA-BUF descriptor reachable; peers address it from iova. ENOSYS: the library is older than the call.
func (c *Context) RegisterDMABuf(fd int, offset, length, iova uint64, access Access) (*Region, error) {
	var r *C.hv_region
	var k C.struct_hv_keys
	e := C.hv_register_dmabuf(c.c, C.int(fd), C.uint64_t(offset), C.uint64_t(length), C.uint64_t(iova), C.int(access), &r, &k)
	if err := errno("ibv_reg_dmabuf_mr", e); err != nil {
		return nil, err
	}
	return &Region{r: r, Local: uint32(k.local), Remote: uint32(k.remote), Relaxed: k.relaxed != 0}, nil
}

// Close ends the registration.
func (r *Region) Close() error { return errno("ibv_dereg_mr", C.hv_deregister(r.r)) }

// failure turns the shim's account into an error.
func failure(f *C.struct_hv_failure) *Failure {
	out := &Failure{Step: Step(f.step), Errno: syscall.Errno(f.error), Status: int(f.status), Vendor: uint32(f.vendor), QPN: uint32(f.qpn),
		Receive: f.received != 0, Flushed: uint64(f.flushed)}
	if out.Status != 0 {
		out.Text = StatusText(out.Status)
	}
	return out
}

// errnoOf is the errno in an error's chain, or 0.
func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	errors.As(err, &e)
	return e
}
