package transports

import (
	"fmt"
	"slices"

	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

// Caps is what an open transport can do, as data. Zero limits mean none.
type Caps struct {
	Stream     []Op       // operations that Stream takes
	PingPong   []Op       // operations that PingPong takes
	Notify     bool       // Loop.Notify works
	Local      []mem.Kind // kinds of memory on the initiator's side
	Remote     []mem.Kind // kinds of memory on the target's side
	MaxMessage uint64     // largest operation in bytes
	MaxStreams int
	MaxPieces  int  // most pieces in one operation
	OneProcess bool // both sides must live in one process
	CrossHost  bool // the two sides may live on different hosts
	Batch      bool // Loop.Batch above one works
}

// Need is what a cell asks of a transport.
type Need struct {
	Op            Op
	PingPong      bool
	Notify        bool
	Local, Remote mem.Kind
	Largest       uint64
	Streams       int
	Pieces        int
	OtherProcess  bool
	OtherHost     bool
	Batch         int
}

// Check names the first thing that the transport lacks, as a *fault.Error, or returns nil. It is the one place where
// capabilities are compared with a request.
func (c Caps) Check(name string, n Need) error {
	lacks := func(code fault.Code, format string, args ...any) error {
		return fault.New(code, "check what "+name+" can do", "", format, args...)
	}
	ops, what := c.Stream, "bandwidth"
	if n.PingPong {
		ops, what = c.PingPong, "ping-pong latency"
	}
	switch {
	case n.OtherProcess && c.OneProcess:
		return lacks(fault.OneProcess, "both sides must live in one process")
	case n.OtherHost && !c.CrossHost:
		return lacks(fault.OneProcess, "it works within one host, and the peer was named as another")
	case !slices.Contains(ops, n.Op):
		return lacks(fault.CapabilityGap, "no %s of %s; there is %v", what, n.Op, ops)
	case n.Notify && !c.Notify:
		return lacks(fault.CapabilityGap, "no notification after the data")
	case !slices.Contains(c.Local, n.Local):
		return lacks(fault.MemoryKind, "no %s memory on the initiator's side; there is %v", n.Local, c.Local)
	case !slices.Contains(c.Remote, n.Remote):
		return lacks(fault.MemoryKind, "no %s memory on the target's side; there is %v", n.Remote, c.Remote)
	case c.MaxMessage > 0 && n.Largest > c.MaxMessage:
		return lacks(fault.CapabilityGap, "operations of %d bytes; the largest is %d", n.Largest, c.MaxMessage)
	case c.MaxStreams > 0 && n.Streams > c.MaxStreams:
		return lacks(fault.CapabilityGap, "%d streams; the most is %d", n.Streams, c.MaxStreams)
	case c.MaxPieces > 0 && n.Pieces > c.MaxPieces:
		return lacks(fault.CapabilityGap, "%d pieces an operation; the most is %d", n.Pieces, c.MaxPieces)
	case n.Batch > 1 && !c.Batch:
		return lacks(fault.CapabilityGap, "no batches: one operation a call")
	}
	return nil
}

// String is for messages.
func (n Need) String() string {
	return fmt.Sprintf("%s of %d bytes in %d pieces on %d streams", n.Op, n.Largest, n.Pieces, n.Streams)
}
