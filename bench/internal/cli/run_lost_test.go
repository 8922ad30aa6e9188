package cli

import (
	"testing"

	"hopbench/results"
	"hopbench/transports/fault"
)

func TestPeerLost(t *testing.T) {
	gone := results.Cell{Status: results.StatusFailed, Code: string(fault.PeerVanished), Reason: "the peer went away"}
	waived := results.Cell{Status: results.StatusWaived, Reason: "no device"}
	ok := results.Cell{Status: results.StatusOK}
	other := results.Cell{Status: results.StatusFailed, Code: string(fault.PeerCap), Reason: "too large"}
	for _, k := range []struct {
		cells []results.Cell
		want  string
	}{
		{nil, ""},
		{[]results.Cell{gone, gone}, "the peer went away"},
		{[]results.Cell{waived, gone}, "the peer went away"},
		{[]results.Cell{ok, gone}, ""},
		{[]results.Cell{other, waived}, ""},
	} {
		if got := peerLost(k.cells); got != k.want {
			t.Errorf("%d cells: %q, want %q", len(k.cells), got, k.want)
		}
	}
}
