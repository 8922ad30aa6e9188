package tcp

import (
	"context"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ledger"
	"hopbench/transports/mem"
)

// Name is the driver's name.
const Name = "tcp"

type driver struct{}

// New returns the TCP driver.
func New() transports.Driver { return driver{} }

func (driver) Name() string                   { return Name }
func (driver) Settings() []transports.Setting { return settings }
func (driver) Checks() []transports.Check     { return checks() }

// Probe makes a socket and throws it away.
func (driver) Probe(context.Context) error {
	fd, err := newSocket(unix.AF_INET, sockSettings{})
	if errors.Is(err, unix.EAFNOSUPPORT) {
		fd, err = newSocket(unix.AF_INET6, sockSettings{})
	}
	if err != nil {
		return fault.Sharper(&fault.Error{Code: fault.TCPUnavailable, Op: "make a TCP socket", Err: err})
	}
	return unix.Close(fd)
}

func (d driver) Open(ctx context.Context, o transports.Options) (transports.Transport, error) {
	s, err := readSettings(o)
	if err != nil {
		return nil, err
	}
	if o.Device != "" {
		addr, err := addressOf(o.Device)
		if err != nil {
			return nil, &fault.Error{Code: fault.TCPBind, Op: "choose the device", Device: o.Device, Err: err}
		}
		o.Bind = addr
	}
	if err := d.Probe(ctx); err != nil {
		return nil, err
	}
	return &transport{settings: s, bind: o.Bind, announce: o.Announce, ledger: ledger.Ledger{Name: Name}}, nil
}

// transport is the open driver of one side. It holds no descriptor itself: endpoints do.
type transport struct {
	settings sockSettings
	bind     netip.Addr
	announce string
	ledger   ledger.Ledger
}

func (t *transport) Caps() transports.Caps {
	kinds := []mem.Kind{mem.Host, mem.Pinned, mem.CUDA} // device memory is staged through pinned host memory
	return transports.Caps{
		Stream: transports.Ops(), PingPong: []transports.Op{transports.Write, transports.Send}, Notify: true,
		Local: kinds, Remote: kinds, MaxStreams: 1024, CrossHost: true, Batch: true,
	}
}

// Register takes memory that frames may name: sockets need no registration.
func (t *transport) Register(b mem.Buffer) (transports.Region, error) {
	r, err := t.ledger.Register(b)
	if err != nil {
		return nil, err // no interface around a nil pointer
	}
	return r, nil
}

func (t *transport) Close() error { return t.ledger.Close(nil) }
