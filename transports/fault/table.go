package fault

import (
	"fmt"
	"slices"
	"strings"
)

// Code names one row of the table, as "area.what": "tcp.data-unreachable", "verbs.memlock".
type Code string

// Place says where a fix is applied.
type Place string

const (
	Shell      Place = "shell"             // a command on the host, or the flags of this one
	Container  Place = "container runtime" // docker, containerd, their units
	Kubernetes Place = "pod spec"          // what the pod asks for
	BIOS       Place = "BIOS"              // firmware set-up of the host
	Fabric     Place = "fabric"            // switch, subnet manager, cable
)

// Fix is one step, for one place. Fixes of a row stand in the order in which to try them.
type Fix struct {
	Place Place  `json:"place"`
	Do    string `json:"do"`
}

// Row explains one code: what it is, what it means and what to do.
type Row struct {
	Code  Code
	Class Class
	Title string // one line, no full stop
	Means string // a paragraph: the mechanism, and what it is commonly confused with
	Fixes []Fix
}

// Explain is the row as text: the same for `doctor --explain` and for the whole of a failed run's error.
func (r Row) Explain() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s (%s)\n", r.Code, r.Title, r.Class)
	if r.Means != "" {
		fmt.Fprintf(&b, "%s\n", r.Means)
	}
	for i, f := range r.Fixes {
		fmt.Fprintf(&b, "  %d. %s: %s\n", i+1, f.Place, f.Do)
	}
	return strings.TrimRight(b.String(), "\n")
}

// sections are the parts of the table, one a file, in the order in which Table shows them.
var sections = [][]Row{commonRows, tcpRows, verbsRows, cudaRows, rdmaHostRows, gpuHostRows}

var index = func() map[Code]Row {
	m := make(map[Code]Row)
	for _, rows := range sections {
		for _, r := range rows {
			m[r.Code] = r
		}
	}
	return m
}()

// Lookup returns the row of a code.
func Lookup(c Code) (Row, bool) {
	r, ok := index[c]
	return r, ok
}

// Table returns every row, in display order.
func Table() []Row { return slices.Concat(sections...) }
