package nettest

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hopbench/harness/control"
	"hopbench/transports/transporttest/need"
)

// compared is what doctor --peer --json writes.
type compared struct {
	Here, Peer struct {
		Version    string
		Interfaces []struct {
			Name     string
			MTU      int `json:"mtu_bytes"`
			Networks []string
		}
	}
	Findings []finding
	Proofs   []struct {
		Transport, Step, Code string
		Passed                bool
	}
	NotTold string `json:"not_told"`
}

type finding struct {
	Code, Severity, Summary string
	Evidence                []struct{ Source, Got, Want string }
	Fix                     []struct{ Place, Do string }
}

func (f finding) text() string { return f.Summary + fmt.Sprint(f.Evidence) }

// find returns the finding of a code whose text holds a part.
func (c compared) find(t *testing.T, code, severity, part string) {
	t.Helper()
	for _, f := range c.Findings {
		if f.Code == code && f.Severity == severity && strings.Contains(f.text(), part) {
			if severity != "ok" && len(f.Fix) == 0 {
				t.Errorf("%s says not what to do", code)
			}
			return
		}
	}
	t.Errorf("no finding %s (%s) with %q in %+v", code, severity, part, c.Findings)
}

// doctor compares from the client's namespace and returns what it says.
func (l *lab) doctor(t *testing.T, want int, peer string, args ...string) compared {
	t.Helper()
	p := l.start(t, l.client, []string{control.TokenVariable + "=" + l.token}, append([]string{hopbench(t), "doctor", "--peer", peer, "--json"}, args...)...)
	if got := p.status(t); got != want {
		t.Errorf("exit status %d, want %d", got, want)
	}
	var c compared
	if err := json.Unmarshal([]byte(p.stdout.String()), &c); err != nil {
		t.Fatalf("%v in %s%s", err, p.stdout.String(), p.stderr.String())
	}
	if strings.Contains(p.stdout.String()+p.stderr.String(), l.token) {
		t.Error("the token is in the output")
	}
	return c
}

func TestNamespaceDoctorPeer(t *testing.T) {
	l := newLab(t)
	l.serve(t)
	c := l.doctor(t, 0, control4)
	c.find(t, "pair.data-address", "ok", clientIP+" to "+serverIP)
	if len(c.Findings) != 1 || len(c.Proofs) != 1 || !c.Proofs[0].Passed || c.Proofs[0].Transport != "tcp" || c.NotTold != "" {
		t.Errorf("%+v", c)
	}
	found := false
	for _, n := range c.Peer.Interfaces {
		found = found || n.Name == serverDev && n.MTU == 1500 && slices.Contains(n.Networks, serverIP+"/24") && slices.Contains(n.Networks, serverIP6+"/64")
	}
	if !found || c.Peer.Version == "" || c.Peer.Version != c.Here.Version {
		t.Errorf("the peer's facts: %+v", c.Peer)
	}
	t.Run("page", func(t *testing.T) {
		p := l.start(t, l.client, []string{control.TokenVariable + "=" + l.token}, hopbench(t), "doctor", "--peer", control4)
		if status := p.status(t); status != 0 {
			t.Errorf("exit status %d", status)
		}
		contains(t, p.stdout.String(), "verified messages of 64 and 262144 bytes passed each way")
		for line := range strings.Lines(p.stdout.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 100 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	})
	t.Run("a transport that is not usable here", func(t *testing.T) {
		c := l.doctor(t, 3, control4, "--transport", "tcp,loopback")
		c.find(t, "pair.data-address", "ok", "")
		c.find(t, "capability.one-process", "fail", "another host")
	})
	t.Run("a run goes on after it", func(t *testing.T) {
		if status := l.run(t, quick...).status(t); status != 0 {
			t.Errorf("exit status %d", status)
		}
	})
}

// The data port is dropped in silence by the server's host: only data shows it.
func TestNamespaceDoctorDataPortDropped(t *testing.T) {
	l := newLab(t)
	l.serve(t, "--data-port", dataPort)
	must(t, ip("-n", l.server, "rule", "add", "iif", serverDev, "ipproto", "tcp", "dport", dataPort, "pref", "1", "blackhole"))
	must(t, ip("-n", l.server, "rule", "add", "from", "all", "lookup", "local", "pref", "10"))
	must(t, ip("-n", l.server, "rule", "del", "pref", "0"))
	c := l.doctor(t, 3, control4)
	c.find(t, "pair.data-address", "fail", serverIP+":"+dataPort)
	if c.Proofs[0].Step != "connect" || c.Proofs[0].Code != "tcp.data-unreachable" {
		t.Errorf("%+v", c.Proofs)
	}
	must(t, ip("-n", l.server, "rule", "del", "pref", "1"))
	l.doctor(t, 0, control4).find(t, "pair.data-address", "ok", "")
}

func TestNamespaceDoctorDataAddress(t *testing.T) {
	l := newLab(t)
	s := l.serve(t, "--data-address", "198.51.100.9")
	c := l.doctor(t, 3, control4)
	c.find(t, "pair.data-address", "fail", "198.51.100.9")
	s.cmd.Process.Kill()
	<-s.done
	// A refusal is no sign of life of the data port either.
	c = l.doctor(t, 3, control4)
	c.find(t, "control.unreachable", "fail", "refused")
	if c.NotTold == "" {
		t.Error("what was not compared is not said")
	}
}

func TestNamespaceDoctorMTU(t *testing.T) {
	l := newLab(t)
	must(t, ip("-n", l.client, "link", "set", clientDev, "mtu", "9000"))
	l.serve(t)
	c := l.doctor(t, 0, control4)
	c.find(t, "pair.mtu", "warn", clientDev+", 9000 bytes")
	c.find(t, "pair.mtu", "warn", serverDev+", 1500 bytes")
	c.find(t, "pair.data-address", "ok", "")
}

func TestNamespaceDoctorVersions(t *testing.T) {
	l := newLab(t)
	other := otherRelease(t)
	p := l.start(t, l.server, []string{control.TokenVariable + "=" + l.token}, other, "serve", "--listen", control4)
	until(t, patience, "the server listens", func() bool { return strings.Contains(p.stdout.String(), "listening on") })
	c := l.doctor(t, 0, control4)
	c.find(t, "pair.version", "warn", "v9.9.9")
	c.find(t, "pair.data-address", "ok", "")
	if c.Peer.Version != "v9.9.9" {
		t.Errorf("the peer's release is %q", c.Peer.Version)
	}
}

// otherRelease builds the command with another release's name.
var otherBinary struct {
	once sync.Once
	path string
	err  error
}

func otherRelease(t *testing.T) string {
	t.Helper()
	dir := filepath.Dir(hopbench(t))
	otherBinary.once.Do(func() {
		otherBinary.path = filepath.Join(dir, "hopbench-v9")
		out, err := exec.Command("go", "build", "-ldflags", "-X hopbench/bench/internal/cli.release=v9.9.9", "-o", otherBinary.path, "hopbench/bench").CombinedOutput()
		if err != nil {
			otherBinary.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	must(t, otherBinary.err)
	return otherBinary.path
}

// What is no peer, or another one's, is a finding and no bare error.
func TestNamespaceDoctorStrangers(t *testing.T) {
	l := newLab(t)
	exe := self(t)
	for what, code := range map[string]string{"http": "control.not-hopbench", "version": "control.version"} {
		t.Run(what, func(t *testing.T) {
			s := l.start(t, l.server, []string{role + "=" + what}, exe, control4)
			until(t, patience, "it listens", func() bool { return strings.Contains(s.stdout.String(), "ready") })
			l.doctor(t, 3, control4).find(t, code, "fail", "")
			s.cmd.Process.Kill()
			<-s.done
		})
	}
	t.Run("token", func(t *testing.T) {
		l.serve(t)
		other := *l
		other.token = control.NewToken().Text()
		other.doctor(t, 3, control4).find(t, "control.token", "fail", "")
	})
}

// routed is a lab whose two hosts stand in subnets of their own with a router between.
type routed struct {
	lab
	router string
}

const (
	routedClient = "10.78.1.1"
	routedServer = "10.78.2.2"
	toClient     = "hbr1" // the router's interfaces
	toServer     = "hbr2"
)

func newRouted(t *testing.T) *routed {
	t.Helper()
	need.Namespaces(t)
	n := fmt.Sprintf("hbr%d", labs.Add(1))
	l := &routed{lab: lab{client: n + "c", server: n + "s", token: control.NewToken().Text(), dir: t.TempDir()}, router: n + "r"}
	for _, ns := range []string{l.client, l.server, l.router} {
		must(t, ip("netns", "add", ns))
		t.Cleanup(func() { ip("netns", "del", ns) })
	}
	for _, args := range [][]string{
		{"link", "add", clientDev, "mtu", "9000", "netns", l.client, "type", "veth", "peer", "name", toClient, "mtu", "9000", "netns", l.router},
		{"link", "add", serverDev, "mtu", "9000", "netns", l.server, "type", "veth", "peer", "name", toServer, "mtu", "9000", "netns", l.router},
		{"-n", l.client, "addr", "add", routedClient + "/24", "dev", clientDev},
		{"-n", l.server, "addr", "add", routedServer + "/24", "dev", serverDev},
		{"-n", l.router, "addr", "add", "10.78.1.254/24", "dev", toClient},
		{"-n", l.router, "addr", "add", "10.78.2.254/24", "dev", toServer},
		{"-n", l.client, "link", "set", clientDev, "up"}, {"-n", l.server, "link", "set", serverDev, "up"},
		{"-n", l.router, "link", "set", toClient, "up"}, {"-n", l.router, "link", "set", toServer, "up"},
		{"-n", l.client, "route", "add", "default", "via", "10.78.1.254"},
		{"-n", l.server, "route", "add", "default", "via", "10.78.2.254"},
		{"netns", "exec", l.router, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1"},
	} {
		must(t, ip(args...))
	}
	p := l.start(t, l.server, []string{control.TokenVariable + "=" + l.token}, hopbench(t), "serve", "--listen", routedServer+":18515")
	until(t, patience, "the server listens", func() bool { return strings.Contains(p.stdout.String(), "listening on") })
	return l
}

func TestNamespaceDoctorOtherSubnets(t *testing.T) {
	l := newRouted(t)
	c := l.doctor(t, 0, routedServer+":18515")
	c.find(t, "pair.subnet", "ok", routedServer)
	c.find(t, "pair.data-address", "ok", "")
}

// A hop between drops what is larger than its MTU without a word: the connection comes about, and the first large message stalls.
func TestNamespaceDoctorMTUBlackHole(t *testing.T) {
	for _, c := range []struct{ narrow, step string }{{toServer, "send 262144 bytes there"}, {toClient, "send 262144 bytes back"}} {
		t.Run(c.step, func(t *testing.T) {
			l := newRouted(t)
			must(t, ip("-n", l.router, "link", "set", c.narrow, "mtu", "1400"))
			// The router's word for it never leaves it.
			must(t, ip("-n", l.router, "rule", "add", "ipproto", "icmp", "pref", "1", "blackhole"))
			must(t, ip("-n", l.router, "rule", "add", "from", "all", "lookup", "local", "pref", "10"))
			must(t, ip("-n", l.router, "rule", "del", "pref", "0"))
			got := l.doctor(t, 3, routedServer+":18515")
			// The control channel's greeting is larger than a packet too: the doctor finds that out by greeting in small ones.
			got.find(t, "pair.mtu-black-hole", "fail", "segments of 536 bytes")
			got.find(t, "pair.mtu-black-hole", "fail", "9000 bytes")
			if len(got.Proofs) != 1 || got.Proofs[0].Step != c.step || got.Proofs[0].Passed {
				t.Errorf("%+v", got.Proofs)
			}
		})
	}
}
