package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/question"
	"hopbench/bench/ttft/report"
	"hopbench/results/unit"
)

// allLinks is every link that was asked for: measured first, then given, then
// the references. What was measured otherwise than asked for is refused by
// name, or, with --extrapolate, taken and labelled.
func (f *ttftFlags) allLinks(env *Env, doc *report.Document, operation string) ([]*link.Link, error) {
	if len(f.results) == 0 && len(f.links) == 0 && !f.reference {
		return nil, usagef("ttft needs a link: --results FILE, --link NAME=RATE or --reference")
	}
	var links []*link.Link
	if len(f.results) > 0 {
		measured, err := f.measured(env, doc, operation)
		if err != nil {
			return nil, err
		}
		links = append(links, measured...)
	}
	for _, text := range f.links {
		l, err := parseLink(text)
		if err != nil {
			return nil, usagef("--link %s: %v", text, err)
		}
		links = append(links, l)
	}
	if f.reference {
		refs, err := link.References(f.descriptor.Seconds())
		if err != nil {
			return nil, err
		}
		links = append(links, refs...)
	}
	if len(links) == 0 && len(doc.Refused) == 0 {
		return nil, usagef("the result files have no cell that a transfer by %s could be projected from%s", operation, skipped(doc.Skipped))
	}
	return links, nil
}

func skipped(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, "; ") + ")"
}

func (f *ttftFlags) measured(env *Env, doc *report.Document, operation string) ([]*link.Link, error) {
	runs, err := told(env, f.results...)
	if err != nil {
		return nil, usagef("--results: %v", err)
	}
	for i := range runs {
		doc.Runs = append(doc.Runs, report.RunOf(&runs[i]))
	}
	cells, err := curve.Selection{Schedule: f.schedule, Pair: f.pair}.Take(cellsOf(runs))
	if err != nil {
		return nil, usagef("--results: %v", err)
	}
	links, have, err := question.Links(cells, question.Want{Operation: operation, Transports: f.transports, Other: f.otherThan, Extrapolate: f.extrapolate, How: "--extrapolate"}, doc)
	if err != nil {
		return nil, usagef("--results: %v", err)
	}
	for _, t := range f.transports {
		if !slices.Contains(have, t) {
			return nil, usagef("--transport %s: the result files have no cell of it that a transfer could be projected from%s", t, skipped(doc.Skipped))
		}
	}
	return links, nil
}

// otherThan says in what a curve's place differs from the one asked for.
func (f *ttftFlags) otherThan(o curve.Origin) string {
	var out []string
	for side, name := range []string{"initiator", "target"} {
		if kind, _, _ := strings.Cut(o.Memory[side], ":"); f.memory != "" && kind != f.memory && o.Memory[side] != f.memory {
			out = append(out, fmt.Sprintf("%s memory is %s and not %s", name, or(o.Memory[side], "not known"), f.memory))
		}
		if f.gpuWay != "" && o.GPUWay[side] != f.gpuWay {
			out = append(out, fmt.Sprintf("%s GPU way is %s and not %s", name, or(o.GPUWay[side], "none"), f.gpuWay))
		}
		if f.distance != "" && o.PCIDistance[side] != f.distance {
			out = append(out, fmt.Sprintf("%s PCI distance is %s and not %s", name, or(o.PCIDistance[side], "not known"), f.distance))
		}
	}
	return strings.Join(out, ", ")
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// exponent is that of 1e-9GB/s, whose minus is not that of a range.
var exponent = regexp.MustCompile(`[0-9][eE][-+]?[0-9]`)

// parseLink reads NAME=RATE[-RATE][,latency=T][,descriptor=T].
func parseLink(text string) (*link.Link, error) {
	name, rest, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return nil, fmt.Errorf("want NAME=RATE[,latency=1us][,descriptor=1us]")
	}
	parts := strings.Split(rest, ",")
	if strings.HasPrefix(parts[0], "-") || !strings.ContainsAny(parts[0], "bB") {
		return nil, fmt.Errorf("%q is no rate with its unit, such as 1GB/s or 8Gb/s", parts[0])
	}
	if exponent.MatchString(parts[0]) {
		return nil, fmt.Errorf("%s: a rate is written without an exponent, such as 0.5GB/s or 800kb/s", parts[0])
	}
	low, high, ranged := strings.Cut(parts[0], "-")
	var s link.Spec
	var err error
	if ranged && !strings.ContainsAny(low, "bB") {
		low += strings.TrimLeft(high, "0123456789.") // 1-3GB/s
	}
	if s.Low, err = unit.ParseRate(low); err != nil {
		return nil, err
	}
	s.High = s.Low
	if ranged {
		if s.High, err = unit.ParseRate(high); err != nil {
			return nil, err
		}
		if s.High < s.Low {
			return nil, fmt.Errorf("%s is above %s: the lower rate comes first", low, high)
		}
	}
	for _, p := range parts[1:] {
		key, value, _ := strings.Cut(p, "=")
		d, err := time.ParseDuration(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if d < 0 {
			return nil, fmt.Errorf("%s %s is less than none", key, value)
		}
		switch key {
		case "latency":
			s.Latency = d.Seconds()
		case "descriptor":
			s.PerDescriptor = d.Seconds()
		default:
			return nil, fmt.Errorf("%q is neither latency nor descriptor", key)
		}
	}
	return link.Given(name, s)
}

// maxTableBytes bounds a prefill table: a thousand lines are far fewer.
const maxTableBytes = 1 << 20

// readPrefillTable reads "tokens,milliseconds" a line; a heading and # comments are skipped.
func readPrefillTable(path string) ([][2]float64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	points, err := parsePrefillTable(io.LimitReader(f, maxTableBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return points, nil
}

func parsePrefillTable(r io.Reader) ([][2]float64, error) {
	var points [][2]float64
	sc := bufio.NewScanner(r)
	for n := 1; sc.Scan(); n++ {
		line, _, _ := strings.Cut(sc.Text(), "#")
		fields := strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ';' || r == ' ' || r == '\t' })
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("line %d: want tokens,milliseconds", n)
		}
		tokens, err1 := strconv.ParseFloat(fields[0], 64)
		ms, err2 := strconv.ParseFloat(fields[1], 64)
		if err1 != nil || err2 != nil {
			if len(points) == 0 && err1 != nil && err2 != nil {
				continue // a heading
			}
			return nil, fmt.Errorf("line %d: %q is not tokens,milliseconds", n, strings.TrimSpace(line))
		}
		points = append(points, [2]float64{tokens, ms / 1000})
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	return points, nil
}
