package harness_test

import (
	"strings"
	"testing"

	"hopbench/harness"
	"hopbench/results"
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/loopback"
	"hopbench/transports/tcp"
	"hopbench/transports/transporttest"
)

// TestAFaultyTransportFailsAloneAndShowsNoFigure runs one wrong transport beside one that is right, in both parts.
func TestAFaultyTransportFailsAloneAndShowsNoFigure(t *testing.T) {
	for _, k := range []struct {
		mode transporttest.Mode
		code fault.Code
	}{
		{transporttest.Corruption, fault.PayloadMismatch},
		{transporttest.SwappedPages, fault.PayloadMismatch},
		{transporttest.StaleRounds, fault.PayloadMismatch},
		{transporttest.StrayWrites, fault.PayloadMismatch},
		{transporttest.Errors, fault.PeerVanished},
	} {
		for _, wrong := range []string{loopback.Name, tcp.Name} {
			t.Run(strings.ReplaceAll(string(k.mode), " ", "-")+"/"+wrong, func(t *testing.T) {
				drivers := []transports.Driver{loopback.New(), tcp.New()}
				for i, d := range drivers {
					if d.Name() == wrong {
						drivers[i] = transporttest.Faulty(d, k.mode)
					}
				}
				p := shortPlan(loopback.Name, tcp.Name)
				p.Metrics, p.Rounds, p.Iterations = []harness.Metric{harness.Bandwidth}, 6, 8 // counted loops: a busy machine cannot make one empty
				p.Sizes, p.Pieces, p.Depth = []uint64{4096, 65536}, 3, 2
				failed := 0
				for _, c := range run(t, p, drivers...) {
					name := c.Transport + " " + c.Operation
					if c.Transport != wrong {
						if c.Status != results.StatusOK || !c.HasFigure() {
							t.Errorf("%s, which is right: %s, %s", name, c.Status, c.Reason)
						}
						continue
					}
					if c.HasFigure() || c.Status == results.StatusOK {
						t.Errorf("%s of %d bytes shows a figure: %s", name, c.TotalBytes, c.Status)
					}
					if c.Status == results.StatusFailed && c.Code == string(k.code) {
						failed++
					} else {
						t.Errorf("%s of %d bytes: %s, code %q, %s; want failed with %s", name, c.TotalBytes, c.Status, c.Code, c.Reason, k.code)
					}
				}
				if failed == 0 {
					t.Errorf("no row failed with %s", k.code)
				}
			})
		}
	}
}
