package control

import (
	"context"
	"maps"
	"strings"
	"time"

	"hopbench/harness"
	"hopbench/harness/control/controlpb"
	"hopbench/transports"
	"hopbench/transports/fault"
)

// longestCall is the limit of a call whose client names none.
const longestCall = 24 * time.Hour

// maxLanes is how many lanes a session may have open: more than there are transports and devices to compare.
const maxLanes = 64

// phaseOf is a call's name in messages: "/hopbench.control.Peer/CloseLane" is "close lane".
func phaseOf(method string) string {
	name := method[strings.LastIndexByte(method, '/')+1:]
	if name == "CloseLane" {
		return "close lane"
	}
	return strings.ToLower(name)
}

// refuse is the answer to a malformed request.
func refuse(op string, err error) error {
	return &fault.Error{Code: fault.PeerRefused, Op: op, Err: err}
}

// Host implements the call of the protocol.
func (s *Server) Host(ctx context.Context, _ *controlpb.HostRequest) (*controlpb.HostReply, error) {
	h, err := sessionOf(ctx).side.Host(ctx)
	if err != nil {
		return nil, err
	}
	return &controlpb.HostReply{Host: encodeHost(h)}, nil
}

// Alive implements the call of the protocol.
func (s *Server) Alive(context.Context, *controlpb.AliveRequest) (*controlpb.AliveReply, error) {
	return &controlpb.AliveReply{}, nil
}

// Open implements the call of the protocol.
func (s *Server) Open(ctx context.Context, m *controlpb.OpenRequest) (*controlpb.OpenReply, error) {
	n := sessionOf(ctx)
	r, err := decodeOpen(m)
	if err != nil {
		return nil, refuse("open", err)
	}
	if err := n.budget.size("open "+r.Driver, r.Largest); err != nil {
		return nil, err
	}
	if s.options.Bind.IsValid() {
		r.Bind = s.options.Bind
	}
	if mine := s.options.Settings[r.Driver]; len(mine) > 0 {
		merged := maps.Clone(mine)
		for name, value := range r.Settings {
			if _, ok := merged[name]; !ok {
				merged[name] = value
			}
		}
		r.Settings = merged
	}
	switch {
	case s.options.Announce != "":
		r.Announce = s.options.Announce
	case r.Announce == "" && !r.Bind.IsValid() && r.Device == "" && n.local.IsValid() && !n.local.IsLinkLocalUnicast():
		r.Announce = n.local.String()
	}
	room := room(r)
	if err := n.budget.take("open "+r.Driver, room); err != nil {
		return nil, err
	}
	id, err := n.open(ctx, r, room)
	if err != nil {
		n.budget.give(room)
		return nil, err
	}
	l, err := n.lane(id)
	if err != nil {
		return nil, err
	}
	return &controlpb.OpenReply{Lane: id, Opened: encodeOpened(l.lane.Opened())}, nil
}

func (n *session) open(ctx context.Context, r harness.OpenRequest, room uint64) (uint64, error) {
	n.mu.Lock()
	full := len(n.lanes) >= n.server.options.lanes
	n.mu.Unlock()
	if full {
		return 0, fault.New(fault.PeerCap, "open "+r.Driver, "", "%d lanes are open already", n.server.options.lanes)
	}
	lane, err := n.side.Open(ctx, r)
	if err != nil {
		return 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.over { // the session ended meanwhile: nobody else closes this lane
		return 0, fault.New(fault.PeerRefused, "open "+r.Driver, "", "the session has ended (%v)", lane.Close(context.Background()))
	}
	n.next++
	n.lanes[n.next] = &remoteLane{lane: lane, request: r, room: room}
	return n.next, nil
}

// Connect implements the call of the protocol.
func (s *Server) Connect(ctx context.Context, m *controlpb.ConnectRequest) (*controlpb.ConnectReply, error) {
	l, err := sessionOf(ctx).lane(m.GetLane())
	if err != nil {
		return nil, err
	}
	r, err := decodeConnect(m)
	if err != nil {
		return nil, refuse("connect", err)
	}
	c, err := l.lane.Connect(ctx, r)
	if err != nil {
		return nil, err
	}
	return &controlpb.ConnectReply{Paths: each(c.Paths, func(p transports.Path) *controlpb.Path { return encodePath(p) }), ConnectSeconds: c.ConnectSeconds}, nil
}

// Prepare implements the call of the protocol.
func (s *Server) Prepare(ctx context.Context, m *controlpb.PrepareRequest) (*controlpb.PrepareReply, error) {
	n := sessionOf(ctx)
	l, err := n.lane(m.GetLane())
	if err != nil {
		return nil, err
	}
	w, err := decodeWork(m.GetWork())
	if err != nil {
		return nil, refuse("prepare", err)
	}
	if err := n.budget.size("prepare", w.Shape.Bytes()); err != nil {
		return nil, err
	}
	switch {
	case w.Endpoint >= l.request.Endpoints:
		return nil, fault.New(fault.PeerRefused, "prepare", l.request.Driver, "there is no endpoint %d", w.Endpoint)
	case w.Shape.Streams > l.request.Streams || w.Depth > l.request.Depth || w.Shape.Pieces() > l.request.Pieces || w.Shape.Bytes() > l.request.Largest:
		return nil, fault.New(fault.PeerRefused, "prepare", l.request.Driver, "%d streams, depth %d, %d pieces, %d bytes on a lane opened for %d, %d, %d and %d",
			w.Shape.Streams, w.Depth, w.Shape.Pieces(), w.Shape.Bytes(), l.request.Streams, l.request.Depth, l.request.Pieces, l.request.Largest)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lists := listRoom(w.Shape) // beside the old ones, which go when these are there
	if err := n.budget.take("prepare", lists); err != nil {
		return nil, err
	}
	p, err := l.lane.Prepare(ctx, w)
	if err != nil {
		n.budget.give(lists)
		return nil, err
	}
	n.budget.give(l.works[w.Endpoint].lists)
	l.works[w.Endpoint].work, l.works[w.Endpoint].lists = w, lists
	return &controlpb.PrepareReply{DescriptorSeconds: p.DescriptorSeconds, Footprint: p.Footprint, Cpus: each(p.CPUs, toInt64)}, nil
}

// Arm implements the call of the protocol.
func (s *Server) Arm(ctx context.Context, m *controlpb.ArmRequest) (*controlpb.ArmReply, error) {
	l, endpoint, err := s.endpoint(ctx, "arm", m.GetLane(), m.GetEndpoint())
	if err != nil {
		return nil, err
	}
	var d decoder
	loops := d.count("loops", m.GetLoops(), 1, maxLoops)
	if d.err != nil {
		return nil, refuse("arm", d.err)
	}
	if err := l.lane.Arm(ctx, endpoint, loops); err != nil {
		return nil, err
	}
	return &controlpb.ArmReply{}, nil
}

func (s *Server) endpoint(ctx context.Context, op string, id uint64, endpoint int64) (*remoteLane, int, error) {
	l, err := sessionOf(ctx).lane(id)
	if err != nil {
		return nil, 0, err
	}
	var d decoder
	n := d.count("endpoint", endpoint, 0, int64(l.request.Endpoints-1))
	if d.err != nil {
		return nil, 0, refuse(op, d.err)
	}
	return l, n, nil
}

// span checks a loop of this side against the caps, and counts its stamps.
func (s *Server) span(ctx context.Context, op string, m *controlpb.LoopRequest) (*remoteLane, int, harness.Span, error) {
	fail := func(err error) (*remoteLane, int, harness.Span, error) { return nil, 0, harness.Span{}, err }
	n := sessionOf(ctx)
	l, endpoint, err := s.endpoint(ctx, op, m.GetLane(), m.GetEndpoint())
	if err != nil {
		return fail(err)
	}
	span, err := decodeSpan(m.GetSpan())
	if err != nil {
		return fail(refuse(op, err))
	}
	if err := n.budget.duration(op, span.Seconds); err != nil {
		return fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.works[endpoint]
	if need := stampRoom(span, l.request.Streams); need > w.stamps {
		if err := n.budget.take(op, need-w.stamps); err != nil {
			return fail(err)
		}
		w.stamps = need
	}
	return l, endpoint, span, nil
}

// bounded ends a loop that is counted, and so names no duration, at the cap.
func (s *Server) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if most := s.options.Limits.MaxSeconds; most > 0 {
		return context.WithTimeout(ctx, time.Duration((most+1)*float64(time.Second)))
	}
	return context.WithCancel(ctx)
}

// Warm implements the call of the protocol.
func (s *Server) Warm(ctx context.Context, m *controlpb.LoopRequest) (*controlpb.WarmReply, error) {
	l, endpoint, span, err := s.span(ctx, "warm", m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := l.lane.Warm(ctx, endpoint, span); err != nil {
		return nil, err
	}
	return &controlpb.WarmReply{}, nil
}

// Barrier implements the call of the protocol.
func (s *Server) Barrier(ctx context.Context, m *controlpb.EndpointRequest) (*controlpb.BarrierReply, error) {
	l, endpoint, err := s.endpoint(ctx, "barrier", m.GetLane(), m.GetEndpoint())
	if err != nil {
		return nil, err
	}
	if err := l.lane.Barrier(ctx, endpoint); err != nil {
		return nil, err
	}
	return &controlpb.BarrierReply{}, nil
}

// Run implements the call of the protocol.
func (s *Server) Run(ctx context.Context, m *controlpb.LoopRequest) (*controlpb.Outcome, error) {
	l, endpoint, span, err := s.span(ctx, "run", m)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	o, err := l.lane.Run(ctx, endpoint, span)
	if err != nil {
		return nil, err
	}
	return encodeOutcome(o), nil
}

// Disarm implements the call of the protocol.
func (s *Server) Disarm(ctx context.Context, m *controlpb.EndpointRequest) (*controlpb.Outcome, error) {
	l, endpoint, err := s.endpoint(ctx, "disarm", m.GetLane(), m.GetEndpoint())
	if err != nil {
		return nil, err
	}
	o, err := l.lane.Disarm(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return encodeOutcome(o), nil
}

// Verify implements the call of the protocol.
func (s *Server) Verify(ctx context.Context, m *controlpb.EndpointRequest) (*controlpb.VerifyReply, error) {
	l, endpoint, err := s.endpoint(ctx, "verify", m.GetLane(), m.GetEndpoint())
	if err != nil {
		return nil, err
	}
	if err := l.lane.Verify(ctx, endpoint); err != nil {
		return nil, err
	}
	return &controlpb.VerifyReply{}, nil
}

// CloseLane implements the call of the protocol.
func (s *Server) CloseLane(ctx context.Context, m *controlpb.LaneRequest) (*controlpb.CloseReply, error) {
	n := sessionOf(ctx)
	l, err := n.lane(m.GetLane())
	if err != nil {
		return nil, err
	}
	if err := l.lane.Close(ctx); err != nil {
		return nil, err
	}
	n.mu.Lock()
	delete(n.lanes, m.GetLane())
	n.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	n.budget.give(l.room)
	l.room = 0
	for i := range l.works {
		n.budget.give(l.works[i].lists + l.works[i].stamps)
		l.works[i] = workRoom{}
	}
	return &controlpb.CloseReply{}, nil
}

// Close implements the call of the protocol.
func (s *Server) Close(ctx context.Context, m *controlpb.CloseRequest) (*controlpb.CloseReply, error) {
	n := sessionOf(ctx)
	n.farewell(clean(m.GetReason(), maxFarewell), m.GetFailed())
	if err := n.close(); err != nil {
		return nil, err
	}
	return &controlpb.CloseReply{}, nil
}
