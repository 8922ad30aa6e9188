// Package loopback copies memory inside one process. It is the contract's reference, and its bandwidth is the ceiling that
// no path through this host's memory can pass.
//
// A write is one copy by the initiator's thread and is confirmed when it returns; a read the same the other way. A send goes to the
// next receive that the serving side has posted. Notifications and answers go through a word of shared memory on which the other
// side spins and then sleeps (futex).
package loopback

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

// Name is the driver's name.
const Name = "loopback"

// driver also introduces the two sides to each other: an address is a number in its table.
type driver struct {
	mu        sync.Mutex
	next      uint64
	endpoints map[uint64]*endpoint
}

// New returns the driver. Both sides of a connection must come from the same one.
func New() transports.Driver { return &driver{endpoints: map[uint64]*endpoint{}} }

func (*driver) Name() string                   { return Name }
func (*driver) Settings() []transports.Setting { return nil }
func (*driver) Checks() []transports.Check     { return checks() }
func (*driver) Probe(context.Context) error    { return nil }

func (d *driver) Open(_ context.Context, o transports.Options) (transports.Transport, error) {
	if err := transports.CheckSettings(nil, o.Settings); err != nil {
		return nil, err
	}
	if o.Device != "" {
		return nil, fault.New(fault.SettingInvalid, "open loopback", o.Device, "memory copy has no device to choose")
	}
	return &transport{d: d}, nil
}

type transport struct {
	d         *driver
	mu        sync.Mutex
	regions   int
	endpoints int
}

func (t *transport) Caps() transports.Caps {
	kinds := []mem.Kind{mem.Host, mem.Pinned}
	return transports.Caps{
		Stream: transports.Ops(), PingPong: []transports.Op{transports.Write, transports.Send}, Notify: true,
		Local: kinds, Remote: kinds, MaxStreams: 1024, OneProcess: true,
	}
}

func (t *transport) Register(b mem.Buffer) (transports.Region, error) {
	if b.Bytes() == nil {
		return nil, fault.New(fault.MemoryKind, "register memory", "", "a processor cannot copy %s memory", b.Facts().Kind)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.regions++
	return &region{t: t, buffer: b}, nil
}

func (t *transport) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.regions > 0 || t.endpoints > 0 {
		return fmt.Errorf("loopback: %d regions and %d endpoints are still open", t.regions, t.endpoints)
	}
	return nil
}

type region struct {
	t      *transport
	buffer mem.Buffer
	users  int
	closed bool
}

func (r *region) Buffer() mem.Buffer { return r.buffer }
func (r *region) Key() []byte        { return binary.LittleEndian.AppendUint64(nil, r.buffer.Len()) }

func (r *region) Close() error {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	if r.users > 0 {
		return fmt.Errorf("loopback: %d endpoints still use the region", r.users)
	}
	if !r.closed {
		r.closed = true
		r.t.regions--
	}
	return nil
}
