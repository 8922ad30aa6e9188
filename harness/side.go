package harness

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"hopbench/harness/hostinfo"
	"hopbench/results"
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

// Limits is what a side lets a peer ask for. Zero means no limit.
type Limits struct {
	MaxMemory  uint64  // bytes of buffers in all
	MaxSize    uint64  // bytes of one operation
	MaxSeconds float64 // of one loop
}

// side is a Peer in this process.
type side struct {
	drivers []transports.Driver
	limits  Limits

	mu     sync.Mutex
	lanes  map[*lane]struct{}
	memory uint64
	loops  int // running: garbage collection is off while there are any
	gc     int // percent to go back to
}

// NewSide returns the side of a measurement that lives in this process.
func NewSide(drivers []transports.Driver, l Limits) Peer {
	return &side{drivers: drivers, limits: l, lanes: map[*lane]struct{}{}}
}

func (s *side) Host(context.Context) (results.Host, error) { return hostinfo.Read() }

// Alive is true of a side that can be asked.
func (s *side) Alive(context.Context) error { return nil }

func (s *side) Open(ctx context.Context, r OpenRequest) (Lane, error) {
	var driver transports.Driver
	for _, d := range s.drivers {
		if d.Name() == r.Driver {
			driver = d
		}
	}
	if driver == nil {
		return nil, fault.New(fault.NoDriver, "open "+r.Driver, "", "this side has no transport %q", r.Driver)
	}
	if r.Endpoints < 1 || r.Endpoints > 2 {
		return nil, fault.New(fault.PeerRefused, "open "+r.Driver, "", "%d endpoints; 1 or 2 are possible", r.Endpoints)
	}
	if most := s.limits.MaxSize; most > 0 && r.Largest > most {
		return nil, fault.New(fault.PeerCap, "open "+r.Driver, "", "operations of %d bytes; this side allows %d", r.Largest, most)
	}
	if err := s.reserve(r.Memory.Bytes); err != nil {
		return nil, err
	}
	l := &lane{side: s, request: r}
	if err := l.open(ctx, driver); err != nil {
		return nil, errors.Join(fault.Sharper(err), l.Close(ctx))
	}
	// A loop's thread keeps its processor (P) while it blocks, so there must be some left for everything else.
	if n := runtime.NumCPU() + r.Streams*r.Endpoints + 2; n > runtime.GOMAXPROCS(0) {
		runtime.GOMAXPROCS(n)
	}
	s.mu.Lock()
	s.lanes[l] = struct{}{}
	s.mu.Unlock()
	return l, nil
}

// reserve counts memory against the limit before it is allocated.
func (s *side) reserve(bytes uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if most := s.limits.MaxMemory; most > 0 && (bytes > most || s.memory > most-bytes) {
		return fault.New(fault.PeerCap, "allocate memory", "", "%d bytes beside the %d in use; this side allows %d", bytes, s.memory, most)
	}
	s.memory += bytes
	return nil
}

// quiet turns garbage collection off while loops run, and on again after the last.
func (s *side) quiet(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		if s.loops == 0 {
			s.gc = debug.SetGCPercent(-1)
		}
		s.loops++
		return
	}
	if s.loops--; s.loops == 0 {
		debug.SetGCPercent(s.gc)
	}
}

func (s *side) Close() error {
	s.mu.Lock()
	var open []*lane
	for l := range s.lanes {
		open = append(open, l)
	}
	s.mu.Unlock()
	var errs []error
	for _, l := range open {
		errs = append(errs, l.Close(context.Background()))
	}
	return errors.Join(errs...)
}

// lane is an open transport of a side.
type lane struct {
	side    *side
	request OpenRequest
	opened  Opened

	transport transports.Transport
	buffer    mem.Buffer
	region    transports.Region
	endpoints []transports.Endpoint

	mu     sync.Mutex
	works  [2]*prepared
	closed bool
}

// prepared is a work with everything that its loops need.
type prepared struct {
	work    Work
	lists   []transports.List
	cpus    []int
	stamps  []transports.Stamps
	serving *serving
}

func (l *lane) open(ctx context.Context, d transports.Driver) error {
	r := l.request
	clock := time.Now()
	lap := func() float64 {
		took := time.Since(clock).Seconds()
		clock = time.Now()
		return took
	}
	var err error
	l.transport, err = d.Open(ctx, transports.Options{Device: r.Device, Settings: known(d, r.Settings), Bind: r.Bind, Announce: r.Announce, Memory: r.Memory})
	if err != nil {
		return err
	}
	l.opened.OpenSeconds = lap()
	l.opened.Caps = l.transport.Caps()
	if l.buffer, err = mem.Allocate(r.Memory); err != nil {
		return err
	}
	l.opened.AllocateSeconds = lap()
	if l.region, err = l.transport.Register(l.buffer); err != nil {
		return err
	}
	l.opened.RegisterSeconds = lap()
	for range r.Endpoints {
		e, err := l.transport.NewEndpoint(transports.EndpointOptions{
			Region: l.region, Streams: r.Streams, Depth: r.Depth, Pieces: r.Pieces, Largest: r.Largest,
			Wait: r.Wait, Passive: r.Passive, StallSeconds: r.StallSeconds,
		})
		if err != nil {
			return err
		}
		l.endpoints = append(l.endpoints, e)
		l.opened.Addresses = append(l.opened.Addresses, e.Address())
	}
	l.opened.RegionKey, l.opened.RegionBytes, l.opened.Memory = l.region.Key(), l.buffer.Len(), l.buffer.Facts()
	return nil
}

// known picks the settings that are this driver's: a plan holds those of all its transports.
func known(d transports.Driver, all map[string]string) map[string]string {
	mine := map[string]string{}
	for _, s := range d.Settings() {
		if v, ok := all[s.Name]; ok {
			mine[s.Name] = v
		}
	}
	return mine
}

func (l *lane) Opened() Opened { return l.opened }

func (l *lane) Connect(ctx context.Context, r ConnectRequest) (Connected, error) {
	var c Connected
	if len(r.Addresses) != len(l.endpoints) {
		return c, fault.New(fault.PeerRefused, "connect", "", "%d addresses for %d endpoints", len(r.Addresses), len(l.endpoints))
	}
	start := time.Now()
	for i, e := range l.endpoints {
		if err := e.Connect(ctx, transports.Remote{Address: r.Addresses[i], RegionKey: r.RegionKey, RegionBytes: r.RegionBytes}); err != nil {
			return c, fault.Sharper(err)
		}
	}
	c.ConnectSeconds = time.Since(start).Seconds()
	for _, e := range l.endpoints {
		c.Paths = append(c.Paths, e.Path())
	}
	return c, nil
}

func (l *lane) Prepare(_ context.Context, w Work) (Prepared, error) {
	refuse := func(format string, args ...any) (Prepared, error) {
		return Prepared{}, fault.New(fault.PeerRefused, "prepare a work", l.request.Driver, format, args...)
	}
	if err := w.Shape.Check(); err != nil {
		return refuse("%w", err)
	}
	switch {
	case w.Endpoint < 0 || w.Endpoint >= len(l.endpoints):
		return refuse("there is no endpoint %d", w.Endpoint)
	case w.Shape.Streams > l.request.Streams:
		return refuse("%d streams on a lane of %d", w.Shape.Streams, l.request.Streams)
	case w.Depth < 1 || w.Depth > l.request.Depth:
		return refuse("depth %d on a lane made for %d", w.Depth, l.request.Depth)
	case w.Share < 0 || w.Shares < 0 || (w.Shares > 0 && w.Share >= w.Shares):
		return refuse("share %d of %d of the CPUs", w.Share, w.Shares)
	case w.Shape.Base > l.buffer.Len() || w.footprint() > l.buffer.Len()-w.Shape.Base:
		return refuse("the work needs %d bytes from %d of a region of %d", w.footprint(), w.Shape.Base, l.buffer.Len())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return refuse("the lane is closed")
	}
	if old := l.works[w.Endpoint]; old != nil && old.serving != nil {
		return refuse("the endpoint still serves")
	}
	start := time.Now()
	p := &prepared{work: w, lists: w.Shape.Lists(), cpus: cpuShare(w.Share, w.Shares)}
	took := time.Since(start).Seconds()
	if old := l.works[w.Endpoint]; old != nil && len(old.stamps) == w.Shape.Streams {
		p.stamps = old.stamps
	}
	mine := initiatorSide
	if !w.Initiate {
		mine = targetSide
	}
	if err := fill(l.buffer, newPattern(w.Seed, w.Round, mine), w.Shape.Base, w.footprint()); err != nil {
		return Prepared{}, fmt.Errorf("fill memory: %w", err)
	}
	l.works[w.Endpoint] = p
	return Prepared{DescriptorSeconds: took, Footprint: w.footprint(), CPUs: p.cpus}, nil
}

// work is the prepared work of an endpoint.
func (l *lane) work(endpoint int, initiate bool) (*prepared, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if endpoint < 0 || endpoint >= len(l.endpoints) || l.works[endpoint] == nil || l.closed {
		return nil, fault.New(fault.PeerRefused, "find the work", l.request.Driver, "endpoint %d has none", endpoint)
	}
	if p := l.works[endpoint]; p.work.Initiate == initiate {
		return p, nil
	}
	return nil, fault.New(fault.PeerRefused, "find the work", l.request.Driver, "endpoint %d has the other part in it", endpoint)
}

func (l *lane) Verify(_ context.Context, endpoint int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if endpoint < 0 || endpoint >= len(l.endpoints) || l.works[endpoint] == nil || l.closed {
		return fault.New(fault.PeerRefused, "verify", l.request.Driver, "endpoint %d has no work", endpoint)
	}
	w := l.works[endpoint].work
	background, pieces := w.expectation(l.works[endpoint].lists)
	what := "the initiator's"
	if !w.Initiate {
		what = "the target's"
	}
	return verify(l.buffer, background, w.Shape.Base, w.footprint(), pieces, what)
}

func (l *lane) Close(context.Context) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	works := l.works
	l.mu.Unlock()
	for _, p := range works {
		if p != nil && p.serving != nil {
			p.serving.stop.Store(1)
			<-p.serving.done
		}
	}
	var errs []error
	for _, e := range l.endpoints {
		errs = append(errs, e.Close())
	}
	if l.region != nil {
		errs = append(errs, l.region.Close())
	}
	if l.buffer != nil {
		errs = append(errs, l.buffer.Close())
	}
	if l.transport != nil {
		errs = append(errs, l.transport.Close())
	}
	l.side.mu.Lock()
	delete(l.side.lanes, l)
	l.side.memory -= l.request.Memory.Bytes
	l.side.mu.Unlock()
	return errors.Join(errs...)
}
