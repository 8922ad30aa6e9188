// Package loopback copies memory inside one process. It is the contract's reference, and its bandwidth is the ceiling that
// no path through this host's memory can pass.
//
// A write is one copy by the initiator's thread and is confirmed when it returns; a read the same the other way. A send goes to the
// next receive that the serving side has posted. Notifications and answers go through a word of shared memory on which the other
// side spins and then sleeps (futex).
package loopback

import (
	"context"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ledger"
	"hopbench/transports/mem"
)

// Name is the driver's name.
const Name = "loopback"

// driver also introduces the two sides to each other.
type driver struct{ endpoints ledger.Directory[*endpoint] }

// New returns the driver. Both sides of a connection must come from the same one.
func New() transports.Driver { return &driver{} }

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
	return &transport{d: d, ledger: ledger.Ledger{Name: Name}}, nil
}

type transport struct {
	d      *driver
	ledger ledger.Ledger
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
	r, err := t.ledger.Register(b)
	if err != nil {
		return nil, err // no interface around a nil pointer
	}
	return r, nil
}

func (t *transport) Close() error { return t.ledger.Close(nil) }
