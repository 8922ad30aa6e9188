package transports

import "context"

// Pair is an ordered pair of a host's devices that a driver can move bytes between.
type Pair struct {
	Initiator, Target string // memory of each side, as a flag names it: "cuda:0"
	Path              Path   // as a row between them would have it
}

// Pairer is a driver that knows the pairs of devices of its host: all that this process sees, each in both orders. Listing them allocates and
// copies nothing. Errors are *fault.Error and say what an operator can do.
type Pairer interface {
	Driver
	Pairs(ctx context.Context) ([]Pair, error)
}
