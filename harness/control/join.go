package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"

	"hopbench/harness"
	"hopbench/transports/fault"
)

const (
	// joinHandshake is the limit of being greeted by the first rank, which may have a thousand to greet.
	joinHandshake = 30 * time.Second
	// Between two tries to reach the first rank.
	firstPause, longestPause = 100 * time.Millisecond, 2 * time.Second
	// leaving is how long a rank that was interrupted stays to say so: it is asked, and asks nobody.
	leaving     = 2 * time.Second
	maxFarewell = 2 << 10 // bytes of the first rank's last word
)

// Interrupted is the cause in the answers of a rank that a signal is ending.
const Interrupted = "this rank was interrupted"

// JoinOptions is how a rank joins a mesh. The zero value is fine.
type JoinOptions struct {
	// Limit is for how long the first rank is tried again: the ranks of a job do not start at once. 0 means a minute.
	Limit       time.Duration
	ToolVersion string // for the greeting
	// Joined is called with who coordinates, and from where, when this rank has been taken in.
	Joined func(first string)
	// Log takes one line on what happened.
	Log func(line string)

	protocol uint16 // for tests: 0 means Version
}

// Join makes this process a rank of the mesh whose first rank is at addr (HOST:PORT), and serves what that asks of side until it
// ends the mesh, which is no error. Errors are *fault.Error: the first rank was not reached within the limit, is another version or
// no hopbench, holds another token, went away, or ended the mesh with a reason. The name of the rank is for the caller to add.
func Join(ctx context.Context, addr string, token Token, m Member, side harness.Peer, o JoinOptions) error {
	if _, err := m.checked(); err != nil {
		return fmt.Errorf("a rank with %w", err)
	}
	if o.Limit <= 0 {
		o.Limit = time.Minute
	}
	var first string
	server, err := NewServer(func() harness.Peer { return side }, token, Options{
		ToolVersion: o.ToolVersion, Once: true, Log: o.Log, Bind: m.Bind, Announce: m.Announce, member: &m, protocol: o.protocol,
		lanes: 4*m.Size + maxLanes, // a link for each way of each pair, and those of the step before
		welcome: func() {
			if o.Joined != nil {
				o.Joined(first)
			}
		},
	})
	if err != nil {
		return fault.New(fault.PeerToken, "join the mesh", addr, "%w", err)
	}
	conn, s, err := server.reach(ctx, addr, o.Limit)
	if err != nil {
		return err
	}
	first = s.client
	if err := server.serve(ctx, &only{conn: conn, closed: make(chan struct{}), addr: conn.LocalAddr()}, ready{session: s}); err != nil {
		return err
	}
	s.end("the rank ended")
	s.mu.Lock()
	last := s.parting
	s.mu.Unlock()
	switch {
	case last != nil && last.failed:
		return fault.New(fault.PeerRefused, "take part in the mesh", "", "the first rank (%s) ended the mesh: %s", s.client, last.reason)
	case last != nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fault.New(fault.PeerVanished, "take part in the mesh", addr, "the first rank (%s) went away without ending it, or it ended while this rank was stopped", s.client)
}

// reach dials the first rank until it is greeted, or refused for a reason that no further try changes, or the limit has passed.
func (s *Server) reach(ctx context.Context, addr string, limit time.Duration) (net.Conn, *session, error) {
	const op = "join the first rank"
	began := time.Now()
	limited, cancel := context.WithDeadline(ctx, began.Add(limit))
	defer cancel()
	dialer := net.Dialer{KeepAlive: -1}
	dialer.SetMultipathTCP(false)
	var last error
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		conn, err := dialer.DialContext(limited, "tcp", addr)
		if err == nil {
			var secured net.Conn
			var n *session
			if secured, n, err = s.join(limited, conn, addr); err == nil {
				return secured, n, nil
			}
			var final *fault.Error
			if errors.As(err, &final) && final.Code != fault.PeerNotHopbench {
				return nil, nil, err
			}
		}
		if last == nil || limited.Err() == nil { // the last try's own failure says more than that the time was up
			last = err
		}
		select {
		case <-limited.Done():
		case <-time.After(pause):
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if limited.Err() != nil {
			return nil, nil, unreached(op, addr, time.Since(began), last)
		}
	}
}

// unreached says why the first rank was not reached.
func unreached(op, addr string, after time.Duration, last error) error {
	var known *fault.Error
	if errors.As(last, &known) {
		return last
	}
	e := &fault.Error{Code: fault.PeerUnreachable, Op: op, Device: addr}
	var errno unix.Errno
	if errors.As(last, &errno) {
		e.Native = fmt.Sprintf("%s (%d)", unix.ErrnoName(errno), int(errno))
	}
	var network *net.OpError
	if errors.As(last, &network) {
		last = network.Err // without the address, which the error has already
	}
	e.Err = fmt.Errorf("not within %v: %w", after.Round(100*time.Millisecond), last)
	return e
}

// watchFirst makes a rank notice that the host of its first rank is gone without a sign. Nothing is sent while that speaks to it at least
// once a minute, and a packet every ten seconds where a single loop, or the turn of other ranks, takes longer.
func watchFirst(raw net.Conn) {
	if t, ok := raw.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 10 * time.Second, Count: 3}) // without it the watchdog remains
	}
}

// join greets the first rank over a connection that was made to it.
func (s *Server) join(ctx context.Context, raw net.Conn, addr string) (net.Conn, *session, error) {
	silence(raw)
	watchFirst(raw)
	raw.SetDeadline(time.Now().Add(joinHandshake))
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	s.options.member.Local = addrPort(raw.LocalAddr()).Addr()
	conn, n, err := s.creds.handshake(raw)
	if !stop() && err == nil {
		n.end("the limit of joining has passed")
		err = context.Cause(ctx)
	}
	if err == nil {
		raw.SetDeadline(time.Time{})
		return conn, n, nil
	}
	raw.Close()
	const op = "greet the first rank"
	e := &fault.Error{Code: fault.PeerNotHopbench, Op: op, Device: addr, Err: err}
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		e.Code, e.Err = known.Code, known.Err
	case errors.Is(err, os.ErrDeadlineExceeded):
		e.Err = errors.New("it took the connection and did not greet")
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		e.Err = errors.New("it closed the connection while it was greeted")
	case errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE):
		e.Err = errors.New("it reset the connection while it was greeted")
	}
	return nil, nil, e
}

// only is a listener of one connection.
type only struct {
	mu     sync.Mutex
	conn   net.Conn
	addr   net.Addr
	closed chan struct{}
	once   sync.Once
}

func (o *only) Accept() (net.Conn, error) {
	o.mu.Lock()
	c := o.conn
	o.conn = nil
	o.mu.Unlock()
	if c != nil {
		return c, nil
	}
	<-o.closed
	return nil, net.ErrClosed
}

func (o *only) Close() error {
	o.once.Do(func() { close(o.closed) })
	return nil
}

func (o *only) Addr() net.Addr { return o.addr }

// ready are the credentials of a connection that has greeted already.
type ready struct {
	handshaker
	session *session
}

func (r ready) Clone() credentials.TransportCredentials { return r }

func (r ready) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a server's credentials")
}

func (r ready) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, secured(r.session), nil
}
