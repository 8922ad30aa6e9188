package control

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hopbench/harness/control/controlpb"
	"hopbench/transports/fault"
)

const maxDetail = 64 << 10

// toStatus makes a gRPC status of a failure of this side, with the failure itself as a detail.
func toStatus(op string, err error) error {
	var e *fault.Error
	if !errors.As(err, &e) {
		code := fault.PeerRefused
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			code = fault.PeerDeadline
		}
		e = &fault.Error{Code: code, Op: op, Err: err}
	}
	m := &controlpb.Fault{
		Code: line(string(e.Code)), Op: line(e.Op), Device: line(e.Device), Native: line(e.Native), Hint: line(e.Hint),
		Detail: cleanLines(e.Detail, maxDetail),
	}
	if e.Err != nil {
		m.Cause = line(e.Err.Error())
	}
	s := status.New(codes.Aborted, line(e.Error()))
	if detailed, derr := s.WithDetails(m); derr == nil {
		s = detailed
	}
	return s.Err()
}

// remoteCause is the cause of a failure at the peer.
type remoteCause struct {
	peer, text string
}

func (c *remoteCause) Error() string {
	if c.text == "" {
		return "at the peer " + c.peer
	}
	return "at the peer " + c.peer + ": " + c.text
}

// fromStatus is the peer's failure out of a gRPC error, or nil where the error is not the peer's own answer.
func fromStatus(peer, op string, err error) *fault.Error {
	s, ok := status.FromError(err)
	if !ok {
		return nil
	}
	for _, d := range s.Details() {
		m, ok := d.(*controlpb.Fault)
		if !ok {
			continue
		}
		e := &fault.Error{
			Code: fault.Code(line(m.GetCode())), Op: line(m.GetOp()), Device: line(m.GetDevice()), Native: line(m.GetNative()),
			Hint: line(m.GetHint()), Detail: cleanLines(m.GetDetail(), maxDetail),
		}
		cause := line(m.GetCause())
		row, known := fault.Lookup(e.Code)
		switch {
		case !known:
			cause = fmt.Sprintf("%s (unknown code %q)", cause, e.Code)
			e.Code = fault.PeerRefused
		case cause == "" && e.Native == "":
			cause = row.Title
		}
		e.Err = &remoteCause{peer, cause}
		return e
	}
	switch s.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return nil
	}
	return &fault.Error{Code: fault.PeerRefused, Op: op, Device: peer, Err: errors.New(line(s.Message()))}
}
