package loopback

import (
	"context"
	"fmt"
	"sync"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ledger"
	"hopbench/transports/internal/threads"
	"hopbench/transports/mem"
)

// endpoint is one side; its words are what the other side writes to.
type endpoint struct {
	t       *transport
	address []byte
	region  *ledger.Region
	options transports.EndpointOptions
	peer    *endpoint
	words   []words // one a stream

	mu     sync.Mutex // loops run one after the other
	closed bool
}

func (t *transport) NewEndpoint(o transports.EndpointOptions) (transports.Endpoint, error) {
	r, _ := o.Region.(*ledger.Region)
	if !t.ledger.Holds(r) {
		return nil, fmt.Errorf("loopback: the region belongs to another transport")
	}
	if err := o.Settle(t.Caps().MaxStreams); err != nil {
		return nil, err
	}
	e := &endpoint{t: t, region: r, options: o, words: make([]words, o.Streams)}
	e.address = t.d.endpoints.Enter(e)
	r.Lend()
	return e, nil
}

func (e *endpoint) Address() []byte { return e.address }

func (e *endpoint) Connect(_ context.Context, r transports.Remote) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.peer != nil {
		return fmt.Errorf("loopback: the endpoint was connected or closed before")
	}
	peer, err := e.t.d.endpoints.Find(r.Address)
	if err != nil {
		return err
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
	if double := mem.Double(e.region.Buffer()); double != "" {
		p.Realm = transports.Double
		p.Evidence = append(p.Evidence, "the memory's driver is a double: "+double)
	}
	return p
}

// Counters is empty: nothing but the processor sees these bytes.
func (e *endpoint) Counters() ([]transports.Counter, error) { return nil, nil }

func (e *endpoint) Stream(l *transports.Loop) error {
	return e.run(l, transports.Streaming, e.stream)
}

func (e *endpoint) PingPong(l *transports.Loop) error {
	if l.Op == transports.Read {
		return fault.New(fault.CapabilityGap, "run a ping-pong", "", "a read has no answer: its latency is post to completion, a stream of depth 1")
	}
	return e.run(l, transports.Bouncing, e.pingpong)
}

func (e *endpoint) Serve(l *transports.Loop) error {
	return e.run(l, transports.Serving, e.serve)
}

// run checks a loop once and runs body on each of its streams.
func (e *endpoint) run(l *transports.Loop, part transports.Part, body func(l *transports.Loop, s int, w *waiter) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.peer == nil {
		return fmt.Errorf("loopback: a loop on an endpoint that is not connected")
	}
	if err := l.Check(part, &e.options, e.region.Buffer().Len(), e.peer.region.Buffer().Len()); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	spin := len(l.Lists) <= max(1, len(l.CPUs))
	return threads.Run(len(l.Lists), l.CPUs, func(s int) error {
		return body(l, s, &waiter{wait: l.Wait, spin: spin, stop: l.Stop, stall: int64(e.options.StallSeconds * 1e9)})
	})
}

func (e *endpoint) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	e.t.d.endpoints.Leave(e.address)
	e.region.Return()
	return nil
}
