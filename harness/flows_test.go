package harness_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hopbench/harness"
	"hopbench/results"
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/tcp"
)

// spy is a peer whose lanes tell what they do, and may be late or fail.
type spy struct {
	harness.Peer
	name string
	warm time.Duration // that warming up takes longer
	fail string        // the call that fails
	log  *eventLog
}

type eventLog struct {
	mu     sync.Mutex
	events []string
}

func (l *eventLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, fmt.Sprintf(format, args...))
}

func (l *eventLog) count(event string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.events {
		if e == event {
			n++
		}
	}
	return n
}

func (s *spy) Open(ctx context.Context, r harness.OpenRequest) (harness.Lane, error) {
	if s.fail == "open" {
		return nil, fault.New(fault.PeerUnreachable, "open "+r.Driver, "", "the test wants it so")
	}
	l, err := s.Peer.Open(ctx, r)
	if err != nil {
		return nil, err
	}
	s.log.add("%s open", s.name)
	return &spyLane{l, s}, nil
}

type spyLane struct {
	harness.Lane
	spy *spy
}

func (l *spyLane) Warm(ctx context.Context, e int, s harness.Span) error {
	time.Sleep(l.spy.warm)
	err := l.Lane.Warm(ctx, e, s)
	l.spy.log.add("%s warm", l.spy.name)
	return err
}

func (l *spyLane) Run(ctx context.Context, e int, s harness.Span) (harness.Outcome, error) {
	if s.Stamps > 1 { // not the trial's single operation
		l.spy.log.add("%s run", l.spy.name)
	}
	if l.spy.fail == "run" {
		return harness.Outcome{}, fault.New(fault.LoopStalled, "run a loop", "", "the test wants it so")
	}
	return l.Lane.Run(ctx, e, s)
}

func (l *spyLane) Close(ctx context.Context) error {
	l.spy.log.add("%s close", l.spy.name)
	return l.Lane.Close(ctx)
}

// pairs are flows of TCP between sides of their own, each pair's initiator with a spy.
func pairs(log *eventLog, n int) ([]harness.Flow, []*spy) {
	drivers := []transports.Driver{tcp.New()}
	local := session().RemoteBind
	var flows []harness.Flow
	var spies []*spy
	for i := range n {
		s := &spy{Peer: harness.NewSide(drivers, harness.Limits{}), name: fmt.Sprint(i), log: log}
		spies = append(spies, s)
		flows = append(flows, harness.Flow{
			Rail: fmt.Sprintf("rail%d", i), InitiatorHost: fmt.Sprintf("a%d", i), TargetHost: fmt.Sprintf("b%d", i),
			Initiator: s, Target: harness.NewSide(drivers, harness.Limits{}), TargetBind: local,
		})
	}
	return flows, spies
}

func flowPlan() harness.Plan {
	p := shortPlan("tcp")
	p.Operations, p.Metrics = []transports.Op{transports.Write}, []harness.Metric{harness.Bandwidth}
	p.Sizes, p.Rounds = []uint64{65536}, 4
	return p
}

func runFlows(t *testing.T, p harness.Plan, flows []harness.Flow, steps []harness.Step) []*results.Cell {
	t.Helper()
	var cells []*results.Cell
	if err := harness.RunFlows(context.Background(), p, flows, steps, harness.Sink{Cell: func(c *results.Cell) error {
		cells = append(cells, c)
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	return cells
}

func TestFlowsAloneAndTogether(t *testing.T) {
	log := &eventLog{}
	flows, _ := pairs(log, 2)
	for _, direction := range []harness.Direction{harness.Forward, harness.Reverse, harness.Both} {
		p := flowPlan()
		p.Directions = []harness.Direction{direction}
		cells := runFlows(t, p, flows, []harness.Step{
			{Schedule: "isolated", Flows: []int{0}}, {Schedule: "isolated", Flows: []int{1}}, {Schedule: "together", Flows: []int{0, 1}, Aggregate: "all"},
		})
		var seen []string
		for _, c := range cells {
			seen = append(seen, fmt.Sprintf("%s %s %s>%s", c.Schedule, c.Rail, c.InitiatorHost, c.TargetHost))
			if c.Status != results.StatusOK || c.Verified == nil || !*c.Verified || len(c.Bandwidth.Rounds) != 4 {
				t.Errorf("%s: %s %s", seen[len(seen)-1], c.Status, c.Reason)
			}
		}
		want := []string{"isolated rail0 a0>b0", "isolated rail1 a1>b1", "together rail0 a0>b0", "together rail1 a1>b1", "together all >"}
		if direction == harness.Reverse {
			want = []string{"isolated rail0 b0>a0", "isolated rail1 b1>a1", "together rail0 b0>a0", "together rail1 b1>a1", "together all >"}
		}
		if !slices.Equal(seen, want) {
			t.Fatalf("rows %q, want %q", seen, want)
		}
		for i, sum := range cells[4].Bandwidth.Rounds {
			if parts := cells[2].Bandwidth.Rounds[i] + cells[3].Bandwidth.Rounds[i]; math.Abs(parts/sum-1) > 1e-9 {
				t.Errorf("round %d: the sum is %g, its parts %g", i, sum, parts)
			}
		}
		if (cells[4].Bandwidth.ReverseBytesPerSecond != nil) != (direction == harness.Both) {
			t.Errorf("%s: the sum's other way is %v", direction, cells[4].Bandwidth.ReverseBytesPerSecond)
		}
		if cells[0].Settings["start_spread_seconds"] != "" || cells[2].Settings["start_spread_seconds"] == "" {
			t.Errorf("the spread of the starts stands in %q of a flow alone and %q of two", cells[0].Settings["start_spread_seconds"], cells[2].Settings["start_spread_seconds"])
		}
	}
	if n, closed := log.count("0 open"), log.count("0 close"); n != 3 || closed != 3 {
		t.Errorf("a link that later steps need was opened %d times in 3 runs and closed %d times", n, closed)
	}
}

// No loop of a round begins before all flows of the step have warmed up.
func TestFlowsBeginTogether(t *testing.T) {
	log := &eventLog{}
	flows, spies := pairs(log, 3)
	spies[1].warm = 30 * time.Millisecond
	p := flowPlan()
	runFlows(t, p, flows, []harness.Step{{Schedule: "together", Flows: []int{0, 1, 2}}})
	started := false
	warm := map[string]bool{}
	for _, e := range log.events {
		name, what, _ := strings.Cut(e, " ")
		switch what {
		case "warm":
			started = true
			if len(warm) == 3 {
				clear(warm)
			}
			warm[name] = true
		case "run":
			if started && len(warm) != 3 {
				t.Fatalf("flow %s ran when only %v had warmed up: %v", name, warm, log.events)
			}
		}
	}
	if !started {
		t.Fatal("no round was warmed up")
	}
}

func TestAFlowThatFailsFailsAlone(t *testing.T) {
	for _, call := range []string{"open", "run"} {
		flows, spies := pairs(&eventLog{}, 3)
		spies[1].fail = call
		cells := runFlows(t, flowPlan(), flows, []harness.Step{{Schedule: "together", Flows: []int{0, 1, 2}, Aggregate: "all"}})
		for i, want := range []string{results.StatusOK, results.StatusFailed, results.StatusOK, results.StatusFailed} {
			if cells[i].Status != want {
				t.Errorf("%s fails: row %d is %s (%s), want %s", call, i, cells[i].Status, cells[i].Reason, want)
			}
		}
		if cells[3].Bandwidth != nil || cells[3].Code == "" {
			t.Errorf("%s fails: the sum has a figure or no code: %+v", call, cells[3])
		}
	}
}

func TestBackgroundLoadRunsBesideTheFlows(t *testing.T) {
	log := &eventLog{}
	flows, spies := pairs(log, 2)
	background := flowPlan()
	steps := []harness.Step{{Schedule: "loaded", Flows: []int{0}, Background: []int{1}, BackgroundPlan: &background}}
	cells := runFlows(t, flowPlan(), flows, steps)
	if len(cells) != 1 || cells[0].Status != results.StatusOK || cells[0].Rail != "rail0" {
		t.Fatalf("rows: %+v", cells)
	}
	first, last := slices.Index(log.events, "1 run"), 0
	for i, e := range log.events {
		if e == "0 run" {
			last = i
		}
	}
	if first < 0 || first > last {
		t.Errorf("the load did not run beside the flow: %v", log.events)
	}
	spies[1].fail = "run"
	if c := runFlows(t, flowPlan(), flows, steps)[0]; c.Status != results.StatusFailed || !strings.Contains(c.Reason, "background") {
		t.Errorf("without its load the row is %s: %s", c.Status, c.Reason)
	}
}

// Flows that move amounts of their own, once a round each.
func TestFlowsOfUnlikeBytes(t *testing.T) {
	flows, _ := pairs(&eventLog{}, 2)
	flows[0].Bytes, flows[1].Bytes = 1000, 300_000
	p := flowPlan()
	p.Iterations = 1
	for i, c := range runFlows(t, p, flows, []harness.Step{{Schedule: "moved", Flows: []int{0, 1}}}) {
		if c.Status != results.StatusOK || c.TotalBytes != int64(flows[i].Bytes) || c.Settings["own_bytes"] == "" || !slices.Equal(c.Bandwidth.RoundsOperations, []int64{1, 1, 1, 1}) {
			t.Errorf("flow %d of %d bytes: %s, %d bytes, rounds of %v operations", i, flows[i].Bytes, c.Status, c.TotalBytes, c.Bandwidth.RoundsOperations)
		}
	}
	for name, s := range map[string]harness.Step{"no sum": {Flows: []int{0}, Aggregate: "all"}} {
		if err := harness.RunFlows(context.Background(), p, flows, []harness.Step{s}, harness.Sink{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStepsAreChecked(t *testing.T) {
	flows, _ := pairs(&eventLog{}, 1)
	two := flowPlan()
	two.Sizes = []uint64{1, 2}
	for name, s := range map[string]harness.Step{
		"flow 3 of 1":           {Flows: []int{3}},
		"one cell of bandwidth": {Flows: []int{0}, Background: []int{0}, BackgroundPlan: &two},
		"flows and a plan":      {Flows: []int{0}, Background: []int{0}},
	} {
		err := harness.RunFlows(context.Background(), flowPlan(), flows, []harness.Step{s}, harness.Sink{})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
