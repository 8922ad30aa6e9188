package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

func set(pairs ...string) transports.Options {
	o := transports.Options{Settings: map[string]string{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		o.Settings[pairs[i]] = pairs[i+1]
	}
	return o
}

func wantCode(t *testing.T, err error, code fault.Code, words ...string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("code %q instead of %q: %v", fault.CodeOf(err), code, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not said: %v", w, err)
		}
	}
}

// changed is a peer's address with something else in it.
func changed(t *testing.T, encoded []byte, change func(*address)) []byte {
	t.Helper()
	var a address
	if err := json.Unmarshal(encoded, &a); err != nil {
		t.Fatal(err)
	}
	change(&a)
	out, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sh(t *testing.T, command string) {
	t.Helper()
	if out, err := exec.Command("/bin/sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

func TestEverySizeVerified(t *testing.T) {
	onRXE(t)
	const region = 64 << 20
	p := mustConnect(t, setup{bytes: region})
	for _, op := range transports.Ops() {
		for _, size := range []uint64{1, 3, 64, 221, 4096, 4097, 65536, 1 << 20, 9<<20 + 5, region} {
			p.verify(t, op, transports.List{Pieces: []transports.Piece{{Length: size}}, Ends: []uint32{1}})
		}
	}
}

func TestScatteredTenThousand(t *testing.T) {
	onRXE(t)
	p := mustConnect(t, setup{bytes: 8 << 20, endpoint: transports.EndpointOptions{Pieces: 10_000}})
	for _, op := range transports.Ops() {
		p.verify(t, op, list(512, 1, 10_000, 8<<20))
	}
}

func TestSixteenQueuePairs(t *testing.T) {
	onRXE(t)
	p := mustConnect(t, setup{bytes: 16 << 20, endpoint: transports.EndpointOptions{Streams: 16}})
	for _, op := range transports.Ops() {
		var lists []transports.List
		for s := range 16 {
			l := list(3000, 8, 1, 1<<19)
			for i := range l.Pieces {
				l.Pieces[i].Local += uint64(s) << 20
				l.Pieces[i].Remote += uint64(s) << 20
			}
			lists = append(lists, l)
		}
		p.verify(t, op, lists...)
	}
}

func TestPathIsExplained(t *testing.T) {
	onRXE(t)
	p := mustConnect(t, setup{})
	path := p[0].endpoint.Path()
	if path.PathMTU != 4096 || path.GIDType != "RoCE v2" || path.Local != "10.9.0.1" || path.Netdev != "veth0" || !path.Virtual || path.Limit != nil ||
		path.SameHost == nil || !*path.SameHost {
		t.Errorf("%+v", path)
	}
	text := strings.Join(path.Evidence, "\n")
	for _, w := range []string{"libibverbs.so.1", "rxe0 port 1", "RoCE v2, ipv4", "path MTU: 4096 here"} {
		if !strings.Contains(text, w) {
			t.Errorf("the evidence lacks %q:\n%s", w, text)
		}
	}
}

func TestCountersWitnessTheBytes(t *testing.T) {
	onRXE(t)
	p := mustConnect(t, setup{})
	read := func() (sent, received uint64, unit uint64) {
		c, err := p[0].endpoint.Counters()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range c {
			if c.Sent {
				sent, unit = c.Value, c.BytesPerUnit
			}
			if c.Received {
				received = c.Value
			}
		}
		return sent, received, unit
	}
	s0, r0, _ := read()
	const ops, size = 50, 100_000
	if err := p.run(&transports.Loop{Op: transports.Write, Lists: []transports.List{list(size, 5, 1, 1<<20)}, Depth: 4, Count: ops}); err != nil {
		t.Fatal(err)
	}
	s1, r1, unit := read()
	// rxe counts on the device, which both sides share here.
	if unit != 4096 || (s1-s0)*unit < ops*size || (r1-r0)*unit < ops*size {
		t.Errorf("%d packets sent and %d received of at most %d bytes for %d bytes", s1-s0, r1-r0, unit, ops*size)
	}
}

func TestIPv6Alone(t *testing.T) {
	onRXE(t)
	o := transports.Options{Device: "rxe6"}
	p := mustConnect(t, setup{options: [2]transports.Options{o, o}})
	if path := p[0].endpoint.Path(); path.Local != "fd00:96::1" {
		t.Errorf("chose %s: a routable address comes before a link-local one", path.Local)
	}
	p.verify(t, transports.Write, list(70_000, 4, 1, 1<<20))
}

func TestTwoRailsAtOnce(t *testing.T) {
	onRXE(t)
	rail := func(d string) sides {
		o := transports.Options{Device: d}
		return mustConnect(t, setup{options: [2]transports.Options{o, o}})
	}
	a, b := rail("rxe0"), rail("rxe1")
	errs := make(chan error, 2)
	for _, p := range []*sides{&a, &b} {
		go func() {
			errs <- p.run(&transports.Loop{Op: transports.Write, Lists: []transports.List{list(65536, 4, 1, 1<<20)}, Depth: 8, Count: 64})
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	if x, y := a[0].endpoint.Path(), b[0].endpoint.Path(); x.Device == y.Device || x.Netdev == y.Netdev {
		t.Errorf("both rails use %s", x.Device)
	}
}

func TestChoiceIsRefusedInWords(t *testing.T) {
	onRXE(t)
	open := func(d transports.Driver, o transports.Options) error {
		tr, err := d.Open(context.Background(), o)
		if err == nil {
			tr.Close()
		}
		return err
	}
	o := set("gid-index", "77")
	o.Device = "rxe0"
	wantCode(t, open(RoCE(), o), fault.RDMANoGID, "77", "10.9.0.1")
	wantCode(t, open(RoCE(), transports.Options{Device: "mlx5_9"}), fault.RDMANoDevice, "rxe0")
	wantCode(t, open(InfiniBand(), transports.Options{}), fault.RDMALinkLayer, "no port speaks InfiniBand", "rxe0:1 (Ethernet), rxe1:1 (Ethernet), rxe6:1 (Ethernet)")
	wantCode(t, open(RoCE(), set("mtu", "1500")), fault.SettingInvalid, "1500")
	_, err := connect(t, setup{options: [2]transports.Options{{Device: "rxe0"}, {Device: "rxe6", Settings: map[string]string{"gid-index": "1"}}},
		tamper: func(to int, r *transports.Remote) {
			if to == 0 {
				r.Address = changed(t, r.Address, func(a *address) { a.GIDs[0].Family = "ipv5" })
			}
		}})
	wantCode(t, err, fault.VerbsFamilies, "ipv4", "ipv5")
}

func TestForcedMTUAboveThePeers(t *testing.T) {
	onRXE(t)
	_, err := connect(t, setup{options: [2]transports.Options{set("mtu", "4096"), set("mtu", "1024")}})
	wantCode(t, err, fault.VerbsPathMTU, "4096", "1024")
	p := mustConnect(t, setup{options: [2]transports.Options{{}, set("mtu", "1024")}, tamper: func(to int, r *transports.Remote) {
		r.Address = []byte(strings.Replace(string(r.Address), `"mtu_source":"forced"`, `"mtu_source":"port"`, 1))
	}})
	if a, b := p[0].endpoint.Path().PathMTU, p[1].endpoint.Path().PathMTU; a != 1024 || b != 1024 {
		t.Errorf("path MTU %d and %d", a, b)
	}
	p.verify(t, transports.Write, list(100_000, 2, 1, 1<<20))
}

func TestWrongKeyIsStatus10(t *testing.T) {
	onRXE(t)
	p := mustConnect(t, setup{tamper: func(to int, r *transports.Remote) {
		var k regionKey
		if to == 0 && json.Unmarshal(r.RegionKey, &k) == nil {
			k.Key ^= 0x5500
			r.RegionKey, _ = json.Marshal(k)
		}
	}})
	err := p.run(&transports.Loop{Op: transports.Write, Lists: []transports.List{list(64, 1, 1, 4096)}, Depth: 1, Count: 4})
	wantCode(t, err, fault.VerbsRemoteAccess, "status 10")
}

// TestLinkDown takes the interface away under a stream. The device sends to itself here: depending on the moment rxe fails the
// queue pair on its own side or says nothing until the stall limit. Between two machines the peer's silence is status 12: see
// TestTwoHosts.
func TestLinkDown(t *testing.T) {
	onRXE(t)
	o := transports.Options{Device: "rxe1"}
	p := mustConnect(t, setup{options: [2]transports.Options{o, o}, endpoint: transports.EndpointOptions{StallSeconds: 3}})
	time.AfterFunc(300*time.Millisecond, func() { exec.Command("ip", "link", "set", "veth2", "down").Run() })
	start := time.Now()
	err := p.run(&transports.Loop{Op: transports.Write, Lists: []transports.List{list(4096, 1, 1, 4096)}, Depth: 4, Deadline: transports.Now() + 60e9})
	took := time.Since(start)
	sh(t, "ip link set veth2 up; for i in 1 2 3 4 5 6 7 8 9 10; do grep -q ACTIVE /sys/class/infiniband/rxe1/ports/1/state && break; sleep 0.2; done")
	if code := fault.CodeOf(err); code != fault.VerbsRetries && code != fault.VerbsLocalQueue && code != fault.LoopStalled {
		t.Errorf("code %s: %v", code, err)
	}
	if err == nil || !strings.Contains(err.Error(), "the local port is DOWN") || !strings.Contains(err.Error(), "device event: the port went down") {
		t.Errorf("the port is not named: %v", err)
	}
	if took > 9*time.Second {
		t.Errorf("ended after %v", took)
	}
	t.Logf("ended after %v: %v", took, err)
}

// TestChild is the body of the processes that other tests start.
func TestChild(t *testing.T) {
	switch os.Getenv("VERBS_CHILD") {
	case "":
		t.Skip("the body of other tests' processes")
	case "memlock":
		tr, err := RoCE().Open(context.Background(), transports.Options{Device: "rxe0"})
		if err != nil {
			fmt.Printf("CHILD %s %v\n", fault.CodeOf(err), err)
			return
		}
		b, err := mem.Allocate(mem.Spec{Kind: mem.Host, Bytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		_, err = tr.Register(b)
		fmt.Printf("CHILD %s %v\n", fault.CodeOf(err), err)
	case "setup":
		mustConnect(t, setup{})
	case "target":
		serveUntilKilled(t)
	}
}

func TestMemlockOfAnOrdinaryUser(t *testing.T) {
	onRXE(t)
	sh(t, "chmod 666 /dev/infiniband/uverbs*")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/bin/bash", "-c", "ulimit -l 64; exec setpriv --reuid 65534 --regid 65534 --clear-groups "+self+" -test.run '^TestChild$'")
	c.Env = append(os.Environ(), "VERBS_CHILD=memlock")
	out, err := c.CombinedOutput()
	text := string(out)
	if err != nil || !strings.Contains(text, "CHILD verbs.memlock") || !strings.Contains(text, "ENOMEM (12)") || !strings.Contains(text, "65536 bytes (ulimit -l 64)") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestTargetKilled kills the process that holds the target, in the middle of a stream. The kernel takes its queue pairs away; nothing
// answers any more, and the initiator's retries run out.
func TestTargetKilled(t *testing.T) {
	onRXE(t)
	target := newTargetProcess(t)
	p := side{}
	var err error
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if p.t, err = RoCE().Open(ctx, transports.Options{Device: "rxe0"}); err != nil {
		t.Fatal(err)
	}
	const size = 1 << 16
	if p.buffer, err = mem.Allocate(mem.Spec{Kind: mem.Host, Bytes: size}); err != nil {
		t.Fatal(err)
	}
	if p.region, err = p.t.Register(p.buffer); err != nil {
		t.Fatal(err)
	}
	if p.endpoint, err = p.t.NewEndpoint(transports.EndpointOptions{Region: p.region, Streams: 1, Depth: 4, Pieces: 1, Largest: size, StallSeconds: 20}); err != nil {
		t.Fatal(err)
	}
	theirs := target.exchange(t, transports.Remote{Address: p.endpoint.Address(), RegionKey: p.region.Key(), RegionBytes: size})
	if err := p.endpoint.Connect(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	var killed time.Time
	time.AfterFunc(time.Second, func() {
		killed = time.Now()
		target.process.Process.Kill()
	})
	l := &transports.Loop{Op: transports.Write, Lists: []transports.List{list(4096, 1, 1, 4096)}, Depth: 4, Deadline: transports.Now() + 60e9}
	err = p.endpoint.Stream(l)
	took := time.Since(killed)
	target.process.Wait()
	wantCode(t, err, fault.VerbsRetries, "status 12", "had been confirmed, so the peer or the link went away")
	if killed.IsZero() || took > 15*time.Second {
		t.Errorf("ended %v after the target's process was killed", took)
	}
	t.Logf("seen: ended %.1f s after the target's process was killed: %v", took.Seconds(), err)
	for _, c := range []interface{ Close() error }{p.endpoint, p.region, p.buffer, p.t} {
		if err := c.Close(); err != nil {
			t.Errorf("what the initiator held does not close: %v", err)
		}
	}
}

// targetProcess is a process of its own that serves writes until it is killed.
type targetProcess struct {
	process *exec.Cmd
	in      *json.Encoder
	out     *json.Decoder
}

func newTargetProcess(t *testing.T) *targetProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "-test.run", "^TestChild$")
	c.Env = append(os.Environ(), "VERBS_CHILD=target")
	c.Stderr = os.Stderr
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill() })
	return &targetProcess{c, json.NewEncoder(in), json.NewDecoder(out)}
}

// exchange tells each side of the other.
func (p *targetProcess) exchange(t *testing.T, mine transports.Remote) (theirs transports.Remote) {
	t.Helper()
	if err := errors.Join(p.in.Encode(mine), p.out.Decode(&theirs)); err != nil {
		t.Fatal(err)
	}
	return theirs
}

// serveUntilKilled is the body of that process.
func serveUntilKilled(t *testing.T) {
	const size = 1 << 16
	tr, err := RoCE().Open(context.Background(), transports.Options{Device: "rxe0"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := mem.Allocate(mem.Spec{Kind: mem.Host, Bytes: size})
	if err != nil {
		t.Fatal(err)
	}
	r, err := tr.Register(b)
	if err != nil {
		t.Fatal(err)
	}
	e, err := tr.NewEndpoint(transports.EndpointOptions{Region: r, Streams: 1, Depth: 4, Pieces: 1, Largest: size, Passive: true, StallSeconds: 20})
	if err != nil {
		t.Fatal(err)
	}
	var peer transports.Remote
	if err := errors.Join(json.NewDecoder(os.Stdin).Decode(&peer), json.NewEncoder(os.Stdout).Encode(transports.Remote{Address: e.Address(), RegionKey: r.Key(), RegionBytes: size})); err != nil {
		t.Fatal(err)
	}
	if err := e.Connect(context.Background(), peer); err != nil {
		t.Fatal(err)
	}
	t.Fatal(e.Serve(&transports.Loop{Op: transports.Write, Lists: []transports.List{list(4096, 1, 1, 4096)}, Depth: 4}))
}

// counts are the kernel's resource counts of a device.
func counts(t *testing.T, device string) map[string]uint64 {
	t.Helper()
	list, err := netlink.RdmaResourceList()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if r.Name == device {
			return r.RdmaResourceSummaryEntries
		}
	}
	t.Fatalf("netlink knows no %s", device)
	return nil
}

func openFiles(t *testing.T) int {
	t.Helper()
	l, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(l)
}

func TestNothingIsLeftBehind(t *testing.T) {
	onRXE(t)
	once := func() {
		t.Run("", func(t *testing.T) {
			p := mustConnect(t, setup{bytes: 4096, endpoint: transports.EndpointOptions{Depth: 1}})
			_ = p
		})
	}
	once()
	before, files := counts(t, "rxe0"), openFiles(t)
	n := 1000
	if testing.Short() {
		n = 100
	}
	for range n {
		once()
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		c := exec.Command(self, "-test.run", "^TestChild$")
		c.Env = append(os.Environ(), "VERBS_CHILD=setup")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	after := counts(t, "rxe0")
	for name, v := range before {
		if after[name] != v {
			t.Errorf("%s: %d before and %d after", name, v, after[name])
		}
	}
	if now := openFiles(t); now != files {
		t.Errorf("%d open files before and %d after", files, now)
	}
	t.Logf("after %d set-ups in one process and 20 in fresh ones: %v, %d files", n, after, openFiles(t))
}
