package ibverbs_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"hopbench/transports/internal/ibverbs"
)

func stepOf(err error) ibverbs.Step {
	var f *ibverbs.Failure
	if errors.As(err, &f) {
		return f.Step
	}
	return ibverbs.StepNone
}

// TestSilentPeer: a peer that is there and answers no more ends each kind of wait at the stall limit.
func TestSilentPeer(t *testing.T) {
	for _, wait := range []ibverbs.Wait{ibverbs.Spin, ibverbs.Adaptive, ibverbs.Block} {
		r := newRig(t, 1<<12, want())
		list := func() []ibverbs.Stream {
			return []ibverbs.Stream{{Pieces: []ibverbs.Piece{{Length: 64}}, Ends: []uint32{1}}}
		}
		l := ibverbs.Loop{Op: ibverbs.Send, Echo: ibverbs.EchoMessage, Wait: wait, Depth: 1, Count: 1 << 62, SGE: 1, MaxMessage: 1 << 30, StallNS: 200e6, SpinNS: 50e3, Reply: 2048, Watched: true}
		target := l
		l.Local, l.Remote = uint64(r.address(0)), uint64(r.address(1))
		target.Local, target.Remote = l.Remote, l.Local
		var stop, end atomic.Uint32
		served, done := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := r.group[1].Serve(target, list(), &stop)
			served <- err
		}()
		go func() {
			_, err := r.group[0].Initiate(l, list(), &end)
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		stop.Store(1) // the target's loop leaves, and says nothing
		<-served
		select {
		case err := <-done:
			if stepOf(err) != ibverbs.StepStall {
				t.Errorf("wait %d: %v", wait, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("wait %d: the loop goes on without its peer", wait)
		}
	}
}

// TestMarksInMemoryOfNoProcessor are refused: a peer may ask for them, and this side's memory may be a GPU's.
func TestMarksInMemoryOfNoProcessor(t *testing.T) {
	r := newRig(t, 1<<12, want())
	list := func() []ibverbs.Stream {
		return []ibverbs.Stream{{Pieces: []ibverbs.Piece{{Length: 64}}, Ends: []uint32{1}}}
	}
	l := ibverbs.Loop{Op: ibverbs.Write, Echo: ibverbs.EchoMark, Depth: 1, Count: 4, SGE: 1, MaxMessage: 1 << 30, StallNS: 5e9, SpinNS: 50e3, Reply: 2048, Watched: true}
	target := l
	l.Local, l.Remote = uint64(r.address(0)), uint64(r.address(1))
	target.Local, target.Remote, target.Watched = l.Remote, l.Local, false
	var stop atomic.Uint32
	served := make(chan error, 1)
	go func() {
		_, err := r.group[1].Serve(target, list(), &stop)
		served <- err
	}()
	_, err := r.group[0].Initiate(l, list(), nil)
	if stepOf(err) != ibverbs.StepDisagree {
		t.Errorf("the initiator: %v", err)
	}
	if err := <-served; stepOf(err) != ibverbs.StepDisagree {
		t.Errorf("the target: %v", err)
	}
}
