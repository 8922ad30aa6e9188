package table

import (
	"fmt"
	"strings"
	"testing"

	"hopbench/results"
)

func gpuPair(a, b int, gigabytes float64, direction, schedule, label string) results.Cell {
	c := results.Cell{Transport: "cuda-peer", Label: label, Realm: results.RealmHardware, Definition: "bandwidth.confirmed", Operation: "write", Direction: direction,
		PieceBytes: 64 << 20, TotalBytes: 64 << 20, Descriptors: 1, Pattern: "contiguous", Depth: 16, Streams: 1, Concurrency: 1,
		InitiatorMemory: fmt.Sprintf("cuda:%d", a), TargetMemory: fmt.Sprintf("cuda:%d", b), Wait: "adaptive", Schedule: schedule, Status: results.StatusOK,
		Bandwidth: &results.Bandwidth{BytesPerSecond: gigabytes * 1e9}}
	links := int64(18)
	if strings.HasPrefix(label, "nvlink") {
		c.Path = &results.Path{Initiator: &results.Side{NVLinks: &links, NVLinkVersion: "4.0"}}
	}
	return c
}

func TestPairsView(t *testing.T) {
	const nv, pcie = "nvlink, same host", "pcie-peer, same host"
	waived := gpuPair(2, 10, 0, "forward", "isolated", "cuda-peer")
	waived.Status, waived.Reason, waived.Code, waived.Bandwidth, waived.Realm = results.StatusWaived, "not among the GPUs that this process sees", "cuda.device", nil, ""
	sum := gpuPair(0, 0, 385.5, "forward", "one-to-all", "cuda-peer, several paths")
	sum.TargetMemory, sum.Rail = "cuda:all", "cuda:0 to all"
	latency := gpuPair(0, 10, 0, "forward", "isolated", nv)
	p50 := 9.5e-6
	latency.Definition, latency.Depth, latency.TotalBytes, latency.PieceBytes, latency.Bandwidth = "latency.half_rtt", 1, 64, 64, nil
	latency.Latency = &results.Latency{Samples: 1000, P50Seconds: &p50}
	host := gpuPair(0, 0, 1, "forward", "", "tcp, same host")
	host.InitiatorMemory, host.TargetMemory, host.Transport = "host", "host", "tcp"
	run := results.Run{File: "pairs.jsonl", Cells: []results.Cell{
		gpuPair(10, 0, 391.25, "forward", "isolated", nv), gpuPair(0, 2, 26.5, "forward", "isolated", pcie), gpuPair(0, 10, 392.5, "forward", "isolated", nv),
		gpuPair(2, 0, 25.5, "forward", "isolated", pcie), waived, gpuPair(10, 2, 26, "forward", "isolated", pcie),
		gpuPair(0, 10, 720, "both", "isolated", nv), gpuPair(10, 0, 721, "both", "isolated", nv),
		gpuPair(0, 2, 20.5, "forward", "one-to-all", pcie), gpuPair(0, 10, 365, "forward", "one-to-all", nv), sum, latency, host,
	}}
	got := render(t, Options{View: Pairs}, run)
	for _, want := range []string{
		"Ways between GPUs", "nvlink x18 (4.0)",
		"Bandwidth between GPUs, GB/s, write of 64 MiB",
		"the row's GPU writes into the column's; bandwidth.confirmed",
		"lowest 25.5 (cuda:2 to cuda:0), highest 392 (cuda:0 to cuda:10)",
		"waived", "not among the GPUs that this process sees",
		"sum GB/s", "all of them nvlink x18 (4.0)", "and the column's into the row's at once",
		"one-to-all: the flows of a row at once", "386",
		"Latency between GPUs, p50 µs, write of 64 B", "9.50",
		"left out: 1 cells that are not between two GPUs",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	// GPUs stand by their number: 10 behind 2.
	var head string
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "GPU") && strings.Contains(line, "cuda:10") {
			head = line
			break
		}
	}
	if strings.Index(head, "cuda:2") > strings.Index(head, "cuda:10") || head == "" {
		t.Errorf("%q", head)
	}
	// What is said of every figure is said once; what is said of some is a mark.
	noted := run
	noted.Cells = append([]results.Cell(nil), run.Cells...)
	for i := range noted.Cells {
		noted.Cells[i].Warnings = []string{"said of all"}
	}
	noted.Cells[0].Warnings = append(noted.Cells[0].Warnings, "said of one")
	got = render(t, Options{View: Pairs}, noted)
	for _, want := range []string{"all: said of all", "[2] said of one", "391  [2]"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	double := run
	double.Cells = append([]results.Cell(nil), run.Cells...)
	double.Cells[0].Realm = results.RealmDouble
	if _, err := Build([]results.Run{double}, Options{View: Pairs}); err == nil {
		t.Error("a double's figures are shown")
	}
}

// TestPairsWithoutAFigure: a host without a GPU has a reason, and no page of empty matrices.
func TestPairsWithoutAFigure(t *testing.T) {
	run := results.Run{}
	for _, direction := range []string{"forward", "both"} {
		c := gpuPair(0, 1, 0, direction, "isolated", "")
		c.Bandwidth, c.Status, c.Reason, c.Code, c.Realm = nil, results.StatusWaived, "there is no NVIDIA driver here", "gpu.none", ""
		run.Cells = append(run.Cells, c)
	}
	got := render(t, Options{View: Pairs}, run)
	if strings.Contains(got, "between GPUs") || strings.Count(got, "there is no NVIDIA driver here") != 1 {
		t.Error(got)
	}
}
