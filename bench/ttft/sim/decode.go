package sim

import "math"

// decodeWorker generates tokens in steps, one for each request of its batch.
// Its steps are not simulated one by one: between two changes of the batch all
// steps take the same time, so only boundaries at which something happens are visited.
type decodeWorker struct {
	since    float64 // the boundary from which the present step time holds
	steps    int64   // steps done at that boundary
	step     float64 // time of a step of the present batch
	batch    int
	ends     []ending // heap of the batch's last steps
	asking   fifo     // wait for blocks
	arrived  fifo     // transferred, wait to be seen and to join
	used     int      // tokens of the pool
	expected int64    // tokens of the requests routed here and not ended
	cache    *lru
	next     float64 // time of the boundary event that is due; +Inf for none
	mark     uint32  // of that event
}

// ending says in which step a request has its last token.
type ending struct {
	step int64
	id   int32
}

// chooseDecode takes the worker with the least tokens routed to it.
func (m *machine) chooseDecode() int32 {
	n := int32(len(m.decode))
	best := m.turn % n
	for k := int32(1); k < n; k++ {
		if w := (m.turn + k) % n; m.decode[w].expected < m.decode[best].expected {
			best = w
		}
	}
	return best
}

// toDecode brings a request to its decode worker, where it asks for blocks.
func (m *machine) toDecode(id int32) {
	r := &m.slots[id]
	if r.dw < 0 {
		r.dw = m.chooseDecode()
		m.decode[r.dw].expected += int64(r.input + r.output)
	}
	if r.expired {
		m.decode[r.dw].expected -= int64(r.input + r.output)
		m.leave(id)
		return
	}
	m.skip(r)
	r.want = m.nextBoundary(r.dw)
	m.decode[r.dw].asking.push(id)
	m.wake(r.dw)
}

// nextBoundary is when the worker next looks up from its step: now if it is
// idle, or if the model does not wait for steps.
func (m *machine) nextBoundary(wi int32) float64 {
	w := &m.decode[wi]
	if w.batch == 0 || !m.c.Serving.Aligned {
		return m.now
	}
	k := math.Ceil((m.now-w.since)/w.step - 1e-9)
	return max(m.now, w.since+k*w.step)
}

// wake makes sure that the worker looks up at its next boundary.
func (m *machine) wake(wi int32) { m.due(wi, m.nextBoundary(wi)) }

func (m *machine) due(wi int32, at float64) {
	w := &m.decode[wi]
	if w.next <= at {
		return
	}
	w.next = at
	w.mark++
	m.events.add(at, evBoundary, wi, w.mark)
}

// boundary is a worker between two steps: it lets go of what has ended, gives
// blocks to those who ask, takes in what has arrived, and goes on.
func (m *machine) boundary(wi int32) {
	w := &m.decode[wi]
	w.next = math.Inf(1)
	if w.batch > 0 {
		// Where the model does not wait for steps this may lie inside one: then
		// only whole steps are counted.
		k := math.Floor((m.now-w.since)/w.step + 1e-6)
		w.steps += int64(k)
		m.stats.decodeBusy += k * w.step
		w.since += k * w.step
		if m.c.Serving.Aligned {
			w.since = m.now
		}
	} else {
		w.since = m.now
	}
	for len(w.ends) > 0 && w.ends[0].step <= w.steps {
		id := w.popEnd()
		w.batch--
		m.stats.batchArea(m.now, -1)
		m.finished(id)
	}
	m.grant(wi)
	for m.join(wi) { // who ended in joining gave blocks back
		m.grant(wi)
	}
	if w.batch > 0 {
		w.step = m.c.Decode.Step(w.batch)
		m.due(wi, max(m.now, w.since+float64(w.ends[0].step-w.steps)*w.step))
	}
}

// grant reserves blocks in order of asking, as long as they fit.
func (m *machine) grant(wi int32) {
	w := &m.decode[wi]
	for w.asking.n > 0 {
		id := w.asking.front()
		r := &m.slots[id]
		need := int(r.input + r.output)
		if r.expired {
			w.asking.pop()
			w.expected -= int64(need)
			m.leave(id)
			continue
		}
		if p := m.c.Decode.Pool; p > 0 && w.used+need > p {
			return
		}
		w.asking.pop()
		w.used += need
		m.stats.hold(m.now, 0, need)
		r.granted, r.hasBlocks = m.now, true
		if m.c.Serving.Concurrent {
			m.events.add(m.now+m.c.Serving.Handover, evPrefill, id, 0)
		} else {
			m.pump(id)
		}
	}
}

// skip leaves out of the transfer what decode holds from earlier requests.
func (m *machine) skip(r *request) {
	c := m.decode[r.dw].cache
	if c == nil || len(r.blocks) == 0 {
		return
	}
	have := min(int32(c.prefix(r.blocks))*r.blockTokens, r.input)
	m.stats.heldTokens += int64(have)
	r.sent = have
	if r.prefilled { // all was ready to cross: now only the rest is
		d := m.demand(r, r.input)
		r.pending, r.limit, r.latency = d.Bytes, speed(d), d.Latency
		r.sent = r.input
	}
}

// join takes what has arrived into the batch, in order, as far as it has room,
// and says whether any ended at once: a forwarded token that was also the last.
func (m *machine) join(wi int32) (ended bool) {
	w := &m.decode[wi]
	s := &m.c.Serving
	from := w.batch
	for w.arrived.n > 0 && (m.c.Decode.Batch == 0 || w.batch < m.c.Decode.Batch) {
		id := w.arrived.pop()
		r := &m.slots[id]
		if s.Forwarded {
			m.stats.first(m, r, m.now, m.now)
			if r.output == 1 {
				m.finished(id)
				ended = true
				continue
			}
			w.pushEnd(ending{w.steps + int64(r.output) - 1, id})
		} else {
			w.pushEnd(ending{w.steps + int64(r.output), id})
			m.joined = append(m.joined, id)
		}
		w.batch++
		m.stats.batchArea(m.now, 1)
	}
	if len(m.joined) > 0 {
		// The step that they share is as long as its whole batch makes it.
		step := m.c.Decode.Step(w.batch)
		for _, id := range m.joined {
			m.stats.first(m, &m.slots[id], m.now, m.now+step)
		}
		m.joined = m.joined[:0]
	}
	if from == 0 && w.batch > 0 {
		w.since = m.now
	}
	return ended
}

// finished ends a request that has its last token.
func (m *machine) finished(id int32) {
	r := &m.slots[id]
	w := &m.decode[r.dw]
	need := int(r.input + r.output)
	w.used -= need
	w.expected -= int64(need)
	m.stats.hold(m.now, 0, -need)
	m.stats.completed++
	m.leave(id)
}

// leaseEnds takes a prompt's blocks back whose pull has not begun.
func (m *machine) leaseEnds(id int32) {
	r := &m.slots[id]
	if r.started {
		return
	}
	// Its slot stays until decode comes to it.
	r.expired = true
	m.stats.expired++
	m.release(id)
}

func (w *decodeWorker) pushEnd(e ending) {
	w.ends = append(w.ends, e)
	i := len(w.ends) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !e.before(w.ends[p]) {
			break
		}
		w.ends[i] = w.ends[p]
		i = p
	}
	w.ends[i] = e
}

func (w *decodeWorker) popEnd() int32 {
	top := w.ends[0]
	n := len(w.ends) - 1
	e := w.ends[n]
	w.ends = w.ends[:n]
	i := 0
	for n > 0 {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && w.ends[c+1].before(w.ends[c]) {
			c++
		}
		if !w.ends[c].before(e) {
			break
		}
		w.ends[i] = w.ends[c]
		i = c
	}
	if n > 0 {
		w.ends[i] = e
	}
	return top.id
}

func (e ending) before(o ending) bool {
	if e.step != o.step {
		return e.step < o.step
	}
	return e.id < o.id
}
