package transports

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"hopbench/transports/fault"
	"hopbench/transports/mem"
	"hopbench/transports/topo"
)

// Driver is one way to move bytes between two buffers.
type Driver interface {
	// Name is the name that a flag and a result row give: "tcp", "roce", "cuda-peer".
	Name() string
	// Settings are the driver's own settings, for flags and plans. The harness passes them on and knows none of them.
	Settings() []Setting
	// Probe says whether the driver can open here, by doing: nil for usable, a *fault.Error of class NotSupported or
	// NotReady for not usable, any other error for cannot tell.
	Probe(ctx context.Context) error
	// Checks are the doctor's questions about this driver, over a live or a captured host.
	Checks() []Check
	// Open opens one side. Errors are *fault.Error.
	Open(ctx context.Context, o Options) (Transport, error)
}

// Setting is one knob of a driver: a value by name, per side.
type Setting struct {
	Name    string // as a flag: "gid-index"
	Usage   string // one line for help
	Default string
	Check   func(value string) error // nil for a value that the driver takes; nil Check takes all
	// GPUMemory says that it has an effect on GPU memory alone.
	GPUMemory bool
}

// Options is what one side is opened with.
type Options struct {
	Device   string            // "" lets the driver choose by its rule
	Settings map[string]string // by Setting.Name; absent means the default
	Bind     netip.Addr        // local address of the data path; the zero Addr lets the driver choose
	Announce string            // host name or address that the peer shall use for the data path; "" for the bound one
	Memory   mem.Spec          // the kind of buffer that will be registered, so that a device near it can be chosen
}

// Get is the value of a setting, or its default among known.
func (o Options) Get(known []Setting, name string) string {
	if v, ok := o.Settings[name]; ok {
		return v
	}
	for _, s := range known {
		if s.Name == name {
			return s.Default
		}
	}
	return ""
}

// CheckSettings refuses settings that no driver of the list knows, or whose value the driver refuses.
func CheckSettings(known []Setting, got map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(got)) { // of several that are wrong the same is named each time
		value, found := got[name], false
		for _, s := range known {
			if s.Name != name {
				continue
			}
			found = true
			if s.Check != nil {
				if err := s.Check(value); err != nil {
					return &fault.Error{Code: fault.SettingInvalid, Op: "read setting " + name, Err: err}
				}
			}
		}
		if !found {
			return fault.New(fault.SettingInvalid, "read setting "+name, "", "the transport has no such setting")
		}
	}
	return nil
}

// Check is one question of the doctor. It reads the host and nothing else, so that it answers the same for a captured one.
type Check struct {
	Code  fault.Code   // the row of the fault table that explains a no
	Title string       // the question in a few words: "the port is active"
	Needs []fault.Code // checks whose failure makes this one pointless: its symptoms are hidden behind the cause
	Run   func(h *topo.Host) []fault.Finding
}

// Transport is an open device on one side.
type Transport interface {
	// Caps is what this device can do. The harness checks it once, by Caps.Check, before anything else is made.
	Caps() Caps
	// Register makes a buffer reachable. The transport borrows the buffer until Region.Close.
	Register(b mem.Buffer) (Region, error)
	// NewEndpoint makes one side of a connection over a registered region, which it borrows until Endpoint.Close.
	NewEndpoint(o EndpointOptions) (Endpoint, error)
	// Close closes the device. It fails while a region or an endpoint is open.
	Close() error
}

// Region is a registered buffer.
type Region interface {
	Buffer() mem.Buffer
	// Key is what the peer needs to address the region, opaque to everybody but the driver.
	Key() []byte
	// Close ends the registration. It fails while an endpoint borrows the region.
	Close() error
}

// EndpointOptions is what an endpoint is made for. Both sides get the same values but for Region and Passive.
type EndpointOptions struct {
	Region  Region
	Streams int // connections or queue pairs: at least 1
	Depth   int // the largest Loop.Depth that will be asked for
	Pieces  int // the largest number of pieces in one operation
	// Largest is the largest operation in bytes.
	Largest uint64
	Wait    Wait
	// Passive is set on the side that waits for the other, where a transport knows such a difference: it listens, the other dials.
	Passive bool
	// StallSeconds is how long a loop goes without progress before it gives up. 0 means 5 s.
	StallSeconds float64
}

// Settle fills in what was left open, and refuses more streams than most.
func (o *EndpointOptions) Settle(most int) error {
	if o.Streams < 1 || o.Streams > most {
		return fault.New(fault.CapabilityGap, "make an endpoint", "", "%d streams; 1 to %d are possible", o.Streams, most)
	}
	if o.StallSeconds <= 0 {
		o.StallSeconds = 5
	}
	return nil
}

// Remote is what one side knows of the other.
type Remote struct {
	Address     []byte // the other endpoint's Address
	RegionKey   []byte // the other region's Key
	RegionBytes uint64
}

// Endpoint is one side of one connection of one or more streams. All loops of an endpoint run one after the other.
type Endpoint interface {
	// Address is what the peer's Connect needs: opaque bytes, at most 64 KiB, made when the endpoint is made.
	Address() []byte
	// Connect joins the two sides. Both sides call it at the same time and each returns when its side is ready.
	Connect(ctx context.Context, r Remote) error
	// Path is the evidence of which way the bytes go, valid after Connect.
	Path() Path
	// Counters reads the kernel's or the device's counters of this path now.
	Counters() ([]Counter, error)
	// Stream keeps l.Depth operations outstanding a stream until the count, the deadline or the stop word, waits for the
	// last confirmation and stamps completions. The peer must be in Serve.
	Stream(l *Loop) error
	// PingPong sends one operation at a time and waits for the peer's answer of the same size; a stamp is one round trip.
	PingPong(l *Loop) error
	// Serve does the target's part of the peer's Stream or PingPong (l.Echo) until the stop word is set or the peer says that its loop has ended.
	Serve(l *Loop) error
	// Close closes the connection. The endpoint may be closed while the other side is still open.
	Close() error
}
