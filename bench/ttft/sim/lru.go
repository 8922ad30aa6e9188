package sim

// lru is a set of block hashes of bounded size that forgets the one used
// longest ago. Its memory is bounded by its size.
type lru struct {
	size  int
	at    map[uint64]int32
	nodes []lruNode
	head  int32 // newest; -1 when empty
	tail  int32 // oldest
}

type lruNode struct {
	key        uint64
	prev, next int32
}

func newLRU(size int) *lru {
	if size <= 0 {
		return nil
	}
	return &lru{size: size, at: make(map[uint64]int32), head: -1, tail: -1}
}

// prefix is the number of leading keys held. It changes nothing.
func (l *lru) prefix(keys []uint64) int {
	if l == nil {
		return 0
	}
	for i, k := range keys {
		if _, ok := l.at[k]; !ok {
			return i
		}
	}
	return len(keys)
}

// use makes the keys the newest, the first of them newest of all: a prefix is
// of use only together with what is before it, so its end goes first.
func (l *lru) use(keys []uint64) {
	if l == nil {
		return
	}
	for i := len(keys) - 1; i >= 0; i-- {
		l.touch(keys[i])
	}
}

func (l *lru) touch(key uint64) {
	i, ok := l.at[key]
	switch {
	case ok:
		l.unlink(i)
	case len(l.nodes) < l.size:
		i = int32(len(l.nodes))
		l.nodes = append(l.nodes, lruNode{})
	default:
		i = l.tail
		l.unlink(i)
		delete(l.at, l.nodes[i].key)
	}
	l.at[key] = i
	l.nodes[i] = lruNode{key: key, prev: -1, next: l.head}
	if l.head >= 0 {
		l.nodes[l.head].prev = i
	} else {
		l.tail = i
	}
	l.head = i
}

func (l *lru) unlink(i int32) {
	n := l.nodes[i]
	if n.prev >= 0 {
		l.nodes[n.prev].next = n.next
	} else {
		l.head = n.next
	}
	if n.next >= 0 {
		l.nodes[n.next].prev = n.prev
	} else {
		l.tail = n.prev
	}
}
