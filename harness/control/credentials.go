package control

import (
	"context"
	"crypto/hmac"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"

	"hopbench/transports/fault"
)

// authInfo is what the handshake leaves for the calls of a connection. The client's has no session.
type authInfo struct {
	credentials.CommonAuthInfo
	session *session
}

func (authInfo) AuthType() string { return "hopbench" }

// handshaker is the part of credentials.TransportCredentials that client and server share.
type handshaker struct{}

func (handshaker) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}
func (handshaker) OverrideServerName(string) error { return nil }

func secured(s *session) authInfo {
	return authInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, s}
}

// clientCredentials is the client's half of TLS, greeting and proof. One connection is made by it; failed keeps why it was not.
type clientCredentials struct {
	handshaker
	addr    string
	token   Token
	self    greeting
	proof   proof // without its tag
	timeout time.Duration
	meets   bool // the server has dialled this side, and introduces itself before its greeting

	mu     sync.Mutex
	failed error
	theirs greeting // the server's
	member Member   // of the introduction; proved only when the handshake has succeeded
}

func (c *clientCredentials) greeted() greeting {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.theirs
}

func (c *clientCredentials) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = err
	}
	return err
}

func (c *clientCredentials) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

func (c *clientCredentials) Clone() credentials.TransportCredentials { return c }

func (c *clientCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a client's credentials")
}

func (c *clientCredentials) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	silence(raw)
	deadline := time.Now().Add(c.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	raw.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	conn, err := c.handshake(raw)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		raw.Close()
		return nil, nil, c.fail(err)
	}
	raw.SetDeadline(time.Time{})
	return conn, secured(nil), nil
}

func (c *clientCredentials) handshake(raw net.Conn) (net.Conn, error) {
	conn := tls.Client(raw, clientTLS())
	if err := conn.Handshake(); err != nil {
		return nil, c.stranger("the TLS handshake", err)
	}
	exported, err := export(conn)
	if err != nil {
		return nil, c.stranger("the TLS handshake", err)
	}
	if _, err := conn.Write(c.self.bytes()); err != nil {
		return nil, c.stranger("the greeting", err)
	}
	var introduced []byte
	if c.meets {
		var m Member
		if m, introduced, err = readIntroduction(conn); err != nil {
			return nil, c.stranger("the introduction", err)
		}
		c.introduce(m)
	}
	theirs, err := readGreeting(conn)
	if err != nil {
		return nil, c.stranger("the greeting", err)
	}
	if theirs.version != c.self.version {
		return nil, versions("greet the peer", c.addr, c.self, theirs)
	}
	c.mu.Lock()
	c.theirs = theirs
	c.mu.Unlock()
	b := binding{export: exported, client: c.self.bytes(), server: append(introduced, theirs.bytes()...)}
	said := c.proof.said()
	if _, err := conn.Write(append(b.tag(c.token, clientRole, said), said...)); err != nil {
		return nil, c.stranger("the proof of the token", err)
	}
	v, err := readVerdict(conn)
	if err != nil {
		return nil, c.stranger("the proof of the token", err)
	}
	if v.kind != wrongToken && !hmac.Equal(v.tag, b.tag(c.token, serverRole, v.said())) {
		return nil, fault.New(fault.PeerToken, "greet the peer", c.addr, "the peer did not prove that it holds the token")
	}
	switch v.kind {
	case wrongToken:
		return nil, fault.New(fault.PeerToken, "greet the peer", c.addr, "the peer holds another token")
	case busy:
		return nil, fault.New(fault.PeerBusy, "greet the peer", c.addr, "the peer measures for %s", clean(v.text, maxVerdict))
	case overCap:
		return nil, fault.New(fault.PeerCap, "greet the peer", c.addr, "%s", clean(v.text, maxVerdict))
	}
	return conn, nil
}

func versions(op, peer string, mine, theirs greeting) error {
	return fault.New(fault.PeerVersion, op, peer, "this side speaks %s, the other %s", mine, theirs)
}

// stranger says what a failed handshake shows.
func (c *clientCredentials) stranger(step string, err error) error {
	e := &fault.Error{Code: fault.PeerNotHopbench, Op: "greet the peer", Device: c.addr}
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded):
		e.Code = fault.PeerDeadline
		e.Err = fmt.Errorf("it took the connection and did not answer %s within %v", step, c.timeout)
	case errors.As(err, &record):
		e.Err = fmt.Errorf("it answered %s with %s", step, speaks(record.RecordHeader[:]))
		e.Native = record.Msg
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		e.Err = fmt.Errorf("it closed the connection in %s", step)
	case errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE):
		e.Err = fmt.Errorf("it reset the connection in %s", step)
	default:
		e.Err = fmt.Errorf("%s: %w", step, err)
	}
	return e
}

// speaks names what the first bytes of an answer look like.
func speaks(head []byte) string {
	switch {
	case len(head) >= 4 && string(head[:4]) == "HTTP":
		return "HTTP"
	case len(head) >= 4 && string(head[:4]) == "SSH-":
		return "SSH"
	}
	return fmt.Sprintf("%q", head)
}

// serverCredentials is the server's half.
type serverCredentials struct {
	handshaker
	server *Server
	config *tls.Config
}

func (c *serverCredentials) Clone() credentials.TransportCredentials { return c }

func (c *serverCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are a server's credentials")
}

func (c *serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	raw.SetDeadline(time.Now().Add(handshakeLimit))
	conn, s, err := c.handshake(raw)
	if g, ok := raw.(*guest); ok {
		g.leave()
	}
	if err != nil {
		raw.Close()
		if !errors.Is(err, io.EOF) { // a port scanner, or a health check of an orchestrator
			c.server.log("%s was refused: %v", raw.RemoteAddr(), err)
		}
		return nil, nil, err
	}
	raw.SetDeadline(time.Time{})
	return conn, secured(s), nil
}

func (c *serverCredentials) handshake(raw net.Conn) (net.Conn, *session, error) {
	conn := tls.Server(raw, c.config)
	if err := conn.Handshake(); err != nil {
		return nil, nil, err
	}
	exported, err := export(conn)
	if err != nil {
		return nil, nil, err
	}
	mine := c.server.greeting()
	var hello []byte
	if m := c.server.options.member; m != nil {
		if hello, err = m.introduction(); err != nil {
			return nil, nil, err
		}
	}
	hello = append(hello, mine.bytes()...)
	if _, err := conn.Write(hello); err != nil {
		return nil, nil, err
	}
	theirs, err := readGreeting(conn)
	if err != nil {
		return nil, nil, err
	}
	if theirs.version != mine.version {
		conn.Close() // with TLS's own farewell: the client has the greeting and names both versions
		return nil, nil, versions("", "", mine, theirs)
	}
	b := binding{export: exported, client: theirs.bytes(), server: hello}
	p, said, err := readProof(conn)
	if err != nil {
		return nil, nil, err
	}
	token := c.server.token
	if !hmac.Equal(p.tag, b.tag(token, clientRole, said)) {
		conn.Write(verdict{kind: wrongToken}.bytes())
		conn.Close()
		return nil, nil, fault.New(fault.PeerToken, "", "", "it holds another token")
	}
	s, v, refusal := c.server.admit(p, conn)
	v.tag = b.tag(token, serverRole, v.said())
	if _, err := conn.Write(v.bytes()); err != nil {
		refusal = errors.Join(refusal, err)
	}
	if refusal != nil {
		if s != nil {
			s.end("it went away while it was greeted")
		}
		conn.Close()
		return nil, nil, refusal
	}
	return s.conn, s, nil
}
