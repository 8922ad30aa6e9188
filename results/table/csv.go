package table

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

// A csvColumn is one column of the flat table: its head with the unit, and the value of a cell.
type csvColumn struct {
	head string
	get  func(c item) string
}

const (
	giga  = 1e9
	micro = 1e-6
)

func scaled(v *float64, worth float64) string {
	if v == nil {
		return ""
	}
	return unit.Number(*v / worth)
}

func bandwidth(get func(b *results.Bandwidth) *float64) func(c item) string {
	return func(c item) string {
		if c.Bandwidth == nil || !c.HasFigure() {
			return ""
		}
		return scaled(get(c.Bandwidth), giga)
	}
}

func latency(get func(l *results.Latency) *float64) func(c item) string {
	return func(c item) string {
		if c.Latency == nil || !c.HasFigure() {
			return ""
		}
		return scaled(get(c.Latency), micro)
	}
}

func whole(n int64) string { return strconv.FormatInt(n, 10) }

// csvColumns are the columns of the flat table: always these, in this order, whatever was measured.
var csvColumns = []csvColumn{
	{"file", func(c item) string { return c.run.File }},
	{"transport", func(c item) string { return c.Transport }},
	{"path", func(c item) string { return c.Label }},
	{"realm", func(c item) string { return c.Realm }},
	{"provenance", func(c item) string {
		if c.Provenance == "" {
			return results.Measured
		}
		return c.Provenance
	}},
	{"tool", func(c item) string {
		if c.PeerTool == "" {
			return "hopbench"
		}
		return c.PeerTool
	}},
	{"definition", func(c item) string { return c.Definition }},
	{"operation", func(c item) string { return c.Operation }},
	{"direction", func(c item) string { return c.Direction }},
	{"size bytes", func(c item) string { return whole(c.TotalBytes) }},
	{"size", func(c item) string {
		if c.TotalBytes == 0 { // waived as a whole, or another tool's that does not say
			return ""
		}
		return size(c.TotalBytes)
	}},
	{"pieces", func(c item) string { return whole(c.Descriptors) }},
	{"piece bytes", func(c item) string { return whole(c.PieceBytes) }},
	{"pattern", func(c item) string { return c.Pattern }},
	{"depth", func(c item) string { return whole(c.Depth) }},
	{"streams", func(c item) string { return whole(c.Streams) }},
	{"concurrency", func(c item) string { return whole(c.Concurrency) }},
	{"initiator memory", func(c item) string { return c.InitiatorMemory }},
	{"target memory", func(c item) string { return c.TargetMemory }},
	{"initiator gpu way", func(c item) string { return c.InitiatorGPUWay }},
	{"target gpu way", func(c item) string { return c.TargetGPUWay }},
	{"wait", func(c item) string { return c.Wait }},
	{"rail", func(c item) string { return c.Rail }},
	{"initiator host", func(c item) string { return c.InitiatorHost }},
	{"target host", func(c item) string { return c.TargetHost }},
	{"status", func(c item) string { return c.Status }},
	{"GB/s", bandwidth(func(b *results.Bandwidth) *float64 { return &b.BytesPerSecond })},
	{"low GB/s", bandwidth(func(b *results.Bandwidth) *float64 { return b.Low })},
	{"high GB/s", bandwidth(func(b *results.Bandwidth) *float64 { return b.High })},
	{"slowest window GB/s", bandwidth(func(b *results.Bandwidth) *float64 { return b.SlowestWindowBytesPerSecond })},
	{"min µs", latency(func(l *results.Latency) *float64 { return l.MinSeconds })},
	{"p50 µs", latency(func(l *results.Latency) *float64 { return l.P50Seconds })},
	{"p90 µs", latency(func(l *results.Latency) *float64 { return l.P90Seconds })},
	{"p99 µs", latency(func(l *results.Latency) *float64 { return l.P99Seconds })},
	{"p99.9 µs", latency(func(l *results.Latency) *float64 { return l.P999Seconds })},
	{"max µs", latency(func(l *results.Latency) *float64 { return l.MaxSeconds })},
	{"messages/s", func(c item) string {
		if !c.HasFigure() {
			return ""
		}
		return scaled(c.MessageRatePerSecond, 1)
	}},
	{"initiator CPU s/GB", func(c item) string {
		if c.CPU == nil {
			return ""
		}
		return scaled(c.CPU.InitiatorSecondsPerGigabyte, 1)
	}},
	{"target CPU s/GB", func(c item) string {
		if c.CPU == nil {
			return ""
		}
		return scaled(c.CPU.TargetSecondsPerGigabyte, 1)
	}},
	{"converged", func(c item) string {
		if c.Converged == nil {
			return ""
		}
		return strconv.FormatBool(*c.Converged)
	}},
	{"reason", func(c item) string { return c.Reason }},
	{"code", func(c item) string { return c.Code }},
	{"warnings", func(c item) string { return strings.Join(c.Warnings, "; ") }},
}

// writeCSV is the flat table: one record a cell, in the order of the files, waived and failed ones too.
func writeCSV(out io.Writer, items []item) error {
	w := csv.NewWriter(out)
	row := make([]string, len(csvColumns))
	for i, c := range csvColumns {
		row[i] = c.head
	}
	w.Write(row)
	for _, c := range items {
		for i, col := range csvColumns {
			row[i] = plainCSV(col.get(c))
		}
		w.Write(row)
	}
	w.Flush()
	return w.Error()
}
