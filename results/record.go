package results

import (
	"encoding/json"
	"time"
)

// Schema is the format that this package writes. Its major version is the part after
// the last "v"; a file with another major is refused by name.
const Schema = "hopbench.results/v1"

// How a cell ended.
const (
	StatusOK      = "ok"      // measured, and verified where Verified says so
	StatusWaived  = "waived"  // cannot run here; Reason says why
	StatusFailed  = "failed"  // ran and failed; Reason and Code say why; no figure is kept
	StatusPartial = "partial" // stopped before its plan was done; the figures cover what ran
)

// What kind of machinery carried the bytes.
const (
	RealmHardware = "hardware" // a real NIC, a real GPU
	RealmSoftware = "software" // rxe, the loopback device, veth: a kernel, no link
	RealmEmulated = "emulated" // inside a software-emulated machine
	RealmDouble   = "double"   // a fake library was loaded; refused by table, plot, compare and export
)

// How a run ended. A cell that failed does not make its run a failed one, so long as the run went on to the end of its plan.
const (
	StateComplete    = "complete"    // the plan came to its end
	StateInterrupted = "interrupted" // a signal ended it
	StateFailed      = "failed"      // an error ended it, or the peer went away and no cell has a figure
)

// Where a figure comes from. An empty provenance means measured.
const (
	Measured   = "measured"
	FromSource = "reference" // stated by a source, which Source names
	Projected  = "projected" // computed from others
)

// Header is the first record of a file.
type Header struct {
	Schema      string            `json:"schema"`                // "hopbench.results/v1"
	ToolVersion string            `json:"tool_version"`          // version of the tool that wrote the file
	ToolCommit  string            `json:"tool_commit,omitempty"` // its commit, where the build knew it
	Started     time.Time         `json:"started"`               // RFC 3339
	Command     []string          `json:"command,omitempty"`     // the command line, secrets left out
	Plan        json.RawMessage   `json:"plan,omitempty"`        // the run's plan, as JSON
	Hosts       []Host            `json:"hosts"`                 // a fingerprint for each host; never null
	Settings    map[string]string `json:"settings,omitempty"`    // process-wide choices: gomaxprocs, gc, asyncpreempt …
	Seed        *int64            `json:"seed,omitempty"`        // seed of the payload patterns
	Provenance  string            `json:"provenance,omitempty"`  // of every cell that does not say itself; empty is measured
	Source      string            `json:"source,omitempty"`      // for an imported or reference file: from where
	Extra       Extra             `json:"-"`                     // keys of a newer writer
}

// Host is the fingerprint of one host.
type Host struct {
	Hostname          string   `json:"hostname"`
	Role              string   `json:"role,omitempty"` // "initiator", "target", "both", or a rank of a mesh
	Kernel            string   `json:"kernel,omitempty"`
	OS                string   `json:"os,omitempty"`
	Architecture      string   `json:"architecture,omitempty"`
	CPUModel          string   `json:"cpu_model,omitempty"`
	CPUs              *int64   `json:"cpus,omitempty"`         // logical CPUs that the process may use
	NUMANodes         *int64   `json:"numa_nodes,omitempty"`   // nodes with memory
	MemoryBytes       *int64   `json:"memory_bytes,omitempty"` // installed, or the container's limit where that is less
	GoVersion         string   `json:"go_version,omitempty"`
	CongestionControl string   `json:"congestion_control,omitempty"` // the kernel's default for TCP
	Virtualisation    string   `json:"virtualisation,omitempty"`     // "none", "kvm", "qemu-tcg" …; empty is not known
	ClockSource       string   `json:"clock_source,omitempty"`       // the kernel's current clock source
	ClockResolution   *float64 `json:"clock_resolution_seconds,omitempty"`
	Governor          string   `json:"governor,omitempty"` // CPU frequency governor
	Container         string   `json:"container,omitempty"`
	ContainerEvidence string   `json:"container_evidence,omitempty"` // what said so, e.g. the cgroup line
	GPUs              []GPU    `json:"gpus,omitempty"`
	NICs              []NIC    `json:"nics,omitempty"`
	ToolVersion       string   `json:"tool_version,omitempty"` // of the process on this host
	ToolCommit        string   `json:"tool_commit,omitempty"`
}

// GPU is one GPU of a host.
type GPU struct {
	Index         *int64 `json:"index,omitempty"`
	Name          string `json:"name,omitempty"`
	UUID          string `json:"uuid,omitempty"`
	PCI           string `json:"pci,omitempty"` // domain:bus:device.function
	MemoryBytes   *int64 `json:"memory_bytes,omitempty"`
	DriverVersion string `json:"driver_version,omitempty"`
	CUDAVersion   string `json:"cuda_version,omitempty"`
	NVLinks       *int64 `json:"nvlinks,omitempty"` // active links
	NUMANode      *int64 `json:"numa_node,omitempty"`
}

// NIC is one network or RDMA device of a host.
type NIC struct {
	Device            string `json:"device"`
	RDMADevice        string `json:"rdma_device,omitempty"`
	Driver            string `json:"driver,omitempty"`
	Firmware          string `json:"firmware,omitempty"`
	PCI               string `json:"pci,omitempty"`
	LinkLayer         string `json:"link_layer,omitempty"`
	RateBitsPerSecond *int64 `json:"rate_bits_per_second,omitempty"` // absent for software and virtual devices
	MTUBytes          *int64 `json:"mtu_bytes,omitempty"`
	NUMANode          *int64 `json:"numa_node,omitempty"`
	Virtual           *bool  `json:"virtual,omitempty"`
}

// Cell is one measured thing: one definition, at one size, of one path. The
// fields up to Realm are its identity, see Identity.
type Cell struct {
	Transport          string `json:"transport"`  // "tcp", "roce", "infiniband", "cuda-peer", "loopback" …
	Label              string `json:"label"`      // made from the evidence: "tcp, same host"
	Realm              string `json:"realm"`      // hardware, software, emulated or double
	Definition         string `json:"definition"` // what the number means, e.g. "bandwidth.confirmed"
	Operation          string `json:"operation"`  // write, read or send
	Direction          string `json:"direction"`  // forward, reverse or both
	PieceBytes         int64  `json:"piece_bytes"`
	TotalBytes         int64  `json:"total_bytes"`                     // of one operation: all its pieces
	Descriptors        int64  `json:"descriptors"`                     // pieces of one operation
	Pattern            string `json:"pattern"`                         // contiguous or scattered
	Depth              int64  `json:"depth"`                           // operations in flight on one stream
	Streams            int64  `json:"streams"`                         // connections (TCP), QPs (verbs)
	Concurrency        int64  `json:"concurrency"`                     // requests at once
	InitiatorMemory    string `json:"initiator_memory"`                // host, pinned, cuda:N
	TargetMemory       string `json:"target_memory"`                   // the same
	InitiatorGPUWay    string `json:"initiator_gpu_way,omitempty"`     // dmabuf, peermem, staged, peer; empty without a GPU
	TargetGPUWay       string `json:"target_gpu_way,omitempty"`        // the same
	Wait               string `json:"wait"`                            // adaptive, spin or block
	Rail               string `json:"rail,omitempty"`                  // device of a rail, or "all"
	InitiatorHost      string `json:"initiator_host,omitempty"`        // of a pair of a mesh
	TargetHost         string `json:"target_host,omitempty"`           // of a pair of a mesh
	Schedule           string `json:"schedule,omitempty"`              // of a mesh: isolated, incast, bisection …
	RateBytesPerSecond *int64 `json:"rate_bytes_per_second,omitempty"` // asked for; absent is as fast as it goes

	Status     string `json:"status"`               // ok, waived, failed or partial
	Reason     string `json:"reason,omitempty"`     // why it is not ok
	Code       string `json:"code,omitempty"`       // the doctor's code for the reason
	Provenance string `json:"provenance,omitempty"` // measured (or empty), reference or projected
	Source     string `json:"source,omitempty"`     // where a reference comes from, what a projection used
	PeerTool   string `json:"peer_tool,omitempty"`  // the tool that measured an imported cell, with its version
	View       string `json:"view,omitempty"`       // the other tool's definition that this cell was recomputed by

	Bandwidth            *Bandwidth `json:"bandwidth,omitempty"`
	Latency              *Latency   `json:"latency,omitempty"`
	MessageRatePerSecond *float64   `json:"message_rate_per_second,omitempty"`
	Converged            *bool      `json:"converged,omitempty"` // whether the interval of the median got within its bound
	Verified             *bool      `json:"verified,omitempty"`  // whether the payload was checked and right

	Cold           *Cold              `json:"cold_seconds,omitempty"`    // once-only costs, in seconds
	PhasesSeconds  map[string]float64 `json:"phases_seconds,omitempty"`  // device_to_host, wire, host_to_device, sum, overlapped …
	RequestSeconds []float64          `json:"request_seconds,omitempty"` // each request of a burst: post to confirmation; of more than 10000, so many drawn evenly
	CPU            *CPU               `json:"cpu,omitempty"`
	Counters       *Counters          `json:"counters,omitempty"`
	Limit          *Limit             `json:"limit,omitempty"`
	Path           *Path              `json:"path,omitempty"`
	TCP            *TCP               `json:"tcp,omitempty"`
	Pieces         []Piece            `json:"pieces,omitempty"` // where the pieces differ in size; piece_bytes is then the largest

	StampEvery       *int64            `json:"stamp_every,omitempty"`       // completions for one stamp
	Batch            *int64            `json:"batch,omitempty"`             // operations posted, or confirmed, at once
	BufferPolicy     string            `json:"buffer_policy,omitempty"`     // e.g. "rotating over 64 MiB", "reused"
	CompletionPolicy string            `json:"completion_policy,omitempty"` // e.g. "every operation signalled"
	SamplesDropped   *int64            `json:"samples_dropped,omitempty"`   // left out of the figures, warm-up apart
	WarmupSeconds    *float64          `json:"warmup_seconds,omitempty"`    // of all rounds
	WarmupOperations *int64            `json:"warmup_operations,omitempty"`
	InitiatorCPUs    []int             `json:"initiator_cpus,omitempty"` // pinned to
	TargetCPUs       []int             `json:"target_cpus,omitempty"`
	Started          *time.Time        `json:"started,omitempty"`         // of the first round
	ElapsedSeconds   *float64          `json:"elapsed_seconds,omitempty"` // wall time of the whole cell
	Settings         map[string]string `json:"settings,omitempty"`        // of this cell alone: chunk size, ring depth, huge pages …
	Warnings         []string          `json:"warnings,omitempty"`        // travel with the number

	Extra Extra `json:"-"` // keys of a newer writer
}

// Bandwidth is payload bytes over time, in bytes a second. Low and High bound the
// median of the rounds with the given confidence.
type Bandwidth struct {
	BytesPerSecond              float64   `json:"bytes_per_second"` // median of the rounds; the sum of both ways where direction is both
	Low                         *float64  `json:"low,omitempty"`    // bytes a second
	High                        *float64  `json:"high,omitempty"`   // bytes a second
	Confidence                  *float64  `json:"confidence,omitempty"`
	SlowestWindowBytesPerSecond *float64  `json:"slowest_window_bytes_per_second,omitempty"`
	WindowSeconds               *float64  `json:"window_seconds,omitempty"`                    // nominal length of that window
	Rounds                      []float64 `json:"rounds"`                                      // bytes a second of each round, in their order
	RoundsSeconds               []float64 `json:"rounds_seconds,omitempty"`                    // time of each round: first post to last confirmation
	RoundsOperations            []int64   `json:"rounds_operations,omitempty"`                 // operations of each round, all streams
	ForwardBytesPerSecond       *float64  `json:"forward_bytes_per_second,omitempty"`          // direction both: one way
	ReverseBytesPerSecond       *float64  `json:"reverse_bytes_per_second,omitempty"`          // direction both: the other
	BestWindowBytesPerSecond    *float64  `json:"best_window_bytes_per_second,omitempty"`      // the fastest window by the same rule
	LocalBytesPerSecond         *float64  `json:"local_completion_bytes_per_second,omitempty"` // to local completions, where those are not the confirmations
}

// Latency is the time of one operation in seconds, by the cell's definition. A
// percentile that too few samples support is absent: p99 needs 100, p99.9 needs 1000.
type Latency struct {
	Samples          int64     `json:"samples"`
	MinSeconds       *float64  `json:"min_seconds,omitempty"`
	P50Seconds       *float64  `json:"p50_seconds,omitempty"`
	P90Seconds       *float64  `json:"p90_seconds,omitempty"`
	P99Seconds       *float64  `json:"p99_seconds,omitempty"`
	P999Seconds      *float64  `json:"p999_seconds,omitempty"`
	MaxSeconds       *float64  `json:"max_seconds,omitempty"`
	MeanSeconds      *float64  `json:"mean_seconds,omitempty"`
	P50LowSeconds    *float64  `json:"p50_low_seconds,omitempty"` // bounds of the median of the rounds' medians
	P50HighSeconds   *float64  `json:"p50_high_seconds,omitempty"`
	Confidence       *float64  `json:"confidence,omitempty"`
	RoundsP50Seconds []float64 `json:"rounds_p50_seconds"`                  // median of each round, in their order
	Distribution     string    `json:"distribution,omitempty"`              // HdrHistogram V2, base64
	DistributionUnit *float64  `json:"distribution_unit_seconds,omitempty"` // seconds of one unit of the distribution's values; absent is 1e-9
	RelativeError    *float64  `json:"relative_error,omitempty"`            // of the distribution's buckets
	PercentileRule   string    `json:"percentile_rule,omitempty"`           // how a rank was chosen
	LargestSeconds   []float64 `json:"largest_seconds,omitempty"`           // the largest samples, exact, largest first
}

// Cold holds the costs that are paid once, outside every clock of a round.
// All are seconds.
type Cold struct {
	Connect     *float64 `json:"connect,omitempty"`
	Register    *float64 `json:"register,omitempty"`
	Descriptors *float64 `json:"descriptors,omitempty"` // building the lists
	FirstUse    *float64 `json:"first_use,omitempty"`   // the first operation
	Open        *float64 `json:"open,omitempty"`        // opening the device
	Allocate    *float64 `json:"allocate,omitempty"`    // the buffers
}

// CPU is what the transfer cost in CPU, around the loops of all rounds.
type CPU struct {
	InitiatorSecondsPerGigabyte *float64 `json:"initiator_seconds_per_gigabyte,omitempty"` // CPU seconds for 10^9 bytes
	TargetSecondsPerGigabyte    *float64 `json:"target_seconds_per_gigabyte,omitempty"`    // absent where both sides are one process
	HostSecondsPerGigabyte      *float64 `json:"host_seconds_per_gigabyte,omitempty"`      // all CPUs of the host or hosts, a host once
	InitiatorUserSeconds        *float64 `json:"initiator_user_seconds,omitempty"`
	InitiatorSystemSeconds      *float64 `json:"initiator_system_seconds,omitempty"`
	TargetUserSeconds           *float64 `json:"target_user_seconds,omitempty"`
	TargetSystemSeconds         *float64 `json:"target_system_seconds,omitempty"`
	HostBusySeconds             *float64 `json:"host_busy_seconds,omitempty"`
	InitiatorVoluntary          *int64   `json:"initiator_voluntary_switches,omitempty"` // context switches
	InitiatorInvoluntary        *int64   `json:"initiator_involuntary_switches,omitempty"`
	TargetVoluntary             *int64   `json:"target_voluntary_switches,omitempty"`
	TargetInvoluntary           *int64   `json:"target_involuntary_switches,omitempty"`
}

// Counters are a witness that is not ours: what the kernel or the device counted
// during the cell's loops. Unit is bytes or packets.
type Counters struct {
	Unit              string           `json:"unit"`
	Source            string           `json:"source,omitempty"` // file, netlink group or NVML field that was read
	InitiatorSent     *int64           `json:"initiator_sent,omitempty"`
	InitiatorReceived *int64           `json:"initiator_received,omitempty"`
	TargetSent        *int64           `json:"target_sent,omitempty"`
	TargetReceived    *int64           `json:"target_received,omitempty"`
	Payload           *int64           `json:"payload_bytes,omitempty"` // our own count for the same span
	Agree             *bool            `json:"agree,omitempty"`         // whether the witness covers our count
	Readings          []Reading        `json:"readings,omitempty"`      // every counter that was read
	Events            map[string]int64 `json:"events,omitempty"`        // retries, out_of_sequence, congestion_notified, pfc_pauses, ecn_marked …
}

// Reading is the growth of one counter of the kernel or a device over the cell's loops, or for a gauge its last value.
type Reading struct {
	Side   string `json:"side"`             // initiator or target
	Name   string `json:"name"`             // port_xmit_data, bytes_acked …
	Unit   string `json:"unit"`             // bytes, packets, events, microseconds
	Source string `json:"source,omitempty"` // where it was read
	Value  int64  `json:"value"`
	Gauge  *bool  `json:"gauge,omitempty"` // the value is a state, not a growth
	Loss   *bool  `json:"loss,omitempty"`  // growth means that something was lost or repeated
}

// Limit is the physical bound that stands beside a number. It is absent for software
// and virtual devices, which have none.
type Limit struct {
	BytesPerSecond *float64 `json:"bytes_per_second,omitempty"` // one direction
	Source         string   `json:"source"`                     // e.g. "port rate, 4X NDR", "memory copy of this run"
}

// Path is the evidence for the way that the bytes took, from both sides.
type Path struct {
	Initiator *Side `json:"initiator,omitempty"`
	Target    *Side `json:"target,omitempty"`
}

// Side is one side's evidence. What does not apply is absent.
type Side struct {
	Device        string            `json:"device,omitempty"` // netdev, RDMA device or GPU
	Port          *int64            `json:"port,omitempty"`
	Address       string            `json:"address,omitempty"` // data address, no port
	LinkLayer     string            `json:"link_layer,omitempty"`
	GID           string            `json:"gid,omitempty"`
	GIDIndex      *int64            `json:"gid_index,omitempty"`
	GIDType       string            `json:"gid_type,omitempty"`
	PathMTUBytes  *int64            `json:"path_mtu_bytes,omitempty"`
	GPUWay        string            `json:"gpu_way,omitempty"`      // dmabuf, peermem, staged, peer
	NUMANode      *int64            `json:"numa_node,omitempty"`    // of the device
	PCIDistance   string            `json:"pci_distance,omitempty"` // class between GPU and NIC, or GPU and GPU
	NVLinks       *int64            `json:"nvlinks,omitempty"`
	NVLinkVersion string            `json:"nvlink_version,omitempty"`
	Route         string            `json:"route,omitempty"`     // "same host", "same subnet", "routed"
	Memory        string            `json:"memory,omitempty"`    // huge pages and NUMA node of the buffers, as got
	Evidence      []string          `json:"evidence,omitempty"`  // one line each: what was read, and where
	Netdev        string            `json:"netdev,omitempty"`    // network interface
	Remote        string            `json:"remote,omitempty"`    // the peer's data address, no port
	SameHost      *bool             `json:"same_host,omitempty"` // the traffic never leaves the host
	Virtual       *bool             `json:"virtual,omitempty"`   // a device without a line rate
	Settings      map[string]string `json:"settings,omitempty"`  // what the transport was told and what it got
}

// TCP is what the data sockets of each side said after the loops.
type TCP struct {
	Initiator *TCPInfo `json:"initiator,omitempty"`
	Target    *TCPInfo `json:"target,omitempty"`
}

// TCPInfo is tcp_info over the data sockets of one side: counts are summed over
// the streams and cover the cell's loops, rtt and cwnd are the largest of the streams.
type TCPInfo struct {
	CongestionControl string   `json:"congestion_control,omitempty"`
	Retransmits       *int64   `json:"retransmits,omitempty"`               // segments
	RTTSeconds        *float64 `json:"rtt_seconds,omitempty"`               // smoothed
	RTTVarSeconds     *float64 `json:"rtt_var_seconds,omitempty"`           // its mean deviation
	MinRTTSeconds     *float64 `json:"min_rtt_seconds,omitempty"`           // least seen by the kernel
	CwndSegments      *int64   `json:"cwnd_segments,omitempty"`             // segments of MSS
	MSSBytes          *int64   `json:"mss_bytes,omitempty"`                 // sending
	BytesAcked        *int64   `json:"bytes_acked,omitempty"`               // headers of ours included
	BytesReceived     *int64   `json:"bytes_received,omitempty"`            // the same
	SndbufAskedBytes  *int64   `json:"sndbuf_asked_bytes,omitempty"`        // absent: left to the kernel
	SndbufGotBytes    *int64   `json:"sndbuf_got_bytes,omitempty"`          // as the kernel reports it, its doubling included
	RcvbufAskedBytes  *int64   `json:"rcvbuf_asked_bytes,omitempty"`        // absent: left to the kernel
	RcvbufGotBytes    *int64   `json:"rcvbuf_got_bytes,omitempty"`          // as the kernel reports it
	ZeroCopy          string   `json:"zerocopy,omitempty"`                  // "on", "off", "copied by the kernel"
	MPTCP             *bool    `json:"mptcp,omitempty"`                     // false is proved, absent is not looked at
	DeliveryRate      *float64 `json:"delivery_bytes_per_second,omitempty"` // kernel's estimate, summed over the streams
}

// Piece is a count of pieces of one size.
type Piece struct {
	SizeBytes int64 `json:"size_bytes"`
	Count     int64 `json:"count"`
}

// Interval is one line of a run that goes on until it is stopped.
type Interval struct {
	Transport      string   `json:"transport"`
	Label          string   `json:"label,omitempty"`
	Definition     string   `json:"definition,omitempty"`
	Operation      string   `json:"operation,omitempty"`
	TotalBytes     int64    `json:"total_bytes,omitempty"`
	StartSeconds   float64  `json:"start_seconds"` // since the run began
	Seconds        float64  `json:"seconds"`       // length of the interval
	Bytes          int64    `json:"bytes"`         // confirmed in it
	BytesPerSecond float64  `json:"bytes_per_second"`
	P50Seconds     *float64 `json:"p50_seconds,omitempty"`
	P99Seconds     *float64 `json:"p99_seconds,omitempty"`
	Retransmits    *int64   `json:"retransmits,omitempty"`
	Warnings       []string `json:"warnings,omitempty"`
	Extra          Extra    `json:"-"`
}

// Footer is the last record of a file.
type Footer struct {
	State          string     `json:"state"`                     // complete, interrupted or failed
	Cells          int64      `json:"cells"`                     // cell records written before it
	Reason         string     `json:"reason,omitempty"`          // why it is not complete
	Ended          *time.Time `json:"ended,omitempty"`           // RFC 3339
	ElapsedSeconds *float64   `json:"elapsed_seconds,omitempty"` // wall time of the run
	Extra          Extra      `json:"-"`
}
