package cuda

// #include "shim.h"
import "C"

import (
	"fmt"
	"runtime"
)

// Context is the primary context of one device: the one that every library in a process shares.
type Context struct {
	lib     *Library
	ordinal int
	handle  C.hb_ctx
}

// Context retains the primary context of a visible device. Close releases it.
func (l *Library) Context(ordinal int) (*Context, error) {
	c := &Context{lib: l, ordinal: ordinal}
	if err := l.check("cuDevicePrimaryCtxRetain", C.hb_cuDevicePrimaryCtxRetain(l.table, &c.handle, C.hb_device(ordinal))); err != nil {
		return nil, fmt.Errorf("device %d: %w", ordinal, err)
	}
	l.users.Add(1)
	return c, nil
}

// Ordinal is the device's.
func (c *Context) Ordinal() int { return c.ordinal }

// Library is the one that the context belongs to.
func (c *Context) Library() *Library { return c.lib }

// Close releases the context; what was allocated in it must have been freed.
func (c *Context) Close() error {
	defer c.lib.Close()
	return c.lib.check("cuDevicePrimaryCtxRelease_v2", C.hb_cuDevicePrimaryCtxRelease_v2(c.lib.table, C.hb_device(c.ordinal)))
}

// Thread is an operating-system thread on which a context is current. It is valid inside the function that
// [Context.Do] calls, on that goroutine alone.
type Thread struct {
	ctx *Context
	lib *Library
}

// Context is the one that is current.
func (th *Thread) Context() *Context { return th.ctx }

// lockThread and unlockThread are the lock that keeps a goroutine on the thread whose context was set. They are
// variables for one test, which takes the lock away to see the failure that it prevents.
var lockThread, unlockThread = runtime.LockOSThread, runtime.UnlockOSThread

// Do runs f on a locked thread with the context current, and afterwards puts back what was current before: a thread
// left with a context would hide the very mistake that the lock prevents. Calls may be nested.
func (c *Context) Do(f func(th *Thread) error) error {
	lockThread()
	defer unlockThread()
	var before C.hb_ctx
	if err := c.lib.check("cuCtxGetCurrent", C.hb_cuCtxGetCurrent(c.lib.table, &before)); err != nil {
		return err
	}
	if err := c.lib.check("cuCtxSetCurrent", C.hb_cuCtxSetCurrent(c.lib.table, c.handle)); err != nil {
		return err
	}
	defer C.hb_cuCtxSetCurrent(c.lib.table, before)
	return f(&Thread{c, c.lib})
}
