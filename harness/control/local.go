package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hopbench/harness"
	"hopbench/transports/fault"
)

// A second process of this program is started with two pipes. On the first it reads the token; that pipe stays open for as long as the
// parent lives, so that its end is the sign to go. On the second it writes the address that it listens on. Nothing of both stands
// in a command line or an environment, which others on the host may read.
const (
	tokenFD   = 3
	addressFD = 4

	startLimit = 30 * time.Second // for a process to start and to listen, on a loaded machine
	exitLimit  = 5 * time.Second  // for it to end by itself after the session
	tailBytes  = 8 << 10          // of its standard error, for messages
)

// childArgs is what makes a hopbench the second process: a hidden flag of serve.
var childArgs = []string{"serve", "--child"}

// StartLocal starts a second process of this program, executable, and opens a session with it. Close ends both. Args are for tests,
// whose executable is another one; without any it is `serve --child`.
func StartLocal(ctx context.Context, executable string, o DialOptions, args ...string) (harness.Peer, error) {
	if len(args) == 0 {
		args = childArgs
	}
	c, err := startChild(executable, args)
	if err != nil {
		return nil, err
	}
	token := NewToken()
	addr, err := c.greet(ctx, token)
	if err != nil {
		c.kill()
		return nil, err
	}
	p, err := dial(ctx, addr, token, o)
	if err != nil {
		select {
		case <-c.exited:
			err = fault.New(fault.PeerVanished, "start the second process", "", "%s", c.how())
		default:
		}
		c.kill()
		return nil, err
	}
	p.gone, p.stop = c.gone, c.end
	return p, nil
}

// child is the second process.
type child struct {
	cmd      *exec.Cmd
	lifeline *os.File // the parent's end of the first pipe
	address  *os.File
	tail     tail
	exited   chan struct{} // closed when it has ended; err is valid then
	err      error
}

func startChild(executable string, args []string) (*child, error) {
	fail := func(err error) (*child, error) {
		return nil, fault.Sharper(&fault.Error{Code: fault.PeerUnreachable, Op: "start the second process", Device: executable, Err: err})
	}
	tokenRead, tokenWrite, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	addressRead, addressWrite, err := os.Pipe()
	if err != nil {
		tokenRead.Close()
		tokenWrite.Close()
		return fail(err)
	}
	c := &child{cmd: exec.Command(executable, args...), lifeline: tokenWrite, address: addressRead, exited: make(chan struct{})}
	c.cmd.ExtraFiles = []*os.File{tokenRead, addressWrite} // 3 and 4
	c.cmd.Stderr = &c.tail
	c.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, TokenVariable+"=") })
	// A group of its own: an interrupt from the terminal is the parent's, which ends the loops and keeps what was measured.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = c.cmd.Start()
	tokenRead.Close()
	addressWrite.Close()
	if err != nil {
		tokenWrite.Close()
		addressRead.Close()
		return fail(err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// greet gives the child its token and reads where it listens.
func (c *child) greet(ctx context.Context, t Token) (string, error) {
	fail := func(format string, args ...any) (string, error) {
		return "", fault.New(fault.PeerUnreachable, "start the second process", c.cmd.Path, format, args...)
	}
	if _, err := fmt.Fprintln(c.lifeline, t.Text()); err != nil {
		return fail("it does not take its token: %w", err)
	}
	c.address.SetReadDeadline(time.Now().Add(startLimit))
	defer context.AfterFunc(ctx, func() { c.address.SetReadDeadline(time.Unix(1, 0)) })()
	text, err := bufio.NewReader(io.LimitReader(c.address, 256)).ReadString('\n')
	c.address.Close()
	switch addr := strings.TrimSpace(text); {
	case ctx.Err() != nil:
		return fail("%w", ctx.Err())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fail("it does not listen after %v", startLimit)
	case err != nil:
		select {
		case <-c.exited:
			return fail("%s", c.how())
		case <-time.After(exitLimit):
			return fail("it did not say where it listens: %w", err)
		}
	case !IsLoopback(addr):
		return fail("it listens on %q", clean(addr, 64))
	default:
		return addr, nil
	}
}

// how says how the child ended: by which signal or with which status, and its last words.
func (c *child) how() string {
	how := "it ended without an error"
	var exit *exec.ExitError
	if errors.As(c.err, &exit) {
		how = "it ended with exit status " + strconv.Itoa(exit.ExitCode())
		if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			how = fmt.Sprintf("it was ended by %s (signal %d)", unix.SignalName(w.Signal()), w.Signal())
			if w.CoreDump() {
				how += ", with a core dump"
			}
		}
	} else if c.err != nil {
		how = "it ended: " + c.err.Error()
	}
	if said := c.tail.lastLine(); said != "" {
		how += ": " + said
	}
	return how
}

// gone says how the child ended, if it has or is about to.
func (c *child) gone() string {
	select {
	case <-c.exited:
	case <-time.After(exitLimit): // the kernel closes its sockets before it has given back its memory
		return ""
	}
	return "the second process is gone: " + c.how()
}

// end ends the child after its session: it goes by itself, or is killed.
func (c *child) end() error {
	c.lifeline.Close()
	select {
	case <-c.exited:
	case <-time.After(exitLimit):
		c.kill()
	}
	return nil
}

func (c *child) kill() {
	c.lifeline.Close()
	c.address.Close()
	c.cmd.Process.Kill()
	<-c.exited
}

// tail keeps the end of what a process says.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// lastLine is the last line with something in it; of a Go panic, its first.
func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	last := ""
	for _, l := range all {
		if strings.HasPrefix(l, "panic: ") || strings.HasPrefix(l, "fatal error: ") {
			return clean(l, 512)
		}
		if strings.TrimSpace(l) != "" {
			last = l
		}
	}
	return clean(strings.TrimSpace(last), 512)
}

// Inherited is the child's half of StartLocal: the token, how to say where it listens, and a context that ends with the parent.
func Inherited(ctx context.Context) (alive context.Context, t Token, announce func(net.Addr) error, err error) {
	lifeline, address := os.NewFile(tokenFD, "token pipe"), os.NewFile(addressFD, "address pipe")
	if lifeline == nil || address == nil {
		return nil, Token{}, nil, errors.New("the pipes of a parent process are missing")
	}
	syscall.CloseOnExec(tokenFD)
	syscall.CloseOnExec(addressFD)
	r := bufio.NewReaderSize(lifeline, 256)
	text, err := r.ReadString('\n')
	if err != nil {
		return nil, Token{}, nil, fmt.Errorf("read the token from the parent: %w", err)
	}
	if t, err = ParseToken(text); err != nil {
		return nil, Token{}, nil, err
	}
	alive, cancel := context.WithCancelCause(ctx)
	go func() {
		io.Copy(io.Discard, r) // until the parent closes its end, or ends
		cancel(errors.New("the parent process has ended"))
	}()
	return alive, t, func(a net.Addr) error {
		_, err := fmt.Fprintln(address, a)
		return errors.Join(err, address.Close())
	}, nil
}
