package table

import (
	"fmt"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

// A trait is one thing that cells were measured by and that a reader must see where it varies.
type trait struct {
	name string
	show func(c item) string // "" where it does not apply
}

// traits are in the order in which a head or a caption names them.
var traits = []trait{
	{"realm", func(c item) string { return c.Realm }},
	{"memory", func(c item) string {
		if c.InitiatorMemory == c.TargetMemory {
			if c.InitiatorMemory == "" {
				return ""
			}
			return c.InitiatorMemory + " memory"
		}
		return c.InitiatorMemory + " to " + c.TargetMemory + " memory"
	}},
	{"gpu way", func(c item) string {
		if w := gpuWay(c); w != "-" {
			return w
		}
		return ""
	}},
	{"wait", func(c item) string { return prefixed("wait ", c.Wait) }},
	{"depth", func(c item) string { return counted(c.Depth, "depth %d", "depth %d") }},
	{"streams", func(c item) string { return counted(c.Streams, "1 stream", "%d streams") }},
	{"concurrency", func(c item) string { return counted(c.Concurrency, "", "%d requests at once") }},
	{"rail", func(c item) string { return prefixed("rail ", c.Rail) }},
	{"pair", func(c item) string {
		if c.InitiatorHost == "" && c.TargetHost == "" {
			return ""
		}
		return c.InitiatorHost + " to " + c.TargetHost
	}},
	{"schedule", func(c item) string { return c.Schedule }},
	{"rate", func(c item) string {
		if c.RateBytesPerSecond == nil {
			return ""
		}
		exact := *c.RateBytesPerSecond
		text := unit.Rate(float64(exact))
		if v, err := unit.ParseRate(text); err != nil || int64(v) != exact { // rates that differ are told apart
			text = fmt.Sprintf("%d B/s", exact)
		}
		return "held to " + text
	}},
	{"tool", func(c item) string { return c.PeerTool }},
	{"view", func(c item) string { return prefixed("view ", c.View) }},
	{"provenance", func(c item) string {
		if c.Provenance == results.Measured {
			return ""
		}
		return c.Provenance
	}},
	{"file", func(c item) string { return c.file }},
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func counted(n int64, one, many string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return strings.ReplaceAll(one, "%d", "1")
	}
	return fmt.Sprintf(many, n)
}

func gpuWay(c item) string {
	a, b := c.InitiatorGPUWay, c.TargetGPUWay
	switch {
	case a == "" && b == "":
		return "-"
	case a == b || b == "":
		return a
	case a == "":
		return b
	}
	return a + " to " + b
}

// compare tells what is common to the cells from what varies between them.
func compare(cells []item) (common []string, varying []trait) {
	for _, t := range traits {
		first, same := t.show(cells[0]), true
		for _, c := range cells[1:] {
			if t.show(c) != first {
				same = false
				break
			}
		}
		switch {
		case !same:
			varying = append(varying, t)
		case first != "":
			common = append(common, first)
		}
	}
	return common, varying
}

// headOf is the head of the cell's column: its label and what varies.
func headOf(c item, varying []trait) string {
	head := c.Label
	if head == "" {
		head = c.Transport
	}
	for _, t := range varying {
		if s := t.show(c); s != "" && !strings.Contains(head, s) {
			head += ", " + s
		}
	}
	return head
}
