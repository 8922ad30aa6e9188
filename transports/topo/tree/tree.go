// Package tree shows a host's topology: the PCI tree with what hangs on it, the matrix of GPUs and NICs, and a neutral graph
// that can be drawn.
package tree

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// GPUNIC is the way between one GPU and one NIC.
type GPUNIC struct {
	GPU     string    `json:"gpu"`
	NIC     string    `json:"nic"`
	Nearest bool      `json:"nearest"` // no other NIC of the host is nearer
	Pair    topo.Pair `json:"pair"`
}

// Pairs lists every GPU with every NIC, the nearest first.
func Pairs(h *topo.Host) []GPUNIC {
	out := []GPUNIC{}
	for _, g := range h.GPUs {
		near := h.Nearest(g.BDF)
		for _, n := range near {
			best := n.Pair.Class != "" && n.Pair.Class == near[0].Pair.Class
			out = append(out, GPUNIC{GPU: g.BDF, NIC: n.NIC.Name, Nearest: best, Pair: n.Pair})
		}
	}
	return out
}

// NVMLOf gathers what NVML told of the host, in the form that a capture carries.
func NVMLOf(h *topo.Host) topo.NVML {
	a := topo.NVML{Driver: h.NVIDIA.NVMLDriver, CUDA: h.NVIDIA.CUDAVersion, Error: h.NVIDIA.NVMLError}
	for _, g := range h.GPUs {
		if g.NVML != nil {
			a.GPUs = append(a.GPUs, *g.NVML)
		}
	}
	return a
}

// node is one place of the tree.
type node struct {
	name string
	kids []*node
}

func (n *node) child(name string) *node {
	for _, k := range n.kids {
		if k.name == name {
			return k
		}
	}
	k := &node{name: name}
	n.kids = append(n.kids, k)
	return k
}

// interesting are the functions that stand in the tree for themselves, with what they are called.
func interesting(h *topo.Host) map[string]string {
	out := map[string]string{}
	for i, g := range h.GPUs {
		s := fmt.Sprintf("GPU %d", i)
		if g.Model != "" {
			s += ": " + g.Model
		}
		if g.Node != nil && g.Node.Err != "" {
			s += " (not given to this process: " + g.Node.Err + ")"
		}
		if g.NVML != nil {
			if n := links(g); n > 0 {
				s += fmt.Sprintf(", %d NVLinks active", n)
			}
			if g.NVML.MIG != nil && *g.NVML.MIG {
				s += ", MIG"
			}
		}
		out[g.BDF] = s
	}
	verdict := map[string]string{}
	for _, p := range rdmaport.Assess(h) {
		v := fmt.Sprintf("port %d %s", p.Port, p.Verdict)
		if p.Port == 0 {
			v = string(p.Verdict)
		}
		if p.Reason != "" {
			v += ": " + p.Reason
		}
		verdict[p.Device] = strings.TrimPrefix(verdict[p.Device]+"; "+v, "; ")
	}
	for _, n := range h.NICs() {
		s := "NIC " + n.Name
		if n.NetDev != "" && n.NetDev != n.Name {
			s += " (" + n.NetDev + ")"
		}
		if d := h.Device(n.RDMA); d != nil {
			for _, p := range d.Ports {
				s += fmt.Sprintf(", %s", p.LinkLayer)
				if p.BitsPS != nil {
					s += fmt.Sprintf(" %g Gb/s", float64(*p.BitsPS)/1e9)
				}
			}
			if v := verdict[n.RDMA]; v != "" {
				s += ", " + v
			}
		} else if nd := h.NetDev(n.NetDev); nd != nil {
			switch {
			case nd.Virtual:
				s += ", virtual (" + nd.Driver + ")"
			case nd.BitsPS != nil:
				s += fmt.Sprintf(", %g Gb/s", float64(*nd.BitsPS)/1e9)
			}
			if nd.State != "" {
				s += ", " + nd.State
			}
		}
		if out[n.BDF] != "" {
			s = out[n.BDF] + "; " + s
		}
		out[n.BDF] = s
	}
	return out
}

func links(g topo.GPU) (n int) {
	for _, l := range g.NVML.Links {
		if l.Active {
			n++
		}
	}
	return n
}

// Columns is the width that the pages fit.
const Columns = 100

// Write writes the tree: NUMA node, root complex, bridges, devices; then what has no place on the bus.
func Write(w io.Writer, h *topo.Host) error {
	p := &printer{w: w}
	p.line("", "host "+h.Source+kernel(h))
	root := &node{}
	what := interesting(h)
	var order []string
	for bdf := range what {
		order = append(order, bdf)
	}
	slices.Sort(order)
	for _, bdf := range order {
		d := h.Function(bdf)
		if d == nil {
			root.child("not on a bus that is shown here").child(bdf)
			continue
		}
		numa := "NUMA node not known"
		if d.NUMA != nil {
			numa = fmt.Sprintf("NUMA node %d", *d.NUMA)
			for _, n := range h.NUMA {
				if n.ID == *d.NUMA && n.CPUs != "" {
					numa += ", CPUs " + n.CPUs
				}
			}
		}
		at := root.child(numa)
		for _, c := range d.Path {
			at = at.child(c)
		}
	}
	p.tree(h, what, root, "")
	first := true
	title := func() {
		if first {
			p.line("", "without a place on the bus")
			first = false
		}
	}
	for _, d := range h.RDMA.Devices {
		if d.BDF != "" && !d.Software {
			continue
		}
		title()
		s := d.Name
		if d.Software {
			s += " (software, " + d.Driver + ")"
		}
		for _, a := range rdmaport.Assess(h) {
			if a.Device == d.Name {
				s += fmt.Sprintf(", port %d %s", a.Port, a.Verdict)
				if a.Reason != "" {
					s += ": " + a.Reason
				}
			}
		}
		if d.Parent != "" {
			s += ", over " + d.Parent
		}
		p.line("  ", s)
	}
	shown, more := 0, 0
	for _, d := range h.Net {
		if d.BDF != "" || d.Name == "lo" {
			continue
		}
		if shown++; shown > mostVirtual { // a host of many containers has thousands
			more++
			continue
		}
		title()
		p.line("  ", interfaceText(d))
	}
	if more > 0 {
		p.line("  ", fmt.Sprintf("and %d more interfaces", more))
	}
	for _, e := range h.Errors {
		p.line("", "not readable: "+e.Path+": "+e.Err)
	}
	return p.err
}

// mostVirtual is how many interfaces without a place on the bus the tree names.
const mostVirtual = 16

// interfaceText is one interface that is made of others, or of nothing.
func interfaceText(d topo.NetDev) string {
	s := d.Name
	switch {
	case d.Bond != nil:
		s += " (bond of " + strings.Join(d.Bond.Slaves, ", ") + ")"
	case len(d.Lower) > 0:
		s += " (over " + strings.Join(d.Lower, ", ") + ")"
	case d.Virtual:
		s += " (virtual)"
	}
	if d.BitsPS != nil {
		s += fmt.Sprintf(", %g Gb/s", float64(*d.BitsPS)/1e9)
	}
	if d.MTU != nil {
		s += fmt.Sprintf(", MTU %d", *d.MTU)
	}
	if d.State != "" {
		s += ", " + d.State
	}
	return s
}

func kernel(h *topo.Host) string {
	if h.Kernel == "" {
		return ""
	}
	return ", kernel " + h.Kernel
}

type printer struct {
	w   io.Writer
	err error
}

// line cuts at the edge of the page; the whole stands in the JSON.
func (p *printer) line(indent, s string) {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if r := []rune(indent + s); len(r) > Columns {
		s = string(r[:Columns-1]) + "…"
	} else {
		s = indent + s
	}
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, strings.TrimRight(s, " "))
	}
}

func (p *printer) tree(h *topo.Host, what map[string]string, n *node, indent string) {
	for i, k := range n.kids {
		branch, next := "├─ ", "│  "
		if i == len(n.kids)-1 {
			branch, next = "└─ ", "   "
		}
		label := k.name
		if d := h.Function(k.name); d != nil {
			label += linkText(d)
			if w := what[k.name]; w != "" {
				label += "  " + w
			} else if strings.HasPrefix(d.Class, "0x0604") {
				label += "  bridge"
			}
		} else if w := what[k.name]; w != "" {
			label += "  " + w
		}
		p.line(indent+branch, label)
		p.tree(h, what, k, indent+next)
	}
}

// linkText is " Gen5 x16", with the width in use where it is less.
func linkText(d *topo.PCIDevice) string {
	hop := d.Hop()
	if hop == nil {
		return ""
	}
	s := fmt.Sprintf(" Gen%d x%d", hop.Generation, hop.Width)
	if hop.WidthMax > 0 {
		s += fmt.Sprintf(" of x%d", hop.WidthMax)
	}
	return s
}

// WriteMatrix writes the classes between every GPU and every NIC, GPUs as rows, with the nearest NIC and the narrowest hop to it.
func WriteMatrix(w io.Writer, h *topo.Host) error {
	p := &printer{w: w}
	nics := h.NICs()
	if len(h.GPUs) == 0 || len(nics) == 0 {
		return nil
	}
	p.line("", "")
	names := make([]string, len(nics))
	for i, n := range nics {
		names[i] = n.Name
	}
	// As many columns a block as the page takes.
	width := 6
	for _, n := range names {
		width = max(width, len(n)+2)
	}
	per := max(1, (Columns-10)/width)
	for at := 0; at < len(nics); at += per {
		block := nics[at:min(at+per, len(nics))]
		head := fmt.Sprintf("%-10s", "")
		for _, n := range block {
			head += fmt.Sprintf("%-*s", width, n.Name)
		}
		p.line("", head)
		for i, g := range h.GPUs {
			row := fmt.Sprintf("%-10s", fmt.Sprintf("GPU %d", i))
			for _, n := range block {
				row += fmt.Sprintf("%-*s", width, h.Distance(g.BDF, n.BDF).Class)
			}
			p.line("", row)
		}
		p.line("", "")
	}
	for i, g := range h.GPUs {
		near := h.Nearest(g.BDF)
		if len(near) == 0 || near[0].Pair.Class == "" {
			p.line("", fmt.Sprintf("GPU %d: nearest NIC not known", i))
			continue
		}
		n := near[0]
		s := fmt.Sprintf("GPU %d: nearest %s, %s", i, n.NIC.Name, n.Pair.Class)
		if hop := n.Pair.Narrow; hop != nil {
			s += fmt.Sprintf(", narrowest hop Gen%d x%d, %.1f GB/s, at %s", hop.Generation, hop.Width, hop.BytesPS/1e9, hop.BDF)
		}
		s += " (" + n.Pair.Why + ")"
		p.line("", s)
	}
	return p.err
}
