package topo

// Host is everything that was read of one host. Slices are sorted by name, address or number.
type Host struct {
	Source    string      `json:"source"` // "/" for the running host, else where the capture lies
	Live      bool        `json:"live"`
	Kernel    string      `json:"kernel,omitempty"` // release, as uname -r says it
	Process   Process     `json:"process"`
	Container Container   `json:"container"`
	Env       []EnvVar    `json:"env,omitempty"` // steering variables only
	NUMA      []NUMANode  `json:"numa,omitempty"`
	PCI       []PCIDevice `json:"pci,omitempty"` // bridges, GPUs, network and RDMA functions
	IOMMU     IOMMU       `json:"iommu"`
	Net       []NetDev    `json:"net,omitempty"`
	RDMA      RDMA        `json:"rdma"`
	NVIDIA    NVIDIA      `json:"nvidia"`
	GPUs      []GPU       `json:"gpus,omitempty"`
	TCP       TCP         `json:"tcp"`
	// Modules holds, for the kernel modules that matter here, whether each is loaded (or built in), and whether it is on disk.
	Modules map[string]Module `json:"modules,omitempty"`
	// Errors are the reads that were refused, but for files that are not there.
	Errors []ReadError `json:"read_errors,omitempty"`
}

// ReadError is one refused read. Other facts of the same device stand all the same.
type ReadError struct {
	Path string `json:"path"`
	Err  string `json:"error"` // errno name, or what was wrong with the text
}

// Limit is a resource limit; Bytes means nothing where Unlimited is set.
type Limit struct {
	Unlimited bool   `json:"unlimited,omitempty"`
	Bytes     uint64 `json:"bytes"`
}

// Process is what the process that reads (or read) the host may do.
type Process struct {
	UID         *int    `json:"uid,omitempty"` // effective
	CapEff      *uint64 `json:"cap_eff,omitempty"`
	CapBnd      *uint64 `json:"cap_bnd,omitempty"`
	MemlockSoft *Limit  `json:"memlock_soft,omitempty"`
	MemlockHard *Limit  `json:"memlock_hard,omitempty"`
	NoFile      *uint64 `json:"nofile,omitempty"` // soft limit of open files; nil for none or not known
	// LockWanted is how many bytes the user plans to have locked at once: what [Options.LockWanted] said. Nil: nobody said.
	LockWanted *uint64 `json:"lock_wanted,omitempty"`
}

// Bits of a capability mask, from include/uapi/linux/capability.h.
const (
	CapIPCLock = 14
	CapNetRaw  = 13
	CapAdmin   = 21
)

// Has reports whether bit is set in a capability mask; nil when the mask is not known.
func Has(mask *uint64, bit int) *bool {
	if mask == nil {
		return nil
	}
	b := *mask>>bit&1 == 1
	return &b
}

// Container says from where the host is seen.
type Container struct {
	Kind     string   `json:"kind,omitempty"` // "docker", "containerd", "podman", "lxc", "container"; empty: none was seen
	Pod      bool     `json:"pod"`            // a Kubernetes pod
	Evidence []string `json:"evidence,omitempty"`
}

// EnvVar is a variable that steers a transport of this or another program.
type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// NUMANode is one memory node.
type NUMANode struct {
	ID       int     `json:"id"`
	CPUs     string  `json:"cpus,omitempty"` // kernel list format: "0-31,64-95"
	Bytes    *uint64 `json:"bytes,omitempty"`
	Distance []int   `json:"distance,omitempty"`
}

// PCIDevice is one PCI function.
type PCIDevice struct {
	BDF    string   `json:"bdf"`
	Path   []string `json:"path"`            // from the root bus ("pci0000:00") over each bridge to the function itself
	Class  string   `json:"class,omitempty"` // as read: "0x030200"
	Vendor string   `json:"vendor,omitempty"`
	Device string   `json:"device,omitempty"`
	Driver string   `json:"driver,omitempty"`
	NUMA   *int     `json:"numa,omitempty"` // nil where the firmware gave none
	Link   PCILink  `json:"link"`
	Group  *int     `json:"iommu_group,omitempty"`
	// ACS holds the control bits of the Access Control Services capability; nil with ACSWhy saying why not.
	ACS    *uint16 `json:"acs_control,omitempty"`
	ACSWhy string  `json:"acs_unknown,omitempty"`
	// BARs are the sizes in bytes of the base address registers that are in use, by number.
	BARs map[int]uint64 `json:"bars,omitempty"`
	// Virtual function: the BDF of its physical function.
	PhysFn string `json:"physfn,omitempty"`
}

// PCILink is the link of a function towards its parent (of a bridge port towards what hangs on it).
type PCILink struct {
	SpeedNow *float64 `json:"speed_now_gts,omitempty"` // an idle device may lower it; no fault by itself
	SpeedMax *float64 `json:"speed_max_gts,omitempty"`
	WidthNow *int     `json:"width_now,omitempty"`
	WidthMax *int     `json:"width_max,omitempty"`
}

// IOMMU is what the kernel does with device addresses.
type IOMMU struct {
	Units []string `json:"units,omitempty"` // of /sys/class/iommu
	// Types counts the groups by default domain: "DMA", "DMA-FQ" translate, "identity" does not. Empty: no group, so no translation.
	Types map[string]int `json:"types,omitempty"`
	Known bool           `json:"known"` // the group list could be read
}

// NetDev is one network interface of this network namespace.
type NetDev struct {
	Name    string   `json:"name"`
	BDF     string   `json:"bdf,omitempty"`
	Driver  string   `json:"driver,omitempty"`
	MTU     *int     `json:"mtu,omitempty"`
	State   string   `json:"state,omitempty"` // operstate
	Carrier *bool    `json:"carrier,omitempty"`
	NUMA    *int     `json:"numa,omitempty"`
	Type    *int     `json:"type,omitempty"`    // ARPHRD: 1 Ethernet, 32 InfiniBand, 772 loopback
	Virtual bool     `json:"virtual,omitempty"` // no hardware below it, or a hypervisor's device without a line rate
	BitsPS  *uint64  `json:"bits_per_second,omitempty"`
	Bond    *Bond    `json:"bond,omitempty"`
	Master  string   `json:"master,omitempty"`
	Lower   []string `json:"lower,omitempty"` // interfaces that this one stands on
	Flow    *Flow    `json:"flow_control,omitempty"`
	// Subnets are the IPv4 networks that are reached through this interface without a gateway: "192.0.2.0/24".
	Subnets []string `json:"subnets,omitempty"`
	// Addrs are the interface's own addresses with the length of their prefix: "192.0.2.1/24". A capture holds them only where it
	// was made with --addresses.
	Addrs []string `json:"addresses,omitempty"`
	// Default is set where a default route leaves through this interface.
	Default bool `json:"default_route,omitempty"`
}

// Bond is the state of a bonding interface.
type Bond struct {
	Mode   string   `json:"mode,omitempty"`
	Slaves []string `json:"slaves,omitempty"`
	// RateOfSlaves is set where NetDev.BitsPS is the sum over the slaves.
	Active string `json:"active,omitempty"`
}

// Flow is the flow control of an Ethernet port for RoCE, as far as files tell it. Nil fields: not readable.
type Flow struct {
	Trust string `json:"trust,omitempty"` // "pcp" or "dscp"
	PFC   string `json:"pfc,omitempty"`   // a 0 or 1 for each priority
	ECN   []int  `json:"ecn,omitempty"`   // priorities with ECN reaction on
	// ECNKnown tells an empty ECN (off) from an unread one.
	ECNKnown bool `json:"ecn_known,omitempty"`
	// Source is the folder that was read, or "netlink (DCB)".
	Source string `json:"source,omitempty"`
}

// RDMA is the RDMA subsystem.
type RDMA struct {
	Class     bool         `json:"class"`      // /sys/class/infiniband exists: ib_core is loaded
	NetNS     string       `json:"netns_mode"` // "shared", "exclusive", or empty: not known
	DevFolder bool         `json:"dev_folder"` // /dev/infiniband exists
	Devices   []RDMADevice `json:"devices,omitempty"`
	CM        *Node        `json:"cm_node,omitempty"` // /dev/infiniband/rdma_cm
	// Library is where libibverbs.so.1 was found, in the order of the loader's folders; empty: not in any of them.
	Library   []string `json:"library,omitempty"`
	Providers []string `json:"providers,omitempty"` // names of the userspace drivers on disk: "mlx5"
	// LibraryKnown is unset where no library folder could be listed (a capture without them).
	LibraryKnown bool `json:"library_known"`
	// DevNodes are the uverbs nodes in /dev/infiniband.
	DevNodes []string `json:"dev_nodes,omitempty"`
	// PeerHook says whether the loaded ib_core offers the peer-memory hook that nvidia-peermem needs; nil: not known.
	PeerHook *bool `json:"peer_memory_hook,omitempty"`
}

// Node is one device node: what opening it for reading and writing answered.
type Node struct {
	Path string  `json:"path"`
	Err  string  `json:"error,omitempty"` // empty: it opened; else the errno name
	Mode *uint32 `json:"mode,omitempty"`
	// Untried is set where a capture shows the node and did not open it.
	Untried bool `json:"untried,omitempty"`
}

// RDMADevice is one HCA, or a software device.
type RDMADevice struct {
	Name     string     `json:"name"`
	NodeType string     `json:"node_type,omitempty"` // as read: "1: CA", "4: RNIC"
	Desc     string     `json:"node_desc,omitempty"`
	Firmware string     `json:"firmware,omitempty"`
	BDF      string     `json:"bdf,omitempty"`
	Driver   string     `json:"driver,omitempty"` // kernel driver: "mlx5_core", "efa", "rdma_rxe"
	NUMA     *int       `json:"numa,omitempty"`
	Software bool       `json:"software,omitempty"`
	Parent   string     `json:"parent,omitempty"` // netdev of a software device
	UVerbs   string     `json:"uverbs,omitempty"` // "uverbs0": the node that the class folder maps to this device
	Node     *Node      `json:"node,omitempty"`
	Ports    []RDMAPort `json:"ports,omitempty"`
}

// RDMAPort is one port of an HCA.
type RDMAPort struct {
	Num       int      `json:"port"`
	State     string   `json:"state,omitempty"`      // "ACTIVE", "INIT", "DOWN", "ARMED"
	Phys      string   `json:"phys_state,omitempty"` // "LinkUp", "Disabled", "Polling"
	LinkLayer string   `json:"link_layer,omitempty"` // "InfiniBand", "Ethernet", "Unknown"
	RateText  string   `json:"rate_text,omitempty"`
	BitsPS    *uint64  `json:"bits_per_second,omitempty"`
	LID       *uint32  `json:"lid,omitempty"`
	SMLID     *uint32  `json:"sm_lid,omitempty"`
	PKeys     []uint16 `json:"pkeys,omitempty"` // by index from 0; entries of 0 at the end are left away
	GIDs      []GID    `json:"gids,omitempty"`  // slots in use only
	NetDev    string   `json:"netdev,omitempty"`
	// ActiveMTU in bytes is only known from the library or derived: see MTUSource.
	ActiveMTU *int   `json:"active_mtu,omitempty"`
	MTUSource string `json:"mtu_source,omitempty"`
	// TrafficClass is the port's forced RoCE traffic class, where a file tells it.
	TrafficClass *int `json:"traffic_class,omitempty"`
}

// GID is one used slot of a port's GID table.
type GID struct {
	Index  int    `json:"index"`
	GID    string `json:"gid"`              // eight groups of four hex digits, as read
	Type   string `json:"type,omitempty"`   // "IB/RoCE v1", "RoCE v2"; empty: not readable
	NetDev string `json:"netdev,omitempty"` // empty: not readable, which is what another namespace looks like
	// Foreign is set where the slot's network device is not in this network namespace.
	Foreign bool `json:"foreign,omitempty"`
	// Stale is set where the slot's network device is here, has addresses, and the slot's is none of them. Link-local slots are never stale:
	// a port has one of its hardware address whether or not the interface does.
	Stale bool `json:"stale,omitempty"`
}

// NVIDIA is the GPU driver as the kernel and the device nodes show it.
type NVIDIA struct {
	Driver  string `json:"driver,omitempty"`  // version of the loaded kernel module; empty: not loaded
	Open    *bool  `json:"open,omitempty"`    // the open kernel module flavour
	Ctl     *Node  `json:"ctl,omitempty"`     // /dev/nvidiactl
	UVM     *Node  `json:"uvm,omitempty"`     // /dev/nvidia-uvm
	PeerMem string `json:"peermem,omitempty"` // version of the loaded nvidia_peermem (or "nv_peer_mem"); empty: not loaded or without version
	// Cuda and ML are the versions in the names of libcuda.so.* and libnvidia-ml.so.* on disk ("1" where no more is known).
	Cuda []string `json:"libcuda,omitempty"`
	ML   []string `json:"libnvidia_ml,omitempty"`
	// FabricManager is the state of the fabric manager where a file tells it: "running", "absent"; empty: not known.
	FabricManager string `json:"fabric_manager,omitempty"`
	// NVSwitches is how many NVSwitch functions are on the PCI bus.
	NVSwitches int `json:"nvswitches,omitempty"`
	// IMEX says whether /proc/devices has nvidia-caps-imex-channels; Channels are the nodes and how they opened.
	IMEX     *bool  `json:"imex,omitempty"`
	Channels []Node `json:"imex_channels,omitempty"`
	// NVMLError is why NVML gave nothing, where it was asked; empty when it answered or was not asked.
	NVMLError string `json:"nvml_error,omitempty"`
	// NVMLDriver and CUDAVersion are what NVML says.
	NVMLDriver  string `json:"nvml_driver,omitempty"`
	CUDAVersion string `json:"cuda_version,omitempty"`
	// KernelLog are the kernel's lines about nvidia_peermem and the NVIDIA driver's version, where the log could be read.
	KernelLog []string `json:"kernel_log,omitempty"`
}

// GPU is one GPU function of the PCI bus, with what NVML says of it.
type GPU struct {
	BDF    string   `json:"bdf"`
	Vendor string   `json:"vendor"` // "0x10de"
	Model  string   `json:"model,omitempty"`
	UUID   string   `json:"uuid,omitempty"`
	Minor  *int     `json:"minor,omitempty"` // N of /dev/nvidiaN
	Node   *Node    `json:"node,omitempty"`
	NUMA   *int     `json:"numa,omitempty"`
	BAR1   *uint64  `json:"bar1_bytes,omitempty"` // the aperture through which devices reach its memory
	NVML   *GPUNVML `json:"nvml,omitempty"`
}

// TCP is the host's setting of TCP.
type TCP struct {
	RMemMax    *uint64 `json:"rmem_max,omitempty"` // bytes
	WMemMax    *uint64 `json:"wmem_max,omitempty"`
	RMem       []int64 `json:"tcp_rmem,omitempty"` // least, default, most
	WMem       []int64 `json:"tcp_wmem,omitempty"`
	Congestion string  `json:"congestion_control,omitempty"`
	MTUProbing *int    `json:"mtu_probing,omitempty"`
	ARPIgnore  *int    `json:"arp_ignore,omitempty"` // of "all": 1 or more keeps an interface from answering for another's address
	// RoutesKnown is set where the routing table could be read; without it an interface without a route says nothing.
	RoutesKnown bool `json:"routes_known,omitempty"`
}

// Module is one kernel module.
type Module struct {
	Loaded  bool   `json:"loaded"`
	OnDisk  *bool  `json:"on_disk,omitempty"` // nil: the module folder of this kernel cannot be read
	Version string `json:"version,omitempty"`
}
