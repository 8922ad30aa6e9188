package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"hopbench/harness"
	"hopbench/harness/control"
	"hopbench/harness/doctor"
	"hopbench/transports/fault"
	"hopbench/transports/topo"
)

// comparison is what `doctor --peer --json` writes.
type comparison struct {
	Here     doctor.Side     `json:"here"`
	Peer     *doctor.Side    `json:"peer,omitempty"` // absent where the peer could not be asked
	Findings []fault.Finding `json:"findings"`
	// Proofs are what was tried between the two: one a transport.
	Proofs []doctor.Proof `json:"proofs,omitempty"`
	// Route is how this host sends to the peer's control address.
	Route *topo.Route `json:"route,omitempty"`
	// NotTold says what the peer did not tell and was therefore not compared.
	NotTold string `json:"not_told,omitempty"`
}

// smallSegment is the segment that every path carries: the least MTU of IPv4, 576, without headers.
const smallSegment = 536

const (
	noPortFacts = "the peer tells no GIDs, subnets and port states of its host: they were not compared. Capture the peer with " +
		"scripts/capture.sh --addresses and give the archive to --peer"
	noProof = "nothing was sent between the two hosts: a captured host cannot be reached"
)

// peerFacts reads what this host tells the doctor of a client.
func peerFacts(context.Context) ([]byte, error) {
	h, err := readHost("/", 0)
	if err != nil {
		return nil, err
	}
	tool, _ := toolVersion()
	return doctor.SideOf(h, tool).Encode()
}

// comparePeer compares this host with a serving one, or with a captured one.
func comparePeer(ctx context.Context, env *Env, peer, tokenFile string, h *topo.Host, names []string, phase time.Duration, asJSON bool) error {
	tool, _ := toolVersion()
	c := &comparison{Here: doctor.SideOf(h, tool), Findings: []fault.Finding{}}
	if _, err := os.Stat(peer); err == nil {
		other, err := topo.Read(peer, topo.Options{})
		if err != nil {
			return usagef("doctor --peer: %v", err)
		}
		there := doctor.SideOf(other, "") // a capture is of no release
		c.Peer, c.NotTold = &there, noProof
		c.Findings = append(c.Findings, doctor.CompareHosts(c.Here, there)...)
	} else {
		if _, _, err := net.SplitHostPort(peer); err != nil {
			return usagef("doctor --peer: %q is neither HOST:PORT nor a captured host", peer)
		}
		token, err := control.TokenFor(peer, tokenFile, env.Getenv)
		if err != nil {
			return usagef("doctor --peer: %v", err)
		}
		if len(names) == 0 {
			names = []string{"tcp"}
		}
		if err := c.askPeer(ctx, env, peer, token, h.Live, names, phase); err != nil {
			return err
		}
	}
	var err error
	if asJSON {
		err = writeJSON(env.Stdout, c)
	} else {
		err = doctor.WriteFindings(env.Stdout, fmt.Sprintf("this host and %s", peer), c.Findings, c.NotTold)
	}
	if err != nil {
		return err
	}
	for _, f := range c.Findings {
		if f.Severity == fault.Fail {
			return exitError{3, nil}
		}
	}
	return nil
}

// askPeer fetches the other side's facts over the control channel, compares them, and tries the data path of each transport. A
// peer that cannot be spoken to is a finding.
func (c *comparison) askPeer(ctx context.Context, env *Env, peer string, token control.Token, live bool, names []string, phase time.Duration) error {
	tool, _ := toolVersion()
	o := control.DialOptions{ToolVersion: tool, Loop: time.Second, Connect: phase / 2, Phase: phase}
	p, err := control.Dial(ctx, peer, token, o)
	if fault.CodeOf(err) == fault.PeerDeadline {
		// It takes connections and does not answer. A greeting in small packets tells a path that loses large ones from a peer that sleeps.
		o.Segment = smallSegment
		if again, err2 := control.Dial(ctx, peer, token, o); err2 == nil {
			f := fault.Finding{Code: fault.PairBlackHole, Severity: fault.Fail, Summary: "the peer answers in small packets only: what is larger is lost on the way of the control channel",
				Evidence: []fault.Evidence{{Source: "greeting " + peer, Got: err.Error(), Want: "an answer"}, {Source: fmt.Sprintf("greeting it in segments of %d bytes", smallSegment), Got: "answered"}}}
			if row, ok := fault.Lookup(f.Code); ok {
				f.Fix = row.Fixes
			}
			c.Findings = append(c.Findings, f)
			p, err = again, nil
		}
	}
	if err != nil {
		return c.failed(ctx, "speak to the peer", peer, err)
	}
	defer p.Close()
	var side doctor.Side
	told, err := control.Facts(ctx, p)
	switch {
	case errors.Is(err, control.ErrNoFacts):
		host, err := p.Host(ctx)
		if err != nil {
			return c.failed(ctx, "read the peer's host", peer, err)
		}
		side, c.NotTold = doctor.SideFromRecord(host), noPortFacts
	case err != nil:
		return c.failed(ctx, "read the peer's facts", peer, err)
	default:
		if side, err = doctor.DecodeSide(told.Facts); err != nil {
			return c.failed(ctx, "read the peer's facts", peer, &fault.Error{Code: fault.PeerRefused, Op: "read the peer's facts", Device: peer, Err: err})
		}
	}
	if told.ToolVersion != "" { // what both sides proved with the token, not what one says in passing
		side.Version = told.ToolVersion
	}
	c.Peer = &side
	c.Findings = append(c.Findings, doctor.CompareHosts(c.Here, side)...)
	if !live {
		c.NotTold = noProof
		return nil
	}
	route, there := routeTo(ctx, peer)
	c.Route = route
	local := harness.NewSide(env.Drivers, harness.Limits{})
	defer local.Close()
	for _, name := range names {
		proof := doctor.Prove(ctx, local, p, doctor.Trial{Transport: name, Limit: phase, Stall: phase / 5})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.Proofs = append(c.Proofs, proof)
		c.Findings = append(c.Findings, proof.Finding())
		a, b := proof.Ends()
		if a == (doctor.End{}) && route != nil { // not connected: the way that the control channel takes is the best guess
			a, b = doctor.End{Interface: route.NetDev, Addr: route.Source}, doctor.End{Addr: there}
		}
		for _, f := range doctor.CompareData(c.Here, side, a, b, proof.Passed) {
			if !has(c.Findings, f) {
				c.Findings = append(c.Findings, f)
			}
		}
	}
	return nil
}

func has(all []fault.Finding, f fault.Finding) bool {
	for _, g := range all {
		if g.Code == f.Code && g.Summary == f.Summary {
			return true
		}
	}
	return false
}

// failed makes a finding of an error that ends the comparison.
func (c *comparison) failed(ctx context.Context, what, peer string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var fe *fault.Error
	if !errors.As(err, &fe) {
		return err
	}
	f := fault.Finding{Code: fe.Code, Severity: fault.Fail, Summary: "cannot " + what, Evidence: []fault.Evidence{{Source: peer, Got: err.Error()}}}
	if row, ok := fault.Lookup(fe.Code); ok {
		f.Summary, f.Fix = row.Title, row.Fixes
	}
	c.Findings = append(c.Findings, f)
	c.NotTold = "nothing else was compared"
	return nil
}

// routeTo is how this host sends to the peer's control address; nil where the name or the route is not to be had.
func routeTo(ctx context.Context, peer string) (*topo.Route, netip.Addr) {
	host, _, err := net.SplitHostPort(peer)
	if err != nil {
		return nil, netip.Addr{}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil || len(all) == 0 {
			return nil, netip.Addr{}
		}
		addr = all[0]
	}
	route, err := topo.RouteTo(addr)
	if err != nil {
		return nil, addr.Unmap()
	}
	return route, addr.Unmap()
}
