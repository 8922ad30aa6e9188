package verbs

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"hopbench/transports"
)

// TestAgainstPerftest runs this package's loops and perftest's in turn on the same device, for scripts/peers-verbs.sh:
// HOPBENCH_PEERS is the number of rounds. It asserts nothing: it prints the ratio of each pair with its 95 % interval.
func TestAgainstPerftest(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("HOPBENCH_PEERS"))
	if err != nil {
		t.Skip("scripts/peers-verbs.sh runs this")
	}
	onRXE(t)
	const depth = 16
	p := mustConnect(t, setup{bytes: 4 << 20, endpoint: transports.EndpointOptions{Depth: depth}})
	fmt.Printf("PEERS ratio above 1 for bandwidth, below 1 for latency: ahead of perftest; %d rounds in turn, depth %d\n", rounds, depth)
	only := os.Getenv("HOPBENCH_PEERS_ONLY") // "bandwidth", "latency", both, or "retries"
	if only == "retries" {
		retries(t, rounds)
		return
	}
	if only != "latency" {
		one := set("post-list", "1")
		p1 := mustConnect(t, setup{bytes: 4 << 20, options: [2]transports.Options{one, one}, endpoint: transports.EndpointOptions{Depth: depth}})
		for _, op := range transports.Ops() {
			bandwidths(t, p, p1, op, rounds, depth)
		}
	}
	if only != "bandwidth" {
		latencies(t, p, transports.Write, rounds)
		latencies(t, p, transports.Read, rounds)
	}
}

// bandwidths compares loops as both programs post by default; where a post weighs (4 KiB) also with one message to a post, as perftest does by
// default, and both with lists of four.
func bandwidths(t *testing.T, p, one sides, op transports.Op, rounds, depth int) {
	for _, c := range []struct {
		size uint64
		n    int
	}{{4 << 10, 12000}, {64 << 10, 1200}, {1 << 20, 96}} {
		var theirs, lists, ours, single series
		args := []string{"-s", fmt.Sprint(c.size), "-n", fmt.Sprint(c.n), "-t", fmt.Sprint(depth)}
		for range rounds {
			ours = append(ours, p.bandwidth(t, op, c.size, c.n, depth))
			theirs = append(theirs, perftest(t, "ib_"+string(op)+"_bw", args...))
			if c.size == 4<<10 {
				single = append(single, one.bandwidth(t, op, c.size, c.n, depth))
				lists = append(lists, perftest(t, "ib_"+string(op)+"_bw", append(args, "-l", "4", "-Q", "4")...))
			}
		}
		what := fmt.Sprintf("%s bandwidth %d B", op, c.size)
		report(what, "MiB/s", ours, theirs)
		if single != nil {
			report(what+", one message a post", "MiB/s", single, theirs)
			report(what+", perftest -l 4 -Q 4", "MiB/s", ours, lists)
		}
	}
}

// latencies compares the wall clock of an iteration: perftest's is the difference of two runs of unlike counts, since its cycle counter is
// unsteady in a guest whose clock is not the TSC; its own average stands beside it.
func latencies(t *testing.T, p sides, op transports.Op, rounds int) {
	const size, few, many = 8, 1000, 41000
	program := "ib_" + string(op) + "_lat"
	var ours, theirs, own series
	for range rounds {
		ours = append(ours, p.latency(t, op, size, many-few))
		_, short := perftestRun(t, program, "-s", fmt.Sprint(size), "-n", fmt.Sprint(few))
		out, long := perftestRun(t, program, "-s", fmt.Sprint(size), "-n", fmt.Sprint(many))
		theirs = append(theirs, (long-short)/(many-few)*1e6)
		average := math.NaN() // where it could not tell the rate of its counter
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) >= 6 && f[0] == fmt.Sprint(size) {
				average, _ = strconv.ParseFloat(f[5], 64)
			}
		}
		if op != transports.Read {
			average *= 2 // it prints half a round trip
		}
		own = append(own, average)
	}
	report(fmt.Sprintf("%s wall clock an iteration, %d B", op, size), "us", ours, theirs)
	report(fmt.Sprintf("%s by perftest's own counter, %d B", op, size), "us", ours, own)
}

// retryCounters are what soft-RoCE counts of requests that were sent again.
var retryCounters = []string{"completer_retry_err", "duplicate_request", "rcvd_rnr_err", "rcvd_seq_err", "out_of_seq_request", "retry_exceeded_err", "sent_pkts"}

func retryCounts(t *testing.T) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	for _, c := range (witness{root: "/", device: "rxe0", port: 1, software: true, mtu: 4096}).packets("") {
		out[c.Name] = c.Value
	}
	return out
}

// retries asks where soft-RoCE's retries come from: loops of 4 KiB writes without a pause, with one before each, and with a longer local
// acknowledgement timeout, beside perftest without a pause; each as long as the others in all. It asserts nothing.
func retries(t *testing.T, rounds int) {
	const size, depth = 4096, 16
	count := func(what string, run func()) {
		before := retryCounts(t)
		run()
		line := fmt.Sprintf("PEERS %-58s", what)
		after := retryCounts(t)
		for _, name := range retryCounters {
			line += fmt.Sprintf(" %s %d", name, after[name]-before[name])
		}
		fmt.Println(line)
	}
	loops := func(timeout string, n int, each, pause time.Duration) func() {
		o := set("qp-timeout", timeout)
		p := mustConnect(t, setup{options: [2]transports.Options{o, o}, endpoint: transports.EndpointOptions{Depth: depth}})
		return func() {
			for range n {
				time.Sleep(pause)
				l := &transports.Loop{Op: transports.Write, Lists: []transports.List{{Pieces: []transports.Piece{{Length: size}}, Ends: []uint32{1}}}, Depth: depth, Deadline: transports.Now() + each.Nanoseconds()}
				if err := p.run(l); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	whole := time.Duration(rounds) * 100 * time.Millisecond
	for range 2 {
		count(fmt.Sprintf("hopbench, 1 loop of %v, timeout 14", whole), loops("14", 1, whole, 0))
		count(fmt.Sprintf("perftest, 1 run of %v, timeout 14", whole), func() {
			perftestRun(t, "ib_write_bw", "-s", fmt.Sprint(size), "-D", fmt.Sprint(max(1, int(whole.Seconds()))), "-t", fmt.Sprint(depth), "-u", "14")
		})
		for _, pause := range []time.Duration{0, 20 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond} {
			count(fmt.Sprintf("hopbench, %d loops of 100ms, %v before each, timeout 14", rounds, pause), loops("14", rounds, 100*time.Millisecond, pause))
		}
		count(fmt.Sprintf("hopbench, %d loops of 100ms, 20ms before each, timeout 18", rounds), loops("18", rounds, 100*time.Millisecond, 20*time.Millisecond))
		count(fmt.Sprintf("perftest, %d runs of 400 writes, timeout 14", rounds/10), func() {
			for range rounds / 10 {
				perftestRun(t, "ib_write_bw", "-s", fmt.Sprint(size), "-n", "400", "-t", fmt.Sprint(depth), "-u", "14")
			}
		})
	}
}

// bandwidth is MiB/s of one loop of n operations, from the first post to the last confirmation.
func (p *sides) bandwidth(t *testing.T, op transports.Op, size uint64, n, depth int) float64 {
	t.Helper()
	s := make([]transports.Stamps, 1)
	s[0].At = make([]int64, n)
	l := &transports.Loop{Op: op, Lists: []transports.List{{Pieces: []transports.Piece{{Length: size}}, Ends: []uint32{1}}}, Depth: depth, Count: uint64(n), Wait: transports.Spin, Stamps: s}
	if err := p.run(l); err != nil {
		t.Fatal(err)
	}
	return float64(s[0].Bytes) / (1 << 20) / (float64(s[0].At[s[0].N-1]-s[0].Start) / 1e9)
}

// latency is microseconds of wall clock an iteration: a round trip for write, a completion for read.
func (p *sides) latency(t *testing.T, op transports.Op, size uint64, n int) float64 {
	t.Helper()
	s := make([]transports.Stamps, 1)
	s[0].At = make([]int64, n)
	l := &transports.Loop{Op: op, Lists: []transports.List{{Pieces: []transports.Piece{{Length: size}}, Ends: []uint32{1}}}, Depth: 1, Count: uint64(n), Wait: transports.Spin, Stamps: s,
		Echo: op != transports.Read, ReplyOffset: 4096}
	if err := p.run(l); err != nil {
		t.Fatal(err)
	}
	return float64(s[0].At[s[0].N-1]-s[0].Start) / 1e3 / float64(n)
}

// perftestRun starts both of perftest's sides and gives the client's output and its wall clock.
func perftestRun(t *testing.T, program string, args ...string) (string, float64) {
	t.Helper()
	args = append([]string{"-d", "rxe0", "-x", "1", "-F"}, args...)
	limit, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	server := exec.CommandContext(limit, program, args...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if listens(18515) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	start := time.Now()
	out, err := exec.CommandContext(limit, program, append(args, "10.9.0.1")...).CombinedOutput()
	took := time.Since(start).Seconds()
	// Its write latency server at times spins on after the client has ended; what counts is the client's.
	end := time.AfterFunc(3*time.Second, func() { server.Process.Kill() })
	e := server.Wait()
	if spun := !end.Stop(); err != nil || e != nil && !spun {
		t.Fatalf("%s: %v, server %v: %s", program, err, e, out)
	}
	return string(out), took
}

// listens says whether something listens on a TCP port of this host; state 0A of /proc/net/tcp is LISTEN.
func listens(port int) bool {
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && f[3] == "0A" {
				return true
			}
		}
	}
	return false
}

// perftest is the average bandwidth that perftest prints, in MiB/s. It finds the rate of its cycle counter anew in each run, and gives up where
// its samples do not lie on a line, as they at times do not in a guest: then it is run again.
func perftest(t *testing.T, program string, args ...string) float64 {
	t.Helper()
	out := ""
	for range 8 {
		out, _ = perftestRun(t, program, args...)
		for line := range strings.Lines(out) {
			f := strings.Fields(line)
			if len(f) < 4 {
				continue
			}
			if _, err := strconv.ParseUint(f[0], 10, 64); err != nil {
				continue
			}
			if v, err := strconv.ParseFloat(f[3], 64); err == nil && v > 0 {
				return v
			}
		}
		if !strings.Contains(out, "Correlation coefficient") {
			break
		}
		fmt.Printf("PEERS %s could not tell the rate of its cycle counter, and is run again\n", program)
	}
	t.Fatalf("%s printed no bandwidth: %s", program, out)
	return 0
}

// series is a figure of each round.
type series []float64

// student is the two-sided 95 % quantile of Student's distribution for 1 to 20 degrees of freedom.
var student = []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086}

// report prints the geometric mean of the rounds' ratios with its 95 % interval.
func report(what, unit string, ours, theirs series) {
	mean := func(v series, f func(float64) float64) (m float64) {
		for _, x := range v {
			m += f(x) / float64(len(v))
		}
		return m
	}
	same := func(x float64) float64 { return x }
	var ratios series
	for i := range ours {
		ratios = append(ratios, ours[i]/theirs[i])
	}
	m := mean(ratios, math.Log)
	line := fmt.Sprintf("PEERS %-48s hopbench %9.2f %s, perftest %9.2f %s, ratio %.3f", what, mean(ours, same), unit, mean(theirs, same), unit, math.Exp(m))
	if n := len(ratios); n > 1 && n-2 < len(student) {
		v := 0.0
		for _, x := range ratios {
			d := math.Log(x) - m
			v += d * d / float64(n-1)
		}
		half := student[n-2] * math.Sqrt(v/float64(n))
		line += fmt.Sprintf(" [%.3f, %.3f]", math.Exp(m-half), math.Exp(m+half))
	}
	fmt.Println(line)
}
