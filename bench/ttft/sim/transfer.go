package sim

import "math"

// speed is the rate of a demand alone on the link. It is finite, so that the
// fabric's arithmetic stays so: a demand without duration takes about none.
func speed(d Demand) float64 {
	t := d.Seconds - d.Latency
	if t <= 0 {
		return 1e18
	}
	return min(1e18, d.Bytes/t)
}

// demand is that of a prompt's tokens which are not on their way yet, up to to.
func (m *machine) demand(r *request, to int32) Demand {
	if to <= r.sent {
		return Demand{}
	}
	d := m.c.Wire.Demand(int(r.sent), int(to))
	d.Latency *= r.slow
	d.Seconds *= r.slow
	return d
}

// ready makes what an iteration has computed ready to cross.
func (m *machine) ready(id int32) {
	r := &m.slots[id]
	d := m.demand(r, r.computed)
	s := &m.c.Serving
	bytes := d.Bytes
	if s.Overlap == Layerwise && s.Layers > 1 {
		bytes /= float64(s.Layers) // the others went before
	}
	r.sent = max(r.sent, r.computed)
	r.pending += bytes
	r.limit, r.latency = speed(d), d.Latency
	if r.flowing && m.inFabric(id) {
		// What was held to the pace of the layers may now go as fast as it can.
		m.fabric.advance(m.now)
		m.fabric.start(id, 0, 0, 0, r.limit)
		m.fabric.divide()
	}
	m.pump(id)
}

func (m *machine) inFabric(id int32) bool {
	return int(id) < len(m.fabric.where) && m.fabric.where[id] >= 0
}

// pump begins or goes on with a transfer, as far as it may.
func (m *machine) pump(id int32) {
	r := &m.slots[id]
	if !r.hasBlocks || (m.c.Serving.Pull && !r.prefilled) {
		return
	}
	switch {
	case r.pending > 0 && m.inFabric(id):
		m.flow(id)
	case r.pending > 0 && !r.flowing:
		r.flowing = true
		m.begin(r)
		if r.latency > 0 {
			m.events.add(m.now+r.latency, evActive, id, 0)
		} else {
			m.flow(id)
		}
	case r.pending == 0 && !r.flowing && r.prefilled:
		m.begin(r)
		m.transferred(id)
	}
}

func (m *machine) begin(r *request) {
	if !r.started {
		r.started, r.xStart = true, m.now
	}
}

// activate ends a transfer's latency.
func (m *machine) activate(id int32) { m.flow(id) }

// flow puts what is pending on the links. The slowest rank's factor stretches
// the bytes' time however the links are shared, so the fabric is given that
// many bytes more, at the same rate.
func (m *machine) flow(id int32) {
	r := &m.slots[id]
	out, in := int32(max(1, m.c.Wire.EgressLanes)), int32(max(1, m.c.Wire.IngressLanes))
	m.fabric.advance(m.now)
	m.fabric.start(id, r.pw*out+r.lane%out, r.dw*in+r.lane%in, r.pending*r.slow, r.limit*r.slow)
	r.pending = 0
	m.fabric.divide()
}

// flowsEnd takes all transfers off the links whose bytes have crossed.
func (m *machine) flowsEnd() {
	m.fabric.advance(m.now)
	// Collect first: what follows an end may start another flow.
	var few [16]int32
	ended := few[:0]
	for id := m.fabric.ended(); id >= 0; id = m.fabric.ended() {
		ended = append(ended, id)
	}
	if len(ended) == 0 {
		// Rounding put the end before the last bit of the bytes: step one bit on.
		m.fabric.next = math.Nextafter(m.now, math.Inf(1))
		return
	}
	m.fabric.divide()
	for _, id := range ended {
		r := &m.slots[id]
		r.flowing = false
		if r.prefilled && r.sent >= r.input && r.pending == 0 {
			m.transferred(id)
		}
	}
}

// transferred ends a request's transfer: prefill has its blocks back and decode
// will see it at its next boundary.
func (m *machine) transferred(id int32) {
	r := &m.slots[id]
	r.xEnd = m.now
	w := &m.decode[r.dw]
	w.cache.use(r.blocks)
	r.seen = m.nextBoundary(r.dw)
	w.arrived.push(id)
	m.wake(r.dw)
	m.release(id)
}
