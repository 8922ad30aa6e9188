package control

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hopbench/harness"
	"hopbench/harness/control/controlpb"
	"hopbench/transports/fault"
)

// MaxFacts is the most that a peer tells of its host, in bytes. Either side refuses more.
const MaxFacts = 256 << 10

// ErrNoFacts is a peer that tells no facts of its host: of an older release, in this process, or told not to.
var ErrNoFacts = errors.New("the peer tells no facts of its host")

// Told is what a peer tells of its host.
type Told struct {
	// ToolVersion is the peer's release, as it greeted.
	ToolVersion string
	// Facts is what its Options.Facts read, at most MaxFacts bytes. It came from another program: whoever decodes it checks it.
	Facts []byte
}

// Facts asks a peer of [Dial] for the facts of its host. The error is ErrNoFacts where there are none to be had.
func Facts(ctx context.Context, p harness.Peer) (Told, error) {
	c, ok := p.(*client)
	if !ok {
		return Told{}, ErrNoFacts
	}
	told := Told{ToolVersion: c.theirs.tool}
	const op = "read the host's facts"
	err := c.call(ctx, op, c.o.Phase, func(ctx context.Context) error {
		m, err := c.rpc.Facts(ctx, &controlpb.FactsRequest{})
		if status.Code(err) == codes.Unimplemented {
			return nil
		}
		if err != nil {
			return err
		}
		var d decoder
		told.Facts = d.blob("the facts", m.GetFacts(), MaxFacts)
		return c.sense(op, d.err)
	})
	if err == nil && len(told.Facts) == 0 {
		err = ErrNoFacts
	}
	return told, err
}

// Facts implements the call of the protocol.
func (s *Server) Facts(ctx context.Context, _ *controlpb.FactsRequest) (*controlpb.FactsReply, error) {
	if s.options.Facts == nil {
		return &controlpb.FactsReply{}, nil
	}
	b, err := s.options.Facts(ctx)
	if err == nil && len(b) > MaxFacts {
		err = fmt.Errorf("%d bytes of facts; %d are the most", len(b), MaxFacts)
	}
	if err != nil {
		return nil, &fault.Error{Code: fault.PeerRefused, Op: "read the host's facts", Err: err}
	}
	return &controlpb.FactsReply{Facts: b}, nil
}
