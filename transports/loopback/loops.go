package loopback

import (
	"fmt"
	"math"
	"time"

	"hopbench/transports"
	"hopbench/transports/fault"
)

// stream copies operation after operation. There is nothing in flight: a copy is confirmed when it returns, and depth has no effect.
func (e *endpoint) stream(l *transports.Loop, s int, w *waiter) error {
	list, st := &l.Lists[s], l.Record(s)
	mine, theirs := e.region.Buffer().Bytes(), e.peer.region.Buffer().Bytes()
	there, here := &e.peer.words[s], &e.words[s]
	told := l.Notify || l.Op == transports.Send
	if told {
		if err := w.until(there, &there.serving, 1); err != nil {
			return fmt.Errorf("loopback: nobody serves: %w", err)
		}
	}
	count := min(limit(l.Count), st.Room())
	deadline := limit(uint64(l.Deadline))
	bytes, now := uint64(0), transports.Now()
	st.Start = now
	every := max(st.Every, 1) // reading the clock costs more than copying a small message
	done := uint64(0)
	for i := 0; done < count && (done == 0 || uint64(now) < deadline) && !w.stopped(); { // one operation at least: the thread may get its CPU late
		if l.BytesPerSecond > 0 {
			for due := st.Start + int64(float64(bytes)/l.BytesPerSecond*1e9); now < due; now = transports.Now() {
				time.Sleep(min(time.Duration(due-now), time.Millisecond))
			}
		}
		for _, p := range list.Op(i) {
			if l.Op == transports.Read {
				copy(mine[p.Local:p.Local+p.Length], theirs[p.Remote:p.Remote+p.Length])
			} else {
				copy(theirs[p.Remote:p.Remote+p.Length], mine[p.Local:p.Local+p.Length])
			}
			bytes += p.Length
		}
		if i++; i == len(list.Ends) {
			i = 0
		}
		if told {
			there.post(&there.arrived)
		}
		if l.Notify {
			if err := w.until(here, &here.answered, uint32(done+1)); err != nil {
				return err
			}
		}
		if done++; done%every == 0 {
			now = transports.Now()
			st.Complete(now, done, bytes)
		}
	}
	now = transports.Now()
	st.Complete(now, done, bytes)
	st.Finish(now)
	return e.end(s, w)
}

func (e *endpoint) pingpong(l *transports.Loop, s int, w *waiter) error {
	list, st := &l.Lists[s], l.Record(s)
	mine, theirs := e.region.Buffer().Bytes(), e.peer.region.Buffer().Bytes()
	there, here := &e.peer.words[s], &e.words[s]
	if err := w.until(there, &there.serving, 1); err != nil {
		return fmt.Errorf("loopback: nobody serves: %w", err)
	}
	count := min(limit(l.Count), st.Room())
	deadline := limit(uint64(l.Deadline))
	bytes, now := uint64(0), transports.Now()
	st.Start = now
	for op, i := uint64(0), 0; op < count && (op == 0 || uint64(now) < deadline) && !w.stopped(); op++ {
		for _, p := range list.Op(i) {
			copy(theirs[p.Remote:p.Remote+p.Length], mine[p.Local:p.Local+p.Length])
			bytes += p.Length
		}
		if i++; i == len(list.Ends) {
			i = 0
		}
		there.post(&there.arrived)
		if err := w.until(here, &here.answered, uint32(op+1)); err != nil {
			return err
		}
		now = transports.Now()
		st.Complete(now, op+1, bytes)
	}
	st.Finish(now)
	return e.end(s, w)
}

// end tells the serving side that the loop is over and waits until it has left: the next loop must not meet this one's Serve.
func (e *endpoint) end(s int, w *waiter) error {
	there := &e.peer.words[s]
	before := there.served.Load()
	there.ended.Store(1)
	there.post(&there.arrived)
	return w.until(there, &there.served, before+1)
}

// serve answers notifications and ping-pongs until the initiator's loop ends.
func (e *endpoint) serve(l *transports.Loop, s int, w *waiter) error {
	here, there := &e.words[s], &e.peer.words[s]
	list := &l.Lists[s]
	mine, theirs := e.region.Buffer().Bytes(), e.peer.region.Buffer().Bytes()
	w.serving = true
	there.answered.Store(0)
	here.serving.Store(1)
	defer func() {
		here.serving.Store(0)
		here.arrived.Store(0)
		here.ended.Store(0)
		here.post(&here.served)
	}()
	here.wake(&here.serving)
	for op := uint32(0); ; op++ {
		err := w.until(here, &here.arrived, op+1)
		if err == errStopped {
			return nil
		}
		if err != nil {
			return err
		}
		if here.ended.Load() != 0 && here.arrived.Load() == op+1 {
			return nil
		}
		if l.Echo {
			for _, p := range list.Op(int(op) % list.Ops()) {
				if l.ReplyOffset > uint64(len(theirs))-(p.Local+p.Length) {
					return fault.New(fault.CapabilityGap, "answer a ping-pong", "", "the answer lies outside the region")
				}
				copy(theirs[p.Local+l.ReplyOffset:p.Local+l.ReplyOffset+p.Length], mine[p.Remote:p.Remote+p.Length])
			}
		}
		if l.Echo || l.Notify {
			there.post(&there.answered)
		}
	}
}

// limit reads 0 as no limit.
func limit(n uint64) uint64 {
	if n == 0 {
		return math.MaxUint64
	}
	return n
}
