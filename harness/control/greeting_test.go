package control

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"hopbench/harness"
	"hopbench/transports/fault"
)

// stranger listens and answers each connection by a function.
func stranger(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				answer(c)
			}()
		}
	}()
	return l.Addr().String()
}

// overTLS answers after a TLS handshake that looks like hopbench's.
func overTLS(t *testing.T, answer func(*tls.Conn)) func(net.Conn) {
	t.Helper()
	certificate, err := ephemeral()
	if err != nil {
		t.Fatal(err)
	}
	return func(raw net.Conn) {
		c := tls.Server(raw, serverTLS(certificate))
		if c.Handshake() == nil {
			answer(c)
			c.Close()
		}
	}
}

func TestWhatIsNoPeerIsToldApart(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	tool := greeting{version: Version, tool: "v9"}
	for _, c := range []struct {
		name, addr string
		want       fault.Code
		parts      []string
	}{
		{"nobody", closed.Addr().String(), fault.PeerUnreachable, []string{"ECONNREFUSED"}},
		{"http", web.Listener.Addr().String(), fault.PeerNotHopbench, []string{"HTTP"}},
		{"https", secure.Listener.Addr().String(), fault.PeerNotHopbench, []string{"TLS"}},
		{"closes at once", stranger(t, func(net.Conn) {}), fault.PeerNotHopbench, []string{"the connection in the TLS handshake"}},
		{"resets", stranger(t, func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }), fault.PeerNotHopbench, []string{"it reset the connection"}},
		{"ssh", stranger(t, func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n"); io.Copy(io.Discard, c) }), fault.PeerNotHopbench, []string{"SSH"}},
		{"huge record", stranger(t, func(c net.Conn) { c.Write([]byte{22, 3, 3, 0xff, 0xff}); io.Copy(io.Discard, c) }), fault.PeerNotHopbench, nil},
		{"silent", stranger(t, func(c net.Conn) { io.Copy(io.Discard, c) }), fault.PeerDeadline, []string{"did not answer the TLS handshake within 500ms"}},
		{"other protocol over the same TLS", stranger(t, overTLS(t, func(c *tls.Conn) { io.WriteString(c, "+OK ready for you\r\n"); io.Copy(io.Discard, c) })), fault.PeerNotHopbench, []string{"+OK read"}},
		{"short greeting", stranger(t, overTLS(t, func(c *tls.Conn) { c.Write([]byte("HOPB")) })), fault.PeerNotHopbench, nil},
		{"greeting of a huge length", stranger(t, overTLS(t, func(c *tls.Conn) { c.Write([]byte(magic + "\x00\x01\xff")); io.Copy(io.Discard, c) })), fault.PeerNotHopbench, []string{"255 bytes"}},
		{"silent after the greeting", stranger(t, overTLS(t, func(c *tls.Conn) { c.Write(tool.bytes()); io.Copy(io.Discard, c) })), fault.PeerDeadline, []string{"proof of the token"}},
		{"closes after the greeting", stranger(t, overTLS(t, func(c *tls.Conn) { c.Write(tool.bytes()) })), fault.PeerNotHopbench, nil},
		{"verdict of a huge length", stranger(t, overTLS(t, func(c *tls.Conn) {
			c.Write(tool.bytes())
			readGreeting(c)
			readProof(c)
			c.Write(append(append([]byte{busy}, make([]byte, tagLen)...), 0xff, 0xff))
			io.Copy(io.Discard, c)
		})), fault.PeerNotHopbench, []string{"65535 bytes"}},
		{"newer version", stranger(t, overTLS(t, func(c *tls.Conn) {
			c.Write(greeting{version: 7, tool: "v9\x1b[2J"}.bytes())
			io.Copy(io.Discard, c)
		})), fault.PeerVersion, []string{"protocol 1 (hopbench v1)", "protocol 7 (hopbench v9?[2J)"}},
		{"takes any token and proves none", stranger(t, overTLS(t, func(c *tls.Conn) {
			c.Write(tool.bytes())
			readGreeting(c)
			readProof(c)
			c.Write(verdict{kind: admitted, tag: make([]byte, tagLen)}.bytes())
			io.Copy(io.Discard, c)
		})), fault.PeerToken, []string{"did not prove"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit := 20 * time.Second
			if c.want == fault.PeerDeadline {
				limit = 500 * time.Millisecond
			}
			p, err := Dial(t.Context(), c.addr, NewToken(), DialOptions{Connect: limit, ToolVersion: "v1"})
			if p != nil {
				t.Error("a peer beside the error")
			}
			text := code(t, err, c.want)
			contains(t, text, append(c.parts, c.addr)...)
			if strings.ContainsAny(text, "\x1b\n") {
				t.Errorf("control characters in %q", text)
			}
		})
	}
}

func TestServerTellsVersionsAndTokens(t *testing.T) {
	s := serve(t, Options{ToolVersion: "v1"}, nil)
	_, err := Dial(t.Context(), s.addr, s.token, DialOptions{ToolVersion: "v2", protocol: 2})
	contains(t, code(t, err, fault.PeerVersion), "this side speaks protocol 2 (hopbench v2), the other protocol 1 (hopbench v1)")
	s.journal.has(t, "this side speaks protocol 1 (hopbench v1), the other protocol 2 (hopbench v2)")
	_, err = Dial(t.Context(), s.addr, NewToken(), DialOptions{})
	contains(t, code(t, err, fault.PeerToken), "another token")
	s.journal.has(t, "it holds another token")
	if _, err = Dial(t.Context(), s.addr, Token{}, DialOptions{}); fault.CodeOf(err) != fault.PeerToken {
		t.Errorf("without a token: %v", err)
	}
	s.client(t, DialOptions{}) // and none of that has hurt the server
}

// A man in the middle ends TLS on both sides and passes on what the two say. Both hold the same token; he does not.
func TestRelayIsRefused(t *testing.T) {
	s := serve(t, Options{}, nil)
	addr := stranger(t, overTLS(t, func(c *tls.Conn) {
		onward, err := tls.Dial("tcp", s.addr, clientTLS())
		if err != nil {
			return
		}
		defer onward.Close()
		go func() {
			io.Copy(c, onward)
			c.Close()
		}()
		io.Copy(onward, c)
	}))
	_, err := Dial(t.Context(), addr, s.token, DialOptions{})
	code(t, err, fault.PeerToken)
	s.journal.has(t, "it holds another token")
}

// Strangers that connect and say nothing must not keep a client out.
func TestStrangersDoNotHoldUpTheServer(t *testing.T) {
	s := serve(t, Options{}, nil)
	for range maxHandshakes / 2 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	garbage, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer garbage.Close()
	io.WriteString(garbage, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	s.client(t, DialOptions{})
	s.journal.has(t, "was refused")
}

// An older TLS is refused, whatever it says.
func TestOnlyTLS13(t *testing.T) {
	s := serve(t, Options{}, nil)
	config := clientTLS()
	config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if c, err := tls.Dial("tcp", s.addr, config); err == nil {
		c.Close()
		t.Error("TLS 1.2 was accepted")
	}
}

func TestCallWithoutASessionIsRefused(t *testing.T) {
	s, err := NewServer(func() harness.Peer { return nil }, NewToken(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.intercept(context.Background(), nil, nil, nil); err == nil {
		t.Error("a call without a peer was served")
	}
	if _, err := NewServer(nil, Token{}, Options{}); err == nil {
		t.Error("a server without a token")
	}
}

func FuzzGreeting(f *testing.F) {
	f.Add(greeting{version: 1, tool: "v1"}.bytes())
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n"))
	f.Add([]byte(magic + "\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := readGreeting(bytes.NewReader(b))
		if err != nil {
			return
		}
		if len(g.tool) > maxTool || !plain(g.tool) {
			t.Errorf("tool %q", g.tool)
		}
		if again, err := readGreeting(bytes.NewReader(g.bytes())); err != nil || again != g {
			t.Errorf("%+v became %+v, %v", g, again, err)
		}
	})
}

func FuzzProof(f *testing.F) {
	p := proof{loop: time.Minute, name: "somebody"}
	f.Add(append(make([]byte, tagLen), p.said()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, said, err := readProof(bytes.NewReader(b))
		if err != nil {
			return
		}
		if len(p.name) > maxName || !plain(p.name) || !bytes.Equal(said, b[tagLen:tagLen+len(said)]) {
			t.Errorf("%+v, said %q", p, said)
		}
	})
}

func FuzzVerdict(f *testing.F) {
	f.Add(verdict{kind: busy, tag: make([]byte, tagLen), text: "somebody since"}.bytes())
	f.Add([]byte{wrongToken})
	huge := append([]byte{overCap}, make([]byte, tagLen)...)
	f.Add(binary.BigEndian.AppendUint16(huge, 65535))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := readVerdict(bytes.NewReader(b))
		if err == nil && len(v.text) > maxVerdict {
			t.Errorf("a text of %d bytes", len(v.text))
		}
		if err != nil && !errors.Is(err, errStranger) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
	})
}

// What one side says as its proof must not serve as the other's, nor in another session, nor for other words.
func TestProofHoldsForOneRoleAndOneSession(t *testing.T) {
	token, b := NewToken(), binding{export: []byte("e"), client: []byte("c"), server: []byte("s")}
	mine := b.tag(token, clientRole, []byte("said"))
	for name, other := range map[string][]byte{
		"role":     b.tag(token, serverRole, []byte("said")),
		"token":    b.tag(NewToken(), clientRole, []byte("said")),
		"words":    b.tag(token, clientRole, []byte("saie")),
		"session":  binding{[]byte("f"), b.client, b.server}.tag(token, clientRole, []byte("said")),
		"greeting": binding{b.export, b.client, []byte("t")}.tag(token, clientRole, []byte("said")),
		"border":   binding{b.export, []byte("cs"), nil}.tag(token, clientRole, []byte("said")),
	} {
		if bytes.Equal(mine, other) {
			t.Errorf("another %s gives the same proof", name)
		}
	}
}
