package cudapeer

import (
	"context"

	"hopbench/transports"
	"hopbench/transports/internal/cuda"
	"hopbench/transports/topo"
)

// pairer is the driver that knows pairs; the one within a GPU has none.
type pairer struct{ *driver }

var _ transports.Pairer = pairer{}

// Pairs lists every ordered pair of the GPUs that this process sees, with the way that copies between them would go. It allocates and copies
// nothing. Errors are *fault.Error and say what an operator can do (one GPU, MIG, no driver).
func (d pairer) Pairs(context.Context) ([]transports.Pair, error) {
	lib, err := d.library()
	if err != nil {
		return nil, err
	}
	defer lib.Close()
	all, err := lib.Devices()
	if err != nil {
		return nil, cuda.Fault(err, "list the GPUs", "")
	}
	host, err := d.host()
	if err != nil {
		host = &topo.Host{}
	}
	var pairs []transports.Pair
	for _, a := range all {
		for _, b := range all {
			if a.Ordinal == b.Ordinal {
				continue
			}
			var way access
			if way.forth, err = lib.CanAccess(a.Ordinal, b.Ordinal); err == nil {
				way.back, err = lib.CanAccess(b.Ordinal, a.Ordinal)
			}
			if err != nil {
				return nil, cuda.Fault(err, "ask for peer access", a.BusID)
			}
			way.enabled, way.rank = way.forth, lib.PerformanceRank(a.Ordinal, b.Ordinal)
			p := transports.Path{Device: deviceName(a.Ordinal), Realm: transports.Hardware}
			if lib.Double() != "" {
				p.Realm = transports.Double
			}
			describePair(&p, host, known(host, a), known(host, b), way, false)
			pairs = append(pairs, transports.Pair{Initiator: deviceName(a.Ordinal), Target: deviceName(b.Ordinal), Path: p})
		}
	}
	return pairs, nil
}
