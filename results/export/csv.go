package export

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"hopbench/results"
	"hopbench/results/unit"
)

type column struct {
	name string
	get  func(r *results.Run, c *results.Cell) string
}

func number(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

func list(v []float64) string {
	parts := make([]string, len(v))
	for i := range v {
		parts[i] = number(&v[i])
	}
	return strings.Join(parts, ";")
}

func text(f func(c *results.Cell) string) func(*results.Run, *results.Cell) string {
	return func(_ *results.Run, c *results.Cell) string { return cellText(f(c)) }
}

func whole(f func(c *results.Cell) int64) func(*results.Run, *results.Cell) string {
	return func(_ *results.Run, c *results.Cell) string { return strconv.FormatInt(f(c), 10) }
}

func band(f func(b *results.Bandwidth) string) func(*results.Run, *results.Cell) string {
	return func(_ *results.Run, c *results.Cell) string {
		if c.Bandwidth == nil || !c.HasFigure() {
			return ""
		}
		return f(c.Bandwidth)
	}
}

func late(f func(l *results.Latency) string) func(*results.Run, *results.Cell) string {
	return func(_ *results.Run, c *results.Cell) string {
		if c.Latency == nil || !c.HasFigure() {
			return ""
		}
		return f(c.Latency)
	}
}

func processor(f func(p *results.CPU) *float64) func(*results.Run, *results.Cell) string {
	return func(_ *results.Run, c *results.Cell) string {
		if c.CPU == nil || !c.HasFigure() {
			return ""
		}
		return number(f(c.CPU))
	}
}

var csvColumns = []column{
	{"file", func(r *results.Run, _ *results.Cell) string { return cellText(r.File) }},
	{"started", func(r *results.Run, _ *results.Cell) string { return r.Header.Started.UTC().Format(time.RFC3339) }},
	{"tool_version", func(r *results.Run, _ *results.Cell) string { return cellText(r.Header.ToolVersion) }},
	{"peer_tool", text(func(c *results.Cell) string { return c.PeerTool })},
	{"provenance", func(r *results.Run, c *results.Cell) string {
		for _, p := range []string{c.Provenance, r.Header.Provenance} {
			if p != "" {
				return cellText(p)
			}
		}
		return results.Measured
	}},
	{"transport", text(func(c *results.Cell) string { return c.Transport })},
	{"label", text(func(c *results.Cell) string { return c.Label })},
	{"realm", text(func(c *results.Cell) string { return c.Realm })},
	{"definition", text(func(c *results.Cell) string { return c.Definition })},
	{"operation", text(func(c *results.Cell) string { return c.Operation })},
	{"direction", text(func(c *results.Cell) string { return c.Direction })},
	{"piece_bytes", whole(func(c *results.Cell) int64 { return c.PieceBytes })},
	{"total_bytes", whole(func(c *results.Cell) int64 { return c.TotalBytes })},
	{"descriptors", whole(func(c *results.Cell) int64 { return c.Descriptors })},
	{"pattern", text(func(c *results.Cell) string { return c.Pattern })},
	{"depth", whole(func(c *results.Cell) int64 { return c.Depth })},
	{"streams", whole(func(c *results.Cell) int64 { return c.Streams })},
	{"concurrency", whole(func(c *results.Cell) int64 { return c.Concurrency })},
	{"initiator_memory", text(func(c *results.Cell) string { return c.InitiatorMemory })},
	{"target_memory", text(func(c *results.Cell) string { return c.TargetMemory })},
	{"initiator_gpu_way", text(func(c *results.Cell) string { return c.InitiatorGPUWay })},
	{"target_gpu_way", text(func(c *results.Cell) string { return c.TargetGPUWay })},
	{"wait", text(func(c *results.Cell) string { return c.Wait })},
	{"rail", text(func(c *results.Cell) string { return c.Rail })},
	{"initiator_host", text(func(c *results.Cell) string { return c.InitiatorHost })},
	{"target_host", text(func(c *results.Cell) string { return c.TargetHost })},
	{"schedule", text(func(c *results.Cell) string { return c.Schedule })},
	{"status", text(func(c *results.Cell) string { return c.Status })},
	{"reason", text(func(c *results.Cell) string { return c.Reason })},
	{"bytes_per_second", band(func(b *results.Bandwidth) string { return number(&b.BytesPerSecond) })},
	{"bytes_per_second_low", band(func(b *results.Bandwidth) string { return number(b.Low) })},
	{"bytes_per_second_high", band(func(b *results.Bandwidth) string { return number(b.High) })},
	{"slowest_window_bytes_per_second", band(func(b *results.Bandwidth) string { return number(b.SlowestWindowBytesPerSecond) })},
	{"rounds_bytes_per_second", band(func(b *results.Bandwidth) string { return list(b.Rounds) })},
	{"min_seconds", late(func(l *results.Latency) string { return number(l.MinSeconds) })},
	{"mean_seconds", late(func(l *results.Latency) string { return number(l.MeanSeconds) })},
	{"p50_seconds", late(func(l *results.Latency) string { return number(l.P50Seconds) })},
	{"p90_seconds", late(func(l *results.Latency) string { return number(l.P90Seconds) })},
	{"p99_seconds", late(func(l *results.Latency) string { return number(l.P99Seconds) })},
	{"p999_seconds", late(func(l *results.Latency) string { return number(l.P999Seconds) })},
	{"max_seconds", late(func(l *results.Latency) string { return number(l.MaxSeconds) })},
	{"rounds_p50_seconds", late(func(l *results.Latency) string { return list(l.RoundsP50Seconds) })},
	{"message_rate_per_second", func(_ *results.Run, c *results.Cell) string {
		if !c.HasFigure() {
			return ""
		}
		return number(c.MessageRatePerSecond)
	}},
	{"cpu_initiator_seconds_per_gigabyte", processor(func(p *results.CPU) *float64 { return p.InitiatorSecondsPerGigabyte })},
	{"cpu_target_seconds_per_gigabyte", processor(func(p *results.CPU) *float64 { return p.TargetSecondsPerGigabyte })},
	{"cpu_host_seconds_per_gigabyte", processor(func(p *results.CPU) *float64 { return p.HostSecondsPerGigabyte })},
	{"warnings", text(func(c *results.Cell) string { return strings.Join(c.Warnings, "; ") })},
}

// cellText keeps the text of a file from being a formula where a spreadsheet opens the CSV.
func cellText(s string) string {
	s = unit.Text(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}

func writeCSV(out io.Writer, runs []results.Run) error {
	w := csv.NewWriter(out)
	row := make([]string, len(csvColumns))
	for i, c := range csvColumns {
		row[i] = c.name
	}
	if err := w.Write(row); err != nil {
		return err
	}
	for i := range runs {
		for j := range runs[i].Cells {
			for k, c := range csvColumns {
				row[k] = c.get(&runs[i], &runs[i].Cells[j])
			}
			if err := w.Write(row); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}
