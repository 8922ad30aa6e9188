package cuda

// #include "shim.h"
import "C"

import "errors"

// EnablePeer lets the current context's device reach the memory of another's directly. It is no error that this was
// done before: a process may hold many transports and the switch is one for all of them.
func (th *Thread) EnablePeer(other *Context) error {
	err := th.lib.check("cuCtxEnablePeerAccess", C.hb_cuCtxEnablePeerAccess(th.lib.table, other.handle, 0))
	var e *Error
	if errors.As(err, &e) && e.Code == codePeerAlready {
		return nil
	}
	return err
}

// DisablePeer ends it, for the whole process.
func (th *Thread) DisablePeer(other *Context) error {
	return th.lib.check("cuCtxDisablePeerAccess", C.hb_cuCtxDisablePeerAccess(th.lib.table, other.handle))
}
