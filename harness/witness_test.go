package harness

import (
	"slices"
	"strings"
	"testing"

	"hopbench/results"
	"hopbench/transports"
	"hopbench/transports/fault"
)

// counted is a way whose two sides carried payload bytes in two rounds while their devices counted what is given.
func counted(payload uint64, initiator, target []transports.Counter) *way {
	w := &way{}
	for range 2 {
		w.rounds = append(w.rounds, Outcome{Bytes: payload / 2, Counters: initiator})
		w.served = append(w.served, Outcome{Bytes: payload / 2, Counters: target})
	}
	return w
}

// TestTrafficThatTheDeviceDidNotCount fails a cell whose claimed device did not carry its bytes: in units of four octets, in packets of at
// most a path MTU, on each side by itself, and for a read the other way round.
func TestTrafficThatTheDeviceDidNotCount(t *testing.T) {
	const payload = 1 << 20
	sent := func(n, unit uint64) []transports.Counter {
		return []transports.Counter{{Name: "port_xmit_data", Value: n, Unit: "bytes", Sent: true, BytesPerUnit: unit, Source: "/sys"}}
	}
	received := func(n, unit uint64) []transports.Counter {
		return []transports.Counter{{Name: "port_rcv_data", Value: n, Unit: "bytes", Received: true, BytesPerUnit: unit, Source: "/sys"}}
	}
	const units, packets = payload / 2 / 4, payload / 2 / 4096 // a round's
	for _, c := range []struct {
		name              string
		op                transports.Op
		initiator, target []transports.Counter
		side              string // that is named; empty: all is well
	}{
		{"units of four octets", transports.Write, sent(units, 4), received(units, 4), ""},
		{"packets", transports.Write, sent(packets, 4096), received(packets+1, 4096), ""},
		{"a packet too few", transports.Write, sent(packets-1, 4096), received(packets, 4096), "initiator"},
		{"nothing at all", transports.Write, sent(0, 4), received(0, 4), "initiator"},
		{"the target's device saw nothing", transports.Send, sent(units, 4), received(3, 4), "target"},
		{"a read comes the other way", transports.Read, received(units, 4), sent(units, 4), ""},
		{"a read that the initiator's device did not see", transports.Read, received(units/2, 4), sent(units, 4), "initiator"},
		{"nobody counts", transports.Write, nil, nil, ""},
	} {
		err := counted(payload, c.initiator, c.target).witness(c.op)
		switch {
		case c.side == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.side != "" && (fault.CodeOf(err) != fault.WitnessDisagrees || !strings.Contains(err.Error(), c.side+"'s counters") || !strings.Contains(err.Error(), "1048576 confirmed")):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestLossesStandInTheRow: what was lost or repeated is summed over the rounds, told for its side, and no more than that: pauses and marks
// stand in the row and are no loss.
func TestLossesStandInTheRow(t *testing.T) {
	w := counted(8192, []transports.Counter{{Name: "out_of_sequence", Value: 3, Unit: "packets", Loss: true}, {Name: "rx_prio3_pause", Value: 11, Unit: "packets"}},
		[]transports.Counter{{Name: "local_ack_timeout_err", Value: 0, Unit: "events", Loss: true}, {Name: "np_ecn_marked_roce_packets", Value: 4, Unit: "packets"}})
	tr := &track{ways: []way{*w}}
	got := tr.counters()
	if got == nil || got.Events["initiator out_of_sequence"] != 6 || len(got.Events) != 2 || got.Agree != nil {
		t.Fatalf("%+v", got)
	}
	if want := []string{"counted during the rounds: out_of_sequence 6 on the initiator's side"}; !slices.Equal(losses(got), want) { // what counted nothing is not told
		t.Errorf("warnings %q, want %q", losses(got), want)
	}
	read := map[string]results.Reading{}
	for _, r := range got.Readings {
		read[r.Side+" "+r.Name] = r
	}
	for name, want := range map[string]int64{"initiator out_of_sequence": 6, "initiator rx_prio3_pause": 22, "target local_ack_timeout_err": 0, "target np_ecn_marked_roce_packets": 8} {
		r, ok := read[name]
		if !ok || r.Value != want || (r.Loss != nil) != (name == "initiator out_of_sequence" || name == "target local_ack_timeout_err") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestCountersStandInOneOrder, whatever order the kernel lists them in: two runs can be laid side by side.
func TestCountersStandInOneOrder(t *testing.T) {
	names := []string{"rcvd_seq_err", "duplicate_request", "completer_retry_err", "ack_deferred", "out_of_seq_request"}
	var first *results.Counters
	for shift := range names {
		var list []transports.Counter
		for i := range names {
			list = append(list, transports.Counter{Name: names[(i+shift)%len(names)], Value: 2, Unit: "events", Loss: true})
		}
		got := (&track{ways: []way{*counted(8192, list, list)}}).counters()
		if first == nil {
			first = got
		}
		if !slices.Equal(readingNames(first), readingNames(got)) || !slices.Equal(losses(first), losses(got)) || !strings.HasPrefix(losses(got)[0], "counted during the rounds: ack_deferred 4 on both sides, completer_retry_err 4 on both sides, ") {
			t.Fatalf("%q and %q; %q", readingNames(first), readingNames(got), losses(got))
		}
	}
}

func readingNames(c *results.Counters) (names []string) {
	for _, r := range c.Readings {
		names = append(names, r.Side+" "+r.Name)
	}
	return names
}

// TestFigureAboveItsLimit is told: a port of 400 Gb/s whose kernel reports 10 Gb/s is no link used to 3900 %.
func TestFigureAboveItsLimit(t *testing.T) {
	limit := 1.25e9
	for _, c := range []struct {
		rate, limit float64
		realm       string
		direction   Direction
		told        bool
	}{
		{49e9, limit, results.RealmHardware, Forward, true}, {1.24e9, limit, results.RealmHardware, Forward, false}, {2.4e9, limit, results.RealmHardware, Both, false},
		{2.6e9, limit, results.RealmHardware, Both, true}, {49e9, limit, results.RealmSoftware, Forward, false}, {49e9, 0, results.RealmHardware, Forward, false},
	} {
		r := &results.Cell{Bandwidth: &results.Bandwidth{BytesPerSecond: c.rate}, Limit: &results.Limit{BytesPerSecond: &c.limit, Source: "rate of mlx5_0"}}
		r.Realm = c.realm
		if got := aboveLimit(r, c.direction); (got != "") != c.told || c.told && !strings.Contains(got, "rate of mlx5_0") {
			t.Errorf("%v: %q", c, got)
		}
	}
}

// TestApart: what may have begun a whole loop apart is not said to have run together.
func TestApart(t *testing.T) {
	for _, c := range []struct {
		seconds, share float64
		want           string
	}{
		{0.004, 0.2, "the flows' loops may have begun up to 20 % of a round apart: the rest"},
		{0.92, 46, "the flows' loops may have begun 920 ms apart, which is longer than a loop: it is not shown that they ran together"},
	} {
		if got := apart(c.seconds, c.share, "the rest"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
