package cuda

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

func (s Side) c() C.struct_hb_side {
	side := C.struct_hb_side{address: C.uint64_t(s.Address)}
	if s.Context != nil {
		side.ctx = s.Context.handle
	}
	return side
}

func (w Way) c() C.struct_hb_way {
	way := C.struct_hb_way{local: w.Local.c(), remote: w.Remote.c()}
	if w.Read {
		way.read = 1
	}
	return way
}

// Copy queues every piece on the stream, between the two events (the zero Event for none), in one crossing to C.
func (th *Thread) Copy(w Way, pieces []Piece, before, after Event, s Stream) error {
	way := w.c()
	r := C.hb_copy_list(th.lib.table, &way, (*C.struct_hb_piece)(unsafe.Pointer(unsafe.SliceData(pieces))), C.size_t(len(pieces)),
		before.handle, after.handle, s.handle)
	return th.lib.check("queue copies", r)
}

// Run keeps len(l.Events) operations in flight on the current context until the loop ends, natively. It returns with
// nothing in flight, unless it returns [ErrStalled].
func (th *Thread) Run(l *Loop) (Done, error) {
	return th.run(l, func(loop *C.struct_hb_loop) C.hb_result { return C.hb_stream_loop(th.lib.table, loop) })
}

// PingPong does one operation, waits for it, does the same pieces on the way back and waits again; a stamp is one round
// trip. Both waits are the host's, as when the two sides were told by the host that data has come.
func (th *Thread) PingPong(l *Loop, back Echo) (Done, error) {
	echo := C.struct_hb_echo{way: back.Way.c(), stream: back.Stream.handle, event: back.Event.handle, ctx: back.Context.handle}
	return th.run(l, func(loop *C.struct_hb_loop) C.hb_result {
		return C.hb_pingpong_loop(th.lib.table, loop, &echo, th.ctx.handle)
	})
}

func (th *Thread) run(l *Loop, native func(*C.struct_hb_loop) C.hb_result) (Done, error) {
	if len(l.Events) == 0 || len(l.Ends) == 0 || int(l.Ends[len(l.Ends)-1]) > len(l.Pieces) {
		return Done{}, fmt.Errorf("a loop of %d events over %d operations of %d pieces", len(l.Events), len(l.Ends), len(l.Pieces))
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	loop := &C.struct_hb_loop{
		way:          l.Way.c(),
		operations:   C.size_t(len(l.Ends)),
		stream:       l.Stream.handle,
		depth:        C.size_t(len(l.Events)),
		count:        C.uint64_t(l.Count),
		deadline:     C.int64_t(l.Deadline),
		bytes_per_ns: C.double(l.BytesPerSecond / 1e9),
		patience:     C.struct_hb_patience{spin_ns: C.int64_t(l.Spin), stall_ns: C.int64_t(l.Stall)},
		stamps_cap:   C.size_t(len(l.Stamps)),
		every:        C.uint64_t(max(l.Every, 1)),
	}
	pin.Pin(&l.Pieces[0])
	loop.pieces = (*C.struct_hb_piece)(unsafe.Pointer(&l.Pieces[0]))
	pin.Pin(&l.Ends[0])
	loop.ends = (*C.uint32_t)(unsafe.Pointer(&l.Ends[0]))
	pin.Pin(&l.Events[0])
	loop.events = (*C.hb_event)(unsafe.Pointer(&l.Events[0]))
	if l.Stop != nil {
		pin.Pin(l.Stop)
		loop.patience.stop = (*C.uint32_t)(unsafe.Pointer(l.Stop))
	}
	if len(l.Stamps) > 0 {
		pin.Pin(&l.Stamps[0])
		loop.stamps = (*C.int64_t)(unsafe.Pointer(&l.Stamps[0]))
	}
	if l.Notify != nil {
		loop.notify, loop.notify_fd, loop.reply_fd = 1, C.int(l.Notify[0]), C.int(l.Notify[1])
	}
	r := native(loop)
	done := Done{
		Start: int64(loop.start), FirstUse: int64(loop.first_use),
		Ops: uint64(loop.done), Bytes: uint64(loop.bytes), Stamps: int(loop.stamps_len),
	}
	if r == codeNotReady {
		return done, ErrStalled
	}
	return done, th.lib.check("run copies", r)
}
