package tcp

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

var loopbackAddr = netip.MustParseAddr("127.0.0.1")

// side opens the driver with a small region and an endpoint of one stream.
func side(t *testing.T, passive bool, set map[string]string) transports.Endpoint {
	t.Helper()
	tr, err := New().Open(context.Background(), transports.Options{Bind: loopbackAddr, Settings: set})
	if err != nil {
		t.Fatal(err)
	}
	b, err := mem.Allocate(mem.Spec{Kind: mem.Host, Bytes: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	r, err := tr.Register(b)
	if err != nil {
		t.Fatal(err)
	}
	e, err := tr.NewEndpoint(transports.EndpointOptions{Region: r, Streams: 1, Depth: 4, Passive: passive, StallSeconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(e.Close(), r.Close(), b.Close(), tr.Close()); err != nil {
			t.Error(err)
		}
	})
	return e
}

func remote(addr []byte) transports.Remote {
	return transports.Remote{Address: addr, RegionBytes: 1 << 16}
}

func TestWrongNonceIsNamedOnBothSides(t *testing.T) {
	target, initiator := side(t, true, nil), side(t, false, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var a address
	if err := json.Unmarshal(target.Address(), &a); err != nil {
		t.Fatal(err)
	}
	a.Nonce[0] ^= 1
	forged, _ := json.Marshal(a)
	there := make(chan error, 1)
	go func() { there <- target.Connect(ctx, remote(initiator.Address())) }()
	if err := initiator.Connect(ctx, remote(forged)); fault.CodeOf(err) != fault.TCPNonce {
		t.Errorf("the initiator says %v", err)
	}
	if err := <-there; fault.CodeOf(err) != fault.TCPNonce {
		t.Errorf("the target says %v", err)
	}
}

func TestStrangersDoNotHoldUpTheRun(t *testing.T) {
	target, initiator := side(t, true, nil), side(t, false, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var a address
	if err := json.Unmarshal(target.Address(), &a); err != nil {
		t.Fatal(err)
	}
	there := make(chan error, 1)
	go func() { there <- target.Connect(ctx, remote(initiator.Address())) }()
	// One that says nothing and one that speaks HTTP.
	for _, text := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat("x", 100)} {
		c, err := net.Dial("tcp", a.Listen[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(initiator.Connect(ctx, remote(target.Address())), <-there); err != nil {
		t.Error(err)
	}
}

func TestNobodyListensIsRefusedAndNamesTheDataAddress(t *testing.T) {
	target, initiator := side(t, true, nil), side(t, false, nil)
	addr := target.Address()
	var a address
	_ = json.Unmarshal(addr, &a)
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := initiator.Connect(ctx, remote(addr))
	if fault.CodeOf(err) != fault.TCPDataRefused || !strings.Contains(err.Error(), a.Listen[0]) {
		t.Errorf("%v", err)
	}
}

func TestSocketsArePlainTCPAndTheirSettingsRecorded(t *testing.T) {
	target, initiator := side(t, true, map[string]string{"congestion": "reno"}), side(t, false, map[string]string{"congestion": "reno", "sndbuf": "1073741824"})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	there := make(chan error, 1)
	go func() { there <- target.Connect(ctx, remote(initiator.Address())) }()
	if err := errors.Join(initiator.Connect(ctx, remote(target.Address())), <-there); err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]transports.Endpoint{"initiator": initiator, "target": target} {
		// The kernel itself says what the socket is: IPPROTO_TCP is 6, IPPROTO_MPTCP 262.
		got, err := unix.GetsockoptInt(e.(*endpoint).conns[0].fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
		if err != nil || got != unix.IPPROTO_TCP {
			t.Errorf("%s: SO_PROTOCOL %d, %v", name, got, err)
		}
		p := e.Path()
		if p.Settings["congestion_control"] != "reno" || p.SameHost == nil || !*p.SameHost || p.Limit != nil || p.Realm != transports.Software {
			t.Errorf("%s: path %+v", name, p)
		}
	}
	p := initiator.Path()
	if p.Settings["sndbuf_asked_bytes"] != "1073741824" || p.Settings["sndbuf_got_bytes"] == "" {
		t.Errorf("asked and got: %v", p.Settings)
	}
	if len(p.Warnings) == 0 {
		t.Errorf("a buffer of 1 GiB was clamped and nothing says so: %v", p.Settings)
	}
}

func TestSettingsAreRefusedByName(t *testing.T) {
	for name, value := range map[string]string{"sndbuf": "-1", "rcvbuf": "x", "zerocopy": "maybe", "data-port": "65536", "nagle": "on"} {
		_, err := New().Open(context.Background(), transports.Options{Settings: map[string]string{name: value}})
		if fault.ClassOf(err) != fault.Usage || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	tr, err := New().Open(context.Background(), transports.Options{Bind: loopbackAddr, Settings: map[string]string{"congestion": "nosuch"}})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := mem.Allocate(mem.Spec{Kind: mem.Host, Bytes: 4096})
	defer b.Close()
	r, _ := tr.Register(b)
	defer r.Close()
	if _, err := tr.NewEndpoint(transports.EndpointOptions{Region: r, Streams: 1, Depth: 1, Passive: true}); err == nil || !strings.Contains(err.Error(), "this kernel has") {
		t.Errorf("an unknown congestion control: %v", err)
	}
}

// feed gives a serving connection bytes that no initiator sends.
func feed(t testing.TB, data []byte) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	if err := forLoopsTest(fds[0]); err != nil {
		t.Fatal(err)
	}
	go func() {
		for len(data) > 0 {
			n, err := unix.Write(fds[1], data)
			if err != nil {
				break
			}
			data = data[n:]
		}
		unix.Shutdown(fds[1], unix.SHUT_WR)
		drain := make([]byte, 1<<16)
		for {
			if n, err := unix.Read(fds[1], drain); n <= 0 || err != nil {
				break
			}
		}
		unix.Close(fds[1])
	}()
	c := newConn(fds[0], "the fuzzer", make([]byte, 1<<14), sockSettings{})
	list := transports.List{Pieces: []transports.Piece{{Local: 0, Remote: 64, Length: 100}}, Ends: []uint32{1}}
	l := &transports.Loop{Op: transports.Send, Lists: []transports.List{list}, Depth: 1, Wait: transports.Adaptive}
	c.begin(l, 1e9, false)
	return c.serve(l, &l.Lists[0])
}

func forLoopsTest(fd int) error {
	limit := unix.NsecToTimeval(int64(tick))
	return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit))
}

func frame(k kind, flags uint8, pieces []transports.Piece, payload int) []byte {
	b := make([]byte, headerLen+len(pieces)*descLen)
	n, _ := putFrame(b, k, flags, 0, pieces)
	return append(b[:n], make([]byte, payload)...)
}

func TestFramesOutsideTheRegionAreRefused(t *testing.T) {
	for name, f := range map[string][]byte{
		"past the end":   frame(kindWrite, flagLast, []transports.Piece{{Remote: 1<<14 - 10, Length: 11}}, 11),
		"far away":       frame(kindWrite, flagLast, []transports.Piece{{Remote: 1 << 62, Length: 8}}, 8),
		"wraps around":   frame(kindWrite, flagLast, []transports.Piece{{Remote: ^uint64(0), Length: 8}}, 8),
		"second piece":   frame(kindWrite, flagLast, []transports.Piece{{Remote: 0, Length: 8}, {Remote: 1 << 14, Length: 1}}, 9),
		"a read past it": frame(kindRead, flagLast, []transports.Piece{{Remote: 1<<14 - 1, Length: 2}}, 0),
		"huge read":      frame(kindRead, flagLast, []transports.Piece{{Remote: 0, Length: 1 << 39}}, 0),
		"huge write":     frame(kindWrite, flagLast, []transports.Piece{{Remote: 0, Length: 1 << 39}}, 10),
	} {
		if err := feed(t, f); fault.CodeOf(err) != fault.TCPBounds {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := feed(t, frame(kindSend, flagLast, []transports.Piece{{Length: 101}}, 101)); fault.CodeOf(err) != fault.TCPProtocol {
		t.Errorf("a send that does not fit the receive: %v", err)
	}
}

func FuzzServe(f *testing.F) {
	f.Add(frame(kindWrite, flagLast, []transports.Piece{{Remote: 5, Length: 10}}, 10))
	f.Add(frame(kindRead, flagLast, []transports.Piece{{Remote: 5, Length: 10}, {Remote: 100, Length: 3}}, 0))
	f.Add(append(frame(kindSend, flagLast, []transports.Piece{{Length: 100}}, 100), frame(kindEnd, 0, nil, 0)[:headerLen]...))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		err := feed(t, data)
		if err != nil && fault.ClassOf(err) != fault.Peer {
			t.Errorf("%v has class %s", err, fault.ClassOf(err))
		}
	})
}

func FuzzAddress(f *testing.F) {
	f.Add([]byte(`{"listen":["127.0.0.1:1"],"nonce":"AAAA"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var a address
		if json.Unmarshal(data, &a) != nil {
			return
		}
		a.Listen = nil // nothing is dialled by a fuzzer
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if fds, err := dialAll(ctx, a, 1, netip.Addr{}, sockSettings{}); err == nil {
			t.Errorf("connected to nothing: %v", fds)
		}
	})
}
