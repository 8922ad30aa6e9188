// Package ledger keeps what an open transport has lent out: its regions, and the endpoints that borrow them. Close runs in reverse order
// and refuses while something is still borrowed, and each of the closes happens once.
package ledger

import (
	"encoding/binary"
	"fmt"
	"sync"

	"hopbench/transports/mem"
)

// Ledger is the account of one transport. Name, the driver's, stands in its errors.
type Ledger struct {
	Name string

	mu        sync.Mutex
	regions   int
	endpoints int
	closed    bool
}

// Region is a region of host memory or of any other that needs no registration with a library: the buffer, and who uses it.
type Region struct {
	ledger *Ledger
	buffer mem.Buffer
	loans  int
	closed bool
}

// Register opens a region over a buffer, unless the transport is closed.
func (l *Ledger) Register(b mem.Buffer) (*Region, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("%s: the transport is closed", l.Name)
	}
	l.regions++
	return &Region{ledger: l, buffer: b}, nil
}

// Holds says whether a region is one of this transport's.
func (l *Ledger) Holds(r *Region) bool { return r != nil && r.ledger == l }

// Buffer is the region's memory.
func (r *Region) Buffer() mem.Buffer { return r.buffer }

// Key is the region's size, for the record: what needs no registration has no key that a peer must know.
func (r *Region) Key() []byte { return binary.LittleEndian.AppendUint64(nil, r.buffer.Len()) }

// Close closes the transport by end (nil: nothing is to be done), unless regions or endpoints are open. Once it is closed it stays so, and closing
// it again is no error; an end that fails leaves it open.
func (l *Ledger) Close(end func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if l.regions > 0 || l.endpoints > 0 {
		return fmt.Errorf("%s: %d regions and %d endpoints are still open", l.Name, l.regions, l.endpoints)
	}
	if end != nil {
		if err := end(); err != nil {
			return err
		}
	}
	l.closed = true
	return nil
}

// Lend notes an endpoint that uses the region.
func (r *Region) Lend() {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	r.ledger.endpoints++
	r.loans++
}

// Return notes that the endpoint is closed. It is called once for each Lend.
func (r *Region) Return() {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	r.ledger.endpoints--
	r.loans--
}

// Close closes the region, once, unless endpoints use it.
func (r *Region) Close() error {
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	if r.closed {
		return nil
	}
	if r.loans > 0 {
		return fmt.Errorf("%s: %d endpoints still use the region", r.ledger.Name, r.loans)
	}
	r.closed = true
	r.ledger.regions--
	return nil
}
