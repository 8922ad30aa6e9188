package harness

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"hopbench/transports"
	"hopbench/transports/fault"
)

// serving is the armed part of a target: a goroutine that serves a given number of the initiator's loops, one after the other.
type serving struct {
	stop    atomic.Uint32
	entered chan struct{} // one for each Serve that begins
	done    chan struct{} // closed when the last has ended
	outcome Outcome       // of the last Serve; valid after done
	err     error
}

func (l *lane) Arm(ctx context.Context, endpoint, loops int) error {
	p, err := l.work(endpoint, false)
	if err != nil {
		return err
	}
	if loops < 1 || loops > 1000 {
		return fault.New(fault.PeerRefused, "arm", l.request.Driver, "%d loops; 1 to 1000 are possible", loops)
	}
	s := &serving{entered: make(chan struct{}, loops), done: make(chan struct{})}
	l.mu.Lock()
	if p.serving != nil || l.closed {
		l.mu.Unlock()
		return fault.New(fault.PeerRefused, "arm", l.request.Driver, "endpoint %d is armed already", endpoint)
	}
	p.serving = s
	l.mu.Unlock()
	e := l.endpoints[endpoint]
	loop := p.loop(&s.stop)
	loop.Echo = p.work.PingPong
	l.side.quiet(true)
	go func() {
		defer close(s.done)
		defer l.side.quiet(false)
		for i := 0; i < loops && s.err == nil && s.stop.Load() == 0; i++ {
			counters, cerr := e.Counters()
			before := readMeter()
			s.entered <- struct{}{}
			s.err = e.Serve(loop)
			s.outcome = Outcome{Usage: readMeter().since(before), CPUs: p.cpus}
			if after, err := e.Counters(); err == nil && cerr == nil {
				s.outcome.Counters = growth(counters, after)
			}
		}
	}()
	return s.wait(ctx)
}

// wait waits for the next Serve to begin.
func (s *serving) wait(ctx context.Context) error {
	select {
	case <-s.entered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		select {
		case <-s.entered:
			return nil
		default:
		}
		if s.err != nil {
			return s.err
		}
		return fault.New(fault.PeerRefused, "wait for the serving side", "", "it has ended")
	}
}

func (l *lane) Barrier(ctx context.Context, endpoint int) error {
	p, err := l.work(endpoint, false)
	if err != nil {
		return err
	}
	l.mu.Lock()
	s := p.serving
	l.mu.Unlock()
	if s == nil {
		return fault.New(fault.PeerRefused, "wait for the serving side", l.request.Driver, "endpoint %d is not armed", endpoint)
	}
	return s.wait(ctx)
}

// endPatience is how long the initiator's last word may be on its way after its loop has returned.
const endPatience = time.Second

func (l *lane) Disarm(ctx context.Context, endpoint int) (Outcome, error) {
	p, err := l.work(endpoint, false)
	if err != nil {
		return Outcome{}, err
	}
	l.mu.Lock()
	s := p.serving
	l.mu.Unlock()
	if s == nil {
		return Outcome{}, fault.New(fault.PeerRefused, "disarm", l.request.Driver, "endpoint %d is not armed", endpoint)
	}
	// After its last loop the serving side ends by itself, as soon as the initiator's word for that has reached it: stopping it before would
	// leave that word in the connection, for the next loop to stumble on. Only an initiator that failed leaves it waiting.
	patience := time.NewTimer(endPatience)
	defer patience.Stop()
	select {
	case <-s.done:
	case <-patience.C:
		s.stop.Store(1)
	case <-ctx.Done():
		s.stop.Store(1)
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return Outcome{}, ctx.Err()
	}
	l.mu.Lock()
	p.serving = nil
	l.mu.Unlock()
	return s.outcome, s.err
}

// loop is the part that all loops of a work share.
func (p *prepared) loop(stop *atomic.Uint32) *transports.Loop {
	w := p.work
	return &transports.Loop{
		Op: w.Op, Lists: p.lists, Depth: w.Depth, Batch: w.Batch, Stop: stop, Notify: w.Notify,
		ReplyOffset: w.replyOffset(), BytesPerSecond: w.Rate, Wait: w.Wait, CPUs: p.cpus,
	}
}

func (l *lane) Warm(ctx context.Context, endpoint int, s Span) error {
	_, err := l.initiate(ctx, endpoint, Span{Operations: s.Operations, Seconds: s.Seconds})
	return err
}

func (l *lane) Run(ctx context.Context, endpoint int, s Span) (Outcome, error) {
	return l.initiate(ctx, endpoint, s)
}

// initiate runs the initiator's loop and derives its outcome.
func (l *lane) initiate(ctx context.Context, endpoint int, s Span) (Outcome, error) {
	p, err := l.work(endpoint, true)
	if err != nil {
		return Outcome{}, err
	}
	switch most := l.side.limits.MaxSeconds; {
	case s.Operations == 0 && !(s.Seconds > 0):
		return Outcome{}, fault.New(fault.PeerRefused, "run a loop", l.request.Driver, "neither a count nor a duration ends it")
	case most > 0 && s.Seconds > most:
		return Outcome{}, fault.New(fault.PeerCap, "run a loop", l.request.Driver, "%g s; this side allows %g", s.Seconds, most)
	case s.Stamps < 0 || s.Stamps > 1<<22:
		return Outcome{}, fault.New(fault.PeerCap, "run a loop", l.request.Driver, "%d stamps; at most %d are possible", s.Stamps, 1<<22)
	}
	var stop atomic.Uint32
	loop := p.loop(&stop)
	loop.Count = s.Operations
	if s.Stamps > 0 {
		loop.Stamps = p.record(s)
	}
	defer context.AfterFunc(ctx, func() { stop.Store(1) })()
	e := l.endpoints[endpoint]
	l.side.quiet(true)
	defer l.side.quiet(false)
	counters, cerr := e.Counters()
	before := readMeter()
	if s.Seconds > 0 {
		loop.Deadline = transports.Now() + int64(s.Seconds*1e9)
	}
	if p.work.PingPong {
		err = e.PingPong(loop)
	} else {
		err = e.Stream(loop)
	}
	usage := readMeter().since(before)
	o := p.derive(loop.Stamps)
	o.Usage, o.CPUs = usage, p.cpus
	if after, aerr := e.Counters(); aerr == nil && cerr == nil {
		o.Counters = growth(counters, after)
	}
	if err == nil && ctx.Err() != nil && o.Operations == 0 {
		err = ctx.Err()
	}
	return o, err
}

// record gives the streams memory for stamps, kept from round to round and touched before the clock starts.
func (p *prepared) record(s Span) []transports.Stamps {
	if len(p.stamps) != len(p.lists) {
		p.stamps = make([]transports.Stamps, len(p.lists))
	}
	for i := range p.stamps {
		st := &p.stamps[i]
		if cap(st.At) < s.Stamps {
			st.At = make([]int64, s.Stamps)
		}
		st.At = st.At[:s.Stamps]
		for j := 0; j < len(st.At); j += 512 {
			st.At[j] = 0
		}
		st.Reset()
		st.Every = max(s.StampEvery, 1)
	}
	return p.stamps
}

// derive makes the figures of one loop from its stamps.
func (p *prepared) derive(all []transports.Stamps) Outcome {
	var o Outcome
	if len(all) == 0 {
		return o
	}
	first, last := int64(0), int64(0)
	for _, s := range all {
		o.Operations += s.Ops
		o.Bytes += s.Bytes
		if s.N == 0 {
			continue
		}
		if first == 0 || s.Start < first {
			first = s.Start
		}
		last = max(last, s.At[s.N-1])
		o.StreamSeconds = append(o.StreamSeconds, float64(s.At[s.N-1]-s.Start)/1e9)
		o.StampEvery = max(s.Every, 1)
	}
	if o.Operations == 0 {
		return o
	}
	o.Seconds = float64(last-first) / 1e9
	o.BytesPerStamp = float64(o.Bytes) / float64(o.Operations) * float64(o.StampEvery)
	each := o.StampEvery == 1 && p.work.Depth == 1
	for _, s := range all {
		before := s.Start
		for i, at := range s.At[:s.N] {
			if uint64(i+1)*o.StampEvery <= s.Ops { // the last stamp of a stream may stand for fewer
				o.Stamps = append(o.Stamps, float64(at-first)/1e9)
			}
			if each {
				o.LatencySeconds = append(o.LatencySeconds, float64(at-before)/1e9)
				before = at
			}
		}
	}
	if len(all) > 1 {
		slices.Sort(o.Stamps)
	}
	return o
}

// growth is what counters gained; gauges keep their value. Counters that a device has lost meanwhile are left out.
func growth(before, after []transports.Counter) []transports.Counter {
	var grown []transports.Counter
	for _, a := range after {
		if a.Gauge {
			grown = append(grown, a)
			continue
		}
		for _, b := range before {
			if b.Name == a.Name && b.Source == a.Source && a.Value >= b.Value {
				a.Value -= b.Value
				grown = append(grown, a)
				break
			}
		}
	}
	return grown
}
