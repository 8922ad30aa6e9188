package nettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hopbench/harness/control"
	"hopbench/transports/transporttest/need"
)

// role names, in the environment of a process that a test started from its own executable, what it is to be.
const role = "HOPBENCH_NETTEST_ROLE"

// patience is the limit of what has none of its own: generous, since the machine may be loaded.
const patience = 90 * time.Second

var binary struct {
	once sync.Once
	dir  string
	path string
	err  error
}

func TestMain(m *testing.M) {
	if r := os.Getenv(role); r != "" {
		os.Exit(strangerMain(r, os.Args[1:]))
	}
	status := m.Run()
	if binary.dir != "" {
		os.RemoveAll(binary.dir)
	}
	os.Exit(status)
}

// hopbench builds the command once.
func hopbench(t *testing.T) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "hopbench-nettest-"); binary.err != nil {
			return
		}
		binary.path = filepath.Join(binary.dir, "hopbench")
		out, err := exec.Command("go", "build", "-o", binary.path, "hopbench/bench").CombinedOutput()
		if err != nil {
			binary.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return binary.path
}

// lab is two hosts, as far as the kernel's network is concerned.
type lab struct {
	client, server string // names of the namespaces
	token          string
	dir            string
}

const (
	clientIP  = "10.77.0.1"
	serverIP  = "10.77.0.2"
	serverIP2 = "10.77.0.3"
	clientIP6 = "fd77::1"
	serverIP6 = "fd77::2"
	clientDev = "hb0"
	serverDev = "hb1"
	control4  = serverIP + ":18515"
	dataPort  = "7777"
)

var labs atomic.Int64

// newLab makes the two namespaces, or skips the test with the reason.
func newLab(t *testing.T) *lab {
	t.Helper()
	n := fmt.Sprintf("hb%d-%d", os.Getpid(), labs.Add(1))
	l := &lab{client: n + "c", server: n + "s", token: control.NewToken().Text(), dir: t.TempDir()}
	if err := l.build(t); err != nil {
		need.Missing(t, "namespaces", "%v", err)
	}
	hopbench(t)
	return l
}

func (l *lab) build(t *testing.T) error {
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}
	for _, ns := range []string{l.client, l.server} {
		if err := ip("netns", "add", ns); err != nil {
			return err
		}
		t.Cleanup(func() { ip("netns", "del", ns) })
	}
	for _, args := range [][]string{
		{"link", "add", clientDev, "netns", l.client, "type", "veth", "peer", "name", serverDev, "netns", l.server},
		{"-n", l.client, "addr", "add", clientIP + "/24", "dev", clientDev},
		{"-n", l.server, "addr", "add", serverIP + "/24", "dev", serverDev},
		{"-n", l.server, "addr", "add", serverIP2 + "/24", "dev", serverDev},
		{"-n", l.client, "addr", "add", clientIP6 + "/64", "dev", clientDev, "nodad"},
		{"-n", l.server, "addr", "add", serverIP6 + "/64", "dev", serverDev, "nodad"},
		{"-n", l.client, "link", "set", clientDev, "up"},
		{"-n", l.server, "link", "set", serverDev, "up"},
		{"-n", l.client, "link", "set", "lo", "up"},
		{"-n", l.server, "link", "set", "lo", "up"},
	} {
		if err := ip(args...); err != nil {
			return err
		}
	}
	return nil
}

func ip(args ...string) error {
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// process is a program that runs in a namespace.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr output
	done           chan struct{}
	err            error
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start runs a program in a namespace (ip execs it: the process is the program) until the test ends.
func (l *lab) start(t *testing.T, ns string, env []string, args ...string) *process {
	t.Helper()
	return startProcess(t, env, append([]string{"ip", "netns", "exec", ns}, args...)...)
}

func startProcess(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(args[0], args[1:]...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	must(t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Signal(syscall.SIGCONT)
		p.cmd.Process.Kill()
		<-p.done
		if t.Failed() || testing.Verbose() {
			t.Logf("%s\n  stdout: %s\n  stderr: %s", strings.Join(args, " "), p.stdout.String(), p.stderr.String())
		}
	})
	return p
}

// status waits for the end of a process and returns its exit status.
func (p *process) status(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Fatalf("%v has not ended after %v", p.cmd.Args, patience)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	must(t, p.cmd.Process.Signal(s))
}

// serve starts a server and waits until it listens.
func (l *lab) serve(t *testing.T, args ...string) *process {
	t.Helper()
	all := append([]string{hopbench(t), "serve", "--listen", control4}, args...)
	p := l.start(t, l.server, []string{control.TokenVariable + "=" + l.token}, all...)
	until(t, patience, "the server listens", func() bool {
		select {
		case <-p.done:
			t.Fatalf("the server ended: %s", p.stderr.String())
		default:
		}
		return strings.Contains(p.stdout.String(), "listening on")
	})
	return p
}

// run starts a client.
func (l *lab) run(t *testing.T, args ...string) *process {
	t.Helper()
	all := append([]string{hopbench(t), "run", "--transport", "tcp", "--op", "write", "--metric", "bandwidth"}, args...)
	if !strings.Contains(strings.Join(args, " "), "--peer") {
		all = append(all, "--peer", control4)
	}
	return l.start(t, l.client, []string{control.TokenVariable + "=" + l.token}, all...)
}

// quick is a small run: counted, so that a machine that is busy elsewhere for a whole round does not matter.
var quick = []string{"--sizes", "64KiB", "--duration", "100ms", "--rounds", "2", "--round", "20ms", "--iterations", "64"}

// long is a run that does not end before something happens to it.
var long = []string{"--sizes", "1MiB", "--duration", "120s", "--rounds", "1000", "--round", "500ms", "--stall-timeout", "2s", "--phase-timeout", "4s"}

// until waits for a condition.
func until(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// received is the kernel's count of bytes that came over the server's device.
func (l *lab) received(t *testing.T) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ip", "netns", "exec", l.server, "cat", "/sys/class/net/"+serverDev+"/statistics/rx_bytes").Output()
	must(t, err)
	n, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	must(t, err)
	return n
}

// inMidRun waits until a run moves data.
func (l *lab) inMidRun(t *testing.T, p *process) {
	t.Helper()
	start := l.received(t)
	until(t, patience, "data moves", func() bool {
		select {
		case <-p.done:
			t.Fatalf("the run ended too early: %s", p.stderr.String())
		default:
		}
		return l.received(t) > start+64<<20
	})
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in: %s", p, text)
		}
	}
}
