package harness

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hopbench/transports/fault"
)

// gate lets the loops of several tracks begin together: whoever is ready waits for the rest, and whoever fails before is waited for no more.
type gate struct {
	mu   sync.Mutex
	left int
	open chan struct{}
}

func newGate(n int) *gate { return &gate{left: n, open: make(chan struct{})} }

// arrive counts one in, or out.
func (g *gate) arrive() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left--; g.left == 0 {
		close(g.open)
	}
}

// together measures a cell with the loops of all its tracks at once, round by round.
func (m *measurement) together(ctx context.Context, l *load) {
	m.all(func(t *track) { t.fail(ctx, t.first(ctx)) })
	if l != nil {
		m.unloaded(l.start(ctx))
	}
	for ctx.Err() == nil {
		live := m.live()
		if len(live) == 0 {
			break
		}
		g := newGate(len(live))
		errs := make([]error, len(live))
		var running sync.WaitGroup
		for i, t := range live {
			running.Add(1)
			go func() {
				defer running.Done()
				t.gate = g
				warm := Span{Seconds: m.plan.Warmup}
				if m.cell.concurrency > 1 || m.plan.Warmup == 0 {
					warm = Span{Operations: 1}
				}
				if errs[i] = t.round(ctx, warm, t.span); t.gate != nil {
					t.gate = nil
					g.arrive()
				}
			}()
		}
		running.Wait()
		void := false
		for i, t := range live {
			if t.fail(ctx, errs[i]); errs[i] == nil && ctx.Err() == nil {
				void = void || slices.ContainsFunc(t.ways, func(w way) bool { return w.rounds[len(w.rounds)-1].Operations == 0 })
			}
		}
		live = m.live()
		if void { // a round counts for all or for none
			for _, t := range live {
				t.takeBack()
				if t.voids++; t.voids > mostVoid {
					t.fail(ctx, fault.New(fault.LoopStalled, "measure the cell", t.link.name, "%d rounds of %g s confirmed no operation", t.voids, t.span.Seconds))
				}
			}
			continue
		}
		enough := true
		for _, t := range live {
			t.took += t.ways[0].rounds[len(t.ways[0].rounds)-1].Seconds
			enough = t.enough(m.plan) && enough
		}
		m.note(live)
		for _, t := range live {
			t.done = enough
		}
	}
	if l != nil {
		m.unloaded(l.stop())
	}
	m.all(func(t *track) { t.conclude(ctx) })
}

// unloaded voids the figures of a cell whose background load was not there all the time.
func (m *measurement) unloaded(err error) {
	for _, t := range m.tracks {
		if err != nil && t.err == nil {
			t.err = err
		}
	}
}

// all does something to all tracks at once.
func (m *measurement) all(f func(*track)) {
	var doing sync.WaitGroup
	for _, t := range m.tracks {
		if t.err != nil {
			continue
		}
		doing.Add(1)
		go func() {
			defer doing.Done()
			f(t)
		}()
	}
	doing.Wait()
}

// live are the tracks that still measure.
func (m *measurement) live() []*track {
	return slices.DeleteFunc(slices.Clone(m.tracks), func(t *track) bool { return t.err != nil || t.done })
}

// note bounds how far apart the loops of the last round began: none began before it was sent, nor later than its answer came less the time
// that it ran.
func (m *measurement) note(live []*track) {
	if len(live) < 2 {
		return
	}
	var first, last time.Time
	shortest := time.Duration(1<<63 - 1)
	for _, t := range live {
		for i := range t.ways {
			if at := t.sent[i]; first.IsZero() || at.Before(first) {
				first = at
			}
			ran := time.Duration(t.ways[i].rounds[len(t.ways[i].rounds)-1].Seconds * float64(time.Second))
			if at := t.answered[i].Add(-ran); at.After(last) {
				last = at
			}
			shortest = min(shortest, ran)
		}
	}
	m.spreads = append(m.spreads, max(0, last.Sub(first)).Seconds())
	m.shortest = append(m.shortest, shortest.Seconds())
}

// spread is the largest distance between the starts of a round's loops, and the largest share that one had of its shortest loop.
func (m *measurement) spread() (seconds, share float64) {
	for i, s := range m.spreads {
		seconds = max(seconds, s)
		if m.shortest[i] > 0 {
			share = max(share, s/m.shortest[i])
		}
	}
	return seconds, share
}

// load keeps some links busy while others are measured.
type load struct {
	tracks  []*track
	plan    *Plan
	ending  atomic.Bool
	running sync.WaitGroup
	cancel  context.CancelFunc

	mu  sync.Mutex
	err error
}

func newLoad(links []*link, p *Plan) *load {
	cells := p.cells()
	l := &load{plan: p}
	for i, k := range links {
		t := newTrack(k, &cells[0], len(cells))
		t.salt = uint64(1<<16 + i)
		t.shares = [2]int{1, 1}
		l.tracks = append(l.tracks, t)
	}
	return l
}

// start begins the load and returns when each of its loops has run once. It fails where a link does: a load that is not there must not be
// called one.
func (l *load) start(ctx context.Context) error {
	l.ending.Store(false)
	ctx, l.cancel = context.WithCancel(ctx)
	ready := make(chan struct{}, len(l.tracks))
	for _, t := range l.tracks {
		l.running.Add(1)
		go func() {
			defer l.running.Done()
			err := t.err
			if err == nil {
				err = t.first(ctx)
			}
			ready <- struct{}{}
			for err == nil && !l.ending.Load() {
				err = t.round(ctx, Span{}, t.span)
				t.forget()
			}
			if err != nil && !l.ending.Load() {
				t.err = err
				l.mu.Lock()
				l.err = errors.Join(l.err, err)
				l.mu.Unlock()
			}
		}()
	}
	for range l.tracks {
		<-ready
	}
	if l.lost() {
		return l.stop()
	}
	return nil
}

func (l *load) lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}

// stop ends the load with its rounds that run, and says whether it was there all the time.
func (l *load) stop() error {
	l.ending.Store(true)
	l.running.Wait()
	if l.cancel != nil {
		l.cancel()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return &fault.Error{Code: fault.CodeOf(l.err), Op: "keep the background load up", Err: l.err}
	}
	return nil
}
