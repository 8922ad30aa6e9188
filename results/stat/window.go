package stat

import (
	"math"
	"slices"
)

const (
	// WindowSeconds and WindowCompletions are the least length of a window: it is the longer of the two.
	WindowSeconds     = 0.010
	WindowCompletions = 16
)

// Window is a stretch of a round.
type Window struct {
	BytesPerSecond float64
	Start, Seconds float64 // seconds: from the clock's zero, and its length
}

// SlowestWindow finds the stretch with the least bandwidth in one round. Start is the time of the first
// post and stamps the times of the confirmations that were stamped, all on one clock in seconds, in any order.
// Each stamp stands for bytes of payload and for every completions. A window begins at start or
// at a stamp, ends at a stamp, holds at least 16 completions and lasts at least 10 ms; a shorter round has none,
// and ok is false. The time is n log n for unsorted stamps, n for sorted ones.
func SlowestWindow(start float64, stamps []float64, bytes float64, every int) (slowest Window, ok bool) {
	return extreme(start, stamps, bytes, every, func(a, b float64) bool { return a < b })
}

// FastestWindow finds the stretch with the most bandwidth, by the same rule.
func FastestWindow(start float64, stamps []float64, bytes float64, every int) (fastest Window, ok bool) {
	return extreme(start, stamps, bytes, every, func(a, b float64) bool { return a > b })
}

func extreme(start float64, stamps []float64, bytes float64, every int, worse func(a, b float64) bool) (found Window, ok bool) {
	if every < 1 || !(bytes > 0) || math.IsInf(bytes, 0) || check(stamps) != nil || math.IsNaN(start) || math.IsInf(start, 0) {
		return Window{}, false
	}
	if !slices.IsSorted(stamps) {
		stamps = slices.Sorted(slices.Values(stamps))
	}
	if start > stamps[0] {
		return Window{}, false // a confirmation before the first post: not one clock
	}
	least := (WindowCompletions + every - 1) / every // stamps that a window holds
	at := func(i int) float64 {                      // point 0 is start, point i the i-th stamp
		if i == 0 {
			return start
		}
		return stamps[i-1]
	}
	from := 0
	for to := least; to <= len(stamps); to++ {
		// The shortest window that ends here: the latest beginning that is both far enough and early enough.
		for from+1+least <= to && at(to)-at(from+1) >= WindowSeconds {
			from++
		}
		length := at(to) - at(from)
		if length < WindowSeconds || length <= 0 {
			continue
		}
		rate := float64(to-from) * bytes / length
		if !ok || worse(rate, found.BytesPerSecond) {
			found, ok = Window{rate, at(from), length}, true
		}
	}
	return found, ok
}
