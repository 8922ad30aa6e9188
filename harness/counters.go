package harness

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hopbench/results"
	"hopbench/transports"
)

// losses tells what the devices lost or repeated during the rounds, in one warning: by name, and by side where the sides counted unlike.
func losses(c *results.Counters) (warnings []string) {
	if c == nil {
		return nil
	}
	sides := map[string][2]int64{}
	for name, n := range c.Events {
		side, what, _ := strings.Cut(name, " ")
		both := sides[what]
		both[map[string]int{"initiator": 0, "target": 1}[side]] = n
		sides[what] = both
	}
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(sides)) {
		switch n := sides[what]; {
		case n[0] == 0 && n[1] == 0:
		case n[0] == n[1]:
			parts = append(parts, fmt.Sprintf("%s %d on both sides", what, n[0]))
		case n[1] == 0:
			parts = append(parts, fmt.Sprintf("%s %d on the initiator's side", what, n[0]))
		case n[0] == 0:
			parts = append(parts, fmt.Sprintf("%s %d on the target's side", what, n[1]))
		default:
			parts = append(parts, fmt.Sprintf("%s %d on the initiator's side and %d on the target's", what, n[0], n[1]))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{"counted during the rounds: " + strings.Join(parts, ", ")}
}

// counters sums what the kernel or the device counted, and says whether it covers our own count.
func (t *track) counters() *results.Counters {
	w := &t.ways[0]
	payload := int64(0)
	for _, o := range w.rounds {
		payload += int64(o.Bytes)
	}
	out := &results.Counters{Unit: "bytes", Payload: &payload}
	proved := false
	for _, side := range []struct {
		name           string
		outcomes       []Outcome
		sent, received **int64
	}{{"initiator", w.rounds, &out.InitiatorSent, &out.InitiatorReceived}, {"target", w.served, &out.TargetSent, &out.TargetReceived}} {
		at := map[string]int{}
		for _, o := range side.outcomes {
			for _, c := range o.Counters {
				if c.Source == transports.StagingPhases {
					continue // phases, not a witness
				}
				i, ok := at[c.Name]
				if !ok {
					i = len(out.Readings)
					at[c.Name] = i
					reading := results.Reading{Side: side.name, Name: c.Name, Unit: c.Unit, Source: c.Source}
					if yes := true; c.Gauge {
						reading.Gauge = &yes
					} else if c.Loss {
						reading.Loss = &yes
					}
					out.Readings = append(out.Readings, reading)
				}
				if c.Gauge {
					out.Readings[i].Value = int64(c.Value)
					continue
				}
				out.Readings[i].Value += int64(c.Value)
				into := side.received
				if c.Sent {
					into = side.sent
				} else if !c.Received {
					if c.Loss {
						if out.Events == nil {
							out.Events = map[string]int64{}
						}
						out.Events[side.name+" "+c.Name] += int64(c.Value)
					}
					continue
				}
				proved = true
				out.Unit, out.Source = c.Unit, c.Source
				if *into == nil {
					*into = new(int64)
				}
				**into += int64(c.Value)
			}
		}
	}
	if len(out.Readings) == 0 {
		return nil
	}
	slices.SortStableFunc(out.Readings, func(a, b results.Reading) int { // sides stay in their order; a kernel's list of counters has none
		return cmp.Or(cmp.Compare(a.Side, b.Side), cmp.Compare(a.Name, b.Name))
	})
	if proved {
		agree := true // a cell whose witness disagrees has failed and has no figures
		out.Agree = &agree
	}
	return out
}
