package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"hopbench/harness/control"
	"hopbench/harness/doctor"
	"hopbench/transports/fault"
	"hopbench/transports/topo"
)

// comparison is what `doctor --peer --json` writes.
type comparison struct {
	Here     doctor.Side     `json:"here"`
	Peer     doctor.Side     `json:"peer"`
	Findings []fault.Finding `json:"findings"`
	// NotTold says what the peer did not tell and was therefore not compared.
	NotTold string `json:"not_told,omitempty"`
}

const noPortFacts = "the control channel tells no GIDs, subnets and port states of the peer: they were not compared. Capture the peer " +
	"with scripts/capture.sh --addresses and give the archive to --peer"

// comparePeer compares this host with a serving one, or with a captured one.
func comparePeer(ctx context.Context, env *Env, peer, tokenFile string, h *topo.Host, asJSON bool) error {
	tool, _ := toolVersion()
	c := comparison{Here: doctor.SideOf(h, tool), Findings: []fault.Finding{}}
	if _, err := os.Stat(peer); err == nil {
		other, err := topo.Read(peer, topo.Options{})
		if err != nil {
			return usagef("doctor --peer: %v", err)
		}
		c.Peer = doctor.SideOf(other, tool) // a capture is of no release
	} else {
		if _, _, err := net.SplitHostPort(peer); err != nil {
			return usagef("doctor --peer: %q is neither HOST:PORT nor a captured host", peer)
		}
		side, err := askPeer(ctx, env, peer, tokenFile)
		if err != nil {
			return err
		}
		c.Peer, c.NotTold = side, noPortFacts
	}
	c.Findings = append(c.Findings, doctor.CompareHosts(c.Here, c.Peer)...)
	if c.Peer.Data != "" {
		c.Findings = append(c.Findings, doctor.Reach(ctx, c.Peer.Data, 3*time.Second))
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

// askPeer fetches the other side's facts over the control channel.
func askPeer(ctx context.Context, env *Env, peer, tokenFile string) (doctor.Side, error) {
	token, err := control.TokenFor(peer, tokenFile, env.Getenv)
	if err != nil {
		return doctor.Side{}, usagef("doctor --peer: %v", err)
	}
	tool, _ := toolVersion()
	p, err := control.Dial(ctx, peer, token, control.DialOptions{ToolVersion: tool})
	if err != nil {
		return doctor.Side{}, err
	}
	defer p.Close()
	host, err := p.Host(ctx)
	if err != nil {
		return doctor.Side{}, err
	}
	return doctor.SideFromRecord(host), nil
}
