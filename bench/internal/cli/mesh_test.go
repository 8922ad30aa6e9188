package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hopbench/harness/control"
	"hopbench/results"
)

// ranks are processes on this host that meet on loopback.
type ranks struct {
	binary string
	token  string
	port   int
}

func newRanks(t *testing.T) *ranks {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return &ranks{binary: path, token: control.NewToken().Text(), port: l.Addr().(*net.TCPAddr).Port}
}

// ranked is one of them.
type ranked struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	ended          chan struct{}
}

// meshLimit is how long any of them may take: generous, since the machine may be loaded.
const meshLimit = 90 * time.Second

// start starts a rank. Env is further variables.
func (r *ranks) start(t *testing.T, env []string, args ...string) *ranked {
	t.Helper()
	return r.startAs(t, r.binary, append([]string{control.TokenVariable + "=" + r.token}, env...), args...)
}

func (r *ranks) startAs(t *testing.T, program string, env []string, args ...string) *ranked {
	t.Helper()
	p := &ranked{ended: make(chan struct{})}
	all := []string{"mesh", "--first", fmt.Sprintf("127.0.0.1:%d", r.port)}
	if !slices.Contains(args, "--transport") {
		all = append(all, "--transport", "tcp")
	}
	p.cmd = exec.Command(program, append(all, args...)...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// status waits for a rank's end.
func (p *ranked) status(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(meshLimit):
		t.Fatalf("%v has not ended after %v", p.cmd.Args, meshLimit)
	}
	return p.cmd.ProcessState.ExitCode()
}

// fails waits for a rank's end with a status, and requires parts of what it says.
func (p *ranked) fails(t *testing.T, status int, parts ...string) {
	t.Helper()
	if got := p.status(t); got != status {
		t.Errorf("%v: status %d, want %d: %s", p.cmd.Args, got, status, p.stderr.String())
	}
	for _, part := range parts {
		if !strings.Contains(p.stderr.String(), part) {
			t.Errorf("%v: %q is missing in: %s", p.cmd.Args, part, p.stderr.String())
		}
	}
}

func numbered(n, size int, more ...string) []string {
	return append([]string{"--rank", strconv.Itoa(n), "--size", strconv.Itoa(size)}, more...)
}

func hostname(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// quickMesh is a small measurement.
var quickMesh = []string{"--sizes", "64KiB", "--latency-sizes", "64", "--rounds", "2", "--round", "20ms", "--duration", "100ms", "--iterations", "8"}

func TestMeshOfProcesses(t *testing.T) {
	r := newRanks(t)
	out := filepath.Join(t.TempDir(), "mesh.jsonl")
	args := func(n int) []string { return numbered(n, 3, append(quickMesh, "--out", out, "--json")...) }
	first := r.start(t, nil, args(0)...)
	others := []*ranked{r.start(t, nil, args(1)...), r.start(t, nil, args(2)...)}
	first.fails(t, 0, "rank 0 on "+hostname(t)+" of 3 waits for the others", "flags (--rank 0, --size 3)", "3 ranks on 1 host are here", "all-pairs: 3 pairs")
	for n, p := range others {
		p.fails(t, 0, fmt.Sprintf("rank %d on %s of 3 joined", n+1, hostname(t)), "the mesh has ended")
	}
	runs, err := results.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(runs[0].Header.Hosts) != 3 || runs[0].Header.Hosts[2].Role != "rank 2" || runs[0].Header.Settings["mesh_pattern"] != "all-pairs" {
		t.Errorf("header %+v", runs[0].Header)
	}
	ways := map[string]int{}
	for _, c := range runs[0].Cells {
		if c.Status != results.StatusOK || c.Schedule != "all-pairs" {
			t.Errorf("%s to %s: %s, %s %s", c.InitiatorHost, c.TargetHost, c.Schedule, c.Status, c.Reason)
		}
		ways[c.InitiatorHost+" "+c.TargetHost]++
	}
	if len(ways) != 6 || len(runs[0].Cells) != 12 {
		t.Errorf("%d cells of %v; want a bandwidth and a latency of each way of three pairs", len(runs[0].Cells), ways)
	}
	var answer struct {
		Ranks  []struct{ Name, Address string }
		Cells  int
		Failed int
	}
	if err := json.Unmarshal(first.stdout.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, first.stdout.String())
	}
	if len(answer.Ranks) != 3 || answer.Ranks[1].Name != hostname(t)+"/1" || answer.Ranks[1].Address != "127.0.0.1" || answer.Cells != 12 || answer.Failed != 0 {
		t.Errorf("answer %+v", answer)
	}
	// The token is nowhere in what is public.
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), r.token) || strings.Contains(first.stderr.String(), r.token) {
		t.Error("the token is in the result file, or was printed")
	}
}

// A rank that was given another command line is told of by rank 0, whose own counts.
func TestMeshOfUnlikeCommandLines(t *testing.T) {
	r := newRanks(t)
	args := append([]string{"--metric", "bandwidth"}, quickMesh...)
	first := r.start(t, nil, numbered(0, 2, args...)...)
	other := r.start(t, nil, numbered(1, 2, append(args, "--depth", "3")...)...)
	first.fails(t, 0, "rank 1 on "+hostname(t)+" was started with --depth 3: what counts is the command line of rank 0")
	other.fails(t, 0)
}

// What cannot be used on rank 0's host is one row with its reason, and not one a pair.
func TestMeshOfAllTransports(t *testing.T) {
	r := newRanks(t)
	out := filepath.Join(t.TempDir(), "mesh.jsonl")
	args := append([]string{"--transport", "all", "--metric", "bandwidth", "--out", out}, quickMesh...)
	first := r.start(t, nil, numbered(0, 3, args...)...)
	others := []*ranked{r.start(t, nil, numbered(1, 3, args...)...), r.start(t, nil, numbered(2, 3, args...)...)}
	first.fails(t, 0, "loopback works inside one process")
	for _, p := range others {
		p.fails(t, 0)
	}
	runs, err := results.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, c := range runs[0].Cells {
		rows[c.Transport+" "+c.Status]++
		if c.Status == results.StatusWaived && (c.Reason == "" || !strings.Contains(first.stdout.String(), "Not run here")) {
			t.Errorf("%s is waived without a word", c.Transport)
		}
	}
	if rows["tcp ok"] != 6 {
		t.Errorf("rows %v", rows)
	}
	for what, n := range rows {
		if strings.HasSuffix(what, " waived") && n != 1 {
			t.Errorf("%d rows %s", n, what)
		}
	}
}

// Many to many: each pair alone, then all at once, then the same with a load beside them.
func TestMeshPatterns(t *testing.T) {
	matrix := filepath.Join(t.TempDir(), "bytes.txt")
	if err := os.WriteFile(matrix, []byte("0 1M 0\n0 0 2M\n0 0 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args      []string
		schedules map[string]int // rows of pairs
		sums      map[string]int
		says      string
	}{
		"incast":     {[]string{"--pattern", "incast", "--to", "2"}, map[string]int{"isolated": 2, "incast": 2}, map[string]int{"incast": 1}, "All flows together"},
		"background": {[]string{"--pattern", "one-to-all", "--loaded", "--background", "20MB/s"}, map[string]int{"one-to-all": 2, "one-to-all, background": 2}, map[string]int{"one-to-all": 1, "one-to-all, background": 1}, "one-to-all, background"},
		"prefill": {[]string{"--pattern", "prefill-decode", "--prefill", "0", "--decode", "1-2", "--loaded", "--kv", "qwen3-0.6b", "--isl", "64", "--concurrency", "2"},
			map[string]int{"prefill-decode": 4}, map[string]int{"prefill-decode": 2}, "Pairs:"},
		"matrix":    {[]string{"--matrix", matrix}, map[string]int{"isolated": 2, "matrix": 2, "matrix, moved": 2}, map[string]int{"matrix": 1}, "the byte matrix's 3 MiB are moved in"},
		"both ways": {[]string{"--both-ways"}, map[string]int{"all-pairs, both ways": 6}, nil, "both ways"},
		"all":       {[]string{"--loaded", "--one-way"}, map[string]int{"all-pairs": 3, "all-to-all": 3}, map[string]int{"all-to-all": 1}, "Flows together against each alone"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRanks(t)
			out := filepath.Join(t.TempDir(), "mesh.jsonl")
			quick := quickMesh
			if slices.Contains(c.args, "--kv") {
				quick = quick[2:] // a model's KV cache has its own sizes
			}
			args := append(append([]string{"--metric", "bandwidth", "--out", out}, quick...), c.args...)
			first := r.start(t, nil, numbered(0, 3, args...)...)
			others := []*ranked{r.start(t, nil, numbered(1, 3, args...)...), r.start(t, nil, numbered(2, 3, args...)...)}
			first.fails(t, 0)
			for _, p := range others {
				p.fails(t, 0)
			}
			if !strings.Contains(first.stdout.String(), c.says) {
				t.Errorf("%q is missing in: %s", c.says, first.stdout.String())
			}
			runs, err := results.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			schedules, sums := map[string]int{}, map[string]int{}
			for _, cell := range runs[0].Cells {
				if cell.Status != results.StatusOK {
					t.Errorf("%s to %s: %s %s", cell.InitiatorHost, cell.TargetHost, cell.Status, cell.Reason)
				}
				if cell.Schedule == "matrix, moved" {
					if want := map[bool]int64{true: 1 << 20, false: 2 << 20}[strings.HasSuffix(cell.InitiatorHost, "/0")]; cell.TotalBytes != want {
						t.Errorf("%s to %s moved %d bytes, want %d", cell.InitiatorHost, cell.TargetHost, cell.TotalBytes, want)
					}
				}
				if cell.Rail == "all" {
					sums[cell.Schedule]++
				} else {
					schedules[cell.Schedule]++
				}
			}
			if fmt.Sprint(schedules) != fmt.Sprint(c.schedules) || (len(sums) > 0 || len(c.sums) > 0) && fmt.Sprint(sums) != fmt.Sprint(c.sums) {
				t.Errorf("rows %v, sums %v; want %v, %v", schedules, sums, c.schedules, c.sums)
			}
		})
	}
}

// What is wrong with the ranks is named with number and host on every side, soon, and no process stays.
func TestMeshBadRanks(t *testing.T) {
	host := hostname(t)
	soon := []string{"--wait-for-ranks", "3s"}
	run := func(name string, f func(t *testing.T, r *ranks)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			f(t, newRanks(t))
			t.Logf("%s: all had ended after %v", name, time.Since(start).Round(100*time.Millisecond))
		})
	}
	run("one number twice", func(t *testing.T, r *ranks) {
		first := r.start(t, nil, numbered(0, 3)...)
		a, b := r.start(t, nil, numbered(1, 3)...), r.start(t, nil, numbered(1, 3)...)
		for _, p := range []*ranked{first, a, b} {
			p.fails(t, 1, "two ranks have the number 1: rank 1 on "+host+" (127.0.0.1:", " and rank 1 on "+host)
		}
	})
	run("sizes differ", func(t *testing.T, r *ranks) {
		first := r.start(t, nil, numbered(0, 3)...)
		a, b := r.start(t, nil, numbered(1, 4)...), r.start(t, nil, numbered(2, 3)...)
		for _, p := range []*ranked{first, a, b} {
			p.fails(t, 1, "rank 1 on "+host+" was told that there are 4 ranks", "rank 0 on "+host)
		}
	})
	run("another token", func(t *testing.T, r *ranks) {
		first := r.start(t, nil, numbered(0, 3, soon...)...)
		a := r.start(t, []string{control.TokenVariable + "=" + control.NewToken().Text()}, numbered(1, 3, soon...)...)
		b := r.start(t, nil, numbered(2, 3, soon...)...)
		a.fails(t, 1, "rank 1 on "+host, "it holds another token", "control.token", fmt.Sprintf("127.0.0.1:%d", r.port))
		first.fails(t, 1, "claims to be rank 1 on "+host, "holds another token", "1 of 3 ranks are missing after 3s: rank 1 on "+host)
		b.fails(t, 1, "rank 2 on "+host, "1 of 3 ranks are missing after 3s: rank 1 on "+host)
	})
	run("nobody at the first rank's address", func(t *testing.T, r *ranks) {
		r.start(t, nil, numbered(1, 2, soon...)...).fails(t, 1, "rank 1 on "+host, fmt.Sprintf("127.0.0.1:%d", r.port), "ECONNREFUSED", "control.unreachable")
	})
	run("rank 0 elsewhere", func(t *testing.T, r *ranks) {
		// 192.0.2.0/24 is nobody's (RFC 5737).
		r.start(t, nil, numbered(0, 2, "--first", "192.0.2.1")...).fails(t, 1, "rank 0 on "+host, "192.0.2.1", "not this host")
	})
	run("two rank 0", func(t *testing.T, r *ranks) {
		first := r.start(t, nil, numbered(0, 2, soon...)...)
		waitFor(t, func() bool { return listens(r.port) })
		r.start(t, nil, numbered(0, 2, soon...)...).fails(t, 1, "rank 0 on "+host, strconv.Itoa(r.port), "another rank 0")
		first.fails(t, 1, "rank 1: it did not come")
	})
	run("missing, left out", func(t *testing.T, r *ranks) {
		args := append(append([]string{"--missing", "leave-out"}, soon...), quickMesh...)
		first, other := r.start(t, nil, numbered(0, 3, args...)...), r.start(t, nil, numbered(2, 3, args...)...)
		first.fails(t, 0, "rank 1: it did not come: left out")
		other.fails(t, 0)
		if !strings.Contains(first.stdout.String(), "Left out: rank 1: it did not come.") {
			t.Errorf("the answer does not say who was left out: %s", first.stdout.String())
		}
	})
	run("matrix of the wrong shape", func(t *testing.T, r *ranks) {
		file := filepath.Join(t.TempDir(), "bytes.txt")
		if err := os.WriteFile(file, []byte("0 1 2\n3 0\n4 5 0\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		first := r.start(t, nil, numbered(0, 3, "--matrix", file)...)
		others := []*ranked{r.start(t, nil, numbered(1, 3, "--matrix", file)...), r.start(t, nil, numbered(2, 3, "--matrix", file)...)}
		first.fails(t, 2, "byte matrix: row 2 has 2 columns; the mesh has 3 ranks")
		for n, p := range others {
			p.fails(t, 1, fmt.Sprintf("rank %d on %s", n+1, host), "byte matrix: row 2 has 2 columns")
		}
	})
	run("host list with repeats", func(t *testing.T, r *ranks) {
		for n := range 2 {
			r.start(t, nil, numbered(n, 4, "--pattern", "bisection", "--left", "0,1,0")...).fails(t, 2, "--left", "rank 0) stands twice")
		}
	})
	run("an interrupt ends all", func(t *testing.T, r *ranks) {
		long := []string{"--sizes", "64KiB", "--metric", "bandwidth", "--rounds", "1000", "--round", "100ms", "--duration", "300s"}
		first, other := r.start(t, nil, numbered(0, 2, long...)...), r.start(t, nil, numbered(1, 2, long...)...)
		time.Sleep(2 * time.Second)
		if err := first.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		first.fails(t, 1, "interrupted")
		other.fails(t, 1, "rank 1 on "+host, "interrupted")
	})
}

// oldBinary is the same program, of another release.
var oldBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hopbench-old-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "hopbench")
	out, err := exec.Command("go", "build", "-ldflags", "-X hopbench/bench/internal/cli.release=v0.0.1", "-o", path, "hopbench/bench").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMeshOfTwoReleases(t *testing.T) {
	old, err := oldBinary()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(old))
	r := newRanks(t)
	first := r.start(t, nil, numbered(0, 3)...)
	a, b := r.start(t, nil, numbered(1, 3)...), r.startAs(t, old, []string{control.TokenVariable + "=" + r.token}, numbered(2, 3)...)
	for _, p := range []*ranked{first, a, b} {
		p.fails(t, 1, "rank 2 on "+hostname(t)+" runs hopbench v0.0.1", "rank 0 on "+hostname(t)+" runs dev")
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(meshLimit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}

// listens says whether something listens on a port of loopback, without connecting to it.
func listens(port int) bool {
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return false
	}
	return strings.Contains(string(text), fmt.Sprintf("0100007F:%04X 00000000:0000 0A", port))
}
