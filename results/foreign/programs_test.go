package foreign

import (
	"bytes"
	"context"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestRealQperf(t *testing.T) {
	port := freePort(t)
	server(t, port, "qperf", "-lp", port)
	b := output(t, "qperf", "127.0.0.1", "-lp", port, "-t", "1", "-v", "-m", "64K", "conf", "tcp_bw", "tcp_lat")
	f, err := Parse(bytes.NewReader(b), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Cells) != 2 || f.Cells[0].Bandwidth == nil || f.Cells[1].Latency == nil || f.Cells[0].TotalBytes != 65536 || !strings.HasPrefix(f.Tool, "qperf 0") {
		t.Errorf("%s\n%+v", b, f)
	}
	// The two are counted on different sides, so they do not agree with each other to more than what is under way at the end; each must be what was printed.
	for _, c := range []struct {
		name  string
		got   *float64
		units map[string]float64
	}{
		{"bw", &f.Cells[0].Bandwidth.BytesPerSecond, map[string]float64{"KB/sec": 1e3, "MB/sec": 1e6, "GB/sec": 1e9}},
		{"msg_rate", f.Cells[0].MessageRatePerSecond, map[string]float64{"/sec": 1, "K/sec": 1e3, "M/sec": 1e6}},
	} {
		m := regexp.MustCompile(`(?m)^\s+` + c.name + `\s+=\s+([0-9.,]+) (\S+)$`).FindSubmatch(b)
		if m == nil {
			t.Fatalf("no %s in\n%s", c.name, b)
		}
		printed, err := strconv.ParseFloat(strings.ReplaceAll(string(m[1]), ",", ""), 64)
		if want := printed * c.units[string(m[2])]; err != nil || want == 0 || c.got == nil || math.Abs(*c.got/want-1) > 1e-12 {
			t.Errorf("%s: %v, printed %s %s", c.name, c.got, m[1], m[2])
		}
	}
}

func TestRealPerftest(t *testing.T) {
	if _, err := exec.LookPath("ib_write_bw"); err != nil {
		t.Skipf("perftest is not installed here: %v", err)
	}
	devices, err := os.ReadDir("/sys/class/infiniband")
	if err != nil || len(devices) == 0 {
		t.Skipf("no RDMA device here for perftest to run on: %v", err)
	}
	for _, c := range []struct{ program, definition string }{{"ib_write_bw", "perftest.bandwidth.average"}, {"ib_read_lat", "perftest.latency.completion"}} {
		port := freePort(t)
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		target := exec.CommandContext(ctx, c.program, "-p", port, "-d", devices[0].Name(), "-F", "-n", "200")
		if err := target.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		b := output(t, c.program, "-p", port, "-d", devices[0].Name(), "-F", "-n", "200", "127.0.0.1")
		target.Wait()
		f, err := Parse(bytes.NewReader(b), "", Options{})
		if err != nil || len(f.Cells) != 1 || f.Cells[0].Definition != c.definition {
			t.Errorf("%s: %v\n%s", c.program, err, b)
		}
	}
}
