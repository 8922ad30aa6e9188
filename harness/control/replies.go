package control

import (
	"math"

	"hopbench/harness"
	"hopbench/harness/control/controlpb"
	"hopbench/results"
	"hopbench/transports"
	"hopbench/transports/mem"
)

// This file converts replies. Their texts are made fit for a terminal and a result file on both sides: what a server read off its
// host, or made up, must not end a line or move a cursor here. The sizes of lists are bounded by the size of the message.
const maxLine = 4 << 10

func line(s string) string { return clean(s, maxLine) }

func encodeOpened(o harness.Opened) *controlpb.Opened {
	kinds := func(k []mem.Kind) []string { return each(k, func(k mem.Kind) string { return line(string(k)) }) }
	ops := func(o []transports.Op) []string {
		return each(o, func(o transports.Op) string { return line(string(o)) })
	}
	c, f := o.Caps, o.Memory
	return &controlpb.Opened{
		Caps: &controlpb.Caps{
			Stream: ops(c.Stream), PingPong: ops(c.PingPong), Notify: c.Notify, Local: kinds(c.Local), Remote: kinds(c.Remote),
			MaxMessage: c.MaxMessage, MaxStreams: int64(c.MaxStreams), MaxPieces: int64(c.MaxPieces),
			OneProcess: c.OneProcess, CrossHost: c.CrossHost, Batch: c.Batch,
		},
		Addresses: o.Addresses, RegionKey: o.RegionKey, RegionBytes: o.RegionBytes,
		Memory: &controlpb.MemoryFacts{
			Kind: line(string(f.Kind)), Device: line(f.Device), Bytes: f.Bytes, PageBytes: f.PageBytes, HugeAsked: line(f.HugeAsked), HugeBytes: f.HugeBytes,
			NumaAsked: optional(f.NUMAAsked, toInt64), NumaNode: optional(f.NUMANode, toInt64), Allocation: line(f.Allocation),
		},
		OpenSeconds: o.OpenSeconds, AllocateSeconds: o.AllocateSeconds, RegisterSeconds: o.RegisterSeconds,
	}
}

func decodeOpened(m *controlpb.Opened) (harness.Opened, error) {
	var d decoder
	kinds := func(k []string) []mem.Kind { return each(k, func(k string) mem.Kind { return mem.Kind(line(k)) }) }
	ops := func(o []string) []transports.Op {
		return each(o, func(o string) transports.Op { return transports.Op(line(o)) })
	}
	c, f := m.GetCaps(), m.GetMemory()
	o := harness.Opened{
		Caps: transports.Caps{
			Stream: ops(c.GetStream()), PingPong: ops(c.GetPingPong()), Notify: c.GetNotify(), Local: kinds(c.GetLocal()), Remote: kinds(c.GetRemote()),
			MaxMessage: c.GetMaxMessage(), MaxStreams: d.count("most streams", c.GetMaxStreams(), 0, math.MaxInt32),
			MaxPieces:  d.count("most pieces", c.GetMaxPieces(), 0, math.MaxInt32),
			OneProcess: c.GetOneProcess(), CrossHost: c.GetCrossHost(), Batch: c.GetBatch(),
		},
		RegionKey: d.blob("the region's key", m.GetRegionKey(), maxKey), RegionBytes: m.GetRegionBytes(),
		OpenSeconds:     d.number("seconds", m.GetOpenSeconds(), maxSpan),
		AllocateSeconds: d.number("seconds", m.GetAllocateSeconds(), maxSpan),
		RegisterSeconds: d.number("seconds", m.GetRegisterSeconds(), maxSpan),
	}
	if f != nil {
		o.Memory = mem.Facts{
			Kind: mem.Kind(line(f.Kind)), Device: line(f.Device), Bytes: f.Bytes, PageBytes: f.PageBytes, HugeAsked: line(f.HugeAsked), HugeBytes: f.HugeBytes,
			NUMAAsked: optional(f.NumaAsked, toInt), NUMANode: optional(f.NumaNode, toInt), Allocation: line(f.Allocation),
		}
	}
	for _, a := range m.GetAddresses() {
		o.Addresses = append(o.Addresses, d.blob("an endpoint's address", a, maxAddress))
	}
	return o, d.err
}

func encodeOutcome(o harness.Outcome) *controlpb.Outcome {
	u := o.Usage
	return &controlpb.Outcome{
		Operations: o.Operations, Bytes: o.Bytes, Seconds: o.Seconds, Stamps: o.Stamps, BytesPerStamp: o.BytesPerStamp, StampEvery: o.StampEvery,
		LatencySeconds: o.LatencySeconds, StreamSeconds: o.StreamSeconds,
		Usage: &controlpb.Usage{
			UserSeconds: u.UserSeconds, SystemSeconds: u.SystemSeconds, HostBusySeconds: u.HostBusySeconds,
			Voluntary: u.Voluntary, Involuntary: u.Involuntary, Process: line(u.Process), HostId: line(u.HostID),
		},
		Counters: each(o.Counters, func(c transports.Counter) *controlpb.Counter {
			return &controlpb.Counter{
				Name: line(c.Name), Source: line(c.Source), Unit: line(c.Unit), Value: c.Value, Gauge: c.Gauge,
				Sent: c.Sent, Received: c.Received, BytesPerUnit: c.BytesPerUnit, Loss: c.Loss,
			}
		}),
		Cpus: each(o.CPUs, toInt64),
	}
}

func decodeOutcome(m *controlpb.Outcome) (harness.Outcome, error) {
	var d decoder
	u := m.GetUsage()
	o := harness.Outcome{
		Operations: m.GetOperations(), Bytes: m.GetBytes(), Seconds: d.number("a loop's seconds", m.GetSeconds(), 2*maxSpan),
		Stamps: d.finites("a stamp", m.GetStamps()), BytesPerStamp: d.finite("bytes a stamp", m.GetBytesPerStamp()), StampEvery: m.GetStampEvery(),
		LatencySeconds: d.finites("a latency", m.GetLatencySeconds()), StreamSeconds: d.finites("a stream's seconds", m.GetStreamSeconds()),
		Usage: harness.Usage{
			UserSeconds:     d.finite("user seconds", u.GetUserSeconds()),
			SystemSeconds:   d.finite("system seconds", u.GetSystemSeconds()),
			HostBusySeconds: d.finite("busy seconds", u.GetHostBusySeconds()),
			Voluntary:       u.GetVoluntary(), Involuntary: u.GetInvoluntary(), Process: line(u.GetProcess()), HostID: line(u.GetHostId()),
		},
		Counters: each(m.GetCounters(), func(c *controlpb.Counter) transports.Counter {
			return transports.Counter{
				Name: line(c.GetName()), Source: line(c.GetSource()), Unit: line(c.GetUnit()), Value: c.GetValue(), Gauge: c.GetGauge(),
				Sent: c.GetSent(), Received: c.GetReceived(), BytesPerUnit: c.GetBytesPerUnit(), Loss: c.GetLoss(),
			}
		}),
		CPUs: each(m.GetCpus(), toInt),
	}
	return o, d.err
}

func encodePath(p transports.Path) *controlpb.Path {
	m := &controlpb.Path{
		Name: line(p.Name), Device: line(p.Device), Port: int64(p.Port), Netdev: line(p.Netdev), Local: line(p.Local), Remote: line(p.Remote),
		LinkLayer: line(p.LinkLayer), GidIndex: optional(p.GIDIndex, toInt64), Gid: line(p.GID), GidType: line(p.GIDType), PathMtu: int64(p.PathMTU),
		GpuWay: line(string(p.GPUWay)), NumaNode: optional(p.NUMANode, toInt64), PciClass: line(p.PCIClass), Nvlinks: optional(p.NVLinks, toInt64),
		NvlinkVersion: line(p.NVLinkVer), SameHost: p.SameHost, Virtual: p.Virtual, Realm: line(string(p.Realm)),
		Evidence: each(p.Evidence, line), Warnings: each(p.Warnings, line), Settings: lines(p.Settings),
	}
	if p.Limit != nil {
		m.Limit = &controlpb.Limit{BytesPerSecond: p.Limit.BytesPerSecond, Source: line(p.Limit.Source)}
	}
	return m
}

func (d *decoder) path(m *controlpb.Path) transports.Path {
	if m == nil {
		d.failf("a path is absent")
		return transports.Path{}
	}
	p := transports.Path{
		Name: line(m.Name), Device: line(m.Device), Port: d.count("port", m.Port, 0, math.MaxInt32), Netdev: line(m.Netdev), Local: line(m.Local), Remote: line(m.Remote),
		LinkLayer: line(m.LinkLayer), GIDIndex: optional(m.GidIndex, toInt), GID: line(m.Gid), GIDType: line(m.GidType),
		PathMTU: d.count("path MTU", m.PathMtu, 0, math.MaxInt32), GPUWay: transports.GPUWay(line(m.GpuWay)),
		NUMANode: optional(m.NumaNode, toInt), PCIClass: line(m.PciClass), NVLinks: optional(m.Nvlinks, toInt),
		NVLinkVer: line(m.NvlinkVersion), SameHost: m.SameHost, Virtual: m.Virtual, Realm: transports.Realm(line(m.Realm)),
		Evidence: each(m.Evidence, line), Warnings: each(m.Warnings, line), Settings: lines(m.Settings),
	}
	if m.Limit != nil {
		p.Limit = &transports.Limit{BytesPerSecond: d.finite("a limit", m.Limit.BytesPerSecond), Source: line(m.Limit.Source)}
	}
	return p
}

func lines(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[line(k)] = line(v)
	}
	return out
}

func encodeHost(h results.Host) *controlpb.Host {
	return &controlpb.Host{
		Hostname: line(h.Hostname), Role: line(h.Role), Kernel: line(h.Kernel), Os: line(h.OS), Architecture: line(h.Architecture), CpuModel: line(h.CPUModel),
		Cpus: h.CPUs, NumaNodes: h.NUMANodes, MemoryBytes: h.MemoryBytes, GoVersion: line(h.GoVersion), CongestionControl: line(h.CongestionControl),
		Virtualisation: line(h.Virtualisation), ClockSource: line(h.ClockSource), ClockResolutionSeconds: h.ClockResolution, Governor: line(h.Governor),
		Container: line(h.Container), ContainerEvidence: line(h.ContainerEvidence), ToolVersion: line(h.ToolVersion), ToolCommit: line(h.ToolCommit),
		Gpus: each(h.GPUs, func(g results.GPU) *controlpb.GPU {
			return &controlpb.GPU{
				Index: g.Index, Name: line(g.Name), Uuid: line(g.UUID), Pci: line(g.PCI), MemoryBytes: g.MemoryBytes,
				DriverVersion: line(g.DriverVersion), CudaVersion: line(g.CUDAVersion), Nvlinks: g.NVLinks, NumaNode: g.NUMANode,
			}
		}),
		Nics: each(h.NICs, func(n results.NIC) *controlpb.NIC {
			return &controlpb.NIC{
				Device: line(n.Device), RdmaDevice: line(n.RDMADevice), Driver: line(n.Driver), Firmware: line(n.Firmware), Pci: line(n.PCI), LinkLayer: line(n.LinkLayer),
				RateBitsPerSecond: n.RateBitsPerSecond, MtuBytes: n.MTUBytes, NumaNode: n.NUMANode, Virtual: n.Virtual,
			}
		}),
	}
}

func decodeHost(m *controlpb.Host) (results.Host, error) {
	var d decoder
	if m == nil {
		d.failf("the fingerprint is absent")
		return results.Host{}, d.err
	}
	if m.ClockResolutionSeconds != nil {
		d.finite("the clock's resolution", *m.ClockResolutionSeconds)
	}
	return results.Host{
		Hostname: line(m.Hostname), Role: line(m.Role), Kernel: line(m.Kernel), OS: line(m.Os), Architecture: line(m.Architecture), CPUModel: line(m.CpuModel),
		CPUs: m.Cpus, NUMANodes: m.NumaNodes, MemoryBytes: m.MemoryBytes, GoVersion: line(m.GoVersion), CongestionControl: line(m.CongestionControl),
		Virtualisation: line(m.Virtualisation), ClockSource: line(m.ClockSource), ClockResolution: m.ClockResolutionSeconds, Governor: line(m.Governor),
		Container: line(m.Container), ContainerEvidence: line(m.ContainerEvidence), ToolVersion: line(m.ToolVersion), ToolCommit: line(m.ToolCommit),
		GPUs: each(m.Gpus, func(g *controlpb.GPU) results.GPU {
			return results.GPU{
				Index: g.Index, Name: line(g.Name), UUID: line(g.Uuid), PCI: line(g.Pci), MemoryBytes: g.MemoryBytes,
				DriverVersion: line(g.DriverVersion), CUDAVersion: line(g.CudaVersion), NVLinks: g.Nvlinks, NUMANode: g.NumaNode,
			}
		}),
		NICs: each(m.Nics, func(n *controlpb.NIC) results.NIC {
			return results.NIC{
				Device: line(n.Device), RDMADevice: line(n.RdmaDevice), Driver: line(n.Driver), Firmware: line(n.Firmware), PCI: line(n.Pci), LinkLayer: line(n.LinkLayer),
				RateBitsPerSecond: n.RateBitsPerSecond, MTUBytes: n.MtuBytes, NUMANode: n.NumaNode, Virtual: n.Virtual,
			}
		}),
	}, d.err
}
