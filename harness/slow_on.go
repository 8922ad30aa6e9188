//go:build hopbench_slow

package harness

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// steal makes every loop slower, for the regression gate's own test: a thread takes a share of the initiator's CPU while the loop runs.
// The loop itself is the product's, and the figure is measured like any other. Built only with -tags hopbench_slow.
func steal(cpus []int) func() {
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with its affinity
		if len(cpus) > 0 {
			var set unix.CPUSet
			set.Set(cpus[0])
			_ = unix.SchedSetaffinity(0, &set)
		}
		for !stop.Load() {
			for start := time.Now(); time.Since(start) < 4*time.Millisecond && !stop.Load(); {
			}
			time.Sleep(4 * time.Millisecond)
		}
	}()
	return func() {
		stop.Store(true)
		<-done
	}
}
