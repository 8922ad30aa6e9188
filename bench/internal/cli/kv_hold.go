package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/report"
	"hopbench/results"
	"hopbench/results/unit"
)

// heldRow is one KV-shaped request over all trials.
type heldRow struct {
	Request     string    `json:"request"`
	Label       string    `json:"label"`
	Operation   string    `json:"operation"`
	Concurrency int64     `json:"concurrency"`
	Bytes       int64     `json:"total_bytes"`
	Descriptors int64     `json:"descriptors"`
	Measured    []float64 `json:"measured_seconds"` // one a trial
	Projected   []float64 `json:"projected_seconds"`
	Ratios      []float64 `json:"ratios"`                 // projected over measured
	Median      *float64  `json:"median_ratio,omitempty"` // over the trials
	Notes       []string  `json:"notes,omitempty"`
}

// runHold holds measured KV-shaped requests against their projection from sweeps: the i-th --measured against the i-th --sweep.
func runHold(env *Env, f kvFlags, model string) error {
	if model != "" {
		return usagef("--measured and --sweep take their requests from the files: leave out %s", model)
	}
	if len(f.measured) != len(f.sweeps) {
		return usagef("%d --measured and %d --sweep: they go in pairs, one of each a trial", len(f.measured), len(f.sweeps))
	}
	pairs := make([][2][]string, 0, len(f.measured))
	for i := range f.measured {
		pairs = append(pairs, [2][]string{{f.measured[i]}, {f.sweeps[i]}})
	}
	if f.fastest {
		pairs = [][2][]string{{f.measured, f.sweeps}}
	}
	var rows []*heldRow
	var all []results.Run
	at := map[string]*heldRow{}
	for _, pair := range pairs {
		from, err := told(env, pair[0]...)
		if err != nil {
			return usagef("--measured: %v", err)
		}
		by, err := told(env, pair[1]...)
		if err != nil {
			return usagef("--sweep: %v", err)
		}
		cells, sweep := cellsOf(from), cellsOf(by)
		all = append(append(all, from...), by...)
		if f.fastest {
			cells, sweep = fastest(cells), fastest(sweep)
		}
		held, err := curve.Hold(cells, sweep)
		if err != nil {
			return usagef("%v", err)
		}
		if len(held) == 0 {
			return usagef("--measured: %s has no KV-shaped request (run --kv measures them)", strings.Join(pair[0], ", "))
		}
		for _, h := range held {
			c := h.Cell
			key := fmt.Sprintf("%s\x00%s\x00%s\x00%d", c.Settings["request"], c.Label, c.Operation, c.Concurrency)
			r := at[key]
			if r == nil {
				r = &heldRow{Request: c.Settings["request"], Label: c.Label, Operation: c.Operation, Concurrency: max(1, c.Concurrency), Bytes: c.TotalBytes, Descriptors: c.Descriptors}
				at[key], rows = r, append(rows, r)
			}
			if h.Measured > 0 && h.Projected.Seconds > 0 {
				r.Measured, r.Projected, r.Ratios = append(r.Measured, h.Measured), append(r.Projected, h.Projected.Seconds), append(r.Ratios, h.Ratio())
			}
			for _, n := range append([]string{h.Refused}, h.Projected.Notes...) {
				if n != "" && !slices.Contains(r.Notes, n) {
					r.Notes = append(r.Notes, n)
				}
			}
		}
	}
	for _, r := range rows {
		if len(r.Ratios) > 0 {
			m := middle(r.Ratios)
			r.Median = &m
		}
	}
	lossy := lossy(all)
	if f.json {
		return printJSON(env, struct {
			Held  []*heldRow `json:"held"`
			Lossy []string   `json:"lossy,omitempty"`
		}{rows, lossy})
	}
	w := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "request\tpath\toperation\tat once\ttrials\tmeasured\tprojected\toff\tleast to most\t")
	var notes []string
	for _, r := range rows {
		if r.Median == nil {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t0\t-\t-\t-\t-\t\n", r.Request, r.Label, r.Operation, r.Concurrency)
		} else {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%+.1f %%\t%+.1f to %+.1f %%\t\n", r.Request, r.Label, r.Operation, r.Concurrency, len(r.Ratios), report.Seconds(middle(r.Measured)),
				report.Seconds(middle(r.Projected)), 100*(*r.Median-1), 100*(slices.Min(r.Ratios)-1), 100*(slices.Max(r.Ratios)-1))
		}
		for _, n := range r.Notes {
			if !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(env.Stdout, "off: the median over the trials of projected over measured, less one")
	if f.fastest {
		fmt.Fprintln(env.Stdout, "each figure is the fastest round of all trials, not a median: it says what the path can do, not what it does under this load")
	}
	for _, n := range append(notes, lossy...) {
		fmt.Fprintf(env.Stdout, "  %s\n", n)
	}
	return nil
}

// muchLoss is how many times the median loss of the cells of a trial a cell must have to be named: what it shows then is a path that lost,
// and a projection from it, or of it, says nothing of the method.
const muchLoss = 3

// lossy names the cells that lost far more than the others, by the counters that the cells themselves carry: segments sent again for each GB.
func lossy(runs []results.Run) []string {
	type loss struct {
		perGB float64
		file  string
		cell  *results.Cell
	}
	var losses []loss
	var rates []float64
	for _, r := range runs {
		for i := range r.Cells {
			c := &r.Cells[i]
			if c.Counters == nil || c.Bandwidth == nil || !c.HasFigure() {
				continue
			}
			moved, lost := 0.0, 0.0
			for _, n := range c.Bandwidth.RoundsOperations {
				moved += float64(n) * float64(c.TotalBytes) / 1e9
			}
			for _, x := range c.Counters.Readings {
				if x.Loss != nil && *x.Loss && x.Value > 0 {
					lost += float64(x.Value)
				}
			}
			if moved > 0 {
				losses, rates = append(losses, loss{lost / moved, r.File, c}), append(rates, lost/moved)
			}
		}
	}
	var out []string
	usual := middle(rates)
	for _, l := range losses {
		if l.perGB > muchLoss*max(usual, 1) {
			out = append(out, fmt.Sprintf("%s: %s of %s, %s at once: %.0f losses a GB, where the median cell has %.0f: %s, %s", l.file, l.cell.Operation,
				unit.Count(l.cell.Descriptors, "piece"), fmt.Sprint(max(1, l.cell.Concurrency)), l.perGB, usual, unit.Bytes(l.cell.PieceBytes)+" a piece", unit.Rate(l.cell.Bandwidth.BytesPerSecond)))
		}
	}
	return out
}

// fastest keeps of each place the one cell with the fastest round, as its bandwidth: what others on the machine do only slows, so this is the
// figure with least of it. It has no interval.
func fastest(cells []results.Cell) []results.Cell {
	var out []results.Cell
	at := map[string]int{}
	for _, c := range cells {
		if c.Bandwidth == nil || !c.HasFigure() {
			continue
		}
		b := results.Bandwidth{BytesPerSecond: c.Bandwidth.BytesPerSecond}
		for i, seconds := range c.Bandwidth.RoundsSeconds {
			if i < len(c.Bandwidth.RoundsOperations) && seconds > 0 {
				b.BytesPerSecond = max(b.BytesPerSecond, float64(c.Bandwidth.RoundsOperations[i])*float64(c.TotalBytes)/seconds)
			}
		}
		c.Bandwidth = &b
		key := fmt.Sprint(c.Label, c.Definition, c.Operation, c.Direction, c.Settings["request"], c.TotalBytes, c.Descriptors, c.PieceBytes, c.Pattern, c.Depth, c.Streams, c.Concurrency,
			c.InitiatorMemory, c.TargetMemory)
		i, have := at[key]
		switch {
		case !have:
			at[key], out = len(out), append(out, c)
		case b.BytesPerSecond > out[i].Bandwidth.BytesPerSecond:
			out[i] = c
		}
	}
	return out
}

// middle is the median; values must not be empty.
func middle(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return math.NaN()
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

// told reads result files and says on standard error what their reader will find wrong with them: a run that was cut off, or was stopped.
func told(env *Env, paths ...string) ([]results.Run, error) {
	runs, err := results.ReadFiles(paths...)
	if err != nil {
		return nil, err
	}
	remark(env, runs)
	return runs, nil
}

// remark says of each run what its file's reader warned of, and whether it was stopped.
func remark(env *Env, runs []results.Run) {
	for _, r := range runs {
		for _, w := range r.Warnings {
			fmt.Fprintf(env.Stderr, "hopbench: %s\n", w)
		}
		if r.Footer != nil && r.Footer.State != results.StateComplete {
			why := ""
			if r.Footer.Reason != "" {
				why = ": " + r.Footer.Reason
			}
			fmt.Fprintf(env.Stderr, "hopbench: %s: the run is %s%s\n", r.File, r.Footer.State, why)
		}
	}
}

// cellsOf is the cells of runs.
func cellsOf(runs []results.Run) []results.Cell {
	var cells []results.Cell
	for _, r := range runs {
		cells = append(cells, r.Cells...)
	}
	return cells
}
