package table

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"hopbench/results"
)

func TestPerftestView(t *testing.T) {
	roce := func(operation string, n int64) []results.Cell {
		return []results.Cell{bw(t, "roce", "roce", results.RealmSoftware, operation, n, 0.6e9), lat(t, "roce", "roce", results.RealmSoftware, operation, n, 20e-6)}
	}
	cells := append(roce("write", 65536), roce("read", 65536)...)
	cells = append(cells, typical(t).Cells...)
	page := render(t, Options{View: Perftest}, run(cells...))
	check(t, page)
	golden(t, "perftest.txt", page)
	golden(t, "perftest.csv", render(t, Options{View: Perftest, Format: CSV}, run(cells...)))
}

// TestPerftestLatencyRule holds the view to perftest's arithmetic on samples where each rank is known.
func TestPerftestLatencyRule(t *testing.T) {
	var samples []float64
	for i := 1; i <= 1002; i++ {
		samples = append(samples, float64(i)*1e-6)
	}
	l, _, _, err := results.LatencyOf([][]float64{samples})
	if err != nil {
		t.Fatal(err)
	}
	c := draft("roce", "roce", results.RealmSoftware, "latency.half_rtt", "write", 2)
	c.Latency = l
	row, reason := perftestLatency(item{Cell: &c, run: &results.Run{}})
	if reason != "" {
		t.Fatal(reason)
	}
	var got []string
	for _, c := range row {
		got = append(got, c.Text)
	}
	// 1002 deltas, m = 1000: min delta[0], max delta[1000] = 1001, median (500+501)/2, mean of 1..1000, stdev with cut deviations, delta[990] = 991, delta[999] = 1000.
	want := []string{"1002", "1.00", "1001.00", "500.50", "500.50", "288.17", "991.00", "1000.00"}
	for i := range want {
		var a, b float64
		fmt.Sscan(want[i], &a)
		fmt.Sscan(got[i], &b)
		if math.Abs(a-b) > a*0.001 {
			t.Errorf("column %d: %s, perftest gives %s", i, got[i], want[i])
		}
	}
	few := draft("roce", "roce", results.RealmSoftware, "latency.half_rtt", "write", 2)
	few.Latency, _, _, _ = results.LatencyOf([][]float64{{1e-6, 2e-6}})
	if _, reason := perftestLatency(item{Cell: &few}); !strings.Contains(reason, "drops two") {
		t.Errorf("two samples: %q", reason)
	}
}

func TestNVBandwidthView(t *testing.T) {
	c := draft("cuda-peer", "nvlink", results.RealmHardware, "bandwidth.confirmed", "write", 512<<20)
	c.Bandwidth = &results.Bandwidth{BytesPerSecond: 390e9, Rounds: []float64{1, 1, 1}, RoundsSeconds: []float64{0.0220000009, 0.021, 0.023}, RoundsOperations: []int64{16, 16, 16}}
	v, reason := nvbandwidth(item{Cell: &c})
	if want := float64(16*(512<<20)) / 0.022; reason != "" || math.Abs(v-want) > 1 {
		t.Errorf("%v, %q; want %v", v, reason, want)
	}
	page := render(t, Options{View: NVBandwidth}, run(append(typical(t).Cells, c)...))
	check(t, page)
	golden(t, "nvbandwidth.txt", page)
	c.Bandwidth.RoundsOperations[1] = 17
	if _, reason := nvbandwidth(item{Cell: &c}); reason == "" {
		t.Error("rounds of 17 copies have a figure")
	}
}
