//go:build cgo

package ibverbs

// #include "shim.h"
import "C"

import (
	"unsafe"
)

// The layouts that cross to C as they are.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(Extent{})-C.sizeof_struct_hv_extent]
	_ = [1]struct{}{}[unsafe.Sizeof(Event{})-C.sizeof_struct_hv_wire_event]
)

// wireError is the failure that a call of the wire left, or nil.
func wireError(status C.int, why *C.struct_hv_failure) error {
	if status == 0 {
		return nil
	}
	return failure(why)
}

// OpenWire posts the receives of every stream for loops that run outside of C, chunk by chunk: once, when the queue pairs are made and
// before the peer may send. A group with an open wire runs no native loops.
func (g *Group) OpenWire() error {
	var why C.struct_hv_failure
	return wireError(C.hv_wire_open(g.g, &why), &why)
}

// Post posts one chunk as far as the queue has room, and says how many of its extents were taken. When all are, an [Event] of the queue
// that has not Arrived will tell that they are confirmed.
func (g *Group) Post(p Post, extents []Extent) (taken int, err error) {
	if len(extents) == 0 {
		return 0, nil
	}
	c := C.struct_hv_wire_post{queue: C.uint32_t(p.Queue), sge: C.uint32_t(p.SGE), local_key: C.uint32_t(p.LocalKey), remote_key: C.uint32_t(p.RemoteKey),
		immediate: C.uint32_t(p.Immediate), max_message: C.uint64_t(p.MaxMessage)}
	if p.Read {
		c.read = 1
	}
	if p.Tells {
		c.tells = 1
	}
	var n C.size_t
	var why C.struct_hv_failure
	err = wireError(C.hv_wire_post(g.g, &c, (*C.struct_hv_extent)(unsafe.Pointer(&extents[0])), C.size_t(len(extents)), &n, &why), &why)
	return int(n), err
}

// Tell sends a number alone, or says that the queue has no room for it now.
func (g *Group) Tell(queue int, immediate uint32) (sent bool, err error) {
	var full C.int
	var why C.struct_hv_failure
	err = wireError(C.hv_wire_tell(g.g, C.uint32_t(queue), C.uint32_t(immediate), &full, &why), &why)
	return full == 0 && err == nil, err
}

// Poll takes what has come and waits for it until then, in nanoseconds of [Now]'s clock; a time that has passed is one look.
func (g *Group) Poll(into *[MaxEvents]Event, w Wait, until int64) ([]Event, error) {
	var n C.int
	var why C.struct_hv_failure
	err := wireError(C.hv_wire_poll(g.g, C.int(w), C.int64_t(max(until, 1)), (*C.struct_hv_wire_event)(unsafe.Pointer(&into[0])), &n, &why), &why)
	return into[:n], err
}

// Say sends a note of a loop over the group's own queue pair. NoteBegin begins the next loop.
func (g *Group) Say(n Note, l Loop, streams int) error {
	c := C.struct_hv_loop{op: C.int32_t(l.Op), echo: C.int32_t(l.Echo), streams: C.int32_t(streams)}
	if l.Notify {
		c.notify = 1
	}
	var why C.struct_hv_failure
	return wireError(C.hv_wire_say(g.g, C.int(n), &c, &why), &why)
}

// Start begins the loop of that number on the side that heard of it.
func (g *Group) Start(loop uint32) { C.hv_wire_start(g.g, C.uint32_t(loop)) }

// Heard is the last note of a kind.
func (g *Group) Heard(n Note) Heard {
	took := make([]C.uint32_t, g.queues)
	var c C.struct_hv_wire_note
	C.hv_wire_heard(g.g, C.int(n), &c, &took[0], C.uint32_t(len(took)))
	h := Heard{Loop: uint32(c.heard), Current: uint32(c.loop), Unsent: int(c.unsent), Op: Op(c.op), Notify: c.notify != 0, Echo: c.echo != 0, Streams: int(c.streams)}
	for _, t := range took {
		h.Took = append(h.Took, uint32(t))
	}
	return h
}

// Break makes every later call on the group fail: after a failure above, nobody knows what is still on its way.
func (g *Group) Break() { C.hv_wire_break(g.g) }
