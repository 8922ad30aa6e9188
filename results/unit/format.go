package unit

import (
	"math"
	"strconv"
	"strings"
)

// Digits is the number of significant digits of a printed figure.
const Digits = 3

// Bytes prints a size in IEC units and never rounds it: the largest unit that holds it in at
// most three decimals and five digits before the point without loss, else plain bytes. 65536 is "64 KiB", 1536 is "1.5 KiB",
// 37748744 is "37748744 B": sizes that miss an alignment run at another speed, so the reader must see it.
func Bytes(n int64) string {
	if n > math.MinInt64 && n < 0 {
		return "-" + Bytes(-n)
	}
	for i := len(prefixes) - 1; i >= 0; i-- {
		unit := int64(1) << (10 * (i + 1))
		if n < unit {
			continue
		}
		if whole, rest := n/unit, n%unit; rest%(unit/1024) == 0 && whole < 16384 {
			// rest is k/1024 of the unit; it has at most three decimals where k is a multiple of 128.
			if k := rest / (unit / 1024); k%128 == 0 {
				return strconv.FormatFloat(float64(whole)+float64(k)/1024, 'f', -1, 64) + " " + prefixes[i:i+1] + "iB"
			}
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}

// Number prints v with Digits significant digits and no exponent, and never rounds the digits before
// the point away: 0.00213, 5.61, 12.6, 61234. Zero is "0". NaN and infinities are "-", for a figure that
// is not known.
func Number(v float64) string { return Significant(v, Digits) }

// Significant is Number with another number of significant digits.
func Significant(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	if v == 0 {
		return "0"
	}
	// The exponent is read from the rounded figure, so that 9.996 becomes 10.0 and not 10.00.
	text := strconv.FormatFloat(v, 'e', digits-1, 64)
	exp, err := strconv.Atoi(text[strings.IndexByte(text, 'e')+1:])
	if err != nil {
		return text
	}
	return strconv.FormatFloat(v, 'f', max(0, digits-1-exp), 64)
}

// Rate prints bytes a second in decimal units: "5.61 GB/s".
func Rate(bytesPerSecond float64) string {
	return one(bytesPerSecond, rateSteps)
}

// Bits prints bytes a second as bits a second: 1e9 is "8.00 Gb/s".
func Bits(bytesPerSecond float64) string {
	return one(bytesPerSecond*8, bitSteps)
}

// Seconds prints a time: "14.2 µs", "1.50 s".
func Seconds(s float64) string {
	return one(s, timeSteps)
}

// A step is a unit and its worth in base units, the largest first.
type step struct {
	name  string
	worth float64
}

var (
	rateSteps = []step{{"TB/s", 1e12}, {"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}, {"B/s", 1}}
	bitSteps  = []step{{"Tb/s", 1e12}, {"Gb/s", 1e9}, {"Mb/s", 1e6}, {"kb/s", 1e3}, {"b/s", 1}}
	timeSteps = []step{{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}, {"ns", 1e-9}}
)

func one(v float64, steps []step) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	last := steps[len(steps)-1]
	if v == 0 {
		return "0 " + last.name
	}
	for _, s := range steps {
		// 0.9995 prints as 1.00, so it belongs to the larger unit.
		if math.Abs(v)/s.worth >= 0.9995 {
			return Number(v/s.worth) + " " + s.name
		}
	}
	return Number(v/last.worth) + " " + last.name
}

// Scale is one unit for a whole column, so that its figures can be compared by eye.
type Scale struct {
	Unit  string  // for the column's header
	Worth float64 // base units (bytes a second, or seconds) in one Unit
}

// Format prints a figure of the column, in base units, without the unit.
func (s Scale) Format(v float64) string { return Number(v / s.Worth) }

// RateScale is the scale of a column of bytes a second: GB/s, or a smaller unit where even the
// largest value is under 0.1 of it.
func RateScale(values []float64) Scale {
	largest := 0.0
	for _, v := range values {
		if finite(v) {
			largest = max(largest, math.Abs(v))
		}
	}
	for _, s := range rateSteps[1:] { // nobody reads TB/s
		if largest == 0 || largest >= 0.1*s.worth {
			return Scale{s.name, s.worth}
		}
	}
	return Scale{"B/s", 1}
}

// TimeScale is the scale of a column of seconds: µs, as latencies are read, or ms or s where even the least
// value is 1 of it, or ns where even the largest is under 1 µs.
func TimeScale(values []float64) Scale {
	least, largest := math.Inf(1), 0.0
	for _, v := range values {
		if finite(v) && v != 0 {
			least, largest = min(least, math.Abs(v)), max(largest, math.Abs(v))
		}
	}
	for _, s := range timeSteps[:2] {
		if largest > 0 && least >= 0.9995*s.worth {
			return Scale{s.name, s.worth}
		}
	}
	if largest > 0 && largest < 0.9995e-6 {
		return Scale{"ns", 1e-9}
	}
	return Scale{"µs", 1e-6}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
