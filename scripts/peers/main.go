// Command peers measures hopbench and its TCP peers (iperf3, sockperf) in turn on one machine and prints the ratio of medians with
// its 95 % interval. It is what `make peers` runs.
//
//	make peers PEERS=tcp                                                      all: both places, both congestion controls (20 minutes)
//	make peers PEERS=tcp PEERSFLAGS="-over veth"                              every comparison between two network namespaces
//	make peers PEERS=tcp PEERSFLAGS="-over loopback -run spin"                one comparison: -run is a regular expression of their names
//	make peers PEERS=tcp PEERSFLAGS="-over loopback -run '128 KiB'"
//	make peers PEERS=tcp PEERSFLAGS="-over loopback -congestion cubic -run '4 streams'"
//
// Both get the same congestion control, message size and CPUs: the initiator's on CPU 0, the target's on CPU 1. A round is one run of each,
// in an order that alternates. veth needs root: two network namespaces are made and removed.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hopbench/results"
)

type options struct {
	hopbench string
	rounds   int
	seconds  float64
	over     []string
	cc       []string
	only     *regexp.Regexp
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run() error {
	var o options
	over := flag.String("over", "loopback,veth", "loopback, veth")
	cc := flag.String("congestion", "", "congestion controls; empty: the kernel's default, and cubic or reno")
	only := flag.String("run", ".", "regular expression of the comparisons to make")
	flag.StringVar(&o.hopbench, "hopbench", "bin/hopbench", "the program")
	flag.IntVar(&o.rounds, "rounds", 9, "runs of each, in turn")
	flag.Float64Var(&o.seconds, "seconds", 1, "measured time of each run")
	flag.Parse()
	if flag.NArg() > 0 || o.rounds < 3 {
		return errors.New("no arguments, and at least 3 rounds")
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	o.over = strings.Split(*over, ",")
	if *cc != "" {
		o.cc = strings.Split(*cc, ",")
	} else if o.cc, err = congestionControls(); err != nil {
		return err
	}
	for _, tool := range []string{"iperf3", "sockperf"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed: %w", tool, err)
		}
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		if now, err := strconv.ParseFloat(strings.Fields(string(load))[0], 64); err == nil && now > 0.5 {
			fmt.Fprintf(os.Stderr, "peers: the load average is %.2f: on a machine that does something else the ratios say little\n", now)
		}
	}
	fmt.Printf("%-44s %9s %9s %7s  %s\n", "comparison (medians of "+strconv.Itoa(o.rounds)+" rounds in turn)", "hopbench", "peer", "ratio", "95 % interval")
	for _, place := range o.over {
		p, err := open(place)
		if err != nil {
			return err
		}
		err = o.all(p)
		p.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// all makes every comparison in one place.
func (o *options) all(p *place) error {
	var failed error
	compare := func(name string, ours, theirs func() (float64, error)) {
		if !o.only.MatchString(name) || failed != nil {
			return
		}
		failed = o.compare(name, ours, theirs)
	}
	for _, cc := range o.cc {
		for _, k := range []struct {
			name    string
			size    string
			streams int
		}{{"1 MiB, 1 stream", "1M", 1}, {"128 KiB, 1 stream", "128K", 1}, {"1 MiB, 4 streams", "1M", 4}} {
			compare(fmt.Sprintf("%s, %s, %s, GB/s", p.name, cc, k.name),
				func() (float64, error) { return o.bandwidth(p, cc, k.size, k.streams) },
				func() (float64, error) { return o.iperf3(p, cc, k.size, k.streams) })
		}
	}
	for _, wait := range []string{"block", "spin"} {
		compare(fmt.Sprintf("%s, %s, half round trip of 64 B, us", p.name, wait),
			func() (float64, error) { return o.latency(p, wait) },
			func() (float64, error) { return o.sockperf(p, wait) })
	}
	return failed
}

// compare runs the two in turn, the order changing with the round, and prints the ratio of medians with its interval by bootstrap over pairs.
func (o *options) compare(name string, ours, theirs func() (float64, error)) error {
	var a, b []float64
	for round := range o.rounds {
		steps := []func() error{
			func() error { v, err := ours(); a = append(a, v); return err },
			func() error { v, err := theirs(); b = append(b, v); return err },
		}
		if round%2 == 1 {
			slices.Reverse(steps)
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	var ratios []float64
	for range 10_000 {
		x, y := make([]float64, len(a)), make([]float64, len(b))
		for i := range x {
			j := r.IntN(len(a)) // a pair keeps together: both saw the same state of the machine
			x[i], y[i] = a[j], b[j]
		}
		ratios = append(ratios, median(x)/median(y))
	}
	slices.Sort(ratios)
	fmt.Printf("%-44s %9.3f %9.3f %7.3f  %.3f to %.3f\n", name, median(a), median(b), median(a)/median(b), ratios[250], ratios[9749])
	return nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// congestionControls is the kernel's default and one that does not pace.
func congestionControls() ([]string, error) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		return nil, err
	}
	all := []string{strings.TrimSpace(string(b))}
	available, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	for _, c := range []string{"cubic", "reno"} {
		if slices.Contains(strings.Fields(string(available)), c) && c != all[0] {
			return append(all, c), nil
		}
	}
	return all, nil
}

// place is where both ends run.
type place struct {
	name   string
	addr   string   // of the server
	server []string // prefix of the server's command
	client []string
	close  func()
}

func open(kind string) (*place, error) {
	switch kind {
	case "loopback":
		return &place{name: kind, addr: "127.0.0.1", close: func() {}}, nil
	case "veth":
		a, b := fmt.Sprintf("hbpa%d", os.Getpid()), fmt.Sprintf("hbpb%d", os.Getpid())
		end := func() {
			_ = exec.Command("ip", "netns", "del", a).Run()
			_ = exec.Command("ip", "netns", "del", b).Run()
		}
		for _, c := range [][]string{
			{"netns", "add", a}, {"netns", "add", b},
			{"-n", a, "link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", b},
			{"-n", a, "addr", "add", "10.77.0.1/24", "dev", "v0"}, {"-n", b, "addr", "add", "10.77.0.2/24", "dev", "v1"},
			{"-n", a, "link", "set", "v0", "up"}, {"-n", b, "link", "set", "v1", "up"}, {"-n", a, "link", "set", "lo", "up"}, {"-n", b, "link", "set", "lo", "up"},
		} {
			if out, err := exec.Command("ip", c...).CombinedOutput(); err != nil {
				end()
				return nil, fmt.Errorf("ip %s: %w: %s", strings.Join(c, " "), err, out)
			}
		}
		return &place{name: kind, addr: "10.77.0.2", client: []string{"ip", "netns", "exec", a}, server: []string{"ip", "netns", "exec", b}, close: end}, nil
	}
	return nil, fmt.Errorf("there is no place %q; want loopback or veth", kind)
}

// output runs a client with a limit and returns its standard output.
func output(prefix []string, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	argv := append(append(slices.Clone(prefix), name), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s%s", strings.Join(argv, " "), err, out, stderr.Bytes())
	}
	return out, nil
}

// serve starts a server and returns how to end it.
func serve(prefix []string, env []string, name string, args ...string) (func(), error) {
	argv := append(append(slices.Clone(prefix), name), args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	time.Sleep(300 * time.Millisecond)
	return func() {
		_ = cmd.Process.Signal(os.Interrupt)
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(3 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
	}, nil
}

// hop runs hopbench once and returns its only cell.
func (o *options) hop(p *place, args ...string) (*results.Cell, error) {
	f, err := os.CreateTemp("", "peers-*.jsonl")
	if err != nil {
		return nil, err
	}
	f.Close()
	defer os.Remove(f.Name())
	args = append([]string{"run", "--transport", "tcp", "--op", "write", "--out", f.Name(), "--force"}, args...)
	if len(p.server) > 0 {
		const token = "cGVlcnMtdG9rZW4tb2YtYXQtbGVhc3QtMTI4LWJpdHM"
		end, err := serve(p.server, []string{"HOPBENCH_TOKEN=" + token}, o.hopbench, "serve", "--listen", p.addr+":18515")
		if err != nil {
			return nil, err
		}
		defer end()
		args = append(args, "--peer", p.addr+":18515")
		os.Setenv("HOPBENCH_TOKEN", token)
	}
	if _, err := output(p.client, o.hopbench, args...); err != nil {
		return nil, err
	}
	runs, err := results.ReadFile(f.Name())
	if err != nil {
		return nil, err
	}
	if len(runs) != 1 || len(runs[0].Cells) != 1 {
		return nil, errors.New("expected one cell")
	}
	return &runs[0].Cells[0], nil
}

func (o *options) bandwidth(p *place, cc, size string, streams int) (float64, error) {
	d := time.Duration(o.seconds * float64(time.Second))
	c, err := o.hop(p, "--metric", "bandwidth", "--sizes", size, "--streams", strconv.Itoa(streams), "--rounds", "1", "--round", d.String(), "--warmup", "200ms", "--duration", d.String(), "--congestion", cc)
	if err != nil {
		return 0, err
	}
	return c.Bandwidth.Rounds[0] / 1e9, nil
}

func (o *options) iperf3(p *place, cc, size string, streams int) (float64, error) {
	end, err := serve(p.server, nil, "iperf3", "-s", "-1", "-p", "18516", "--forceflush")
	if err != nil {
		return 0, err
	}
	defer end()
	out, err := output(p.client, "iperf3", "-c", p.addr, "-p", "18516", "-l", size, "-P", strconv.Itoa(streams), "-C", cc, "-A", "0,1", "-t", strconv.FormatFloat(max(1, o.seconds), 'f', 0, 64), "-J")
	if err != nil {
		return 0, err
	}
	var r struct {
		End struct {
			Received struct {
				Bits float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out, &r); err != nil || r.End.Received.Bits <= 0 {
		return 0, fmt.Errorf("iperf3's answer: %v: %.200s", err, out)
	}
	return r.End.Received.Bits / 8e9, nil
}

func (o *options) latency(p *place, wait string) (float64, error) {
	d := time.Duration(o.seconds * float64(time.Second))
	c, err := o.hop(p, "--metric", "latency", "--sizes", "64", "--rounds", "1", "--round", d.String(), "--warmup", "100ms", "--duration", d.String(), "--wait", wait)
	if err != nil {
		return 0, err
	}
	return *c.Latency.MeanSeconds * 1e6, nil
}

var sockperfLatency = regexp.MustCompile(`Latency is ([0-9.]+) usec`)

func (o *options) sockperf(p *place, wait string) (float64, error) {
	extra := []string{}
	if wait == "spin" {
		extra = append(extra, "--nonblocked")
	}
	server := append(slices.Clone(p.server), "taskset", "-c", "1")
	end, err := serve(server, nil, "sockperf", append([]string{"sr", "--tcp", "-i", p.addr, "-p", "18517"}, extra...)...)
	if err != nil {
		return 0, err
	}
	defer end()
	client := append(slices.Clone(p.client), "taskset", "-c", "0")
	out, err := output(client, "sockperf", append([]string{"pp", "--tcp", "-i", p.addr, "-p", "18517", "-m", "64", "-t", strconv.FormatFloat(max(1, o.seconds), 'f', 0, 64)}, extra...)...)
	if err != nil {
		return 0, err
	}
	m := sockperfLatency.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("sockperf's answer: %.400s", out)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}
