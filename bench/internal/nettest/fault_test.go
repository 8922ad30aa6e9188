package nettest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hopbench/harness/control"
)

func TestNamespaceRun(t *testing.T) {
	l := newLab(t)
	t.Run("printed token", func(t *testing.T) {
		p := l.start(t, l.server, nil, hopbench(t), "serve", "--listen", "0.0.0.0:18515", "--once")
		line := regexp.MustCompile(`(?m)^token ([0-9a-f]{64})$`)
		until(t, patience, "a token is printed", func() bool { return line.MatchString(p.stdout.String()) })
		contains(t, p.stdout.String(), "--peer HOST:18515")
		file := filepath.Join(l.dir, "token")
		must(t, os.WriteFile(file, []byte(line.FindStringSubmatch(p.stdout.String())[1]), 0o600))
		c := l.start(t, l.client, nil, append([]string{hopbench(t), "run", "--transport", "tcp", "--op", "write", "--metric", "bandwidth", "--peer", control4, "--token-file", file}, quick...)...)
		if status := c.status(t); status != 0 {
			t.Errorf("run: exit status %d", status)
		}
		if status := p.status(t); status != 0 {
			t.Errorf("serve: exit status %d", status)
		}
	})
	t.Run("no token", func(t *testing.T) {
		c := l.start(t, l.client, nil, append([]string{hopbench(t), "run", "--transport", "tcp", "--peer", control4}, quick...)...)
		if status := c.status(t); status == 0 {
			t.Error("exit status 0")
		}
		contains(t, c.stderr.String(), "--token-file", control.TokenVariable)
	})
	t.Run("IPv6", func(t *testing.T) {
		p := l.start(t, l.server, []string{control.TokenVariable + "=" + l.token}, hopbench(t), "serve", "--listen", "[::]:18515")
		until(t, patience, "it listens", func() bool { return strings.Contains(p.stdout.String(), "listening on") })
		for _, peer := range []string{"[" + serverIP6 + "]:18515", control4} {
			c := l.run(t, append([]string{"--peer", peer}, quick...)...)
			if status := c.status(t); status != 0 {
				t.Errorf("%s: exit status %d", peer, status)
			}
		}
		p.signal(t, syscall.SIGINT)
		if status := p.status(t); status != 0 {
			t.Errorf("serve ended by an interrupt: exit status %d", status)
		}
	})
}

func TestNamespaceClientKilled(t *testing.T) {
	l := newLab(t)
	s := l.serve(t)
	c := l.run(t, long...)
	l.inMidRun(t, c)
	c.signal(t, syscall.SIGKILL)
	until(t, 5*time.Second, "the server has ended the session", func() bool {
		return strings.Contains(s.stderr.String(), ": its connection ended")
	})
	next := l.run(t, quick...)
	if status := next.status(t); status != 0 {
		t.Errorf("the next run: exit status %d", status)
	}
}

func TestNamespaceBusy(t *testing.T) {
	l := newLab(t)
	l.serve(t)
	first := l.run(t, long...)
	l.inMidRun(t, first)
	second := l.run(t, quick...)
	if status := second.status(t); status != 1 {
		t.Errorf("exit status %d", status)
	}
	contains(t, second.stderr.String(), "measures for", "from "+clientIP, "since 20", "control.busy")
}

func TestNamespaceServerStopped(t *testing.T) {
	l := newLab(t)
	s := l.serve(t)
	c := l.run(t, long...)
	l.inMidRun(t, c)
	s.signal(t, syscall.SIGSTOP)
	start := time.Now()
	if status := c.status(t); status != 1 {
		t.Errorf("exit status %d", status)
	}
	// Stall limit 2 s, then the limit of the step that follows, 4 s, and slack for a loaded machine.
	if took := time.Since(start); took > 6*time.Second+patience/3 {
		t.Errorf("it took %v", took)
	}
	said := c.stderr.String() + c.stdout.String()
	if !strings.Contains(said, "control.deadline") && !strings.Contains(said, "loop.stalled") {
		t.Errorf("neither limit is named: %s", said)
	}
	s.signal(t, syscall.SIGCONT)
	next := l.run(t, quick...)
	if status := next.status(t); status != 0 {
		t.Errorf("after it goes on: exit status %d", status)
	}
}

func TestNamespaceServerStoppedBeforeTheGreeting(t *testing.T) {
	l := newLab(t)
	s := l.serve(t)
	s.signal(t, syscall.SIGSTOP)
	c := l.run(t, quick...)
	if status := c.status(t); status != 1 {
		t.Errorf("exit status %d", status)
	}
	contains(t, c.stderr.String(), "did not answer", control4, "control.deadline")
}

func TestNamespaceServerKilled(t *testing.T) {
	l := newLab(t)
	s := l.serve(t)
	c := l.run(t, long...)
	l.inMidRun(t, c)
	s.signal(t, syscall.SIGKILL)
	if status := c.status(t); status != 1 {
		t.Errorf("exit status %d", status)
	}
	said := c.stderr.String() + c.stdout.String()
	if !strings.Contains(said, "tcp.reset") && !strings.Contains(said, "control.vanished") {
		t.Errorf("neither connection's end is named: %s", said)
	}
}

func TestNamespaceLinkDown(t *testing.T) {
	l := newLab(t)
	s := l.serve(t)
	c := l.run(t, long...)
	l.inMidRun(t, c)
	must(t, ip("-n", l.server, "link", "set", serverDev, "down"))
	if status := c.status(t); status != 1 {
		t.Errorf("exit status %d", status)
	}
	said := c.stderr.String() + c.stdout.String()
	if !strings.Contains(said, "loop.stalled") && !strings.Contains(said, "tcp.reset") {
		t.Errorf("the loop's end is not named: %s", said)
	}
	contains(t, said, serverIP)
	must(t, ip("-n", l.server, "link", "set", serverDev, "up"))
	must(t, ip("-n", l.server, "addr", "replace", serverIP6+"/64", "dev", serverDev, "nodad"))
	// The old session ends when what the server has sent stays unacknowledged, or when its peer's kernel says that nobody is there.
	until(t, patience, "the server is ready", func() bool {
		next := l.run(t, quick...)
		return next.status(t) == 0
	})
	contains(t, s.stderr.String(), "ends after")
}

// The data port is dropped in silence by the server's host: the control channel works.
func TestNamespaceDataPortDropped(t *testing.T) {
	l := newLab(t)
	l.serve(t, "--data-port", dataPort)
	// The rule must come before the one for local addresses, which cannot be moved, only removed and added again.
	must(t, ip("-n", l.server, "rule", "add", "iif", serverDev, "ipproto", "tcp", "dport", dataPort, "pref", "1", "blackhole"))
	must(t, ip("-n", l.server, "rule", "add", "from", "all", "lookup", "local", "pref", "10"))
	must(t, ip("-n", l.server, "rule", "del", "pref", "0"))
	c := l.run(t, append([]string{"--phase-timeout", "3s"}, quick...)...)
	if status := c.status(t); status != 1 {
		t.Errorf("exit status %d", status)
	}
	contains(t, c.stderr.String()+c.stdout.String(), serverIP+":"+dataPort, "tcp.data-unreachable")
	must(t, ip("-n", l.server, "rule", "del", "pref", "1"))
	next := l.run(t, quick...)
	if status := next.status(t); status != 0 {
		t.Errorf("with the port open: exit status %d", status)
	}
}

func TestNamespaceStrangers(t *testing.T) {
	l := newLab(t)
	exe, err := os.Executable()
	must(t, err)
	for what, parts := range map[string][]string{
		"http":          {"control.not-hopbench", "HTTP"},
		"closes":        {"control.not-hopbench"},
		"huge":          {"control.not-hopbench"},
		"huge-greeting": {"control.not-hopbench", "255 bytes"},
		"version":       {"control.version", "protocol 7 (hopbench v9)", "protocol 1 (hopbench "},
	} {
		t.Run(what, func(t *testing.T) {
			s := l.start(t, l.server, []string{role + "=" + what}, exe, control4)
			until(t, patience, "it listens", func() bool { return strings.Contains(s.stdout.String(), "ready") })
			c := l.run(t, quick...)
			if status := c.status(t); status != 1 {
				t.Errorf("exit status %d", status)
			}
			contains(t, c.stderr.String(), append(parts, control4)...)
			s.cmd.Process.Kill()
			<-s.done
		})
	}
	t.Run("nobody", func(t *testing.T) {
		c := l.run(t, quick...)
		if status := c.status(t); status != 1 {
			t.Errorf("exit status %d", status)
		}
		contains(t, c.stderr.String(), "control.unreachable", "ECONNREFUSED", control4)
	})
	t.Run("wrong token", func(t *testing.T) {
		s := l.serve(t)
		other := *l
		other.token = control.NewToken().Text()
		c := other.run(t, quick...)
		if status := c.status(t); status != 1 {
			t.Errorf("exit status %d", status)
		}
		contains(t, c.stderr.String(), "control.token")
		until(t, patience, "the server says so", func() bool { return strings.Contains(s.stderr.String(), "it holds another token") })
	})
}

// Between the two stands somebody who changes a bit of the data connection's nonce.
func TestNamespaceWrongNonce(t *testing.T) {
	l := newLab(t)
	exe, err := os.Executable()
	must(t, err)
	l.serve(t, "--bind", serverIP, "--data-port", dataPort, "--data-address", serverIP2)
	s := l.start(t, l.server, []string{role + "=nonce"}, exe, serverIP2+":"+dataPort, serverIP+":"+dataPort)
	until(t, patience, "it listens", func() bool { return strings.Contains(s.stdout.String(), "ready") })
	c := l.run(t, append([]string{"--phase-timeout", "5s"}, quick...)...)
	if status := c.status(t); status != 1 {
		t.Errorf("exit status %d", status)
	}
	contains(t, c.stderr.String()+c.stdout.String(), "tcp.nonce", serverIP2+":"+dataPort)
}

func TestNamespaceTwentyRunsInARow(t *testing.T) {
	l := newLab(t)
	for i := range 20 { // both of the server's ports are fixed, and it starts afresh each time
		s := l.serve(t, "--data-port", dataPort, "--once")
		c := l.run(t, quick...)
		if status := c.status(t); status != 0 {
			t.Fatalf("run %d: exit status %d", i, status)
		}
		if status := s.status(t); status != 0 {
			t.Fatalf("server %d: exit status %d", i, status)
		}
	}
	l.serve(t, "--data-port", dataPort)
	for i := range 20 { // and one server for all
		c := l.run(t, quick...)
		if status := c.status(t); status != 0 {
			t.Fatalf("run %d on one server: exit status %d", i, status)
		}
	}
}

// records reads a result file: each whole line must be JSON.
func records(t *testing.T, path string) (kinds map[string]int, footer map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	kinds = map[string]int{}
	lines := strings.SplitAfter(string(text), "\n")
	for _, line := range lines {
		if !strings.HasSuffix(line, "\n") { // cut off: readers warn of it
			continue
		}
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		kind, _ := r["record"].(string)
		kinds[kind]++
		if kind == "footer" {
			footer = r
		}
	}
	return kinds, footer
}

func TestNamespaceInterrupted(t *testing.T) {
	l := newLab(t)
	l.serve(t)
	out := filepath.Join(l.dir, "run.jsonl")
	c := l.run(t, "--sizes", "64:1MiB", "--duration", "1s", "--round", "100ms", "--rounds", "8", "--out", out)
	until(t, patience, "a cell is measured", func() bool {
		text, err := os.ReadFile(out)
		return err == nil && strings.Count(string(text), "\n") >= 2
	})
	c.signal(t, syscall.SIGINT)
	if status := c.status(t); status != 1 {
		t.Errorf("exit status %d", status)
	}
	kinds, footer := records(t, out)
	if kinds["header"] != 1 || kinds["cell"] < 1 || footer["state"] != "interrupted" {
		t.Errorf("records %v, footer %v", kinds, footer)
	}
	next := l.run(t, quick...)
	if status := next.status(t); status != 0 {
		t.Errorf("the next run: exit status %d", status)
	}
}

func TestNamespaceDiskFull(t *testing.T) {
	l := newLab(t)
	l.serve(t)
	disk := filepath.Join(l.dir, "disk")
	must(t, os.Mkdir(disk, 0o755))
	if err := syscall.Mount("hopbench-test", disk, "tmpfs", 0, "size=16k"); err != nil {
		t.Fatalf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	out := filepath.Join(disk, "run.jsonl")
	c := l.run(t, "--sizes", "64:16MiB", "--duration", "50ms", "--rounds", "2", "--round", "20ms", "--out", out)
	if status := c.status(t); status != 1 {
		t.Errorf("exit status %d", status)
	}
	contains(t, c.stderr.String(), "no space left on device", out)
	kinds, _ := records(t, out)
	if kinds["header"] != 1 || kinds["cell"] < 1 {
		t.Errorf("records %v", kinds)
	}
}

// alone starts a long run between two processes of one host, and returns the second one's pid too.
func (l *lab) alone(t *testing.T) (c *process, child int) {
	t.Helper()
	c = l.start(t, l.client, nil, append([]string{hopbench(t), "run", "--transport", "tcp", "--op", "write", "--metric", "bandwidth"}, long...)...)
	until(t, patience, "it has a second process", func() bool {
		child = childOf(c.cmd.Process.Pid)
		return child != 0
	})
	return c, child
}

// The second process of a run on one host is killed: the run says how it ended, and leaves none behind.
func TestNamespaceSecondProcessKilled(t *testing.T) {
	c, child := newLab(t).alone(t)
	line, err := os.ReadFile("/proc/" + strconv.Itoa(child) + "/cmdline")
	must(t, err)
	if got := strings.ReplaceAll(strings.TrimSuffix(string(line), "\x00"), "\x00", " "); !strings.HasSuffix(got, "hopbench serve --child") {
		t.Errorf("its command line is %q", got)
	}
	time.Sleep(time.Second)
	must(t, syscall.Kill(child, syscall.SIGKILL))
	if status := c.status(t); status != 1 {
		t.Errorf("exit status %d", status)
	}
	// Whether the data connection or the control connection broke first, the words are about the process.
	contains(t, c.stderr.String(), "the second process is gone", "SIGKILL (signal 9)", "control.vanished")
}

// A parent that is killed takes its second process with it.
func TestNamespaceParentKilled(t *testing.T) {
	c, child := newLab(t).alone(t)
	time.Sleep(time.Second)
	c.signal(t, syscall.SIGKILL)
	until(t, patience, "the second process has ended", func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(child) + "/cmdline")
		return err != nil || !strings.Contains(string(text), "--child")
	})
}

// childOf is a child of a process, or 0.
func childOf(pid int) int {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			n, _ := strconv.Atoi(fields[0])
			return n
		}
	}
	return 0
}
