package verbs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"hopbench/transports"
	"hopbench/transports/mem"
)

// side is one opened side with a filled buffer.
type side struct {
	t        transports.Transport
	buffer   mem.Buffer
	region   transports.Region
	endpoint transports.Endpoint
}

// sides are two connected sides in one process: 0 is the initiator.
type sides [2]side

// setup is what a pair is made with.
type setup struct {
	driver   transports.Driver // nil: RoCE
	options  [2]transports.Options
	memory   mem.Spec    // of both; Kind host by default
	memories [2]mem.Spec // of each, where they differ
	bytes    uint64
	endpoint transports.EndpointOptions
	tamper   func(to int, r *transports.Remote) // changes what side `to` is told of the other
}

// connect makes a pair; err is the first refusal on the way.
func connect(t *testing.T, s setup) (out sides, err error) {
	t.Helper()
	if s.driver == nil {
		s.driver = RoCE()
	}
	if s.bytes == 0 {
		s.bytes = 1 << 20
	}
	o := s.endpoint
	o.Streams, o.Depth, o.Pieces = max(o.Streams, 1), max(o.Depth, 16), max(o.Pieces, 1)
	o.Largest = s.bytes
	t.Cleanup(func() {
		for i := range out {
			if e := out[i].endpoint; e != nil {
				e.Close()
			}
		}
		for i := range out {
			if out[i].region != nil {
				out[i].region.Close()
			}
			if out[i].buffer != nil {
				out[i].buffer.Close()
			}
			if out[i].t != nil {
				if err := out[i].t.Close(); err != nil {
					t.Errorf("side %d does not close: %v", i, err)
				}
			}
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for i := range out {
		d := &out[i]
		if s.options[i].Device == "" {
			s.options[i].Device = "rxe0"
		}
		if s.memories[i].Kind != "" {
			s.memory = s.memories[i]
		}
		s.options[i].Memory = s.memory
		if d.t, err = s.driver.Open(ctx, s.options[i]); err != nil {
			return out, err
		}
		spec := s.memory
		spec.Bytes = s.bytes
		if d.buffer, err = mem.Allocate(spec); err != nil {
			return out, err
		}
		if d.region, err = d.t.Register(d.buffer); err != nil {
			return out, err
		}
		o.Region, o.Passive = d.region, i == 1
		if d.endpoint, err = d.t.NewEndpoint(o); err != nil {
			return out, err
		}
	}
	errs := make(chan error, 2)
	for i := range out {
		r := transports.Remote{Address: out[1-i].endpoint.Address(), RegionKey: out[1-i].region.Key(), RegionBytes: s.bytes}
		if s.tamper != nil {
			s.tamper(i, &r)
		}
		go func() { errs <- out[i].endpoint.Connect(ctx, r) }()
	}
	return out, errors.Join(<-errs, <-errs)
}

func mustConnect(t *testing.T, s setup) sides {
	t.Helper()
	p, err := connect(t, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs one loop of the initiator against the target's Serve.
func (p *sides) run(l *transports.Loop) error {
	stop := new(atomic.Uint32)
	target := *l
	target.Stop, target.Stamps = stop, nil
	served := make(chan error, 1)
	go func() { served <- p[1].endpoint.Serve(&target) }()
	var err error
	if l.Echo {
		err = p[0].endpoint.PingPong(l)
	} else {
		err = p[0].endpoint.Stream(l)
	}
	if err != nil {
		stop.Store(1)
	}
	return errors.Join(err, <-served)
}

// list is ops operations of pieces each of size bytes at shuffled places.
func list(size uint64, ops, pieces int, region uint64) transports.List {
	r := rand.New(rand.NewPCG(size, 7))
	slots := int(region / size)
	local, remote := r.Perm(slots), r.Perm(slots)
	var l transports.List
	for i := range ops * pieces {
		l.Pieces = append(l.Pieces, transports.Piece{Local: uint64(local[i%slots]) * size, Remote: uint64(remote[i%slots]) * size, Length: size})
		if (i+1)%pieces == 0 {
			l.Ends = append(l.Ends, uint32(i+1))
		}
	}
	return l
}

// verify runs a list once in full and compares both buffers with what it says.
func (p *sides) verify(t *testing.T, op transports.Op, lists ...transports.List) {
	t.Helper()
	// Only what the lists name, and some bytes after it, is filled and compared: under emulation that is what takes time.
	end := uint64(0)
	for _, l := range lists {
		for _, q := range l.Pieces {
			end = max(end, q.Local+q.Length, q.Remote+q.Length)
		}
	}
	end = min(end+4096, p[0].buffer.Len())
	var want [2][]byte
	for i := range p {
		want[i] = make([]byte, end)
		r := rand.NewPCG(uint64(i), end)
		for k := 0; k < len(want[i]); k += 8 {
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], r.Uint64())
			copy(want[i][k:], word[:])
		}
		if err := p[i].buffer.CopyIn(0, want[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range lists {
		for _, q := range l.Pieces {
			if op == transports.Read {
				copy(want[0][q.Local:q.Local+q.Length], want[1][q.Remote:])
			} else {
				copy(want[1][q.Remote:q.Remote+q.Length], want[0][q.Local:])
			}
		}
	}
	l := &transports.Loop{Op: op, Lists: lists, Depth: 8, Count: uint64(lists[0].Ops()), Wait: transports.Adaptive, Stamps: make([]transports.Stamps, len(lists))}
	if err := p.run(l); err != nil {
		t.Fatal(err)
	}
	for s := range lists {
		var total uint64
		for i := range lists[s].Ops() {
			total += lists[s].Bytes(i)
		}
		if l.Stamps[s].Bytes != total {
			t.Errorf("stream %d: %d bytes counted of %d", s, l.Stamps[s].Bytes, total)
		}
	}
	for i := range p {
		got := make([]byte, len(want[i]))
		if err := p[i].buffer.CopyOut(0, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want[i]) {
			at := 0
			for got[at] == want[i][at] {
				at++
			}
			t.Errorf("%s: side %d differs first at byte %d", op, i, at)
		}
	}
}
