package doctor

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"hopbench/harness"
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/loopback"
	"hopbench/transports/tcp"
)

// bent is a side whose lanes can be made to fail.
type bent struct {
	harness.Peer
	open, connect error
	run           func(bytes uint64) error // of a loop that this side initiates
	verify        error
}

func (b bent) Open(ctx context.Context, r harness.OpenRequest) (harness.Lane, error) {
	if b.open != nil {
		return nil, b.open
	}
	l, err := b.Peer.Open(ctx, r)
	if err != nil {
		return nil, err
	}
	return &bentLane{Lane: l, side: b}, nil
}

type bentLane struct {
	harness.Lane
	side  bent
	bytes uint64
}

func (l *bentLane) Connect(ctx context.Context, r harness.ConnectRequest) (harness.Connected, error) {
	if l.side.connect != nil {
		return harness.Connected{}, l.side.connect
	}
	return l.Lane.Connect(ctx, r)
}

func (l *bentLane) Prepare(ctx context.Context, w harness.Work) (harness.Prepared, error) {
	l.bytes = w.Shape.Bytes()
	return l.Lane.Prepare(ctx, w)
}

func (l *bentLane) Run(ctx context.Context, endpoint int, s harness.Span) (harness.Outcome, error) {
	if l.side.run != nil {
		if err := l.side.run(l.bytes); err != nil {
			return harness.Outcome{}, err
		}
	}
	return l.Lane.Run(ctx, endpoint, s)
}

func (l *bentLane) Verify(ctx context.Context, endpoint int) error {
	return errors.Join(l.side.verify, l.Lane.Verify(ctx, endpoint))
}

func side() harness.Peer {
	return harness.NewSide([]transports.Driver{loopback.New(), tcp.New()}, harness.Limits{})
}

func TestProve(t *testing.T) {
	stalled := func(least uint64) func(uint64) error {
		return func(n uint64) error {
			if n >= least {
				return fault.New(fault.LoopStalled, "run", "192.0.2.1:7", "no byte moved for 2 s")
			}
			return nil
		}
	}
	refused := fault.New(fault.TCPDataRefused, "connect the data socket", "192.0.2.1:7777", "connection refused")
	for _, c := range []struct {
		name        string
		transport   string
		here, there bent
		step        string
		code        fault.Code
	}{
		{"well", "tcp", bent{}, bent{}, "", fault.PairData},
		{"not another host's", "memcpy", bent{}, bent{}, "open here", fault.NoDriver},
		{"a transport of one process", "loopback", bent{}, bent{}, "open here", fault.OneProcess},
		{"the peer has none", "tcp", bent{}, bent{open: fault.New(fault.RDMANoDevice, "open", "", "none")}, "open on the peer", fault.RDMANoDevice},
		{"the data port is refused", "tcp", bent{connect: refused}, bent{}, "connect", fault.PairData},
		{"nothing arrives", "tcp", bent{run: stalled(1)}, bent{}, "send 64 bytes there", fault.PairData},
		{"nothing comes back", "tcp", bent{}, bent{run: stalled(1)}, "send 64 bytes back", fault.PairData},
		{"large packets are lost there", "tcp", bent{run: stalled(1000)}, bent{}, "send 262144 bytes there", fault.PairBlackHole},
		{"large packets are lost back", "tcp", bent{}, bent{run: stalled(1000)}, "send 262144 bytes back", fault.PairBlackHole},
		{"another payload", "tcp", bent{}, bent{verify: fault.New(fault.PayloadMismatch, "verify", "", "byte 7")}, "send 64 bytes there", fault.PayloadMismatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.here.Peer, c.there.Peer = side(), side()
			p := Prove(t.Context(), c.here, c.there, Trial{Transport: c.transport, Limit: 60 * time.Second})
			f := p.Finding()
			if p.Step != c.step || f.Code != c.code || p.Passed != (c.step == "") {
				t.Errorf("step %q, finding %s; want %q and %s: %s", p.Step, f.Code, c.step, c.code, p.Error)
			}
			if p.Passed {
				here, there := p.Ends()
				if f.Severity != fault.OK || len(p.Paths) != 2 || !here.Addr.IsLoopback() && !here.Addr.IsPrivate() && here.Addr == (netip.Addr{}) || here.Addr != there.Addr {
					t.Errorf("%+v: %+v %+v", f, here, there)
				}
				return
			}
			if f.Severity != fault.Fail || len(f.Evidence) == 0 || len(f.Fix) == 0 || !strings.Contains(f.Evidence[0].Source, c.step) {
				t.Errorf("%+v", f)
			}
			if c.step == "connect" && !strings.Contains(f.Evidence[0].Got, "192.0.2.1:7777") {
				t.Errorf("the data address is not named: %+v", f.Evidence)
			}
			// Nothing stays open: a side that is closed has nothing to refuse.
			if err := errors.Join(c.here.Peer.Close(), c.there.Peer.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
