package mem

import (
	"errors"
	"fmt"
	"sync"

	"hopbench/transports/fault"
	"hopbench/transports/internal/cuda"
)

// bounceBytes is the pinned buffer through which device memory is filled and verified.
const bounceBytes = 1 << 20

// grain is what device memory is rounded up to: a driver maps at least this much at once, and gives smaller pieces out of a
// shared block, whose address a DMA-BUF export would refuse.
const grain = 2 << 20

// allocateDevice gives pinned and device memory.
func allocateDevice(s Spec) (Buffer, error) {
	op := fmt.Sprintf("allocate %d bytes of %s memory", s.Bytes, s.Name())
	lib, err := cuda.Open("")
	if err != nil {
		return nil, cuda.Fault(err, op, "")
	}
	defer lib.Close()
	if s.Kind == Pinned {
		return allocatePinned(lib, s, op)
	}
	return allocateCUDA(lib, s, op)
}

// CUDAContext is the context whose device holds the buffer, which is nil for host and pinned memory. The buffer's Addr is a
// device pointer in it.
func CUDAContext(b Buffer) *cuda.Context {
	if d, ok := b.(*deviceBuffer); ok {
		return d.context
	}
	return nil
}

// Double is what the library behind a pinned or device buffer says of itself where it is a stand-in for tests, and empty
// otherwise: a row measured through such memory has realm "double".
func Double(b Buffer) string {
	switch b := b.(type) {
	case *deviceBuffer:
		return b.context.Library().Double()
	case *pinnedBuffer:
		return b.context.Library().Double()
	}
	return ""
}

// pinnedBuffer is host memory that the driver has page-locked: mapped as host memory is, so that huge pages and NUMA
// placement mean the same.
type pinnedBuffer struct {
	*hostBuffer
	context *cuda.Context
	once    sync.Once
}

func allocatePinned(lib *cuda.Library, s Spec, op string) (Buffer, error) {
	// Page-locked for every device of the process: any context will do to ask for it.
	c, err := lib.Context(0)
	if err != nil {
		return nil, cuda.Fault(err, op, "cuda:0")
	}
	host, err := allocateHost(s)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	b := &pinnedBuffer{hostBuffer: host.(*hostBuffer), context: c}
	if err := c.Do(func(th *cuda.Thread) error { return th.Pin(b.whole) }); err != nil {
		return nil, errors.Join(cuda.Fault(err, op, "cuda:0"), host.Close(), c.Close())
	}
	b.facts.Kind, b.facts.Allocation = Pinned, "mmap, cuMemHostRegister"
	return b, nil
}

// Close unpins, then unmaps.
func (b *pinnedBuffer) Close() error {
	var err error
	b.once.Do(func() {
		err = b.context.Do(func(th *cuda.Thread) error { return th.Unpin(b.whole) })
		err = errors.Join(cuda.Fault(err, "unpin host memory", ""), b.hostBuffer.Close(), b.context.Close())
	})
	return err
}

// deviceBuffer is memory of one GPU.
type deviceBuffer struct {
	context *cuda.Context
	name    string
	address cuda.Pointer
	facts   Facts

	mu     sync.Mutex // one filling or verifying at a time
	bounce []byte
	stream cuda.Stream
	closed bool
}

func allocateCUDA(lib *cuda.Library, s Spec, op string) (Buffer, error) {
	d, err := lib.Find(s.Device)
	if err != nil {
		var refused *cuda.Error
		if errors.As(err, &refused) {
			return nil, cuda.Fault(err, op, s.Name())
		}
		return nil, &fault.Error{Code: fault.CUDADevice, Op: op, Err: err}
	}
	c, err := lib.Context(d.Ordinal)
	if err != nil {
		return nil, cuda.Fault(err, op, s.Name())
	}
	b := &deviceBuffer{context: c, name: s.Name(),
		facts: Facts{Kind: CUDA, Device: fmt.Sprintf("%s %s", d.BusID, d.UUID), Bytes: s.Bytes, Allocation: "cuMemAlloc"}}
	if err := c.Do(func(th *cuda.Thread) error { return b.allocate(th, s.Bytes) }); err != nil {
		return nil, errors.Join(cuda.Fault(err, op, s.Name()), c.Close())
	}
	return b, nil
}

// allocate takes everything or nothing.
func (b *deviceBuffer) allocate(th *cuda.Thread, bytes uint64) error {
	whole := (bytes + grain - 1) / grain * grain
	if whole < bytes {
		return &fault.Error{Code: fault.MemoryExhausted, Op: fmt.Sprintf("allocate %d bytes", bytes), Device: b.name}
	}
	var err error
	if b.address, err = th.Alloc(whole); err != nil {
		if available, total, e := th.Memory(); e == nil {
			err = fmt.Errorf("%w (%d of %d bytes are free)", err, available, total)
		}
		return err
	}
	if b.stream, err = th.NewStream(); err != nil {
		return errors.Join(err, th.Free(b.address))
	}
	if b.bounce, err = th.AllocHost(bounceBytes); err != nil {
		return errors.Join(err, th.CloseStream(b.stream), th.Free(b.address))
	}
	if err = errors.Join(th.Set(b.address, 0, whole, b.stream), th.Synchronize(b.stream)); err != nil {
		return errors.Join(err, b.free(th))
	}
	return nil
}

func (b *deviceBuffer) free(th *cuda.Thread) error {
	return errors.Join(th.FreeHost(b.bounce), th.CloseStream(b.stream), th.Free(b.address))
}

func (b *deviceBuffer) Facts() Facts  { return b.facts }
func (b *deviceBuffer) Len() uint64   { return b.facts.Bytes }
func (b *deviceBuffer) Bytes() []byte { return nil }

func (b *deviceBuffer) Addr() uintptr {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0
	}
	return uintptr(b.address)
}

func (b *deviceBuffer) CopyIn(off uint64, src []byte) error {
	return b.through("fill", off, uint64(len(src)), func(th *cuda.Thread, at cuda.Pointer, done, n int) error {
		copy(b.bounce[:n], src[done:])
		return errors.Join(th.ToDevice(at, b.bounce[:n], b.stream), th.Synchronize(b.stream))
	})
}

func (b *deviceBuffer) CopyOut(off uint64, dst []byte) error {
	return b.through("read", off, uint64(len(dst)), func(th *cuda.Thread, at cuda.Pointer, done, n int) error {
		err := errors.Join(th.ToHost(b.bounce[:n], at, b.stream), th.Synchronize(b.stream))
		copy(dst[done:], b.bounce[:n])
		return err
	})
}

// through walks [off, off+bytes) in pieces that fit the bounce buffer.
func (b *deviceBuffer) through(verb string, off, bytes uint64, move func(th *cuda.Thread, at cuda.Pointer, done, n int) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := b.facts.Bytes
	if b.closed {
		size = 0
	}
	if err := inRange(off, bytes, size); err != nil {
		return err
	}
	err := b.context.Do(func(th *cuda.Thread) error {
		for done := uint64(0); done < bytes; done += bounceBytes {
			n := min(bytes-done, bounceBytes)
			if err := move(th, b.address+cuda.Pointer(off+done), int(done), int(n)); err != nil {
				return err
			}
		}
		return nil
	})
	return cuda.Fault(err, fmt.Sprintf("%s %d bytes", verb, bytes), b.name)
}

func (b *deviceBuffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	err := b.context.Do(b.free)
	return errors.Join(cuda.Fault(err, "free device memory", b.name), b.context.Close())
}
