package transports

import (
	"time"

	"golang.org/x/sys/unix"
)

// epoch ties Go's monotonic reading to CLOCK_MONOTONIC once, so that native loops and Go share one clock without a
// system call a reading. Both read the same clock; the offset is off by at most the time between the two lines below.
var epochGo, epochKernel = func() (time.Time, int64) {
	var ts unix.Timespec
	now := time.Now()
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return now, 0
	}
	return now, ts.Nano()
}()

// Now is CLOCK_MONOTONIC in nanoseconds: the clock of every stamp and deadline.
func Now() int64 { return epochKernel + int64(time.Since(epochGo)) }
