package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"hopbench/transports/fault"
	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// Columns is the width that every page of the doctor fits.
const Columns = 100

// WriteText writes the report for a person: the verdicts, then what is wrong with each transport, then the RDMA ports. With
// all, findings that are well are shown too.
func (r Report) WriteText(w io.Writer, all bool) error {
	p := &page{w: w}
	host := "this host"
	if r.Host.Source != "/" {
		host = r.Host.Source + " (captured)"
	}
	if r.Host.Kernel != "" {
		host += ", kernel " + r.Host.Kernel
	}
	p.wrap("host: ", "      ", host)
	if r.Host.Container != "" {
		p.wrap("seen from inside a ", "      ", strings.TrimPrefix(r.Host.Container, "container")+ifPlain(r.Host.Container)+": "+strings.Join(r.Host.Evidence, "; "))
	}
	p.line("")
	width := 0
	for _, t := range r.Transports {
		width = max(width, len(t.Name))
	}
	for _, t := range r.Transports {
		p.wrap(fmt.Sprintf("%-*s  %-8s  ", width, t.Name, t.Verdict), strings.Repeat(" ", width+12), headline(t))
	}
	for _, g := range groups(r.Transports, all) {
		p.line("")
		p.line(strings.Join(g.names, ", "))
		for _, f := range g.findings {
			p.finding(f)
		}
		if n := len(g.hidden); n > 0 && !all {
			p.wrap("  ", "  ", fmt.Sprintf("(%d further checks wait until %s is solved)", n, g.hidden[0].Behind))
		}
	}
	if len(r.Ports) > 0 {
		p.line("")
		p.line("RDMA ports")
		for _, t := range r.Ports {
			p.port(t)
		}
	}
	if len(r.Unread) > 0 && all {
		p.line("")
		p.line("not readable")
		for _, e := range r.Unread {
			p.wrap("  ", "    ", e.Path+": "+e.Err)
		}
	}
	return p.err
}

// ifPlain completes "seen from inside a " for a container whose kind is not known.
func ifPlain(kind string) string {
	switch kind {
	case "container":
		return "container"
	case "pod":
		return ""
	}
	return " container"
}

// headline is the first failed finding, else a count of warnings.
func headline(t Transport) string {
	n := 0
	for _, f := range t.Findings {
		if f.Severity == fault.Fail {
			return f.Summary
		}
	}
	for _, f := range t.Findings {
		if f.Severity == fault.Unknown && t.Verdict == Unknown {
			return f.Summary
		}
		if f.Severity == fault.Warn || f.Severity == fault.Unknown {
			n++
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "with one remark"
	}
	return fmt.Sprintf("with %d remarks", n)
}

type group struct {
	names    []string
	findings []fault.Finding
	hidden   []Hidden
}

// groups joins transports that have the same to say.
func groups(ts []Transport, all bool) []group {
	var out []group
	var keys []string
	for _, t := range ts {
		var shown []fault.Finding
		for _, f := range t.Findings {
			if all || f.Severity != fault.OK {
				shown = append(shown, f)
			}
		}
		if len(shown) == 0 {
			continue
		}
		key := fmt.Sprintf("%+v", shown)
		if i := slices.Index(keys, key); i >= 0 {
			out[i].names = append(out[i].names, t.Name)
			continue
		}
		keys = append(keys, key)
		out = append(out, group{[]string{t.Name}, shown, t.Hidden})
	}
	return out
}

// page writes lines that fit Columns.
type page struct {
	w   io.Writer
	err error
}

func (p *page) line(s string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, strings.TrimRight(s, " "))
	}
}

// wrap writes text after first, broken at blanks, further lines after rest. A word longer than the line is cut at the edge.
func (p *page) wrap(first, rest, text string) {
	cur := first
	empty := true
	// What comes from files may hold anything.
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	for _, word := range strings.Fields(text) {
		for {
			room := Columns - utf8.RuneCountInString(cur)
			if !empty {
				room--
			}
			n := utf8.RuneCountInString(word)
			if n <= room {
				if !empty {
					cur += " "
				}
				cur += word
				empty = false
				break
			}
			if !empty {
				p.line(cur)
				cur, empty = rest, true
				continue
			}
			if room < 8 {
				p.line(cur)
				cur = rest
				room = Columns - utf8.RuneCountInString(cur)
			}
			head := string([]rune(word)[:min(room, n)])
			p.line(cur + head)
			word = word[len(head):]
			cur = rest
			if word == "" {
				return
			}
		}
	}
	p.line(cur)
}

var marks = map[fault.Severity]string{fault.OK: "ok  ", fault.Warn: "warn", fault.Fail: "FAIL", fault.Unknown: "?   "}

func (p *page) finding(f fault.Finding) {
	const in = "       "
	p.wrap("  "+marks[f.Severity]+" ", in, f.Summary+" ["+string(f.Code)+"]")
	for _, e := range f.Evidence {
		s := e.Source + ": " + e.Got
		if e.Want != "" {
			s += " (wanted: " + e.Want + ")"
		}
		p.wrap(in+"read ", in+"     ", s)
	}
	for i, x := range f.Fix {
		p.wrap(fmt.Sprintf("%sdo   %d. ", in, i+1), in+"        ", string(x.Place)+": "+x.Do)
	}
}

func (p *page) port(t rdmaport.Port) {
	num := "-"
	if t.Port > 0 {
		num = fmt.Sprint(t.Port)
	}
	s := fmt.Sprintf("  %-14s %s  %-8s  ", t.Device, num, t.Verdict)
	var facts []string
	if t.LinkLayer != "" {
		facts = append(facts, t.LinkLayer)
	}
	if t.BitsPS != nil {
		facts = append(facts, fmt.Sprintf("%g Gb/s", float64(*t.BitsPS)/1e9))
	}
	if t.Software {
		facts = append(facts, "software")
	}
	if t.Verdict != rdmaport.Usable {
		facts = append(facts, t.Reason)
	} else if t.GIDIndex != nil && t.LinkLayer != "InfiniBand" {
		facts = append(facts, fmt.Sprintf("GID %d %s (%s)", *t.GIDIndex, topo.GID{GID: t.GID}.Short(), t.GIDType))
	}
	if t.Verdict == rdmaport.Usable && t.PathMTU != nil {
		facts = append(facts, fmt.Sprintf("path MTU %d", *t.PathMTU))
	}
	p.wrap(s, "                                ", strings.Join(facts, ", "))
}

// WriteExplanation writes the text of a code, wrapped.
func WriteExplanation(w io.Writer, row fault.Row) error {
	p := &page{w: w}
	for line := range strings.Lines(row.Explain()) {
		line = strings.TrimRight(line, "\n")
		text := strings.TrimLeft(line, " ")
		in := line[:len(line)-len(text)]
		rest := in
		if in != "" {
			rest += "   "
		}
		p.wrap(in, rest, text)
	}
	return p.err
}
