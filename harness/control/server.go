package control

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"hopbench/harness"
	"hopbench/harness/control/controlpb"
	"hopbench/transports/fault"
)

const (
	handshakeLimit = 10 * time.Second // for TLS, greeting and proof together
	maxHandshakes  = 32               // connections that are not admitted yet
	maxRequest     = 1 << 20          // bytes of one request: two endpoints' addresses and a thousand groups fit
	// slack is how long a session may be silent beside the loop that its client declared.
	slack = time.Minute
	// drain is how long the end of a session waits for the calls that it interrupted.
	drain = 10 * time.Second
	// succession is how long a new client waits for a session that is just ending, and grace for one that may be about to: of a client
	// that was killed a moment ago.
	succession = 5 * time.Second
	grace      = time.Second
)

// Options is how a server serves. The zero value has no caps and reports nothing.
type Options struct {
	Limits      harness.Limits
	ToolVersion string     // for the greeting
	Bind        netip.Addr // local data address of every lane; zero: what the client asks for
	// Announce is the data address that clients are told to use; empty: the one that the client asks for, else the one by which it
	// reached the control port, since that one is known to work.
	Announce string
	Settings map[string]map[string]string // of this side's drivers, by driver and name: they win over what the client asks for
	Once     bool                         // end after the first session
	// Facts reads what the doctor of a client may know of this host: at most [MaxFacts] bytes, and nothing that an authenticated
	// client shall not read. Nil: this server tells none.
	Facts func(context.Context) ([]byte, error)
	// Log takes one line on what happened: a session's begin and end, a client that was refused.
	Log func(line string)

	slack    time.Duration // for tests: 0 means the constant
	protocol uint16        // for tests: 0 means Version
	lanes    int           // that a session may have open; 0 means maxLanes
	welcome  func()        // called when a session's first call comes that does not end it; nil for none
	member   *Member       // this server dialled its client and introduces itself so; nil: it was dialled
}

// Server is the serving side: one session at a time, each over a side of its own.
type Server struct {
	controlpb.UnimplementedPeerServer
	side    func() harness.Peer
	token   Token
	options Options
	creds   *serverCredentials

	mu      sync.Mutex
	current *session
	closed  bool
	ended   chan struct{} // closed with the first session's end where Options.Once is set
	once    sync.Once
}

// NewServer makes a server. Side gives each session a fresh side of its own; the token must be valid.
func NewServer(side func() harness.Peer, token Token, o Options) (*Server, error) {
	if !token.valid() {
		return nil, fmt.Errorf("a server needs a token of at least %d bits", 8*minTokenBytes)
	}
	certificate, err := ephemeral()
	if err != nil {
		return nil, err
	}
	if o.slack == 0 {
		o.slack = slack
	}
	if o.protocol == 0 {
		o.protocol = Version
	}
	if o.lanes == 0 {
		o.lanes = maxLanes
	}
	s := &Server{side: side, token: token, options: o, ended: make(chan struct{})}
	s.creds = &serverCredentials{server: s, config: serverTLS(certificate)}
	return s, nil
}

// Listen opens a control port. The kernel's own keep-alives are off: nothing is sent while nothing is asked.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	c := net.ListenConfig{KeepAlive: -1}
	c.SetMultipathTCP(false)
	network := "tcp"
	if host, _, err := net.SplitHostPort(addr); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
			network = "tcp4" // 0.0.0.0 is every address of IPv4: with "tcp" it is every one of IPv6 too
		}
	}
	return c.Listen(ctx, network, addr)
}

// Serve serves on a listener, which it closes, until ctx ends or, with Options.Once, the first session has ended. Neither is an error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, newGate(l), s.creds)
}

// serve serves on a listener whose connections greet by creds.
func (s *Server) serve(ctx context.Context, l net.Listener, creds credentials.TransportCredentials) error {
	g := grpc.NewServer(
		grpc.Creds(creds), grpc.ConnectionTimeout(handshakeLimit), grpc.MaxRecvMsgSize(maxRequest), grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxConcurrentStreams(16), grpc.MaxHeaderListSize(16<<10),
		// Fixed windows turn bandwidth estimation off, which would send pings.
		grpc.StaticStreamWindowSize(1<<20), grpc.StaticConnWindowSize(4<<20),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: math.MaxInt64}),
		grpc.UnaryInterceptor(s.intercept),
	)
	controlpb.RegisterPeerServer(g, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			s.leave()
		case <-s.ended:
			graceful := time.AfterFunc(2*time.Second, g.Stop) // the answer to Close is still on its way
			g.GracefulStop()
			graceful.Stop()
		}
		s.stop("the server ended")
		g.Stop()
	}()
	err := g.Serve(l)
	select {
	case <-ctx.Done():
		err = nil
	case <-s.ended:
		err = nil
	default:
	}
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		s.stop("the listener failed")
		return fmt.Errorf("control port: %w", err)
	}
	<-done
	return nil
}

// leave lets a rank that was interrupted say so to its first rank, which learns it with its next call: until it has asked for a sign, or for
// a moment.
func (s *Server) leave() {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	if s.options.member == nil || current == nil {
		return
	}
	told := make(chan struct{})
	current.mu.Lock()
	current.leaving = told
	current.mu.Unlock()
	select {
	case <-told:
		time.Sleep(100 * time.Millisecond) // the answer is on its way
	case <-current.done:
	case <-time.After(leaving):
	}
}

// stop ends the session at hand, if there is one, and waits until everything that it opened is closed.
func (s *Server) stop(reason string) {
	s.mu.Lock()
	s.closed = true
	current := s.current
	s.mu.Unlock()
	if current != nil {
		current.end(reason)
		<-current.done
	}
}

func (s *Server) log(format string, args ...any) {
	if s.options.Log != nil {
		s.options.Log(fmt.Sprintf(format, args...))
	}
}

func (s *Server) greeting() greeting {
	return greeting{version: s.options.protocol, tool: s.options.ToolVersion}
}

// admit makes the session of a client that has proved the token, or says why there is none.
func (s *Server) admit(p proof, conn net.Conn) (*session, verdict, error) {
	if most := s.options.Limits.MaxSeconds; most > 0 && p.loop.Seconds() > most {
		v := verdict{kind: overCap, text: fmt.Sprintf("loops of %v were announced; the server allows %g s (--max-duration)", p.loop, most)}
		return nil, v, fault.New(fault.PeerCap, "", "", "%s", v.text)
	}
	arrived := time.Now()
	for {
		s.mu.Lock()
		current := s.current
		if s.closed {
			s.mu.Unlock()
			return nil, verdict{kind: busy, text: "nobody any more: the server is ending"}, errors.New("the server is ending")
		}
		if current == nil {
			n := newSession(s, p, conn)
			s.current = n
			s.mu.Unlock()
			s.log("session of %s begins", n.client)
			return n, verdict{kind: admitted}, nil
		}
		s.mu.Unlock()
		limit := grace
		if current.ending() {
			limit = succession
		}
		if wait := time.Until(arrived.Add(limit)); wait > 0 {
			select {
			case <-current.done:
			case <-time.After(wait):
			}
			continue
		}
		v := verdict{kind: busy, text: fmt.Sprintf("%s since %s", current.client, current.began.UTC().Format(time.RFC3339))}
		return nil, v, fault.New(fault.PeerBusy, "", "", "measuring for %s", v.text)
	}
}

// release makes room for the next session.
func (s *Server) release(n *session) {
	s.mu.Lock()
	if s.current == n {
		s.current = nil
	}
	s.mu.Unlock()
	if s.options.Once {
		s.once.Do(func() { close(s.ended) })
	}
}

// gate keeps the number of connections that have not greeted yet within bounds: the next one waits in the kernel's queue.
type gate struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newGate(l net.Listener) *gate {
	return &gate{Listener: l, slots: make(chan struct{}, maxHandshakes), closed: make(chan struct{})}
}

func (g *gate) Accept() (net.Conn, error) {
	select {
	case g.slots <- struct{}{}:
	case <-g.closed:
		return nil, net.ErrClosed
	}
	conn, err := g.Listener.Accept()
	if err != nil {
		<-g.slots
		return nil, err
	}
	silence(conn)
	return &guest{Conn: conn, leave: sync.OnceFunc(func() { <-g.slots })}, nil
}

func (g *gate) Close() error {
	g.once.Do(func() { close(g.closed) })
	return g.Listener.Close()
}

// guest is a connection from the control port. It leaves the gate when it has greeted or is closed.
type guest struct {
	net.Conn
	leave func()
}

func (g *guest) Close() error {
	g.leave()
	return g.Conn.Close()
}
