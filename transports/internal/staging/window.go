package staging

// Window gives out a ring's memory from the other side of a wire: whoever writes into a ring by itself knows the size of each chunk
// and is told how many have left, so it needs to ask for no place. Chunks leave in the order in which they were placed.
type Window struct {
	space space
	most  int
	at    []int // starts of the chunks that are placed, the oldest at first%len
	first uint64
	next  uint64
}

// NewWindow is the window over bytes of a ring in which at most so many chunks may be at once.
func NewWindow(bytes, most int) *Window {
	return &Window{space: space{size: bytes}, most: most, at: make([]int, max(most, 1))}
}

// Take places a chunk: its offset, or false where older ones have to leave first.
func (w *Window) Take(bytes int) (at int, ok bool) {
	if w.Placed() >= w.most {
		return 0, false
	}
	if at, ok = w.space.take(bytes); ok {
		w.at[w.next%uint64(len(w.at))] = at
		w.next++
	}
	return at, ok
}

// Give says that the oldest chunk has left. Without one it is an error.
func (w *Window) Give() error {
	if w.Placed() == 0 {
		return errNothing
	}
	w.first++
	next := 0
	if w.first < w.next {
		next = w.at[w.first%uint64(len(w.at))]
	}
	w.space.give(next)
	return nil
}

// Placed is how many chunks are in the ring.
func (w *Window) Placed() int { return int(w.next - w.first) }
