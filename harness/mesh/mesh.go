package mesh

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"hopbench/harness"
	"hopbench/harness/control"
	"hopbench/results"
)

// Member is a rank that is part of the mesh.
type Member struct {
	control.Member
	// Name is how rows call it: its host's name, and "/" with its rank behind it where the host has several ranks, or where two hosts
	// have one name.
	Name string
	// Address is the local address of its data connections.
	Address netip.Addr
	// Peer runs its part of measurements.
	Peer harness.Peer
	// Fingerprint is what its host is.
	Fingerprint results.Host

	arrival control.Arrival
}

// Missing is a rank that is not part of the mesh.
type Missing struct {
	Number int
	// Host is its host where that is known: from what refused connections claimed, or from the engine's list of hosts.
	Host string
	// Why says what is known: that nothing came, or why what came was refused.
	Why string
}

func (m Missing) String() string {
	if m.Host == "" {
		return fmt.Sprintf("rank %d: %s", m.Number, m.Why)
	}
	return fmt.Sprintf("rank %d on %s: %s", m.Number, m.Host, m.Why)
}

// Mesh is the ranks that have met. The first rank's door stays open until its end: who comes late is told so.
type Mesh struct {
	// Members are in the order of their numbers. The first is this process, unless it left itself out, which it cannot.
	Members []*Member
	// Size is how many ranks were to come, and Missing those that have not.
	Size    int
	Missing []Missing

	room *room
}

// Names are what ranks are called, by number; those that are not here have none.
func (m *Mesh) Names() []string {
	names := make([]string, m.Size)
	for _, member := range m.Members {
		names[member.Number] = member.Name
	}
	return names
}

// Present says which ranks are here, by number.
func (m *Mesh) Present() []bool {
	here := make([]bool, m.Size)
	for _, member := range m.Members {
		here[member.Number] = true
	}
	return here
}

// member is the rank with a number, which is here.
func (m *Mesh) member(number int) *Member {
	at, _ := slices.BinarySearchFunc(m.Members, number, func(m *Member, n int) int { return m.Number - n })
	return m.Members[at]
}

// End ends the mesh on all its ranks, and tells them why and whether that is a failure. It waits a few seconds for them at most.
func (m *Mesh) End(reason string, failed bool) { m.room.end(reason, failed) }

// Alive asks every member for a sign of life, all at once, and keeps their sessions from ending for want of calls. It returns who did
// not answer. It must not be called while a loop runs: it is traffic.
func (m *Mesh) Alive(ctx context.Context) map[int]error {
	var mu sync.Mutex
	gone := map[int]error{}
	var all sync.WaitGroup
	for _, member := range m.Members {
		all.Go(func() {
			if err := member.Peer.Alive(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				gone[member.Number] = err
			}
		})
	}
	all.Wait()
	return gone
}

// name gives members the names that rows call them by.
func name(members []*Member) {
	count := map[string]int{}
	for _, m := range members {
		count[m.Host]++
	}
	for _, m := range members {
		if m.Name = m.Host; count[m.Host] > 1 {
			m.Name = fmt.Sprintf("%s/%d", m.Host, m.Number)
		}
	}
}

// address chooses the local addresses of the data connections: what a rank was told, else the one by which it reached the first rank,
// which is known to work. The first rank takes the one by which most others came; and a rank of its host that came over loopback, where
// other hosts are in the mesh, takes the first rank's, since loopback leads nowhere from there.
func address(members []*Member, reach map[netip.Addr]int) {
	var first netip.Addr
	for _, a := range slices.SortedFunc(maps.Keys(reach), netip.Addr.Compare) {
		if !first.IsValid() || (first.IsLoopback() && !a.IsLoopback()) || (first.IsLoopback() == a.IsLoopback() && reach[a] > reach[first]) {
			first = a
		}
	}
	for _, m := range members {
		switch {
		case m.Bind.IsValid():
			m.Address = m.Bind
		case m.Number == 0:
			m.Address = first
		default:
			if m.Address = m.Local; m.Address.IsLoopback() && first.IsValid() {
				m.Address = first
			}
		}
	}
}
