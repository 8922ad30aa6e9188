package matrix

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hopbench/results"
)

// Ranks are the hosts of a mesh, as its rows name them, in the order of their ranks; nil where the header does not say it.
func Ranks(r *results.Run) []string {
	type ranked struct {
		number int
		name   string
	}
	var all []ranked
	for _, h := range r.Header.Hosts {
		number, ok := strings.CutPrefix(h.Role, "rank ")
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			return nil
		}
		name := h.Hostname
		if own := r.Header.Settings[fmt.Sprintf("mesh_rank_%d_name", n)]; own != "" {
			name = own
		}
		all = append(all, ranked{n, name})
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.number, b.number) })
	var names []string
	for _, h := range all {
		if !slices.Contains(names, h.name) {
			names = append(names, h.name)
		}
	}
	return names
}

// natural compares names with the numbers in them by value: node2 before node10.
func natural(a, b string) int {
	digits := func(s string) int {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		return n
	}
	x, y := a, b
	for x != "" && y != "" {
		i, j := digits(x), digits(y)
		if i > 0 && j > 0 {
			p, q := strings.TrimLeft(x[:i], "0"), strings.TrimLeft(y[:j], "0")
			if c := cmp.Or(cmp.Compare(len(p), len(q)), strings.Compare(p, q)); c != 0 {
				return c
			}
			x, y = x[i:], y[j:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(a, b))
}
