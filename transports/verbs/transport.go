package verbs

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/mem"
)

// transport is an open device.
type transport struct {
	driver  driver
	options transports.Options
	set     values
	*chosen

	mu        sync.Mutex
	regions   int
	endpoints int
	closed    bool
}

// maxPieces bounds one operation's list: a signalled work request comes at least every half queue, so only the contract's
// 32-bit ends bound it.
const maxPieces = 1 << 24

func (t *transport) Caps() transports.Caps {
	kinds := []mem.Kind{mem.Host, mem.Pinned, mem.CUDA}
	return transports.Caps{
		Stream: []transports.Op{transports.Write, transports.Read, transports.Send}, PingPong: []transports.Op{transports.Write, transports.Send},
		Notify: true, Local: kinds, Remote: kinds, MaxStreams: min(ibverbs.MaxQueues-1, max(t.limits.MaxQP-1, 1)), MaxPieces: maxPieces,
		CrossHost: true, Batch: true,
	}
}

// region is a registered buffer.
type region struct {
	t      *transport
	buffer mem.Buffer
	mr     *ibverbs.Region   // nil where the memory is staged
	way    transports.GPUWay // empty for host memory
	how    string
	close  func() error
	// warnings say why a nearer way was not taken.
	warnings []string

	mu    sync.Mutex
	users int
	done  bool
}

// regionKey is what a peer needs to address a region.
type regionKey struct {
	Address uint64 `json:"address"`
	Bytes   uint64 `json:"bytes"`
	Key     uint32 `json:"key"`
}

// Register gives the buffer to the device: host memory by its address, GPU memory by a DMA-BUF descriptor or
// through nvidia-peermem. GPU memory that is staged is not registered: the rings of its endpoints are.
func (t *transport) Register(b mem.Buffer) (transports.Region, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, fault.New(fault.VerbsCall, "register memory", "", "the device is closed")
	}
	access := ibverbs.RemoteWrite | ibverbs.RemoteRead
	if t.set.text("relaxed-ordering") == "on" {
		access |= ibverbs.Relaxed
	}
	r := &region{t: t, buffer: b}
	var err error
	if b.Facts().Kind == mem.CUDA {
		err = t.registerGPU(r, access)
	} else {
		r.mr, err = t.context.Register(b.Addr(), b.Len(), access)
		if err != nil {
			err = t.explainRegister(err, b)
		}
	}
	if err != nil {
		return nil, err
	}
	t.regions++
	return r, nil
}

func (r *region) Buffer() mem.Buffer { return r.buffer }

func (r *region) Key() []byte {
	k := regionKey{Address: uint64(r.buffer.Addr()), Bytes: r.buffer.Len()}
	if r.mr != nil {
		k.Key = r.mr.Remote
	}
	b, _ := json.Marshal(k) // three numbers always marshal
	return b
}

// pollable says whether the CPU may watch the memory's last byte for a message to arrive.
func (r *region) pollable() bool { return r.buffer.Bytes() != nil && r.mr != nil && !r.mr.Relaxed }

func (r *region) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return nil
	}
	if r.users > 0 {
		return fault.New(fault.VerbsCall, "close a region", "", "%d endpoints still use it", r.users)
	}
	if r.mr != nil {
		if err := r.mr.Close(); err != nil {
			return &fault.Error{Code: fault.VerbsCall, Op: "close a region", Err: err}
		}
	}
	r.done = true
	r.t.mu.Lock()
	r.t.regions--
	r.t.mu.Unlock()
	if r.close != nil {
		if err := r.close(); err != nil {
			return &fault.Error{Code: fault.VerbsCall, Op: "close a DMA-BUF descriptor", Err: err}
		}
	}
	return nil
}

func (t *transport) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil
	case t.endpoints > 0 || t.regions > 0:
		return fault.New(fault.VerbsCall, "close "+t.device.Name, "", "%d endpoints and %d regions are still open", t.endpoints, t.regions)
	}
	if err := t.context.Close(); err != nil {
		return &fault.Error{Code: fault.VerbsCall, Op: "close " + t.device.Name, Err: err}
	}
	t.closed = true
	return nil
}

// native writes an errno as "ENOMEM (12)".
func native(err error) string {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return ""
	}
	return fmt.Sprintf("%s (%d)", ibverbs.ErrnoName(e), int(e))
}
