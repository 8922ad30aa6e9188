package verbs

import (
	"slices"
	"strings"
	"testing"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// twoPorts is one side of a path and what the peer's address says, both over one link layer and alike.
func twoPorts(link int) *endpoint {
	gid := slot{Index: 3, GID: "::ffff:10.0.0.1", Type: "RoCE v2", Family: "ipv4"}
	far := slot{Index: 5, GID: "::ffff:10.0.0.2", Type: "RoCE v2", Family: "ipv4"}
	if link == ibverbs.LinkInfiniBand {
		gid = slot{GID: "fe80::1", Type: "InfiniBand", Family: "infiniband"}
		far = slot{GID: "fe80::2", Type: "InfiniBand", Family: "infiniband"}
	}
	a := address{LinkLayer: link, LID: 7, GIDs: []slot{gid}, QPNs: []uint32{1, 2}, MTU: 4096, MTUSource: "port", MaxMessage: 1 << 30, SGE: 8, ReadsIn: 16, ReadsOut: 16, RecvWork: 256}
	b := a
	b.GIDs, b.LID, b.Passive = []slot{far}, 9, true
	c := &chosen{lib: &ibverbs.Library{Path: "libibverbs.so.1"}, host: &topo.Host{Kernel: "6.1"}, device: ibverbs.Device{Name: "mlx5_0", Node: "uverbs0"}, number: 1,
		port: ibverbs.Port{Link: link, State: ibverbs.PortActive}, pkey: 0xffff, gids: a.GIDs}
	return &endpoint{t: &transport{chosen: c}, mine: a, peer: b, region: &region{}, options: transports.EndpointOptions{Streams: 1}}
}

func (e *endpoint) warned(text string) bool {
	return slices.ContainsFunc(e.warnings, func(w string) bool { return strings.Contains(w, text) })
}

func TestPathsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(e *endpoint)
		code   fault.Code
		words  []string
	}{
		{"families", func(e *endpoint) { e.peer.GIDs = []slot{{GID: "fd00::1", Type: "RoCE v2", Family: "ipv6"}} }, fault.VerbsFamilies, []string{"RoCE v2 ipv4", "RoCE v2 ipv6"}},
		{"RoCE versions", func(e *endpoint) { e.peer.GIDs[0].Type = "IB/RoCE v1" }, fault.VerbsFamilies, []string{"RoCE v2 ipv4", "IB/RoCE v1 ipv4"}},
		{"link layers", func(e *endpoint) { e.peer.LinkLayer = ibverbs.LinkInfiniBand }, fault.VerbsPeerLink, []string{"Ethernet", "InfiniBand"}},
		{"forced larger than the peer's", func(e *endpoint) { e.mine.MTUSource, e.peer.MTU = "forced", 1024 }, fault.VerbsPathMTU, []string{"path MTU of 4096", "the peer's port allows 1024"}},
		{"the peer's forced, larger than ours", func(e *endpoint) { e.peer.MTUSource, e.mine.MTU = "forced", 1024 }, fault.VerbsPathMTU, []string{"path MTU of 4096", "this port allows 1024"}},
		{"streams", func(e *endpoint) { e.peer.QPNs = []uint32{1} }, fault.VerbsDisagree, []string{"2 queue pairs", "the peer 1"}},
		{"no GID", func(e *endpoint) { e.peer.GIDs = nil }, fault.RDMANoGID, []string{"the peer has no GID"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := twoPorts(ibverbs.LinkEthernet)
			e.peer.GIDs = slices.Clone(e.peer.GIDs)
			c.change(e)
			wantCode(t, e.join("mlx5_0 port 1"), c.code, append(c.words, "mlx5_0 port 1")...)
		})
	}
}

func TestPathsAsAgreed(t *testing.T) {
	for _, c := range []struct {
		name   string
		link   int
		change func(e *endpoint)
		mtu    int
		global bool
		warns  []string // all of them, by a word
	}{
		{"RoCE", ibverbs.LinkEthernet, func(*endpoint) {}, 4096, true, nil},
		{"the smaller MTU is the peer's", ibverbs.LinkEthernet, func(e *endpoint) { e.peer.MTU = 1024 }, 1024, true, []string{"path MTU 1024"}},
		{"the smaller MTU is ours", ibverbs.LinkEthernet, func(e *endpoint) { e.mine.MTU = 2048 }, 2048, true, []string{"path MTU 2048"}},
		{"a smaller one that was forced", ibverbs.LinkEthernet, func(e *endpoint) { e.mine.MTU, e.mine.MTUSource = 1024, "forced" }, 1024, true, nil},
		{"link-local on RoCE", ibverbs.LinkEthernet, func(e *endpoint) {
			e.mine.GIDs = []slot{{GID: "fe80::1", Type: "RoCE v2", Family: "link-local"}}
			e.peer.GIDs = []slot{{GID: "fe80::2", Type: "RoCE v2", Family: "link-local"}}
		}, 4096, true, []string{"link-local"}},
		{"InfiniBand, one subnet", ibverbs.LinkInfiniBand, func(*endpoint) {}, 4096, false, nil},
		{"InfiniBand, MTU 2048", ibverbs.LinkInfiniBand, func(e *endpoint) { e.peer.MTU = 2048 }, 2048, false, nil},
		{"InfiniBand, this port requires the header", ibverbs.LinkInfiniBand, func(e *endpoint) { e.mine.NeedsGRH = true }, 4096, true, nil},
		{"InfiniBand, the peer's port requires the header", ibverbs.LinkInfiniBand, func(e *endpoint) { e.peer.NeedsGRH = true }, 4096, true, nil},
		{"InfiniBand, another subnet", ibverbs.LinkInfiniBand, func(e *endpoint) { e.peer.GIDs = []slot{{GID: "fec0::2", Type: "InfiniBand", Family: "infiniband"}} }, 4096, true, []string{"two InfiniBand subnets"}},
		{"limited member of another partition", ibverbs.LinkInfiniBand, func(e *endpoint) { e.t.pkey = 0x0012 }, 4096, false, []string{"0x0012"}},
		{"full member of another partition", ibverbs.LinkInfiniBand, func(e *endpoint) { e.t.pkey = 0x8012 }, 4096, false, nil},
		{"limited member", ibverbs.LinkInfiniBand, func(e *endpoint) { e.t.pkey = 0x7fff }, 4096, false, []string{"0x7fff"}},
		{"bond, one queue pair", ibverbs.LinkEthernet, func(e *endpoint) { e.t.facts.Codes = []fault.Code{fault.RDMABond} }, 4096, true, []string{"one queue pair uses one leg"}},
		{"bond, four", ibverbs.LinkEthernet, func(e *endpoint) {
			e.t.facts.Codes, e.options.Streams = []fault.Code{fault.RDMABond}, 4
		}, 4096, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := twoPorts(c.link)
			c.change(e)
			if err := e.join("mlx5_0 port 1"); err != nil {
				t.Fatal(err)
			}
			if got := ibverbs.MTUBytes(e.way.MTU); got != c.mtu || e.way.Global != c.global {
				t.Errorf("path MTU %d, route header %v", got, e.way.Global)
			}
			if len(e.warnings) != len(c.warns) {
				t.Errorf("warnings %q", e.warnings)
			}
			for _, w := range c.warns {
				if !e.warned(w) {
					t.Errorf("no warning of %s: %q", w, e.warnings)
				}
			}
			if e.way.LID != 9 || e.way.GID != e.remote.raw() || e.way.GIDIndex != e.local.Index {
				t.Errorf("the way is not the peer's: %+v", e.way)
			}
		})
	}
}

// TestMessagesAreCutAtTheSmallerMaximum: neither side's port takes more, and no work request holds more than 2^31 bytes.
func TestMessagesAreCutAtTheSmallerMaximum(t *testing.T) {
	for _, c := range [][3]uint64{{1 << 30, 1 << 31, 1 << 30}, {1 << 31, 4096, 4096}, {1<<32 - 1, 1<<32 - 1, 1 << 31}} {
		e := twoPorts(ibverbs.LinkEthernet)
		e.mine.MaxMessage, e.peer.MaxMessage = c[0], c[1]
		if err := e.join(""); err != nil || e.message != c[2] {
			t.Errorf("%d and %d: cut at %d, want %d (%v)", c[0], c[1], e.message, c[2], err)
		}
	}
	for _, n := range []uint64{1 << 31, 1 << 32, 1<<32 + 4096} {
		l := &transports.List{Pieces: []transports.Piece{{Length: n}}, Ends: []uint32{1}}
		if got := payload(l, 3); got != 3*n {
			t.Errorf("three operations of %d bytes counted as %d", n, got)
		}
	}
}

// TestDefaultsEndInSeconds: retries of a peer that is gone. The specification lets a device take up to four times the timeout for each.
func TestDefaultsEndInSeconds(t *testing.T) {
	e := twoPorts(ibverbs.LinkEthernet)
	if err := e.join(""); err != nil {
		t.Fatal(err)
	}
	most := 4 * 4.096e-6 * float64(uint64(1)<<e.way.Timeout) * float64(e.way.Retries+1)
	if most > 10 || most < 0.1 || e.way.Retries < 1 || e.way.RNRRetries != 7 {
		t.Errorf("at most %.1f s: %+v", most, e.way)
	}
}

// TestBlueField: a DPU is known by its part, whatever its host calls itself.
func TestBlueField(t *testing.T) {
	for _, c := range []struct {
		vendor, part uint32
		name         string
	}{{0x2c9, 41682, "BlueField DPU"}, {0x2c9, 41686, "BlueField-2"}, {0x2c9, 41692, "BlueField-3"}, {0x15b3, 0xa2df, "BlueField-4"}, {0x2c9, 4129, ""}, {0x14e4, 41692, ""}, {0, 0, ""}} {
		got := blueField(ibverbs.Limits{Vendor: c.vendor, Part: c.part})
		if (got == "") != (c.name == "") || !strings.Contains(got, c.name) {
			t.Errorf("vendor %#x, part %d: %q", c.vendor, c.part, got)
		}
	}
}

// TestRatesOfTheWidestPorts: what the kernel's text and the library's codes say of one port is one rate, up to XDR, two lanes included.
func TestRatesOfTheWidestPorts(t *testing.T) {
	for text, code := range map[string][2]int{"100 Gb/sec (2X HDR)": {64, 16}, "200 Gb/sec (2X NDR)": {128, 16}, "400 Gb/sec (4X NDR)": {128, 2}, "400 Gb/sec (2X XDR)": {256, 16}, "800 Gb/sec (4X XDR)": {256, 2}} {
		var gbps float64
		var name string
		switch n, rest, _ := strings.Cut(text, " "); n {
		case "100":
			gbps, name = 100, rest
		case "200":
			gbps, name = 200, rest
		case "400":
			gbps, name = 400, rest
		case "800":
			gbps, name = 800, rest
		}
		if rate(code[0], code[1]) != gbps*1e9 || !strings.Contains(name, "("+rateName(code[0], code[1])+")") {
			t.Errorf("%s: %g, %s", text, rate(code[0], code[1]), rateName(code[0], code[1]))
		}
	}
}

// TestLimitOfAPath: a software device has none, a rate that nobody knows is absent, and a known one is told with its source.
func TestLimitOfAPath(t *testing.T) {
	bits := uint64(400e9)
	for _, c := range []struct {
		name         string
		facts        rdmaport.Port
		speed, width int
		want         float64
	}{
		{"the kernel's", rdmaport.Port{BitsPS: &bits}, 1, 2, 50e9},
		{"the library's codes", rdmaport.Port{}, 256, 2, 100e9},
		{"a code that nobody knows", rdmaport.Port{}, 512, 2, 0},
		{"software", rdmaport.Port{Software: true, BitsPS: &bits}, 1, 1, 0},
	} {
		e := twoPorts(ibverbs.LinkInfiniBand)
		e.group = &ibverbs.Group{}
		e.region.buffer = nothing{}
		e.t.facts, e.t.port.Speed, e.t.port.Width = c.facts, c.speed, c.width
		if err := e.join(""); err != nil {
			t.Fatal(err)
		}
		p := e.Path()
		switch {
		case c.want == 0 && p.Limit != nil:
			t.Errorf("%s: %+v", c.name, p.Limit)
		case c.want > 0 && (p.Limit == nil || p.Limit.BytesPerSecond != c.want || p.Limit.Source == ""):
			t.Errorf("%s: %+v, want %g", c.name, p.Limit, c.want)
		}
	}
}
