package tcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ledger"
	"hopbench/transports/internal/threads"
)

// address is what the passive side tells the active one: where it listens and the nonce that opens a data connection.
type address struct {
	Listen []string `json:"listen,omitempty"` // host:port, in the order in which to try them
	Nonce  []byte   `json:"nonce"`
}

const maxAddress = 64 << 10

// endpoint is one side of one or more data connections.
type endpoint struct {
	t        *transport
	region   *ledger.Region
	options  transports.EndpointOptions
	nonce    []byte
	listener int // -1 where there is none
	listen   []string
	conns    []*conn
	remote   uint64  // bytes of the peer's region
	device   *device // where the region is device memory

	mu     sync.Mutex // loops run one after the other
	closed bool
}

func (t *transport) NewEndpoint(o transports.EndpointOptions) (transports.Endpoint, error) {
	r, _ := o.Region.(*ledger.Region)
	if !t.ledger.Holds(r) {
		return nil, fmt.Errorf("tcp: the region belongs to another transport")
	}
	if err := o.Settle(t.Caps().MaxStreams); err != nil {
		return nil, err
	}
	e := &endpoint{t: t, region: r, options: o, nonce: make([]byte, nonceLen), listener: -1}
	if _, err := rand.Read(e.nonce); err != nil {
		return nil, fmt.Errorf("tcp: make a nonce: %w", err)
	}
	if r.Buffer().Bytes() == nil {
		var err error
		if e.device, err = newDevice(r.Buffer(), t.settings, o.Largest); err != nil {
			return nil, err
		}
	}
	if o.Passive {
		bind := t.bind
		if !bind.IsValid() {
			bind = netip.IPv6Unspecified()
		}
		fd, at, err := listen(netip.AddrPortFrom(bind, t.settings.dataPort), o.Streams+8, t.settings)
		if errors.Is(err, unix.EAFNOSUPPORT) && !t.bind.IsValid() {
			fd, at, err = listen(netip.AddrPortFrom(netip.IPv4Unspecified(), t.settings.dataPort), o.Streams+8, t.settings)
		}
		if err != nil {
			return nil, bindError(netip.AddrPortFrom(bind, t.settings.dataPort), err)
		}
		e.listener = fd
		if e.listen, err = announced(at, t.announce); err != nil {
			unix.Close(fd)
			return nil, &fault.Error{Code: fault.TCPBind, Op: "find the address to announce", Device: at.String(), Err: err}
		}
	}
	r.Lend()
	return e, nil
}

func bindError(at netip.AddrPort, err error) error {
	if fault.ClassOf(err) != fault.Internal {
		return err
	}
	if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EACCES) {
		return &fault.Error{Code: fault.TCPBind, Op: "listen for data", Device: at.String(), Err: err}
	}
	return fault.Sharper(&fault.Error{Code: fault.TCPUnavailable, Op: "listen for data", Device: at.String(), Err: err})
}

func (e *endpoint) Address() []byte {
	b, _ := json.Marshal(address{Listen: e.listen, Nonce: e.nonce}) // strings and bytes: cannot fail
	return b
}

func (e *endpoint) Connect(ctx context.Context, r transports.Remote) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.conns) > 0 || e.closed {
		return fmt.Errorf("tcp: the endpoint was connected or closed before")
	}
	var peer address
	if len(r.Address) > maxAddress {
		return fault.New(fault.TCPProtocol, "read the peer's data address", "", "it has %d bytes", len(r.Address))
	}
	if err := json.Unmarshal(r.Address, &peer); err != nil {
		return &fault.Error{Code: fault.TCPProtocol, Op: "read the peer's data address", Err: err}
	}
	e.remote = r.RegionBytes
	var fds []int
	var err error
	if e.options.Passive {
		fds, err = accept(ctx, e.listener, e.nonce, e.options.Streams, e.listen)
		unix.Close(e.listener)
		e.listener = -1
	} else {
		fds, err = dialAll(ctx, peer, e.options.Streams, e.t.bind, e.t.settings)
	}
	if err != nil {
		return err
	}
	for _, fd := range fds {
		if err == nil {
			err = forLoops(fd)
		}
		name := "an unknown address"
		if sa, perr := unix.Getpeername(fd); perr == nil {
			name = fromSockaddr(sa).String()
		}
		c := newConn(fd, name, e.region.Buffer().Bytes(), e.t.settings)
		c.size = e.region.Buffer().Len()
		e.conns = append(e.conns, c)
		if e.device != nil && err == nil {
			c.stage, err = e.device.rings()
		}
	}
	if fault.ClassOf(err) != fault.Internal && err != nil {
		return err
	}
	if err != nil {
		return &fault.Error{Code: fault.TCPUnavailable, Op: "set up the data connections", Err: err}
	}
	return nil
}

func (e *endpoint) Stream(l *transports.Loop) error {
	return e.run(l, transports.Streaming, func(c *conn, s int) error {
		switch {
		case l.Op == transports.Read && c.stage != nil:
			return c.pullStaged(l, &l.Lists[s], l.Record(s))
		case c.stage != nil:
			return c.streamStaged(l, &l.Lists[s], l.Record(s))
		case l.Op == transports.Read:
			return c.pull(l, &l.Lists[s], l.Record(s))
		}
		return c.stream(l, &l.Lists[s], l.Record(s))
	})
}

func (e *endpoint) PingPong(l *transports.Loop) error {
	if l.Op == transports.Read {
		return fault.New(fault.CapabilityGap, "run a ping-pong", "", "a read has no answer: its latency is post to completion, a stream of depth 1")
	}
	return e.run(l, transports.Bouncing, func(c *conn, s int) error {
		if c.stage != nil {
			return c.pingpongStaged(l, &l.Lists[s], l.Record(s))
		}
		return c.pingpong(l, &l.Lists[s], l.Record(s))
	})
}

func (e *endpoint) Serve(l *transports.Loop) error {
	return e.run(l, transports.Serving, func(c *conn, s int) error {
		if c.stage != nil {
			return c.serveStaged(l, &l.Lists[s])
		}
		return c.serve(l, &l.Lists[s])
	})
}

// run checks a loop once and runs body on each of its streams.
func (e *endpoint) run(l *transports.Loop, part transports.Part, body func(*conn, int) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || len(e.conns) == 0 {
		return fmt.Errorf("tcp: %s on an endpoint that is not connected", part)
	}
	if err := l.Check(part, &e.options, e.region.Buffer().Len(), e.remote); err != nil {
		return fmt.Errorf("tcp: %w", err)
	}
	n := len(l.Lists)
	// With more streams than CPUs a thread that spins must let the others in between. Blocking at once instead leaves the CPU idle
	// for a moment again and again: 0.85 of iperf3 with four streams, where spinning so gives 1.17 (2 virtual CPUs, cubic).
	crowded := n > max(1, len(l.CPUs))
	stall := int64(e.options.StallSeconds * 1e9)
	return threads.Run(n, l.CPUs, func(s int) error {
		c := e.conns[s]
		if c.broken != nil {
			return fmt.Errorf("tcp: the connection failed before: %w", c.broken)
		}
		c.begin(l, stall, crowded)
		var err error
		if c.stage != nil {
			err = c.stage.run(patience(l.Wait, crowded), stall, func() error { return body(c, s) })
		} else {
			err = body(c, s)
		}
		if err != nil {
			c.broken = err
			unix.Shutdown(c.fd, unix.SHUT_RDWR) // the other side shall not wait for its limit
		}
		return err
	})
}

// patience is how long a wait for the device spins before it sleeps.
func patience(w transports.Wait, crowded bool) time.Duration {
	switch {
	case w == transports.Spin:
		return -1
	case w == transports.Block || crowded:
		return 0
	}
	return transports.SpinNanoseconds
}

func (e *endpoint) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	var errs []error
	if e.listener >= 0 {
		errs = append(errs, unix.Close(e.listener))
	}
	for _, c := range e.conns {
		errs = append(errs, unix.Close(c.fd))
		if c.stage != nil {
			errs = append(errs, c.stage.close())
		}
	}
	e.region.Return()
	return errors.Join(errs...)
}
