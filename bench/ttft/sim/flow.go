package sim

import "math"

// flow is one request's transfer while its bytes flow.
type flow struct {
	req     int32
	egress  int32 // lane of its prefill worker
	ingress int32 // lane of its decode worker
	left    float64
	size    float64 // of what was last added, the scale for rounding
	limit   float64 // the most bytes/s that it can take, alone on the link
	rate    float64
	done    bool // its rate is settled in the present division
}

// fabric divides links among flows, max-min fair: no flow can be given more
// without taking from one that has no more than it. The limits are each flow's
// own, its egress lane's, its ingress lane's, and the spine's.
type fabric struct {
	flows   []flow
	where   []int32 // request -> index in flows, -1 when none
	now     float64
	next    float64 // when the first flow ends; +Inf without flows
	egress  side
	ingress side
	spine   float64

	// busy integrates, over time, used capacity / capacity of each part.
	busyEgress, busyIngress, busySpine float64
}

// side is one end of the links: lanes of equal capacity.
type side struct {
	capacity []float64 // by number of flows, from 1; empty: no limit
	flows    []int32   // by lane: all flows, and those not settled yet
	open     []int32
	left     []float64 // by lane: capacity not given out yet
}

func newSide(capacity []float64, lanes int) side {
	return side{capacity: capacity, flows: make([]int32, lanes), open: make([]int32, lanes), left: make([]float64, lanes)}
}

func (s *side) at(n int32) float64 {
	if len(s.capacity) == 0 {
		return math.Inf(1)
	}
	return s.capacity[min(int(n), len(s.capacity))-1]
}

// share is what each unsettled flow of the lane would get now.
func (s *side) share(lane int32) float64 {
	if len(s.capacity) == 0 {
		return math.Inf(1)
	}
	return s.left[lane] / float64(s.open[lane])
}

// start adds bytes to a request's transfer, or begins it.
func (f *fabric) start(id, egress, ingress int32, bytes, limit float64) {
	for int(id) >= len(f.where) {
		f.where = append(f.where, -1)
	}
	if i := f.where[id]; i >= 0 {
		f.flows[i].left += bytes
		f.flows[i].size = max(f.flows[i].size, bytes)
		f.flows[i].limit = limit
		return
	}
	f.where[id] = int32(len(f.flows))
	f.flows = append(f.flows, flow{req: id, egress: egress, ingress: ingress, left: bytes, size: bytes, limit: limit})
	f.egress.flows[egress]++
	f.ingress.flows[ingress]++
}

// advance moves all flows to a time. Rates have not changed since f.now.
func (f *fabric) advance(to float64) {
	dt := to - f.now
	f.now = to
	if dt <= 0 || len(f.flows) == 0 {
		return
	}
	total := 0.0
	for i := range f.flows {
		fl := &f.flows[i]
		fl.left -= fl.rate * dt
		total += fl.rate
		if len(f.egress.capacity) > 0 {
			f.busyEgress += dt * fl.rate / f.egress.at(f.egress.flows[fl.egress])
		}
		if len(f.ingress.capacity) > 0 {
			f.busyIngress += dt * fl.rate / f.ingress.at(f.ingress.flows[fl.ingress])
		}
	}
	if f.spine > 0 {
		f.busySpine += dt * total / f.spine
	}
}

// ended removes and returns one request whose bytes have all crossed, or -1.
func (f *fabric) ended() int32 {
	for i := range f.flows {
		fl := &f.flows[i]
		// A float of the size of now cannot hold a smaller time than its last
		// bit: what would take less than that is over.
		if fl.left > 1e-9*fl.size && fl.left > fl.rate*f.now*4e-16 {
			continue
		}
		id := fl.req
		f.egress.flows[fl.egress]--
		f.ingress.flows[fl.ingress]--
		f.where[id] = -1
		last := len(f.flows) - 1
		if i != last {
			f.flows[i] = f.flows[last]
			f.where[f.flows[i].req] = int32(i)
		}
		f.flows = f.flows[:last]
		return id
	}
	return -1
}

// divide settles all rates by progressive filling and finds the next end.
func (f *fabric) divide() {
	f.next = math.Inf(1)
	n := len(f.flows)
	if n == 0 {
		return
	}
	for i := range f.flows {
		fl := &f.flows[i]
		fl.done = false
		f.egress.open[fl.egress] = f.egress.flows[fl.egress]
		f.egress.left[fl.egress] = f.egress.at(f.egress.flows[fl.egress])
		f.ingress.open[fl.ingress] = f.ingress.flows[fl.ingress]
		f.ingress.left[fl.ingress] = f.ingress.at(f.ingress.flows[fl.ingress])
	}
	spine, open := f.spine, n
	for open > 0 {
		// The smallest share among all parts that still have an unsettled flow.
		least := math.Inf(1)
		if f.spine > 0 {
			least = spine / float64(open)
		}
		bySpine := f.spine > 0
		for i := range f.flows {
			fl := &f.flows[i]
			if fl.done {
				continue
			}
			if s := min(f.egress.share(fl.egress), f.ingress.share(fl.ingress)); s < least {
				least, bySpine = s, false
			}
		}
		// Flows that want no more than that are given what they want.
		settled := false
		for i := range f.flows {
			if fl := &f.flows[i]; !fl.done && fl.limit <= least {
				f.settle(fl, fl.limit, &spine)
				open--
				settled = true
			}
		}
		if settled {
			continue
		}
		// Otherwise the part with the smallest share is full: its flows have it.
		const rounding = 1 + 1e-12
		for i := range f.flows {
			fl := &f.flows[i]
			if fl.done {
				continue
			}
			if bySpine || f.egress.share(fl.egress) <= least*rounding || f.ingress.share(fl.ingress) <= least*rounding {
				f.settle(fl, least, &spine)
				open--
			}
		}
	}
	for i := range f.flows {
		fl := &f.flows[i]
		if end := f.now + max(0, fl.left)/fl.rate; end < f.next {
			f.next = end
		}
	}
}

func (f *fabric) settle(fl *flow, rate float64, spine *float64) {
	fl.rate, fl.done = rate, true
	f.egress.left[fl.egress] -= rate
	f.egress.open[fl.egress]--
	f.ingress.left[fl.ingress] -= rate
	f.ingress.open[fl.ingress]--
	*spine -= rate
}
