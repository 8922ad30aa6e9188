package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"hopbench/harness"
	"hopbench/harness/control"
	"hopbench/transports/fault"
)

const (
	// fingerprintLimit is how long a rank that has just joined may take to say what its host is.
	fingerprintLimit = 15 * time.Second
	// aliveLimit is how long a rank has to answer before another one with its number takes its place.
	aliveLimit = 3 * time.Second
	// farewellLimit is how long the first rank waits for a rank that it ends.
	farewellLimit = 5 * time.Second
	// lingers is how long a mesh that failed while it gathered stays open, so that ranks that come a little later learn why.
	lingers = 5 * time.Second
)

// GatherOptions is how the first rank takes the others in.
type GatherOptions struct {
	// First is rank 0 itself, and Side its part of measurements.
	First control.Member
	Side  harness.Peer
	Token control.Token
	// Control is how the first rank speaks to the others; its ToolVersion is what they must have as well.
	Control control.DialOptions
	// Limit is how long the others have to come. 0 means a minute.
	Limit time.Duration
	// LeaveOut goes on without those that have not come within the limit. Otherwise one that is missing ends the mesh.
	LeaveOut bool
	// HostOf is the host of a rank where the engine told it; nil or "" where it did not.
	HostOf func(number int) string
	// Refuse is why there can be no mesh, which the first rank knows before the others come: they are told so, and Gather returns it. nil
	// for a mesh.
	Refuse error
	// Log takes one line on what happened; nil for none.
	Log func(line string)
}

// room is the meeting as it goes on.
type room struct {
	o     GatherOptions
	close func() // the door
	done  chan struct{}

	mu      sync.Mutex
	seats   map[int]*Member
	reach   map[netip.Addr]int // by which address of this host others came
	refused map[int]Missing
	told    int   // ranks that were told of the failure
	failure error // ends the mesh
	phase   int
	changed chan struct{} // closed and made anew when anything above changes
}

// What an arrival meets.
const (
	gathering = iota
	measuring
	failed
)

// Gather takes the ranks in that dial a listener, which it closes in the end, until all are here. Its error names every rank that is
// the cause, with its host. When it returns an error everyone who came has been told the reason and all connections are closed.
func Gather(ctx context.Context, l net.Listener, o GatherOptions) (*Mesh, error) {
	if o.Limit <= 0 {
		o.Limit = time.Minute
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	here, err := o.Side.Host(ctx)
	if err != nil {
		l.Close()
		return nil, err
	}
	doorContext, shut := context.WithCancel(ctx)
	r := &room{
		o: o, close: shut, done: make(chan struct{}), seats: map[int]*Member{}, reach: map[netip.Addr]int{}, refused: map[int]Missing{},
		changed: make(chan struct{}),
	}
	if o.Refuse != nil {
		r.failure, r.phase = o.Refuse, failed
	}
	r.seats[0] = &Member{Member: o.First, Peer: o.Side, Fingerprint: here}
	go func() {
		defer close(r.done)
		if err := control.Meet(doorContext, l, o.Token, o.Control, func(a control.Arrival) { r.arrive(doorContext, a) }); err != nil {
			r.fail(err)
		}
	}()
	late, err := r.wait(ctx)
	if err != nil {
		r.linger(ctx, err, late)
		reason := err.Error()
		if ctx.Err() != nil {
			reason = "the first rank was told to end"
		}
		r.end(reason, true)
		return nil, err
	}
	return r.mesh(), nil
}

// wait returns when all are here, or the limit has passed, which is late, or something ends the mesh.
func (r *room) wait(ctx context.Context) (late bool, err error) {
	limit := time.NewTimer(r.o.Limit)
	defer limit.Stop()
	for {
		r.mu.Lock()
		changed, failure, here := r.changed, r.failure, len(r.seats)
		if failure == nil && here == r.o.First.Size {
			r.phase = measuring
		}
		r.mu.Unlock()
		switch {
		case failure != nil:
			return false, failure
		case here == r.o.First.Size:
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-changed:
		case <-limit.C:
			return true, r.late()
		}
	}
}

// late is what the limit's end means: an error that names who is missing, or a mesh without them.
func (r *room) late() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	missing := r.missing()
	said := make([]string, 0, 8)
	for i, m := range missing {
		if i == 8 {
			said = append(said, fmt.Sprintf("and %d more", len(missing)-i))
			break
		}
		said = append(said, m.String())
	}
	text := fmt.Sprintf("%d of %d ranks are missing after %v: %s", len(missing), r.o.First.Size, r.o.Limit, strings.Join(said, "; "))
	if !r.o.LeaveOut || len(r.seats) < 2 {
		return fault.New(fault.PeerUnreachable, "gather the ranks", "", "%s", text)
	}
	r.phase = measuring
	r.o.Log(text + ": left out")
	return nil
}

// missing lists who has no seat, by number. r.mu is held.
func (r *room) missing() []Missing {
	var all []Missing
	for n := range r.o.First.Size {
		if r.seats[n] != nil {
			continue
		}
		m, seen := r.refused[n]
		if !seen {
			m = Missing{Number: n, Why: "it did not come"}
			if r.o.HostOf != nil {
				m.Host = r.o.HostOf(n)
			}
		}
		all = append(all, m)
	}
	return all
}

// arrive is one connection to the door.
func (r *room) arrive(ctx context.Context, a control.Arrival) {
	if a.Err != nil {
		r.stranger(a)
		return
	}
	if err := r.unfit(a); err != nil {
		r.fail(err)
		r.dismiss(a, err.Error())
		return
	}
	r.mu.Lock()
	phase, failure, holder := r.phase, r.failure, r.seats[a.Member.Number]
	r.mu.Unlock()
	switch {
	case phase == failed:
		r.dismiss(a, failure.Error())
		return
	case phase == measuring: // whoever is superfluous does not end it, and nobody is asked for a sign of life while loops run
		why := "it came too late"
		if holder != nil {
			why = fmt.Sprintf("its number is that of %v (two ranks have the number %d)", where(holder), holder.Number)
		}
		r.o.Log(fmt.Sprintf("%v (%v) was sent away: %s, and the mesh measures without it", a.Member, a.From, why))
		r.dismiss(a, fmt.Sprintf("%v was sent away: %s, and the mesh measures without it", a.Member, why))
		return
	case holder != nil && r.stays(ctx, holder):
		err := fault.New(fault.PeerRefused, "gather the ranks", "", "two ranks have the number %d: %v and %v (%v): each needs its own --rank, or the engine's; if one is of another mesh, --first-port gives this one a port of its own",
			a.Member.Number, where(holder), a.Member, a.From)
		r.fail(err)
		r.dismiss(a, err.Error())
		return
	}
	limited, cancel := context.WithTimeout(ctx, fingerprintLimit)
	host, err := a.Peer.Host(limited)
	cancel()
	if err != nil {
		r.mu.Lock()
		r.refused[a.Member.Number] = Missing{a.Member.Number, a.Member.Host, fmt.Sprintf("it came and went: %v", err)}
		r.mu.Unlock()
		r.dismiss(a, "it did not say what its host is")
		return
	}
	m := &Member{Member: a.Member, Peer: a.Peer, Fingerprint: host, arrival: a}
	if !r.seat(m) {
		r.arrive(ctx, a) // something changed meanwhile: look again
	}
}

// where names a member with the address that it came from.
func where(m *Member) string {
	if m.Number == 0 {
		return m.Member.String()
	}
	return fmt.Sprintf("%v (%v)", m.Member, m.arrival.From)
}

// seat gives a member its seat, unless that is taken or the mesh is past gathering.
func (r *room) seat(m *Member) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != gathering || r.seats[m.Number] != nil {
		return false
	}
	r.seats[m.Number] = m
	if m.arrival.Local.IsValid() {
		r.reach[m.arrival.Local]++
	}
	r.wake()
	return true
}

// stays says whether a member that holds a seat still answers. One that does not loses it, while the mesh gathers: an engine that
// starts a rank again gives it its old number.
func (r *room) stays(ctx context.Context, m *Member) bool {
	if m.Number == 0 {
		return true
	}
	limited, cancel := context.WithTimeout(ctx, aliveLimit)
	defer cancel()
	if m.Peer.Alive(limited) == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != gathering {
		return false
	}
	if r.seats[m.Number] == m {
		delete(r.seats, m.Number)
		r.o.Log(fmt.Sprintf("%v is gone, and its number has come again", m.Member))
	}
	return false
}

// unfit says why a rank that holds the token cannot be part of this mesh.
func (r *room) unfit(a control.Arrival) error {
	first := r.o.First
	refuse := func(code fault.Code, format string, args ...any) error {
		return fault.New(code, "gather the ranks", a.From.String(), format, args...)
	}
	switch {
	case a.Member.Size != first.Size:
		return refuse(fault.PeerRefused, "%v was told that there are %d ranks, %v that there are %d", a.Member, a.Member.Size, first, first.Size)
	case a.Member.Number >= first.Size:
		return refuse(fault.PeerRefused, "%v is not one of %d ranks", a.Member, first.Size)
	case a.Tool != r.o.Control.ToolVersion:
		return refuse(fault.PeerVersion, "%v runs hopbench %s, %v runs %s: figures of two releases are not of one method", a.Member, a.Tool, first, r.o.Control.ToolVersion)
	}
	return nil
}

// stranger keeps what is known of somebody who was not let in. It ends nothing: anybody can knock.
func (r *room) stranger(a control.Arrival) {
	if a.Member.Host == "" && fault.CodeOf(a.Err) == fault.PeerNotHopbench {
		return // a port scanner, or a health check
	}
	r.o.Log(fmt.Sprintf("refused: %v", a.Err))
	if a.Member.Host == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := a.Member.Number; n < r.o.First.Size && len(r.refused) < r.o.First.Size {
		cause := a.Err
		var known *fault.Error
		if errors.As(a.Err, &known) && known.Err != nil {
			cause = known.Err
		}
		r.refused[n] = Missing{n, a.Member.Host, fmt.Sprintf("what claims to be it came from %v and was refused: %v", a.From.Addr(), cause)}
	}
}

// fail ends the gathering, for the first reason.
func (r *room) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil || r.phase == measuring {
		return
	}
	r.failure, r.phase = err, failed
	r.wake()
}

// wake tells whoever waits that something has changed. r.mu is held.
func (r *room) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// dismiss ends an arrival that gets no seat.
func (r *room) dismiss(a control.Arrival, why string) {
	ctx, cancel := context.WithTimeout(context.Background(), farewellLimit)
	defer cancel()
	_ = a.Dismiss(ctx, why, true) // a rank that does not hear it sees its connection end
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told++
	r.wake()
}

// linger keeps the door of a failed mesh open until every rank has been told, for a while at most. Where it was too late anyway, nobody is waited for.
func (r *room) linger(ctx context.Context, why error, late bool) {
	r.mu.Lock()
	if r.failure == nil {
		r.failure = why
	}
	r.phase = failed
	r.mu.Unlock()
	if late || ctx.Err() != nil {
		return
	}
	limit := time.NewTimer(lingers)
	defer limit.Stop()
	for {
		r.mu.Lock()
		changed, left := r.changed, r.o.First.Size-len(r.seats)-r.told // processes: two may have one number
		r.mu.Unlock()
		if left <= 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-limit.C:
			return
		case <-changed:
		}
	}
}

// end tells every member that the mesh has ended, at once, and closes the door.
func (r *room) end(reason string, failed bool) {
	r.mu.Lock()
	members := make([]*Member, 0, len(r.seats))
	for _, m := range r.seats {
		if m.Number != 0 {
			members = append(members, m)
		}
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), farewellLimit)
	defer cancel()
	var all sync.WaitGroup
	for _, m := range members {
		all.Go(func() { _ = m.arrival.Dismiss(ctx, reason, failed) }) // who does not hear it sees its connection end
	}
	all.Wait()
	r.close()
	<-r.done
}

// mesh is the room as it is when gathering has ended.
func (r *room) mesh() *Mesh {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &Mesh{Size: r.o.First.Size, Missing: r.missing(), room: r}
	for _, s := range r.seats {
		m.Members = append(m.Members, s)
	}
	slices.SortFunc(m.Members, func(a, b *Member) int { return a.Number - b.Number })
	name(m.Members)
	address(m.Members, r.reach)
	return m
}
