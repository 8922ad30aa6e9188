package loopback

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/threads"
	"hopbench/transports/mem"
)

// endpoint is one side; its words are what the other side writes to.
type endpoint struct {
	t       *transport
	id      uint64
	region  *region
	options transports.EndpointOptions
	peer    *endpoint
	words   []words // one a stream

	mu     sync.Mutex // loops run one after the other
	closed bool
}

func (t *transport) NewEndpoint(o transports.EndpointOptions) (transports.Endpoint, error) {
	r, ok := o.Region.(*region)
	if !ok || r.t != t {
		return nil, fmt.Errorf("loopback: the region belongs to another transport")
	}
	if o.Streams < 1 || o.Streams > t.Caps().MaxStreams {
		return nil, fault.New(fault.CapabilityGap, "make an endpoint", "", "%d streams; 1 to %d are possible", o.Streams, t.Caps().MaxStreams)
	}
	if o.StallSeconds <= 0 {
		o.StallSeconds = 5
	}
	e := &endpoint{t: t, region: r, options: o, words: make([]words, o.Streams)}
	t.d.mu.Lock()
	t.d.next++
	e.id = t.d.next
	t.d.endpoints[e.id] = e
	t.d.mu.Unlock()
	t.mu.Lock()
	t.endpoints++
	r.users++
	t.mu.Unlock()
	return e, nil
}

func (e *endpoint) Address() []byte { return binary.LittleEndian.AppendUint64(nil, e.id) }

func (e *endpoint) Connect(_ context.Context, r transports.Remote) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(r.Address) != 8 {
		return fault.New(fault.OneProcess, "find the other side", "", "its address has %d bytes: it is not of this process", len(r.Address))
	}
	e.t.d.mu.Lock()
	peer := e.t.d.endpoints[binary.LittleEndian.Uint64(r.Address)]
	e.t.d.mu.Unlock()
	if peer == nil || e.closed || e.peer != nil {
		return fault.New(fault.OneProcess, "find the other side", "", "there is no such endpoint in this process, or it was connected before")
	}
	if len(peer.words) != len(e.words) {
		return fmt.Errorf("loopback: %d streams here and %d there", len(e.words), len(peer.words))
	}
	e.peer = peer
	return nil
}

func (e *endpoint) Path() transports.Path {
	p := transports.Path{Name: "memory copy", Virtual: true, Realm: transports.Hardware,
		Evidence: []string{"both buffers lie in this process; its own threads copy"}}
	if double := mem.Double(e.region.buffer); double != "" {
		p.Realm = transports.Double
		p.Evidence = append(p.Evidence, "the memory's driver is a double: "+double)
	}
	return p
}

// Counters is empty: nothing but the processor sees these bytes.
func (e *endpoint) Counters() ([]transports.Counter, error) { return nil, nil }

func (e *endpoint) Stream(l *transports.Loop) error {
	return e.run(l, func(s int, w *waiter) error { return e.stream(l, s, w) })
}

func (e *endpoint) PingPong(l *transports.Loop) error {
	if l.Op == transports.Read {
		return fault.New(fault.CapabilityGap, "run a ping-pong", "", "a read has no answer: its latency is post to completion, a stream of depth 1")
	}
	return e.run(l, func(s int, w *waiter) error { return e.pingpong(l, s, w) })
}

func (e *endpoint) Serve(l *transports.Loop) error {
	return e.run(l, func(s int, w *waiter) error { return e.serve(l, s, w) })
}

func (e *endpoint) run(l *transports.Loop, body func(s int, w *waiter) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed || e.peer == nil:
		return fmt.Errorf("loopback: a loop on an endpoint that is not connected")
	case len(l.Lists) < 1 || len(l.Lists) > len(e.words):
		return fmt.Errorf("loopback: a loop of %d streams on an endpoint of %d", len(l.Lists), len(e.words))
	case len(l.Stamps) != 0 && len(l.Stamps) != len(l.Lists):
		return fmt.Errorf("loopback: stamps for %d streams of %d", len(l.Stamps), len(l.Lists))
	}
	spin := len(l.Lists) <= max(1, len(l.CPUs))
	return threads.Run(len(l.Lists), l.CPUs, func(s int) error {
		w := &waiter{wait: l.Wait, spin: spin, stop: l.Stop, stall: int64(e.options.StallSeconds * 1e9)}
		return body(s, w)
	})
}

// check refuses pieces outside the regions. Serve holds the same list with the sides' names swapped in meaning, not in place.
func (e *endpoint) check(l *transports.Loop, s int, initiator bool) error {
	local, remote := e.region.buffer.Len(), e.peer.region.buffer.Len()
	if !initiator {
		local, remote = remote, local
	}
	if err := l.Lists[s].Check(local, remote); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	if initiator && (l.Depth < 1 || l.Depth > e.options.Depth) {
		return fmt.Errorf("loopback: depth %d on an endpoint made for %d", l.Depth, e.options.Depth)
	}
	return nil
}

func (e *endpoint) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	e.t.d.mu.Lock()
	delete(e.t.d.endpoints, e.id)
	e.t.d.mu.Unlock()
	e.t.mu.Lock()
	e.t.endpoints--
	e.region.users--
	e.t.mu.Unlock()
	return nil
}
