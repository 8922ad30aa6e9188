package cuda

import (
	"errors"

	"hopbench/transports/fault"
)

// code is the row of the table for a state and what was read beside it.
func (u *Unavailable) code() fault.Code {
	absent := fault.GPUNone
	if u.OnBus > 0 {
		absent = fault.GPUDriver
	}
	switch u.State {
	case NoLibrary:
		if u.Kernel != "" {
			return fault.GPULibrary
		}
		return absent
	case NoDevice:
		switch {
		case u.VisibleSet:
			return fault.CUDAHidden
		case u.Kernel != "":
			return fault.GPUNode
		}
		return absent
	case TooOld:
		return fault.CUDATooOld
	case FabricNotReady:
		return fault.GPUFabric
	case DriverMismatch:
		return fault.GPUMismatch
	case StubLibrary:
		return fault.CUDAStub
	}
	return fault.CUDAInit
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
		e.Code = u.code()
	case errors.Is(err, ErrStalled):
		e.Code = fault.LoopStalled
	case call != nil && call.Code == codeOutOfMemory:
		e.Code = fault.MemoryExhausted
	}
	return e
}
