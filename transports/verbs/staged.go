package verbs

import (
	"errors"
	"fmt"
	"strconv"
	"unsafe"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/cuda"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/internal/staging"
	"hopbench/transports/mem"
)

// stage is the third way to device memory, where no device reaches it: for each stream a ring of pinned memory each way, registered as
// host memory is.
type stage struct {
	context     *cuda.Context
	base        cuda.Pointer
	calibration staging.Calibration
	rings       []rings // one a stream
}

// rings are what one stream sends from and what it receives into.
type rings struct {
	out, in     *staging.Ring
	outMR, inMR *ibverbs.Region
}

// stagedSide is what the peer of a staged side has to know.
type stagedSide struct {
	ChunkBytes int       `json:"chunk_bytes"` // largest chunk
	Flight     int       `json:"flight"`      // chunks that may be in a ring at once
	Rings      []ringKey `json:"rings"`       // to write into, one a stream
}

type ringKey struct {
	Address uint64 `json:"address"`
	Bytes   int    `json:"bytes"`
	Key     uint32 `json:"key"`
}

const (
	// mostRing bounds a ring: an offset in it travels in an immediate, beside the two bits that say what the number means.
	mostRing = 1 << wordBits
	// mostStaged bounds the streams of a staged endpoint, each of which has two rings.
	mostStaged = 256
)

// newStage chooses the rings' shape and allocates and registers them.
func (t *transport) newStage(b mem.Buffer, o transports.EndpointOptions) (*stage, error) {
	const op = "stage GPU memory"
	at := where(t.device.Name, t.number)
	s := &stage{context: mem.CUDAContext(b), base: cuda.Pointer(b.Addr())}
	if s.context == nil {
		return nil, fault.New(fault.MemoryKind, op, at, "%s memory has no CUDA context", b.Facts().Kind)
	}
	if o.Streams > mostStaged {
		return nil, fault.New(fault.CapabilityGap, op, at, "%d streams; %d are possible through host memory", o.Streams, mostStaged)
	}
	chunk, _ := t.set.number("staging-chunk")
	depth, _ := t.set.number("staging-depth")
	err := s.context.Do(func(th *cuda.Thread) (err error) {
		if s.calibration, err = staging.Choose(th, o.Largest, chunk, depth); err != nil {
			return err
		}
		c := &s.calibration.Config
		c.ChunkBytes = min(c.ChunkBytes, mostRing)
		c.Depth = min(c.Depth, mostRing/c.ChunkBytes)
		for range o.Streams {
			if err := t.addRings(th, s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		err = errors.Join(err, s.close())
		if fault.ClassOf(err) != fault.Internal {
			return nil, err
		}
		return nil, cuda.Fault(err, op, at)
	}
	return s, nil
}

// addRings makes the rings of one more stream.
func (t *transport) addRings(th *cuda.Thread, s *stage) error {
	s.rings = append(s.rings, rings{})
	r := &s.rings[len(s.rings)-1]
	for _, one := range []struct {
		ring   **staging.Ring
		mr     **ibverbs.Region
		access ibverbs.Access
	}{{&r.out, &r.outMR, 0}, {&r.in, &r.inMR, ibverbs.RemoteWrite}} {
		ring, err := staging.NewRing(th, s.calibration.Config)
		if err != nil {
			return err
		}
		*one.ring = ring
		m := ring.Memory()
		if *one.mr, err = t.context.Register(uintptr(addressOf(m)), uint64(len(m)), one.access); err != nil {
			return &fault.Error{Code: fault.VerbsRegister, Op: fmt.Sprintf("register a staging ring of %d bytes", len(m)), Device: where(t.device.Name, t.number), Native: native(err), Err: err}
		}
	}
	return nil
}

// addressOf is where pinned memory lies.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// close ends the registrations and frees the rings.
func (s *stage) close() error {
	var errs []error
	for _, r := range s.rings {
		for _, mr := range []*ibverbs.Region{r.outMR, r.inMR} {
			if mr != nil {
				errs = append(errs, mr.Close())
			}
		}
	}
	errs = append(errs, s.context.Do(func(th *cuda.Thread) error {
		var errs []error
		for _, r := range s.rings {
			for _, ring := range []*staging.Ring{r.out, r.in} {
				if ring != nil {
					errs = append(errs, ring.Close(th))
				}
			}
		}
		return errors.Join(errs...)
	}))
	s.rings = nil
	return errors.Join(errs...)
}

// side is what the peer is told.
func (s *stage) side() *stagedSide {
	out := &stagedSide{ChunkBytes: s.calibration.Config.ChunkBytes, Flight: s.rings[0].in.Flight()}
	for _, r := range s.rings {
		m := r.in.Memory()
		out.Rings = append(out.Rings, ringKey{addressOf(m), min(len(m), mostRing), r.inMR.Remote})
	}
	return out
}

// openStaged agrees on the chunks and opens the wire, where device memory of either side is staged.
func (e *endpoint) openStaged() error {
	at := where(e.t.device.Name, e.t.number)
	peer := e.peer.Staged
	if peer != nil {
		if len(peer.Rings) != e.options.Streams || peer.ChunkBytes < 1 || peer.Flight < 1 {
			return fault.New(fault.VerbsDisagree, "connect", at, "the peer stages %d streams in chunks of %d bytes; this side has %d streams", len(peer.Rings), peer.ChunkBytes, e.options.Streams)
		}
		for _, r := range peer.Rings {
			if r.Bytes < peer.ChunkBytes || r.Bytes > mostRing {
				return fault.New(fault.VerbsDisagree, "connect", at, "the peer has a staging ring of %d bytes for chunks of %d", r.Bytes, peer.ChunkBytes)
			}
		}
		e.chunk = peer.ChunkBytes
	}
	if s := e.stage; s != nil {
		if mine := s.calibration.Config.ChunkBytes; e.chunk == 0 || mine < e.chunk {
			e.chunk = mine
		}
		for _, r := range s.rings {
			r.out.Cut(e.chunk)
			r.in.Cut(e.chunk)
		}
	}
	if err := e.group.OpenWire(); err != nil {
		return e.explainPath(err)
	}
	e.staged = true
	return nil
}

// describeStaged records the ring and how its chunks travel.
func (e *endpoint) describeStaged(p *transports.Path) {
	p.Settings["inline"] = "0"
	p.Settings["staging_wire"] = "RDMA write with immediate into the receiver's ring; RDMA read or write where the other side's memory is reached straight"
	p.Settings["staging_chunk_bytes"] = strconv.Itoa(e.chunk)
	if s := e.stage; s != nil {
		p.Settings["staging_depth"] = strconv.Itoa(s.rings[0].in.Config().Depth)
		p.Settings["staging_chosen"] = s.calibration.Chosen
		p.Evidence = append(p.Evidence, "GPU memory is copied through rings of pinned host memory: no device reaches it")
	}
}

// phaseCounters are what staging took so far, for counters that grow.
func (e *endpoint) phaseCounters() []transports.Counter {
	e.phasesMu.Lock()
	defer e.phasesMu.Unlock()
	nano := func(name string, seconds float64) transports.Counter {
		return transports.Counter{Name: name, Source: transports.StagingPhases, Unit: "nanoseconds", Value: uint64(seconds * 1e9)}
	}
	return []transports.Counter{nano("device_to_host", e.phases.DeviceToHost), nano("wire", e.phases.Wire), nano("host_to_device", e.phases.HostToDevice)}
}

// addPhases takes in what the pumps and sinks of a loop say.
func (e *endpoint) addPhases(more staging.Phases) {
	e.phasesMu.Lock()
	defer e.phasesMu.Unlock()
	e.phases.Bytes += more.Bytes
	e.phases.DeviceToHost += more.DeviceToHost
	e.phases.Wire += more.Wire
	e.phases.HostToDevice += more.HostToDevice
}
