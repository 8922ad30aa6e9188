package transporttest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

// Mode is one way in which a transport can be wrong.
type Mode string

// The modes of [Faulty]. Those that spoil memory do it on the receiving side, after the loop and before it returns.
const (
	Errors           Mode = "errors"            // every initiator's loop moves its bytes and then fails
	Delays           Mode = "delays"            // every initiator's loop returns DelaySeconds late, whatever its deadline
	Corruption       Mode = "corruption"        // one bit of one piece is flipped
	SwappedPages     Mode = "swapped pages"     // two pieces, or the halves of the only one, change places
	StaleRounds      Mode = "stale rounds"      // what arrived is put back to what the loop before had left there
	StrayWrites      Mode = "stray writes"      // a byte outside every piece changes
	LostCompletions  Mode = "lost completions"  // the last completion is not counted
	ExtraCompletions Mode = "extra completions" // one more is counted than was confirmed
	HeaderBytes      Mode = "header bytes"      // more bytes are counted than the payload has
	WrongStamps      Mode = "wrong stamps"      // the last stamp lies before the first post
	Overclaims       Mode = "overclaims"        // an operation is claimed that does not work
	Underclaims      Mode = "underclaims"       // an operation that works is not claimed
	LooseClose       Mode = "loose close"       // Close succeeds while something is borrowed
	LooseBounds      Mode = "loose bounds"      // pieces outside the regions are accepted, and dropped
)

// DelaySeconds is the delay of [Delays]: more than the suite lets a loop take after its deadline.
const DelaySeconds = 6

// Modes lists the modes.
func Modes() []Mode {
	return []Mode{Errors, Delays, Corruption, SwappedPages, StaleRounds, StrayWrites, LostCompletions, ExtraCompletions, HeaderBytes,
		WrongStamps, Overclaims, Underclaims, LooseClose, LooseBounds}
}

// Faulty wraps a driver so that its transports are wrong in one way. The suite, and the harness, are held to noticing it.
func Faulty(d transports.Driver, m Mode) transports.Driver { return &faultyDriver{d, m} }

type faultyDriver struct {
	transports.Driver
	mode Mode
}

func (d *faultyDriver) Open(ctx context.Context, o transports.Options) (transports.Transport, error) {
	t, err := d.Driver.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &faultyTransport{t, d.mode}, nil
}

type faultyTransport struct {
	transports.Transport
	mode Mode
}

func (t *faultyTransport) Caps() transports.Caps {
	c := t.Transport.Caps()
	switch t.mode {
	case Overclaims:
		c.PingPong = transports.Ops()
	case Underclaims:
		c.Stream = slices.Clone(c.Stream)[:len(c.Stream)-1]
	}
	return c
}

func (t *faultyTransport) Close() error {
	if err := t.Transport.Close(); t.mode != LooseClose {
		return err
	}
	return nil
}

func (t *faultyTransport) NewEndpoint(o transports.EndpointOptions) (transports.Endpoint, error) {
	e, err := t.Transport.NewEndpoint(o)
	if err != nil {
		return nil, err
	}
	return &faultyEndpoint{Endpoint: e, mode: t.mode, buffer: o.Region.Buffer()}, nil
}

type faultyEndpoint struct {
	transports.Endpoint
	mode        Mode
	buffer      mem.Buffer
	remoteBytes uint64
	before      []byte // the buffer after the loop before this one, for StaleRounds
}

func (e *faultyEndpoint) Connect(ctx context.Context, r transports.Remote) error {
	e.remoteBytes = r.RegionBytes
	return e.Endpoint.Connect(ctx, r)
}

func (e *faultyEndpoint) Stream(l *transports.Loop) error { return e.initiate(l, e.Endpoint.Stream) }
func (e *faultyEndpoint) PingPong(l *transports.Loop) error {
	return e.initiate(l, e.Endpoint.PingPong)
}

func (e *faultyEndpoint) initiate(l *transports.Loop, run func(*transports.Loop) error) error {
	if e.mode == LooseBounds {
		for i := range l.Lists {
			if l.Lists[i].Check(e.buffer.Len(), e.remoteBytes) != nil {
				return nil
			}
		}
	}
	if err := run(l); err != nil {
		return err
	}
	switch e.mode {
	case Errors:
		return fault.New(fault.PeerVanished, "run a loop", "", "this transport was made to fail")
	case Delays:
		time.Sleep(DelaySeconds * time.Second)
	}
	for s := range l.Stamps {
		e.miscount(&l.Stamps[s])
	}
	if l.Op != transports.Read {
		return nil
	}
	return e.spoil(l, func(p transports.Piece) uint64 { return p.Local })
}

func (e *faultyEndpoint) Serve(l *transports.Loop) error {
	if err := e.Endpoint.Serve(l); err != nil || l.Op == transports.Read {
		return err
	}
	return e.spoil(l, func(p transports.Piece) uint64 { return p.Remote })
}

func (e *faultyEndpoint) miscount(s *transports.Stamps) {
	switch {
	case s.N == 0:
	case e.mode == LostCompletions:
		s.Bytes -= s.Bytes / s.Ops
		s.N--
		s.Ops--
	case e.mode == ExtraCompletions:
		s.Bytes += s.Bytes / s.Ops
		s.Ops++
	case e.mode == HeaderBytes:
		s.Bytes += 40 * s.Ops
	case e.mode == WrongStamps:
		s.At[s.N-1] = s.Start - 1
	}
}

// spoil changes what arrived in this side's buffer; at gives a piece's offset here.
func (e *faultyEndpoint) spoil(l *transports.Loop, at func(transports.Piece) uint64) error {
	var pieces []transports.Piece
	for i := range l.Lists {
		pieces = append(pieces, l.Lists[i].Pieces...)
	}
	if !slices.Contains([]Mode{Corruption, SwappedPages, StaleRounds, StrayWrites}, e.mode) || len(pieces) == 0 {
		return nil
	}
	all := make([]byte, e.buffer.Len())
	if err := e.buffer.CopyOut(0, all); err != nil {
		return fmt.Errorf("spoil memory: %w", err)
	}
	piece := func(i int) []byte { return all[at(pieces[i]):][:pieces[i].Length] }
	switch e.mode {
	case Corruption:
		last := piece(len(pieces) - 1)
		last[len(last)/2] ^= 0x10
	case SwappedPages:
		a, b := piece(0), piece(len(pieces)-1)
		if len(pieces) == 1 {
			half := len(a) / 2
			a, b = a[:half], a[half:]
		}
		for i := range min(len(a), len(b)) {
			a[i], b[i] = b[i], a[i]
		}
	case StaleRounds:
		for i, p := range pieces {
			if e.before != nil {
				copy(piece(i), e.before[at(p):])
			}
		}
		e.before = slices.Clone(all)
	case StrayWrites:
		// One byte before the first piece in memory, or behind the last: outside all of them either way.
		first, end := ^uint64(0), uint64(0)
		for _, p := range pieces {
			first, end = min(first, at(p)), max(end, at(p)+p.Length)
		}
		switch {
		case first > 0:
			all[first-1] ^= 0xff
		case end < uint64(len(all)):
			all[end] ^= 0xff
		}
	}
	if err := e.buffer.CopyIn(0, all); err != nil {
		return fmt.Errorf("spoil memory: %w", err)
	}
	return nil
}
