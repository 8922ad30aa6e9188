package harness_test

import (
	"context"
	"encoding/json"
	"net/netip"
	"testing"

	"hopbench/harness"
	"hopbench/results"
	"hopbench/transports"
	"hopbench/transports/loopback"
	"hopbench/transports/tcp"
)

// session is two sides in this process, for all transports.
func session(drivers ...transports.Driver) *harness.Session {
	local := netip.MustParseAddr("127.0.0.1")
	return &harness.Session{
		Local: harness.NewSide(drivers, harness.Limits{}), InProcess: harness.NewSide(drivers, harness.Limits{}),
		Remote: harness.NewSide(drivers, harness.Limits{}), RemoteBind: local,
	}
}

func run(t *testing.T, p harness.Plan, drivers ...transports.Driver) []*results.Cell {
	t.Helper()
	var cells []*results.Cell
	err := harness.Run(context.Background(), p, session(drivers...), harness.Sink{Cell: func(c *results.Cell) error {
		cells = append(cells, c)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(cells) != p.Cells() {
		t.Errorf("%d rows for a plan of %d cells", len(cells), p.Cells())
	}
	return cells
}

func shortPlan(names ...string) harness.Plan {
	p := harness.DefaultPlan()
	p.Transports, p.Sizes, p.Duration, p.Round, p.Warmup = names, []uint64{1, 64, 100_000}, 0.1, 0.02, 0.002
	return p
}

func TestEveryCellHasAVerifiedFigure(t *testing.T) {
	p := shortPlan("loopback", "tcp")
	p.Directions = []harness.Direction{harness.Forward, harness.Reverse, harness.Both}
	for _, c := range run(t, p, loopback.New(), tcp.New()) {
		name := c.Transport + " " + c.Definition + " " + c.Operation + " " + c.Direction
		if c.Status != results.StatusOK || c.Verified == nil || !*c.Verified || !c.HasFigure() {
			b, _ := json.Marshal(c)
			t.Errorf("%s of %d bytes: %s", name, c.TotalBytes, b)
			continue
		}
		if (c.Bandwidth != nil) == (c.Latency != nil) {
			t.Errorf("%s: a cell holds one definition", name)
		}
		if c.Transport == "tcp" && (c.Counters == nil || c.Counters.Agree == nil || !*c.Counters.Agree) {
			t.Errorf("%s: the kernel's count does not stand beside ours: %+v", name, c.Counters)
		}
		if c.CPU == nil || c.CPU.TargetSecondsPerGigabyte != nil {
			t.Errorf("%s: two sides of one process are one CPU figure: %+v", name, c.CPU)
		}
		if c.Direction == "both" && c.Bandwidth.ForwardBytesPerSecond == nil {
			t.Errorf("%s: each direction's figure is missing", name)
		}
	}
}

func TestShapesOfKVTransfers(t *testing.T) {
	p := shortPlan("loopback", "tcp")
	p.Metrics = []harness.Metric{harness.Bandwidth}
	p.Requests = []harness.Request{{Name: "a model", Groups: []harness.Group{{Bytes: 4096, Count: 300}, {Bytes: 100, Count: 7}}, Bulk: true}}
	p.Concurrency = []int{1, 4}
	p.Rounds = 6
	for _, c := range run(t, p, loopback.New(), tcp.New()) {
		operations := int64(0)
		if c.Bandwidth != nil {
			for _, n := range c.Bandwidth.RoundsOperations {
				operations += n
			}
		}
		if c.Status != results.StatusOK || operations < 6*c.Concurrency || int64(len(c.RequestSeconds)) != min(operations, 10_000) {
			t.Errorf("%s %s, %d at once: %s %s, %d request times of %d operations", c.Transport, c.Operation, c.Concurrency, c.Status, c.Reason, len(c.RequestSeconds), operations)
		}
	}
}

func TestShapeListsAreInRangeAndApart(t *testing.T) {
	for _, s := range []harness.Shape{
		{Groups: []harness.Group{{Bytes: 1, Count: 1}}, Streams: 1, Slots: 1},
		{Groups: []harness.Group{{Bytes: 63, Count: 10}, {Bytes: 4096, Count: 3}}, Streams: 3, Slots: 5, Scattered: true, Seed: 9, Base: 4096},
		{Groups: []harness.Group{{Bytes: 16384, Count: 1000}}, Streams: 2, Slots: 1, Scattered: true},
	} {
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		local, remote := map[uint64]bool{}, map[uint64]bool{}
		for _, l := range s.Lists() {
			if err := l.Check(s.Base+s.Footprint(), s.Base+s.Footprint()); err != nil {
				t.Error(err)
			}
			if l.Ops() != s.Slots || l.Bytes(0) != s.Bytes() {
				t.Errorf("%d operations of %d bytes", l.Ops(), l.Bytes(0))
			}
			for _, p := range l.Pieces {
				if p.Local < s.Base || local[p.Local] || remote[p.Remote] {
					t.Fatalf("piece %+v lies before the base or on another", p)
				}
				local[p.Local], remote[p.Remote] = true, true
			}
		}
	}
	for _, bad := range []harness.Shape{
		{}, {Groups: []harness.Group{{Bytes: 0, Count: 1}}, Streams: 1, Slots: 1}, {Groups: []harness.Group{{Bytes: 1 << 63, Count: 2}}, Streams: 1, Slots: 1},
		{Groups: []harness.Group{{Bytes: 1 << 40, Count: 1 << 23}}, Streams: 1, Slots: 1}, {Groups: []harness.Group{{Bytes: 1, Count: 1}}, Streams: 1 << 20, Slots: 1 << 20},
	} {
		if bad.Check() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func TestASizeWithoutRoomFailsAloneAndTheSweepGoesOn(t *testing.T) {
	p := shortPlan("tcp")
	p.Sizes, p.Rounds, p.Operations = []uint64{64, 1 << 20, 1 << 44}, 2, []transports.Op{transports.Write}
	p.Metrics = []harness.Metric{harness.Bandwidth}
	for _, c := range run(t, p, tcp.New()) {
		if large := c.TotalBytes == 1<<44; (c.Status == results.StatusOK) == large || (large && (c.Status != results.StatusFailed || c.Code == "")) {
			t.Errorf("%d bytes: %s %s %s", c.TotalBytes, c.Status, c.Reason, c.Code)
		}
	}
}
