package cudapeer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/cuda"
)

// endpoint is one side. Its streams live on its region's GPU, or for pinned memory on the other side's.
type endpoint struct {
	t       *transport
	address []byte
	region  *region
	options transports.EndpointOptions
	told    []*signals // one a stream: what the other side tells this one

	mu      sync.Mutex // loops run one after the other
	peer    *endpoint
	context *cuda.Context // of the streams
	streams []stream
	path    transports.Path
	closed  bool
}

// stream is a queue of copies with an event for each operation that may be in flight.
type stream struct {
	queue  cuda.Stream
	events []cuda.Event
}

func (t *transport) NewEndpoint(o transports.EndpointOptions) (transports.Endpoint, error) {
	r, ok := o.Region.(*region)
	if !ok || !t.ledger.Holds(r.Region) {
		return nil, fmt.Errorf("%s: the region belongs to another transport", t.d.name)
	}
	if err := o.Settle(maxStreams); err != nil {
		return nil, err
	}
	if o.Depth < 1 {
		return nil, fault.New(fault.CapabilityGap, "make an endpoint", "", "a depth of %d", o.Depth)
	}
	e := &endpoint{t: t, region: r, options: o}
	for range o.Streams {
		s, err := newSignals()
		if err != nil {
			return nil, errors.Join(err, e.hangUp())
		}
		e.told = append(e.told, s)
	}
	e.address = t.d.endpoints.Enter(e)
	r.Lend()
	return e, nil
}

func (e *endpoint) Address() []byte { return e.address }

// Connect finds the other side, makes the streams and lets this side's GPU reach the other's memory.
func (e *endpoint) Connect(_ context.Context, r transports.Remote) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.peer != nil {
		return fmt.Errorf("%s: the endpoint was connected or closed before", e.t.d.name)
	}
	peer, err := e.t.d.endpoints.Find(r.Address)
	if err != nil {
		return err
	}
	if len(peer.told) != len(e.told) {
		return fmt.Errorf("%s: %d streams here and %d there", e.t.d.name, len(e.told), len(peer.told))
	}
	if err := e.fits(peer); err != nil {
		return err
	}
	e.context = e.region.side.Context
	if e.context == nil {
		e.context = peer.region.side.Context
	}
	way, err := e.open(peer)
	if err != nil {
		return cuda.Fault(err, "connect", e.device())
	}
	e.peer, e.path = peer, e.describe(peer, way)
	return nil
}

// fits refuses pairs of buffers that the driver is not for.
func (e *endpoint) fits(peer *endpoint) error {
	a, b := e.region.side.Context, peer.region.side.Context
	switch {
	case a == nil && b == nil:
		return fault.New(fault.MemoryKind, "connect", "", "both buffers are host memory, which no GPU is asked to copy")
	case a == nil || b == nil:
		return nil
	case e.t.d.name == PeerName && a.Ordinal() == b.Ordinal():
		return fault.New(fault.CUDASameGPU, "connect", deviceName(a.Ordinal()), "both buffers are on this GPU: a copy inside it is no hop (cuda-copy measures it)")
	case e.t.d.name == CopyName && a.Ordinal() != b.Ordinal():
		return fault.New(fault.CUDATwoGPUs, "connect", fmt.Sprintf("cuda:%d and cuda:%d", a.Ordinal(), b.Ordinal()), "cuda-copy stays within one GPU; cuda-peer copies between two")
	}
	return nil
}

// access is what the driver library says of a pair.
type access struct {
	forth, back bool // peer access from this side's GPU to the other's, and back
	enabled     bool
	rank        *int
}

// open makes the streams and switches peer access.
func (e *endpoint) open(peer *endpoint) (access, error) {
	var way access
	err := e.context.Do(func(th *cuda.Thread) error {
		for range e.told {
			s, err := newStream(th, e.options.Depth)
			if err != nil {
				return err
			}
			e.streams = append(e.streams, s)
		}
		if e.t.d.name == CopyName {
			return nil
		}
		other := peer.region.side.Context
		var err1, err2 error
		way.forth, err1 = e.t.lib.CanAccess(e.context.Ordinal(), other.Ordinal())
		way.back, err2 = e.t.lib.CanAccess(other.Ordinal(), e.context.Ordinal())
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		way.rank = e.t.lib.PerformanceRank(e.context.Ordinal(), other.Ordinal())
		if e.t.staged {
			return notEnabledIsFine(th.DisablePeer(other))
		}
		if way.forth {
			if err := th.EnablePeer(other); err != nil {
				return err
			}
			way.enabled = true
		}
		return nil
	})
	if err != nil {
		err = errors.Join(err, e.shut())
	}
	return way, err
}

// notEnabledIsFine passes over the refusal to switch off what was not on.
func notEnabledIsFine(err error) error {
	var refused *cuda.Error
	if errors.As(err, &refused) && refused.Code == 705 { // CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
		return nil
	}
	return err
}

func newStream(th *cuda.Thread, depth int) (stream, error) {
	q, err := th.NewStream()
	if err != nil {
		return stream{}, err
	}
	s := stream{queue: q}
	for range depth {
		ev, err := th.NewEvent()
		if err != nil {
			return stream{}, errors.Join(err, s.close(th))
		}
		s.events = append(s.events, ev)
	}
	return s, nil
}

func (s stream) close(th *cuda.Thread) error {
	var err error
	for _, ev := range s.events {
		err = errors.Join(err, th.CloseEvent(ev))
	}
	return errors.Join(err, th.CloseStream(s.queue))
}

// shut gives the streams back.
func (e *endpoint) shut() error {
	if len(e.streams) == 0 {
		return nil
	}
	return e.context.Do(func(th *cuda.Thread) error {
		var err error
		for _, s := range e.streams {
			err = errors.Join(err, s.close(th))
		}
		e.streams = nil
		return err
	})
}

func (e *endpoint) hangUp() error {
	var err error
	for _, s := range e.told {
		err = errors.Join(err, s.close())
	}
	return err
}

func (e *endpoint) device() string {
	if c := e.region.side.Context; c != nil {
		return deviceName(c.Ordinal())
	}
	return "pinned memory"
}

func deviceName(ordinal int) string { return fmt.Sprintf("cuda:%d", ordinal) }

func (e *endpoint) stall() time.Duration { return time.Duration(e.options.StallSeconds * 1e9) }

// Path is valid after Connect.
func (e *endpoint) Path() transports.Path {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.path
}

// Counters is empty: the driver counts no bytes of copies, and NVML's NVLink counters are of a whole GPU and need a reset right.
func (e *endpoint) Counters() ([]transports.Counter, error) { return nil, nil }

func (e *endpoint) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	e.t.d.endpoints.Leave(e.address)
	e.region.Return()
	return cuda.Fault(errors.Join(e.shut(), e.hangUp()), "close", e.device())
}
