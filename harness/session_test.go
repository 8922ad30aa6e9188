package harness_test

import (
	"context"
	"testing"

	"hopbench/harness"
	"hopbench/results"
	"hopbench/transports/fault"
	"hopbench/transports/tcp"
)

// refusing is a peer that cannot be opened.
type refusing struct {
	harness.Peer
	code  fault.Code
	asked int
}

func (r *refusing) Open(context.Context, harness.OpenRequest) (harness.Lane, error) {
	r.asked++
	return nil, fault.New(r.code, "open", "", "the test wants it so")
}

// What cannot be opened is tried again once, since it may have been a moment's trouble, and not for each cell of a sweep: a data address that nothing
// reaches takes its whole limit each time, and is not tried again at all.
func TestWhatCannotBeOpenedIsNotTriedForEachCell(t *testing.T) {
	for code, want := range map[fault.Code]int{fault.PeerDeadline: 2, fault.TCPDataUnreachable: 1} {
		p := flowPlan()
		p.Sizes = []uint64{1, 2, 3, 4, 5, 6}
		s := session(tcp.New())
		peer := &refusing{Peer: s.Remote, code: code}
		s.Remote = peer
		rows := 0
		if err := harness.Run(context.Background(), p, s, harness.Sink{Cell: func(c *results.Cell) error {
			if rows++; c.Status != results.StatusFailed || c.Code != string(code) {
				t.Errorf("%s: row %d is %s, %s", code, rows, c.Status, c.Code)
			}
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		if rows != 6 || peer.asked != want {
			t.Errorf("%s: %d rows, asked %d times, want %d", code, rows, peer.asked, want)
		}
	}
}
