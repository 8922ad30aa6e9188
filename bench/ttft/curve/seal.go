package curve

import "slices"

// seal turns the gathered points into tables and lists their keys.
func (f *family) seal() {
	for p, t := range f.by {
		f.parallel = append(f.parallel, p)
		t.mid, t.low, t.high = newGrid(t.points[0]), newGrid(t.points[1]), newGrid(t.points[2])
	}
	slices.Sort(f.parallel)
}

// at is the value at a size and count with its bounds, whether it was measured
// just there, and what of the place was not measured at all.
func (t *tables) at(size, count float64) (mid, low, high float64, exact bool, outside string) {
	mid, exact, outside = t.mid.at(size, count, "descriptors")
	low, _, _ = t.low.at(size, count, "descriptors")
	high, _, _ = t.high.at(size, count, "descriptors")
	return mid, low, high, exact, outside
}
