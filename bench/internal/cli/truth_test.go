package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hopbench/results"
	"hopbench/transports/transporttest/need"
)

// twoHosts are two network namespaces with a veth pair between them, and a serve in the second.
type twoHosts struct {
	t    *testing.T
	a, b string
	exe  string
}

const (
	hostA, hostB = "10.78.0.1", "10.78.0.2"
	testToken    = "dHdvLWhvc3RzLXRva2VuLW9mLW1vcmUtdGhhbi0xMjgtYml0cw"
)

// newTwoHosts makes the namespaces; shape is a tc qdisc for the first host's device, or empty.
func newTwoHosts(t *testing.T, shape ...string) *twoHosts {
	t.Helper()
	need.Namespaces(t)
	exe, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	h := &twoHosts{t: t, a: fmt.Sprintf("hbta%d", os.Getpid()), b: fmt.Sprintf("hbtb%d", os.Getpid()), exe: exe}
	t.Cleanup(func() {
		for _, ns := range []string{h.a, h.b} {
			_ = exec.Command("ip", "netns", "del", ns).Run()
		}
	})
	for _, c := range [][]string{
		{"ip", "netns", "add", h.a}, {"ip", "netns", "add", h.b},
		{"ip", "-n", h.a, "link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", h.b},
		{"ip", "-n", h.a, "addr", "add", hostA + "/24", "dev", "v0"}, {"ip", "-n", h.b, "addr", "add", hostB + "/24", "dev", "v1"},
		{"ip", "-n", h.a, "link", "set", "v0", "up"}, {"ip", "-n", h.b, "link", "set", "v1", "up"},
	} {
		h.must(c...)
	}
	if len(shape) > 0 {
		for _, end := range [][2]string{{h.a, "v0"}, {h.b, "v1"}} {
			h.must(append([]string{"tc", "-n", end[0], "qdisc", "add", "dev", end[1], "root"}, shape...)...)
		}
	}
	h.serve()
	return h
}

func (h *twoHosts) must(args ...string) {
	h.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		h.t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// serve starts the other side and waits until it listens.
func (h *twoHosts) serve() {
	h.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", h.b, h.exe, "serve", "--listen", hostB+":18515")
	cmd.Env = append(os.Environ(), "HOPBENCH_TOKEN="+testToken)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if h.t.Failed() {
			h.t.Logf("serve said:\n%s", out.String())
		}
	})
	for range 200 {
		if got, _ := exec.Command("ip", "netns", "exec", h.b, "ss", "-Hltn", "sport = :18515").Output(); len(got) > 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	h.t.Fatal("serve does not listen after 10 s")
}

// run measures from the first host and returns the rows.
func (h *twoHosts) run(args ...string) []results.Cell {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "r.jsonl")
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	args = append([]string{"netns", "exec", h.a, h.exe, "run", "--transport", "tcp", "--peer", hostB + ":18515", "--out", file}, args...)
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.Env = append(os.Environ(), "HOPBENCH_TOKEN="+testToken)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("run: %v\n%s", err, out)
	}
	runs, err := results.ReadFile(file)
	if err != nil {
		h.t.Fatal(err)
	}
	return runs[0].Cells
}

// sent is the kernel's own count of bytes that left the first host's device.
func (h *twoHosts) sent() int64 {
	h.t.Helper()
	out, err := exec.Command("ip", "netns", "exec", h.a, "cat", "/sys/class/net/v0/statistics/tx_bytes").Output()
	if err != nil {
		h.t.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// TestNamespaceLimitedLinkMeasuresItsLimit: a link of 100 Mb/s carries at most 12.5 MB/s, headers of Ethernet, IP and TCP included. What
// was handed to a socket and not received would measure more.
func TestNamespaceLimitedLinkMeasuresItsLimit(t *testing.T) {
	h := newTwoHosts(t, "tbf", "rate", "100mbit", "burst", "64kb", "latency", "50ms")
	common := []string{"--op", "write,read,send", "--metric", "bandwidth"}
	cells := h.run(append(common, "--sizes", "64KiB,1MiB", "--depth", "8", "--rounds", "3", "--round", "600ms", "--warmup", "300ms")...)
	// Reads ask for all that the depth allows at once: eight of 16 MiB would take ten seconds.
	cells = append(cells, h.run(append(common, "--sizes", "16MiB", "--depth", "1", "--rounds", "1", "--round", "500ms", "--warmup", "50ms")...)...)
	for _, c := range cells {
		name := fmt.Sprintf("%s of %d bytes", c.Operation, c.TotalBytes)
		if c.Bandwidth == nil {
			t.Errorf("%s: %s: %s", name, c.Status, c.Reason)
			continue
		}
		total := int64(0)
		for _, n := range c.Bandwidth.RoundsOperations {
			total += n * c.TotalBytes
		}
		if total < 4<<20 {
			t.Errorf("%s: only %d bytes in all", name, total)
		}
		if mb := c.Bandwidth.BytesPerSecond / 1e6; mb < 11 || mb > 12.6 {
			t.Errorf("%s: %.2f MB/s over a link of 12.5", name, mb)
		}
		for _, r := range c.Bandwidth.Rounds {
			if r > 13.5e6 {
				t.Errorf("%s: a round of %.2f MB/s over a link of 12.5", name, r/1e6)
			}
		}
		if c.Limit != nil {
			t.Errorf("%s: a veth device has no line rate, and the row says %v", name, *c.Limit)
		}
		if c.Path.Initiator.Route != "other host" || c.Realm != "software" {
			t.Errorf("%s: route %q, realm %q", name, c.Path.Initiator.Route, c.Realm)
		}
	}
}

// TestNamespaceBytesAgreeWithTheDevice: the row's bytes are no more than what the device counted, and the device counted little more.
func TestNamespaceBytesAgreeWithTheDevice(t *testing.T) {
	h := newTwoHosts(t)
	before := h.sent()
	cells := h.run("--op", "write", "--metric", "bandwidth", "--sizes", "1MiB", "--rounds", "4", "--round", "100ms", "--warmup", "20ms")
	device := h.sent() - before
	c := cells[0]
	payload, acked := int64(0), int64(0)
	for _, n := range c.Bandwidth.RoundsOperations {
		payload += n * c.TotalBytes
	}
	for _, r := range c.Counters.Readings {
		if r.Side == "initiator" && r.Name == "bytes_acked" {
			acked = r.Value
		}
	}
	if payload < 4<<20 || acked < payload || float64(acked) > 1.01*float64(payload)+1e6 {
		t.Errorf("%d bytes of payload, %d acknowledged by tcp_info", payload, acked)
	}
	// The device also carried the verification, the trial and the warm-ups.
	if device < payload {
		t.Errorf("%d bytes of payload, and the device sent %d", payload, device)
	}
	if c.InitiatorCPUs[0] == c.TargetCPUs[0] && len(c.InitiatorCPUs) == 1 {
		t.Errorf("both sides are pinned to CPU %d of one host", c.TargetCPUs[0])
	}
}
