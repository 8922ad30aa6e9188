package transporttest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"hopbench/transports"
)

// claims runs each operation once, claimed or not: what is claimed works and what is not is refused with a class.
func claims(t T, c Config) {
	for _, op := range transports.Ops() {
		for _, ping := range []bool{false, true} {
			p := open(t, c, 1<<16, transports.EndpointOptions{StallSeconds: 1})
			caps := p.ta.Caps()
			claimed := supported(caps.Stream, op)
			if ping {
				claimed = supported(caps.PingPong, op)
			}
			what := fmt.Sprintf("%s, ping-pong %v", op, ping)
			l := &transports.Loop{Op: op, Lists: []transports.List{one(1000, 1, 8, 16)}, Depth: 1, Count: 1, ReplyOffset: 1 << 15, Wait: transports.Adaptive, Stamps: stamps(1, 4)}
			err := p.loop(l, ping)
			switch {
			case claimed && err != nil:
				t.Errorf("%s is claimed and fails: %v", what, err)
			case !claimed && err == nil:
				t.Errorf("%s is not claimed and works", what)
			case !claimed && !classed(err):
				t.Errorf("%s is refused without a class: %v", what, err)
			case claimed && l.Stamps[0].Ops != 1:
				t.Errorf("%s: %d operations confirmed of 1", what, l.Stamps[0].Ops)
			}
			p.close()
		}
	}
}

func sizes(t T, c Config) {
	p := open(t, c, regionLen, transports.EndpointOptions{})
	defer p.close()
	all := []uint64{1, 7, 64, 4095, 4096, 65537, 1 << 20, 9<<20 + 3}
	if c.Slow {
		all = all[:7]
	}
	for _, op := range p.ta.Caps().Stream {
		for _, size := range all {
			ops := 3
			if size > 1<<20 {
				ops = 1
			}
			list := one(size, ops, 5, 11)
			p.fill()
			l := &transports.Loop{Op: op, Lists: []transports.List{list}, Depth: 4, Count: uint64(2 * ops), Wait: transports.Adaptive, Stamps: stamps(1, 16)}
			what := fmt.Sprintf("%s of %d bytes", op, size)
			if err := p.loop(l, false); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			p.check(op, what, list)
			if got, want := l.Stamps[0].Bytes, uint64(2*ops)*size; got != want {
				t.Errorf("%s: %d payload bytes counted instead of %d", what, got, want)
			}
		}
	}
}

// shuffled is a list of ops operations of pieces each, at places drawn without repeat from a grid of both regions.
func shuffled(seed uint64, region, size uint64, ops, pieces int) transports.List {
	r := rand.New(rand.NewPCG(seed, 1))
	slots := int(region / (size + 8))
	local, remote := r.Perm(slots), r.Perm(slots)
	var l transports.List
	for i := range ops * pieces {
		l.Pieces = append(l.Pieces, transports.Piece{Local: uint64(local[i]) * (size + 8), Remote: uint64(remote[i])*(size+8) + 3, Length: size})
	}
	for i := range ops {
		l.Ends = append(l.Ends, uint32((i+1)*pieces))
	}
	return l
}

func scattered(t T, c Config) {
	p := open(t, c, 4<<20, transports.EndpointOptions{Pieces: 100})
	defer p.close()
	for _, op := range p.ta.Caps().Stream {
		for _, size := range []uint64{8, 700, 8192} {
			list := shuffled(uint64(size), 4<<20-64, size, 3, 100)
			p.fill()
			l := &transports.Loop{Op: op, Lists: []transports.List{list}, Depth: 2, Count: 3, Wait: transports.Adaptive, Stamps: stamps(1, 8)}
			what := fmt.Sprintf("%s of 100 pieces of %d bytes", op, size)
			if err := p.loop(l, false); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			p.check(op, what, list)
		}
	}
}

func manyPieces(t T, c Config) {
	n := 100_000
	if c.Slow {
		n = 10_000
	}
	p := open(t, c, 16<<20, transports.EndpointOptions{Pieces: n})
	defer p.close()
	if most := p.ta.Caps().MaxPieces; most > 0 && n > most {
		n = most
	}
	for _, op := range p.ta.Caps().Stream {
		list := shuffled(3, 16<<20-64, 64, 1, n)
		p.fill()
		l := &transports.Loop{Op: op, Lists: []transports.List{list}, Depth: 2, Count: 2, Wait: transports.Adaptive, Stamps: stamps(1, 8)}
		what := fmt.Sprintf("%s of %d pieces", op, n)
		if err := p.loop(l, false); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		p.check(op, what, list)
		if l.Stamps[0].Ops != 2 || l.Stamps[0].Bytes != uint64(2*n*64) {
			t.Errorf("%s: %d operations, %d bytes", what, l.Stamps[0].Ops, l.Stamps[0].Bytes)
		}
	}
}

func streams(t T, c Config) {
	const n = 4
	p := open(t, c, 4<<20, transports.EndpointOptions{Streams: n})
	defer p.close()
	for _, op := range p.ta.Caps().Stream {
		for _, active := range []int{n, 2} {
			var lists []transports.List
			for s := range active {
				lists = append(lists, one(30_000, 4, uint64(s)<<20, uint64(s)<<20+100))
			}
			p.fill()
			l := &transports.Loop{Op: op, Lists: lists, Depth: 3, Count: 20, Wait: transports.Adaptive, Stamps: stamps(active, 32)}
			if err := p.loop(l, false); err != nil {
				t.Fatalf("%s on %d streams: %v", op, active, err)
			}
			p.check(op, fmt.Sprintf("%s on %d streams", op, active), lists...)
			for s := range active {
				if l.Stamps[s].Ops != 20 || l.Stamps[s].Bytes != 20*30_000 {
					t.Errorf("%s: stream %d: %d operations, %d bytes", op, s, l.Stamps[s].Ops, l.Stamps[s].Bytes)
				}
			}
		}
	}
}

func stampsCase(t T, c Config) {
	p := open(t, c, 1<<20, transports.EndpointOptions{})
	defer p.close()
	for _, op := range p.ta.Caps().Stream {
		for _, every := range []uint64{0, 1, 7} {
			s := stamps(1, 64)
			s[0].Every = every
			before := transports.Now()
			l := &transports.Loop{Op: op, Lists: []transports.List{one(500, 5, 0, 0)}, Depth: 4, Count: 33, Wait: transports.Adaptive, Stamps: s}
			if err := p.loop(l, false); err != nil {
				t.Fatalf("%s: %v", op, err)
			}
			after := transports.Now()
			want := 33
			if every == 7 {
				want = 5 // after 7, 14, 21, 28 and the last
			}
			if s[0].N != want || s[0].Ops != 33 {
				t.Errorf("%s, one stamp every %d: %d stamps for %d operations, want %d for 33", op, every, s[0].N, s[0].Ops, want)
			}
			last := s[0].Start
			if last < before {
				t.Errorf("%s: the first post at %d, before the loop at %d", op, last, before)
			}
			for i, at := range s[0].At[:s[0].N] {
				if at < last || at > after {
					t.Errorf("%s: stamp %d is %d, after %d and before %d expected", op, i, at, last, after)
				}
				last = at
			}
		}
	}
}

func deadlineCase(t T, c Config) {
	p := open(t, c, 1<<20, transports.EndpointOptions{})
	defer p.close()
	for _, op := range p.ta.Caps().Stream {
		list := one(4096, 4, 0, 0)
		p.fill()
		l := &transports.Loop{Op: op, Lists: []transports.List{list}, Depth: 4, Deadline: transports.Now() + 50e6, Wait: transports.Adaptive, Stamps: stamps(1, 1<<20)}
		if err := p.loop(l, false); err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		if over := transports.Now() - l.Deadline; over < 0 || over > 5e9 {
			t.Errorf("%s: the loop ended %d ns after its deadline", op, over)
		}
		// A machine that is slow enough comes to its first operations alone.
		done := int(min(l.Stamps[0].Ops, 4))
		if done == 0 {
			t.Errorf("%s: no operation until the deadline", op)
			continue
		}
		p.check(op, fmt.Sprintf("%s until a deadline, %d operations", op, done), transports.List{Pieces: list.Pieces[:list.Ends[done-1]], Ends: list.Ends[:done]})
	}
}

// late starts loops whose deadline has passed before their first post, as a busy machine does: they move nothing or little, end
// without an error on both sides, and leave a good connection.
func late(t T, c Config) {
	p := open(t, c, 1<<20, transports.EndpointOptions{})
	defer p.close()
	for i := range 20 {
		for _, op := range p.ta.Caps().Stream {
			list := one(4096, 4, 0, 0)
			l := &transports.Loop{Op: op, Lists: []transports.List{list}, Depth: 4, Deadline: transports.Now() - 1, Wait: transports.Adaptive, Stamps: stamps(1, 64)}
			if i%2 == 1 { // now and then just before the end
				l.Deadline += 20_000
			}
			if err := p.loop(l, false); err != nil {
				t.Fatalf("%s: loop %d, whose deadline had passed: %v", op, i, err)
			}
			p.fill()
			l = &transports.Loop{Op: op, Lists: []transports.List{list}, Depth: 4, Count: 4, Wait: transports.Adaptive, Stamps: stamps(1, 4)}
			if err := p.loop(l, false); err != nil || l.Stamps[0].Ops != 4 {
				t.Fatalf("%s: after loop %d, whose deadline had passed: %d operations of 4, %v", op, i, l.Stamps[0].Ops, err)
			}
			p.check(op, string(op)+" after a loop whose deadline had passed", list)
		}
	}
}

// lateStart gives a loop a deadline that has passed when it begins, as on a machine that is busy: one operation is measured all the same.
func lateStart(t T, c Config) {
	p := open(t, c, 1<<16, transports.EndpointOptions{})
	defer p.close()
	for _, op := range p.ta.Caps().Stream {
		for _, ping := range []bool{false, true} {
			if ping && !supported(p.ta.Caps().PingPong, op) {
				continue
			}
			l := &transports.Loop{Op: op, Lists: []transports.List{one(64, 1, 0, 0)}, Depth: 1, Deadline: transports.Now() - 1, ReplyOffset: 1 << 15, Wait: transports.Adaptive, Stamps: stamps(1, 4)}
			if err := p.loop(l, ping); err != nil || l.Stamps[0].Ops != 1 {
				t.Errorf("%s, ping-pong %v, with a deadline that has passed: %d operations instead of one, %v", op, ping, l.Stamps[0].Ops, err)
			}
		}
	}
}

func stopInitiator(t T, c Config) {
	p := open(t, c, 1<<20, transports.EndpointOptions{})
	defer p.close()
	for _, op := range p.ta.Caps().Stream {
		stop := new(atomic.Uint32)
		l := &transports.Loop{Op: op, Lists: []transports.List{one(4096, 1, 0, 0)}, Depth: 4, Deadline: transports.Now() + 20e9, Stop: stop, Wait: transports.Adaptive}
		time.AfterFunc(30*time.Millisecond, func() { stop.Store(1) })
		start := time.Now()
		if err := p.loop(l, false); err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: the stop word took %v", op, took)
		}
	}
}

func stopServe(t T, c Config) {
	p := open(t, c, 1<<16, transports.EndpointOptions{})
	defer p.close()
	for _, wait := range []transports.Wait{transports.Adaptive, transports.Block, transports.Spin} {
		stop := new(atomic.Uint32)
		done := make(chan error, 1)
		go func() {
			done <- p.b.Serve(&transports.Loop{Op: p.tb.Caps().Stream[0], Lists: []transports.List{one(64, 1, 0, 0)}, Depth: 1, Stop: stop, Wait: wait})
		}()
		time.Sleep(20 * time.Millisecond)
		stop.Store(1)
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", wait, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the stop word does not end a serve", wait)
		}
	}
}

func fullStamps(t T, c Config) {
	p := open(t, c, 1<<16, transports.EndpointOptions{})
	defer p.close()
	for _, op := range p.ta.Caps().Stream {
		l := &transports.Loop{Op: op, Lists: []transports.List{one(64, 1, 0, 0)}, Depth: 4, Deadline: transports.Now() + 20e9, Wait: transports.Adaptive, Stamps: stamps(1, 10)}
		if err := p.loop(l, false); err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		if l.Stamps[0].N != 10 || l.Stamps[0].Ops != 10 {
			t.Errorf("%s: %d stamps and %d operations where there is room for 10", op, l.Stamps[0].N, l.Stamps[0].Ops)
		}
	}
}

func pingpong(t T, c Config) {
	p := open(t, c, 4<<20, transports.EndpointOptions{})
	defer p.close()
	const reply = 2 << 20
	for _, op := range p.ta.Caps().PingPong {
		for _, wait := range []transports.Wait{transports.Adaptive, transports.Block} {
			for _, size := range []uint64{1, 64, 5000, 1 << 20} {
				what := fmt.Sprintf("%s ping-pong of %d bytes, %s", op, size, wait)
				list := one(size, 1, 64, 128)
				p.fill()
				l := &transports.Loop{Op: op, Lists: []transports.List{list}, Depth: 1, Count: 9, ReplyOffset: reply, Wait: wait, Stamps: stamps(1, 16)}
				if err := p.loop(l, true); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if l.Stamps[0].N != 9 {
					t.Errorf("%s: %d stamps for 9 round trips", what, l.Stamps[0].N)
				}
				p.checkEcho(list, reply, what)
			}
		}
	}
}

// checkEcho compares what a ping-pong left, but for the last byte of each message, which a transport may use as its mark.
func (p *pair) checkEcho(list transports.List, reply uint64, what string) {
	p.t.Helper()
	wantA, wantB := bytes.Clone(p.srcA), bytes.Clone(p.srcB)
	a, b := make([]byte, len(wantA)), make([]byte, len(wantB))
	if p.ba.CopyOut(0, a) != nil || p.bb.CopyOut(0, b) != nil {
		p.t.Fatalf("%s: cannot read back", what)
	}
	for _, q := range list.Pieces {
		copy(wantB[q.Remote:q.Remote+q.Length], wantA[q.Local:])
		copy(wantA[q.Local+reply:q.Local+reply+q.Length], wantA[q.Local:q.Local+q.Length])
		for _, at := range []struct{ got, want []byte }{{a, wantA}, {b, wantB}} {
			for _, i := range []uint64{q.Local + q.Length - 1, q.Local + reply + q.Length - 1, q.Remote + q.Length - 1} {
				at.got[i], at.want[i] = 0, 0
			}
		}
	}
	for _, side := range []struct {
		name      string
		got, want []byte
	}{{"the initiator's", a, wantA}, {"the target's", b, wantB}} {
		for i := range side.got {
			if side.got[i] != side.want[i] {
				p.t.Errorf("%s: %s buffer differs first at byte %d", what, side.name, i)
				break
			}
		}
	}
}

func notification(t T, c Config) {
	p := open(t, c, 1<<20, transports.EndpointOptions{})
	defer p.close()
	for _, op := range p.ta.Caps().Stream {
		list := one(8192, 3, 0, 64)
		p.fill()
		l := &transports.Loop{Op: op, Lists: []transports.List{list}, Depth: 1, Count: 12, Notify: true, Wait: transports.Adaptive, Stamps: stamps(1, 16)}
		err := p.loop(l, false)
		if !p.ta.Caps().Notify {
			if err == nil || !classed(err) {
				t.Errorf("%s with notification is not claimed: %v", op, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("%s with notification: %v", op, err)
		}
		if l.Stamps[0].Ops != 12 {
			t.Errorf("%s: %d operations of 12", op, l.Stamps[0].Ops)
		}
		p.check(op, string(op)+" with notification", list)
	}
}

func bothWays(t T, c Config) {
	p := open(t, c, 1<<20, transports.EndpointOptions{})
	defer p.close()
	// The sides change places on one connection: what was the target initiates.
	p.a, p.b = p.b, p.a
	p.ba, p.bb = p.bb, p.ba
	p.fill()
	op := p.ta.Caps().Stream[0]
	list := one(3000, 2, 0, 50)
	l := &transports.Loop{Op: op, Lists: []transports.List{list}, Depth: 2, Count: 6, Wait: transports.Adaptive, Stamps: stamps(1, 8)}
	if err := p.loop(l, false); err != nil {
		t.Errorf("the passive side cannot initiate: %v", err)
	} else {
		p.check(op, "the other way", list)
	}
	p.a, p.b = p.b, p.a
	p.ba, p.bb = p.bb, p.ba
}

func pace(t T, c Config) {
	p := open(t, c, 1<<20, transports.EndpointOptions{})
	defer p.close()
	op := p.ta.Caps().Stream[0]
	l := &transports.Loop{Op: op, Lists: []transports.List{one(10_000, 1, 0, 0)}, Depth: 4, Count: 21, BytesPerSecond: 1e6, Wait: transports.Adaptive, Stamps: stamps(1, 32)}
	if err := p.loop(l, false); err != nil {
		t.Fatalf("%v", err)
	}
	s := &l.Stamps[0]
	// The twenty-first post is due 20 * 10,000 bytes after the first: 200 ms. A slow machine may take longer, never less.
	if took := s.At[s.N-1] - s.Start; took < 199e6 {
		t.Errorf("21 operations of 10 kB at 1 MB/s took %.0f ms; they cannot take less than 200", float64(took)/1e6)
	}
}

func follow(t T, c Config) {
	p := open(t, c, 1<<20, transports.EndpointOptions{Streams: 2})
	defer p.close()
	for i := range 40 {
		op := p.ta.Caps().Stream[i%len(p.ta.Caps().Stream)]
		ping := i%3 == 2 && supported(p.ta.Caps().PingPong, op)
		lists := []transports.List{one(900, 2, 0, 0), one(900, 2, 1<<18, 1<<18)}[:1+i%2]
		l := &transports.Loop{Op: op, Lists: lists, Depth: 2, Count: uint64(1 + i%5), ReplyOffset: 1 << 19, Wait: transports.Adaptive, Stamps: stamps(len(lists), 8)}
		if err := p.loop(l, ping); err != nil {
			t.Fatalf("loop %d, %s: %v", i, op, err)
		}
	}
}

func outside(t T, c Config) {
	p := open(t, c, 1<<16, transports.EndpointOptions{})
	defer p.close()
	for _, op := range p.ta.Caps().Stream {
		for _, bad := range []transports.Piece{
			{Local: 1<<16 - 10, Remote: 0, Length: 11}, {Local: 0, Remote: 1<<16 - 10, Length: 11}, {Local: 0, Remote: 1 << 63, Length: 1 << 63},
			{Local: ^uint64(0), Remote: 0, Length: 2}, {Local: 0, Remote: 0, Length: 0},
		} {
			list := transports.List{Pieces: []transports.Piece{bad}, Ends: []uint32{1}}
			if err := p.a.Stream(&transports.Loop{Op: op, Lists: []transports.List{list}, Depth: 1, Count: 1, Wait: transports.Adaptive}); err == nil {
				t.Errorf("%s: a piece of %d bytes at %d and %d of %d was let through", op, bad.Length, bad.Local, bad.Remote, 1<<16)
			}
		}
	}
	// The connection is still good: nothing was sent.
	list := one(64, 1, 0, 0)
	if err := p.loop(&transports.Loop{Op: p.ta.Caps().Stream[0], Lists: []transports.List{list}, Depth: 1, Count: 1, Wait: transports.Adaptive}, false); err != nil {
		t.Errorf("after refused loops: %v", err)
	}
}

func closing(t T, c Config) {
	p := open(t, c, 1<<16, transports.EndpointOptions{})
	defer p.close()
	if p.ta.Close() == nil {
		t.Errorf("a transport closed under an open region")
	}
	if p.ra.Close() == nil {
		t.Errorf("a region closed under an open endpoint")
	}
	if err := p.a.Close(); err != nil {
		t.Errorf("close an endpoint: %v", err)
	}
	if err := p.a.Close(); err != nil {
		t.Errorf("close an endpoint twice: %v", err)
	}
	if p.a.Stream(&transports.Loop{Op: transports.Write, Lists: []transports.List{one(64, 1, 0, 0)}, Depth: 1, Count: 1, Wait: transports.Adaptive}) == nil {
		t.Errorf("a loop ran on a closed endpoint")
	}
}

// gone closes the target's side under a loop: it ends within the stall limit, with an error or, where the target's program takes
// no part, with all operations confirmed.
func gone(t T, c Config) {
	p := open(t, c, 1<<20, transports.EndpointOptions{StallSeconds: 1})
	defer p.close()
	op := p.ta.Caps().Stream[0]
	stop := new(atomic.Uint32)
	served := make(chan error, 1)
	lists := []transports.List{one(4096, 2, 0, 0)}
	go func() {
		served <- p.b.Serve(&transports.Loop{Op: op, Lists: lists, Depth: 2, Stop: stop, Wait: transports.Adaptive})
	}()
	time.AfterFunc(50*time.Millisecond, func() { stop.Store(1) })
	start := time.Now()
	halt := new(atomic.Uint32)
	time.AfterFunc(300*time.Millisecond, func() { halt.Store(1) })
	err := p.a.Stream(&transports.Loop{Op: op, Lists: lists, Depth: 2, Deadline: transports.Now() + 30e9, Stop: halt, Wait: transports.Adaptive})
	if took := time.Since(start); took > 12*time.Second {
		t.Errorf("the loop took %v with its peer gone and a stall limit of 1 s: %v", took, err)
	}
	if err != nil && !classed(err) {
		t.Errorf("the error has no class: %v", err)
	}
	<-served
}
