package doctor

import (
	"io"
	"slices"

	"hopbench/results"
	"hopbench/transports/fault"
	"hopbench/transports/topo/rdmaport"
)

// SideFromRecord makes a side from the fingerprint that a peer gives of itself. It holds fewer facts than [SideOf]: GIDs and
// subnets are not in it, and what is not in it is not compared.
func SideFromRecord(h results.Host) Side {
	s := Side{Schema: factsSchema, Version: h.ToolVersion, Kernel: h.Kernel, Ports: []rdmaport.Port{}, Interfaces: []Interface{}}
	for _, n := range h.NICs {
		i := Interface{Name: n.Device}
		if n.MTUBytes != nil {
			mtu := int(*n.MTUBytes)
			i.MTU = &mtu
		}
		s.Interfaces = append(s.Interfaces, i)
		if n.RDMADevice != "" && n.LinkLayer != "" {
			s.Ports = append(s.Ports, rdmaport.Port{Device: n.RDMADevice, Port: 1, Verdict: rdmaport.Unknown, Reason: "the peer did not tell", LinkLayer: n.LinkLayer, NetDev: n.Device})
		}
	}
	return s
}

// WriteFindings writes findings alone, under one line of a title, the gravest first, and what was not compared.
func WriteFindings(w io.Writer, title string, findings []fault.Finding, notTold string) error {
	p := &page{w: w}
	p.line(title)
	rank := map[fault.Severity]int{fault.Fail: 0, fault.Warn: 1, fault.Unknown: 2, fault.OK: 3}
	sorted := slices.Clone(findings)
	slices.SortStableFunc(sorted, func(a, b fault.Finding) int { return rank[a.Severity] - rank[b.Severity] })
	for _, f := range sorted {
		p.finding(f)
	}
	if len(sorted) == 0 {
		p.line("  nothing that does not fit together, of what both sides tell")
	}
	if notTold != "" {
		p.wrap("  note: ", "        ", notTold)
	}
	return p.err
}
