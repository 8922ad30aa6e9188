// Package export writes result files in the formats of other tools: the Go benchmark format that
// benchstat reads, CSV in base units, and OpenMetrics text.
//
// Every figure keeps its definition, in the benchmark's name, a column or a label. A cell without a right figure (waived,
// failed, wrong payload) gives no value anywhere; figures that were measured through a test double are refused.
package export

import (
	"fmt"
	"io"
	"strings"

	"hopbench/results"
)

// Formats lists the formats by name, with what each is.
func Formats() [][2]string {
	return [][2]string{
		{"gobench", "Go benchmark format, a line a round, for benchstat"},
		{"csv", "a row a cell, base units, every digit"},
		{"openmetrics", "OpenMetrics text 1.0, the newest run of each cell"},
	}
}

// Write writes the runs in the named format.
func Write(w io.Writer, format string, runs []results.Run) error {
	for _, r := range runs {
		for _, c := range r.Cells {
			if c.Realm == results.RealmDouble {
				return fmt.Errorf("%s: %s was measured through a test double (realm double): its figures mean nothing and are not exported", r.File, c.Label)
			}
		}
	}
	switch format {
	case "gobench":
		return gobench(w, runs)
	case "csv":
		return writeCSV(w, runs)
	case "openmetrics":
		return openMetrics(w, runs)
	}
	var names []string
	for _, f := range Formats() {
		names = append(names, f[0])
	}
	return fmt.Errorf("unknown format %q (%s)", format, strings.Join(names, ", "))
}
