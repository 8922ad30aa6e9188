package verbs

import (
	"testing"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ibverbs"
)

func TestBothSidesChooseTheSamePair(t *testing.T) {
	v4 := slot{Index: 3, GID: "::ffff:10.0.0.1", Type: "RoCE v2", Family: "ipv4"}
	v6 := slot{Index: 5, GID: "fd00::1", Type: "RoCE v2", Family: "ipv6"}
	ll := slot{Index: 1, GID: "fe80::1", Type: "RoCE v2", Family: "link-local"}
	old := slot{Index: 0, GID: "fe80::1", Type: "IB/RoCE v1", Family: "link-local"}
	for _, c := range []struct {
		name            string
		active, passive []slot
		want            string // family and type on both sides; empty: none
	}{
		{"first of each", []slot{v4, v6, ll}, []slot{v4, v6, ll}, "ipv4"},
		{"the other has no IPv4", []slot{v4, v6, ll}, []slot{v6, ll}, "ipv6"},
		{"only link-local in common", []slot{v4, ll}, []slot{v6, ll}, "link-local"},
		{"different types", []slot{ll}, []slot{old}, ""},
		{"nothing in common", []slot{v4}, []slot{v6}, ""},
	} {
		a, p := address{GIDs: c.active}, address{GIDs: c.passive, Passive: true}
		l1, r1, ok1 := pair(a, p)
		l2, r2, ok2 := pair(p, a)
		if ok1 != ok2 || l1 != r2 || r1 != l2 {
			t.Errorf("%s: one side chose %v to %v, the other %v to %v", c.name, l1, r1, l2, r2)
		}
		if ok1 != (c.want != "") || ok1 && l1.Family != c.want {
			t.Errorf("%s: chose %q (%v), want %q", c.name, l1.Family, ok1, c.want)
		}
	}
}

func TestRates(t *testing.T) {
	for _, c := range []struct {
		speed, width int
		bits         float64
		name         string
	}{{1, 1, 2.5e9, "1X SDR"}, {64, 16, 100e9, "2X HDR"}, {128, 2, 400e9, "4X NDR"}, {256, 2, 800e9, "4X XDR"}, {256, 16, 400e9, "2X XDR"}, {3, 2, 0, "unknown speed 3, width 2"}, {32, 5, 0, "unknown speed 32, width 5"}} {
		if got := rate(c.speed, c.width); got != c.bits {
			t.Errorf("speed %d, width %d: %g bits a second, want %g", c.speed, c.width, got, c.bits)
		}
		if got := rateName(c.speed, c.width); got != c.name {
			t.Errorf("speed %d, width %d: %q, want %q", c.speed, c.width, got, c.name)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for _, good := range []map[string]string{nil, {"mtu": "4096", "gid-index": "3", "sl": "1"}, {"gid-index": "auto", "gpu-direct": "dmabuf"}} {
		if err := transports.CheckSettings(settings(), good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for name, value := range map[string]string{"mtu": "1500", "gid-index": "-1", "sl": "16", "traffic-class": "256", "retries": "8", "gpu-direct": "maybe", "inline": "x", "speed": "1"} {
		if err := transports.CheckSettings(settings(), map[string]string{name: value}); fault.CodeOf(err) != fault.SettingInvalid {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
	for _, s := range settings() {
		if s.Check == nil || s.Check(s.Default) != nil {
			t.Errorf("%s refuses its own default %q", s.Name, s.Default)
		}
	}
}

func TestPayloadIsCountedIn64Bits(t *testing.T) {
	l := &transports.List{Pieces: []transports.Piece{{Length: 3 << 30}, {Length: 5}, {Length: 1 << 32}}, Ends: []uint32{2, 3}}
	if got, want := payload(l, 5), uint64(3)*(3<<30+5)+2*(1<<32); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}

func TestStatusIsToldWithWhatIsExcluded(t *testing.T) {
	for status, code := range statusCodes {
		if _, ok := fault.Lookup(code); !ok {
			t.Errorf("status %d: %s is not in the table", status, code)
		}
	}
	if ibverbs.MTUBytes(3) != 1024 || ibverbs.MTUCode(4096) != 5 || ibverbs.MTUCode(1500) != 0 || ibverbs.MTUBytes(6) != 0 {
		t.Error("MTU codes")
	}
}
