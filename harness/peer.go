package harness

import (
	"context"
	"net/netip"

	"hopbench/results"
	"hopbench/transports"
	"hopbench/transports/mem"
)

// Peer is one side of a measurement: a process on some host, with its drivers.
type Peer interface {
	// Host is the fingerprint of the peer's host.
	Host(ctx context.Context) (results.Host, error)
	// Open opens a driver, allocates and registers its memory and makes its endpoints. Errors are *fault.Error.
	Open(ctx context.Context, r OpenRequest) (Lane, error)
	// Alive asks for a sign of life, and is one: a peer that hears nothing for long ends the session.
	Alive(ctx context.Context) error
	// Close ends everything that is still open.
	Close() error
}

// Lane is one open transport on one side. Its calls come in the order of the package comment; an error of Arm, Warm, Run or
// Disarm ends the lane's use: a transport that failed leaves the rotation.
type Lane interface {
	// Opened is what Open gave.
	Opened() Opened
	// Connect joins the lane's endpoints with the other side's. Both sides call it at the same time.
	Connect(ctx context.Context, r ConnectRequest) (Connected, error)
	// Prepare builds the lists of a work and fills the memory that it touches with the pattern of a round.
	Prepare(ctx context.Context, w Work) (Prepared, error)
	// Arm starts the serving side of a prepared work: loops Serves, one after the other. It returns when the first has begun.
	Arm(ctx context.Context, endpoint, loops int) error
	// Warm runs the initiator's loop without recording.
	Warm(ctx context.Context, endpoint int, s Span) error
	// Barrier returns when the serving side is in its next Serve.
	Barrier(ctx context.Context, endpoint int) error
	// Run runs the initiator's loop.
	Run(ctx context.Context, endpoint int, s Span) (Outcome, error)
	// Disarm ends the serving side and returns what its last Serve cost.
	Disarm(ctx context.Context, endpoint int) (Outcome, error)
	// Verify compares the memory with what the prepared work must have left. A mismatch is a *fault.Error with code payload.mismatch.
	Verify(ctx context.Context, endpoint int) error
	// Close closes the lane's endpoints, region, memory and transport.
	Close(ctx context.Context) error
}

// OpenRequest is what a lane is opened with. Sizes are the largest that the plan will ask for.
type OpenRequest struct {
	Driver   string
	Device   string
	Settings map[string]string
	Bind     netip.Addr // local data address; zero: the peer's choice
	Announce string     // data address that the other side shall use; empty: the bound one
	Memory   mem.Spec   // Bytes included
	// Endpoints is 1, or 2 for transfers both ways at once: each way has its own connection.
	Endpoints    int
	Passive      bool
	Streams      int
	Depth        int
	Pieces       int
	Largest      uint64
	Wait         transports.Wait
	StallSeconds float64
}

// Opened is what the other side needs to connect, what the device can do, and what opening took.
type Opened struct {
	Caps            transports.Caps
	Addresses       [][]byte // one an endpoint
	RegionKey       []byte
	RegionBytes     uint64
	Memory          mem.Facts
	OpenSeconds     float64
	AllocateSeconds float64
	RegisterSeconds float64
}

// ConnectRequest is the other side's Opened, as far as it matters.
type ConnectRequest struct {
	Addresses   [][]byte
	RegionKey   []byte
	RegionBytes uint64
}

// Connected is the evidence of the paths, one an endpoint.
type Connected struct {
	Paths          []transports.Path
	ConnectSeconds float64
}

// Work is one cell as both sides see it. Everything in it is data that either side can check against its own limits.
type Work struct {
	Endpoint int
	Op       transports.Op
	PingPong bool
	Notify   bool
	Initiate bool // this side runs the initiator's loops
	Shape    Shape
	Depth    int
	Batch    int
	Rate     float64 // bytes a second and stream; 0: as fast as it goes
	Wait     transports.Wait
	// Share of Shares is the part of its CPUs that this side pins its threads to: two sides on one host take different ones.
	Share, Shares int
	// Seed and Round decide the pattern of the payload.
	Seed  uint64
	Round uint64
}

// Prepared is what preparing took.
type Prepared struct {
	DescriptorSeconds float64 // building the lists
	Footprint         uint64  // bytes of this side's region that the work touches, from the shape's base
	CPUs              []int   // that its threads will be pinned to
}

// Span says how long a loop goes on and what it records.
type Span struct {
	Operations uint64  // a stream; 0: until Seconds have passed
	Seconds    float64 // 0: until Operations are done
	StampEvery uint64
	Stamps     int // room for stamps a stream; 0: nothing is recorded
}

// Outcome is what one loop did, derived from its stamps on the side that ran it.
type Outcome struct {
	Operations uint64
	Bytes      uint64
	Seconds    float64 // first post to last confirmation, over all streams
	// Stamps are the stamped confirmations of all streams in seconds after the first post, ascending. Each stands for StampEvery completions of BytesPerStamp bytes.
	Stamps        []float64
	BytesPerStamp float64
	StampEvery    uint64
	// LatencySeconds is each completion's time: a round trip of a ping-pong, or post to completion at depth 1. Empty where
	// that is not what the stamps say.
	LatencySeconds []float64
	// StreamSeconds is each stream's own time, first post to last confirmation.
	StreamSeconds []float64
	Usage         Usage
	Counters      []transports.Counter // growth over the loop, or the value for gauges
	CPUs          []int                // that its threads were pinned to
}

// Usage is what a loop cost.
type Usage struct {
	UserSeconds, SystemSeconds float64 // of the process
	HostBusySeconds            float64 // of all CPUs of the host; negative where the kernel does not say
	Voluntary, Involuntary     int64   // context switches of the process
	// Process and HostID tell whether two sides share a process or a host, whose cost must be counted once.
	Process string
	HostID  string
}
