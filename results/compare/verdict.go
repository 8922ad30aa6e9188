package compare

import (
	"fmt"
	"strings"
)

// Verdicts of a row, and of a whole report.
const (
	Better        = "better"
	Worse         = "worse"
	Same          = "same"      // no difference that matters is shown, and none of three times that size could hide
	Undecided     = "undecided" // the reason says why
	TooFew        = "too_few_samples"
	Added         = "added"   // only in new
	Missing       = "missing" // only in old
	NotComparable = "not_comparable"

	Regression  = "regression"  // of a report: some row is worse
	Improvement = "improvement" // some row is better, none worse

	NotInterleaved = "not_interleaved" // what a gate may fail on: the runs of the sides do not alternate in time
)

// conclude makes the report's verdict and headline from its rows. There is no average: the headline names rows.
func (r *Report) conclude() {
	n := map[string]int{}
	for _, row := range r.Rows {
		n[row.Verdict]++
	}
	rows := map[string]int{Worse: n[Worse], Better: n[Better]} // without what is told of meshes
	for _, m := range r.Meshes {
		for _, s := range append([]Shift{m.Whole}, m.Changes...) {
			n[s.Verdict]++
		}
	}
	switch {
	case n[Worse] > 0:
		r.Verdict = Regression
	case n[Better] > 0:
		r.Verdict = Improvement
	case n[Undecided]+n[TooFew] > 0 || r.Tested == 0:
		r.Verdict = Undecided
	default:
		r.Verdict = Same
	}
	var parts []string
	for _, v := range []string{Worse, Better} {
		const most = 4
		if of := r.shifts(v); len(of) > 0 {
			if len(of) > most {
				of = append(of[:most], fmt.Sprintf("and %d more", len(of)-most))
			}
			parts = append(parts, "mesh "+v+": "+strings.Join(of, "; "))
		}
		if rows[v] == 0 {
			continue
		}
		var names []string
		for _, row := range r.Rows {
			if row.Verdict != v {
				continue
			}
			if len(names) == most {
				names = append(names, fmt.Sprintf("and %d more", rows[v]-most))
				break
			}
			if row.Ratio == nil {
				names = append(names, row.Cell+" ("+row.Reason+")")
			} else {
				names = append(names, fmt.Sprintf("%s %s %s", row.Cell, row.Metric, Change(*row.Ratio)))
			}
		}
		parts = append(parts, fmt.Sprintf("%d of %d rows %s: %s", rows[v], len(r.Rows), v, strings.Join(names, "; ")))
	}
	if n[Worse]+n[Better] == 0 {
		switch {
		case len(r.Rows) == 0:
			parts = append(parts, "no cell to compare")
		case r.Tested == 0:
			parts = append(parts, "nothing here could have been found different")
		default:
			parts = append(parts, "no change shown")
		}
	}
	for _, c := range []struct{ verdict, words string }{
		{Same, "the same"}, {Undecided, "undecided"}, {TooFew, "with too few samples"}, {Missing, "only in old"}, {Added, "only in new"}, {NotComparable, "not comparable"}} {
		if n[c.verdict] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[c.verdict], c.words))
		}
	}
	r.Headline = strings.Join(parts, "; ")
}

// Change words a ratio as a signed percentage.
func Change(ratio float64) string {
	return fmt.Sprintf("%+.1f %%", 100*(ratio-1))
}

// FailOn lists what a gate may be told to fail on.
func FailOn() []string { return []string{Regression, Missing, TooFew, Undecided, NotInterleaved} }

// Failures says why a gate that fails on the given things fails; none is a pass. A broken absolute bound fails
// always, and so does a comparison in which no row could have been found different: a gate that cannot
// fire must not pass.
func (r *Report) Failures(on ...string) []string {
	want := map[string]bool{}
	for _, o := range on {
		want[o] = true
	}
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if r.Tested == 0 {
		needed := 0
		for _, row := range r.Rows {
			needed = max(needed, row.SamplesNeeded)
		}
		switch {
		case r.Compared == 0:
			add("this comparison cannot fail: no cell stands on both sides with a figure")
		default:
			add("this comparison cannot fail: with these samples no difference of any size would show; at least %d samples a side are needed", needed)
		}
	} else if r.SameFiles && want[Undecided] {
		add("the same file stands on both sides")
	}
	if want[NotInterleaved] && !r.Interleaved {
		add("the runs of the two sides do not alternate in time")
	}
	if want[Regression] {
		for _, s := range r.shifts(Worse) {
			add("mesh: worse: %s", s)
		}
	}
	if want[Undecided] {
		for _, m := range r.Meshes {
			if m.Whole.Verdict == Undecided {
				add("%s %s: undecided: %s", m.Title, m.Metric, m.Whole.Reason)
			}
		}
	}
	for _, row := range r.Rows {
		name := row.Cell + " " + row.Metric
		switch {
		case row.Verdict == Worse && want[Regression] && row.Ratio != nil:
			add("%s: worse, %s", name, Change(*row.Ratio))
		case row.Verdict == Worse && want[Regression]:
			add("%s: %s", name, row.Reason)
		case row.Verdict == Missing && want[Missing]:
			add("%s: missing: %s", name, row.Reason)
		case row.Verdict == NotComparable && want[Missing]:
			add("%s: not comparable: %s", name, row.Reason)
		case row.Verdict == TooFew && (want[TooFew] || want[Undecided]):
			add("%s: too few samples: %s", name, row.Reason)
		case row.Verdict == Undecided && want[Undecided]:
			add("%s: undecided: %s", name, row.Reason)
		}
		if row.FloorBroken != "" {
			add("%s: %s", name, row.FloorBroken)
		}
	}
	return out
}
