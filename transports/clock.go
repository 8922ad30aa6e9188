package transports

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// epoch ties Go's monotonic reading to CLOCK_MONOTONIC once, so that native loops and Go share one clock without a
// system call a reading. Both read the same clock; the offset is off by at most the time between two readings, so the
// closest of several pairs is taken: a single one may be a whole time slice apart. Now is never ahead of the kernel's.
var epochGo, epochKernel = func() (best time.Time, kernel int64) {
	closest := time.Duration(math.MaxInt64)
	for range 64 {
		var before unix.Timespec
		start := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &before); err != nil {
			return start, 0
		}
		if now := time.Now(); now.Sub(start) < closest {
			closest, best, kernel = now.Sub(start), now, before.Nano()
		}
	}
	return best, kernel
}()

// Now is CLOCK_MONOTONIC in nanoseconds: the clock of every stamp and deadline.
func Now() int64 { return epochKernel + int64(time.Since(epochGo)) }
