package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"hopbench/harness"
	"hopbench/transports/fault"
)

// session is what one client has open. It ends with its connection, by the client's Close or by the watchdog, and closes everything then.
type session struct {
	server *Server
	client string // for messages: who, and from where
	began  time.Time
	quiet  time.Duration // without a call for so long, the client is gone
	local  netip.Addr    // by which the client reached this host
	conn   *sessionConn
	side   harness.Peer
	budget budget

	mu      sync.Mutex
	lanes   map[uint64]*remoteLane
	next    uint64
	calls   int       // running
	last    time.Time // a call began or ended
	over    bool      // no call may begin
	idle    chan struct{}
	done    chan struct{} // closed when everything is closed
	closing error
	timer   *time.Timer
	greeted bool          // a call came that did not end it
	leaving chan struct{} // set when this rank was interrupted; closed when the client has asked for a sign and knows
	parting *parting      // what the client said when it ended the session; nil where it did not
}

// parting is a client's last word.
type parting struct {
	reason string
	failed bool
}

// farewell keeps a client's last word.
func (n *session) farewell(reason string, failed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.parting == nil {
		n.parting = &parting{reason, failed}
	}
}

// welcome tells the server, once, that the client has use for it.
func (n *session) welcome() {
	n.mu.Lock()
	first := !n.greeted
	n.greeted = true
	n.mu.Unlock()
	if first && n.server.options.welcome != nil {
		n.server.options.welcome()
	}
}

// sessionConn ends its session when gRPC closes it, which gRPC does when the other end closes or breaks it.
type sessionConn struct {
	net.Conn
	session *session
}

func (c *sessionConn) Close() error {
	err := c.Conn.Close()
	go c.session.end("its connection ended")
	return err
}

// remoteLane is one open lane with what it may ask for.
type remoteLane struct {
	lane    harness.Lane
	request harness.OpenRequest
	room    uint64

	mu    sync.Mutex
	works [2]workRoom
}

// workRoom is the prepared work of an endpoint and what it costs.
type workRoom struct {
	work          harness.Work
	lists, stamps uint64
}

func newSession(s *Server, p proof, conn net.Conn) *session {
	now := time.Now()
	n := &session{
		server: s, client: fmt.Sprintf("%s from %s", p.name, conn.RemoteAddr()), began: now, quiet: p.loop + s.options.slack,
		side: s.side(), budget: budget{limits: s.options.Limits}, lanes: map[uint64]*remoteLane{}, last: now,
		idle: make(chan struct{}), done: make(chan struct{}),
	}
	if a, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil {
		n.local = a.Addr().Unmap()
	}
	n.conn = &sessionConn{conn, n}
	n.mu.Lock() // watch runs on another goroutine
	defer n.mu.Unlock()
	n.timer = time.AfterFunc(n.quiet, n.watch)
	return n
}

// watch is the watchdog: it ends a session whose client has not called for too long.
func (n *session) watch() {
	n.mu.Lock()
	left := n.quiet - time.Since(n.last)
	if n.calls > 0 {
		left = n.quiet
	}
	over := n.over
	if left > 0 && !over {
		n.timer.Reset(left)
	}
	n.mu.Unlock()
	if left <= 0 && !over {
		n.end(fmt.Sprintf("no call for %v", n.quiet))
		n.conn.Conn.Close()
	}
}

// enter begins a call and leave ends it.
func (n *session) enter(op string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over {
		return fault.New(fault.PeerRefused, "call the peer", "", "the session has ended")
	}
	if n.leaving != nil && op != "close" {
		if op == "alive" {
			select {
			case <-n.leaving:
			default:
				close(n.leaving)
			}
		}
		return fault.New(fault.PeerVanished, op, "", Interrupted)
	}
	n.calls++
	n.last = time.Now()
	return nil
}

func (n *session) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls--
	n.last = time.Now()
	if n.over && n.calls == 0 {
		close(n.idle)
	}
}

func (n *session) ending() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.over
}

// end ends the session and closes what it opened, once; whoever calls it later waits for that. Reason is for the log.
func (n *session) end(reason string) {
	n.mu.Lock()
	first := !n.over
	n.over = true
	if first && n.calls == 0 {
		close(n.idle)
	}
	n.mu.Unlock()
	if !first {
		<-n.done
		return
	}
	n.timer.Stop()
	n.conn.Conn.Close() // gRPC ends the contexts of the calls that still run
	n.finish(reason)
}

// finish closes everything and makes room for the next session.
func (n *session) finish(reason string) {
	select {
	case <-n.idle:
	case <-time.After(drain):
		n.server.log("session of %s: calls still run %v after its end; closing all the same", n.client, drain)
	}
	err := n.side.Close()
	n.closing = err
	if err != nil {
		n.server.log("session of %s: %v", n.client, err)
	}
	n.server.log("session of %s ends after %v: %s", n.client, time.Since(n.began).Round(time.Millisecond), reason)
	n.server.release(n)
	close(n.done)
}

// close is the client's own end: the connection stays for the answer.
func (n *session) close() error {
	n.mu.Lock()
	first := !n.over
	n.over = true
	if n.calls--; n.calls == 0 { // this call is not waited for; calls only ever passes zero once, since none begins any more
		close(n.idle)
	}
	n.mu.Unlock()
	if first {
		n.timer.Stop()
		n.finish("closed by the client")
	}
	<-n.done
	return n.closing
}

func (n *session) lane(id uint64) (*remoteLane, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.lanes[id]
	if l == nil {
		return nil, fault.New(fault.PeerRefused, "find the lane", "", "the session has no lane %d", id)
	}
	return l, nil
}

// intercept gives every call its session, a limit that ends before the client's, and an end that is a status.
func (s *Server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (reply any, err error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "no peer")
	}
	auth, ok := p.AuthInfo.(authInfo)
	if !ok || auth.session == nil {
		return nil, status.Error(codes.Unauthenticated, "no session")
	}
	n, op := auth.session, phaseOf(info.FullMethod)
	if err := n.enter(op); err != nil {
		return nil, toStatus(op, err)
	}
	defer n.leave()
	if op != "close" {
		n.welcome()
	}
	limit := longestCall
	if d, ok := ctx.Deadline(); ok {
		// This side's own failure shall reach the client before the client gives up and only knows that nothing came.
		left := time.Until(d)
		limit = min(limit, left-min(left/5, 2*time.Second))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			s.log("session of %s: %s failed: %v\n%s", n.client, op, r, debug.Stack())
			reply, err = nil, toStatus(op, fault.New(fault.PeerRefused, op, "", "it failed inside: %v", r))
		}
	}()
	reply, err = handle(context.WithValue(ctx, sessionKey{}, n), request)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("not done within %v: %w", limit.Round(time.Millisecond), err)
		}
		s.log("session of %s: %v", n.client, err)
		return nil, toStatus(op, err)
	}
	return reply, nil
}

type sessionKey struct{}

func sessionOf(ctx context.Context) *session { return ctx.Value(sessionKey{}).(*session) }
