package verbs

import (
	"fmt"
	"strconv"

	"hopbench/transports"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/mem"
)

// Path is the evidence of which way the bytes go.
func (e *endpoint) Path() transports.Path {
	t := e.t
	index := e.local.Index
	p := transports.Path{
		Device: t.device.Name, Port: t.number, Netdev: e.local.netdev, Local: e.local.short(), Remote: e.peerText(), LinkLayer: linkName(t.port.Link),
		GIDIndex: &index, GID: e.local.GID, GIDType: e.local.Type, PathMTU: ibverbs.MTUBytes(e.way.MTU), GPUWay: e.region.way,
		SameHost: e.sameHost(), Virtual: t.facts.Software, Realm: e.realm(), Evidence: e.evidence(), Warnings: e.warnings,
		Settings: map[string]string{
			"inline": strconv.Itoa(e.group.Want.Inline), "sge": strconv.Itoa(e.sge), "send_work": strconv.Itoa(e.group.Want.SendWork),
			"recv_work": strconv.Itoa(e.group.Want.RecvWork), "qp_timeout": strconv.Itoa(e.way.Timeout), "retries": strconv.Itoa(e.way.Retries),
			"rnr_retries": strconv.Itoa(e.way.RNRRetries), "traffic_class": strconv.Itoa(e.way.TrafficClass), "sl": strconv.Itoa(e.way.SL),
			"relaxed_ordering": onOff(e.region.mr != nil && e.region.mr.Relaxed), "signal_every": t.set.text("signal-every"), "post_list": t.set.text("post-list"), "pong": t.set.text("pong"),
			"reads_outstanding": strconv.Itoa(e.way.ReadsOut), "max_message": strconv.FormatUint(e.message, 10), "route_header": strconv.FormatBool(e.way.Global),
		},
	}
	if e.staged {
		e.describeStaged(&p)
	}
	if t.sys != nil {
		p.NUMANode = t.sys.NUMA
		if gpu := gpuAddress(t.host, t.options.Memory.Device); t.options.Memory.Kind == mem.CUDA && gpu != "" && t.sys.BDF != "" {
			p.PCIClass = string(t.host.Distance(gpu, t.sys.BDF).Class)
		}
	}
	if bits := rate(t.port.Speed, t.port.Width); !t.facts.Software && t.facts.BitsPS == nil && bits > 0 {
		p.Limit = &transports.Limit{BytesPerSecond: bits / 8, Source: "active speed and width of " + where(t.device.Name, t.number)}
	}
	if !t.facts.Software && t.facts.BitsPS != nil {
		p.Limit = &transports.Limit{BytesPerSecond: float64(*t.facts.BitsPS) / 8, Source: fmt.Sprintf("rate of %s in /sys/class/infiniband", where(t.device.Name, t.number))}
	}
	return p
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// realm says what kind of device the path has; whether its host is emulated is for those to say who know the host.
func (e *endpoint) realm() transports.Realm {
	switch {
	case e.t.lib.Double != "" || mem.Double(e.region.buffer) != "":
		return transports.Double
	case e.t.facts.Software:
		return transports.Software
	}
	return transports.Hardware
}

// evidence is one line for each thing that was read and chosen.
func (e *endpoint) evidence() []string {
	t := e.t
	out := []string{
		fmt.Sprintf("library %s", t.lib.Path),
		fmt.Sprintf("%s (%s), firmware %s: %s, %s", where(t.device.Name, t.number), t.device.Node, orUnknown(t.limits.Firmware), linkName(t.port.Link), stateName(t.port.State)),
	}
	if t.lib.Double != "" {
		out = append(out, "the library is a double: "+t.lib.Double)
	}
	if t.port.Link == ibverbs.LinkInfiniBand {
		out = append(out, fmt.Sprintf("LID %d to LID %d, route header %v, partition key 0x%04x", t.port.LID, e.peer.LID, e.way.Global, t.pkey))
	}
	if e.local.GID != "" {
		out = append(out, fmt.Sprintf("GID %s (%s) to %s", e.local.short(), e.local.why, e.remote.short()))
	}
	out = append(out, fmt.Sprintf("path MTU: %d here (%s), %d at the peer (%s)", e.mine.MTU, e.mine.MTUSource, e.peer.MTU, e.peer.MTUSource))
	if rate := t.facts.BitsPS; rate != nil && !t.facts.Software {
		out = append(out, fmt.Sprintf("rate %.4g Gb/s (%s)", float64(*rate)/1e9, rateName(t.port.Speed, t.port.Width)))
	}
	if e.region.how != "" {
		out = append(out, "GPU memory by "+e.region.how)
	}
	return append(out, t.why...)
}
