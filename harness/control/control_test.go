package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hopbench/harness"
	"hopbench/results"
	"hopbench/transports/fault"
)

func TestRunOverTheChannel(t *testing.T) {
	s := serve(t, Options{}, nil)
	c := s.client(t, DialOptions{})
	h, err := c.Host(t.Context())
	if err != nil || h.Hostname == "" {
		t.Fatalf("host %+v, %v", h, err)
	}
	here := harness.NewSide(drivers(), harness.Limits{})
	defer here.Close()
	a, b := join(t, here, c)
	t.Run("forward", func(t *testing.T) {
		out, served := measure(t, a, b)
		if out.Operations != 16 || out.Bytes != 16*8192 {
			t.Errorf("%d operations, %d bytes", out.Operations, out.Bytes)
		}
		if served.Usage.Process == "" || len(served.Counters) == 0 {
			t.Errorf("the target's usage and counters did not come back: %+v", served)
		}
	})
	t.Run("reverse", func(t *testing.T) {
		out, _ := measure(t, b, a)
		if out.Operations != 16 || len(out.Stamps) != 16 {
			t.Errorf("%d operations, %d stamps", out.Operations, len(out.Stamps))
		}
	})
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	s.journal.has(t, "closed by the client")
	code(t, c.Alive(t.Context()), fault.PeerVanished)
}

func TestSecondClientIsToldWhoAndSinceWhen(t *testing.T) {
	s := serve(t, Options{}, nil)
	first := s.client(t, DialOptions{})
	_, err := Dial(t.Context(), s.addr, s.token, DialOptions{})
	text := code(t, err, fault.PeerBusy)
	contains(t, text, self(), "from 127.0.0.1:", "since 20")
	first.Close()
	for range 20 { // no run waits for the one before
		c := s.client(t, DialOptions{})
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConnectionEndFreesTheServer(t *testing.T) {
	s := serve(t, Options{}, nil)
	c := s.client(t, DialOptions{})
	if _, err := c.Open(t.Context(), open(true)); err != nil {
		t.Fatal(err)
	}
	c.conn.Close() // as if the process had been killed
	next := s.client(t, DialOptions{})
	if err := next.Alive(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.journal.has(t, "its connection ended")
}

func TestOnceAndStop(t *testing.T) {
	s := serve(t, Options{Once: true}, nil)
	if err := s.client(t, DialOptions{}).Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err != nil {
		t.Fatal(err)
	}
	s.ended <- nil
	if _, err := Dial(t.Context(), s.addr, s.token, DialOptions{}); err == nil {
		t.Fatal("it still serves")
	}

	s = serve(t, Options{}, nil)
	c := s.client(t, DialOptions{})
	s.stop()
	text := code(t, c.Alive(t.Context()), fault.PeerVanished)
	contains(t, text, s.addr)
	if again := c.Alive(t.Context()); again.Error() != text {
		t.Errorf("the second call says %v", again)
	}
}

// fakeSide is a side whose calls a test decides.
type fakeSide struct {
	harness.Peer
	host   func(context.Context) (results.Host, error)
	open   func(context.Context, harness.OpenRequest) (harness.Lane, error)
	closed func()
}

func (f *fakeSide) Host(ctx context.Context) (results.Host, error) { return f.host(ctx) }
func (f *fakeSide) Open(ctx context.Context, r harness.OpenRequest) (harness.Lane, error) {
	return f.open(ctx, r)
}
func (f *fakeSide) Close() error {
	if f.closed != nil {
		f.closed()
	}
	return nil
}

func TestFaultSurvivesTheWire(t *testing.T) {
	sent := &fault.Error{
		Code: fault.MemoryExhausted, Op: "allocate host memory", Device: "node 1", Native: "ENOMEM (12)", Err: errors.New("no room\x1b[31m\nfor it"),
		Hint: "memlock is 64 KiB", Detail: "line 1\nline 2",
	}
	var err error = sent
	s := serve(t, Options{}, func() harness.Peer {
		return &fakeSide{open: func(context.Context, harness.OpenRequest) (harness.Lane, error) { return nil, err }}
	})
	c := s.client(t, DialOptions{})
	_, got := c.Open(t.Context(), open(true))
	var e *fault.Error
	if !errors.As(got, &e) {
		t.Fatalf("got %v", got)
	}
	if e.Code != sent.Code || e.Op != sent.Op || e.Device != sent.Device || e.Native != sent.Native || e.Hint != sent.Hint || e.Detail != sent.Detail {
		t.Errorf("got %#v", e)
	}
	if want := "at the peer " + s.addr + ": no room?[31m for it"; e.Err.Error() != want {
		t.Errorf("cause %q; want %q", e.Err, want)
	}
	for _, c := range []struct {
		err  error
		want fault.Code
		text string
	}{
		{fmt.Errorf("wrapped: %w", sent), fault.MemoryExhausted, "ENOMEM"},
		{errors.New("plain"), fault.PeerRefused, "plain"},
		{&fault.Error{Code: "no.such-code", Op: "x"}, fault.PeerRefused, "no.such-code"},
		{&fault.Error{Code: fault.PeerToken, Op: "x"}, fault.PeerToken, "the two sides do not hold the same token"},
		{context.DeadlineExceeded, fault.PeerDeadline, "not done within"},
	} {
		err = c.err
		s := s.client2(t)
		_, got := s.Open(t.Context(), open(true))
		contains(t, code(t, got, c.want), c.text)
	}
	t.Run("panic", func(t *testing.T) {
		s := serve(t, Options{}, func() harness.Peer {
			return &fakeSide{open: func(context.Context, harness.OpenRequest) (harness.Lane, error) { panic("oh") }}
		})
		_, got := s.client(t, DialOptions{}).Open(t.Context(), open(true))
		contains(t, code(t, got, fault.PeerRefused), "it failed inside: oh")
	})
}

// client2 opens a session after the one before has been closed.
func (s *served) client2(t *testing.T) *client {
	t.Helper()
	s.server.mu.Lock()
	current := s.server.current
	s.server.mu.Unlock()
	if current != nil {
		current.end("for the next")
	}
	return s.client(t, DialOptions{})
}

func TestCallHasALimitAndEndsTheSession(t *testing.T) {
	hang := make(chan struct{})
	s := serve(t, Options{}, func() harness.Peer {
		return &fakeSide{host: func(ctx context.Context) (results.Host, error) {
			<-hang // deaf to its context
			return results.Host{}, nil
		}}
	})
	c := s.client(t, DialOptions{Phase: 300 * time.Millisecond})
	_, err := c.Host(t.Context())
	close(hang)
	contains(t, code(t, err, fault.PeerDeadline), "read the host", s.addr, "no answer for 300ms")
	start := time.Now()
	code(t, c.Alive(t.Context()), fault.PeerDeadline)
	if time.Since(start) > 200*time.Millisecond {
		t.Error("a call on a lost session waited")
	}
	s.journal.has(t, "its connection ended")
}

func TestCancelledCallIsNoFaultOfThePeer(t *testing.T) {
	s := serve(t, Options{}, func() harness.Peer {
		return &fakeSide{host: func(ctx context.Context) (results.Host, error) { <-ctx.Done(); return results.Host{}, ctx.Err() }}
	})
	c := s.client(t, DialOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := c.Host(ctx); !errors.Is(err, context.Canceled) || fault.CodeOf(err) != "" {
		t.Fatalf("got %v", err)
	}
	if err := c.Alive(t.Context()); err != nil {
		t.Fatalf("the session is lost: %v", err)
	}
}

func TestWatchdogEndsASilentSession(t *testing.T) {
	s := serve(t, Options{slack: 100 * time.Millisecond}, nil)
	c := s.client(t, DialOptions{Loop: time.Second})
	s.journal.has(t, "no call for 1.1s")
	code(t, c.Alive(t.Context()), fault.PeerVanished)

	over := serve(t, Options{Limits: harness.Limits{MaxSeconds: 5}}, nil)
	_, err := Dial(t.Context(), over.addr, over.token, DialOptions{Loop: 6 * time.Second})
	contains(t, code(t, err, fault.PeerCap), "6s", "--max-duration")
}

func TestWatchdogIsPatientWithAlive(t *testing.T) {
	s := serve(t, Options{slack: 2 * time.Second}, nil)
	c := s.client(t, DialOptions{Loop: time.Second})
	for range 8 {
		time.Sleep(500 * time.Millisecond)
		if err := c.Alive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A client that is stopped, or whose host is gone without a word, holds the server only for the time that it declared.
func TestStoppedClientLosesItsSession(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, Options{slack: time.Second}, nil)
	cmd := exec.Command(exe, s.addr)
	cmd.Env = append(os.Environ(), role+"=client", TokenVariable+"="+s.token.Text())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
		t.Fatalf("the client says %q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.journal.has(t, "no call for 2s")
	s.client(t, DialOptions{})
}

// counting counts what its connection moves.
type counting struct {
	net.Listener
	ops   atomic.Int64
	conns chan net.Conn
}

type countingConn struct {
	*net.TCPConn
	l *counting
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.conns <- c
	return &countingConn{c.(*net.TCPConn), l}, nil
}

func (c *countingConn) Write(b []byte) (int, error) {
	c.l.ops.Add(1)
	return c.TCPConn.Write(b)
}

func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.l.ops.Add(1)
	return n, err
}

func TestNothingIsSentWhileNothingIsAsked(t *testing.T) {
	token := NewToken()
	server, err := NewServer(func() harness.Peer { return harness.NewSide(drivers(), harness.Limits{}) }, token, Options{})
	if err != nil {
		t.Fatal(err)
	}
	inner, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &counting{Listener: inner, conns: make(chan net.Conn, 4)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(ctx, l) }()
	defer func() { cancel(); <-done }()
	c, err := dial(t.Context(), inner.Addr().String(), token, DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	here := harness.NewSide(drivers(), harness.Limits{})
	defer here.Close()
	a, b := join(t, here, c)
	measure(t, a, b)
	time.Sleep(500 * time.Millisecond) // the acknowledgement of the last answer is on its way
	conn := <-l.conns
	segments := func() uint32 {
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var n uint32
		raw.Control(func(fd uintptr) {
			if keep, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE); err != nil || keep != 0 {
				t.Errorf("SO_KEEPALIVE is %d, %v", keep, err)
			}
			if ms, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); err != nil || ms != int(unacknowledged/time.Millisecond) {
				t.Errorf("TCP_USER_TIMEOUT is %d, %v", ms, err)
			}
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			if err != nil {
				t.Fatal(err)
			}
			n = info.Segs_in + info.Segs_out
		})
		return n
	}
	ops, before := l.ops.Load(), segments()
	time.Sleep(4 * time.Second)
	if got := l.ops.Load(); got != ops {
		t.Errorf("%d reads and writes during silence", got-ops)
	}
	if after := segments(); after != before {
		t.Errorf("the kernel moved %d segments during silence", after-before)
	}
}

func TestStartLocal(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(role, "child")
	t.Run("run", func(t *testing.T) {
		p, err := StartLocal(t.Context(), exe, DialOptions{})
		if err != nil {
			t.Fatal(err)
		}
		here := harness.NewSide(drivers(), harness.Limits{})
		a, b := join(t, here, p)
		_, served := measure(t, a, b)
		if served.Usage.Process == "" || strings.HasSuffix(served.Usage.Process, fmt.Sprintf("/%d", os.Getpid())) {
			t.Errorf("the target's process is %q, and this one is %d", served.Usage.Process, os.Getpid())
		}
		if err := here.Close(); err != nil {
			t.Error(err)
		}
		c := p.(*client)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("token is in no process list", func(t *testing.T) {
		c, err := startChild(exe, []string{"serve", "--child"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.kill()
		token := NewToken()
		addr, err := c.greet(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		p, err := dial(t.Context(), addr, token, DialOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for _, file := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.cmd.Process.Pid, file))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), token.Text()) {
				t.Errorf("the token stands in %s", file)
			}
		}
	})
	t.Run("killed", func(t *testing.T) {
		p, err := StartLocal(t.Context(), exe, DialOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		h, _ := p.Open(t.Context(), open(true))
		if h == nil {
			t.Fatal("no lane")
		}
		pid := childPid(t)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_, err = p.Host(t.Context())
		contains(t, code(t, err, fault.PeerVanished), "the second process is gone", "SIGKILL (signal 9)")
	})
	t.Run("dies at once", func(t *testing.T) {
		t.Setenv(role, "dies")
		_, err := StartLocal(t.Context(), exe, DialOptions{})
		contains(t, code(t, err, fault.PeerUnreachable), "exit status 7: the library is missing")
	})
	t.Run("not a program", func(t *testing.T) {
		_, err := StartLocal(t.Context(), "/nonexistent/hopbench", DialOptions{})
		code(t, err, fault.PeerUnreachable)
	})
	t.Run("parent ends", func(t *testing.T) {
		c, err := startChild(exe, []string{"serve", "--child"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.kill()
		if _, err := c.greet(t.Context(), NewToken()); err != nil {
			t.Fatal(err)
		}
		c.lifeline.Close() // as the kernel does when the parent is killed
		select {
		case <-c.exited:
		case <-time.After(20 * time.Second):
			t.Fatal("the second process outlives its parent")
		}
	})
}

// childPid is the one child process of this test.
func childPid(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if err != nil {
			t.Skipf("the kernel does not list a task's children: %v", err)
		}
		var pid int
		if _, err := fmt.Sscan(string(text), &pid); err == nil {
			return pid
		}
	}
	t.Fatal("this process has no child")
	return 0
}
