package doctor

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"hopbench/transports/fault"
	"hopbench/transports/topo/rdmaport"
)

func port(layer, gid, typ string, mtu int, netdev string) rdmaport.Port {
	i := 3
	return rdmaport.Port{Device: "mlx5_0", Port: 1, Verdict: rdmaport.Usable, LinkLayer: layer, GIDIndex: &i, GID: gid, GIDType: typ, PathMTU: &mtu, NetDev: netdev}
}

func sideOf(networks []string, mtu int, ports ...rdmaport.Port) Side {
	return Side{Schema: factsSchema, Version: "v1", Ports: ports, Interfaces: []Interface{{Name: "eth0", MTU: &mtu, Networks: networks, Up: true}}}
}

func codes(all []fault.Finding) (out []fault.Code) {
	for _, f := range all {
		out = append(out, f.Code)
	}
	return out
}

func TestTwoHosts(t *testing.T) {
	const a4, b4, far, six, six2 = "::ffff:192.0.2.1", "::ffff:192.0.2.2", "::ffff:198.51.100.2", "fd00::2", "fd00:9::2"
	here := []string{"192.0.2.1/24", "fd00::1/64", "fe80::1/64"}
	base := func(p ...rdmaport.Port) Side { return sideOf(here, 9000, p...) }
	roce := func(gid, typ string, mtu int) Side { return base(port("Ethernet", gid, typ, mtu, "eth0")) }
	soft := roce(b4, "RoCE v2", 4096)
	soft.Ports[0].Software = true
	old := roce(b4, "RoCE v2", 4096)
	old.Version = "v2"
	captured := roce(b4, "RoCE v2", 4096)
	captured.Version = ""
	down := roce(b4, "IB/RoCE v1", 1024)
	down.Ports[0].Verdict = rdmaport.Unusable
	both := base(port("Ethernet", far, "RoCE v2", 4096, "eth0"), port("Ethernet", b4, "RoCE v2", 4096, "eth0"))
	for _, c := range []struct {
		name string
		a, b Side
		want []fault.Code
	}{
		{"alike", roce(a4, "RoCE v2", 4096), roce(b4, "RoCE v2", 4096), nil},
		{"release", roce(a4, "RoCE v2", 4096), old, []fault.Code{fault.PairVersion}},
		{"a capture has no release", roce(a4, "RoCE v2", 4096), captured, nil},
		{"link layer", roce(a4, "RoCE v2", 4096), base(port("InfiniBand", "fe80::1", "", 4096, "")), []fault.Code{fault.PairLinkLayer}},
		{"type", roce(a4, "RoCE v2", 4096), roce(b4, "IB/RoCE v1", 4096), []fault.Code{fault.PairGIDType}},
		{"family", roce(a4, "RoCE v2", 4096), roce(six, "RoCE v2", 4096), []fault.Code{fault.PairGIDFamily}},
		{"MTU", roce(a4, "RoCE v2", 4096), roce(b4, "RoCE v2", 1024), []fault.Code{fault.PairMTU}},
		{"subnet", roce(a4, "RoCE v2", 4096), roce(far, "RoCE v2", 4096), []fault.Code{fault.PairSubnet}},
		{"one rail of two in the subnet", roce(a4, "RoCE v2", 4096), both, nil},
		{"IPv6 alike", roce("fd00::1", "RoCE v2", 4096), roce(six, "RoCE v2", 4096), nil},
		{"IPv6 subnet", roce("fd00::1", "RoCE v2", 4096), roce(six2, "RoCE v2", 4096), []fault.Code{fault.PairSubnet}},
		{"software", roce(a4, "RoCE v2", 4096), soft, []fault.Code{fault.PairSoftware}},
		{"no port on the other side", roce(a4, "RoCE v2", 4096), base(), nil},
		{"a port that is not usable counts for nothing", roce(a4, "RoCE v2", 4096), down, nil},
		{"all of it", roce(a4, "RoCE v2", 4096), func() Side { s := roce(far, "IB/RoCE v1", 1024); s.Version = "v0"; return s }(),
			[]fault.Code{fault.PairVersion, fault.PairGIDType, fault.PairMTU, fault.PairSubnet}},
	} {
		got := CompareHosts(c.a, c.b)
		for _, f := range got {
			if len(f.Fix) == 0 || len(f.Evidence) != 2 {
				t.Errorf("%s: %+v", c.name, f)
			}
		}
		if !slices.Equal(codes(got), c.want) {
			t.Errorf("%s: %v, want %v", c.name, codes(got), c.want)
		}
	}
}

func TestTheDataPathsInterfaces(t *testing.T) {
	a, b := sideOf([]string{"192.0.2.1/24", "fd00::1/64"}, 9000), sideOf([]string{"192.0.2.2/24", "fd00::2/64"}, 9000)
	small, far := sideOf([]string{"192.0.2.2/24"}, 1500), sideOf([]string{"198.51.100.2/24"}, 9000)
	addr := netip.MustParseAddr
	at := func(s string) End { return End{Addr: addr(s)} }
	for _, c := range []struct {
		name        string
		a, b        Side
		here, there End
		passed      bool
		want        []fault.Code
		severity    fault.Severity
	}{
		{"alike", a, b, at("192.0.2.1"), at("192.0.2.2"), true, nil, ""},
		{"IPv6", a, b, at("fd00::1"), at("fd00::2"), true, nil, ""},
		{"MTU", a, small, at("192.0.2.1"), at("192.0.2.2"), true, []fault.Code{fault.PairMTU}, fault.Warn},
		{"by the interface's name", a, small, End{Interface: "eth0"}, at("192.0.2.2"), false, []fault.Code{fault.PairMTU}, fault.Warn},
		{"routed", a, far, at("192.0.2.1"), at("198.51.100.2"), true, []fault.Code{fault.PairSubnet}, fault.OK},
		{"perhaps not routed", a, far, at("192.0.2.1"), at("198.51.100.2"), false, []fault.Code{fault.PairSubnet}, fault.Warn},
		{"an address of nobody", a, b, at("203.0.113.1"), at("203.0.113.2"), false, nil, ""},
		{"nothing known", a, Side{}, End{}, End{}, false, nil, ""},
	} {
		got := CompareData(c.a, c.b, c.here, c.there, c.passed)
		if !slices.Equal(codes(got), c.want) || len(got) > 0 && got[0].Severity != c.severity {
			t.Errorf("%s: %+v, want %v", c.name, got, c.want)
		}
	}
}

func TestFactsCrossAndAreBounded(t *testing.T) {
	s := sideOf([]string{"192.0.2.1/24"}, 9000, port("Ethernet", "::ffff:192.0.2.1", "RoCE v2", 4096, "eth0"))
	b, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeSide(b)
	if err != nil || got.Ports[0].GID != s.Ports[0].GID || *got.Interfaces[0].MTU != 9000 || got.Version != "v1" {
		t.Errorf("%+v, %v", got, err)
	}
	// A host of very many interfaces is cut, and says so; what can carry data stays.
	for i := range 9000 {
		mtu := 1450
		s.Interfaces = append(s.Interfaces, Interface{Name: "veth" + strings.Repeat("x", i%40), MTU: &mtu, Virtual: true})
	}
	if b, err = s.Encode(); err != nil || len(b) > MaxFacts {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if got, err = DecodeSide(b); err != nil || got.LeftOut == 0 || got.LeftOut+len(got.Interfaces) != 9001 || got.Interfaces[0].Name != "eth0" {
		t.Errorf("%d interfaces, %d left out, %v", len(got.Interfaces), got.LeftOut, err)
	}
}

func TestFactsThatAreRefused(t *testing.T) {
	const head = `{"schema":"hopbench.facts/v1","rdma_ports":[`
	for what, text := range map[string]string{
		"no document":        ``,
		"a list":             `[]`,
		"another form":       `{"schema":"hopbench.facts/v9"}`,
		"something after it": `{"schema":"hopbench.facts/v1"} {}`,
		"a wrong type":       `{"schema":"hopbench.facts/v1","interfaces":[{"name":"a","mtu_bytes":"big"}]}`,
		"an MTU of nothing":  `{"schema":"hopbench.facts/v1","interfaces":[{"name":"a","mtu_bytes":0}]}`,
		"no interface name":  `{"schema":"hopbench.facts/v1","interfaces":[{"mtu_bytes":1500}]}`,
		"no network":         `{"schema":"hopbench.facts/v1","interfaces":[{"name":"a","networks":["192.0.2.300/24"]}]}`,
		"an escape":          `{"schema":"hopbench.facts/v1","kernel":"\u001b[31m"}`,
		"a long text":        `{"schema":"hopbench.facts/v1","kernel":"` + strings.Repeat("a", maxText+1) + `"}`,
		"a verdict":          head + `{"device":"a","verdict":"splendid"}]}`,
		"a port without":     head + `{"verdict":"usable"}]}`,
		"a GID":              head + `{"device":"a","verdict":"usable","gid":"zz"}]}`,
		"a port's number":    head + `{"device":"a","verdict":"usable","port":999}]}`,
		"too many ports":     head + strings.Repeat(`{"device":"a","verdict":"usable"},`, maxPorts) + `{"device":"a","verdict":"usable"}]}`,
		"too large":          `{"schema":"hopbench.facts/v1","x":"` + strings.Repeat("a", MaxFacts) + `"}`,
	} {
		if _, err := DecodeSide([]byte(text)); err == nil || !strings.Contains(err.Error(), "the peer's facts") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A newer release of the same form may say more.
	if _, err := DecodeSide([]byte(`{"schema":"hopbench.facts/v1","news":{"a":[1]},"interfaces":[{"name":"a","colour":"red"}]}`)); err != nil {
		t.Error(err)
	}
}

func FuzzDecodeSide(f *testing.F) {
	s := sideOf([]string{"192.0.2.1/24", "fd00::1/64"}, 9000, port("Ethernet", "::ffff:192.0.2.1", "RoCE v2", 4096, "eth0"))
	b, err := s.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"schema":"hopbench.facts/v1","interfaces":[{"name":"é","mtu_bytes":1,"networks":["::/0"]}],"interfaces_left_out":3}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := DecodeSide(b)
		if err != nil {
			return
		}
		// What was taken can be compared, shown, and told again.
		all := append(CompareHosts(s, got), CompareHosts(got, s)...)
		end := End{Interface: "eth0", Addr: netip.MustParseAddr("192.0.2.9")}
		all = append(all, CompareData(s, got, end, end, false)...)
		var page strings.Builder
		if err := WriteFindings(&page, "two sides", all, ""); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(page.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > Columns {
				t.Errorf("%d columns: %q", n, line)
			}
		}
		if strings.Contains(page.String(), "\x1b") {
			t.Error("an escape reached the page")
		}
		again, err := got.Encode()
		if err != nil {
			return // more ports than fit when written out in full
		}
		if _, err := DecodeSide(again); err != nil {
			t.Errorf("told again: %v", err)
		}
	})
}
