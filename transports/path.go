package transports

// Realm says what kind of world a number comes from. Only like realms are compared.
type Realm string

const (
	Hardware Realm = "hardware" // a device of silicon
	Software Realm = "software" // rxe, loopback, veth: a device made of code
	Emulated Realm = "emulated" // anything inside a machine whose processor is emulated
	Double   Realm = "double"   // a fake library was loaded: never shown as a measurement
)

// GPUWay says how bytes got between device memory and the wire.
type GPUWay string

const (
	DMABuf     GPUWay = "dmabuf"  // GPUDirect through a DMA-BUF descriptor
	PeerMem    GPUWay = "peermem" // GPUDirect through nvidia-peermem
	Staged     GPUWay = "staged"  // through pinned host memory
	PeerAccess GPUWay = "peer"    // CUDA peer access
)

// Path is the evidence of which way the bytes went, as one side sees it. What is not known is absent.
type Path struct {
	Name      string   `json:"name,omitempty"`   // the transport's name for this path, for labels: "nvlink", "pcie-peer"; empty: the driver's name
	Device    string   `json:"device,omitempty"` // RDMA device, GPU
	Port      int      `json:"port,omitempty"`   // of the RDMA device
	Netdev    string   `json:"netdev,omitempty"` // network interface
	Local     string   `json:"local,omitempty"`  // local address
	Remote    string   `json:"remote,omitempty"` // peer's address
	LinkLayer string   `json:"link_layer,omitempty"`
	GIDIndex  *int     `json:"gid_index,omitempty"`
	GID       string   `json:"gid,omitempty"`
	GIDType   string   `json:"gid_type,omitempty"`
	PathMTU   int      `json:"path_mtu,omitempty"` // bytes
	GPUWay    GPUWay   `json:"gpu_way,omitempty"`
	NUMANode  *int     `json:"numa_node,omitempty"`
	PCIClass  string   `json:"pci_class,omitempty"` // distance between GPU and NIC, or GPU and GPU
	NVLinks   *int     `json:"nvlinks,omitempty"`
	NVLinkVer string   `json:"nvlink_version,omitempty"`
	SameHost  *bool    `json:"same_host,omitempty"` // the traffic never leaves this host
	Virtual   bool     `json:"virtual,omitempty"`   // a device without a line rate
	Realm     Realm    `json:"realm"`
	Limit     *Limit   `json:"limit,omitempty"`
	Evidence  []string `json:"evidence,omitempty"` // one line each: what was read, and where
	// Settings records what the transport was told and what it got: "congestion_control": "cubic".
	Settings map[string]string `json:"settings,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
}

// Limit is the physical ceiling of one direction of a path.
type Limit struct {
	BytesPerSecond float64 `json:"bytes_per_second"`
	Source         string  `json:"source"`
}

// Counter is one reading of the kernel's or the device's own count.
type Counter struct {
	Name   string `json:"name"`   // "bytes_acked", "port_xmit_data"
	Source string `json:"source"` // "tcp_info", "/sys/class/infiniband/mlx5_0/ports/1/counters"
	Unit   string `json:"unit"`   // "bytes", "packets", "events", "microseconds"
	Value  uint64 `json:"value"`
	Gauge  bool   `json:"gauge,omitempty"` // the value itself is meant, not its growth
	// Sent and Received mark the counters that prove the path: over a cell their growth times BytesPerUnit must be at
	// least the payload that this side sent or received.
	Sent         bool   `json:"sent,omitempty"`
	Received     bool   `json:"received,omitempty"`
	BytesPerUnit uint64 `json:"bytes_per_unit,omitempty"`
	// Loss marks counters whose growth means that the cell lost or repeated something.
	Loss bool `json:"loss,omitempty"`
}

// StagingPhases is the source of the counters that hold a staged transfer's phases, in nanoseconds: device_to_host, wire and
// host_to_device. They are no witness; the harness shows them as phases.
const StagingPhases = "staging"

// Label names a row from the evidence of both sides, never from a wish: "tcp, same host", "roce, dmabuf", "nvlink".
func Label(driver string, initiator, target Path) string {
	label := driver
	if initiator.Name != "" {
		label = initiator.Name
	}
	way := func(p Path) string { return string(p.GPUWay) }
	switch a, b := way(initiator), way(target); {
	case a == "" && b == "":
	case a == b:
		label += ", " + a
	case a == "":
		label += ", host to " + b
	case b == "":
		label += ", " + a + " to host"
	default:
		label += ", " + a + " to " + b
	}
	if initiator.SameHost != nil && *initiator.SameHost {
		label += ", same host"
	}
	return label
}
