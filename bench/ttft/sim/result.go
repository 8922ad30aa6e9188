package sim

import (
	"math"

	"hopbench/bench/ttft/load"
)

// Result is what a run showed. Times are seconds.
type Result struct {
	Requests  int64 // drawn from the load
	Completed int64 // that had their last token
	Expired   int64 // whose lease ended before their pull began: no first token
	Span      float64

	// TTFT counts the requests after the warm-up.
	TTFT Times
	// Mean parts add up to the mean TTFT. Median and Tail are the mean parts of
	// the requests from the 45th to the 55th percentile of TTFT, and from the
	// 98.5th to the 99.5th; Tail is nil below 100 samples.
	Mean   Parts
	Median Parts
	Tail   *Parts
	// Queue and Transfer are the distributions of those two parts.
	Queue, Transfer Times

	Utilisation Utilisation
	// Within is the share of requests whose TTFT is within the limit, and
	// Goodput their number a second; nil without a limit.
	Within, Goodput *float64
	// Throughput is completed requests a second over the whole run.
	Throughput float64
	// CachedTokens were not computed, HeldTokens did not cross the wire.
	CachedTokens, HeldTokens int64
	// Batch is the mean number of prompts in a prefill iteration.
	Batch float64
}

// Times summarises one distribution. A quantile that the samples do not carry
// is nil: p90 needs 10 of them and p99 needs 100.
type Times struct {
	Samples        int64
	Mean, Min, Max *float64
	P50, P90, P99  *float64
}

// Parts are the parts of TTFT, in the order in which they pass.
type Parts struct {
	Queue         float64 // waiting for a prefill worker and its blocks, and for decode's blocks and batch
	QueueDecode   float64 // the last two of these: contained in Queue
	Prefill       float64 // from the first iteration to the last token computed
	Transfer      float64 // exposed: after prefill
	Orchestration float64 // router, handover, and waiting for step boundaries
	FirstDecode   float64 // the step that gives the first token; 0 where prefill's is forwarded
}

func (p *Parts) add(o *Parts) {
	p.Queue += o.Queue
	p.QueueDecode += o.QueueDecode
	p.Prefill += o.Prefill
	p.Transfer += o.Transfer
	p.Orchestration += o.Orchestration
	p.FirstDecode += o.FirstDecode
}

func (p Parts) over(n float64) Parts {
	if n == 0 {
		return Parts{}
	}
	return Parts{p.Queue / n, p.QueueDecode / n, p.Prefill / n, p.Transfer / n, p.Orchestration / n, p.FirstDecode / n}
}

// Sum is the TTFT that the parts make.
func (p Parts) Sum() float64 {
	return p.Queue + p.Prefill + p.Transfer + p.Orchestration + p.FirstDecode
}

// Utilisation of each part, from 0 to 1, over the run; nil where it has no limit.
type Utilisation struct {
	Prefill     *float64
	Egress      *float64
	Ingress     *float64
	Spine       *float64
	Decode      *float64 // share of time in which a step runs
	DecodeBatch *float64 // mean batch over its limit
	PrefillPool *float64
	DecodePool  *float64
}

// stats gathers.
type stats struct {
	ttft, queue, transfer histogram
	profile               profile
	sum                   Parts
	good                  int64
	firstArrival          float64 // of those counted
	lastFirst             float64

	prefillBusy, decodeBusy float64
	iterations, begun       int64
	cachedTokens            int64
	heldTokens              int64
	completed, expired      int64
	begunTokens             int64 // requests that have their first token

	// Integrals over time.
	poolAt               float64
	prefillUsed          int
	decodeUsed           int
	prefillArea          float64
	decodeArea           float64
	batchAt, batchedArea float64
	batched              int

	// What the load asked for, whatever became of it.
	offeredPrefill, offeredBytes, offeredDecode, offeredTokens float64
	arrivals                                                   int64
	firstOffer, lastOffer                                      float64
	backlog                                                    int64 // at the last arrival: without a first token
	busyAtLast                                                 float64
}

func (s *stats) init() {
	s.ttft, s.queue, s.transfer = newHistogram(), newHistogram(), newHistogram()
	s.profile = newProfile()
}

// offer notes what a request asks for.
func (s *stats) offer(m *machine, q load.Request) {
	c := &m.c
	if s.arrivals == 0 {
		s.firstOffer = m.now
	}
	s.arrivals++
	s.lastOffer = m.now
	s.backlog = s.arrivals - s.begunTokens
	s.busyAtLast = s.prefillBusy
	s.offeredTokens += float64(q.Input + q.Output)
	s.offeredPrefill += c.Prefill.Work(q.Input)
	s.offeredBytes += c.Wire.Demand(0, q.Input).Bytes
	if b := c.Decode.Batch; b > 0 {
		s.offeredDecode += float64(q.Output) * c.Decode.Step(b) / float64(b)
	}
}

// first counts a request whose first token comes at a time; it has joined its
// batch at joined.
func (s *stats) first(m *machine, r *request, joined, at float64) {
	s.begunTokens++
	if r.index < int64(m.c.Warmup) {
		return
	}
	ttft := at - r.arrival
	if s.ttft.n == 0 {
		s.firstArrival = r.arrival
	}
	s.lastFirst = max(s.lastFirst, at)
	sv := &m.c.Serving
	begin, end := max(r.xStart, r.pEnd), max(r.xEnd, r.pEnd)
	seen := min(max(r.seen, end), joined)
	reserve := r.granted - r.want
	p := Parts{
		QueueDecode:   reserve + joined - seen,
		Prefill:       r.pEnd - r.pStart,
		Transfer:      end - begin,
		Orchestration: sv.Router + (begin - r.pEnd) + (seen - end),
		FirstDecode:   at - joined,
	}
	// Blocks are asked for before prefill, or between it and the transfer.
	if sv.Concurrent {
		p.Orchestration += r.want - r.arrival - sv.Router + sv.Handover
		p.Queue = p.QueueDecode + r.pStart - r.granted - sv.Handover
	} else {
		p.Orchestration -= reserve
		p.Queue = p.QueueDecode + r.pStart - r.arrival - sv.Router
	}
	p.Queue = max(0, p.Queue) // of a few last bits
	s.ttft.add(ttft)
	s.queue.add(p.Queue)
	s.transfer.add(p.Transfer)
	s.profile.add(ttft, &p)
	s.sum.add(&p)
	if m.c.Limit > 0 && ttft <= m.c.Limit {
		s.good++
	}
}

// hold notes a change of the tokens held in the two pools.
func (s *stats) hold(now float64, prefill, decode int) {
	dt := now - s.poolAt
	s.prefillArea += dt * float64(s.prefillUsed)
	s.decodeArea += dt * float64(s.decodeUsed)
	s.poolAt = now
	s.prefillUsed += prefill
	s.decodeUsed += decode
}

// batchArea notes a change of the number of requests in decode's batches.
func (s *stats) batchArea(now float64, by int) {
	s.batchedArea += (now - s.batchAt) * float64(s.batched)
	s.batchAt = now
	s.batched += by
}

// offered is the work asked for over the capacity of each part that has one.
func (s *stats) offered(m *machine) []Unserviceable {
	c := &m.c
	span := s.lastOffer - s.firstOffer
	if span <= 0 {
		return nil
	}
	out, in := float64(max(1, c.Wire.EgressLanes)), float64(max(1, c.Wire.IngressLanes))
	list := []Unserviceable{{"prefill", s.offeredPrefill / (span * float64(c.Prefill.Workers)), false}}
	// What a cache saved was not asked for after all.
	if c.Prefill.Cache > 0 || c.Decode.Cache > 0 {
		list[0].Utilisation = min(list[0].Utilisation, s.prefillBusy/(span*float64(c.Prefill.Workers)))
	} else {
		if n := most(c.Wire.Egress); n > 0 {
			list = append(list, Unserviceable{"prefill egress", s.offeredBytes / (span * n * out * float64(c.Prefill.Workers)), false})
		}
		if n := most(c.Wire.Ingress); n > 0 {
			list = append(list, Unserviceable{"decode ingress", s.offeredBytes / (span * n * in * float64(c.Decode.Workers)), false})
		}
		if c.Wire.Spine > 0 {
			list = append(list, Unserviceable{"the spine", s.offeredBytes / (span * c.Wire.Spine), false})
		}
	}
	if c.Decode.Batch > 0 {
		list = append(list, Unserviceable{"decode", s.offeredDecode / (span * float64(c.Decode.Workers)), false})
	}
	return list
}

func most(list []float64) float64 {
	top := 0.0
	for _, v := range list {
		top = max(top, v)
	}
	return top
}

// overload is the part that is asked for the most, if that is above the
// threshold; with a threshold of 0 there always is one.
func (s *stats) overload(m *machine, threshold float64) error {
	var worst *Unserviceable
	for _, u := range s.offered(m) {
		if u.Utilisation > threshold && (worst == nil || u.Utilisation > worst.Utilisation) {
			worst = &u
		}
	}
	if worst == nil {
		return nil
	}
	return worst
}

// verdict says at the end of an open loop whether its queues had an end: by
// what was asked for, with room for chance, or else by a backlog that is too
// large for chance in front of a part that was never idle.
func (m *machine) verdict() error {
	s := &m.stats
	n := float64(s.arrivals)
	if m.c.Concurrency > 0 || n < 50 {
		return nil
	}
	if err := s.overload(m, 1+2/math.Sqrt(n)); err != nil {
		return err
	}
	span := s.lastOffer - s.firstOffer
	if float64(s.backlog) <= 4*math.Sqrt(n) || span <= 0 {
		return nil
	}
	worst := Unserviceable{"prefill", s.busyAtLast / (span * float64(m.c.Prefill.Workers)), true}
	u := m.result().Utilisation
	// A pool is full when no further request fits, which is before its last token.
	fit := func(pool int, u *float64) *float64 {
		if u == nil {
			return nil
		}
		return ptr(min(1, *u+s.offeredTokens/n/float64(pool)))
	}
	// Over the whole run, drained to its end, these are a little low.
	for _, o := range []struct {
		part string
		of   *float64
	}{
		{"decode's KV pool", fit(m.c.Decode.Pool, u.DecodePool)}, {"prefill's KV pool", fit(m.c.Prefill.Pool, u.PrefillPool)},
		{"prefill egress", u.Egress}, {"decode ingress", u.Ingress}, {"the spine", u.Spine}, {"decode", u.DecodeBatch},
	} {
		if o.of != nil && *o.of > worst.Utilisation {
			worst = Unserviceable{o.part, *o.of, true}
		}
	}
	if worst.Utilisation < 0.95 {
		return nil
	}
	return &worst
}

func (m *machine) result() Result {
	s := &m.stats
	c := &m.c
	r := Result{
		Requests: s.arrivals, Completed: s.completed, Expired: s.expired, Span: m.now,
		TTFT: s.ttft.times(), Queue: s.queue.times(), Transfer: s.transfer.times(),
		Mean: s.sum.over(float64(s.ttft.n)), CachedTokens: s.cachedTokens, HeldTokens: s.heldTokens,
	}
	if s.ttft.n > 0 {
		r.Median = s.profile.near(0.45, 0.55)
	}
	if s.ttft.n >= 100 {
		tail := s.profile.near(0.985, 0.995)
		r.Tail = &tail
	}
	if s.iterations > 0 {
		r.Batch = float64(s.begun) / float64(s.iterations)
	}
	if c.Limit > 0 && s.ttft.n > 0 {
		r.Within = ptr(float64(s.good) / float64(s.ttft.n))
		if span := s.lastFirst - s.firstArrival; span > 0 {
			r.Goodput = ptr(float64(s.good) / span)
		}
	}
	if m.now <= 0 {
		return r
	}
	r.Throughput = float64(s.completed) / m.now
	s.hold(m.now, 0, 0)
	s.batchArea(m.now, 0)
	out, in := float64(max(1, c.Wire.EgressLanes)), float64(max(1, c.Wire.IngressLanes))
	p, d := float64(c.Prefill.Workers)*m.now, float64(c.Decode.Workers)*m.now
	r.Utilisation = Utilisation{
		Prefill: ptr(s.prefillBusy / p),
		Egress:  share(len(c.Wire.Egress) > 0, m.fabric.busyEgress/(p*out)),
		Ingress: share(len(c.Wire.Ingress) > 0, m.fabric.busyIngress/(d*in)),
		Spine:   share(c.Wire.Spine > 0, m.fabric.busySpine/m.now),
		Decode:  ptr(s.decodeBusy / d),
	}
	if n := c.Decode.Batch; n > 0 {
		r.Utilisation.DecodeBatch = ptr(s.batchedArea / (d * float64(n)))
	}
	if n := c.Prefill.Pool; n > 0 {
		r.Utilisation.PrefillPool = ptr(s.prefillArea / (p * float64(n)))
	}
	if n := c.Decode.Pool; n > 0 {
		r.Utilisation.DecodePool = ptr(s.decodeArea / (d * float64(n)))
	}
	return r
}

func share(has bool, v float64) *float64 {
	if !has {
		return nil
	}
	return &v
}
