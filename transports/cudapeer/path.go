package cudapeer

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"hopbench/transports"
	"hopbench/transports/internal/cuda"
	"hopbench/transports/mem"
	"hopbench/transports/topo"
)

// Names of paths, as rows show them.
const (
	nvlink     = "nvlink"
	pciePeer   = "pcie-peer"
	hostStaged = "host-staged"
	unproved   = PeerName // peer access works, over what is not known
)

// describe is the evidence of which way copies between the two sides go, as this side sees it.
func (e *endpoint) describe(peer *endpoint, way access) transports.Path {
	p := transports.Path{Device: e.device(), Realm: transports.Hardware, Evidence: []string{
		fmt.Sprintf("libcuda: %s, CUDA %s", e.t.lib.Path(), e.t.lib.Version()),
	}}
	for _, b := range []mem.Buffer{e.region.Buffer(), peer.region.Buffer()} {
		if d := mem.Double(b); d != "" {
			p.Realm = transports.Double
			p.Warnings = append(p.Warnings, "measured through a "+d)
			break
		}
	}
	host, err := e.t.d.host()
	if err != nil {
		host = &topo.Host{}
		p.Warnings = append(p.Warnings, "the host's topology could not be read: "+err.Error())
	}
	mine, theirs := e.gpu(host), peer.gpu(host)
	if e.t.d.name == CopyName {
		describeCopy(&p, host, mine, theirs)
		if e.region.side.Context != nil {
			p.Evidence = append(p.Evidence, "DMA-BUF export of its memory: "+e.exported())
		}
		return p
	}
	describePair(&p, host, mine, theirs, way, e.t.staged)
	return p
}

// exported says whether the region's memory can be handed to an RDMA device as a DMA-BUF descriptor, by doing it, and what the descriptor
// covers: with one GPU and no NIC this is as much of GPUDirect as can be shown.
func (e *endpoint) exported() string {
	said := ""
	err := e.context.Do(func(th *cuda.Thread) error {
		base, bytes, err := th.Range(cuda.Pointer(e.region.side.Address))
		if err != nil {
			return err
		}
		fd, how, err := th.DMABuf(base, bytes)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		end, err := unix.Seek(fd, 0, unix.SEEK_END)
		if err != nil {
			return fmt.Errorf("size of the descriptor: %w", err)
		}
		said = fmt.Sprintf("granted (%s), %d bytes of an allocation of %d", how, end, bytes)
		return nil
	})
	if err != nil {
		return "refused: " + err.Error()
	}
	return said
}

// gpu is one side's device as both libraries name it.
type gpu struct {
	bdf, name string
	compute   string        // "9.0"
	facts     *topo.GPUNVML // nil where NVML does not tell
}

// gpu is the zero value for pinned memory.
func (e *endpoint) gpu(h *topo.Host) gpu {
	c := e.region.side.Context
	if c == nil {
		return gpu{}
	}
	all, err := e.t.lib.Devices()
	if err != nil || c.Ordinal() >= len(all) {
		return gpu{}
	}
	return known(h, all[c.Ordinal()])
}

// known joins what the two libraries say of a device. They count differently and agree on the bus id.
func known(h *topo.Host, d cuda.Device) gpu {
	g := gpu{bdf: d.BusID, name: d.Name, compute: d.Compute}
	for _, x := range h.GPUs {
		if x.BDF == d.BusID {
			g.facts = x.NVML
		}
	}
	return g
}

// describeCopy names what a copy within one GPU crosses.
func describeCopy(p *transports.Path, h *topo.Host, mine, theirs gpu) {
	if mine.bdf != "" && theirs.bdf != "" {
		p.Name = "gpu-memory"
		p.Evidence = append(p.Evidence, "both buffers are in the memory of "+mine.name+" at "+mine.bdf)
		return
	}
	g := mine
	if g.bdf == "" {
		g = theirs
	}
	p.Name = "gpu-host"
	p.Evidence = append(p.Evidence, "between pinned host memory and "+g.name+" at "+g.bdf)
	if f := h.Function(g.bdf); f != nil {
		p.NUMANode = f.NUMA
	}
	if hop := narrowest(h, g.bdf); hop != nil && p.Realm != transports.Double {
		p.Limit = pcieLimit(hop)
	}
}

// narrowest is the slowest link between a GPU and the root complex.
func narrowest(h *topo.Host, bdf string) *topo.Hop {
	d := h.Function(bdf)
	if d == nil {
		return nil
	}
	var least *topo.Hop
	for _, at := range d.Path {
		if f := h.Function(at); f != nil {
			if hop := f.Hop(); hop != nil && (least == nil || hop.BytesPS < least.BytesPS) {
				least = hop
			}
		}
	}
	return least
}

func pcieLimit(hop *topo.Hop) *transports.Limit {
	return &transports.Limit{BytesPerSecond: hop.BytesPS,
		Source: fmt.Sprintf("PCI Express %d x%d at %s, one way, after line coding, before packet headers", hop.Generation, hop.Width, hop.BDF)}
}

// describePair decides by what the driver and NVML say of two GPUs. way is read from this side to the other.
func describePair(p *transports.Path, h *topo.Host, mine, theirs gpu, way access, forced bool) {
	pair := h.Distance(mine.bdf, theirs.bdf)
	p.PCIClass = string(pair.Class)
	if f := h.Function(mine.bdf); f != nil {
		p.NUMANode = f.NUMA
	}
	p.Evidence = append(p.Evidence,
		fmt.Sprintf("cuDeviceCanAccessPeer: %s to %s %s, back %s", mine.bdf, theirs.bdf, yes(way.forth), yes(way.back)))
	if way.rank != nil {
		p.Evidence = append(p.Evidence, fmt.Sprintf("CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK: %d", *way.rank))
	}
	if pair.Class != "" {
		p.Evidence = append(p.Evidence, fmt.Sprintf("PCI path: %s, %s", pair.Class, pair.Why))
	}
	p.Settings = map[string]string{"peer-access": "enabled"}
	if !way.enabled {
		p.Name = hostStaged
		p.GPUWay = transports.Staged
		p.Settings["peer-access"] = "refused by the driver"
		if forced {
			p.Settings["peer-access"] = "off"
		}
		if st, ok := status(mine, theirs); ok {
			p.Evidence = append(p.Evidence, "NVML P2P status: "+st)
		}
		return
	}
	p.GPUWay = transports.PeerAccess
	links, evidence, verdict := between(mine, theirs)
	p.Evidence = append(p.Evidence, evidence...)
	switch verdict {
	case carried:
		p.Name = nvlink
		if len(links) > 0 {
			n := len(links)
			p.NVLinks = &n
			if v := links[0].Version; v != nil {
				p.Evidence = append(p.Evidence, fmt.Sprintf("nvmlDeviceGetNvLinkVersion: %d, at compute capability %s", *v, mine.compute))
			}
			p.NVLinkVer = linkVersion(mine.compute, links)
			p.Limit = nvlinkLimit(mine.name, links)
		}
	case notCarried:
		p.Name = pciePeer
		if pair.Narrow != nil {
			p.Limit = pcieLimit(pair.Narrow)
		}
		if t := h.IOMMU.Translates(); t != nil && *t {
			p.Warnings = append(p.Warnings, "an IOMMU translates addresses between the GPUs: if the payload does not arrive whole, suspect it first")
		}
	default:
		p.Name = unproved
		p.Warnings = append(p.Warnings, "NVML does not tell which links join the GPUs: not labelled NVLink")
	}
	if p.Realm == transports.Double {
		p.Limit = nil
	}
	p.Warnings = append(p.Warnings, fewerThanTwins(h, mine.bdf)...)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// status is NVML's verdict on the pair.
func status(mine, theirs gpu) (string, bool) {
	if mine.facts == nil {
		return "", false
	}
	s, ok := mine.facts.Peers[theirs.bdf]
	if !ok {
		return "", false
	}
	var words []string
	for _, w := range []struct{ what, said string }{{"read", s.Read}, {"write", s.Write}, {"NVLink", s.NVLink}, {"PCIe", s.PCI}} {
		if w.said != "" {
			words = append(words, w.what+" "+w.said)
		}
	}
	return strings.Join(words, ", "), len(words) > 0
}

// verdict is whether NVLink carries the copies of a pair.
type verdict int

const (
	unknown verdict = iota
	carried
	notCarried
)

// between are the active links that join two GPUs, directly or through a switch, with what was read. Links count only where their state could be
// read: there is no fixed number that a model ought to have.
func between(mine, theirs gpu) (links []topo.NVLink, evidence []string, v verdict) {
	if mine.facts == nil || theirs.facts == nil {
		return nil, nil, unknown
	}
	said, known := status(mine, theirs)
	if known {
		evidence = append(evidence, "NVML P2P status: "+said)
	}
	var direct, switched, elsewhere []topo.NVLink
	for _, l := range mine.facts.Links {
		switch {
		case !l.Active:
		case l.Peer == theirs.bdf:
			direct = append(direct, l)
		case l.Remote == "switch":
			switched = append(switched, l)
		case l.Peer == "" && l.Remote != "cpu":
			elsewhere = append(elsewhere, l) // its other end is not told
		}
	}
	far := 0
	for _, l := range theirs.facts.Links {
		if l.Active && l.Remote == "switch" {
			far++
		}
	}
	evidence = append(evidence, fmt.Sprintf("NVML NVLinks of %s: %d active of %d that could be read", mine.bdf, active(topo.GPU{NVML: mine.facts}), len(mine.facts.Links)))
	switch {
	case len(direct) > 0:
		links = direct
		evidence = append(evidence, fmt.Sprintf("%d of them end at %s", len(direct), theirs.bdf))
	case len(switched) > 0 && far > 0:
		links = switched[:min(len(switched), far)]
		evidence = append(evidence, fmt.Sprintf("%d of them and %d of %s end at NVSwitch", len(switched), far, theirs.bdf))
	}
	nv := mine.facts.Peers[theirs.bdf].NVLink
	switch {
	case nv != "" && nv != "ok":
		if len(links) > 0 {
			evidence = append(evidence, "the links are up and the driver does not use them for peer access")
		}
		return nil, evidence, notCarried
	case len(links) > 0:
		return links, evidence, carried
	case nv == "ok":
		return elsewhere, evidence, carried
	case len(elsewhere) > 0:
		return nil, evidence, unknown
	}
	return nil, evidence, notCarried
}

// linkVersions is the NVLink version of each architecture, by compute capability, and the two numbers that a driver may give for it.
// nvml.h numbers the versions one way (nvmlNvlinkVersion_t); the kernel driver another (NV2080_CTRL_NVLINK_STATUS_NVLINK_VERSION_* in
// ctrl2080nvlink.h of github.com/NVIDIA/open-gpu-kernel-modules), and drivers have handed that one out: 5 is read on A100
// (github.com/open-mpi/hwloc issue 658) and 7 on H100 (a comment in NVIDIA/TensorRT-LLM's all-reduce benchmark).
var linkVersions = map[string]struct {
	version      string
	nvml, kernel uint32
}{
	"6.0": {"1.0", 1, 1},
	"7.0": {"2.0", 2, 2},
	"7.5": {"2.2", 3, 4},
	"8.0": {"3.0", 4, 5},
	"8.6": {"3.1", 5, 6},
	"9.0": {"4.0", 6, 7}, "10.0": {"5.0", 7, 8}, "10.3": {"5.0", 7, 8},
}

// linkVersion is the NVLink version of a pair's links. Four of the driver's numbers mean two versions, so a number names one only together with the
// architecture; a number that the architecture does not have names none.
func linkVersion(compute string, links []topo.NVLink) string {
	known, ok := linkVersions[compute]
	v := links[0].Version
	if !ok || v == nil || *v != known.nvml && *v != known.kernel {
		return ""
	}
	return known.version
}

// fewerThanTwins warns of a GPU whose neighbours of the same model have more active links.
func fewerThanTwins(h *topo.Host, bdf string) []string {
	i := slices.IndexFunc(h.GPUs, func(g topo.GPU) bool { return g.BDF == bdf && g.NVML != nil })
	if i < 0 {
		return nil
	}
	most := 0
	for _, g := range h.GPUs {
		if g.NVML != nil && g.NVML.Name == h.GPUs[i].NVML.Name {
			most = max(most, active(g))
		}
	}
	if n := active(h.GPUs[i]); n < most {
		return []string{fmt.Sprintf("%d NVLinks are active at %s, %d at others of its model here", n, bdf, most)}
	}
	return nil
}
