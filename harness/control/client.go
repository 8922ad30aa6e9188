package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"hopbench/harness"
	"hopbench/harness/control/controlpb"
	"hopbench/results"
	"hopbench/transports/fault"
)

// DialOptions is how a client speaks to its peer. The zero value is fine.
type DialOptions struct {
	// Connect is the limit of reaching and greeting the peer. 0 means 10 s.
	Connect time.Duration
	// Phase is the limit of a call that neither fills memory nor runs a loop; those get more. 0 means 15 s.
	Phase time.Duration
	// Loop is the longest time for which the client will be silent: its longest loop. The peer ends a session that is silent
	// for that and a minute, and refuses one whose loops are longer than its cap. 0 means a minute; whole seconds.
	Loop        time.Duration
	Bind        netip.Addr // local address of the control connection; zero: the kernel's choice
	ToolVersion string     // for the greeting
	// Segment is the largest TCP segment of the control connection, both ways, in bytes; 0: as the path's MTU gives. Small ones pass
	// where a hop between drops large packets without a word.
	Segment int

	protocol uint16 // for tests: 0 means Version
}

const (
	defaultConnect = 10 * time.Second
	defaultPhase   = 15 * time.Second
	defaultLoop    = time.Minute
	maxReply       = 4 << 20 // bytes of a reply without stamps
	// Memory is filled and compared at no less than this, on a loaded or emulated machine too.
	slowestFill = 100e6 // bytes a second
	slowestList = 1e6   // descriptors a second
)

// client is a Peer in another process.
type client struct {
	addr   string
	o      DialOptions
	theirs greeting
	conn   *grpc.ClientConn
	rpc    controlpb.PeerClient
	// gone explains, where this process started the other, how that ended.
	gone func() string
	stop func() error // ends the other process after the session; nil where there is none

	mu     sync.Mutex
	broken error // the session is of no use any more
	closed bool
}

// Dial opens a session with the server at addr (HOST:PORT). Errors are *fault.Error: unreachable, not a hopbench, another version,
// another token, busy, over the server's cap, or no answer within the limit.
func Dial(ctx context.Context, addr string, token Token, o DialOptions) (harness.Peer, error) {
	c, err := dial(ctx, addr, token, o)
	if err != nil {
		return nil, err // not a Peer that holds a nil client
	}
	return c, nil
}

func dial(ctx context.Context, addr string, token Token, o DialOptions) (*client, error) {
	if !token.valid() {
		return nil, fault.New(fault.PeerToken, "greet the peer", addr, "a token of at least %d bits is needed", 8*minTokenBytes)
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, &fault.Error{Code: fault.PeerUnreachable, Op: "connect to the peer", Device: addr, Err: err}
	}
	o = o.withDefaults()
	creds := o.credentials(addr, token)
	return begin(ctx, addr, creds, o, func(ctx context.Context) (net.Conn, error) { return connect(ctx, addr, o, creds) })
}

// withDefaults fills what was left out.
func (o DialOptions) withDefaults() DialOptions {
	if o.Connect <= 0 {
		o.Connect = defaultConnect
	}
	if o.Phase <= 0 {
		o.Phase = defaultPhase
	}
	if o.Loop <= 0 {
		o.Loop = defaultLoop
	}
	if o.protocol == 0 {
		o.protocol = Version
	}
	return o
}

func (o DialOptions) credentials(addr string, token Token) *clientCredentials {
	return &clientCredentials{
		addr: addr, token: token, self: greeting{version: o.protocol, tool: o.ToolVersion}, timeout: o.Connect,
		proof: proof{loop: (o.Loop + time.Second - 1).Truncate(time.Second), name: self()},
	}
}

// begin opens a session over the one connection that reach gives.
func begin(ctx context.Context, addr string, creds *clientCredentials, o DialOptions, reach func(context.Context) (net.Conn, error)) (*client, error) {
	var reached atomic.Bool // a session is one connection: gRPC must not make another
	dialer := func(ctx context.Context, _ string) (net.Conn, error) {
		if reached.Swap(true) {
			return nil, creds.fail(fault.New(fault.PeerVanished, "reach the peer", addr, "the session's connection is gone"))
		}
		return reach(ctx)
	}
	conn, err := grpc.NewClient("passthrough:///hopbench-peer",
		grpc.WithTransportCredentials(creds), grpc.WithContextDialer(dialer), grpc.WithNoProxy(),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithDisableHealthCheck(), grpc.WithIdleTimeout(0),
		grpc.WithStaticStreamWindowSize(1<<20), grpc.WithStaticConnWindowSize(4<<20), // fixed: no pings to estimate them
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReply)),
	)
	if err != nil {
		return nil, &fault.Error{Code: fault.PeerUnreachable, Op: "connect to the peer", Device: addr, Err: err}
	}
	conn.Connect()
	for {
		state := conn.GetState()
		if state == connectivity.Ready {
			break
		}
		if state == connectivity.TransientFailure || state == connectivity.Shutdown {
			conn.Close()
			return nil, creds.failure()
		}
		if !conn.WaitForStateChange(ctx, state) {
			conn.Close()
			return nil, &fault.Error{Code: fault.PeerUnreachable, Op: "connect to the peer", Device: addr, Err: context.Cause(ctx)}
		}
	}
	return &client{addr: addr, o: o, theirs: creds.greeted(), conn: conn, rpc: controlpb.NewPeerClient(conn)}, nil
}

// connect makes the TCP connection.
func connect(ctx context.Context, addr string, o DialOptions, creds *clientCredentials) (net.Conn, error) {
	d := net.Dialer{Timeout: o.Connect, KeepAlive: -1}
	d.SetMultipathTCP(false)
	if o.Segment > 0 {
		d.ControlContext = func(_ context.Context, _, _ string, raw syscall.RawConn) error {
			var failed error
			err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, o.Segment) })
			return errors.Join(err, failed)
		}
	}
	if o.Bind.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(o.Bind, 0))
	}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err == nil {
		return conn, nil
	}
	e := &fault.Error{Code: fault.PeerUnreachable, Op: "connect to the peer", Device: addr, Err: err}
	var op *net.OpError
	if errors.As(err, &op) {
		e.Err = op.Err // without the address, which the error has already
	}
	var name *net.DNSError
	if errors.As(err, &name) {
		e.Err = fault.Because("this host's resolver knows no address of that name", err)
		if name.IsTimeout || name.IsTemporary {
			e.Err = fault.Because("this host's resolver does not answer", err)
		}
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		e.Native = fmt.Sprintf("%s (%d)", unix.ErrnoName(errno), int(errno))
	}
	if errno == unix.ECONNRESET { // the connection was there already
		e.Code, e.Op, e.Err = fault.PeerNotHopbench, "greet the peer", errors.New("it reset the connection at once")
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		e.Err = fmt.Errorf("no answer within %v", o.Connect)
	}
	return nil, creds.fail(fault.Sharper(e))
}

// self names this process to the peer, for the message to whoever finds that busy.
func self() string {
	name := fmt.Sprintf("uid %d", os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s@%s (pid %d)", name, host, os.Getpid())
}

// call makes one call with its limit and turns its failure into a *fault.Error. A call that exceeds its limit, or whose connection
// breaks, ends the session.
func (c *client) call(ctx context.Context, op string, limit time.Duration, do func(context.Context) error) error {
	if err := c.lost(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	start := time.Now()
	err := do(limited)
	if err == nil {
		return nil
	}
	if e := fromStatus(c.addr, op, err); e != nil {
		return e
	}
	switch status.Code(err) {
	case codes.Canceled:
		if ctx.Err() != nil {
			return fmt.Errorf("%s on %s: %w", op, c.addr, context.Cause(ctx))
		}
	case codes.DeadlineExceeded:
		// This side's timer or, a moment earlier, the server's, which has the same limit.
		return c.lose(fault.New(fault.PeerDeadline, op, c.addr, "no answer for %v", time.Since(start).Round(100*time.Millisecond)))
	}
	e := &fault.Error{Code: fault.PeerVanished, Op: op, Device: c.addr, Err: errors.New("the control connection broke"), Detail: line(err.Error())}
	if c.gone != nil {
		if how := c.gone(); how != "" {
			e.Err = errors.New(how)
		}
	}
	return c.lose(e)
}

// lost says why the session is of no use any more.
func (c *client) lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fault.New(fault.PeerVanished, "call the peer", c.addr, "the session is closed")
	}
	return c.broken
}

// lose ends the session: what follows fails at once instead of waiting again. The server sees the connection end.
func (c *client) lose(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		c.broken = err
		c.conn.Close()
	}
	return err
}

// Host implements harness.Peer.
func (c *client) Host(ctx context.Context) (h results.Host, err error) {
	err = c.call(ctx, "read the host", c.o.Phase, func(ctx context.Context) error {
		m, err := c.rpc.Host(ctx, &controlpb.HostRequest{})
		if err != nil {
			return err
		}
		h, err = decodeHost(m.GetHost())
		return c.sense("read the host", err)
	})
	return h, err
}

// sense is the failure of a reply that makes no sense.
func (c *client) sense(op string, err error) error {
	if err == nil {
		return nil
	}
	return toStatus(op, &fault.Error{Code: fault.PeerRefused, Op: op, Device: c.addr, Err: fmt.Errorf("its answer makes no sense: %w", err)})
}

// Alive implements harness.Peer: it keeps the server's watchdog quiet and finds a peer that is gone.
func (c *client) Alive(ctx context.Context) error {
	return c.call(ctx, "ask the peer for a sign", c.o.Phase, func(ctx context.Context) error {
		_, err := c.rpc.Alive(ctx, &controlpb.AliveRequest{})
		return err
	})
}

// Open implements harness.Peer.
func (c *client) Open(ctx context.Context, r harness.OpenRequest) (harness.Lane, error) {
	l := &lane{c: c, request: r}
	err := c.call(ctx, "open "+r.Driver, c.filling(r.Memory.Bytes, 0), func(ctx context.Context) error {
		m, err := c.rpc.Open(ctx, encodeOpen(r))
		if err != nil {
			return err
		}
		l.id = m.GetLane()
		l.opened, err = decodeOpened(m.GetOpened())
		return c.sense("open "+r.Driver, err)
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// filling is the limit of a call that touches bytes of memory and makes pieces descriptors.
func (c *client) filling(bytes uint64, pieces int) time.Duration {
	return c.o.Phase + seconds(float64(bytes)/slowestFill+float64(pieces)/slowestList)
}

// looping is the limit of a loop.
func (c *client) looping(s harness.Span, stall float64) time.Duration {
	loop := c.o.Loop
	if s.Seconds > 0 {
		loop = seconds(s.Seconds)
	}
	return c.o.Phase + loop + seconds(stall)
}

// seconds is a duration, of a day at most: what somebody asks for may be more than a duration holds.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, 86400) * float64(time.Second))
}

// Close implements harness.Peer. The server has closed everything, and has room for another client, when it returns.
func (c *client) Close() error { return c.end(context.Background(), "", false) }

// end closes the session and tells the server why.
func (c *client) end(ctx context.Context, reason string, failed bool) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	broken := c.broken
	c.mu.Unlock()
	var errs []error
	if broken == nil {
		ctx, cancel := context.WithTimeout(ctx, c.o.Phase+drain)
		err := c.call(ctx, "close the session", c.o.Phase+drain, func(ctx context.Context) error {
			_, err := c.rpc.Close(ctx, &controlpb.CloseRequest{Reason: clean(reason, maxFarewell), Failed: failed})
			return err
		})
		cancel()
		errs = append(errs, err)
	}
	c.mu.Lock()
	already := c.closed
	c.closed = true
	c.mu.Unlock()
	if already {
		return nil
	}
	c.conn.Close()
	if c.stop != nil {
		errs = append(errs, c.stop())
	}
	return errors.Join(errs...)
}
