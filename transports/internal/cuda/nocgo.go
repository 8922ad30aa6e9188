//go:build !cgo

package cuda

import (
	"time"

	"hopbench/transports/fault"
)

// Without cgo there is no binding: [Open] says so, nothing else here is ever reached, and everything above still builds.

func absent() error {
	return fault.New(fault.CUDABuiltWithout, "open the CUDA driver", "", "this program was built without cgo (CGO_ENABLED=0) and so has no CUDA")
}

// Library, Context, Thread, Stream and Event cannot be had in this build.
type (
	Library struct{}
	Context struct{}
	Thread  struct{}
	Stream  struct{}
	Event   struct{}
)

// Open fails.
func Open(string) (*Library, error) { return nil, absent() }

func (*Library) CanAccess(_, _ int) (bool, error)            { return false, absent() }
func (*Library) Close()                                      {}
func (*Library) Context(int) (*Context, error)               { return nil, absent() }
func (*Library) Devices() ([]Device, error)                  { return nil, absent() }
func (*Library) Double() string                              { return "" }
func (*Library) Find(string) (Device, error)                 { return Device{}, absent() }
func (*Library) Path() string                                { return "" }
func (*Library) PerformanceRank(_, _ int) *int               { return nil }
func (*Library) Version() string                             { return "" }
func (*Context) Close() error                                { return absent() }
func (*Context) Do(func(th *Thread) error) error             { return absent() }
func (*Context) Library() *Library                           { return nil }
func (*Context) Ordinal() int                                { return 0 }
func (*Thread) After(Stream, Event) error                    { return absent() }
func (*Thread) Alloc(uint64) (Pointer, error)                { return 0, absent() }
func (*Thread) AllocHost(int) ([]byte, error)                { return nil, absent() }
func (*Thread) CloseEvent(Event) error                       { return absent() }
func (*Thread) CloseStream(Stream) error                     { return absent() }
func (*Thread) Context() *Context                            { return nil }
func (*Thread) DisablePeer(*Context) error                   { return absent() }
func (*Thread) Elapsed(_, _ Event) (float64, error)          { return 0, absent() }
func (*Thread) EnablePeer(*Context) error                    { return absent() }
func (*Thread) FlushRDMAWrites() error                       { return absent() }
func (*Thread) Free(Pointer) error                           { return absent() }
func (*Thread) FreeHost([]byte) error                        { return absent() }
func (*Thread) Memory() (available, total uint64, err error) { return 0, 0, absent() }
func (*Thread) NewEvent() (Event, error)                     { return Event{}, absent() }
func (*Thread) NewStream() (Stream, error)                   { return Stream{}, absent() }
func (*Thread) Passed(Event) (bool, error)                   { return false, absent() }
func (*Thread) Pin([]byte) error                             { return absent() }
func (*Thread) PingPong(*Loop, Echo) (Done, error)           { return Done{}, absent() }
func (*Thread) Record(Event, Stream) error                   { return absent() }
func (*Thread) Run(*Loop) (Done, error)                      { return Done{}, absent() }
func (*Thread) SyncMemops(Pointer) error                     { return absent() }
func (*Thread) Synchronize(Stream) error                     { return absent() }
func (*Thread) ToDevice(Pointer, []byte, Stream) error       { return absent() }
func (*Thread) ToHost([]byte, Pointer, Stream) error         { return absent() }
func (*Thread) Unpin([]byte) error                           { return absent() }

func (*Thread) Copy(_ Way, _ []Piece, _, _ Event, _ Stream) error      { return absent() }
func (*Thread) DMABuf(Pointer, uint64) (fd int, how string, err error) { return -1, "", absent() }
func (*Thread) Range(Pointer) (base Pointer, bytes uint64, err error)  { return 0, 0, absent() }
func (*Thread) Set(Pointer, byte, uint64, Stream) error                { return absent() }
func (*Thread) Wait(_ Event, _, _ time.Duration) error                 { return absent() }
