package cuda

import (
	"errors"

	"hopbench/transports/fault"
)

var stateCodes = map[State]fault.Code{
	NoLibrary: fault.CUDANoLibrary, TooOld: fault.CUDATooOld, NoDevice: fault.CUDANoDevice, FabricNotReady: fault.CUDAFabric,
	DriverMismatch: fault.CUDAMismatch, StubLibrary: fault.CUDAStub, InitFailed: fault.CUDAInit,
}

// Fault gives an error of this package its row of the fault table, with what was attempted and on which device. An error
// that is one already, and nil, come back as they are.
func Fault(err error, op, device string) error {
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := &fault.Error{Code: fault.CUDACall, Op: op, Device: device, Err: err}
	var u *Unavailable
	var call *Error
	if errors.As(err, &call) {
		e.Native = call.Native()
	}
	switch {
	case errors.As(err, &u):
		e.Code = stateCodes[u.State]
	case errors.Is(err, ErrStalled):
		e.Code = fault.LoopStalled
	case call != nil && call.Code == codeOutOfMemory:
		e.Code = fault.MemoryExhausted
	}
	return e
}
