package mesh

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"hopbench/harness"
	"hopbench/harness/control"
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/tcp"
)

// meeting is a first rank in this process that gathers.
type meeting struct {
	addr  string
	token control.Token
	got   chan *Mesh
	err   chan error

	mu   sync.Mutex
	said []string
}

func side() harness.Peer {
	return harness.NewSide([]transports.Driver{tcp.New()}, harness.Limits{})
}

func gather(t *testing.T, size int, o GatherOptions) *meeting {
	t.Helper()
	l, err := control.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &meeting{addr: l.Addr().String(), token: control.NewToken(), got: make(chan *Mesh, 1), err: make(chan error, 1)}
	if o.First.Host == "" {
		o.First = control.Member{Number: 0, Size: size, Host: "node0", HostID: "0"}
	}
	o.Side, o.Token, o.Log = side(), m.token, m.log
	if o.Control.ToolVersion == "" {
		o.Control.ToolVersion = "v1"
	}
	if o.Limit == 0 {
		o.Limit = 30 * time.Second
	}
	go func() {
		got, err := Gather(t.Context(), l, o)
		m.got <- got
		m.err <- err
	}()
	return m
}

func (m *meeting) log(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said = append(m.said, line)
}

func (m *meeting) lines() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.said, "\n")
}

// rank joins as a number on a host of its own, and returns its end.
func (m *meeting) rank(t *testing.T, number, size int, change ...func(*control.Member, *control.JoinOptions, *control.Token)) chan error {
	t.Helper()
	member := control.Member{Number: number, Size: size, Host: fmt.Sprintf("node%d", number), HostID: fmt.Sprint(number)}
	o := control.JoinOptions{ToolVersion: "v1", Limit: 20 * time.Second}
	token := m.token
	for _, c := range change {
		c(&member, &o, &token)
	}
	end := make(chan error, 1)
	ctx := t.Context()
	go func() { end <- control.Join(ctx, m.addr, token, member, side(), o) }()
	return end
}

func wait[T any](t *testing.T, c chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(60 * time.Second):
		t.Fatal("it does not come")
		panic("")
	}
}

func says(t *testing.T, err error, code fault.Code, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want %s", code)
		return
	}
	if got := fault.CodeOf(err); got != code {
		t.Errorf("code %s, want %s: %v", got, code, err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q is missing in: %v", p, err)
		}
	}
}

func TestRanksMeetAndEndTogether(t *testing.T) {
	m := gather(t, 4, GatherOptions{})
	var ends []chan error
	for _, n := range []int{3, 1, 2} {
		ends = append(ends, m.rank(t, n, 4))
	}
	mesh := wait(t, m.got)
	if err := wait(t, m.err); err != nil {
		t.Fatal(err)
	}
	if len(mesh.Members) != 4 || len(mesh.Missing) != 0 {
		t.Fatalf("%d members, missing %v", len(mesh.Members), mesh.Missing)
	}
	for n, member := range mesh.Members {
		if member.Number != n || member.Name != fmt.Sprintf("node%d", n) || member.Address != netip.MustParseAddr("127.0.0.1") || member.Fingerprint.Hostname == "" {
			t.Errorf("member %d: %+v", n, member)
		}
	}
	if gone := mesh.Alive(t.Context()); len(gone) != 0 {
		t.Errorf("gone: %v", gone)
	}
	// Who comes late is told so, and changes nothing.
	says(t, wait(t, m.rank(t, 2, 4)), fault.PeerRefused, "rank 2 on node2 was sent away: its number is that of rank 2 on node2 (127.0.0.1:", "two ranks have the number 2")
	mesh.End("", false)
	for _, e := range ends {
		if err := wait(t, e); err != nil {
			t.Errorf("a rank ends with %v", err)
		}
	}
	if _, err := net.DialTimeout("tcp", m.addr, time.Second); err == nil {
		t.Error("the door is still open")
	}
}

func TestTwoRanksWithOneNumber(t *testing.T) {
	m := gather(t, 3, GatherOptions{})
	first := m.rank(t, 1, 3)
	time.Sleep(200 * time.Millisecond)
	second := m.rank(t, 1, 3, func(member *control.Member, _ *control.JoinOptions, _ *control.Token) { member.Host = "twin" })
	for _, err := range []error{wait(t, m.err), wait(t, first), wait(t, second)} {
		says(t, err, fault.PeerRefused, "two ranks have the number 1", "node1", "twin")
	}
}

// A rank that its engine starts again takes the seat of the process that died.
func TestARankThatComesAgain(t *testing.T) {
	m := gather(t, 3, GatherOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	dead := make(chan error, 1)
	member := control.Member{Number: 1, Size: 3, Host: "node1"}
	joined := make(chan string, 1)
	go func() {
		dead <- control.Join(ctx, m.addr, m.token, member, side(), control.JoinOptions{ToolVersion: "v1", Joined: func(s string) { joined <- s }})
	}()
	wait(t, joined)
	time.Sleep(500 * time.Millisecond) // it has its seat when its answer has come back
	cancel()
	wait(t, dead)
	again, other := m.rank(t, 1, 3), m.rank(t, 2, 3)
	mesh := wait(t, m.got)
	if err := wait(t, m.err); err != nil {
		t.Fatalf("%v\n%s", err, m.lines())
	}
	if !strings.Contains(m.lines(), "rank 1 on node1 is gone, and its number has come again") {
		t.Errorf("it is not told: %s", m.lines())
	}
	mesh.End("", false)
	for _, e := range []chan error{again, other} {
		if err := wait(t, e); err != nil {
			t.Error(err)
		}
	}
}

func TestSizesThatDiffer(t *testing.T) {
	m := gather(t, 3, GatherOptions{})
	wrong, other := m.rank(t, 1, 4), m.rank(t, 2, 3)
	for _, err := range []error{wait(t, m.err), wait(t, wrong), wait(t, other)} {
		says(t, err, fault.PeerRefused, "rank 1 on node1", "there are 4 ranks", "rank 0 on node0", "there are 3")
	}
}

func TestTwoReleases(t *testing.T) {
	m := gather(t, 2, GatherOptions{})
	old := m.rank(t, 1, 2, func(_ *control.Member, o *control.JoinOptions, _ *control.Token) { o.ToolVersion = "v0.9" })
	says(t, wait(t, m.err), fault.PeerVersion, "rank 1 on node1", "v0.9", "v1")
	says(t, wait(t, old), fault.PeerRefused, "v0.9", "v1")
}

func TestWhoIsMissingIsNamed(t *testing.T) {
	m := gather(t, 5, GatherOptions{Limit: 2 * time.Second, HostOf: func(n int) string { return fmt.Sprintf("listed%d", n) }})
	here := m.rank(t, 1, 5)
	stranger := m.rank(t, 2, 5, func(_ *control.Member, _ *control.JoinOptions, token *control.Token) { *token = control.NewToken() })
	says(t, wait(t, stranger), fault.PeerToken, "another token")
	err := wait(t, m.err)
	says(t, err, fault.PeerUnreachable, "3 of 5 ranks are missing", "rank 2 on node2", "another token", "rank 3 on listed3: it did not come", "rank 4 on listed4")
	says(t, wait(t, here), fault.PeerRefused, "3 of 5 ranks are missing")
	if !strings.Contains(m.lines(), "claims to be rank 2 on node2") {
		t.Errorf("it was not told at once: %s", m.lines())
	}
}

func TestWhoIsMissingIsLeftOut(t *testing.T) {
	m := gather(t, 4, GatherOptions{Limit: 2 * time.Second, LeaveOut: true})
	here := m.rank(t, 2, 4)
	mesh := wait(t, m.got)
	if err := wait(t, m.err); err != nil {
		t.Fatal(err)
	}
	if len(mesh.Members) != 2 || len(mesh.Missing) != 2 || mesh.Missing[1].Number != 3 || mesh.Size != 4 {
		t.Errorf("%d members, missing %v", len(mesh.Members), mesh.Missing)
	}
	if names := strings.Join(mesh.Names(), ","); names != "node0,,node2," {
		t.Errorf("names %s", names)
	}
	says(t, wait(t, m.rank(t, 3, 4)), fault.PeerRefused, "rank 3 on node3 was sent away: it came too late")
	mesh.End("rank 0 says so", true)
	says(t, wait(t, here), fault.PeerRefused, "rank 0 says so")
}

func TestAloneIsNoMesh(t *testing.T) {
	m := gather(t, 3, GatherOptions{Limit: time.Second, LeaveOut: true})
	says(t, wait(t, m.err), fault.PeerUnreachable, "2 of 3 ranks are missing", "rank 1: it did not come")
}

// What rank 0 knows to be wrong is told to the others instead of letting them wait.
func TestAMeshThatCannotBeIsRefused(t *testing.T) {
	m := gather(t, 3, GatherOptions{Refuse: fmt.Errorf("--matrix: row 2 has 3 columns")})
	a, b := m.rank(t, 1, 3), m.rank(t, 2, 3)
	for _, c := range []chan error{a, b} {
		says(t, wait(t, c), fault.PeerRefused, "--matrix: row 2 has 3 columns")
	}
	if err := wait(t, m.err); err == nil || err.Error() != "--matrix: row 2 has 3 columns" {
		t.Errorf("rank 0 says %v", err)
	}
}

func TestNamesAndAddresses(t *testing.T) {
	addr := netip.MustParseAddr
	at := func(number int, host, local string) *Member {
		m := &Member{Member: control.Member{Number: number, Host: host}}
		if local != "" {
			m.Local = addr(local)
		}
		return m
	}
	members := []*Member{at(0, "a", ""), at(1, "a", "127.0.0.1"), at(2, "b", "192.0.2.2"), at(3, "localhost", "192.0.2.3"), at(4, "localhost", "192.0.2.4")}
	members[4].Bind = addr("198.51.100.4")
	name(members)
	address(members, map[netip.Addr]int{addr("127.0.0.1"): 1, addr("192.0.2.1"): 2, addr("192.0.2.200"): 1})
	want := []string{"a/0 192.0.2.1", "a/1 192.0.2.1", "b 192.0.2.2", "localhost/3 192.0.2.3", "localhost/4 198.51.100.4"}
	for i, m := range members {
		if got := fmt.Sprint(m.Name, " ", m.Address); got != want[i] {
			t.Errorf("rank %d: %s, want %s", i, got, want[i])
		}
	}
}

// All ranks of a job dial at the same moment.
func TestManyRanksMeet(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred ranks in one process take seconds")
	}
	const many = 100
	m := gather(t, many, GatherOptions{Limit: 2 * time.Minute})
	start := time.Now()
	var ends []chan error
	for n := 1; n < many; n++ {
		ends = append(ends, m.rank(t, n, many, func(_ *control.Member, o *control.JoinOptions, _ *control.Token) { o.Limit = 2 * time.Minute }))
	}
	var mesh *Mesh
	select {
	case mesh = <-m.got:
	case <-time.After(3 * time.Minute):
		t.Fatal("they do not meet")
	}
	if err := wait(t, m.err); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d ranks met after %v", many, time.Since(start).Round(time.Millisecond))
	if gone := mesh.Alive(t.Context()); len(mesh.Members) != many || len(gone) != 0 {
		t.Errorf("%d members, gone %v", len(mesh.Members), gone)
	}
	mesh.End("", false)
	for _, e := range ends {
		if err := wait(t, e); err != nil {
			t.Error(err)
		}
	}
}
