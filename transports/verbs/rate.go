package verbs

import "fmt"

// speeds are the codes of a port's active speed: gigabits a second of one lane and the name, from ib_port_speed of
// include/rdma/ib_verbs.h.
var speeds = map[int]struct {
	gbps float64
	name string
}{1: {2.5, "SDR"}, 2: {5, "DDR"}, 4: {10, "QDR"}, 8: {10, "FDR10"}, 16: {14, "FDR"}, 32: {25, "EDR"}, 64: {50, "HDR"}, 128: {100, "NDR"}, 256: {200, "XDR"}}

// widths are the codes of a port's active width, as lanes: 16 is two lanes (HDR100).
var widths = map[int]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}

// rate decodes a port's active speed and width to bits a second; 0 for a code that is not known, which says nothing.
func rate(speed, width int) float64 { return speeds[speed].gbps * 1e9 * float64(widths[width]) }

// rateName writes a speed and a width as "2X HDR".
func rateName(speed, width int) string {
	s, ok := speeds[speed]
	if !ok || widths[width] == 0 {
		return fmt.Sprintf("unknown speed %d, width %d", speed, width)
	}
	return fmt.Sprintf("%dX %s", widths[width], s.name)
}
