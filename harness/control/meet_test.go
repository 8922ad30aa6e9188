package control

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"hopbench/harness"
	"hopbench/transports/fault"
)

// hall is a first rank in this process.
type hall struct {
	addr     string
	token    Token
	arrivals chan Arrival
	close    func()
}

func newHall(t *testing.T, o DialOptions) *hall {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &hall{addr: l.Addr().String(), token: NewToken(), arrivals: make(chan Arrival, 64)}
	done := make(chan error, 1)
	go func() { done <- Meet(ctx, l, h.token, o, func(a Arrival) { h.arrivals <- a }) }()
	h.close = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("meet: %v", err)
		}
	})
	t.Cleanup(h.close)
	return h
}

func (h *hall) next(t *testing.T) Arrival {
	t.Helper()
	select {
	case a := <-h.arrivals:
		return a
	case <-time.After(20 * time.Second):
		t.Fatal("nobody came")
		return Arrival{}
	}
}

// join starts a rank and returns its end.
func (h *hall) join(t *testing.T, token Token, m Member, o JoinOptions) chan error {
	t.Helper()
	if o.Limit == 0 {
		o.Limit = 10 * time.Second
	}
	ended := make(chan error, 1)
	side := harness.NewSide(drivers(), harness.Limits{})
	ctx := t.Context()
	go func() { ended <- Join(ctx, h.addr, token, m, side, o) }()
	return ended
}

func ended(t *testing.T, c chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the rank has not ended")
		return nil
	}
}

func hasText(t *testing.T, err error, want fault.Code, parts ...string) {
	t.Helper()
	contains(t, code(t, err, want), parts...)
}

func TestARankJoinsServesAndIsSentHome(t *testing.T) {
	h := newHall(t, DialOptions{ToolVersion: "v1"})
	joined := make(chan string, 1)
	want := Member{
		Number: 3, Size: 8, Host: "node3", HostID: "boot", Bind: netip.MustParseAddr("127.0.0.1"), Announce: "node3-data",
		Device: map[string]string{"netdev": "eth1"}, Memory: "cuda:1", Chosen: "eth1, nearest",
		Rails: []Rail{{"mlx5_0", "cuda:0"}, {Device: "mlx5_1"}},
	}
	end := h.join(t, h.token, want, JoinOptions{ToolVersion: "v1", Joined: func(first string) { joined <- first }})
	a := h.next(t)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	want.Local = netip.MustParseAddr("127.0.0.1")
	if !reflect.DeepEqual(a.Member, want) {
		t.Errorf("it is %+v, want %+v", a.Member, want)
	}
	if a.Tool != "v1" || a.From.Addr() != want.Local || a.Local != want.Local {
		t.Errorf("tool %q, from %v to %v", a.Tool, a.From, a.Local)
	}
	select {
	case first := <-joined:
		t.Errorf("it says that it has joined %s before it was asked for anything", first)
	default:
	}
	if host, err := a.Peer.Host(t.Context()); err != nil || host.Hostname == "" {
		t.Errorf("host %+v, %v", host, err)
	}
	if first := <-joined; !strings.Contains(first, h.addr) {
		t.Errorf("it has joined %q, not %s", first, h.addr)
	}
	lane, err := a.Peer.Open(t.Context(), open(true))
	if err != nil {
		t.Fatal(err)
	}
	if len(lane.Opened().Addresses) == 0 {
		t.Error("the lane has no address")
	}
	if err := a.Dismiss(t.Context(), "", false); err != nil {
		t.Error(err)
	}
	if err := ended(t, end); err != nil {
		t.Errorf("sent home: %v", err)
	}
	hasText(t, a.Peer.Alive(t.Context()), fault.PeerVanished, "rank 3 on node3 (127.0.0.1:")
}

func TestARankLearnsWhyItIsSentHome(t *testing.T) {
	h := newHall(t, DialOptions{})
	end := h.join(t, h.token, Member{Number: 1, Size: 2, Host: "b"}, JoinOptions{Joined: func(string) { t.Error("it says that it has joined") }})
	a := h.next(t)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	if err := a.Dismiss(t.Context(), "rank 5\x1b[2J on node5 did not come", true); err != nil {
		t.Error(err)
	}
	hasText(t, ended(t, end), fault.PeerRefused, "rank 5?[2J on node5 did not come", "the first rank")
}

func TestAFirstRankThatGoesTakesTheOthersWithIt(t *testing.T) {
	h := newHall(t, DialOptions{})
	end := h.join(t, h.token, Member{Number: 1, Size: 2, Host: "b"}, JoinOptions{})
	a := h.next(t)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	a.Peer.(*client).conn.Close()
	hasText(t, ended(t, end), fault.PeerVanished, "went away", h.addr)
}

func TestAWrongTokenIsNamedOnBothSides(t *testing.T) {
	h := newHall(t, DialOptions{})
	end := h.join(t, NewToken(), Member{Number: 5, Size: 8, Host: "node5"}, JoinOptions{})
	a := h.next(t)
	hasText(t, a.Err, fault.PeerToken, "claims to be rank 5 on node5", "another token", "127.0.0.1:")
	if a.Peer != nil || a.Member.Number != 5 {
		t.Errorf("%+v", a)
	}
	if err := a.Dismiss(t.Context(), "x", true); err != nil {
		t.Errorf("dismissing nobody: %v", err)
	}
	hasText(t, ended(t, end), fault.PeerToken, "another token", h.addr)
}

func TestTwoVersionsAreNamedOnBothSides(t *testing.T) {
	h := newHall(t, DialOptions{ToolVersion: "v1.0"})
	end := h.join(t, h.token, Member{Number: 2, Size: 4, Host: "old"}, JoinOptions{ToolVersion: "v0.9", protocol: Version + 1})
	a := h.next(t)
	hasText(t, a.Err, fault.PeerVersion, "rank 2 on old", fmt.Sprintf("protocol %d (hopbench v1.0)", Version), fmt.Sprintf("protocol %d (hopbench v0.9)", Version+1))
	hasText(t, ended(t, end), fault.PeerVersion, "v1.0", "v0.9", h.addr)
}

func TestAFirstRankThatIsNotThereIsAnErrorWithinTheLimit(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	start := time.Now()
	err = Join(t.Context(), addr, NewToken(), Member{Number: 1, Size: 2, Host: "b"}, harness.NewSide(nil, harness.Limits{}), JoinOptions{Limit: time.Second})
	hasText(t, err, fault.PeerUnreachable, addr, "ECONNREFUSED")
	if took := time.Since(start); took < time.Second || took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	err = Join(t.Context(), "no-such-host.invalid:1", NewToken(), Member{Number: 1, Size: 2, Host: "b"}, harness.NewSide(nil, harness.Limits{}), JoinOptions{Limit: time.Second})
	hasText(t, err, fault.PeerUnreachable, "no-such-host.invalid")
}

// The ranks of a job do not start at once: the first may come last.
func TestARankWaitsForTheFirst(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	token := NewToken()
	end := make(chan error, 1)
	go func() {
		end <- Join(t.Context(), addr, token, Member{Number: 1, Size: 2, Host: "b"}, harness.NewSide(nil, harness.Limits{}), JoinOptions{Limit: 20 * time.Second})
	}()
	time.Sleep(300 * time.Millisecond)
	if l, err = Listen(t.Context(), addr); err != nil {
		t.Skipf("the port is taken meanwhile: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go Meet(ctx, l, token, DialOptions{}, func(a Arrival) { _ = a.Dismiss(ctx, "", false) })
	if err := ended(t, end); err != nil {
		t.Error(err)
	}
}

func TestAnInterruptedRankEnds(t *testing.T) {
	h := newHall(t, DialOptions{})
	ctx, cancel := context.WithCancelCause(t.Context())
	end := make(chan error, 1)
	go func() {
		end <- Join(ctx, h.addr, h.token, Member{Number: 1, Size: 2, Host: "b"}, harness.NewSide(nil, harness.Limits{}), JoinOptions{})
	}()
	a := h.next(t)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	why := errors.New("a signal")
	cancel(why)
	if err := ended(t, end); !errors.Is(err, why) {
		t.Errorf("it ends with %v", err)
	}
	until(t, 20*time.Second, func() bool { return fault.CodeOf(a.Peer.Alive(t.Context())) == fault.PeerVanished }, func() string { return "the first rank does not see it" })
}

// What dials the first rank's port and is no rank ends nothing.
func TestStrangersAtTheFirstRanksPort(t *testing.T) {
	h := newHall(t, DialOptions{Connect: 2 * time.Second})
	for _, says := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", strings.Repeat("\x00", 4096)} {
		conn, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(says)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		if a := h.next(t); a.Err == nil || a.Member.Host != "" {
			t.Errorf("%q: %+v", says, a)
		}
	}
	// A client of `serve`: both would be the client.
	if _, err := Dial(t.Context(), h.addr, h.token, DialOptions{Connect: 2 * time.Second}); err == nil {
		t.Error("a client has a session with a first rank")
	}
	if a := h.next(t); a.Err == nil {
		t.Errorf("%+v", a)
	}
	end := h.join(t, h.token, Member{Number: 1, Size: 2, Host: "b"}, JoinOptions{})
	a := h.next(t)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	_ = a.Dismiss(t.Context(), "", false)
	if err := ended(t, end); err != nil {
		t.Error(err)
	}
}

// What a rank says of itself is part of what both sides prove: nobody in between changes it.
func TestTheIntroductionIsProved(t *testing.T) {
	token := NewToken()
	intro := func(n int) []byte {
		b, err := Member{Number: n, Size: 4, Host: "h"}.introduction()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	g := greeting{version: Version}.bytes()
	tag := func(n int) []byte {
		return binding{export: []byte("x"), client: g, server: append(intro(n), g...)}.tag(token, serverRole, []byte("a"))
	}
	if bytes.Equal(tag(1), tag(2)) {
		t.Error("two ranks have one proof")
	}
}

func FuzzReadIntroduction(f *testing.F) {
	for _, m := range []Member{{}, {Number: 1, Size: 2, Host: "a"}, {Number: MaxRanks, Size: -1, Host: "\x1b[31m", Device: map[string]string{"netdev": "\n"}, Rails: []Rail{{"\t", "x"}}}, {Host: "a", Asked: []string{"--op \x1b[31m", ""}}, {Host: "a", Asked: make([]string, maxAsked+1)}} {
		b, err := m.introduction()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{0xff, 0xff})
	f.Add([]byte{0, 2, '{', '}'})
	f.Add([]byte("\x00\x17{\"host\":\"a\",\"asked\":[]}"))
	f.Add([]byte("\x00\x2a{\"number\":1,\"size\":1e99,\"bind\":\"::ffff:1.2.3\"}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, said, err := readIntroduction(bytes.NewReader(b))
		if err != nil {
			return
		}
		if len(b) < 2 || !bytes.Equal(said, b[:2+int(binary.BigEndian.Uint16(b))]) {
			t.Fatalf("it was read from %q, and %q was there", said, b)
		}
		if m.Number < 0 || m.Number >= MaxRanks || m.Size < 0 || m.Size > MaxRanks || m.Host == "" {
			t.Fatalf("%+v", m)
		}
		for _, text := range []string{m.Host, m.HostID, m.Announce, m.Memory, m.Chosen, m.String()} {
			if clean(text, 4096) != text || len(text) > maxVerdict+64 {
				t.Fatalf("a terminal is shown %q", text)
			}
		}
		for _, flag := range m.Asked {
			if clean(flag, maxName) != flag {
				t.Fatalf("a terminal is shown %q", flag)
			}
		}
		if len(m.Asked) > maxAsked {
			t.Fatalf("%d flags", len(m.Asked))
		}
		for _, r := range m.Rails {
			if clean(r.Device+r.Memory, 4096) != r.Device+r.Memory {
				t.Fatalf("a terminal is shown %q", r)
			}
		}
		for kind, d := range m.Device {
			if clean(kind+d, 4096) != kind+d {
				t.Fatalf("a terminal is shown %q %q", kind, d)
			}
		}
		again, err := m.introduction()
		if err != nil {
			return // cleaning may make it longer
		}
		if len(m.Rails) == 0 {
			m.Rails = nil
		}
		back, _, err := readIntroduction(bytes.NewReader(again))
		if err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%+v comes back as %+v, %v", m, back, err)
		}
	})
}

// A rank has a lane for each pair that it is part of, and a mesh has more of them than a session of `run`.
func TestARankHasAsManyLanesAsPairs(t *testing.T) {
	h := newHall(t, DialOptions{})
	end := h.join(t, h.token, Member{Number: 1, Size: 32, Host: "b"}, JoinOptions{})
	a := h.next(t)
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	for n := range 2*maxLanes + 1 {
		if _, err := a.Peer.Open(t.Context(), open(true)); err != nil {
			t.Fatalf("lane %d: %v", n, err)
		}
	}
	if err := a.Dismiss(t.Context(), "", false); err != nil {
		t.Error(err)
	}
	if err := ended(t, end); err != nil {
		t.Error(err)
	}
}
