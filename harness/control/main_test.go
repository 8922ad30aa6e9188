package control

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hopbench/harness"
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/loopback"
	"hopbench/transports/mem"
	"hopbench/transports/tcp"
)

// role names, in the environment of a process that a test has started from its own executable, what it is to be.
const role = "HOPBENCH_CONTROL_TEST_ROLE"

func TestMain(m *testing.M) {
	switch r := os.Getenv(role); r {
	case "":
		os.Exit(m.Run())
	case "child":
		os.Exit(childMain())
	case "dies":
		fmt.Fprintln(os.Stderr, "the library is missing")
		os.Exit(7)
	case "client":
		os.Exit(clientMain(os.Args[1]))
	default:
		fmt.Fprintf(os.Stderr, "there is no role %q\n", r)
		os.Exit(2)
	}
}

// clientMain opens a session with a server and a lane in it, and then waits for ever.
func clientMain(addr string) int {
	token, err := ParseToken(os.Getenv(TokenVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	c, err := Dial(context.Background(), addr, token, DialOptions{Loop: time.Second})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if _, err := c.Open(context.Background(), open(true)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("open")
	select {}
}

func drivers() []transports.Driver {
	return []transports.Driver{loopback.New(), tcp.New()}
}

// childMain is what `serve --child` does.
func childMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	alive, token, announce, err := Inherited(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	l, err := Listen(alive, "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s, err := NewServer(func() harness.Peer { return harness.NewSide(drivers(), harness.Limits{}) }, token, Options{Once: true, ToolVersion: "child"})
	if err == nil {
		err = announce(l.Addr())
	}
	if err == nil {
		err = s.Serve(alive, l)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// journal keeps a server's lines.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}

// has waits until a line holds a text.
func (j *journal) has(t *testing.T, text string) {
	t.Helper()
	until(t, 20*time.Second, func() bool { return strings.Contains(j.String(), text) }, func() string {
		return fmt.Sprintf("no line holds %q:\n%s", text, j)
	})
}

// until waits for a condition, generously: the machine may be loaded.
func until(t *testing.T, limit time.Duration, ok func() bool, otherwise func() string) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(otherwise())
		}
	}
}

type served struct {
	addr    string
	token   Token
	journal *journal
	server  *Server
	stop    func()
	ended   chan error
}

// serve runs a server in this process until the test ends.
func serve(t *testing.T, o Options, side func() harness.Peer) *served {
	t.Helper()
	if side == nil {
		side = func() harness.Peer { return harness.NewSide(drivers(), o.Limits) }
	}
	s := &served{token: NewToken(), journal: &journal{}, ended: make(chan error, 1)}
	o.Log = s.journal.add
	if o.ToolVersion == "" {
		o.ToolVersion = "v1"
	}
	var err error
	if s.server, err = NewServer(side, s.token, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l, err := Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	go func() { s.ended <- s.server.Serve(ctx, l) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-s.ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		s.ended <- nil
	})
	t.Cleanup(s.stop)
	return s
}

// client opens a session that ends with the test.
func (s *served) client(t *testing.T, o DialOptions) *client {
	t.Helper()
	c, err := dial(t.Context(), s.addr, s.token, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// code fails the test unless an error has a code, and returns its text.
func code(t *testing.T, err error, want fault.Code) string {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want %s", want)
	}
	if got := fault.CodeOf(err); got != want {
		t.Fatalf("got %v; want %s", err, want)
	}
	return err.Error()
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in: %s", p, text)
		}
	}
}

// open is a request for a small TCP lane.
func open(passive bool) harness.OpenRequest {
	return harness.OpenRequest{
		Driver: tcp.Name, Memory: mem.Spec{Kind: mem.Host, Bytes: 1 << 20}, Endpoints: 1, Passive: passive, Streams: 1, Depth: 4, Pieces: 4,
		Largest: 64 << 10, Wait: transports.Adaptive, StallSeconds: 10,
	}
}

func work(initiate bool) harness.Work {
	return harness.Work{
		Op: transports.Write, Initiate: initiate, Depth: 4, Batch: 1, Wait: transports.Adaptive, Seed: 3, Round: 1,
		Shape: harness.Shape{Groups: []harness.Group{{Bytes: 4096, Count: 2}}, Streams: 1, Slots: 4},
	}
}

// join opens and connects a lane on both sides.
func join(t *testing.T, here, there harness.Peer) (harness.Lane, harness.Lane) {
	t.Helper()
	ctx := t.Context()
	a, err := here.Open(ctx, open(false))
	if err != nil {
		t.Fatal(err)
	}
	b, err := there.Open(ctx, open(true))
	if err != nil {
		t.Fatal(err)
	}
	request := func(o harness.Opened) harness.ConnectRequest {
		return harness.ConnectRequest{Addresses: o.Addresses, RegionKey: o.RegionKey, RegionBytes: o.RegionBytes}
	}
	failed := make(chan error, 1)
	go func() {
		_, err := b.Connect(ctx, request(a.Opened()))
		failed <- err
	}()
	if _, err := a.Connect(ctx, request(b.Opened())); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	return a, b
}

// measure runs one round of a write and verifies it.
func measure(t *testing.T, initiator, target harness.Lane) (harness.Outcome, harness.Outcome) {
	t.Helper()
	ctx := t.Context()
	if _, err := initiator.Prepare(ctx, work(true)); err != nil {
		t.Fatal(err)
	}
	if _, err := target.Prepare(ctx, work(false)); err != nil {
		t.Fatal(err)
	}
	if err := target.Arm(ctx, 0, 2); err != nil {
		t.Fatal(err)
	}
	if err := initiator.Warm(ctx, 0, harness.Span{Operations: 4}); err != nil {
		t.Fatal(err)
	}
	if err := target.Barrier(ctx, 0); err != nil {
		t.Fatal(err)
	}
	out, err := initiator.Run(ctx, 0, harness.Span{Operations: 16, StampEvery: 1, Stamps: 16})
	if err != nil {
		t.Fatal(err)
	}
	served, err := target.Disarm(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Verify(ctx, 0); err != nil {
		t.Fatal(err)
	}
	return out, served
}

var _ net.Listener = (*gate)(nil)
