package harness

import (
	"errors"
	"maps"
	"slices"

	"hopbench/transports"
	"hopbench/transports/fault"
)

// witness checks the kernel's or the device's count of a way's bytes against ours, over all rounds.
func (w *way) witness(op transports.Op) error {
	payload := uint64(0)
	for _, o := range w.rounds {
		payload += o.Bytes
	}
	check := func(side string, outcomes []Outcome, sends bool) error {
		sums := map[string]uint64{}
		units := map[string]transports.Counter{}
		for _, o := range outcomes {
			for _, c := range o.Counters {
				if (sends && c.Sent) || (!sends && c.Received) {
					sums[c.Name] += c.Value
					units[c.Name] = c
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(sums)) { // of several that disagree the same is named each time
			n, c := sums[name], units[name]
			if counted := n * max(c.BytesPerUnit, 1); counted < payload {
				return fault.New(fault.WitnessDisagrees, "check the "+side+"'s counters", c.Source, "%s grew by %d %s, which is at most %d bytes of the %d confirmed", name, n, c.Unit, counted, payload)
			}
		}
		return nil
	}
	out := op != transports.Read // the payload leaves the initiator
	return errors.Join(check("initiator", w.rounds, out), check("target", w.served, !out))
}
