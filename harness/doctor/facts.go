package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// MaxFacts is the most that a side says of itself, in bytes of JSON.
const MaxFacts = 256 << 10

// factsSchema names the form of the facts. Within one form fields are only added: a reader ignores those that it does not know, so that
// releases of one form can be compared, and refuses another form.
const factsSchema = "hopbench.facts/v1"

// Side is what one host tells another that compares itself with it: what decides whether the two reach each other, and nothing
// else. It holds no name of the host, no environment, no process, no serial number.
type Side struct {
	Schema  string `json:"schema"`
	Version string `json:"version,omitempty"` // release of the program; a captured host has none
	Kernel  string `json:"kernel,omitempty"`
	// Container is the kind of container from which the host is seen, or "pod"; empty: none was seen.
	Container string          `json:"container,omitempty"`
	Ports     []rdmaport.Port `json:"rdma_ports"`
	// Rails are the devices that would be used at once, each with the GPU that it is nearest to, of both link layers.
	Rails      []rdmaport.Rail `json:"rails,omitempty"`
	Interfaces []Interface     `json:"interfaces"`
	// LeftOut is how many interfaces found no room in [MaxFacts].
	LeftOut int `json:"interfaces_left_out,omitempty"`
}

// Interface is one network interface of a side.
type Interface struct {
	Name string `json:"name"`
	MTU  *int   `json:"mtu_bytes,omitempty"`
	// Networks are the interface's addresses with their prefix ("192.0.2.1/24"), or networks where only those are known.
	Networks []string `json:"networks,omitempty"`
	BitsPS   *uint64  `json:"rate_bits_per_second,omitempty"`
	Virtual  bool     `json:"virtual,omitempty"`
	Up       bool     `json:"up,omitempty"`
}

// SideOf takes from a host what the other side must know.
func SideOf(h *topo.Host, version string) Side {
	s := Side{Schema: factsSchema, Version: plain(version), Kernel: plain(h.Kernel), Container: plain(h.Container.Kind), Ports: rdmaport.Assess(h)}
	if h.Container.Pod {
		s.Container = "pod"
	}
	if s.Ports == nil {
		s.Ports = []rdmaport.Port{}
	}
	s.Rails = append(rdmaport.Rails(h, "InfiniBand"), rdmaport.Rails(h, "Ethernet")...)
	for i := range s.Rails {
		r := &s.Rails[i]
		r.Device, r.GPU, r.UUID = plain(r.Device), plain(r.GPU), plain(r.UUID)
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		for _, text := range []*string{&p.Device, &p.Reason, &p.LinkLayer, &p.GID, &p.GIDType, &p.NetDev, &p.UVerbs, &p.Why} {
			*text = plain(*text)
		}
	}
	for _, d := range h.Net {
		if d.Name == "lo" {
			continue
		}
		n := Interface{Name: plain(d.Name), MTU: d.MTU, BitsPS: d.BitsPS, Virtual: d.Virtual, Up: d.State == "up" || d.State != "down" && d.Carrier != nil && *d.Carrier}
		n.Networks = append(n.Networks, d.Addrs...)
		for _, net := range d.Subnets {
			p, err := netip.ParsePrefix(net)
			if err == nil && !slices.ContainsFunc(d.Addrs, func(a string) bool { q, err := netip.ParsePrefix(a); return err == nil && q.Masked() == p }) {
				n.Networks = append(n.Networks, net)
			}
		}
		n.Networks = n.Networks[:min(len(n.Networks), maxNetworks)]
		s.Interfaces = append(s.Interfaces, n)
	}
	// What can carry data comes first: a host of many containers has thousands of interfaces, and the last find no room.
	weight := func(n Interface) int {
		w := 0
		if n.Virtual {
			w++
		}
		if len(n.Networks) == 0 {
			w += 2
		}
		if !n.Up {
			w += 4
		}
		return w
	}
	slices.SortStableFunc(s.Interfaces, func(a, b Interface) int { return weight(a) - weight(b) })
	if s.Interfaces == nil {
		s.Interfaces = []Interface{}
	}
	return s
}

// Encode writes the facts as JSON of at most [MaxFacts] bytes; interfaces that find no room are left out and counted.
func (s Side) Encode() ([]byte, error) {
	if most := min(len(s.Interfaces), maxInterfaces); most < len(s.Interfaces) {
		s.LeftOut += len(s.Interfaces) - most
		s.Interfaces = s.Interfaces[:most]
	}
	for {
		b, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("facts of this host: %w", err)
		}
		switch n := len(s.Interfaces); {
		case len(b) <= MaxFacts:
			return b, nil
		case n == 0:
			return nil, fmt.Errorf("facts of this host: %d RDMA ports alone are more than %d bytes", len(s.Ports), MaxFacts)
		default:
			keep := n * 3 / 4
			s.LeftOut += n - keep
			s.Interfaces = s.Interfaces[:keep]
		}
	}
}

// The bounds of what a side may say.
const (
	maxPorts      = 1024
	maxInterfaces = 4096
	maxNetworks   = 256 // of an interface
	maxCodes      = 64  // of a port
	maxText       = 512 // bytes
	maxMTU        = 1 << 24
)

// DecodeSide reads the facts of another host, which come from another program: all of them are checked, and the first that is out of
// bounds is named. Fields that are not known are ignored.
func DecodeSide(b []byte) (Side, error) {
	refuse := func(err error) (Side, error) { return Side{}, fmt.Errorf("the peer's facts: %w", err) }
	if len(b) > MaxFacts {
		return refuse(fmt.Errorf("%d bytes; %d are the most", len(b), MaxFacts))
	}
	var s Side
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&s); err != nil {
		return refuse(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refuse(errors.New("something follows the document"))
	}
	if s.Schema != factsSchema {
		return refuse(fmt.Errorf("form %q; this release reads %q", clip(s.Schema), factsSchema))
	}
	if err := s.check(); err != nil {
		return refuse(err)
	}
	return s, nil
}

func (s *Side) check() error {
	switch {
	case len(s.Ports) > maxPorts:
		return fmt.Errorf("%d RDMA ports", len(s.Ports))
	case len(s.Rails) > maxPorts:
		return fmt.Errorf("%d rails", len(s.Rails))
	case len(s.Interfaces) > maxInterfaces:
		return fmt.Errorf("%d interfaces", len(s.Interfaces))
	case s.LeftOut < 0 || s.LeftOut > 1<<24:
		return fmt.Errorf("%d interfaces left out", s.LeftOut)
	}
	if err := texts("the side", s.Version, s.Kernel, s.Container); err != nil {
		return err
	}
	for _, p := range s.Ports {
		if err := checkPort(p); err != nil {
			return err
		}
	}
	for _, n := range s.Interfaces {
		if err := texts("an interface", append([]string{n.Name}, n.Networks...)...); err != nil {
			return err
		}
		switch {
		case n.Name == "":
			return errors.New("an interface without a name")
		case n.MTU != nil && (*n.MTU < 1 || *n.MTU > maxMTU):
			return fmt.Errorf("interface %s: an MTU of %d", n.Name, *n.MTU)
		case len(n.Networks) > maxNetworks:
			return fmt.Errorf("interface %s: %d networks", n.Name, len(n.Networks))
		}
		for _, net := range n.Networks {
			if _, err := netip.ParsePrefix(net); err != nil {
				return fmt.Errorf("interface %s: %w", n.Name, err)
			}
		}
	}
	return nil
}

func checkPort(p rdmaport.Port) error {
	if err := texts("a port", p.Device, p.Reason, p.LinkLayer, p.GID, p.GIDType, p.NetDev, p.UVerbs, p.Why); err != nil {
		return err
	}
	switch p.Verdict {
	case rdmaport.Usable, rdmaport.Unusable, rdmaport.Unknown:
	default:
		return fmt.Errorf("port %s: verdict %q", p.Device, clip(string(p.Verdict)))
	}
	switch {
	case p.Device == "":
		return errors.New("a port without a device")
	case p.Port < 0 || p.Port > 255:
		return fmt.Errorf("port %s: number %d", p.Device, p.Port)
	case p.PathMTU != nil && (*p.PathMTU < 1 || *p.PathMTU > maxMTU):
		return fmt.Errorf("port %s: a path MTU of %d", p.Device, *p.PathMTU)
	case p.GIDIndex != nil && (*p.GIDIndex < 0 || *p.GIDIndex > 1<<16):
		return fmt.Errorf("port %s: GID index %d", p.Device, *p.GIDIndex)
	case len(p.Codes) > maxCodes:
		return fmt.Errorf("port %s: %d codes", p.Device, len(p.Codes))
	case p.GID != "" && !(topo.GID{GID: p.GID}).Addr().IsValid():
		return fmt.Errorf("port %s: GID %q", p.Device, clip(p.GID))
	}
	for _, c := range p.Codes {
		if err := texts("a code", string(c)); err != nil {
			return err
		}
	}
	return nil
}

// texts refuses what does not fit one line of a terminal.
func texts(what string, all ...string) error {
	for _, t := range all {
		if len(t) > maxText || plain(t) != t {
			return fmt.Errorf("%s says %q", what, clip(t))
		}
	}
	return nil
}

// plain makes a text that was read off a host fit for one line: valid, printable, at most maxText bytes.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	for len(s) > maxText {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}

func clip(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}

// holding is the interface that has addr as its own, or nil.
func (s *Side) holding(addr netip.Addr) *Interface {
	addr = addr.Unmap().WithZone("")
	for i := range s.Interfaces {
		for _, n := range s.Interfaces[i].Networks {
			if p, err := netip.ParsePrefix(n); err == nil && addr.IsValid() && p.Addr() == addr {
				return &s.Interfaces[i]
			}
		}
	}
	return nil
}

func (s *Side) named(name string) *Interface {
	if i := slices.IndexFunc(s.Interfaces, func(n Interface) bool { return n.Name == name }); i >= 0 && name != "" {
		return &s.Interfaces[i]
	}
	return nil
}

// networks are the networks of an interface, without link-local ones.
func (n *Interface) networks() (out []netip.Prefix) {
	if n == nil {
		return nil
	}
	for _, s := range n.Networks {
		if p, err := netip.ParsePrefix(s); err == nil && !p.Addr().IsLinkLocalUnicast() {
			out = append(out, p.Masked())
		}
	}
	return out
}
