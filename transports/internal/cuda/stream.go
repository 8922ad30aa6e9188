package cuda

// #include "shim.h"
import "C"

import (
	"time"
)

// Stream is a queue of work of one device: in order within, concurrent with others.
type Stream struct{ handle C.hb_stream }

// Event marks a place in a stream and the time at which the device passed it.
type Event struct{ handle C.hb_event }

// NewStream makes a stream that does not wait for the default stream (CU_STREAM_NON_BLOCKING).
func (th *Thread) NewStream() (Stream, error) {
	var s Stream
	err := th.lib.check("cuStreamCreate", C.hb_cuStreamCreate(th.lib.table, &s.handle, 1))
	return s, err
}

// CloseStream gives the stream back; its queued work runs to its end.
func (th *Thread) CloseStream(s Stream) error {
	return th.lib.check("cuStreamDestroy_v2", C.hb_cuStreamDestroy_v2(th.lib.table, s.handle))
}

// Synchronize waits until everything that was queued has run. An error of an earlier piece of work shows here.
func (th *Thread) Synchronize(s Stream) error {
	return th.lib.check("cuStreamSynchronize", C.hb_cuStreamSynchronize(th.lib.table, s.handle))
}

// NewEvent makes an event with a time.
func (th *Thread) NewEvent() (Event, error) {
	var e Event
	err := th.lib.check("cuEventCreate", C.hb_cuEventCreate(th.lib.table, &e.handle, 0))
	return e, err
}

// CloseEvent gives the event back.
func (th *Thread) CloseEvent(e Event) error {
	return th.lib.check("cuEventDestroy_v2", C.hb_cuEventDestroy_v2(th.lib.table, e.handle))
}

// Record puts the event at the end of the stream's queue.
func (th *Thread) Record(e Event, s Stream) error {
	return th.lib.check("cuEventRecord", C.hb_cuEventRecord(th.lib.table, e.handle, s.handle))
}

// After makes what is queued on s from now on wait for e, without a thread of the host.
func (th *Thread) After(s Stream, e Event) error {
	return th.lib.check("cuStreamWaitEvent", C.hb_cuStreamWaitEvent(th.lib.table, s.handle, e.handle, 0))
}

// Passed says whether the device has passed the event.
func (th *Thread) Passed(e Event) (bool, error) {
	r := C.hb_cuEventQuery(th.lib.table, e.handle)
	if r == codeNotReady {
		return false, nil
	}
	return r == 0, th.lib.check("cuEventQuery", r)
}

// Elapsed is the device's own time between two events that it has passed, in seconds (the driver's clock ticks in about
// half a microsecond).
func (th *Thread) Elapsed(from, to Event) (float64, error) {
	var ms C.float
	err := th.lib.check("cuEventElapsedTime", C.hb_cuEventElapsedTime(th.lib.table, &ms, from.handle, to.handle))
	return float64(ms) / 1e3, err
}

// Wait waits until the device has passed the event: it looks again and again for spin (negative: for ever), then sleeps
// between looks. After limit (0: none) it gives up with [ErrStalled].
func (th *Thread) Wait(e Event, spin, limit time.Duration) error {
	p := C.struct_hb_patience{spin_ns: C.int64_t(spin), stall_ns: C.int64_t(limit)}
	r := C.hb_wait_event(th.lib.table, e.handle, &p)
	if r == codeNotReady {
		return ErrStalled
	}
	return th.lib.check("cuEventQuery", r)
}
