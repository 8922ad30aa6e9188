package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"hopbench/harness/hostinfo"
	"hopbench/results"
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

// Session is the peers of a run. The plan does not know which it talks to.
type Session struct {
	// Local is this process.
	Local Peer
	// InProcess is a second side in this process, for transports whose two sides must live in one.
	InProcess Peer
	// Remote is the other process; nil where none could be started.
	Remote Peer
	// RemoteErr is why Remote is nil.
	RemoteErr error
	// OtherHost is set where the caller asked for a peer on another host by address.
	OtherHost bool
	// Bind and RemoteBind are the local data addresses of the two sides; zero: the transport's choice.
	Bind, RemoteBind netip.Addr
	// Announce is the data address that the remote side announces instead of its bound one.
	Announce string

	gone error // why Remote answers no more
}

// Sink takes what a run gives, as it comes.
type Sink struct {
	// Cell is called once for each cell when it has ended. An error ends the run.
	Cell func(*results.Cell) error
	// Progress is called before each cell; nil for none.
	Progress func(Progress)
}

// Progress says where a run is.
type Progress struct {
	Done, Total int // cells
	What        string
	Elapsed     time.Duration
	// Estimate is the time that is left, from the pace so far; 0 where there is none yet.
	Estimate time.Duration
}

// link is one transport of a run: a lane on each side.
type link struct {
	name      string
	plan      *Plan
	session   *Session
	local     Lane
	remote    Lane
	peer      Peer
	caps      transports.Caps
	inProcess bool
	sameHost  bool                 // both sides use the same CPUs
	paths     [2][]transports.Path // local, remote
	cold      results.Cold
	memory    [2]mem.Facts
	fresh     bool  // no loop has run on it
	down      error // why it left the rotation
	refused   int   // times in a row that it could not be opened
	emulated  bool
	// most is the largest operation in bytes that the link is open for; mostErr is why larger ones found no room.
	most    uint64
	mostErr error
}

// slowestMemory is how slowly memory may be touched, filled or compared before a step that does so counts as stuck, in bytes a second: a tenth of
// what a busy host does.
const slowestMemory = 200e6

// phase gives one step that is no loop its own limit, and names it when the limit passes. bytes is the memory that the step goes through.
func (l *link) phase(ctx context.Context, what string, bytes uint64, f func(context.Context) error) error {
	limit := time.Duration((l.plan.PhaseTimeout + float64(bytes)/slowestMemory) * float64(time.Second))
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(inner)
	if err != nil && ctx.Err() == nil && errors.Is(inner.Err(), context.DeadlineExceeded) && fault.ClassOf(err) == fault.Internal {
		return &fault.Error{Code: fault.PeerDeadline, Op: what, Device: l.name, Err: fmt.Errorf("no answer within %v: %w", limit, err)}
	}
	return err
}

// open opens the link for the largest operations of the plan that find room: what is too large for this host, the peer's cap or the device is a
// failed row each, and the rest of the sweep goes on.
func (l *link) open(ctx context.Context) (err error) {
	l.most, l.mostErr = math.MaxUint64, nil
	defer func() {
		if l.refused++; err == nil {
			l.refused = 0
		}
	}()
	for {
		err := l.openOnce(ctx)
		if code := fault.CodeOf(err); code != fault.MemoryExhausted && code != fault.PeerCap {
			return err
		}
		bytes, _, _ := l.plan.largest(l.most)
		if smaller, _, _ := l.plan.largest(bytes - 1); smaller == 0 {
			return err
		}
		l.most = bytes - 1
		if l.mostErr == nil {
			l.mostErr = err
		}
	}
}

// mayOpen says whether opening a link afresh could help: a loop failed on it, or it could not be opened once. A data address that nothing reaches takes its whole
// limit to say so, and says the same for every cell.
func (l *link) mayOpen() bool {
	switch {
	case l.down == nil || l.local != nil || l.refused > 1:
		return false
	case l.refused > 0 && fault.CodeOf(l.down) == fault.TCPDataUnreachable:
		return false
	}
	class := fault.ClassOf(l.down)
	return !class.Waives() && class != fault.Usage
}

// openOnce opens both sides, checks what they can do and connects them.
func (l *link) openOnce(ctx context.Context) (err error) {
	p, s := l.plan, l.session
	bytes, pieces, streams := p.largest(l.most)
	request := func(memory, device string, settings map[string]string, bind netip.Addr, announce string, passive bool) (OpenRequest, error) {
		kind, which, err := mem.ParseKind(memory)
		if err != nil {
			return OpenRequest{}, &fault.Error{Code: fault.MemoryKind, Op: "open " + l.name, Err: err}
		}
		endpoints := 1
		for _, d := range p.Directions {
			if d == Both {
				endpoints = 2
			}
		}
		return OpenRequest{
			Driver: l.name, Device: device, Settings: settings, Bind: bind, Announce: announce,
			Memory:    mem.Spec{Kind: kind, Device: which, Bytes: p.memory(l.most), HugePages: p.HugePages, NUMANode: p.NUMANode},
			Endpoints: endpoints, Passive: passive, Streams: streams, Depth: p.Depth, Pieces: pieces, Largest: bytes,
			Wait: p.Wait, StallSeconds: p.StallTimeout,
		}, nil
	}
	defer func() {
		if err != nil {
			err = l.cause(ctx, err)
			l.close(ctx)
		}
	}()
	r, err := request(p.LocalMemory, p.Device, p.Settings, s.Bind, "", false)
	if err != nil {
		return err
	}
	if err := l.phase(ctx, "open "+l.name+" here", r.Memory.Bytes, func(ctx context.Context) error {
		l.local, err = s.Local.Open(ctx, r)
		return err
	}); err != nil {
		return err
	}
	l.caps = l.local.Opened().Caps
	l.peer = s.Remote
	if l.caps.OneProcess && !s.OtherHost {
		l.peer, l.inProcess = s.InProcess, true
	}
	need := l.need()
	if err := l.caps.Check(l.name, need); err != nil {
		return err
	}
	if s.gone != nil && !l.inProcess {
		return s.gone
	}
	if l.peer == nil {
		if s.RemoteErr != nil {
			return s.RemoteErr
		}
		return fault.New(fault.PeerUnreachable, "open "+l.name, "", "there is no other process")
	}
	r, err = request(p.RemoteMemory, p.RemoteDevice, p.RemoteSettings, s.RemoteBind, s.Announce, true)
	if err != nil {
		return err
	}
	if err := l.phase(ctx, "open "+l.name+" on the peer", r.Memory.Bytes, func(ctx context.Context) error {
		l.remote, err = l.peer.Open(ctx, r)
		return err
	}); err != nil {
		return err
	}
	a, b := l.local.Opened(), l.remote.Opened()
	if err := b.Caps.Check(l.name+" on the peer", need); err != nil {
		return err
	}
	l.memory = [2]mem.Facts{a.Memory, b.Memory}
	type side struct {
		c   Connected
		err error
	}
	var mine, theirs side
	if err := l.phase(ctx, "connect "+l.name, 0, func(ctx context.Context) error {
		other := make(chan side, 1)
		// The side that fails first ends the other's wait: neither sits out the whole limit for nothing.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			c, err := l.remote.Connect(ctx, ConnectRequest{Addresses: a.Addresses, RegionKey: a.RegionKey, RegionBytes: a.RegionBytes})
			if err != nil {
				cancel()
			}
			other <- side{c, err}
		}()
		mine.c, mine.err = l.local.Connect(ctx, ConnectRequest{Addresses: b.Addresses, RegionKey: b.RegionKey, RegionBytes: b.RegionBytes})
		if mine.err != nil {
			cancel()
		}
		theirs = <-other
		return firstCause(mine.err, theirs.err)
	}); err != nil {
		return err
	}
	l.paths = [2][]transports.Path{mine.c.Paths, theirs.c.Paths}
	sum := func(a, b float64) *float64 { v := a + b; return &v }
	l.cold = results.Cold{
		Connect: sum(max(mine.c.ConnectSeconds, theirs.c.ConnectSeconds), 0), Open: sum(a.OpenSeconds, b.OpenSeconds),
		Allocate: sum(a.AllocateSeconds, b.AllocateSeconds), Register: sum(a.RegisterSeconds, b.RegisterSeconds),
	}
	l.fresh, l.down, l.sameHost = true, nil, !s.OtherHost
	return nil
}

// cause is why a step failed: err, or that the peer is gone, where it is. A data connection that broke or a loop that stalled is then only how
// this side noticed, whichever it noticed first.
func (l *link) cause(ctx context.Context, err error) error {
	var first, gone *fault.Error
	if l.peer == nil || l.inProcess || !errors.As(err, &first) || first.Class() != fault.Peer || first.Code == fault.PeerVanished {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(l.plan.PhaseTimeout*float64(time.Second)))
	defer cancel()
	if !errors.As(l.peer.Alive(ctx), &gone) || gone.Code != fault.PeerVanished {
		return err
	}
	told := *gone
	told.Op, told.Device = first.Op, first.Device
	if first.Err != nil {
		told.Err = fmt.Errorf("%w (noticed as: %w)", gone.Err, first.Err)
	}
	return &told
}

// firstCause prefers the error that is no mere consequence of the other side's.
func firstCause(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil, !errors.Is(a, context.Canceled):
		return a
	}
	return b
}

// need is what the plan asks of the transport as a whole; each cell is checked again by itself.
func (l *link) need() transports.Need {
	p := l.plan
	kind := func(s string) mem.Kind { k, _, _ := mem.ParseKind(s); return k }
	n := transports.Need{Op: p.Operations[0], Notify: p.Notify, Local: kind(p.LocalMemory), Remote: kind(p.RemoteMemory), Batch: p.Batch, OtherHost: l.session.OtherHost}
	for _, op := range p.Operations {
		if slices.Contains(l.caps.Stream, op) {
			n.Op = op
			break
		}
	}
	return n
}

func (l *link) close(ctx context.Context) {
	// A context that has ended must not keep the peer from being told.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if l.local != nil {
		_ = l.local.Close(ctx)
	}
	if l.remote != nil {
		_ = l.remote.Close(ctx)
	}
	l.local, l.remote = nil, nil
}

// Run measures a plan over a session. Cells go to the sink as they end. The error is the first that ended the run; cells that
// failed or were waived are no error of the run.
func Run(ctx context.Context, p Plan, s *Session, sink Sink) error {
	if err := p.Check(); err != nil {
		return err
	}
	here, err := s.Local.Host(ctx)
	if err != nil {
		return err
	}
	var links []*link
	defer func() {
		for _, l := range links {
			l.close(ctx)
		}
	}()
	for _, name := range p.Transports {
		l := &link{name: name, plan: &p, session: s, emulated: hostinfo.Emulated(here)}
		links = append(links, l)
		l.down = l.open(ctx)
	}
	started := time.Now()
	cells := p.cells()
	for i := range cells {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if sink.Progress != nil {
			pr := Progress{Done: i * len(links), Total: len(cells) * len(links), What: cells[i].String(), Elapsed: time.Since(started)}
			if i > 0 {
				pr.Estimate = pr.Elapsed / time.Duration(i) * time.Duration(len(cells)-i)
			}
			sink.Progress(pr)
		}
		alive(ctx, &p, s, links)
		m := &measurement{plan: &p, cell: &cells[i], started: time.Now()}
		for _, l := range links {
			// A transport that failed in an earlier cell is opened afresh: a failing size must not end a sweep.
			if l.mayOpen() && i > 0 {
				if err := l.open(ctx); err != nil {
					l.down = err
				}
			}
			m.tracks = append(m.tracks, newTrack(l, &cells[i], i))
		}
		m.run(ctx)
		for _, t := range m.tracks {
			if err := sink.Cell(t.record(m)); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// alive shows the peer that this side still works, which it would not notice while only transports of one process are measured. A peer that is
// gone takes its links down with that reason; the others go on.
func alive(ctx context.Context, p *Plan, s *Session, links []*link) {
	if s.Remote == nil || s.gone != nil {
		return
	}
	inner, cancel := context.WithTimeout(ctx, time.Duration(p.PhaseTimeout*float64(time.Second)))
	defer cancel()
	err := s.Remote.Alive(inner)
	if err == nil || ctx.Err() != nil {
		return
	}
	s.gone = err
	for _, l := range links {
		if !l.inProcess && l.down == nil {
			l.down = err
			l.close(ctx)
		}
	}
}

// String names a cell for progress.
func (c *cell) String() string {
	name := fmt.Sprintf("%s of %s", c.metric, c.op)
	if c.request != "" {
		name += " of " + c.request
	}
	if c.concurrency > 1 {
		name += fmt.Sprintf(", %d at once", c.concurrency)
	}
	return fmt.Sprintf("%s, %d bytes", name, c.shape.Bytes())
}
