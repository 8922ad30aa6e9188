package compare

import "math"

// setOwnFloor learns a floor from the old side's own samples, dealt into two interleaved halves.
func setOwnFloor(s *series) {
	oldLogs, newLogs := split(s.points)
	s.floor = math.NaN()
	if f, ok := floor(oldLogs, len(newLogs)); ok {
		s.floor, s.floorWhy = math.Expm1(f), "the old side against itself"
	}
}
