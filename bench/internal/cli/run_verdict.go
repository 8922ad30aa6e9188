package cli

import (
	"fmt"
	"slices"

	"hopbench/results"
	"hopbench/transports/fault"
)

// verdict is the exit status of a whole run: 1 where a cell failed, 3 where a transport that was asked for by name was waived.
func (f *runFlags) verdict(cells []results.Cell, c selection) error {
	failed, waived, status := 0, "", 1
	var reason, code string
	var reasons []string // each once
	for _, cell := range cells {
		if why := cell.Transport + ": " + cell.Reason; cell.Status != results.StatusOK && !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
		switch cell.Status {
		case results.StatusFailed:
			if failed++; failed == 1 {
				reason, code = cell.Transport+": "+cell.Reason, cell.Code
			}
			if row, ok := fault.Lookup(fault.Code(cell.Code)); ok && row.Class == fault.Usage {
				status = 2 // an address or a setting that only the transport could judge
			}
		case results.StatusWaived:
			if c.named && waived == "" {
				waived = cell.Transport + ": " + cell.Reason
				code = cell.Code
			}
		}
	}
	said := func(exit int, text string) error {
		fmt.Fprintf(f.env.Stderr, "hopbench: %s\n", text)
		if code != "" {
			fmt.Fprintf(f.env.Stderr, "hopbench: `hopbench doctor --explain %s` says more\n", code)
		}
		return exitError{code: exit}
	}
	if !anyFigure(cells) { // there were no tables for them to stand beneath
		for _, why := range reasons {
			if why != reason && (failed > 0 || why != waived) {
				fmt.Fprintf(f.env.Stderr, "hopbench: %s\n", why)
			}
		}
	}
	switch {
	case failed > 0:
		return said(status, fmt.Sprintf("%d of %d cells failed; the first: %s", failed, len(cells), reason))
	case waived != "":
		return said(3, waived)
	}
	return nil
}

// anyFigure says whether there is something to print tables of: without a figure they would say one reason many times.
func anyFigure(cells []results.Cell) bool {
	return slices.ContainsFunc(cells, func(c results.Cell) bool { return c.HasFigure() })
}
