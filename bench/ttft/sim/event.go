package sim

// kind says what an event does.
type kind uint8

const (
	evArrive    kind = iota // the source's next request reaches the router
	evPrefill               // a request reaches a prefill worker
	evIteration             // a prefill worker ends an iteration
	evDecode                // a request reaches a decode worker
	evLayers                // the first layer of an iteration is computed
	evActive                // a transfer's latency is over: its bytes flow
	evBoundary              // a decode worker is at a step boundary
	evLease                 // prefill stops waiting for a pull
)

// event happens at a time; seq keeps events of one time in the order in which
// they were made, so that a run does not depend on the heap's shape.
type event struct {
	at   float64
	seq  uint64
	id   int32  // a request or a worker
	mark uint32 // what the event is about, to know a stale one
	kind kind
}

// agenda is a binary heap of events, without the interface calls of
// container/heap: a run of a million requests pops about eight million.
type agenda struct {
	heap []event
	seq  uint64
}

func (a *agenda) add(at float64, k kind, id int32, mark uint32) {
	a.seq++
	e := event{at: at, seq: a.seq, id: id, mark: mark, kind: k}
	a.heap = append(a.heap, e)
	i := len(a.heap) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !e.before(&a.heap[p]) {
			break
		}
		a.heap[i] = a.heap[p]
		i = p
	}
	a.heap[i] = e
}

func (a *agenda) pop() event {
	top := a.heap[0]
	n := len(a.heap) - 1
	e := a.heap[n]
	a.heap = a.heap[:n]
	if n == 0 {
		return top
	}
	i := 0
	for {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && a.heap[c+1].before(&a.heap[c]) {
			c++
		}
		if !a.heap[c].before(&e) {
			break
		}
		a.heap[i] = a.heap[c]
		i = c
	}
	a.heap[i] = e
	return top
}

func (e *event) before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	return e.seq < o.seq
}

// fifo is a queue of request numbers in a ring that only grows to its longest.
type fifo struct {
	ring []int32
	head int
	n    int
}

func (q *fifo) push(id int32) {
	if q.n == len(q.ring) {
		bigger := make([]int32, max(8, 2*len(q.ring)))
		for i := range q.n {
			bigger[i] = q.ring[(q.head+i)%len(q.ring)]
		}
		q.ring, q.head = bigger, 0
	}
	q.ring[(q.head+q.n)%len(q.ring)] = id
	q.n++
}

func (q *fifo) front() int32 { return q.ring[q.head] }

func (q *fifo) pop() int32 {
	id := q.ring[q.head]
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return id
}
