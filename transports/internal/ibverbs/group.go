//go:build cgo

package ibverbs

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Group is a set of reliable-connection queue pairs that share one completion queue, with the loops over them. Its
// last queue pair is the group's own: over it the two sides' loops tell each other that they begin and end, outside the clock.
type Group struct {
	g      *C.hv_group
	QPNs   []uint32 // one a queue, and the group's own
	Want   Want     // what was granted
	CQE    int
	queues int
}

// MaxQueues is how many queue pairs a group may have.
const MaxQueues = C.HV_QUEUES

// NewGroup makes the queue pairs, in state RESET. An error is a *Failure.
func (c *Context) NewGroup(w Want) (*Group, error) {
	want := C.struct_hv_group_request{queues: C.uint32_t(w.Queues), send_work: C.uint32_t(w.SendWork), recv_work: C.uint32_t(w.RecvWork),
		sge: C.uint32_t(w.SGE), inline_bytes: C.uint32_t(w.Inline), post_list: C.uint32_t(w.PostList), events: 1}
	var got C.struct_hv_group_grant
	var why C.struct_hv_failure
	qpns := make([]uint32, max(w.Queues, 0)+1)
	var g *C.hv_group
	if C.hv_group_create(c.c, &want, &got, (*C.uint32_t)(&qpns[0]), &g, &why) != 0 {
		f := failure(&why)
		f.Limit = int(got.cqe)
		return nil, f
	}
	w.SendWork, w.RecvWork, w.SGE, w.Inline = int(got.send_work), int(got.recv_work), int(got.sge), int(got.inline_bytes)
	return &Group{g: g, QPNs: qpns, Want: w, CQE: int(got.cqe), queues: w.Queues}, nil
}

// Init brings every queue pair to INIT and posts the receives of the group's own, so that a peer never finds none.
func (g *Group) Init(port, pkeyIndex int) error {
	for i := range g.QPNs {
		if e := C.hv_queue_init(g.g, C.uint32_t(i), C.int(port), C.int(pkeyIndex)); e != 0 {
			return &Failure{Step: StepInit, Errno: errnoOf(errno("", e)), QPN: g.QPNs[i]}
		}
	}
	var why C.struct_hv_failure
	if C.hv_open_notes(g.g, &why) != 0 {
		return failure(&why)
	}
	return nil
}

// Ready brings queue i (the last is the group's own) to RTR and RTS.
func (g *Group) Ready(i int, w Way) error {
	p := C.struct_hv_path{qpn: C.uint32_t(w.QPN), send_psn: C.uint32_t(w.SendPSN), recv_psn: C.uint32_t(w.RecvPSN), flow_label: C.uint32_t(w.FlowLabel),
		lid: C.int32_t(w.LID), gid_index: C.int32_t(w.GIDIndex), hop_limit: C.int32_t(w.HopLimit), traffic_class: C.int32_t(w.TrafficClass),
		sl: C.int32_t(w.SL), port: C.int32_t(w.Port), pkey_index: C.int32_t(w.PKeyIndex), mtu: C.int32_t(w.MTU), timeout: C.int32_t(w.Timeout),
		retries: C.int32_t(w.Retries), rnr_retries: C.int32_t(w.RNRRetries), rnr_timer: C.int32_t(w.RNRTimer), reads_out: C.int32_t(w.ReadsOut),
		reads_in: C.int32_t(w.ReadsIn)}
	if w.Global {
		p.global = 1
	}
	for k, b := range w.GID {
		p.gid[k] = C.uint8_t(b)
	}
	if e := C.hv_queue_rtr(g.g, C.uint32_t(i), &p); e != 0 {
		return &Failure{Step: StepRTR, Errno: errnoOf(errno("", e)), QPN: g.QPNs[i]}
	}
	if e := C.hv_queue_rts(g.g, C.uint32_t(i), &p); e != 0 {
		return &Failure{Step: StepRTS, Errno: errnoOf(errno("", e)), QPN: g.QPNs[i]}
	}
	return nil
}

// State is the state of queue i as the kernel has it: 3 is ready to send, 6 is error.
func (g *Group) State(i int) (int, error) {
	var s C.int
	err := errno("ibv_query_qp", C.hv_queue_state(g.g, C.uint32_t(i), &s))
	return int(s), err
}

// Close destroys the queue pairs, then what they share.
func (g *Group) Close() error { return errno("destroy the queue pairs", C.hv_group_destroy(g.g)) }

// Initiate runs the initiator's loop: a stream of operations, or a ping-pong. The peer must be in Serve with the same lists.
func (g *Group) Initiate(l Loop, streams []Stream, stop *atomic.Uint32) (Tally, error) {
	return g.loop(l, streams, stop, func(c *C.struct_hv_loop, s *C.struct_hv_stream, w *C.uint32_t, t *C.struct_hv_tally, f *C.struct_hv_failure) C.int {
		return C.hv_initiate(g.g, c, s, w, t, f)
	})
}

// Serve runs the target's loop until the peer's has ended or the stop word is set.
func (g *Group) Serve(l Loop, streams []Stream, stop *atomic.Uint32) (Tally, error) {
	return g.loop(l, streams, stop, func(c *C.struct_hv_loop, s *C.struct_hv_stream, w *C.uint32_t, t *C.struct_hv_tally, f *C.struct_hv_failure) C.int {
		return C.hv_serve(g.g, c, s, w, t, f)
	})
}

func (g *Group) loop(l Loop, streams []Stream, stop *atomic.Uint32,
	run func(*C.struct_hv_loop, *C.struct_hv_stream, *C.uint32_t, *C.struct_hv_tally, *C.struct_hv_failure) C.int) (Tally, error) {
	if len(streams) == 0 {
		return Tally{}, &Failure{Step: StepArgument, Errno: errnoOf(errno("", 22))}
	}
	// The streams point into Go memory, which is pinned for the time of the call.
	var pin runtime.Pinner
	defer pin.Unpin()
	in := make([]C.struct_hv_stream, len(streams))
	for i := range streams {
		s := &streams[i]
		if len(s.Ends) == 0 || len(s.Pieces) == 0 || int(s.Ends[len(s.Ends)-1]) > len(s.Pieces) {
			return Tally{}, fmt.Errorf("stream %d has an empty or broken list", i)
		}
		pin.Pin(&s.Pieces[0])
		pin.Pin(&s.Ends[0])
		in[i] = C.struct_hv_stream{pieces: (*C.struct_hv_piece)(unsafe.Pointer(&s.Pieces[0])), ends: (*C.uint32_t)(unsafe.Pointer(&s.Ends[0])),
			ops: C.uint32_t(len(s.Ends)), every: C.uint64_t(max(s.Every, 1))}
		if len(s.At) > 0 {
			pin.Pin(&s.At[0])
			in[i].at, in[i].room = (*C.int64_t)(unsafe.Pointer(&s.At[0])), C.uint64_t(len(s.At))
		}
	}
	c := C.struct_hv_loop{op: C.int32_t(l.Op), wait: C.int32_t(l.Wait), echo: C.int32_t(l.Echo), streams: C.int32_t(len(streams)),
		depth: C.uint32_t(l.Depth), batch: C.uint32_t(l.Batch), post_list: C.uint32_t(l.PostList), signal_every: C.uint32_t(l.SignalEvery), inline_bytes: C.uint32_t(l.Inline),
		sge: C.uint32_t(l.SGE), max_message: C.uint64_t(l.MaxMessage), count: C.uint64_t(l.Count), deadline: C.int64_t(l.Deadline),
		stall: C.int64_t(l.StallNS), spin: C.int64_t(l.SpinNS), bytes_per_second: C.double(l.BytesPerSecond), local: C.uint64_t(l.Local),
		remote: C.uint64_t(l.Remote), reply: C.uint64_t(l.Reply), local_key: C.uint32_t(l.LocalKey), remote_key: C.uint32_t(l.RemoteKey)}
	if l.Notify {
		c.notify = 1
	}
	if l.Watched {
		c.watched = 1
	}
	var none atomic.Uint32
	if stop == nil {
		stop = &none
	}
	var tally C.struct_hv_tally
	var why C.struct_hv_failure
	status := run(&c, &in[0], (*C.uint32_t)(unsafe.Pointer(stop)), &tally, &why)
	for i := range streams {
		s := &streams[i]
		s.Stamps, s.Done = int(in[i].stamps), uint64(in[i].done)
		s.Start, s.End, s.First = int64(in[i].start), int64(in[i].end), int64(in[i].first)
	}
	t := Tally{Posts: uint64(tally.posts), Messages: uint64(tally.messages), Polls: uint64(tally.polls), Blocks: uint64(tally.blocks)}
	if status != 0 {
		return t, failure(&why)
	}
	return t, nil
}
