package tcp

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"hopbench/transports"
	"hopbench/transports/mem"
)

// BenchmarkLoop shows what a message costs and that a loop allocates nothing for it: allocations an operation are those of
// one loop divided by its operations.
func BenchmarkLoop(b *testing.B) {
	for _, op := range transports.Ops() {
		for _, size := range []uint64{64, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", op, size), func(b *testing.B) {
				initiator, target, done := benchPair(b)
				defer done()
				list := []transports.List{{Pieces: []transports.Piece{{Length: size}}, Ends: []uint32{1}}}
				stop := new(atomic.Uint32)
				served := make(chan error, 1)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				go func() {
					served <- target.Serve(&transports.Loop{Op: op, Lists: list, Depth: 16, Stop: stop, Wait: transports.Adaptive, CPUs: []int{1}})
				}()
				err := initiator.Stream(&transports.Loop{Op: op, Lists: list, Depth: 16, Count: uint64(b.N), Wait: transports.Adaptive, CPUs: []int{0}})
				if err := errors.Join(err, <-served); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

func benchPair(b *testing.B) (initiator, target transports.Endpoint, done func()) {
	ctx := context.Background()
	var ends []transports.Endpoint
	var closers []func() error
	for _, passive := range []bool{false, true} {
		tr, err := New().Open(ctx, transports.Options{Bind: loopbackAddr})
		if err != nil {
			b.Fatal(err)
		}
		buffer, err := mem.Allocate(mem.Spec{Kind: mem.Host, Bytes: 2 << 20})
		if err != nil {
			b.Fatal(err)
		}
		r, err := tr.Register(buffer)
		if err != nil {
			b.Fatal(err)
		}
		e, err := tr.NewEndpoint(transports.EndpointOptions{Region: r, Streams: 1, Depth: 16, Passive: passive})
		if err != nil {
			b.Fatal(err)
		}
		ends = append(ends, e)
		closers = append(closers, e.Close, r.Close, buffer.Close, tr.Close)
	}
	there := make(chan error, 1)
	go func() {
		there <- ends[1].Connect(ctx, transports.Remote{Address: ends[0].Address(), RegionBytes: 2 << 20})
	}()
	if err := errors.Join(ends[0].Connect(ctx, transports.Remote{Address: ends[1].Address(), RegionBytes: 2 << 20}), <-there); err != nil {
		b.Fatal(err)
	}
	return ends[0], ends[1], func() {
		for _, c := range closers {
			if err := c(); err != nil {
				b.Error(err)
			}
		}
	}
}
