package export

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

// A family is one metric of OpenMetrics: all its samples stand together.
type family struct {
	name, unit, kind, help string
	samples                []string
}

// openMetrics writes the exposition format of the OpenMetrics specification 1.0. A set of labels may stand once, so of
// several runs of one cell the newest counts.
func openMetrics(out io.Writer, runs []results.Run) error {
	families := []*family{
		{name: "hopbench_bandwidth_bytes_per_second", unit: "bytes_per_second", kind: "gauge", help: "Bandwidth by the definition in the label, median of the rounds."},
		{name: "hopbench_bandwidth_low_bytes_per_second", unit: "bytes_per_second", kind: "gauge", help: "Lower bound of the median's interval."},
		{name: "hopbench_bandwidth_high_bytes_per_second", unit: "bytes_per_second", kind: "gauge", help: "Upper bound of the median's interval."},
		{name: "hopbench_slowest_window_bytes_per_second", unit: "bytes_per_second", kind: "gauge", help: "Bandwidth of the slowest window."},
		{name: "hopbench_latency_seconds", unit: "seconds", kind: "summary", help: "Latency by the definition in the label."},
		{name: "hopbench_latency_mean_seconds", unit: "seconds", kind: "gauge", help: "Mean latency, where a tool gives no more."},
		{name: "hopbench_message_rate_per_second", unit: "", kind: "gauge", help: "Messages a second."},
		{name: "hopbench_cpu_seconds_per_gigabyte", unit: "", kind: "gauge", help: "CPU seconds for 10^9 bytes, by side."},
		{name: "hopbench_cell_ok", unit: "", kind: "gauge", help: "1 where the cell has a right figure, 0 where it failed or was waived."},
	}
	info := &family{name: "hopbench_run", kind: "info", help: "A run that figures here come from."}
	byName := map[string]*family{}
	for _, f := range families {
		byName[f.name] = f
	}

	type kept struct {
		run  *results.Run
		cell *results.Cell
	}
	newest := map[string]kept{}
	for i := range runs {
		for j := range runs[i].Cells {
			c := &runs[i].Cells[j]
			key := labels(c)
			if have, ok := newest[key]; !ok || !runs[i].Header.Started.Before(have.run.Header.Started) {
				newest[key] = kept{&runs[i], c}
			}
		}
	}
	keys := make([]string, 0, len(newest))
	for k := range newest {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		x, y := newest[a].cell, newest[b].cell
		return cmp.Or(cmp.Compare(x.Transport, y.Transport), cmp.Compare(x.Definition, y.Definition), cmp.Compare(x.TotalBytes, y.TotalBytes), cmp.Compare(a, b))
	})
	told := map[string]bool{}
	for _, key := range keys {
		k := newest[key]
		add := func(name, more string, v *float64) {
			if v == nil {
				return
			}
			f := byName[strings.TrimSuffix(name, "_count")]
			set := key
			if more != "" {
				set += "," + more
			}
			f.samples = append(f.samples, fmt.Sprintf("%s{%s} %s", name, set, strconv.FormatFloat(*v, 'g', -1, 64)))
		}
		c := k.cell
		ok := 0.0
		if c.HasFigure() {
			ok = 1
			if b := c.Bandwidth; b != nil {
				add("hopbench_bandwidth_bytes_per_second", "", &b.BytesPerSecond)
				add("hopbench_bandwidth_low_bytes_per_second", "", b.Low)
				add("hopbench_bandwidth_high_bytes_per_second", "", b.High)
				add("hopbench_slowest_window_bytes_per_second", "", b.SlowestWindowBytesPerSecond)
			}
			if l := c.Latency; l != nil {
				add("hopbench_latency_seconds", `quantile="0.5"`, l.P50Seconds)
				add("hopbench_latency_seconds", `quantile="0.9"`, l.P90Seconds)
				add("hopbench_latency_seconds", `quantile="0.99"`, l.P99Seconds)
				add("hopbench_latency_seconds", `quantile="0.999"`, l.P999Seconds)
				if n := float64(l.Samples); n > 0 {
					add("hopbench_latency_seconds_count", "", &n)
				}
				if l.P50Seconds == nil {
					add("hopbench_latency_mean_seconds", "", l.MeanSeconds)
				}
			}
			add("hopbench_message_rate_per_second", "", c.MessageRatePerSecond)
			if c.CPU != nil {
				add("hopbench_cpu_seconds_per_gigabyte", `side="initiator"`, c.CPU.InitiatorSecondsPerGigabyte)
				add("hopbench_cpu_seconds_per_gigabyte", `side="target"`, c.CPU.TargetSecondsPerGigabyte)
				add("hopbench_cpu_seconds_per_gigabyte", `side="host"`, c.CPU.HostSecondsPerGigabyte)
			}
		}
		add("hopbench_cell_ok", "", &ok)
		h := k.run.Header
		set := label("file", k.run.File) + "," + label("tool_version", h.ToolVersion) + "," + label("tool_commit", h.ToolCommit)
		if len(h.Hosts) > 0 {
			set += "," + label("host", h.Hosts[0].Hostname) + "," + label("kernel", h.Hosts[0].Kernel)
		}
		if !told[set] {
			told[set] = true
			info.samples = append(info.samples, "hopbench_run_info{"+set+"} 1")
		}
	}

	w := bufio.NewWriter(out)
	for _, f := range append(families, info) {
		if len(f.samples) == 0 {
			continue
		}
		fmt.Fprintf(w, "# TYPE %s %s\n", f.name, f.kind)
		if f.unit != "" {
			fmt.Fprintf(w, "# UNIT %s %s\n", f.name, f.unit)
		}
		fmt.Fprintf(w, "# HELP %s %s\n", f.name, f.help)
		for _, s := range f.samples {
			fmt.Fprintln(w, s)
		}
	}
	fmt.Fprintln(w, "# EOF")
	return w.Flush()
}

// labels are the identity, key by key; what is empty or zero has no label.
func labels(c *results.Cell) string {
	id := c.Identity()
	v := reflect.ValueOf(id)
	var parts []string
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		parts = append(parts, label(name, fmt.Sprint(v.Field(i).Interface())))
	}
	if c.PeerTool != "" {
		parts = append(parts, label("peer_tool", c.PeerTool))
	}
	return strings.Join(parts, ",")
}

func label(name, value string) string {
	return name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(unit.Text(value)) + `"`
}
