package doctor

import (
	"fmt"
	"io"
	"strconv"

	"hopbench/harness/doctor/logs"
	"hopbench/results/unit"
	"hopbench/transports/fault"
)

// LogReading is a log explained with what this host's facts say of each cause.
type LogReading struct {
	Lines   []LogLine    `json:"lines"`
	Unknown logs.Unknown `json:"unknown"` // lines that look like errors and are not known
}

// LogLine is one kind of line that was found.
type LogLine struct {
	ID    string `json:"id"`
	By    string `json:"by"`
	Line  int    `json:"line"` // of the first, from 1
	Text  string `json:"text"`
	Count int    `json:"count"`
	At    []int  `json:"at"` // the first ten of them
	Means string `json:"means"`
	// Confirmed are the findings of this host that explain the line; Excluded the causes whose checks found nothing; the
	// rest could not be told here.
	Confirmed []fault.Finding `json:"confirmed,omitempty"`
	Excluded  []fault.Code    `json:"excluded,omitempty"`
	NotTold   []fault.Code    `json:"not_told,omitempty"`
	Do        string          `json:"do"`
}

// ReadLog puts the causes of each line beside the report's findings. The host of the report must be the one that wrote
// the log for that to mean something; the text says which it is.
func (r Report) ReadLog(found []logs.Match, unknown logs.Unknown) LogReading {
	out := LogReading{Lines: []LogLine{}, Unknown: unknown}
	for _, m := range found {
		l := LogLine{ID: m.Signature.ID, By: m.Signature.By, Line: m.Line, Text: m.Text, Count: m.Count, At: m.Lines, Means: m.Signature.Means, Do: m.Signature.Do}
		for _, c := range m.Signature.Causes {
			f, ok := r.Find(c)
			switch {
			case ok && (f.Severity == fault.Fail || f.Severity == fault.Warn):
				l.Confirmed = append(l.Confirmed, f)
			case ok && f.Severity == fault.OK, !ok && r.asked(c):
				l.Excluded = append(l.Excluded, c)
			default:
				l.NotTold = append(l.NotTold, c)
			}
		}
		out.Lines = append(out.Lines, l)
	}
	return out
}

// asked reports whether some check for the code ran, so that its silence is an answer.
func (r Report) asked(c fault.Code) bool {
	for _, t := range r.Transports {
		for _, a := range t.asked {
			if a == c {
				return true
			}
		}
	}
	return false
}

// WriteText writes the reading for a person.
func (l LogReading) WriteText(w io.Writer) error {
	p := &page{w: w}
	if len(l.Lines) == 0 {
		p.line("no known line in this log")
	}
	for i, x := range l.Lines {
		if i > 0 {
			p.line("")
		}
		p.wrap(lineNumbers(x.At, x.Count)+": ", "    ", x.Text)
		p.wrap("  means ("+x.By+"): ", "    ", x.Means)
		for _, f := range x.Confirmed {
			p.wrap("  here:  ", "    ", "confirmed, "+f.Summary+" ["+string(f.Code)+"]")
			for _, e := range f.Evidence {
				s := e.Source + ": " + e.Got
				if e.Want != "" {
					s += " (wanted: " + e.Want + ")"
				}
				p.wrap("    read ", "         ", s)
			}
			for i, x := range f.Fix {
				p.wrap(fmt.Sprintf("    do   %d. ", i+1), "            ", string(x.Place)+": "+x.Do)
			}
		}
		if len(x.Confirmed) == 0 {
			switch {
			case len(x.NotTold) > 0:
				p.wrap("  here:  ", "    ", "no cause is confirmed by this host's facts; not to be told here: "+join(x.NotTold))
			case len(x.Excluded) > 0:
				p.wrap("  here:  ", "    ", "this host's facts speak against: "+join(x.Excluded))
			}
		}
		p.wrap("  do:    ", "    ", x.Do)
	}
	if n := l.Unknown.Count; n > 0 {
		if len(l.Lines) > 0 {
			p.line("")
		}
		verb := "look like errors and are"
		if n == 1 {
			verb = "looks like an error and is"
		}
		p.wrap("", "    ", fmt.Sprintf("%s that %s not known: %s", unit.Count(n, "line"), verb, lineNumbers(l.Unknown.Lines, n)))
	}
	return p.err
}

// lineNumbers are "line 2", "lines 2, 5", "lines 2, 5, ... (12 in all)".
func lineNumbers(at []int, count int) string {
	s := "line "
	if count > 1 {
		s = "lines "
	}
	for i, n := range at {
		if i > 0 {
			s += ", "
		}
		s += strconv.Itoa(n)
	}
	if count > len(at) {
		s += fmt.Sprintf(", ... (%d in all)", count)
	}
	return s
}

func join(cs []fault.Code) string {
	s := ""
	for i, c := range cs {
		if i > 0 {
			s += ", "
		}
		s += string(c)
	}
	return s
}
