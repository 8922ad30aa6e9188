package question

import (
	"fmt"
	"slices"
	"strings"

	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/report"
	"hopbench/results"
)

// Want is which measured links are asked about. The zero value is none: an operation is needed.
type Want struct {
	Operation  string   // write or read: what the engine transfers with
	Transports []string // only these; nil is all
	// Other says in what a place differs from the one asked for, nothing where it does not. Nil: any place will do.
	Other func(curve.Origin) string
	// Extrapolate takes a link of another place all the same and labels it; How is what a reader calls that.
	Extrapolate bool
	How         string
}

// Links are the measured links that an asker wants. What was measured otherwise stands in the document, refused by name. transports
// are those that the cells have anything of, whatever the operation. Cells of a test double are an error.
func Links(cells []results.Cell, w Want, doc *report.Document) (links []*link.Link, transports []string, err error) {
	curves, skipped, err := curve.FromCells(cells)
	if err != nil {
		return nil, nil, err
	}
	doc.Skipped = skipped
	refuse := func(o curve.Origin, reason string) {
		doc.Refused = append(doc.Refused, report.Refusal{Label: o.Label, Reason: reason})
	}
	for _, c := range curves {
		o := c.Origin
		if len(w.Transports) > 0 && !slices.Contains(w.Transports, o.Transport) {
			continue
		}
		if !slices.Contains(transports, o.Transport) {
			transports = append(transports, o.Transport)
		}
		if o.Operation != w.Operation {
			refuse(o, fmt.Sprintf("%s was measured with %s, and the engine transfers with %s", o.Label, o.Operation, w.Operation))
			continue
		}
		l := link.Measured(c)
		if w.Other != nil {
			if other := w.Other(o); other != "" && !w.Extrapolate {
				refuse(o, o.Label+": "+other+" ("+w.How+" takes it all the same, and labels it)")
				continue
			} else if other != "" {
				l.Notes = append(l.Notes, "from another place: "+other)
			}
		}
		links = append(links, l)
	}
	distinct(links)
	return links, transports, nil
}

// distinct adds to labels that would read the same what tells their links apart.
func distinct(links []*link.Link) {
	count := map[string]int{}
	for _, l := range links {
		count[l.Label]++
	}
	for _, l := range links {
		if count[l.Label] < 2 {
			continue
		}
		o := l.Measured()
		more := []string{o.Memory[0] + " to " + o.Memory[1]}
		for _, pair := range [][2]string{o.GPUWay, o.PCIDistance, o.NUMANode} {
			if pair[0]+pair[1] != "" {
				more = append(more, orDash(pair[0])+"/"+orDash(pair[1]))
			}
		}
		if o.Rail != "" {
			more = append(more, "rail "+o.Rail)
		}
		l.Label += " (" + strings.Join(more, ", ") + ")"
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
