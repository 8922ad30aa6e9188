package cli

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"hopbench/harness"
	"hopbench/results"
	"hopbench/transports"
	"hopbench/transports/tcp"
	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// interfaces are two of this host that carry data, or the reason why there are none.
func interfaces(t *testing.T) (a, b string) {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if addrs, err := i.Addrs(); err != nil || len(addrs) == 0 || i.Flags&net.FlagUp == 0 {
			continue
		}
		if a == "" {
			a = i.Name
		} else {
			return a, i.Name
		}
	}
	t.Skip("this host has one interface with an address: rails are two")
	return "", ""
}

// railCommand runs a command line in this process, without a second one.
func railCommand(t *testing.T, drivers []transports.Driver, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	env := &Env{Stdin: strings.NewReader(""), Stdout: &o, Stderr: &e, Drivers: drivers, Now: time.Now, Getenv: func(string) string { return "" }, Context: context.Background()}
	code = Run(env, args)
	return code, o.String(), e.String()
}

func TestRailsThatAreNone(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--device", "lo,lo"}, 2, "--device: lo is named twice"},
		{[]string{"--device", "lo,"}, 2, "--device lo,: an empty name"},
		{[]string{"--device", "lo,no-such-device"}, 2, "--device: there is no no-such-device (there are "},
		{[]string{"--device", "a,b", "--remote-device", "c"}, 2, "--device names 2 devices and --remote-device 1"},
		{[]string{"--remote-device", "a,b"}, 2, "--remote-device a,b: name as many of this side's with --device"},
		{[]string{"--device", "a,b", "--remote-device", "c,c"}, 2, "--remote-device: c is named twice"},
		{[]string{"--rails", "all"}, 2, "--rails all: want auto"},
		{[]string{"--rails", "auto", "--device", "lo"}, 2, "--rails auto finds the devices"},
		{[]string{"--rails", "auto", "--transport", "tcp"}, 2, "--rails auto: tcp has no RDMA devices"},
		{[]string{"--device", "a,b", "--forever"}, 2, "--forever goes with one path"},
		{[]string{"--device", "a,b", "--bind", "127.0.0.1"}, 2, "--bind goes with one path"},
	} {
		code, _, errs := railCommand(t, []transports.Driver{tcp.New()}, append([]string{"run"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: status %d, %q; want %d, %q in one line", c.args, code, errs, c.code, c.want)
		}
	}
}

// TestRailsDryRun shows the rails and how many rows they give, and a plan that repeats them.
func TestRailsDryRun(t *testing.T) {
	a, b := interfaces(t)
	code, out, errs := railCommand(t, []transports.Driver{tcp.New()}, "run", "--device", a+","+b, "--op", "write,read", "--metric", "bandwidth,latency", "--sizes", "64,1MiB", "--dry-run")
	// Each of 2 rails alone and together: 2 operations, 2 sizes, bandwidth one way and both ways, latency one way; and the sums of bandwidth.
	rows := 2*2*(2*2*2+2*2) + 2*2*2
	for _, want := range []string{fmt.Sprintf("# %d cells over tcp", rows), "tcp, 2 rails: " + a + "; " + b + "; each alone, then all at once", "device: " + a + "," + b} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("status %d, no %q in %s%s", code, want, out, errs)
		}
	}
}

// TestRailsOfOneHost measures two interfaces of this host, each alone and both at once, over real sockets.
func TestRailsOfOneHost(t *testing.T) {
	a, b := interfaces(t)
	drivers := []transports.Driver{tcp.New()}
	r := &railRun{local: []string{a, b}, remote: []string{a, b}}
	p := harness.DefaultPlan()
	p.Transports, p.Operations, p.Metrics, p.Directions = []string{"tcp"}, []transports.Op{transports.Write}, []harness.Metric{harness.Bandwidth}, []harness.Direction{harness.Forward, harness.Both}
	p.Sizes, p.Rounds, p.Round, p.Device = []uint64{65536}, 2, 0.02, a+","+b
	here, there := harness.NewSide(drivers, harness.Limits{}), harness.NewSide(drivers, harness.Limits{})
	defer here.Close()
	defer there.Close()
	session := &harness.Session{Local: here, Remote: there}
	if err := r.prepare(context.Background(), p, session); err != nil {
		t.Fatal(err)
	}
	var seen []string
	err := r.run(context.Background(), p, session, harness.Sink{Cell: func(c *results.Cell) error {
		seen = append(seen, c.Direction+" "+c.Schedule+" "+c.Rail)
		if c.Status != results.StatusOK || c.Verified == nil || !*c.Verified {
			t.Errorf("%s: %s %s", seen[len(seen)-1], c.Status, c.Reason)
		}
		if c.Rail != railSum && (c.Path.Initiator.Device != c.Rail || c.Path.Target.Device != c.Rail) {
			t.Errorf("rail %s used %s and %s", c.Rail, c.Path.Initiator.Device, c.Path.Target.Device)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"forward isolated " + a, "both isolated " + a, "forward isolated " + b, "both isolated " + b,
		"forward together " + a, "forward together " + b, "forward together all", "both together " + a, "both together " + b, "both together all"}
	if !slices.Equal(seen, want) {
		t.Errorf("rows %q, want %q", seen, want)
	}
	if n := r.cells(p); n != len(want) {
		t.Errorf("%d rows were promised and %d came", n, len(want))
	}
}

// TestRailsOfGPUs names the memory of each rail's own GPU where cuda was asked for, and tells rails on one device apart.
func TestRailsOfGPUs(t *testing.T) {
	one := rdmaport.Rail{Device: "mlx5_0", GPU: "0000:18:00.0", UUID: "GPU-1"}
	for memory, want := range map[string]string{"cuda": "cuda:GPU-1", "cuda:3": "", "host": ""} {
		if got := ownGPU(memory, one, 5); got != want {
			t.Errorf("%s: %q instead of %q", memory, got, want)
		}
	}
	if got := ownGPU("cuda", rdmaport.Rail{Device: "mlx5_0", GPU: "0000:18:00.0"}, 5); got != "cuda:5" {
		t.Errorf("a GPU without a UUID: %q", got)
	}
	if got := ownGPU("cuda", rdmaport.Rail{Device: "mlx5_0"}, 5); got != "" {
		t.Errorf("a rail without a GPU: %q", got)
	}
}

// TestKindOfDevices: RDMA devices are for the transport of their link layer, interfaces for TCP, and not both in one run.
func TestKindOfDevices(t *testing.T) {
	h := &topo.Host{}
	h.RDMA.Devices = []topo.RDMADevice{{Name: "mlx5_0", Ports: []topo.RDMAPort{{Num: 1, LinkLayer: "InfiniBand"}}}, {Name: "mlx5_1", Ports: []topo.RDMAPort{{Num: 1, LinkLayer: "Ethernet"}}}}
	for _, c := range []struct{ names, kind, err string }{
		{"mlx5_0", "infiniband", ""}, {"mlx5_1:1", "roce", ""}, {"lo", "tcp", ""}, {"mlx5_0,mlx5_1", "", "mlx5_0 is for infiniband and mlx5_1 for roce"},
		{"mlx5_2", "", "there is no mlx5_2; did you mean mlx5_0?"},
	} {
		kind, err := kindOf(h, strings.Split(c.names, ","))
		if kind != c.kind || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", c.names, kind, err)
		}
	}
}
