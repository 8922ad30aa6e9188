package ledger

import (
	"encoding/binary"
	"sync"

	"hopbench/transports/fault"
)

// Directory introduces the two sides of a connection inside one process to each other: an address is the number of an endpoint. The zero
// value is empty.
type Directory[E any] struct {
	mu   sync.Mutex
	next uint64
	by   map[uint64]E
}

// Enter adds an endpoint and returns its address, 8 bytes.
func (d *Directory[E]) Enter(e E) (address []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by = map[uint64]E{}
	}
	d.next++
	d.by[d.next] = e
	return binary.LittleEndian.AppendUint64(nil, d.next)
}

// Find is the endpoint of an address. An address of another process, or of an endpoint that was closed, is a *fault.Error with code
// capability.one-process.
func (d *Directory[E]) Find(address []byte) (e E, err error) {
	if len(address) != 8 {
		return e, fault.New(fault.OneProcess, "find the other side", "", "its address has %d bytes: it is not of this process", len(address))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.by[binary.LittleEndian.Uint64(address)]
	if !ok {
		return e, fault.New(fault.OneProcess, "find the other side", "", "there is no such endpoint in this process")
	}
	return e, nil
}

// Leave removes an endpoint.
func (d *Directory[E]) Leave(address []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.by, binary.LittleEndian.Uint64(address))
}
