package plots

import (
	"fmt"
	"math"
	"strconv"

	"hopbench/results/unit"
)

// tick is a mark of an axis; without a label it is a minor one. The label of a filler is good to have where there is room.
type tick struct {
	at    float64
	label string
	fill  bool
}

// scale maps values of an axis to 0..1.
type scale struct {
	min, max float64
	log      bool
	curve    func(float64) float64 // in place of a straight or a logarithmic axis
	ticks    []tick
}

func (s scale) part(v float64) float64 {
	if s.curve != nil {
		return (s.curve(v) - s.curve(s.min)) / (s.curve(s.max) - s.curve(s.min))
	}
	if s.log {
		// Not the logarithm of a ratio, which overflows where the range is wide.
		return (math.Log(v) - math.Log(s.min)) / (math.Log(s.max) - math.Log(s.min))
	}
	return (v - s.min) / (s.max - s.min)
}

// clamped is part, kept within the axis: a back end takes minutes, or fails, over a point that is far off.
func (s scale) clamped(v float64) float64 {
	part := s.part(v)
	if !(part > 0) { // NaN too
		return 0
	}
	return math.Min(part, 1)
}

// shows reports whether the axis can show the value at all.
func (s scale) shows(v float64) bool { return finite(v) && (!s.log || v > 0) }

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// span is the least and the greatest of the values that a logarithmic axis can show.
func span(values []float64, positive bool) (lo, hi float64, ok bool) {
	for _, v := range values {
		if !finite(v) || positive && v <= 0 {
			continue
		}
		if !ok {
			lo, hi, ok = v, v, true
			continue
		}
		lo, hi = math.Min(lo, v), math.Max(hi, v)
	}
	return lo, hi, ok
}

// byteScale is a logarithmic axis of bytes: a tick at each power of two, labelled in IEC units at every step of the exponent that leaves
// no more than most labels, and at both ends, also where a size there is no power of two. A single size gets a factor of two on both sides.
func byteScale(values []float64, most int) scale {
	lo, hi, ok := span(values, true)
	if !ok {
		lo, hi = 1, 2
	}
	s := scale{min: lo, max: hi, log: true}
	if hi < lo*2 {
		s.min, s.max = math.Exp2(math.Floor(math.Log2(lo))-1), math.Exp2(math.Ceil(math.Log2(hi))+1)
	}
	first, last := int(math.Ceil(math.Log2(s.min)-1e-9)), int(math.Floor(math.Log2(s.max)+1e-9))
	step := evenStep(last-first, max(most, 2))
	if at := math.Exp2(float64(first)); !near(at, s.min) {
		s.ticks = append(s.ticks, tick{at: s.min, label: bytesLabel(s.min)})
	}
	for e := first; e <= last; e++ {
		t := tick{at: math.Exp2(float64(e))}
		switch {
		case near(t.at, s.min) || near(t.at, s.max):
			t.label = bytesLabel(t.at)
		case (e-first)%step == 0:
			t.label = bytesLabel(t.at)
		}
		s.ticks = append(s.ticks, t)
	}
	if at := math.Exp2(float64(last)); !near(at, s.max) {
		s.ticks = append(s.ticks, tick{at: s.max, label: bytesLabel(s.max)})
	}
	return s
}

// evenStep is the step over n intervals that leaves no more than most labels: the least that divides n, so that the last tick has a label
// as far from its neighbour as the others; where that is more than twice the least that there is room for, the latter.
func evenStep(n, most int) int {
	least := 1
	for n/least+1 > most {
		least++
	}
	for step := least; step <= 2*least && step <= n; step++ {
		if n%step == 0 {
			return step
		}
	}
	return least
}

func bytesLabel(v float64) string {
	if v < 1 || v >= math.Exp2(62) {
		return strconv.FormatFloat(v, 'g', 3, 64) + " B"
	}
	return unit.Bytes(int64(v))
}

// decadeScale is a logarithmic axis with ticks at 1 to 9 times each power of ten. The powers are labelled; where the range has
// fewer than two of them, it is widened to have two, and 2 and 5 are labelled too where fewer than three are seen.
func decadeScale(values []float64, label func(float64) string) scale {
	lo, hi, ok := span(values, true)
	if !ok {
		lo, hi = 1, 10
	}
	lo, hi = math.Max(lo, 1e-300), math.Min(hi, 1e300)
	hi = math.Max(lo, hi)
	s := scale{min: roundDown(lo * 0.97), max: roundUp(hi * 1.03), log: true}
	if s.max/s.min < 10 {
		s.min = math.Min(s.min, pow10(math.Floor(math.Log10(lo)+1e-9)))
		s.max = math.Max(s.max, pow10(math.Ceil(math.Log10(hi)-1e-9)))
		if s.max/s.min < 9.99 {
			s.max = s.min * 10
		}
	}
	first, last := int(math.Floor(math.Log10(s.min)+1e-9)), int(math.Floor(math.Log10(s.max)+1e-9))
	powers := last - int(math.Ceil(math.Log10(s.min)-1e-9)) + 1
	step := 1
	for powers/step > 9 {
		step++
	}
	for e := first; e <= last; e++ {
		for i := 1; i < 10; i++ {
			v := pow10(float64(e)) * float64(i)
			if v < s.min*(1-1e-9) || v > s.max*(1+1e-9) {
				continue
			}
			t := tick{at: v}
			end := near(v, s.min) || near(v, s.max)
			switch {
			case i == 1 && ((e%step)+step)%step == 0, powers < 3 && (i == 2 || i == 5):
				t.label = label(v)
			case end:
				t.label, t.fill = label(v), true
			case powers > 12:
				continue
			}
			s.ticks = append(s.ticks, t)
		}
	}
	return s
}

func pow10(e float64) float64 { return math.Pow(10, e) }

// roundDown and roundUp go to the nearest of 1, 2, 5 times a power of ten.
func roundDown(v float64) float64 {
	d := pow10(math.Floor(math.Log10(v)))
	for _, m := range []float64{5, 2} {
		if m*d <= v*(1+1e-9) {
			return m * d
		}
	}
	return d
}

func roundUp(v float64) float64 {
	d := pow10(math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*d >= v*(1-1e-9) {
			return m * d
		}
	}
	return 10 * d
}

// linearScale is an axis that holds the values, and 0 where zero is set, with ticks at round numbers.
func linearScale(values []float64, zero bool, most int, label func(float64) string) scale {
	lo, hi, ok := span(values, false)
	if !ok {
		lo, hi = 0, 1
	}
	lo, hi = math.Max(lo, -1e300), math.Min(hi, 1e300)
	if zero {
		lo, hi = math.Min(lo, 0), math.Max(hi, 0)
	}
	if !(hi > lo) {
		pad := math.Abs(lo) / 2
		if pad == 0 {
			pad = 1
		}
		lo, hi = lo-pad, hi+pad
		if zero {
			lo = math.Min(0, lo)
		}
	}
	step := roundUp((hi - lo) / float64(max(most, 2)))
	s := scale{min: math.Floor(lo/step+1e-9) * step, max: math.Ceil(hi/step-1e-9) * step}
	for i := 0; ; i++ {
		v := s.min + float64(i)*step
		if v > s.max+step/2 || i > 100 {
			break
		}
		if math.Abs(v) < step/1e6 {
			v = 0
		}
		s.ticks = append(s.ticks, tick{at: v, label: label(v)})
	}
	return s
}

// rateTick and timeTick print round values with their unit: "10 GB/s", "500 ns".
func rateTick(v float64) string {
	return prefixed(v, "B/s", []string{"", "k", "M", "G", "T", "P"}, 0)
}

func timeTick(v float64) string {
	if v >= 1 {
		return plain(v) + " s"
	}
	return prefixed(v, "s", []string{"p", "n", "µ", "m", ""}, -12)
}

func prefixed(v float64, base string, prefixes []string, first int) string {
	if v == 0 {
		return "0"
	}
	i := 0
	for i < len(prefixes)-1 && math.Abs(v) >= pow10(float64(first+3*(i+1)))*(1-1e-9) {
		i++
	}
	return plain(v/pow10(float64(first+3*i))) + " " + prefixes[i] + base
}

// plain prints a round number without noise of its binary form.
func plain(v float64) string {
	if v != 0 && (math.Abs(v) >= 1e6 || math.Abs(v) < 1e-6) {
		return fmt.Sprintf("%.3g", v)
	}
	f, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil {
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}
