package sim

import (
	"fmt"
	"math"
	"math/rand/v2"

	"hopbench/bench/ttft/load"
)

// maxInFlight ends an open loop whose backlog would otherwise fill memory.
const maxInFlight = 200_000

// request is one request in flight. Its slot is used again after it has ended.
type request struct {
	index   int64 // in order of arrival, for the warm-up
	arrival float64
	pStart  float64 // first iteration begins
	pEnd    float64 // last token computed
	want    float64 // decode first looks for blocks for it
	granted float64 // decode has reserved them
	xStart  float64 // transfer begins
	xEnd    float64 // transfer ends
	seen    float64 // decode sees that

	input, output int32
	computed      int32  // tokens whose KV prefill has, cached ones included
	chunk         int32  // tokens of the present iteration
	sent          int32  // tokens whose KV is on its way, or held by decode
	held          int32  // tokens of the prefill pool
	pw, dw        int32  // workers
	lane          int32  // in turn; of a worker's lanes it takes this modulo their number
	gen           uint32 // of this slot

	blocks      []uint64
	blockTokens int32

	pending float64 // bytes ready to cross, waiting for the grant or for a latency
	limit   float64 // the transfer's own bytes/s
	latency float64
	slow    float64 // how much slower the slowest rank is than the median one

	prefilled bool // pEnd is set
	hasBlocks bool // granted is set
	started   bool // xStart is set
	flowing   bool // latency running, or bytes in the fabric
	expired   bool
}

// machine is the state of a run.
type machine struct {
	c      Config
	now    float64
	events agenda
	fabric fabric

	slots []request
	free  []int32
	alive int
	taken int64 // requests drawn from the load

	prefill []prefillWorker
	decode  []decodeWorker
	turn    int32 // spreads ties over the workers
	lane    int32

	chance *rand.Rand
	drawn  load.Request // the next arrival
	more   bool

	joined []int32 // scratch of join
	stats  stats
	err    error // ends the run
}

func newMachine(c Config) *machine {
	m := &machine{c: c, chance: rand.New(rand.NewPCG(c.Seed, 0x2545f4914f6cdd1d))}
	m.fabric = fabric{
		next:    math.Inf(1),
		spine:   c.Wire.Spine,
		egress:  newSide(c.Wire.Egress, c.Prefill.Workers*max(1, c.Wire.EgressLanes)),
		ingress: newSide(c.Wire.Ingress, c.Decode.Workers*max(1, c.Wire.IngressLanes)),
	}
	m.prefill = make([]prefillWorker, c.Prefill.Workers)
	for i := range m.prefill {
		m.prefill[i].cache = newLRU(c.Prefill.Cache)
	}
	m.decode = make([]decodeWorker, c.Decode.Workers)
	for i := range m.decode {
		m.decode[i].cache = newLRU(c.Decode.Cache)
		m.decode[i].next = math.Inf(1)
	}
	m.stats.init()
	return m
}

// run goes on until the load is used up and every request has ended.
func (m *machine) run() error {
	if m.c.Concurrency > 0 {
		for range m.c.Concurrency {
			m.replace()
		}
	} else if m.more = m.c.Load.Next(&m.drawn); m.more {
		m.events.add(m.drawn.Arrival, evArrive, 0, 0)
	}
	for m.err == nil {
		if len(m.events.heap) == 0 || m.fabric.next < m.events.heap[0].at {
			if math.IsInf(m.fabric.next, 1) {
				return m.stuck()
			}
			m.now = m.fabric.next
			m.flowsEnd()
			continue
		}
		e := m.events.pop()
		m.now = e.at
		m.handle(e)
	}
	return m.err
}

func (m *machine) handle(e event) {
	switch e.kind {
	case evArrive:
		m.arrive()
	case evPrefill:
		m.toPrefill(e.id)
	case evIteration:
		m.iterationEnds(e.id)
	case evDecode:
		m.toDecode(e.id)
	case evLayers:
		m.layersReady(e.id)
	case evActive:
		m.activate(e.id)
	case evBoundary:
		if m.decode[e.id].mark == e.mark {
			m.boundary(e.id)
		}
	case evLease:
		if m.slots[e.id].gen == e.mark {
			m.leaseEnds(e.id)
		}
	}
}

// arrive takes the next request of an open loop in, unless the queue before it
// is seen to have no end.
func (m *machine) arrive() {
	if m.alive >= maxInFlight {
		m.err = m.stats.overload(m, 0)
		return
	}
	if n := m.taken; m.c.Steady && n >= 1024 && n&(n-1) == 0 {
		if m.err = m.stats.overload(m, 1+4/math.Sqrt(float64(n))); m.err != nil {
			return
		}
	}
	m.admit(m.drawn)
	if m.more = m.c.Load.Next(&m.drawn); m.more {
		m.events.add(math.Max(m.drawn.Arrival, m.now), evArrive, 0, 0)
	}
}

// admit takes a request into the machine at the present time.
func (m *machine) admit(q load.Request) {
	if q.Input < 1 || q.Output < 1 || q.Input > math.MaxInt32/2 || q.Output > math.MaxInt32/2 {
		m.err = fmt.Errorf("simulate: request %d has %d prompt and %d output tokens", m.taken, q.Input, q.Output)
		return
	}
	if p := m.c.Prefill.Pool; p > 0 && q.Input > p {
		m.err = fmt.Errorf("simulate: request %d: a prompt of %d tokens does not fit prefill's KV pool of %d", m.taken, q.Input, p)
		return
	}
	if p := m.c.Decode.Pool; p > 0 && q.Input+q.Output > p {
		m.err = fmt.Errorf("simulate: request %d: %d prompt and %d output tokens do not fit decode's KV pool of %d", m.taken, q.Input, q.Output, p)
		return
	}
	id := m.slot()
	r := &m.slots[id]
	*r = request{
		index: m.taken, arrival: m.now, gen: r.gen, dw: -1, slow: m.slowest(),
		input: int32(q.Input), output: int32(q.Output), blocks: q.Blocks, blockTokens: int32(q.BlockTokens),
	}
	r.lane = m.lane
	m.lane = (m.lane + 1) & math.MaxInt32
	m.taken++
	m.alive++
	m.stats.offer(m, q)
	// Decode first where both are told at once: prefill begins when decode has
	// blocks for the result, so neither waits for what the other holds.
	if m.c.Serving.Concurrent {
		m.events.add(m.now+m.c.Serving.Router, evDecode, id, 0)
	} else {
		m.events.add(m.now+m.c.Serving.Router, evPrefill, id, 0)
	}
}

// replace gives a user of a closed loop the next request, if there is one.
func (m *machine) replace() {
	var q load.Request
	if m.c.Load.Next(&q) {
		m.admit(q)
	}
}

func (m *machine) slot() int32 {
	if n := len(m.free); n > 0 {
		id := m.free[n-1]
		m.free = m.free[:n-1]
		return id
	}
	m.slots = append(m.slots, request{})
	return int32(len(m.slots) - 1)
}

// leave ends a request, and lets its user send the next.
func (m *machine) leave(id int32) {
	m.slots[id].gen++
	m.slots[id].blocks = nil
	m.free = append(m.free, id)
	m.alive--
	if m.c.Concurrency > 0 {
		m.replace()
	}
}

// slowest draws how much slower the slowest of the ranks is than a median one.
// The largest of n draws from F is one draw at u^(1/n), so that a request
// costs one draw however many ranks it has.
func (m *machine) slowest() float64 {
	w := &m.c.Wire
	if w.Sigma <= 0 {
		return 1
	}
	u := 0.5
	if !w.Typical {
		u = 1 - m.chance.Float64()
	}
	p := math.Pow(u, 1/float64(max(1, w.Ranks)))
	p = math.Min(math.Max(p, 1e-15), 1-1e-15)
	return math.Exp(w.Sigma * math.Sqrt2 * math.Erfinv(2*p-1))
}

// stuck is nil at the regular end, when nothing is left to happen.
func (m *machine) stuck() error {
	if m.alive == 0 {
		return nil
	}
	return fmt.Errorf("simulate: %d requests wait for one another at %g s and nothing can happen", m.alive, m.now)
}
