package control

import (
	"errors"
	"math"
	"testing"

	"hopbench/harness"
	"hopbench/transports/fault"
)

// What a client asks for is held against the caps before anything is made for it.
func TestCaps(t *testing.T) {
	limits := harness.Limits{MaxMemory: 64 << 20, MaxSize: 1 << 20, MaxSeconds: 60}
	s := serve(t, Options{Limits: limits}, nil)
	c := s.client(t, DialOptions{Loop: time60})
	for name, x := range map[string]struct {
		change func(*harness.OpenRequest)
		part   string
	}{
		"memory":        {func(r *harness.OpenRequest) { r.Memory.Bytes = 65 << 20 }, "--max-memory"},
		"all memory":    {func(r *harness.OpenRequest) { r.Memory.Bytes = math.MaxUint64 }, "--max-memory"},
		"streams":       {func(r *harness.OpenRequest) { r.Streams = 1024 }, "--max-memory"},
		"pieces":        {func(r *harness.OpenRequest) { r.Pieces = 1 << 24 }, "--max-memory"},
		"size":          {func(r *harness.OpenRequest) { r.Largest = 2 << 20 }, "--max-size"},
		"size of 2^64":  {func(r *harness.OpenRequest) { r.Largest = math.MaxUint64 }, "--max-size"},
		"depth":         {func(r *harness.OpenRequest) { r.Depth, r.Streams = 1<<16, 16 }, "--max-memory"},
		"both of those": {func(r *harness.OpenRequest) { r.Memory.Bytes, r.Endpoints = 63<<20, 2 }, "--max-memory"},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(true)
			x.change(&r)
			_, err := c.Open(t.Context(), r)
			contains(t, code(t, err, fault.PeerCap), x.part)
		})
	}
	r := open(true)
	r.Pieces, r.Depth, r.Largest = 1<<16, 64, 1<<20
	l, err := c.Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	w := work(true)
	w.Shape.Groups, w.Shape.Slots = []harness.Group{{Bytes: 1, Count: 1 << 16}}, 512
	_, err = l.Prepare(t.Context(), w)
	contains(t, code(t, err, fault.PeerCap), "--max-memory") // 2^25 descriptors
	w = work(true)
	w.Shape.Groups = []harness.Group{{Bytes: 2 << 20, Count: 1}}
	_, err = l.Prepare(t.Context(), w)
	contains(t, code(t, err, fault.PeerCap), "--max-size")
	w = work(true)
	w.Shape.Base = 1 << 20
	_, err = l.Prepare(t.Context(), w)
	code(t, err, fault.PeerRefused)
	_, err = l.Run(t.Context(), 0, harness.Span{Seconds: 61})
	contains(t, code(t, err, fault.PeerCap), "--max-duration")
	_, err = l.Run(t.Context(), 0, harness.Span{Seconds: 1, Stamps: maxStamps})
	contains(t, code(t, err, fault.PeerCap), "--max-memory")
	_, err = l.Run(t.Context(), 1, harness.Span{Seconds: 1})
	code(t, err, fault.PeerRefused)

	// What is closed is given back, and many lanes one after the other fit.
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		r := open(true)
		r.Memory.Bytes = 50 << 20
		l, err := c.Open(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		code(t, l.Close(t.Context()), fault.PeerRefused)
	}
}

// A client that calls in any order, with numbers of its own, gets errors; the server goes on.
func TestCallsInTheWrongOrder(t *testing.T) {
	s := serve(t, Options{Limits: harness.Limits{MaxMemory: 256 << 20, MaxSize: 1 << 20, MaxSeconds: 60}}, nil)
	c := s.client(t, DialOptions{Loop: time60})
	opened, err := c.Open(t.Context(), open(true))
	if err != nil {
		t.Fatal(err)
	}
	l := opened.(*lane)
	ctx := t.Context()
	try := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s was done", what)
		} else if fault.CodeOf(err) == fault.PeerVanished || fault.CodeOf(err) == fault.PeerDeadline {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for _, endpoint := range []int{-1, 0, 1, 1 << 40} {
		try("arm", l.Arm(ctx, endpoint, 1))
		try("barrier", l.Barrier(ctx, endpoint))
		try("warm", l.Warm(ctx, endpoint, harness.Span{Operations: 1}))
		_, err := l.Run(ctx, endpoint, harness.Span{Operations: 1})
		try("run", err)
		_, err = l.Disarm(ctx, endpoint)
		try("disarm", err)
		try("verify", l.Verify(ctx, endpoint))
	}
	_, err = l.Prepare(ctx, harness.Work{})
	try("prepare nothing", err)
	if _, err := l.Prepare(ctx, work(true)); err != nil {
		t.Fatal(err)
	}
	_, err = l.Run(ctx, 0, harness.Span{Operations: 1, Stamps: 1})
	try("run unconnected", err)
	try("arm the other part", l.Arm(ctx, 0, 1))
	_, err = l.Connect(ctx, harness.ConnectRequest{})
	try("connect to nobody", err)
	_, err = l.Connect(ctx, harness.ConnectRequest{Addresses: [][]byte{[]byte("{")}})
	try("connect to garbage", err)
	l.id = 77
	try("another lane", l.Close(ctx))
	if err := c.Alive(ctx); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Close()); err != nil {
		t.Error(err)
	}
}
