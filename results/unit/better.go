package unit

import "strings"

// Direction says which way a metric is better.
type Direction int

const (
	Neither Direction = iota // not known, or a description rather than a merit
	Higher
	Lower
)

// String is "higher", "lower" or "neither".
func (d Direction) String() string {
	switch d {
	case Higher:
		return "higher"
	case Lower:
		return "lower"
	}
	return "neither"
}

// Better says which way a metric or a key of a record is better. Bandwidth and rates are better
// higher; latency, CPU, losses and every other time are better lower. A metric that it does not know has no
// direction, and nothing may call one of its values better.
func Better(metric string) Direction {
	m := strings.ToLower(metric)
	if i := strings.LastIndexByte(m, '/'); i > 0 && m[i:] == "/s" {
		return Higher // a unit: GB/s, B/s
	}
	for _, r := range []struct {
		part string
		d    Direction
	}{
		{"seconds_per_gigabyte", Lower}, {"cpu", Lower}, {"latency", Lower}, {"retransmits", Lower}, {"retries", Lower},
		{"out_of_sequence", Lower}, {"ttft", Lower},
		{"bandwidth", Higher}, {"bytes_per_second", Higher}, {"bytes/sec", Higher}, {"b/sec", Higher}, {"message_rate", Higher}, {"rate.messages", Higher},
		{"rate_per_second", Higher}, {"goodput", Higher}, {"throughput", Higher},
		{"_seconds", Lower}, {"sec/op", Lower},
	} {
		if strings.Contains(m, r.part) {
			return r.d
		}
	}
	return Neither
}
