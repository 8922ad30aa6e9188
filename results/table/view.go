package table

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

const (
	mebibyte = 1 << 20
	// copies is the number of copies of one of nvbandwidth's samples, and samples the number of samples that it
	// takes the median of (its defaults, v0.8).
	copies, samples = 16, 3
)

// byPath sorts the cells of a view for reading: by path, then definition and operation, then size.
func byPath(items []item) []item {
	out := slices.Clone(items)
	slices.SortStableFunc(out, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.Label, b.Label), cmp.Compare(a.file, b.file), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.TotalBytes, b.TotalBytes))
	})
	return out
}

// leftOut says beneath a view's table which cells have no row and why, the count of each reason once.
func leftOut(t *Table, reasons map[string]int) {
	for _, r := range slices.Sorted(maps.Keys(reasons)) {
		t.Below = append(t.Below, fmt.Sprintf("left out: %d cells: %s", reasons[r], r))
	}
}

// perftestTables recomputes cells by the definitions of linux-rdma/perftest, whose programs time verbs alone:
// average bandwidth over all iterations to local completions in MiB/s, latency with its two largest samples
// dropped and its percentiles one rank above the nearest (src/perftest_resources.c).
func perftestTables(items []item) []*Table {
	bw := &Table{Title: "Bandwidth as perftest defines it (ib_write_bw, ib_read_bw, ib_send_bw)", Columns: []Column{
		{Head: "path"}, {Head: "operation"}, {Head: "#bytes", Align: Right}, {Head: "#iterations", Align: Right}, {Head: "BW peak[MiB/sec]", Align: Right},
		{Head: "BW average[MiB/sec]", Align: Decimal}, {Head: "MsgRate[Mpps]", Align: Decimal}}}
	lat := &Table{Title: "Latency as perftest defines it (ib_write_lat, ib_read_lat, ib_send_lat)", Columns: []Column{
		{Head: "path"}, {Head: "operation"}, {Head: "#bytes", Align: Right}, {Head: "#iterations", Align: Right}}}
	for _, head := range []string{"t_min", "t_max", "t_typical", "t_avg", "t_stdev", "99%", "99.9%"} {
		lat.Columns = append(lat.Columns, Column{Group: head, Head: "[usec]", Align: Decimal})
	}
	out := map[*Table]map[string]int{bw: {}, lat: {}}
	for _, c := range byPath(items) {
		t := bw
		if c.Metric() == "latency" {
			t = lat
		}
		if c.Status == results.StatusWaived {
			continue
		}
		var row []Cell
		var reason string
		if t == bw {
			row, reason = perftestBandwidth(c)
		} else {
			row, reason = perftestLatency(c)
		}
		if reason != "" {
			out[t][reason]++
			continue
		}
		name := c.Label
		if c.file != "" {
			name = c.file + ": " + name
		}
		t.Rows = append(t.Rows, append([]Cell{{Text: name}, {Text: c.Operation}, {Text: whole(c.TotalBytes)}}, row...))
	}
	bw.Below = []string{"BW peak is blank: perftest takes it from the time of each post, and posts are not stamped here."}
	lat.Below = []string{"The samples of all rounds stand together; perftest takes one run. Its t_max is the second largest sample, its stdev cuts each deviation to whole microseconds."}
	var tables []*Table
	for _, t := range []*Table{bw, lat} {
		leftOut(t, out[t])
		if len(t.Rows)+len(out[t]) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

// verbs tells why a cell has no counterpart in perftest at all, "" where it has.
func verbs(c item) string {
	switch {
	case c.Transport != "infiniband" && c.Transport != "roce":
		return c.Transport + " is not verbs, and perftest times nothing else"
	case c.PeerTool != "":
		return "measured by " + c.PeerTool + ", not from our samples"
	case !c.HasFigure():
		return "no figure: " + c.Status
	case c.Direction == "both":
		return "both ways at once: perftest's -b adds two runs that start apart"
	case c.Descriptors > 1:
		return "lists of pieces: perftest's messages are of one piece"
	case strings.Contains(gpuWay(c), "staged"):
		return "staged through host memory: perftest does not stage"
	}
	return ""
}

func perftestBandwidth(c item) (row []Cell, reason string) {
	if reason := verbs(c); reason != "" {
		return nil, reason
	}
	b := c.Bandwidth
	switch {
	case c.Definition != "bandwidth.confirmed":
		return nil, c.Definition + " is not to local completions"
	case b == nil || len(b.RoundsSeconds) == 0 || len(b.RoundsOperations) != len(b.RoundsSeconds):
		return nil, "the record has no time and count of each round"
	}
	var operations int64
	var seconds float64
	for i, s := range b.RoundsSeconds {
		operations += b.RoundsOperations[i]
		seconds += s
	}
	if !(seconds > 0) || operations == 0 {
		return nil, "the rounds are empty"
	}
	rate := float64(operations) / seconds
	return []Cell{{Text: whole(operations)}, {Text: ""}, {Text: fixed(rate * float64(c.TotalBytes) / mebibyte)}, {Text: fixed(rate / 1e6)}}, ""
}

func perftestLatency(c item) (row []Cell, reason string) {
	if reason := verbs(c); reason != "" {
		return nil, reason
	}
	l := c.Latency
	want := "latency.half_rtt"
	if c.Operation == "read" {
		want = "latency.completion"
	}
	switch {
	case c.Definition != want:
		return nil, fmt.Sprintf("%s of a %s: perftest times it as %s", c.Definition, c.Operation, want)
	case l == nil:
		return nil, "the record has no latency"
	}
	h, err := l.Histogram()
	if err != nil {
		return nil, err.Error()
	}
	n := h.Count()
	const tail = 2 // LAT_MEASURE_TAIL
	m := n - tail
	if m < 1 || int64(len(l.LargestSeconds)) < min(n, tail) {
		return nil, fmt.Sprintf("%d samples: perftest drops two", n)
	}
	// The largest samples stand exactly in the record, the others in the histogram.
	at := func(zeroBased int64) float64 {
		if i := n - 1 - zeroBased; i >= 0 && i < int64(len(l.LargestSeconds)) {
			return l.LargestSeconds[i]
		}
		v, _ := h.Rank(zeroBased + 1)
		if zeroBased == 0 && l.MinSeconds != nil {
			v = *l.MinSeconds
		}
		return v
	}
	typical := at(m / 2)
	if m%2 == 0 {
		typical = (at(m/2) + at(m/2-1)) / 2
	}
	mean, _ := h.Mean()
	if l.MeanSeconds != nil {
		mean = *l.MeanSeconds
	}
	average := (mean*float64(n) - l.LargestSeconds[0] - l.LargestSeconds[1]) / float64(m)
	var squares float64
	seen := int64(0)
	for _, bar := range h.Bars() {
		count := min(bar.Count, m-seen)
		seen += count
		d := math.Trunc((average - (bar.From+bar.To)/2) * 1e6)
		squares += float64(count) * d * d
	}
	microseconds := func(v float64) Cell { return Cell{Text: fixed(v * 1e6)} }
	percentile := func(q float64, need int64) Cell {
		if n < need {
			return Cell{Text: ""}
		}
		return microseconds(at(int64(math.Ceil(q * float64(m)))))
	}
	return []Cell{{Text: whole(n)}, microseconds(at(0)), microseconds(at(m)), microseconds(typical), microseconds(average),
		{Text: fixed(math.Sqrt(squares / float64(m)))}, percentile(0.99, 100), percentile(0.999, 1000)}, ""
}

// fixed prints as the other tools do, with two decimals, or with significant digits where those would be lost.
func fixed(v float64) string {
	if v != 0 && v < 1 {
		return unit.Number(v)
	}
	return fmt.Sprintf("%.2f", v)
}

// nvbandwidthTables recomputes cells of GPU copies by nvbandwidth's definition: the median of three samples of 16
// copies, each timed by the stream's events and cut to whole microseconds, in 10^9 bytes a second (v0.8, memcpy.cpp).
func nvbandwidthTables(items []item) []*Table {
	t := &Table{Title: "Bandwidth as nvbandwidth defines it (device_to_device_memcpy, copy engine)", Columns: []Column{
		{Head: "path"}, {Head: "operation"}, {Head: "direction"}, {Head: "size", Align: Right}, {Head: "GB/s", Align: Decimal}}}
	reasons := map[string]int{}
	for _, c := range byPath(items) {
		if c.Status == results.StatusWaived {
			continue
		}
		v, reason := nvbandwidth(c)
		if reason != "" {
			reasons[reason]++
			continue
		}
		name := c.Label
		if c.file != "" {
			name = c.file + ": " + name
		}
		t.Rows = append(t.Rows, []Cell{{Text: name}, {Text: c.Operation}, {Text: c.Direction}, {Text: size(c.TotalBytes)}, {Text: fixed(v / 1e9)}})
	}
	if len(t.Rows) > 0 {
		t.Below = []string{"The first three rounds stand for nvbandwidth's three samples."}
	}
	leftOut(t, reasons)
	if len(t.Rows)+len(reasons) == 0 {
		return nil
	}
	return []*Table{t}
}

func nvbandwidth(c item) (bytesPerSecond float64, reason string) {
	b := c.Bandwidth
	switch {
	case c.Transport != "cuda-peer":
		return 0, c.Transport + " is no copy between GPUs"
	case c.PeerTool != "":
		return 0, "measured by " + c.PeerTool + ", not from our samples"
	case !c.HasFigure():
		return 0, "no figure: " + c.Status
	case b == nil:
		return 0, c.Definition + " is no bandwidth"
	case c.Direction == "both":
		return 0, "both ways at once: nvbandwidth times each way by its own events"
	case c.Descriptors > 1:
		return 0, "lists of pieces: nvbandwidth copies one block"
	case len(b.RoundsSeconds) < samples || len(b.RoundsOperations) != len(b.RoundsSeconds):
		return 0, fmt.Sprintf("fewer than %d rounds with their time and count", samples)
	}
	var rates []float64
	for i := range samples {
		if b.RoundsOperations[i] != copies {
			return 0, fmt.Sprintf("rounds of other than %d copies (--iterations %d measures them)", copies, copies)
		}
		elapsed := math.Floor(b.RoundsSeconds[i] * 1e6)
		if elapsed < 1 {
			return 0, "a sample under a microsecond"
		}
		rates = append(rates, float64(c.TotalBytes)*copies/(elapsed*1e-6))
	}
	slices.Sort(rates)
	return rates[samples/2], ""
}
