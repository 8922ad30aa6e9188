//go:build !cgo

package ibverbs

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Without cgo there is no binding: [Load] says so, nothing else here is ever reached, and everything above still builds.

// Library cannot be had in this build.
type Library struct{ Path, Absent, Double string }

// Context, Region and Group cannot be had either.
type (
	Context struct{}
	Region  struct {
		Local, Remote uint32
		Relaxed       bool
	}
	Group struct {
		QPNs []uint32
		Want Want
		CQE  int
	}
)

// MaxQueues is how many queue pairs a group may have.
const MaxQueues = 1

// Load fails.
func Load(string) (*Library, error) { return nil, ErrNoHeaders }

func (*Library) Devices() ([]Device, error)    { return nil, ErrNoHeaders }
func (*Library) Open(string) (*Context, error) { return nil, ErrNoHeaders }

func (*Context) Close() error                                      { return ErrNoHeaders }
func (*Context) Event() (kind int, qpn uint32, ok bool)            { return 0, 0, false }
func (*Context) GID(_, _ int) (GID, error)                         { return GID{}, ErrNoHeaders }
func (*Context) GIDs(int) ([]GID, error)                           { return nil, ErrNoHeaders }
func (*Context) Limits() (Limits, error)                           { return Limits{}, ErrNoHeaders }
func (*Context) NewGroup(Want) (*Group, error)                     { return nil, ErrNoHeaders }
func (*Context) PKey(_, _ int) (uint16, error)                     { return 0, ErrNoHeaders }
func (*Context) Port(int) (Port, error)                            { return Port{}, ErrNoHeaders }
func (*Context) Register(uintptr, uint64, Access) (*Region, error) { return nil, ErrNoHeaders }
func (*Context) RegisterDMABuf(_ int, _, _, _ uint64, _ Access) (*Region, error) {
	return nil, ErrNoHeaders
}

func (*Region) Close() error { return ErrNoHeaders }

func (*Group) Close() error                                           { return ErrNoHeaders }
func (*Group) Init(_, _ int) error                                    { return ErrNoHeaders }
func (*Group) Ready(int, Way) error                                   { return ErrNoHeaders }
func (*Group) State(int) (int, error)                                 { return 0, ErrNoHeaders }
func (*Group) Initiate(Loop, []Stream, *atomic.Uint32) (Tally, error) { return Tally{}, ErrNoHeaders }
func (*Group) Serve(Loop, []Stream, *atomic.Uint32) (Tally, error)    { return Tally{}, ErrNoHeaders }
func (*Group) OpenWire() error                                        { return ErrNoHeaders }
func (*Group) Post(Post, []Extent) (int, error)                       { return 0, ErrNoHeaders }
func (*Group) Tell(int, uint32) (bool, error)                         { return false, ErrNoHeaders }
func (*Group) Poll(*[MaxEvents]Event, Wait, int64) ([]Event, error)   { return nil, ErrNoHeaders }
func (*Group) Say(Note, Loop, int) error                              { return ErrNoHeaders }
func (*Group) Start(uint32)                                           {}
func (*Group) Heard(Note) Heard                                       { return Heard{} }
func (*Group) Break()                                                 {}

// StatusText has no words.
func StatusText(int) string { return "" }

// Now is CLOCK_MONOTONIC in nanoseconds.
func Now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail for this clock
	return t.Nano()
}
