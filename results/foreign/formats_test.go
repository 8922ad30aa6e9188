package foreign

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hopbench/results"
)

// Samples that were written from the programs' source, together with what a reader must make of them, before this package
// was run on them. Each line is a cell: definition, operation, bytes, from > to, figure.
func TestFormatsFromTheirSource(t *testing.T) {
	for _, c := range []struct {
		name, tool string
		want       []string
		warns      []string // a part of each warning, in order
	}{
		{"nccl-tests-allreduce-nompi.json", "nccl-tests (NCCL 2.30.4)", []string{
			// The program's name tells the operation: experiment_name, which this sample has, is written empty (common.cu).
			"bandwidth.algorithm.out_of_place all_reduce 1024 cuda>cuda 0.047628 GB/s verified ranks=8 bus=83349000",
			"latency.amortised.out_of_place all_reduce 1024 cuda>cuda n=6 mean 21.5 verified ranks=8",
			// Two of six iterations are left out of the statistics, and stand in the list all the same.
			"latency.iteration.out_of_place all_reduce 1024 cuda>cuda n=4 min 20 p50 22 mean 21.5 max 23 rounds [20 21 22 23] verified ranks=8",
			"bandwidth.algorithm.in_place all_reduce 1024 cuda>cuda failed verified ranks=8",
			"bandwidth.algorithm.in_place all_reduce 4096 cuda>cuda 0.16 GB/s ranks=8 bus=280000000",
		}, []string{"invalid as written", "no zone", "cpu_time"}},
		{"nvbandwidth-all-to-one.json", "nvbandwidth v0.8 (v0.8-2-g1a2b3c4)", []string{
			// One row: its column is the one, whatever the arrow between "row" and "column" says.
			"bandwidth.median all_to_one_write_ce 0 cuda:all>cuda:0 262.51 GB/s",
			"bandwidth.median all_to_one_write_ce 0 cuda:all>cuda:1 261.9 GB/s",
			"bandwidth.median all_to_one_write_ce 0 cuda:all>cuda:2 262.004 GB/s",
			"bandwidth.median one_to_all_read_ce 0 cuda:0>cuda:all 258.1 GB/s",
			"bandwidth.median one_to_all_read_ce 0 cuda:1>cuda:all 257.35 GB/s",
			"bandwidth.median device_to_host_bidirectional_memcpy_ce 0 host>cuda:0 18.56 GB/s both",
			"bandwidth.median device_to_host_bidirectional_memcpy_ce 0 host>cuda:1 18.37 GB/s both",
			"bandwidth.median device_to_host_bidirectional_memcpy_ce 0 host>cuda:2 19.37 GB/s both",
			// The GPU loads from the host's memory: doPtrChase(deviceId, hostBuffer) of testcases_sm.cpp.
			"latency.load host_device_latency_sm 0 cuda:0>host mean 0.77258",
			"latency.load host_device_latency_sm 0 cuda:1>host mean 0.77296",
			"latency.load host_device_latency_sm 0 cuda:2>host mean 1.03417",
			"bandwidth.median device_local_copy 0 cuda:0>cuda:0 1234.56 GB/s",
			"bandwidth.median device_local_copy 0 cuda:1>cuda:1 1200 GB/s",
			"bandwidth.median device_local_copy 0 cuda:2>cuda:2 1219.07 GB/s",
			// The program names its rows CPU there; the test is between devices.
			"bandwidth.median.read1 multinode_device_to_device_bidirectional_memcpy_read_ce 0 cuda:0>cuda:1 201.1 GB/s both",
			"bandwidth.median.read1 multinode_device_to_device_bidirectional_memcpy_read_ce 0 cuda:1>cuda:0 201.2 GB/s both",
			"bandwidth.median.read2 multinode_device_to_device_bidirectional_memcpy_read_ce 0 cuda:0>cuda:1 202.1 GB/s both",
			"bandwidth.median.read2 multinode_device_to_device_bidirectional_memcpy_read_ce 0 cuda:1>cuda:0 202.2 GB/s both",
			"bandwidth.median.total multinode_device_to_device_bidirectional_memcpy_read_ce 0 cuda:0>cuda:1 403.2 GB/s both",
			"bandwidth.median.total multinode_device_to_device_bidirectional_memcpy_read_ce 0 cuda:1>cuda:0 403.4 GB/s both",
			// A test that ends in an error stands twice: as running, and with its error.
			"bandwidth.median device_to_device_memcpy_write_sm 0 cuda>cuda failed",
		}, []string{"smaller than the default", "buffer size", "device_to_device_memcpy_wirte_ce"}},
		{"nixlbench-pairs-of-ranks.txt", "nixlbench", []string{
			"bandwidth.total write 524288 cuda>host 11.25 GB/s post=3.1",
			"bandwidth.aggregate write 524288 cuda>host 22.5 GB/s",
			"latency.transfer write 524288 cuda>host n=1008 mean 42.9 p99 61.3",
			"latency.amortised write 524288 cuda>host n=1008 mean 5.8",
			"bandwidth.total write 16777216 cuda>host 23.125 GB/s post=3.4",
			"bandwidth.aggregate write 16777216 cuda>host 46 GB/s",
			"latency.transfer write 16777216 cuda>host n=63 mean 719.2", // p99 of 63 samples is none
			"latency.amortised write 16777216 cuda>host n=63 mean 90.7",
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := parseFile(t, c.name)
			var got []string
			for i := range f.Cells {
				got = append(got, inWords(&f.Cells[i]))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if f.Tool != c.tool {
				t.Errorf("tool %q", f.Tool)
			}
			if len(f.Warnings) != len(c.warns) {
				t.Errorf("warnings %q, want %q", f.Warnings, c.warns)
			} else {
				for i, w := range c.warns {
					if !strings.Contains(f.Warnings[i], w) {
						t.Errorf("warning %q, want %q", f.Warnings[i], w)
					}
				}
			}
		})
	}
}

// inWords is a cell as the lists above have it; times in microseconds.
func inWords(c *results.Cell) string {
	_, definition, _ := strings.Cut(c.Definition, ".")
	s := fmt.Sprintf("%s %s %d %s>%s", definition, c.Operation, c.TotalBytes, c.InitiatorMemory, c.TargetMemory)
	switch l := c.Latency; {
	case c.Bandwidth != nil:
		s += fmt.Sprintf(" %.6g GB/s", c.Bandwidth.BytesPerSecond/1e9)
	case l != nil:
		if l.Samples > 0 {
			s += fmt.Sprintf(" n=%d", l.Samples)
		}
		for _, p := range []struct {
			name string
			v    *float64
		}{{"min", l.MinSeconds}, {"p50", l.P50Seconds}, {"mean", l.MeanSeconds}, {"p99", l.P99Seconds}, {"max", l.MaxSeconds}} {
			if p.v != nil {
				s += fmt.Sprintf(" %s %.6g", p.name, *p.v*1e6)
			}
		}
		if len(l.RoundsP50Seconds) > 0 {
			var rounds []string
			for _, v := range l.RoundsP50Seconds {
				rounds = append(rounds, fmt.Sprintf("%.6g", v*1e6))
			}
			s += fmt.Sprint(" rounds ", rounds)
		}
	default:
		s += " " + c.Status
	}
	if c.Direction == "both" {
		s += " both"
	}
	if c.Verified != nil && *c.Verified {
		s += " verified"
	}
	for _, name := range []string{"prepare", "post"} {
		if v, ok := c.PhasesSeconds[name]; ok {
			s += fmt.Sprintf(" %s=%.6g", name, v*1e6)
		}
	}
	if v, ok := c.Settings["ranks"]; ok {
		s += " ranks=" + v
	}
	if v, ok := c.Settings["bus_bytes_per_second"]; ok {
		s += " bus=" + v
	}
	return s
}

// What the samples say of their hosts.
func TestHostsOfSamples(t *testing.T) {
	f := parseFile(t, "nccl-tests-allreduce-nompi.json")
	if len(f.Hosts) != 1 || f.Hosts[0].Hostname != "gpu-node-7" || len(f.Hosts[0].GPUs) != 1 || f.Hosts[0].GPUs[0].PCI != "0000:18:00" {
		t.Errorf("%+v", f.Hosts)
	}
	f = parseFile(t, "nvbandwidth-all-to-one.json")
	if len(f.Hosts) != 1 || f.Hosts[0].Hostname != "dgx-3" || len(f.Hosts[0].GPUs) != 3 {
		t.Fatalf("%+v", f.Hosts)
	}
	var buses []string
	for _, g := range f.Hosts[0].GPUs {
		buses = append(buses, g.PCI)
	}
	if !slices.Equal(buses, []string{"00000000:07:00", "00000000:0f:00", "00000000:47:00"}) {
		t.Errorf("%q", buses)
	}
}
