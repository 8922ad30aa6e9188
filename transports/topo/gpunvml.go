package topo

// NVML is what the management library says about the GPUs of a host. The package that fills it (topo/nvml) loads the
// library; this one only knows the answers, so that a captured host can carry them too.
type NVML struct {
	Driver string    `json:"driver,omitempty"`
	CUDA   string    `json:"cuda,omitempty"` // "12.8"
	GPUs   []GPUNVML `json:"gpus,omitempty"`
	// Error is why there is no answer: the library's own error name, with the library's path where known.
	Error string `json:"error,omitempty"`
}

// GPUNVML is one GPU as NVML sees it. Nil and absent: the function is missing in this driver, or refused.
type GPUNVML struct {
	BDF        string  `json:"bdf"` // domain:bus:device.function, lower case, four-digit domain
	UUID       string  `json:"uuid,omitempty"`
	Name       string  `json:"name,omitempty"`
	MIG        *bool   `json:"mig,omitempty"`
	BAR1Bytes  *uint64 `json:"bar1_bytes,omitempty"`
	BAR1Free   *uint64 `json:"bar1_free_bytes,omitempty"`
	LinkGenNow *int    `json:"pcie_gen_now,omitempty"`
	LinkGenMax *int    `json:"pcie_gen_max,omitempty"`
	WidthNow   *int    `json:"pcie_width_now,omitempty"`
	WidthMax   *int    `json:"pcie_width_max,omitempty"`
	// Links are the NVLinks whose state could be read.
	Links []NVLink `json:"nvlinks,omitempty"`
	// Peers holds the peer-to-peer status towards each other GPU, by its BDF.
	Peers map[string]PeerStatus `json:"peers,omitempty"`
	// Fabric is the state of the NVSwitch fabric: "not supported", "not started", "in progress", "completed".
	Fabric string `json:"fabric,omitempty"`
	// FabricStatus is the result of the fabric registration where it is not a success.
	FabricStatus string `json:"fabric_status,omitempty"`
	Addressing   string `json:"addressing,omitempty"`
}

// NVLink is one link of a GPU.
type NVLink struct {
	Link   int  `json:"link"`
	Active bool `json:"active"`
	// Version is the number that the driver gives for the link's version; which version that is depends on the driver and the architecture.
	Version *uint32 `json:"version,omitempty"`
	// BytesPS is the link's rate in one direction, bytes a second, as the driver reports it.
	BytesPS *float64 `json:"bytes_per_second,omitempty"`
	Remote  string   `json:"remote,omitempty"` // "gpu", "switch", "cpu"
	Peer    string   `json:"peer,omitempty"`   // BDF of the other end
}

// PeerStatus is the driver's verdict on peer access between two GPUs: "ok" or the name of the refusal.
type PeerStatus struct {
	Read   string `json:"read,omitempty"`
	Write  string `json:"write,omitempty"`
	NVLink string `json:"nvlink,omitempty"`
	PCI    string `json:"pci,omitempty"`
}

// NVMLSource answers for the running host. The topo/nvml package has the real one.
type NVMLSource interface {
	ReadNVML() NVML
}
