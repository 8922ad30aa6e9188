package nettest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hopbench/harness/control"
	"hopbench/results"
	"hopbench/results/matrix"
	"hopbench/transports/transporttest/need"
)

// fabric is hosts as network namespaces with a name of their own each, on one bridge.
type fabric struct {
	token string
	dir   string
	space string // of the bridge, and with a number behind it of the hosts
	hosts int
}

// mtu is large, so that headers are a small part of what a port's limit lets through.
const mtu = 9000

// goodput is what a limit of frames a second leaves for TCP payload: without Ethernet's header of 14 bytes, and those of IP and TCP with its timestamps.
func goodput(bitsPerSecond float64) float64 {
	return bitsPerSecond / 8 * (mtu - 20 - 32) / (mtu + 14)
}

func newFabric(t *testing.T, hosts int) *fabric {
	t.Helper()
	f := &fabric{token: control.NewToken().Text(), dir: t.TempDir(), space: fmt.Sprintf("hm%d-%d", os.Getpid(), labs.Add(1)), hosts: hosts}
	if os.Geteuid() != 0 {
		need.Missing(t, "namespaces", "not root")
	}
	if err := f.build(t); err != nil {
		need.Missing(t, "namespaces", "%v", err)
	}
	hopbench(t)
	return f
}

func (f *fabric) host(n int) string { return fmt.Sprintf("%s-%d", f.space, n) }
func address(n int) string          { return fmt.Sprintf("10.78.0.%d", n+1) }
func port(n int) string             { return fmt.Sprintf("p%d", n) }

func (f *fabric) build(t *testing.T) error {
	spaces := []string{f.space}
	for n := range f.hosts {
		spaces = append(spaces, f.host(n))
	}
	for _, ns := range spaces {
		if err := ip("netns", "add", ns); err != nil {
			return err
		}
		t.Cleanup(func() { ip("netns", "del", ns) })
	}
	if err := ip("-n", f.space, "link", "add", "br0", "mtu", strconv.Itoa(mtu), "type", "bridge"); err != nil {
		return err
	}
	if err := ip("-n", f.space, "link", "set", "br0", "up"); err != nil {
		return err
	}
	for n := range f.hosts {
		ns := f.host(n)
		for _, args := range [][]string{
			{"link", "add", "eth0", "mtu", strconv.Itoa(mtu), "netns", ns, "type", "veth", "peer", "name", port(n), "mtu", strconv.Itoa(mtu), "netns", f.space},
			{"-n", f.space, "link", "set", port(n), "master", "br0", "up"},
			{"-n", ns, "addr", "add", address(n) + "/24", "dev", "eth0"},
			{"-n", ns, "link", "set", "eth0", "up"},
			{"-n", ns, "link", "set", "lo", "up"},
		} {
			if err := ip(args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// limit makes a host's port pass so many bits a second, each way.
func (f *fabric) limit(t *testing.T, n int, rate string) {
	t.Helper()
	for _, at := range [][2]string{{f.host(n), "eth0"}, {f.space, port(n)}} {
		out, err := exec.Command("ip", "netns", "exec", at[0], "tc", "qdisc", "replace", "dev", at[1], "root", "tbf", "rate", rate, "burst", "20kb", "latency", "300ms").CombinedOutput()
		if err != nil {
			need.Missing(t, "namespaces", "tc tbf: %v: %s", err, out)
		}
	}
}

// cut takes the way between two hosts away in silence, and leaves that to all others.
func (f *fabric) cut(t *testing.T, a, b int) {
	t.Helper()
	must(t, ip("-n", f.host(a), "route", "add", "blackhole", address(b)+"/32"))
	must(t, ip("-n", f.host(b), "route", "add", "blackhole", address(a)+"/32"))
}

// rank starts one rank on its host. The shell gives the process a host name of its own and becomes it.
func (f *fabric) rank(t *testing.T, n int, args ...string) *process {
	t.Helper()
	return f.rankAs(t, n, n, f.token, args...)
}

func (f *fabric) rankAs(t *testing.T, host, number int, token string, args ...string) *process {
	t.Helper()
	all := []string{
		"ip", "netns", "exec", f.host(host), "unshare", "--uts", "sh", "-c", `echo "$0" >/proc/sys/kernel/hostname && exec "$@"`, fmt.Sprintf("node%d", host),
		hopbench(t), "mesh", "--rank", strconv.Itoa(number), "--size", strconv.Itoa(f.hosts), "--first", address(0), "--transport", "tcp",
	}
	return startProcess(t, []string{control.TokenVariable + "=" + token, "HOPBENCH_SIZE="}, append(all, args...)...)
}

// start starts all ranks; the first is rank 0.
func (f *fabric) start(t *testing.T, args ...string) []*process {
	t.Helper()
	var all []*process
	for n := range f.hosts {
		all = append(all, f.rank(t, n, args...))
	}
	return all
}

// ends waits for all ranks and holds their statuses to what is wanted; -1 is any.
func ends(t *testing.T, all []*process, first, others int, but ...int) {
	t.Helper()
	for n, p := range all {
		want := others
		switch {
		case slices.Contains(but, n):
			continue
		case n == 0:
			want = first
		}
		if got := p.status(t); got != want {
			t.Errorf("rank %d: exit status %d, want %d: %s", n, got, want, p.stderr.String())
		}
	}
}

// cells reads the rows of a result file.
func cells(t *testing.T, path string) []results.Cell {
	t.Helper()
	runs, err := results.ReadFile(path)
	must(t, err)
	if len(runs) != 1 {
		t.Fatalf("%d runs", len(runs))
	}
	return runs[0].Cells
}

// suspect is one entry of the answer.
type suspect struct {
	Name, Kind string
	Says       []string
}

type answer struct {
	Suspects []suspect `json:"suspects"`
	Failed   int       `json:"failed"`
}

func answerOf(t *testing.T, p *process) answer {
	t.Helper()
	var a answer
	if err := json.Unmarshal([]byte(p.stdout.String()), &a); err != nil {
		t.Fatalf("%v: %s", err, p.stdout.String())
	}
	return a
}

// One host of eight is limited: it is named, and no other.
func TestNamespaceMeshSlowHost(t *testing.T) {
	f := newFabric(t, 8)
	for n := range f.hosts {
		f.limit(t, n, "100mbit") // little enough that a busy machine is not what limits them
	}
	f.limit(t, 5, "40mbit")
	out := filepath.Join(f.dir, "mesh.jsonl")
	all := f.start(t, "--one-way", "--metric", "bandwidth", "--sizes", "32KiB", "--depth", "16", "--wait", "block", "--rounds", "6", "--round", "80ms", "--warmup", "20ms",
		"--duration", "1s", "--json", "--out", out)
	ends(t, all, 0, 0)
	rows := cells(t, out)
	pairs := map[string]bool{}
	for _, c := range rows {
		pairs[c.InitiatorHost+" "+c.TargetHost] = true
		if c.Status != results.StatusOK || c.Verified == nil || !*c.Verified {
			t.Errorf("%s to %s: %s %s", c.InitiatorHost, c.TargetHost, c.Status, c.Reason)
		}
	}
	if len(pairs) != 28 || len(rows) != 28 {
		t.Errorf("%d rows of %d pairs, want one of each of 28", len(rows), len(pairs))
	}
	a := answerOf(t, all[0])
	if len(a.Suspects) == 0 || a.Suspects[0].Name != "host node5" {
		t.Errorf("suspects: %+v; want host node5 first", a.Suspects)
	}
	for i, s := range a.Suspects {
		t.Logf("named: %s", strings.Join(s.Says, "; "))
		if s.Kind == "host" && i > 0 {
			t.Errorf("%s is named as well: %v", s.Name, s.Says)
		}
	}
	// A busy machine makes the pairs of a round slower by some tens of per cent, and those are then named: truly, but not for what this test did to them.
	m, err := matrix.Of(matrix.Options{}, results.Run{Cells: rows})
	must(t, err)
	if found := matrix.Suspects(m.Reports(matrix.Judge{MinEffect: 0.45})); len(found) != 1 || found[0].Name != "host node5" {
		t.Errorf("suspects by 45 %% or more: %+v; want host node5 and nothing else", found)
	}
	for n, p := range all[1:] {
		contains(t, p.stderr.String(), fmt.Sprintf("rank %d on node%d of 8 joined", n+1, n+1), "the mesh has ended")
	}
}

// Seven hosts send to one whose port is limited: together they get what it lets through.
func TestNamespaceMeshIncast(t *testing.T) {
	f := newFabric(t, 8)
	f.limit(t, 3, "100mbit")
	out := filepath.Join(f.dir, "mesh.jsonl")
	// What is in flight fits into the port's queue: what is measured is the limit and not how TCP finds it.
	all := f.start(t, "--pattern", "incast", "--to", "node3", "--loaded", "--metric", "bandwidth", "--sizes", "64KiB", "--depth", "4", "--wait", "block",
		"--rounds", "4", "--round", "1s", "--duration", "5s", "--out", out)
	ends(t, all, 0, 0)
	want := goodput(100e6)
	sums := 0
	for _, c := range cells(t, out) {
		if c.Rail != "all" {
			continue
		}
		sums++
		got := c.Bandwidth.BytesPerSecond
		t.Logf("all seven together: %.2f MB/s of the %.2f MB/s that the port lets through: %.3f", got/1e6, want/1e6, got/want)
		if got < 0.95*want || got > 1.05*want {
			t.Errorf("not within 5 %%")
		}
	}
	if sums != 1 {
		t.Errorf("%d sums", sums)
	}
}

// loaded is a run in which the pairs 0-4, 1-5, 2-6 and 3-7 move data all the time, long enough for something to happen to it.
var loaded = []string{"--pattern", "bisection", "--loaded", "--metric", "bandwidth", "--sizes", "64KiB", "--depth", "4", "--rounds", "16", "--round", "250ms",
	"--duration", "10s", "--stall-timeout", "2s", "--phase-timeout", "4s"}

// inMidRun waits until a host has received data of a run.
func (f *fabric) inMidRun(t *testing.T, n int, p *process) {
	t.Helper()
	count := func() int64 {
		out, err := exec.Command("ip", "netns", "exec", f.host(n), "cat", "/sys/class/net/eth0/statistics/rx_bytes").Output()
		must(t, err)
		v, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		must(t, err)
		return v
	}
	start := count()
	until(t, patience, "data moves", func() bool {
		select {
		case <-p.done:
			t.Fatalf("the run ended too early: %s", p.stderr.String())
		default:
		}
		return count() > start+8<<20
	})
}

// onlyFailed requires that exactly the rows of one pair have failed, and returns the first reason.
func onlyFailed(t *testing.T, rows []results.Cell, from, to string) string {
	t.Helper()
	reason, whole := "", 0
	for _, c := range rows {
		if c.Rail == "all" {
			continue // a sum of which one part failed has no figure
		}
		failed := c.Status == results.StatusFailed
		if failed != (c.InitiatorHost == from && c.TargetHost == to) {
			t.Errorf("%s to %s: %s %s", c.InitiatorHost, c.TargetHost, c.Status, c.Reason)
		}
		if failed {
			reason = c.Reason
		} else {
			whole++
		}
	}
	if reason == "" || whole != 3 {
		t.Errorf("%d rows are whole, want 3; the failed one says %q", whole, reason)
	}
	return reason
}

func TestNamespaceMeshLinkCut(t *testing.T) {
	f := newFabric(t, 8)
	for n := range f.hosts {
		f.limit(t, n, "200mbit")
	}
	out := filepath.Join(f.dir, "mesh.jsonl")
	all := f.start(t, append(loaded, "--out", out)...)
	f.inMidRun(t, 5, all[0])
	f.cut(t, 1, 5)
	ends(t, all, 1, 0)
	contains(t, onlyFailed(t, cells(t, out), "node1", "node5"), address(5))
	contains(t, all[0].stderr.String(), "node1 to node5")
}

// A result file that could not be kept whole is not said to hold the results.
func TestNamespaceMeshDiskFull(t *testing.T) {
	f := newFabric(t, 3)
	disk := filepath.Join(f.dir, "disk")
	must(t, os.Mkdir(disk, 0o755))
	if err := syscall.Mount("hopbench-test", disk, "tmpfs", 0, "size=16k"); err != nil {
		t.Fatalf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	out := filepath.Join(disk, "mesh.jsonl")
	all := f.start(t, "--sizes", "64:4MiB", "--rounds", "2", "--round", "20ms", "--duration", "50ms", "--out", out)
	if status := all[0].status(t); status != 1 {
		t.Errorf("exit status %d", status)
	}
	contains(t, all[0].stderr.String(), "no space left on device")
	if strings.Contains(all[0].stderr.String(), "results are in") {
		t.Errorf("it says %s", all[0].stderr.String())
	}
}

func TestNamespaceMeshRankKilled(t *testing.T) {
	f := newFabric(t, 8)
	for n := range f.hosts {
		f.limit(t, n, "200mbit")
	}
	out := filepath.Join(f.dir, "mesh.jsonl")
	all := f.start(t, append(loaded, "--out", out)...)
	f.inMidRun(t, 6, all[0])
	all[6].signal(t, syscall.SIGKILL)
	ends(t, all, 1, 0, 6)
	onlyFailed(t, cells(t, out), "node2", "node6")
	contains(t, all[0].stderr.String(), "node2 to node6")
}

func TestNamespaceMeshRankStopped(t *testing.T) {
	f := newFabric(t, 8)
	for n := range f.hosts {
		f.limit(t, n, "200mbit")
	}
	out := filepath.Join(f.dir, "mesh.jsonl")
	all := f.start(t, append(loaded, "--out", out)...)
	f.inMidRun(t, 7, all[0])
	all[7].signal(t, syscall.SIGSTOP)
	ends(t, all, 1, 0, 7)
	onlyFailed(t, cells(t, out), "node3", "node7")
	all[7].signal(t, syscall.SIGCONT)
	if got := all[7].status(t); got != 1 {
		t.Errorf("the rank that was stopped ends with status %d", got)
	}
	contains(t, all[7].stderr.String(), "rank 7 on node7", "went away")
}

// A host vanishes without a sign, with its control connection: its pair is failed, and nobody waits for it longer than the limits.
func TestNamespaceMeshHostVanishes(t *testing.T) {
	f := newFabric(t, 8)
	for n := range f.hosts {
		f.limit(t, n, "200mbit")
	}
	out := filepath.Join(f.dir, "mesh.jsonl")
	all := f.start(t, append(loaded, "--out", out)...)
	f.inMidRun(t, 4, all[0])
	must(t, ip("-n", f.host(4), "link", "set", "eth0", "down"))
	ends(t, all, 1, 0, 4)
	contains(t, onlyFailed(t, cells(t, out), "node0", "node4"), address(4))
	contains(t, all[0].stderr.String(), "node0 to node4")
	if got := all[4].status(t); got != 1 {
		t.Errorf("the rank that was lost ends with status %d", got)
	}
	contains(t, all[4].stderr.String(), "rank 4 on node4", "went away")
}

// The first rank is killed: all others end with it.
func TestNamespaceMeshFirstRankKilled(t *testing.T) {
	f := newFabric(t, 4)
	for n := range f.hosts {
		f.limit(t, n, "200mbit")
	}
	all := f.start(t, loaded...)
	f.inMidRun(t, 3, all[0])
	all[0].signal(t, syscall.SIGKILL)
	start := time.Now()
	ends(t, all, -1, 1, 0)
	took := time.Since(start)
	t.Logf("the others ended %v after the first rank was killed", took.Round(time.Millisecond))
	if took > 10*time.Second+patience/3 { // a few seconds, and slack for a loaded machine
		t.Errorf("that is long")
	}
	for n, p := range all[1:] {
		contains(t, p.stderr.String(), fmt.Sprintf("rank %d on node%d", n+1, n+1), "went away", "control.vanished")
	}
}

// Two devices on each host: every pair is measured over each rail alone, and in a stage that loads over both at once.
func TestNamespaceMeshRails(t *testing.T) {
	f := newFabric(t, 3)
	must(t, ip("-n", f.space, "link", "add", "br1", "type", "bridge"))
	must(t, ip("-n", f.space, "link", "set", "br1", "up"))
	for n := range f.hosts {
		ns, port := f.host(n), fmt.Sprintf("q%d", n)
		must(t, ip("link", "add", "eth1", "netns", ns, "type", "veth", "peer", "name", port, "netns", f.space))
		must(t, ip("-n", f.space, "link", "set", port, "master", "br1", "up"))
		must(t, ip("-n", ns, "addr", "add", fmt.Sprintf("10.79.0.%d/24", n+1), "dev", "eth1"))
		must(t, ip("-n", ns, "link", "set", "eth1", "up"))
	}
	out := filepath.Join(f.dir, "mesh.jsonl")
	all := f.start(t, "--device", "eth0,eth1", "--one-way", "--loaded", "--metric", "bandwidth", "--sizes", "64KiB", "--rounds", "2", "--round", "20ms", "--duration", "100ms", "--iterations", "16", "--out", out)
	ends(t, all, 0, 0)
	rows := map[string]int{}
	for _, c := range cells(t, out) {
		if c.Status != results.StatusOK {
			t.Errorf("%s to %s over %s: %s %s", c.InitiatorHost, c.TargetHost, c.Rail, c.Status, c.Reason)
		}
		rows[c.Schedule+" "+c.Rail]++
		if c.Rail == "all" {
			continue
		}
		if net := map[string]string{"eth0": "10.78.0.", "eth1": "10.79.0."}[c.Rail]; c.Path == nil || !strings.HasPrefix(c.Path.Initiator.Address, net) || !strings.HasPrefix(c.Path.Target.Address, net) {
			t.Errorf("a row of rail %s went %+v", c.Rail, c.Path)
		}
	}
	want := map[string]int{"all-pairs eth0": 3, "all-pairs eth1": 3, "all-to-all eth0": 3, "all-to-all eth1": 3, "all-to-all all": 1}
	if fmt.Sprint(rows) != fmt.Sprint(want) {
		t.Errorf("rows %v, want %v", rows, want)
	}
}
