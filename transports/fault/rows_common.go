package fault

// Codes that belong to no single transport.
const (
	PayloadMismatch  Code = "payload.mismatch"
	WitnessDisagrees Code = "witness.disagrees"
	CapabilityGap    Code = "capability.missing"
	OneProcess       Code = "capability.one-process"
	PeerNotHopbench  Code = "control.not-hopbench"
	PeerVersion      Code = "control.version"
	PeerToken        Code = "control.token"
	PeerBusy         Code = "control.busy"
	PeerUnreachable  Code = "control.unreachable"
	PeerVanished     Code = "control.vanished"
	PeerDeadline     Code = "control.deadline"
	PeerCap          Code = "control.cap"
	PeerRefused      Code = "control.refused"
	LoopStalled      Code = "loop.stalled"
	NoDriver         Code = "driver.unknown"
	MemoryKind       Code = "memory.kind"
	MemoryExhausted  Code = "memory.exhausted"
	OpenFiles        Code = "limit.open-files"
	SettingInvalid   Code = "setting.invalid"
)

var commonRows = []Row{
	{PayloadMismatch, Corrupt, "the bytes that arrived are not the bytes that were sent",
		"After the clock stopped, the target's memory was compared with a pattern that depends on seed, round and offset. A mismatch voids the number. Between GPUs the first suspect is an IOMMU that translates peer-to-peer accesses.",
		[]Fix{{Shell, "run the same cell once more with --transport loopback,tcp to see whether memory or the path is at fault"}, {BIOS, "between GPUs: turn off IOMMU translation and ACS redirection for the bridges between the two devices"}}},
	{WitnessDisagrees, Corrupt, "the device that was claimed did not count the bytes",
		"A run whose traffic the named device did not carry is a run over another path. The counters of the kernel or of the device, read before and after the cell, must hold at least the payload.",
		[]Fix{{Shell, "look at the path of the row, and name the device with --device"}}},
	{CapabilityGap, NotSupported, "the transport cannot do what the plan asks",
		"Capabilities are checked before anything is opened on the peer; the message names the first one that is missing.",
		[]Fix{{Shell, "choose another --op, --metric, size or memory kind for this transport"}}},
	{OneProcess, NotSupported, "the transport works inside one process and cannot reach a peer",
		"Memory copy and CUDA peer access need both buffers in one address space. Between containers or hosts they do not exist.",
		[]Fix{{Shell, "leave out --peer for this transport"}}},
	{PeerNotHopbench, Peer, "what answers at that address is not a hopbench peer",
		"The control channel speaks TLS 1.3 and opens with a fixed greeting. Something else listens there, or a proxy stands between.",
		[]Fix{{Shell, "check host and port; start `hopbench serve` there"}}},
	{PeerVersion, Peer, "the two sides speak different versions of the control protocol",
		"Both versions are named in the message. Figures of different versions are not comparable either.",
		[]Fix{{Shell, "run the same release on both sides"}}},
	{PeerToken, Peer, "the two sides do not hold the same token",
		"Each side proves that it holds the token, bound to this TLS session; the token itself is never sent.",
		[]Fix{{Shell, "give both sides the same token by --token-file or HOPBENCH_TOKEN"}, {Kubernetes, "mount the same Secret in both pods"}}},
	{PeerBusy, Peer, "the peer is measuring for somebody else",
		"A server does one run at a time, since two would measure each other. The message says who runs and since when.",
		[]Fix{{Shell, "wait, or start a second server on hardware of its own"}}},
	{PeerUnreachable, Peer, "nothing answers at the peer's control address",
		"The connection was refused, filtered or timed out before the greeting.",
		[]Fix{{Shell, "start `hopbench serve --listen ADDR:PORT` on the peer and check the route"}, {Kubernetes, "check that the Service or NetworkPolicy lets the port through"}}},
	{PeerVanished, Peer, "the peer went away in the middle of a run",
		"The control connection broke: the process ended, its host or the link went down.",
		[]Fix{{Shell, "look at the peer's own output; run again"}}},
	{PeerDeadline, Peer, "the peer did not answer within the phase's limit",
		"Each phase has its own limit. A stopped process, a silently dropped connection or an MTU that is smaller on the way looks like this.",
		[]Fix{{Shell, "ask `hopbench doctor --peer HOST:PORT`, which tells these apart"}, {Shell, "look whether the peer's process runs; raise --phase-timeout only for slow set-ups"}}},
	{PeerCap, Peer, "the request is larger than the peer allows",
		"A server has caps on memory, size and duration, so that a client cannot exhaust it.",
		[]Fix{{Shell, "raise --max-memory, --max-size or --max-duration on the server"}}},
	{PeerRefused, Peer, "the peer refused the request", "The peer's own reason follows.", nil},
	{LoopStalled, Peer, "no byte moved for the whole stall limit",
		"The connection exists but nothing arrives: a stopped process, a link that is down, or packets dropped on the way.",
		[]Fix{{Shell, "check the link and the peer's process; the message names the data address"}}},
	{NoDriver, Usage, "no transport has that name", "", []Fix{{Shell, "`hopbench run --help` lists the transports"}}},
	{MemoryKind, NotSupported, "the transport cannot use that kind of memory", "",
		[]Fix{{Shell, "choose --local-mem and --remote-mem among those that the message lists"}}},
	{MemoryExhausted, NotReady, "the buffers of the plan do not fit",
		"Buffers are mapped outside the Go heap and touched before the clock starts, so a limit shows here and not in the loop.",
		[]Fix{{Shell, "reduce --sizes, --depth or --streams, or raise the memory limit"}, {Kubernetes, "raise resources.limits.memory, and hugepages where asked for"}}},
	{OpenFiles, NotReady, "no more files may be open",
		"A connection, a listener, a device and an event queue each take a file descriptor on each side, and a process (EMFILE) or the whole host (ENFILE) has as many as it may. The message says which limit it is. It is no fault of the network.",
		[]Fix{{Shell, "`ulimit -n 65536` before hopbench (as root where the hard limit, `ulimit -Hn`, is lower; LimitNOFILE= in a unit), or fewer --streams and --concurrency; for ENFILE `sysctl fs.file-max`"},
			{Container, "--ulimit nofile=65536:65536, or LimitNOFILE in the unit of containerd or docker"}}},
	{SettingInvalid, Usage, "a setting of the transport has a value that it does not know", "", nil},
}
