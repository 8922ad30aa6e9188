//go:build cgo

package nvml

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"hopbench/transports/topo"
)

// ReadNVML loads the library, asks, and unloads it. Without a library or a driver the answer holds the error's name only.
func (s Source) ReadNVML() topo.NVML {
	var opts []nvml.LibraryOption
	if s.Path != "" {
		opts = append(opts, nvml.WithLibraryPath(s.Path))
	}
	return read(nvml.New(opts...))
}

// names of the errors that say something about the host; other numbers are written as the binding writes them.
var names = map[nvml.Return]string{
	nvml.ERROR_LIBRARY_NOT_FOUND: "ERROR_LIBRARY_NOT_FOUND", nvml.ERROR_DRIVER_NOT_LOADED: "ERROR_DRIVER_NOT_LOADED",
	nvml.ERROR_LIB_RM_VERSION_MISMATCH: "ERROR_LIB_RM_VERSION_MISMATCH", nvml.ERROR_NO_PERMISSION: "ERROR_NO_PERMISSION",
	nvml.ERROR_FUNCTION_NOT_FOUND: "ERROR_FUNCTION_NOT_FOUND", nvml.ERROR_GPU_IS_LOST: "ERROR_GPU_IS_LOST", nvml.ERROR_UNKNOWN: "ERROR_UNKNOWN",
}

func name(r nvml.Return) string {
	if n, ok := names[r]; ok {
		return n
	}
	return fmt.Sprintf("NVML error %d", int(r))
}

func read(lib nvml.Interface) topo.NVML {
	if r := lib.Init(); r != nvml.SUCCESS {
		return topo.NVML{Error: name(r)}
	}
	defer lib.Shutdown()
	q := query{lib: lib, known: map[string]bool{}}
	var a topo.NVML
	if q.has("nvmlSystemGetDriverVersion") {
		if v, r := lib.SystemGetDriverVersion(); r == nvml.SUCCESS {
			a.Driver = v
		}
	}
	if q.has("nvmlSystemGetCudaDriverVersion") {
		if v, r := lib.SystemGetCudaDriverVersion(); r == nvml.SUCCESS {
			a.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
		}
	}
	n, r := lib.DeviceGetCount()
	if r != nvml.SUCCESS {
		a.Error = name(r)
		return a
	}
	var devs []nvml.Device
	for i := range n {
		d, r := lib.DeviceGetHandleByIndex(i)
		if r != nvml.SUCCESS { // one lost GPU hides no other
			continue
		}
		p, r := d.GetPciInfo()
		if r != nvml.SUCCESS {
			continue
		}
		devs = append(devs, d)
		a.GPUs = append(a.GPUs, q.gpu(d, bdf(p)))
	}
	for i := range devs {
		for j := range devs {
			if i != j {
				q.peer(&a.GPUs[i], a.GPUs[j].BDF, devs[i], devs[j])
			}
		}
	}
	return a
}

// query remembers which functions the installed library has.
type query struct {
	lib   nvml.Interface
	known map[string]bool
}

func (q query) has(symbol string) bool {
	ok, seen := q.known[symbol]
	if !seen {
		ok = q.lib.Extensions().LookupSymbol(symbol) == nil
		q.known[symbol] = ok
	}
	return ok
}

func (q query) gpu(d nvml.Device, bdf string) topo.GPUNVML {
	g := topo.GPUNVML{BDF: bdf}
	if q.has("nvmlDeviceGetUUID") {
		if v, r := d.GetUUID(); r == nvml.SUCCESS {
			g.UUID = v
		}
	}
	if q.has("nvmlDeviceGetName") {
		if v, r := d.GetName(); r == nvml.SUCCESS {
			g.Name = v
		}
	}
	if q.has("nvmlDeviceGetMigMode") {
		if now, _, r := d.GetMigMode(); r == nvml.SUCCESS {
			on := now == nvml.DEVICE_MIG_ENABLE
			g.MIG = &on
		}
	}
	if q.has("nvmlDeviceGetBAR1MemoryInfo") {
		if m, r := d.GetBAR1MemoryInfo(); r == nvml.SUCCESS {
			g.BAR1Bytes, g.BAR1Free = &m.Bar1Total, &m.Bar1Free
		}
	}
	for _, f := range []struct {
		symbol string
		get    func() (int, nvml.Return)
		to     **int
	}{
		{"nvmlDeviceGetCurrPcieLinkGeneration", d.GetCurrPcieLinkGeneration, &g.LinkGenNow},
		{"nvmlDeviceGetMaxPcieLinkGeneration", d.GetMaxPcieLinkGeneration, &g.LinkGenMax},
		{"nvmlDeviceGetCurrPcieLinkWidth", d.GetCurrPcieLinkWidth, &g.WidthNow},
		{"nvmlDeviceGetMaxPcieLinkWidth", d.GetMaxPcieLinkWidth, &g.WidthMax},
	} {
		if q.has(f.symbol) {
			if v, r := f.get(); r == nvml.SUCCESS && v > 0 {
				*f.to = &v
			}
		}
	}
	q.links(d, &g)
	if q.has("nvmlDeviceGetGpuFabricInfo") {
		if f, r := d.GetGpuFabricInfo(); r == nvml.SUCCESS {
			switch f.State {
			case nvml.GPU_FABRIC_STATE_NOT_SUPPORTED:
				g.Fabric = "not supported"
			case nvml.GPU_FABRIC_STATE_NOT_STARTED:
				g.Fabric = "not started"
			case nvml.GPU_FABRIC_STATE_IN_PROGRESS:
				g.Fabric = "in progress"
			case nvml.GPU_FABRIC_STATE_COMPLETED:
				g.Fabric = "completed"
				if f.Status != 0 {
					g.FabricStatus = name(nvml.Return(f.Status))
				}
			}
		}
	}
	return g
}

// links reads every link whose state the driver tells. How many a board has is not assumed: slots without a link answer
// with an error.
func (q query) links(d nvml.Device, g *topo.GPUNVML) {
	if !q.has("nvmlDeviceGetNvLinkState") {
		return
	}
	for l := range nvml.NVLINK_MAX_LINKS {
		s, r := d.GetNvLinkState(l)
		if r != nvml.SUCCESS {
			continue
		}
		k := topo.NVLink{Link: l, Active: s == nvml.FEATURE_ENABLED}
		if k.Active {
			q.link(d, &k)
		}
		g.Links = append(g.Links, k)
	}
}

func (q query) link(d nvml.Device, k *topo.NVLink) {
	if q.has("nvmlDeviceGetNvLinkVersion") {
		if v, r := d.GetNvLinkVersion(k.Link); r == nvml.SUCCESS {
			k.Version = &v
		}
	}
	if q.has("nvmlDeviceGetNvLinkRemoteDeviceType") {
		if t, r := d.GetNvLinkRemoteDeviceType(k.Link); r == nvml.SUCCESS {
			switch t {
			case nvml.NVLINK_DEVICE_TYPE_GPU:
				k.Remote = "gpu"
			case nvml.NVLINK_DEVICE_TYPE_SWITCH:
				k.Remote = "switch"
			case nvml.NVLINK_DEVICE_TYPE_IBMNPU:
				k.Remote = "cpu"
			}
		}
	}
	if q.has("nvmlDeviceGetNvLinkRemotePciInfo_v2") || q.has("nvmlDeviceGetNvLinkRemotePciInfo") {
		if p, r := d.GetNvLinkRemotePciInfo(k.Link); r == nvml.SUCCESS {
			k.Peer = bdf(p)
		}
	}
	if q.has("nvmlDeviceGetFieldValues") {
		// The speed of one link, in MB (10^6 bytes) a second, one direction.
		v := []nvml.FieldValue{{FieldId: nvml.FI_DEV_NVLINK_GET_SPEED, ScopeId: uint32(k.Link)}}
		if r := d.GetFieldValues(v); r == nvml.SUCCESS && v[0].NvmlReturn == uint32(nvml.SUCCESS) {
			if mb := binary.NativeEndian.Uint32(v[0].Value[:4]); mb > 0 {
				b := float64(mb) * 1e6
				k.BytesPS = &b
			}
		}
	}
}

// peer asks for the status of each kind of access from a to b.
func (q query) peer(g *topo.GPUNVML, to string, a, b nvml.Device) {
	if !q.has("nvmlDeviceGetP2PStatus") {
		return
	}
	var s topo.PeerStatus
	for _, c := range []struct {
		index nvml.GpuP2PCapsIndex
		to    *string
	}{{nvml.P2P_CAPS_INDEX_READ, &s.Read}, {nvml.P2P_CAPS_INDEX_WRITE, &s.Write}, {nvml.P2P_CAPS_INDEX_NVLINK, &s.NVLink}, {nvml.P2P_CAPS_INDEX_PCI, &s.PCI}} {
		if v, r := a.GetP2PStatus(b, c.index); r == nvml.SUCCESS {
			*c.to = status(v)
		}
	}
	if s == (topo.PeerStatus{}) {
		return
	}
	if g.Peers == nil {
		g.Peers = map[string]topo.PeerStatus{}
	}
	g.Peers[to] = s
}

func status(s nvml.GpuP2PStatus) string {
	switch s {
	case nvml.P2P_STATUS_OK:
		return "ok"
	case nvml.P2P_STATUS_CHIPSET_NOT_SUPPORTED:
		return "chipset not supported"
	case nvml.P2P_STATUS_GPU_NOT_SUPPORTED:
		return "GPU not supported"
	case nvml.P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED:
		return "topology not supported"
	case nvml.P2P_STATUS_DISABLED_BY_REGKEY:
		return "disabled by registry key"
	case nvml.P2P_STATUS_NOT_SUPPORTED:
		return "not supported"
	}
	return "unknown"
}

// bdf writes an address as /sys does: NVML has eight digits of domain, the kernel four where they do.
func bdf(p nvml.PciInfo) string {
	var b []byte
	for _, c := range p.BusId {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	s := strings.ToLower(string(b))
	if len(s) > 12 && strings.HasPrefix(s, "0000") {
		s = s[4:]
	}
	return s
}
