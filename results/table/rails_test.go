package table

import (
	"strings"
	"testing"

	"hopbench/results"
)

func railCell(rail, schedule, direction string, size int64, gigabytes float64) results.Cell {
	low, high := gigabytes*0.99e9, gigabytes*1.01e9
	c := results.Cell{Transport: "roce", Label: "roce", Realm: results.RealmHardware, Definition: "bandwidth.confirmed", Operation: "write", Direction: direction,
		PieceBytes: size, TotalBytes: size, Descriptors: 1, Pattern: "contiguous", Depth: 16, Streams: 1, Concurrency: 1, InitiatorMemory: "host", TargetMemory: "host",
		Wait: "adaptive", Rail: rail, Schedule: schedule, Status: results.StatusOK, Bandwidth: &results.Bandwidth{BytesPerSecond: gigabytes * 1e9, Low: &low, High: &high}}
	return c
}

// TestRails: a row a rail, alone and with the others, the sum, and the slowest by name.
func TestRails(t *testing.T) {
	failed := railCell("mlx5_3", "isolated", "forward", 1<<20, 0)
	failed.Status, failed.Reason, failed.Code, failed.Bandwidth = results.StatusFailed, "the port is DOWN", "rdma.port-down", nil
	later := failed
	later.Schedule = "together"
	noSum := railCell("all", "together", "forward", 1<<20, 0)
	noSum.Status, noSum.Reason, noSum.Bandwidth = results.StatusFailed, "a flow of the sum has no figure: the port is DOWN", nil
	p50, slow := 1.9e-6, 2.6e-6
	latency := func(rail, schedule string, v *float64) results.Cell {
		c := railCell(rail, schedule, "forward", 64, 0)
		c.Definition, c.Depth, c.Bandwidth, c.Latency = "latency.half_rtt", 1, nil, &results.Latency{Samples: 1000, P50Seconds: v}
		return c
	}
	page := render(t, Options{}, run(
		railCell("mlx5_0", "isolated", "forward", 64<<10, 23.1), railCell("mlx5_1", "isolated", "forward", 64<<10, 23), railCell("mlx5_0", "together", "forward", 64<<10, 20),
		railCell("mlx5_1", "together", "forward", 64<<10, 21.5), railCell("all", "together", "forward", 64<<10, 41.5),
		railCell("mlx5_0", "isolated", "both", 1<<20, 46), railCell("mlx5_1 to mlx5_2", "isolated", "both", 1<<20, 40), railCell("mlx5_0", "together", "both", 1<<20, 45),
		railCell("mlx5_1 to mlx5_2", "together", "both", 1<<20, 30), railCell("all", "together", "both", 1<<20, 75),
		railCell("mlx5_0", "isolated", "forward", 1<<20, 24), failed, railCell("mlx5_0", "together", "forward", 1<<20, 24), later, noSum,
		latency("mlx5_0", "isolated", &p50), latency("mlx5_1", "isolated", &p50), latency("mlx5_0", "together", &slow), latency("mlx5_1", "together", &p50),
	))
	golden(t, "rails.txt", page)
	for _, want := range []string{"slowest 64 KiB, together: mlx5_0, 20", "93.0 % of the fastest", "no figure 1 MiB, alone: mlx5_3 (failed)", "slowest together: mlx5_1 to mlx5_2", "roce, all rails",
		"slowest together: mlx5_0, 2.60 µs"} {
		if !strings.Contains(strings.Join(strings.Fields(page), " "), want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(page, "roce, rail") {
		t.Errorf("rails stand in a sweep of columns as well:\n%s", page)
	}
}

// TestMeshRailsAreNoRails: the rows of a mesh name hosts and stand where they stood.
func TestMeshRailsAreNoRails(t *testing.T) {
	c := railCell("mlx5_0", "isolated", "forward", 1<<20, 20)
	c.InitiatorHost, c.TargetHost = "a", "b"
	if page := render(t, Options{}, run(c)); strings.Contains(page, "Rails.") {
		t.Errorf("a pair of a mesh is shown as a rail:\n%s", page)
	}
}
