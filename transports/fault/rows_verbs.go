package fault

// Codes of the RDMA verbs drivers: what a run meets. What the host lacks stands in rdmaHostRows.
const (
	VerbsBuiltWithout  Code = "verbs.built-without"
	VerbsLibraryOld    Code = "verbs.library-old"
	VerbsQueues        Code = "verbs.queues"
	VerbsRegister      Code = "verbs.register"
	VerbsAttributes    Code = "verbs.attributes"
	VerbsGIDGone       Code = "verbs.gid-gone"
	VerbsAddress       Code = "verbs.address-resolution"
	VerbsNoRoute       Code = "verbs.no-route"
	VerbsFamilies      Code = "verbs.families"
	VerbsPeerLink      Code = "verbs.peer-link"
	VerbsPathMTU       Code = "verbs.path-mtu"
	VerbsLocalLength   Code = "verbs.local-length"
	VerbsLocalQueue    Code = "verbs.local-queue"
	VerbsLocalProtect  Code = "verbs.local-protection"
	VerbsFlushed       Code = "verbs.flushed"
	VerbsRemoteInvalid Code = "verbs.remote-invalid"
	VerbsRemoteAccess  Code = "verbs.remote-access"
	VerbsRemoteOp      Code = "verbs.remote-operation"
	VerbsRetries       Code = "verbs.retries-exceeded"
	VerbsNotReady      Code = "verbs.receiver-not-ready"
	VerbsCompletion    Code = "verbs.completion"
	VerbsNotServing    Code = "verbs.peer-not-serving"
	VerbsDisagree      Code = "verbs.peer-disagrees"
	VerbsCall          Code = "verbs.call"
)

var verbsRows = []Row{
	{VerbsBuiltWithout, NotSupported, "this program was built without verbs", "Where infiniband/verbs.h was missing at build time the program still builds, and has no verbs.",
		[]Fix{{Shell, "install libibverbs-dev (Debian, Ubuntu) or rdma-core-devel (Red Hat family) and build again with cgo"}}},
	{VerbsLibraryOld, NotReady, "libibverbs is too old", "Required functions are missing in the file that the loader chose; the message names both.",
		[]Fix{{Shell, "install rdma-core of this decade; look for a second copy of the library with `ldconfig -p | grep ibverbs`"}}},
	{VerbsQueues, NotReady, "the device did not give the queues", "ENOMEM is the memlock limit or the device's own limits; EINVAL is a capability that was asked for; EOPNOTSUPP a device without reliable connections.",
		[]Fix{{Shell, "ask for fewer --streams or a smaller --depth; the message holds what was asked beside the device's limits"}}},
	{VerbsRegister, NotReady, "the memory could not be registered", "Registering pins pages and gives the device their addresses. The message says what the kernel answered and which limit was read.",
		[]Fix{{Shell, "register less (--sizes, --depth, --streams) or raise the limit that the message names"}}},
	{VerbsAttributes, Peer, "the kernel refused the attributes of the connection", "EINVAL at RTR. Suspects in order: the route header (RoCE needs one, and a port flag may demand it), the GID index, the path MTU, the peer's number.",
		[]Fix{{Shell, "leave --gid-index and --mtu away, or name those that `hopbench probe` lists for both sides"}}},
	{VerbsGIDGone, Peer, "the local GID or its network device is gone", "ENODEV at RTR: the slot was valid when it was chosen, or was forced; its address has left the interface or belongs to another network namespace.",
		[]Fix{{Shell, "leave --gid-index away; `ip address` on the interface shows whether the address is still there"}}},
	{VerbsAddress, Peer, "the peer's address could not be resolved", "ETIMEDOUT at RTR: for RoCE the kernel asks for the peer's hardware address here. Neighbour, route or VLAN are wrong; attributes are not.",
		[]Fix{{Shell, "`ip route get ADDRESS` and `ip neigh` for the peer's GID; name the device on the peer's subnet with --device"}, {Fabric, "check the VLAN of the port"}}},
	{VerbsNoRoute, Peer, "there is no route to the peer's address", "ENETUNREACH or EHOSTUNREACH at RTR: the interface of the GID has no route to the peer's GID.",
		[]Fix{{Shell, "`ip route get ADDRESS` from the GID's interface; name the device on the peer's subnet with --device"}}},
	{VerbsFamilies, NotSupported, "the two sides have no address family in common", "A RoCE path needs GIDs of one type and one family on both sides: v2 with v2, IPv4 with IPv4.",
		[]Fix{{Shell, "give one side an address of the other's family, or force --gid-index on both sides"}}},
	{VerbsPeerLink, NotSupported, "the two sides have different link layers", "InfiniBand and RoCE do not meet on a wire.", []Fix{{Shell, "name devices of one kind with --device on both sides"}}},
	{VerbsPathMTU, Usage, "the path MTU is larger than a side allows", "The path MTU is the smaller of both ports'. A larger one passes the set-up and then loses every large packet, so it is refused before data.",
		[]Fix{{Shell, "leave --mtu away; on RoCE an interface MTU of 1500 gives 1024, and 4200 or 9000 give 4096"}}},
	{VerbsLocalLength, Peer, "a message did not fit (status 1)", "The message is longer than the port takes, or than the receive that it met.", nil},
	{VerbsLocalQueue, Peer, "the local device could not do the work (status 2)", "The queue pair failed on this side: the port went down under it, or the provider ran out of something. The state of the port stands in the message.",
		[]Fix{{Shell, "look at the port with `hopbench probe`, and at the kernel log"}, {Fabric, "check cable and switch port"}}},
	{VerbsLocalProtect, Peer, "the device may not touch the local memory (status 4)", "Suspects in order: on GPU memory, peer-to-peer access between NIC and GPU that an IOMMU, ACS or a BAR that is too small breaks; on host memory, a region that was closed, or a local key that does not cover the bytes.",
		[]Fix{{Shell, "run the cell with host memory; if it passes, look at the PCI findings of `hopbench doctor`"}, {BIOS, "turn off IOMMU translation and ACS redirection between GPU and NIC"}}},
	{VerbsFlushed, Peer, "the queue pair was already in its error state (status 5)", "Flushed work only says that something failed before; no completion named the cause. The peer's side or the device's events may.",
		[]Fix{{Shell, "look at the peer's message, which holds the first error"}}},
	{VerbsRemoteInvalid, Peer, "the peer's device refused the request (status 9)", "Suspects in order: path MTUs that differ, a message longer than the peer's receive, a queue that is not set up for the operation.",
		[]Fix{{Shell, "leave --mtu away so that both sides agree on the smaller one"}}},
	{VerbsRemoteAccess, Peer, "the peer's memory may not be accessed so (status 10)", "Suspects in order: the remote key, which is another run's or of a region that the peer has closed; the address range, which goes past what the peer registered; the access rights, which do not allow the operation.",
		[]Fix{{Shell, "run again; both sides must be of one run"}}},
	{VerbsRemoteOp, Peer, "the peer's device could not complete the operation (status 11)", "On GPU memory at the peer: its peer-to-peer path is broken.", []Fix{{Shell, "run the cell with host memory at the peer"}}},
	{VerbsRetries, Peer, "the peer did not acknowledge (status 12)",
		"The request was sent again until the retries were used up. Suspects in order: GIDs that do not reach each other (wrong index, link-local, another subnet or VLAN); a path MTU above what a switch carries, where small messages pass; packets lost for want of flow control (PFC, ECN); queue pair or packet numbers of another run; a peer that is gone. A ping that works proves nothing: RoCE uses UDP port 4791, and its losses are its own. What has been excluded stands in the message.",
		[]Fix{{Shell, "check that the peer runs, that both GIDs are on one fabric, that UDP 4791 passes, and the loss counters of the row"}, {Fabric, "RoCE: flow control (PFC or ECN) for the traffic class; InfiniBand: the port counters on the way"}}},
	{VerbsNotReady, Peer, "the peer had no receive posted in time (status 13)", "Suspects in order: a receiver without a CPU of its own, which falls behind for longer than the retries last; RNR retries below 7, which end; a peer that stopped.", []Fix{{Shell, "leave --rnr-retries at 7, or give the target's process a CPU of its own"}}},
	{VerbsCompletion, Peer, "a work request failed", "The status and the device's own code stand in the message.", nil},
	{VerbsNotServing, Peer, "the peer's side of the loop did not answer", "The connection is up as far as the device can tell, and the peer's program did not say that it serves: it is stopped, gone, or the path drops its packets.",
		[]Fix{{Shell, "look at the peer's own output"}}},
	{VerbsDisagree, Peer, "the two sides run different loops", "Both sides are given one plan; a difference is a fault of this program.", nil},
	{VerbsCall, Peer, "a call of the verbs library failed", "The call and what the kernel answered stand in the message.", nil},
}
