package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"hopbench/harness"
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

// The messages of a proof, in bytes: one that fits any packet, and one that fills every packet of the path.
const (
	smallMessage = 64
	largeMessage = 256 << 10
)

// Trial is what is tried between two sides, and for how long.
type Trial struct {
	Transport string
	Device    string            // of this side; empty: the transport's choice
	Settings  map[string]string // of this side
	// Limit is how long one step may take, and Stall how long a message may make no progress. 0 means 5 s and 2 s.
	Limit, Stall time.Duration
}

// Proof is how far a transport got between two sides: opened, connected, and verified messages of two sizes each way.
type Proof struct {
	Transport string `json:"transport"`
	Passed    bool   `json:"passed"`
	// Step is where it ended: "open here", "open on the peer", "connect", "send 64 bytes there", "send 262144 bytes back", ...
	Step string `json:"step,omitempty"`
	// Error and Code are why it ended.
	Error string     `json:"error,omitempty"`
	Code  fault.Code `json:"code,omitempty"`
	// Paths are the evidence of this side and of the peer, where the two were connected.
	Paths []transports.Path `json:"paths,omitempty"`

	err   error
	small bool // small messages passed both ways
	large bool // the step that failed was that of a large message
}

// Prove opens a transport on both sides with a little memory, connects the two and moves verified messages: a small one each way and
// then a large one each way. What a firewall, a route or an MTU does to data is so seen on data itself.
func Prove(ctx context.Context, local, remote harness.Peer, t Trial) Proof {
	if t.Limit <= 0 {
		t.Limit = 5 * time.Second
	}
	if t.Stall <= 0 {
		t.Stall = 2 * time.Second
	}
	p := Proof{Transport: t.Transport}
	p.err = p.run(ctx, local, remote, t)
	p.Passed = p.err == nil
	if p.err != nil {
		p.Error, p.Code = p.err.Error(), fault.CodeOf(p.err)
	}
	return p
}

func (p *Proof) run(ctx context.Context, local, remote harness.Peer, t Trial) error {
	step := func(name string, f func(context.Context) error) error {
		p.Step = name
		inner, cancel := context.WithTimeout(ctx, t.Limit)
		defer cancel()
		return f(inner)
	}
	request := harness.OpenRequest{
		Driver: t.Transport, Device: t.Device, Settings: t.Settings, Endpoints: 1, Streams: 1, Depth: 1, Pieces: 1, Largest: largeMessage,
		Memory: mem.Spec{Kind: mem.Host, Bytes: 2 * message(largeMessage).Footprint()}, Wait: transports.Block, StallSeconds: t.Stall.Seconds(),
	}
	var here, there harness.Lane
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.Limit+t.Stall)
		defer cancel()
		for _, l := range []harness.Lane{here, there} {
			if l != nil {
				_ = l.Close(end) // what the proof is about has been said
			}
		}
	}()
	var err error
	if err = step("open here", func(ctx context.Context) error { here, err = local.Open(ctx, request); return err }); err != nil {
		here = nil
		return err
	}
	op, err := operation(here.Opened().Caps)
	if err != nil {
		return err
	}
	request.Device, request.Settings, request.Passive = "", nil, true
	if err = step("open on the peer", func(ctx context.Context) error { there, err = remote.Open(ctx, request); return err }); err != nil {
		there = nil
		return err
	}
	if err := step("connect", func(ctx context.Context) (err error) { p.Paths, err = connect(ctx, here, there); return err }); err != nil {
		return err
	}
	round := uint64(0)
	for _, bytes := range []uint64{smallMessage, largeMessage} {
		for _, back := range []bool{false, true} {
			round++
			initiator, target, to := here, there, "there"
			if back {
				initiator, target, to = there, here, "back"
			}
			p.large = bytes == largeMessage
			if err := step(fmt.Sprintf("send %d bytes %s", bytes, to), func(ctx context.Context) error {
				return move(ctx, initiator, target, work(op, bytes, round))
			}); err != nil {
				return err
			}
		}
		p.small = true
	}
	p.Step = ""
	return nil
}

// operation is what the transport moves bytes by: a write where it has one.
func operation(c transports.Caps) (transports.Op, error) {
	if !c.CrossHost {
		return "", fault.New(fault.OneProcess, "check what the transport can do", "", "it does not reach another host")
	}
	for _, op := range transports.Ops() {
		if op != transports.Read && contains(c.Stream, op) {
			return op, nil
		}
	}
	return "", fault.New(fault.CapabilityGap, "check what the transport can do", "", "neither write nor send; there is %v", c.Stream)
}

func contains[T comparable](l []T, v T) bool {
	for _, x := range l {
		if x == v {
			return true
		}
	}
	return false
}

func message(bytes uint64) harness.Shape {
	return harness.Shape{Groups: []harness.Group{{Bytes: bytes, Count: 1}}, Streams: 1, Slots: 1}
}

func work(op transports.Op, bytes, round uint64) harness.Work {
	return harness.Work{Op: op, Shape: message(bytes), Depth: 1, Batch: 1, Wait: transports.Block, Shares: 1, Seed: 0x646f63746f72, Round: round}
}

// connect joins the two lanes. The side that fails first ends the other's wait.
func connect(ctx context.Context, here, there harness.Lane) ([]transports.Path, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask := func(o harness.Opened) harness.ConnectRequest {
		return harness.ConnectRequest{Addresses: o.Addresses, RegionKey: o.RegionKey, RegionBytes: o.RegionBytes}
	}
	type answer struct {
		c   harness.Connected
		err error
	}
	other := make(chan answer, 1)
	go func() {
		c, err := there.Connect(ctx, ask(here.Opened()))
		if err != nil {
			cancel()
		}
		other <- answer{c, err}
	}()
	mine, err := here.Connect(ctx, ask(there.Opened()))
	if err != nil {
		cancel()
	}
	theirs := <-other
	switch {
	case err == nil:
		err = theirs.err
	case theirs.err != nil && errors.Is(err, context.Canceled):
		err = theirs.err
	}
	if err != nil {
		return nil, err
	}
	return append(mine.Paths[:len(mine.Paths):len(mine.Paths)], theirs.c.Paths...), nil
}

// move sends one operation and verifies both memories.
func move(ctx context.Context, initiator, target harness.Lane, w harness.Work) (err error) {
	w.Initiate = true
	if _, err := initiator.Prepare(ctx, w); err != nil {
		return err
	}
	w.Initiate = false
	if _, err := target.Prepare(ctx, w); err != nil {
		return err
	}
	if err := target.Arm(ctx, 0, 1); err != nil {
		return err
	}
	_, err = initiator.Run(ctx, 0, harness.Span{Operations: 1, StampEvery: 1, Stamps: 1})
	// The target's threads end whatever happened.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, derr := target.Disarm(end, 0); err == nil {
		err = derr
	}
	if err != nil {
		return err
	}
	if err := initiator.Verify(ctx, 0); err != nil {
		return err
	}
	return target.Verify(ctx, 0)
}

// Ends are the two ends of the data path as the connection showed them; zero where there was none.
func (p Proof) Ends() (here, there End) {
	if len(p.Paths) < 2 {
		return End{}, End{}
	}
	end := func(mine, other transports.Path) End {
		e := End{Interface: mine.Netdev}
		for _, s := range []string{mine.Local, other.Remote} {
			if a, err := netip.ParseAddr(s); err == nil && !e.Addr.IsValid() {
				e.Addr = a
			}
		}
		return e
	}
	return end(p.Paths[0], p.Paths[1]), end(p.Paths[1], p.Paths[0])
}

// Finding is the verdict of the proof: the data address is reached, cannot be reached, or loses large packets.
func (p Proof) Finding() fault.Finding {
	f := fault.Finding{Code: fault.PairData, Severity: fault.OK}
	if p.Passed {
		f.Summary = fmt.Sprintf("over %s, verified messages of %d and %d bytes passed each way", p.Transport, smallMessage, largeMessage)
		if len(p.Paths) > 1 {
			f.Evidence = []fault.Evidence{{Source: "data path", Got: fmt.Sprintf("%s to %s", p.Paths[0].Local, p.Paths[1].Local)}}
		}
		return f
	}
	f.Severity = fault.Fail
	f.Evidence = []fault.Evidence{{Source: p.Transport + ", " + p.Step, Got: p.Error, Want: "done"}}
	class := fault.ClassOf(p.err)
	switch {
	case p.Step == "open here" || p.Step == "open on the peer" || class == fault.Corrupt || class == fault.NotSupported || class == fault.NotReady:
		f.Code, f.Summary = p.Code, fmt.Sprintf("%s failed at the step: %s", p.Transport, p.Step)
	case p.Step == "connect":
		f.Summary = fmt.Sprintf("the control channel works, and the data connection of %s does not come about", p.Transport)
	case p.large && p.small:
		f.Code = fault.PairBlackHole
		f.Summary = fmt.Sprintf("messages of %d bytes pass over %s and one of %d bytes does not: packets above some size are lost", smallMessage, p.Transport, largeMessage)
		for i, side := range []string{"here", "peer"} {
			if i < len(p.Paths) && p.Paths[i].PathMTU > 0 {
				f.Evidence = append(f.Evidence, fault.Evidence{Source: "MTU of " + p.Paths[i].Netdev + ", " + side, Got: fmt.Sprintf("%d bytes", p.Paths[i].PathMTU)})
			}
		}
	default:
		f.Summary = fmt.Sprintf("%s connected, and a message of %d bytes did not arrive", p.Transport, smallMessage)
	}
	if f.Code == "" {
		f.Code = fault.PairData
	}
	for _, c := range []fault.Code{f.Code, p.Code} {
		if row, ok := fault.Lookup(c); ok {
			for _, x := range row.Fixes {
				if !contains(f.Fix, x) {
					f.Fix = append(f.Fix, x)
				}
			}
		}
	}
	return f
}
