package control

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc"

	"hopbench/harness"
	"hopbench/harness/control/controlpb"
	"hopbench/transports/fault"
)

// lane is a lane of the peer.
type lane struct {
	c       *client
	id      uint64
	request harness.OpenRequest
	opened  harness.Opened
}

// Opened implements harness.Lane.
func (l *lane) Opened() harness.Opened { return l.opened }

func (l *lane) call(ctx context.Context, op string, limit time.Duration, do func(context.Context) error) error {
	return l.c.call(ctx, op+" "+l.request.Driver, limit, do)
}

func (l *lane) endpoint(n int) *controlpb.EndpointRequest {
	return &controlpb.EndpointRequest{Lane: l.id, Endpoint: int64(n)}
}

// stall is how long the peer's loops may wait for bytes before they give up.
func (l *lane) stall() float64 {
	if l.request.StallSeconds > 0 {
		return l.request.StallSeconds
	}
	return 5
}

// patience is the limit of a call that may have to wait for a loop that stalls.
func (l *lane) patience() time.Duration {
	return l.c.o.Phase + seconds(l.stall())
}

// Connect implements harness.Lane.
func (l *lane) Connect(ctx context.Context, r harness.ConnectRequest) (out harness.Connected, err error) {
	err = l.call(ctx, "connect", l.c.o.Phase, func(ctx context.Context) error {
		m, err := l.c.rpc.Connect(ctx, encodeConnect(l.id, r))
		if err != nil {
			return err
		}
		var d decoder
		for _, p := range m.GetPaths() {
			out.Paths = append(out.Paths, d.path(p))
		}
		if len(out.Paths) != len(r.Addresses) {
			d.failf("%d paths for %d endpoints", len(out.Paths), len(r.Addresses))
		}
		out.ConnectSeconds = d.number("seconds", m.GetConnectSeconds(), maxSpan)
		return l.c.sense("connect", d.err)
	})
	return out, err
}

// Prepare implements harness.Lane.
func (l *lane) Prepare(ctx context.Context, w harness.Work) (out harness.Prepared, err error) {
	if err := w.Shape.Check(); err != nil {
		return out, &fault.Error{Code: fault.PeerRefused, Op: "prepare " + l.request.Driver, Err: err}
	}
	pieces := w.Shape.Pieces() * w.Shape.Slots * w.Shape.Streams
	err = l.call(ctx, "prepare", l.c.filling(l.opened.RegionBytes, pieces), func(ctx context.Context) error {
		m, err := l.c.rpc.Prepare(ctx, &controlpb.PrepareRequest{Lane: l.id, Work: encodeWork(w)})
		if err != nil {
			return err
		}
		var d decoder
		out = harness.Prepared{
			DescriptorSeconds: d.number("seconds", m.GetDescriptorSeconds(), maxSpan), Footprint: m.GetFootprint(), CPUs: each(m.GetCpus(), toInt),
		}
		return l.c.sense("prepare", d.err)
	})
	return out, err
}

// Arm implements harness.Lane.
func (l *lane) Arm(ctx context.Context, endpoint, loops int) error {
	return l.call(ctx, "arm", l.c.o.Phase, func(ctx context.Context) error {
		_, err := l.c.rpc.Arm(ctx, &controlpb.ArmRequest{Lane: l.id, Endpoint: int64(endpoint), Loops: int64(loops)})
		return err
	})
}

// Warm implements harness.Lane.
func (l *lane) Warm(ctx context.Context, endpoint int, s harness.Span) error {
	return l.call(ctx, "warm", l.c.looping(s, l.stall()), func(ctx context.Context) error {
		_, err := l.c.rpc.Warm(ctx, &controlpb.LoopRequest{Lane: l.id, Endpoint: int64(endpoint), Span: encodeSpan(s)})
		return err
	})
}

// Barrier implements harness.Lane.
func (l *lane) Barrier(ctx context.Context, endpoint int) error {
	return l.call(ctx, "barrier", l.patience(), func(ctx context.Context) error {
		_, err := l.c.rpc.Barrier(ctx, l.endpoint(endpoint))
		return err
	})
}

// Run implements harness.Lane.
func (l *lane) Run(ctx context.Context, endpoint int, s harness.Span) (out harness.Outcome, err error) {
	// A stamp comes as a stamp and perhaps as a latency, eight bytes each.
	room := min(uint64(maxReply)+16*uint64(max(s.Stamps, 0))*uint64(l.request.Streams), math.MaxInt32)
	err = l.call(ctx, "run", l.c.looping(s, l.stall()), func(ctx context.Context) error {
		m, err := l.c.rpc.Run(ctx, &controlpb.LoopRequest{Lane: l.id, Endpoint: int64(endpoint), Span: encodeSpan(s)}, grpc.MaxCallRecvMsgSize(int(room)))
		if err != nil {
			return err
		}
		out, err = decodeOutcome(m)
		return l.c.sense("run", err)
	})
	return out, err
}

// Disarm implements harness.Lane.
func (l *lane) Disarm(ctx context.Context, endpoint int) (out harness.Outcome, err error) {
	err = l.call(ctx, "disarm", l.patience(), func(ctx context.Context) error {
		m, err := l.c.rpc.Disarm(ctx, l.endpoint(endpoint))
		if err != nil {
			return err
		}
		out, err = decodeOutcome(m)
		return l.c.sense("disarm", err)
	})
	return out, err
}

// Verify implements harness.Lane.
func (l *lane) Verify(ctx context.Context, endpoint int) error {
	return l.call(ctx, "verify", l.c.filling(l.opened.RegionBytes, 0), func(ctx context.Context) error {
		_, err := l.c.rpc.Verify(ctx, l.endpoint(endpoint))
		return err
	})
}

// Close implements harness.Lane.
func (l *lane) Close(ctx context.Context) error {
	return l.call(ctx, "close", l.patience(), func(ctx context.Context) error {
		_, err := l.c.rpc.CloseLane(ctx, &controlpb.LaneRequest{Lane: l.id})
		return err
	})
}
