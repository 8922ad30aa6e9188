// Package transporttest is the conformance suite that every transport passes: it tests what [transports.Caps] claims and fails
// where a claimed operation does not work or an unclaimed one does.
//
// A transport's own test calls [Run] with a [Config] that opens its two sides. [Faulty] wraps a driver so that the suite itself
// can be shown to notice each kind of fault.
package transporttest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

// Config says how to open the two sides of the transport under test.
type Config struct {
	// Initiator and Target are the drivers of the two sides; Target nil means the same as Initiator.
	Initiator, Target transports.Driver
	// Options of each side.
	InitiatorOptions, TargetOptions transports.Options
	// InitiatorMemory and TargetMemory are the kinds of buffer to test; empty means host.
	InitiatorMemory, TargetMemory mem.Spec
	// Slow cuts the largest sizes and counts, for devices under emulation.
	Slow bool
}

// T is what a case needs of testing.TB: small, so that the suite can be run against a recorder that expects red cases.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Case is one behaviour.
type Case struct {
	Name string
	Run  func(t T, c Config)
}

// Run runs all cases as subtests.
func Run(t *testing.T, c Config) {
	for _, k := range Cases() {
		t.Run(k.Name, func(t *testing.T) { k.Run(t, c) })
	}
}

// Cases lists the behaviours, in the order in which Run runs them.
func Cases() []Case {
	return []Case{
		{"claims", claims},
		{"every size arrives whole", sizes},
		{"scattered lists land where they should", scattered},
		{"many pieces", manyPieces},
		{"streams keep apart", streams},
		{"stamps", stampsCase},
		{"deadline ends a loop", deadlineCase},
		{"a deadline that has passed", late},
		{"one operation at least", lateStart},
		{"stop word ends a loop", stopInitiator},
		{"stop word ends a serve", stopServe},
		{"a full record ends a loop", fullStamps},
		{"ping-pong", pingpong},
		{"notification", notification},
		{"both ways at once", bothWays},
		{"pace", pace},
		{"loops follow one another", follow},
		{"pieces outside the regions are refused", outside},
		{"close refuses what is borrowed", closing},
		{"a peer that is gone ends the loop", gone},
	}
}

// pair is two connected sides, each with a filled buffer.
type pair struct {
	t         T
	a, b      transports.Endpoint // a is the initiator
	ta, tb    transports.Transport
	ra, rb    transports.Region
	ba, bb    mem.Buffer
	round     byte
	closeOnce bool

	// What the buffers were filled with, what they must hold and what they hold: kept, since new memory for each comparison costs more than to compare.
	srcA, srcB, wantA, wantB, got []byte
}

const regionLen = 24 << 20

func limitCtx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

// open makes a connected pair. The caller closes it.
func open(t T, c Config, bytes uint64, o transports.EndpointOptions) *pair {
	t.Helper()
	ctx, cancel := limitCtx()
	defer cancel()
	if c.Target == nil {
		c.Target = c.Initiator
	}
	if c.InitiatorMemory.Kind == "" {
		c.InitiatorMemory.Kind = mem.Host
	}
	if c.TargetMemory.Kind == "" {
		c.TargetMemory.Kind = mem.Host
	}
	p := &pair{t: t, round: 1}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			p.close()
			t.Fatalf("%s: %v", what, err)
		}
	}
	var err error
	c.InitiatorOptions.Memory, c.TargetOptions.Memory = c.InitiatorMemory, c.TargetMemory
	p.ta, err = c.Initiator.Open(ctx, c.InitiatorOptions)
	must("open the initiator", err)
	p.tb, err = c.Target.Open(ctx, c.TargetOptions)
	must("open the target", err)
	c.InitiatorMemory.Bytes, c.TargetMemory.Bytes = bytes, bytes
	p.ba, err = mem.Allocate(c.InitiatorMemory)
	must("allocate", err)
	p.bb, err = mem.Allocate(c.TargetMemory)
	must("allocate", err)
	p.ra, err = p.ta.Register(p.ba)
	must("register the initiator's buffer", err)
	p.rb, err = p.tb.Register(p.bb)
	must("register the target's buffer", err)
	if o.Streams == 0 {
		o.Streams = 1
	}
	if o.Depth == 0 {
		o.Depth = 16
	}
	if o.Pieces == 0 {
		o.Pieces = 64
	}
	if o.Largest == 0 {
		o.Largest = bytes
	}
	if o.Wait == "" {
		o.Wait = transports.Adaptive
	}
	o.Region = p.ra
	p.a, err = p.ta.NewEndpoint(o)
	must("make the initiator's endpoint", err)
	o.Region, o.Passive = p.rb, true
	p.b, err = p.tb.NewEndpoint(o)
	must("make the target's endpoint", err)
	errs := make(chan error, 1)
	go func() {
		errs <- p.b.Connect(ctx, transports.Remote{Address: p.a.Address(), RegionKey: p.ra.Key(), RegionBytes: p.ba.Len()})
	}()
	err = p.a.Connect(ctx, transports.Remote{Address: p.b.Address(), RegionKey: p.rb.Key(), RegionBytes: p.bb.Len()})
	must("connect", errors.Join(err, <-errs))
	p.fill()
	return p
}

// close ends everything in reverse order.
func (p *pair) close() {
	var errs []error
	if p.closeOnce {
		return
	}
	p.closeOnce = true
	if p.a != nil {
		errs = append(errs, p.a.Close())
	}
	if p.b != nil {
		errs = append(errs, p.b.Close())
	}
	if p.ra != nil {
		errs = append(errs, p.ra.Close())
	}
	if p.rb != nil {
		errs = append(errs, p.rb.Close())
	}
	if p.ta != nil {
		errs = append(errs, p.ta.Close())
	}
	if p.tb != nil {
		errs = append(errs, p.tb.Close())
	}
	if p.ba != nil {
		errs = append(errs, p.ba.Close())
	}
	if p.bb != nil {
		errs = append(errs, p.bb.Close())
	}
	if err := errors.Join(errs...); err != nil {
		p.t.Errorf("close: %v", err)
	}
}

// content is what a buffer of so many bytes holds, in dst where that is large enough: it depends on side, round and offset, so that a swapped page and a
// stale round show. The race detector would look at each word of a slice that only the test itself has, and take nine tenths of the suite's time for it.
//
//go:norace
func content(dst []byte, side, round byte, n uint64) []byte {
	if uint64(cap(dst)) < n+8 {
		dst = make([]byte, n+8)
	}
	b := dst[:n+8]
	for i := uint64(0); i < n; i += 8 {
		x := (i/8+1)*0x9e3779b97f4a7c15 + uint64(side)<<32 + uint64(round)*0x2545f4914f6cdd1d
		x ^= x >> 29
		binary.LittleEndian.PutUint64(b[i:], x*0xbf58476d1ce4e5b9)
	}
	return b[:n]
}

// fill gives both buffers the contents of a new round.
func (p *pair) fill() {
	p.t.Helper()
	p.round++
	p.srcA, p.srcB = content(p.srcA, 'a', p.round, p.ba.Len()), content(p.srcB, 'b', p.round, p.bb.Len())
	if err := errors.Join(p.ba.CopyIn(0, p.srcA), p.bb.CopyIn(0, p.srcB)); err != nil {
		p.t.Fatalf("fill: %v", err)
	}
}

// check compares both buffers, whole, with what the operations of lists must have left.
func (p *pair) check(op transports.Op, what string, lists ...transports.List) {
	p.t.Helper()
	p.wantA, p.wantB = append(p.wantA[:0], p.srcA...), append(p.wantB[:0], p.srcB...)
	wantA, wantB, srcA, srcB := p.wantA, p.wantB, p.srcA, p.srcB
	for _, l := range lists {
		for _, q := range l.Pieces {
			if op == transports.Read {
				copy(wantA[q.Local:q.Local+q.Length], srcB[q.Remote:])
			} else {
				copy(wantB[q.Remote:q.Remote+q.Length], srcA[q.Local:])
			}
		}
	}
	p.compare("the initiator's", p.ba, wantA, what)
	p.compare("the target's", p.bb, wantB, what)
}

func (p *pair) compare(side string, b mem.Buffer, want []byte, what string) {
	p.t.Helper()
	p.got = slices.Grow(p.got[:0], len(want))
	got := p.got[:len(want)]
	if err := b.CopyOut(0, got); err != nil {
		p.t.Fatalf("%s: read back: %v", what, err)
	}
	if bytes.Equal(got, want) {
		return
	}
	for i := range got {
		if got[i] != want[i] {
			p.t.Errorf("%s: %s buffer differs first at byte %d of %d: %#x instead of %#x", what, side, i, len(got), got[i], want[i])
			return
		}
	}
}

// loop runs the initiator's loop with the target serving, and returns both errors.
func (p *pair) loop(l *transports.Loop, ping bool) error {
	stop := new(atomic.Uint32)
	served := make(chan error, 1)
	target := *l
	target.Stop, target.Stamps, target.Echo = stop, nil, ping
	go func() { served <- p.b.Serve(&target) }()
	var err error
	if ping {
		err = p.a.PingPong(l)
	} else {
		err = p.a.Stream(l)
	}
	if err != nil {
		stop.Store(1)
	}
	select {
	case e := <-served:
		return errors.Join(err, e)
	case <-time.After(15 * time.Second):
		stop.Store(1)
		return errors.Join(err, fmt.Errorf("serve had not ended 15 s after the initiator's loop"), <-served)
	}
}

func stamps(streams, n int) []transports.Stamps {
	s := make([]transports.Stamps, streams)
	for i := range s {
		s[i].At = make([]int64, n)
	}
	return s
}

// one is a list of single-piece operations of size bytes each, ops of them, at distinct places of both regions.
func one(size uint64, ops int, local, remote uint64) transports.List {
	var l transports.List
	for i := range ops {
		step := uint64(i) * (size + 64)
		l.Pieces = append(l.Pieces, transports.Piece{Local: local + step, Remote: remote + step, Length: size})
		l.Ends = append(l.Ends, uint32(i+1))
	}
	return l
}

// supported says whether the transport claims an operation.
func supported(ops []transports.Op, op transports.Op) bool { return slices.Contains(ops, op) }

// classed says whether an error tells its reader what kind of no it is.
func classed(err error) bool { return fault.ClassOf(err) != fault.Internal && fault.ClassOf(err) != "" }
