package schedule_test

import (
	"context"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"hopbench/harness"
	"hopbench/harness/control"
	"hopbench/harness/mesh/schedule"
	"hopbench/results"
	"hopbench/transports"
	"hopbench/transports/tcp"
)

// counted is a peer whose lanes' calls are counted: each is one call of the control channel where the peer is on another host.
type counted struct {
	harness.Peer
	calls *atomic.Int64
}

func (c counted) Open(ctx context.Context, r harness.OpenRequest) (harness.Lane, error) {
	c.calls.Add(1)
	l, err := c.Peer.Open(ctx, r)
	return countedLane{l, c.calls}, err
}

type countedLane struct {
	harness.Lane
	calls *atomic.Int64
}

func (l countedLane) Connect(ctx context.Context, r harness.ConnectRequest) (harness.Connected, error) {
	l.calls.Add(1)
	return l.Lane.Connect(ctx, r)
}

func (l countedLane) Prepare(ctx context.Context, w harness.Work) (harness.Prepared, error) {
	l.calls.Add(1)
	return l.Lane.Prepare(ctx, w)
}

func (l countedLane) Arm(ctx context.Context, endpoint, loops int) error {
	l.calls.Add(1)
	return l.Lane.Arm(ctx, endpoint, loops)
}

func (l countedLane) Warm(ctx context.Context, endpoint int, s harness.Span) error {
	l.calls.Add(1)
	return l.Lane.Warm(ctx, endpoint, s)
}

func (l countedLane) Barrier(ctx context.Context, endpoint int) error {
	l.calls.Add(1)
	return l.Lane.Barrier(ctx, endpoint)
}

func (l countedLane) Run(ctx context.Context, endpoint int, s harness.Span) (harness.Outcome, error) {
	l.calls.Add(1)
	return l.Lane.Run(ctx, endpoint, s)
}

func (l countedLane) Disarm(ctx context.Context, endpoint int) (harness.Outcome, error) {
	l.calls.Add(1)
	return l.Lane.Disarm(ctx, endpoint)
}

func (l countedLane) Verify(ctx context.Context, endpoint int) error {
	l.calls.Add(1)
	return l.Lane.Verify(ctx, endpoint)
}

func (l countedLane) Close(ctx context.Context) error {
	l.calls.Add(1)
	return l.Lane.Close(ctx)
}

// TestCalls counts the calls of meshes that differ in cells and in rounds, and finds what each takes.
func TestCalls(t *testing.T) {
	drivers := []transports.Driver{tcp.New()}
	count := func(sizes []uint64, rounds int) int64 {
		var calls atomic.Int64
		side := func() harness.Peer { return counted{harness.NewSide(drivers, harness.Limits{}), &calls} }
		a, b := side(), side()
		defer a.Close()
		defer b.Close()
		p := harness.DefaultPlan()
		p.Transports, p.Sizes, p.Round, p.Warmup, p.Rounds = []string{"tcp"}, sizes, 0.02, 0.002, rounds
		p.Metrics, p.Directions = []harness.Metric{harness.Bandwidth}, []harness.Direction{harness.Forward}
		p.Operations = p.Operations[:1]
		local := netip.MustParseAddr("127.0.0.1")
		err := harness.RunFlows(t.Context(), p, []harness.Flow{{InitiatorHost: "a", TargetHost: "b", Initiator: a, Target: b, InitiatorBind: local, TargetBind: local}},
			[]harness.Step{{Schedule: "isolated", Flows: []int{0}}}, harness.Sink{Cell: func(c *results.Cell) error {
				if c.Status != results.StatusOK {
					t.Errorf("%s: %s", c.Status, c.Reason)
				}
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		return calls.Load()
	}
	var link, cell, round int64
	for range 3 { // on a busy machine a round may bring nothing and be run again
		six, eight := count([]uint64{65536}, 6), count([]uint64{65536}, 8)
		twoCells := count([]uint64{65536, 131072}, 6)
		round = (eight - six) / 2
		cell = twoCells - six - 6*round
		link = six - cell - 6*round
		t.Logf("a link takes %d calls, a cell %d and a round %d", link, cell, round)
		if round == schedule.RoundCalls && cell == schedule.CellCalls && link == schedule.LinkCalls {
			break
		}
	}
	if round != schedule.RoundCalls || cell != schedule.CellCalls || link != schedule.LinkCalls {
		t.Errorf("a link takes %d calls, a cell %d and a round %d; the estimate says %d, %d and %d", link, cell, round, schedule.LinkCalls, schedule.CellCalls, schedule.RoundCalls)
	}
}

// TestConnectionBytes measures what open control connections take of the heap and the stacks: both ends, which are in this process, and so no less than the
// coordinator's.
func TestConnectionBytes(t *testing.T) {
	const n = 64
	used := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, n+1)
	connect := func() harness.Peer {
		token := control.NewToken()
		s, err := control.NewServer(func() harness.Peer { return harness.NewSide([]transports.Driver{tcp.New()}, harness.Limits{}) }, token, control.Options{ToolVersion: "v1"})
		if err != nil {
			t.Fatal(err)
		}
		l, err := control.Listen(ctx, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- s.Serve(ctx, l) }()
		c, err := control.Dial(ctx, l.Addr().String(), token, control.DialOptions{ToolVersion: "v1"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Host(ctx); err != nil {
			t.Fatal(err)
		}
		return c
	}
	peers := []harness.Peer{connect()} // what the first one sets up is not of each
	before := used()
	for range n {
		peers = append(peers, connect())
	}
	time.Sleep(50 * time.Millisecond)
	each := (used() - before) / n
	t.Logf("%d bytes a connection, both ends together", each)
	if each > schedule.ConnectionBytes*5/4 || each < schedule.ConnectionBytes/4 {
		t.Errorf("%d bytes a connection; the estimate says %d", each, schedule.ConnectionBytes)
	}
	for _, p := range peers {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	cancel()
	for range peers {
		<-ended
	}
}
