//go:build cgo

package cuda

import (
	"runtime"
	"testing"
)

// WithoutThreadLock takes the thread lock away until the test ends.
func WithoutThreadLock(t *testing.T) {
	lockThread, unlockThread = func() {}, func() {}
	t.Cleanup(func() { lockThread, unlockThread = runtime.LockOSThread, runtime.UnlockOSThread })
}
