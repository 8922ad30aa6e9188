package plots

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hopbench/results"
	"hopbench/results/unit"
)

// entry is a cell with the run that it stands in.
type entry struct {
	*results.Cell
	run *results.Run
}

// gathered is what a figure is made from, and what its caption says of it.
type gathered struct {
	entries []entry
	runs    []*results.Run
	absent  []string       // what has no figure, each with its reason
	counts  map[string]int // cells without a figure, by status
}

// gather takes the cells that wanted asks for and that carry a figure. What cannot run, failed or was found wrong is listed with
// its reason, each transport and reason once. A cell of a fake library is an error, whatever it holds.
func gather(runs []results.Run, wanted func(*results.Cell) bool) (*gathered, error) {
	g := &gathered{counts: map[string]int{}}
	seen := map[string]bool{}
	for i := range runs {
		r := &runs[i]
		used := false
		for j := range r.Cells {
			c := &r.Cells[j]
			if c.Realm == results.RealmDouble {
				return nil, fmt.Errorf("%s: cell %d (%s): %w", r.File, j+1, c.Label, ErrDouble)
			}
			if c.HasFigure() {
				if wanted(c) {
					g.entries, used = append(g.entries, entry{c, r}), true
				}
				continue
			}
			if c.Status == results.StatusOK && c.Verified == nil || c.Status == results.StatusPartial && c.Verified == nil {
				continue
			}
			// A waived transport has one row for everything; a failed cell counts where it is of this figure.
			var why string
			switch {
			case c.Verified != nil && !*c.Verified:
				why = "the payload was wrong"
			case c.Status == results.StatusFailed:
				why = "failed: " + orElse(c.Reason, "no reason given")
			default:
				why = orElse(c.Reason, c.Status)
			}
			g.counts[c.Status]++
			text := clean(orElse(c.Label, c.Transport)) + ": " + clean(why)
			if !seen[text] {
				seen[text] = true
				g.absent = append(g.absent, text)
			}
		}
		if used {
			g.runs = append(g.runs, r)
		}
	}
	return g, nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// empty is the error of a figure without a value.
func (g *gathered) empty(what string) error {
	if len(g.absent) == 0 {
		return fmt.Errorf("%s: %w: no cell has one", what, ErrEmpty)
	}
	return fmt.Errorf("%s: %w; %s", what, ErrEmpty, strings.Join(first(g.absent, 4), "; "))
}

// first is the first n of the texts, and how many more there are.
func first(texts []string, n int) []string {
	if len(texts) <= n {
		return texts
	}
	return append(slices.Clone(texts[:n]), fmt.Sprintf("and %d more", len(texts)-n))
}

// definitionText says what a number means; another's definition is named and nothing more.
func definitionText(id string) string {
	switch id {
	case "bandwidth.confirmed":
		return id + ": payload bytes over the time from the first post to the last confirmed completion, on the initiator's clock"
	case "bandwidth.notified":
		return id + ": payload bytes over the time from the first post to the target's reply to a notification behind the data, on the initiator's clock"
	case "latency.half_rtt":
		return id + ": half of a round trip"
	case "latency.completion":
		return id + ": from post to completion"
	}
	return clean(id)
}

// meanings is the paragraph that says what the definitions mean, or nil.
func meanings(definitions map[string]bool) []string {
	var meant []string
	for _, d := range slices.Sorted(maps.Keys(definitions)) {
		if d != "" {
			meant = append(meant, definitionText(d))
		}
	}
	if len(meant) == 0 {
		return nil
	}
	return []string{strings.Join(meant, ". ") + "."}
}

// caption is what every figure of cells says beneath: the given lines, then what the numbers mean, what all the series have in
// common, where and when and by what they were measured, and what has no figure.
func (g *gathered) caption(lines []string, common []string) []string {
	var out []string
	definitions := map[string]bool{}
	realms := map[string]bool{}
	provenance := map[string]int{}
	sources := map[string]bool{}
	open, judged, partial := 0, 0, 0
	for _, e := range g.entries {
		definitions[e.Definition] = true
		realms[e.Realm] = true
		provenance[orElse(e.Provenance, results.Measured)]++
		if e.Provenance != "" && e.Provenance != results.Measured && e.Source != "" {
			sources[clean(e.Source)] = true
		}
		if e.Converged != nil {
			judged++
			if !*e.Converged {
				open++
			}
		}
		if e.Status == results.StatusPartial {
			partial++
		}
	}
	out = append(out, meanings(definitions)...)
	out = append(out, lines...)
	if len(common) > 0 {
		out = append(out, "All series: "+strings.Join(common, ", ")+".")
	}
	if realms[results.RealmSoftware] {
		out = append(out, "Software (hollow markers): a kernel moves the bytes, no link is involved; its figures are no link's.")
	}
	if realms[results.RealmEmulated] {
		out = append(out, "Emulated (hollow markers): measured inside a software-emulated machine; the figures show that it works, not how fast any hardware is.")
	}
	if open > 0 {
		out = append(out, fmt.Sprintf("%d of %s did not converge: the 95 %% interval of the median is wider than 2.5 %%.", open, unit.Count(judged, "value")))
	}
	if partial > 0 {
		out = append(out, "Of cells that were stopped early: "+unit.Count(partial, "value")+".")
	}
	if len(g.absent) > 0 {
		out = append(out, "Not drawn: "+strings.Join(first(g.absent, 6), "; ")+".")
	}
	return append(out, g.origin(provenance, slices.Sorted(maps.Keys(sources)))...)
}

// origin says where and when the cells come from, and which kind of figure they are.
func (g *gathered) origin(provenance map[string]int, sources []string) []string {
	var hosts []string
	days := map[string]bool{}
	tools := map[string]bool{}
	for _, r := range g.runs {
		for _, h := range r.Header.Hosts {
			var about []string
			if h.CPUModel != "" {
				model := clean(h.CPUModel)
				if h.CPUs != nil {
					model = fmt.Sprintf("%d CPUs %s", *h.CPUs, model)
				}
				about = append(about, model)
			}
			if len(h.GPUs) > 0 {
				about = append(about, fmt.Sprintf("%d x %s", len(h.GPUs), clean(orElse(h.GPUs[0].Name, "GPU"))))
			}
			if h.Virtualisation != "" && h.Virtualisation != "none" {
				about = append(about, clean(h.Virtualisation))
			}
			if h.Kernel != "" {
				about = append(about, "kernel "+clean(h.Kernel))
			}
			text := clean(h.Hostname)
			if len(about) > 0 {
				text += " (" + strings.Join(about, ", ") + ")"
			}
			if !slices.Contains(hosts, text) {
				hosts = append(hosts, text)
			}
		}
		if !r.Header.Started.IsZero() {
			days[r.Header.Started.UTC().Format(time.DateOnly)] = true
		}
		tool := "hopbench " + clean(r.Header.ToolVersion)
		if c := clean(r.Header.ToolCommit); c != "" {
			tool += " (" + c[:min(len(c), 12)] + ")"
		}
		tools[tool] = true
	}
	for _, e := range g.entries {
		if e.PeerTool != "" {
			tools[clean(e.PeerTool)] = true
		}
	}
	var where []string
	if len(hosts) > 0 {
		where = append(where, "Hosts: "+strings.Join(first(hosts, 4), "; ")+".")
	}
	var when []string
	if d := slices.Sorted(maps.Keys(days)); len(d) > 0 {
		when = append(when, d[0])
		if len(d) > 1 {
			when[0] += " to " + d[len(d)-1]
		}
	}
	when = append(when, first(slices.Sorted(maps.Keys(tools)), 4)...)
	var kinds []string
	for _, k := range slices.Sorted(maps.Keys(provenance)) {
		word := map[string]string{results.Measured: "measured", results.FromSource: "reference", results.Projected: "projected"}[k]
		if word == "" {
			word = clean(k)
		}
		if len(provenance) > 1 {
			word = fmt.Sprintf("%d %s", provenance[k], word)
		}
		kinds = append(kinds, word)
	}
	text := strings.Join(when, "; ") + "."
	if len(kinds) > 0 {
		text += " Values: " + strings.Join(kinds, ", ") + "."
	}
	if len(sources) > 0 {
		text += " Sources: " + strings.Join(first(sources, 4), "; ") + "."
	}
	return append(where, text)
}

// attributes are what tells a series from another, apart from its size, definition, operation and direction: in the words of a
// label, or "" where the plain case needs no word. The order is that of a label.
func attributes(e entry) []string {
	memory := clean(e.InitiatorMemory) + " memory"
	if e.InitiatorMemory != e.TargetMemory {
		memory = clean(e.InitiatorMemory) + " to " + clean(e.TargetMemory)
	}
	if e.InitiatorMemory == "" && e.TargetMemory == "" {
		memory = ""
	}
	if w := e.InitiatorGPUWay; w != "" || e.TargetGPUWay != "" {
		if w != e.TargetGPUWay {
			w = strings.Trim(w+" to "+e.TargetGPUWay, " ")
		}
		memory += ", GPU way " + clean(w)
	}
	word := func(condition bool, text string) string {
		if !condition {
			return ""
		}
		return clean(text)
	}
	pieces := word(e.Descriptors > 1, fmt.Sprintf("%d pieces %s", e.Descriptors, e.Pattern))
	rate := ""
	if e.RateBytesPerSecond != nil {
		rate = "at most " + unit.Rate(float64(*e.RateBytesPerSecond))
	}
	origin := ""
	switch e.Provenance {
	case "", results.Measured:
	case results.FromSource:
		origin = "reference"
	default:
		origin = clean(e.Provenance)
	}
	return []string{
		word(e.InitiatorHost != "" || e.TargetHost != "", e.InitiatorHost+" to "+e.TargetHost),
		word(e.Rail != "", "rail "+e.Rail),
		word(e.Schedule != "", e.Schedule),
		memory,
		word(e.Wait != "", "wait "+e.Wait),
		word(e.Depth > 0, fmt.Sprintf("depth %d", e.Depth)),
		word(e.Streams > 0, unit.Count(e.Streams, "stream")),
		word(e.Concurrency > 1, fmt.Sprintf("%d requests at once", e.Concurrency)),
		pieces,
		rate,
		word(e.PeerTool != "" && !strings.Contains(name(e), "by "+clean(e.PeerTool)), "by "+e.PeerTool), // a label of imported data says it
		word(e.View != "", "as "+e.View+" defines it"),
		origin,
	}
}

// name is the label of a path, with its realm where that is not hardware.
func name(e entry) string {
	label := clean(orElse(e.Label, e.Transport))
	if e.Realm != "" && e.Realm != results.RealmHardware && !strings.Contains(label, e.Realm) {
		label += ", " + clean(e.Realm)
	}
	return label
}

// runName tells a run from others.
func runName(r *results.Run) string {
	text := clean(filepath.Base(r.File))
	if !r.Header.Started.IsZero() {
		text += " " + r.Header.Started.UTC().Format("2006-01-02T15:04:05Z")
	}
	return text
}

func directionText(d string) string {
	switch d {
	case "forward":
		return "one way"
	case "reverse":
		return "the other way"
	case "both":
		return "both ways at once, summed"
	}
	return clean(d)
}
