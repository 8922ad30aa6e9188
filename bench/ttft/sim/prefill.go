package sim

// prefillWorker computes prompts in iterations, each a batch of chunks.
type prefillWorker struct {
	waiting fifo
	batch   []int32 // requests of the present iteration
	partial []int32 // prompts that are begun and not done, in order
	busy    bool
	tokens  int64 // queued or computing, for the router
	used    int   // tokens of the pool
	cache   *lru
}

// toPrefill queues a request at the worker that should have it computed first:
// the one with the least tokens before it and of it, its cache counted.
func (m *machine) toPrefill(id int32) {
	r := &m.slots[id]
	n := int32(len(m.prefill))
	best, least := int32(0), int64(0)
	for k := range n {
		w := (m.turn + k) % n
		t := m.prefill[w].tokens + int64(r.input) - int64(m.cached(w, r))
		if k == 0 || t < least {
			best, least = w, t
		}
	}
	m.turn = (m.turn + 1) % n
	w := &m.prefill[best]
	r.pw = best
	w.tokens += int64(r.input)
	w.waiting.push(id)
	if !w.busy {
		m.iterate(best)
	}
}

// cached is the number of the prompt's tokens that the worker need not compute.
// The last token is always computed: its result is what the client waits for.
func (m *machine) cached(w int32, r *request) int32 {
	c := m.prefill[w].cache
	if c == nil || len(r.blocks) == 0 {
		return 0
	}
	return min(int32(c.prefix(r.blocks))*r.blockTokens, r.input-1)
}

// iterate begins the worker's next iteration, if there is work that fits.
func (m *machine) iterate(wi int32) {
	w := &m.prefill[wi]
	p := &m.c.Prefill
	room := int32(1<<31 - 1)
	if p.Budget > 0 {
		room = int32(min(p.Budget, 1<<31-1))
	}
	w.batch = w.batch[:0]
	duration, begins := 0.0, false
	take := func(id int32) {
		r := &m.slots[id]
		r.chunk = min(room, r.input-r.computed)
		room -= r.chunk
		duration += p.Work(int(r.computed+r.chunk)) - p.Work(int(r.computed))
		w.batch = append(w.batch, id)
	}
	full := func() bool { return room == 0 || p.Prompts > 0 && len(w.batch) >= p.Prompts }
	for _, id := range w.partial {
		if full() {
			break
		}
		take(id)
	}
	for w.waiting.n > 0 && !full() {
		id := w.waiting.front()
		r := &m.slots[id]
		if p.Pool > 0 && w.used+int(r.input) > p.Pool {
			break // blocks come back in order: no later prompt may overtake
		}
		w.waiting.pop()
		m.stats.hold(m.now, int(r.input), 0)
		w.used += int(r.input)
		r.held = r.input
		r.computed = m.cached(wi, r)
		w.tokens -= int64(r.computed)
		m.stats.cachedTokens += int64(r.computed)
		r.pStart = m.now
		w.partial = append(w.partial, id)
		begins = true
		take(id)
	}
	if len(w.batch) == 0 {
		return
	}
	if begins {
		duration += p.Floor
	}
	w.busy = true
	m.stats.prefillBusy += duration
	m.stats.iterations++
	m.stats.begun += int64(len(w.batch))
	if s := &m.c.Serving; s.Overlap == Layerwise && s.Layers > 1 {
		first := duration / float64(s.Layers)
		for _, id := range w.batch {
			r := &m.slots[id]
			d := m.demand(r, r.computed+r.chunk)
			r.latency = d.Latency
			// Layers are made at this rate; a transfer cannot be ahead of them.
			r.limit = min(speed(d), d.Bytes/duration)
			m.events.add(m.now+first, evLayers, id, 0)
		}
	}
	m.events.add(m.now+duration, evIteration, wi, 0)
}

// layersReady is after the first layer of an iteration: what remains until its
// end is one layer's KV.
func (m *machine) layersReady(id int32) {
	r := &m.slots[id]
	d := m.demand(r, r.computed+r.chunk)
	l := float64(m.c.Serving.Layers)
	r.pending += d.Bytes * (l - 1) / l
	if m.inFabric(id) {
		r.limit = speed(d) // behind the layers: nothing to wait for
	}
	m.pump(id)
}

// iterationEnds hands on what was computed and begins the next iteration.
func (m *machine) iterationEnds(wi int32) {
	w := &m.prefill[wi]
	s := &m.c.Serving
	keep := w.partial[:0]
	inBatch := len(w.batch) // the batch is the head of partial
	for i, id := range w.partial {
		r := &m.slots[id]
		if i >= inBatch {
			keep = append(keep, id)
			continue
		}
		r.computed += r.chunk
		w.tokens -= int64(r.chunk)
		if r.computed == r.input {
			r.pEnd, r.prefilled = m.now, true
			w.cache.use(r.blocks)
		} else {
			keep = append(keep, id)
		}
		if s.Overlap != Serial || r.prefilled {
			m.ready(id)
		}
		if r.prefilled {
			m.prefilled(id)
		}
	}
	w.partial = keep
	w.busy = false // not before: what ends above may look for an idle worker
	m.iterate(wi)
}

// prefilled tells decode of a prompt that is computed.
func (m *machine) prefilled(id int32) {
	r := &m.slots[id]
	s := &m.c.Serving
	if s.Pull && s.Lease > 0 {
		m.events.add(m.now+s.Lease, evLease, id, r.gen)
	}
	if !s.Concurrent {
		m.events.add(m.now+s.Handover, evDecode, id, 0)
	}
}

// release gives a prompt's blocks back to its prefill worker.
func (m *machine) release(id int32) {
	r := &m.slots[id]
	if r.held == 0 {
		return
	}
	w := &m.prefill[r.pw]
	m.stats.hold(m.now, -int(r.held), 0)
	w.used -= int(r.held)
	r.held = 0
	if !w.busy {
		m.iterate(r.pw)
	}
}
