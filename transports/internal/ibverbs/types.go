package ibverbs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// DefaultLibrary is the library's name for the loader. The name without the version belongs to development packages.
const DefaultLibrary = "libibverbs.so.1"

// ErrNoHeaders means that this program was built where infiniband/verbs.h was missing, or without cgo.
var ErrNoHeaders = errors.New("this program was built without infiniband/verbs.h (Debian: libibverbs-dev, Fedora: rdma-core-devel) and so has no verbs")

// LoadError says why the library cannot be used.
type LoadError struct {
	Name    string // what was asked of the loader
	Path    string // the file that was found, if any
	Text    string // the loader's words, if it found none
	Missing string // the required functions that are not in it, each NAME@VERSION
}

func (e *LoadError) Error() string {
	if e.Missing != "" {
		return fmt.Sprintf("%s is too old: it lacks %s", e.Path, e.Missing)
	}
	return e.Text
}

// Device is one entry of the library's list.
type Device struct {
	Name      string
	Node      string // "uverbs0"
	GUID      uint64
	NodeType  int // 1 channel adapter, 4 iWARP NIC, 7 unspecified
	Transport int // 0 InfiniBand (and RoCE), 1 iWARP, 2 and above others
}

// Limits is what a device can hold.
type Limits struct {
	Firmware                string
	Vendor, Part            uint32
	MaxRegion               uint64 // bytes of one registration
	MaxQP, MaxWork, MaxSGE  int
	MaxSGERead, MaxCQ       int
	MaxCQE, MaxRegions      int
	MaxReadsIn, MaxReadsOut int // RDMA reads in flight on a queue pair, answered and asked
	Ports                   int
}

// Link layers of a port.
const (
	LinkUnspecified = 0
	LinkInfiniBand  = 1
	LinkEthernet    = 2
)

// PortActive is the state of a port that carries data; the others are 1 down, 2 init, 3 armed, 5 active and deferred.
const PortActive = 4

// FlagGRHRequired of a port says that every path needs a global route header.
const FlagGRHRequired = 1

// Port is the state of one port. MTUs are codes: see [MTUBytes].
type Port struct {
	MaxMessage                 uint64
	State, PhysicalState, Link int
	MaxMTU, ActiveMTU          int
	GIDs, PKeys                int // sizes of the tables
	LID, SMLID, LMC, SMSL      int
	Width, Speed, Flags        int
}

// MTUBytes is the size of an MTU code (1 is 256, 5 is 4096); 0 for a code that is none.
func MTUBytes(code int) int {
	if code < 1 || code > 5 {
		return 0
	}
	return 128 << code
}

// MTUCode is the code of a size in bytes, or 0.
func MTUCode(bytes int) int {
	for code := 1; code <= 5; code++ {
		if MTUBytes(code) == bytes {
			return code
		}
	}
	return 0
}

// GID is one used slot of a port's table.
type GID struct {
	Index   int
	Raw     [16]byte
	Type    int // 0 InfiniBand, 1 RoCE v1, 2 RoCE v2; -1: the library cannot say
	Ifindex uint32
}

// Access is what a peer may do with a region.
type Access int

// The rights of a registration. Relaxed lets the device and the bus reorder writes, which the data's last byte then no longer follows.
const (
	RemoteWrite Access = 1 << iota
	RemoteRead
	Relaxed
)

// Want is what a group of queue pairs is made for.
type Want struct {
	Queues             int
	SendWork, RecvWork int // work requests that each holds
	SGE                int // pieces of one work request
	Inline             int // bytes; less is granted where the device takes less
	PostList           int // work requests in one post
}

// Way is where a queue pair sends, and how patiently.
type Way struct {
	GID                   [16]byte
	QPN, SendPSN, RecvPSN uint32
	LID                   int
	Global                bool
	GIDIndex, HopLimit    int
	TrafficClass, SL      int
	FlowLabel             uint32
	Port, PKeyIndex       int
	MTU                   int // code
	Timeout               int // 4.096 us x 2^Timeout
	Retries, RNRRetries   int
	RNRTimer              int // code; 12 is 0.64 ms
	ReadsOut, ReadsIn     int
}

// Op is the operation of a loop.
type Op int32

// The operations, with the values of the shim.
const (
	Write Op = iota
	Read
	Send
)

// Wait is how a loop waits for completions.
type Wait int32

// The waits, with the values of the shim.
const (
	Adaptive Wait = iota
	Spin
	Block
)

// Echo says how the initiator of a ping-pong learns of an answer.
type Echo int32

// The echoes, with the values of the shim.
const (
	NoEcho      Echo = iota
	EchoMark         // the last byte of the answer changes, and the CPU looks at it
	EchoMessage      // a completion: a write with immediate, or a send
)

// Piece has the layout of a descriptor of the contract: two offsets and a length.
type Piece struct {
	Local, Remote, Length uint64
}

// Stream is one stream's part of a loop.
type Stream struct {
	Pieces []Piece
	Ends   []uint32 // where each operation's pieces end
	At     []int64  // room for stamps; empty for none
	Every  uint64   // one stamp every so many operations

	// What the loop found.
	Stamps            int
	Done              uint64 // operations
	Start, End, First int64  // ns of CLOCK_MONOTONIC: first post, last and first confirmation
}

// Loop is one timed loop.
type Loop struct {
	Op             Op
	Wait           Wait
	Notify         bool
	Echo           Echo
	Depth          int // operations outstanding a stream
	Batch          int // operations that wait for each other and go in one post; 0 and 1: none waits
	PostList       int // most operations of one post where none waits; 0: all that are due
	SignalEvery    int // every so manyth operation asks for a completion
	Inline         int // bytes
	SGE            int
	MaxMessage     uint64
	Count          uint64
	Deadline       int64 // ns of CLOCK_MONOTONIC
	StallNS        int64
	SpinNS         int64
	BytesPerSecond float64
	Local, Remote  uint64 // addresses of the two regions
	Reply          uint64 // where answers land, relative to the pieces' local offsets
	LocalKey       uint32
	RemoteKey      uint32
	Watched        bool // the CPU may look at and write this side's memory
}

// Tally counts what a loop did.
type Tally struct {
	Posts, Messages, Polls, Blocks uint64
}

// Extent is bytes of a chunk: addresses in this side's and in the peer's memory.
type Extent struct {
	Local, Remote, Length uint64
}

// Post says how the extents of one chunk go.
type Post struct {
	Queue               int
	SGE                 int // pieces that a message may gather
	LocalKey, RemoteKey uint32
	Immediate           uint32
	Read                bool   // fetched instead of sent
	Tells               bool   // Immediate goes with the last of them
	MaxMessage          uint64 // no extent is longer
}

// MaxEvents is the most that one [Group.Poll] takes.
const MaxEvents = 32

// Event is something that a poll found: a number from the peer (Arrived is 1), a note (on the queue after the last stream's), or that the
// oldest chunk of a queue is confirmed.
type Event struct {
	Queue, Arrived, Immediate uint32
}

// Note is what the two sides of a loop tell each other outside the clock.
type Note int32

// The notes, with the values of the shim.
const (
	NoteBegin Note = iota + 1
	NoteReady
	NoteRefuse
	NoteEnd
	NoteLeft
)

// Heard is a note that came, and where this side is.
type Heard struct {
	Loop, Current uint32 // that the note is of, and that this side is in
	Unsent        int    // notes of this side that are not yet confirmed
	Op            Op
	Notify, Echo  bool
	Streams       int
	Took          []uint32 // numbers that the peer has sent in the loop, one a stream
}

// Step is where a call or a loop failed.
type Step int32

// The steps, with the values of the shim.
const (
	StepNone Step = iota
	StepChannel
	StepCQ
	StepQP
	StepInit
	StepRTR
	StepRTS
	StepPostSend
	StepPostRecv
	StepPoll
	StepArm
	StepEvent
	StepCompletion
	StepStall
	StepMemory
	StepArgument
	StepDisagree
	StepAbsent
	StepBroken
)

var stepNames = [...]string{"", "create a completion channel", "create a completion queue", "create a queue pair", "modify a queue pair to INIT",
	"modify a queue pair to RTR", "modify a queue pair to RTS", "post a send", "post a receive", "poll the completion queue",
	"ask for a completion event", "wait for a completion event", "complete a work request", "wait for a completion", "allocate memory",
	"check the arguments", "agree with the peer on the loop", "wait for the peer to serve", "use the queue pairs after a failed loop"}

func (s Step) String() string {
	if s < 0 || int(s) >= len(stepNames) {
		return fmt.Sprintf("step %d", int(s))
	}
	return stepNames[s]
}

// Failure is the error of groups and loops: where it happened and everything that the device said.
type Failure struct {
	Step    Step
	Errno   syscall.Errno
	Status  int    // of the completion; 0: there was none
	Text    string // the library's words for it
	Vendor  uint32
	QPN     uint32
	Receive bool   // the completion was of a receive
	Flushed uint64 // completions that were only flushed
	Limit   int    // the device's limit that was exceeded, where Errno is E2BIG
}

// Unwrap returns the errno, if there is one.
func (f *Failure) Unwrap() error {
	if f.Errno == 0 {
		return nil
	}
	return f.Errno
}

func (f *Failure) Error() string {
	var b strings.Builder
	b.WriteString(f.Step.String())
	if f.Status != 0 {
		fmt.Fprintf(&b, ": status %d (%s)", f.Status, f.Text)
		if f.Vendor != 0 {
			fmt.Fprintf(&b, ", vendor error 0x%x", f.Vendor)
		}
		fmt.Fprintf(&b, " on queue pair 0x%x", f.QPN)
	}
	if f.Errno != 0 {
		fmt.Fprintf(&b, ": %s (%d)", ErrnoName(f.Errno), int(f.Errno))
	}
	return b.String()
}

// ErrnoName is an errno as headers spell it: "ETIMEDOUT".
func ErrnoName(e syscall.Errno) string {
	if e == syscall.EOPNOTSUPP { // ENOTSUP is another name of the same number
		return "EOPNOTSUPP"
	}
	if n := unix.ErrnoName(e); n != "" {
		return n
	}
	return fmt.Sprintf("errno %d", int(e))
}
