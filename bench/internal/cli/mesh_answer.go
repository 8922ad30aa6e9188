package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"hopbench/harness/mesh"
	"hopbench/harness/mesh/schedule"
	"hopbench/results"
	"hopbench/results/matrix"
	"hopbench/results/unit"
	"hopbench/transports/fault"
)

// tally is what rank 0 keeps of the rows: the matrices, the sums, and how many failed. No row is kept.
type tally struct {
	mesh  *matrix.Mesh
	bytes map[schedule.Pair]uint64 // of a byte matrix

	cells, failed, waived int
	status                int // exit status of the first failure
	firstFailed           string
	firstWaived           string
	code                  string
	sums                  []sum
	spread                float64 // the largest of the rows, in seconds
}

// sum is the row of several flows together.
type sum struct {
	Schedule string  `json:"schedule"`
	Title    string  `json:"title"`
	Rate     float64 `json:"bytes_per_second"`
	Reason   string  `json:"reason,omitempty"`
}

func (t *tally) add(c *results.Cell) error {
	t.cells++
	what := c.Transport + ": " + c.Reason
	if c.InitiatorHost != "" {
		what = fmt.Sprintf("%s to %s: %s", c.InitiatorHost, c.TargetHost, c.Reason)
	}
	switch c.Status {
	case results.StatusFailed:
		if t.failed++; t.failed == 1 {
			t.firstFailed, t.code, t.status = what, c.Code, 1
			if row, ok := fault.Lookup(fault.Code(c.Code)); ok && row.Class == fault.Usage {
				t.status = 2
			}
		}
	case results.StatusWaived:
		if t.waived++; t.waived == 1 {
			t.firstWaived = what
		}
	}
	var seconds float64
	if _, err := fmt.Sscanf(c.Settings["start_spread_seconds"], "%g", &seconds); err == nil {
		t.spread = max(t.spread, seconds)
	}
	if c.Rail == mesh.SumOf && c.InitiatorHost == "" {
		s := sum{Schedule: c.Schedule, Title: fmt.Sprintf("%s %s of %s", c.Transport, c.Operation, unit.Bytes(c.TotalBytes)), Reason: c.Reason}
		if c.Bandwidth != nil {
			s.Rate = c.Bandwidth.BytesPerSecond
		}
		t.sums = append(t.sums, s)
	}
	return t.mesh.Add(c)
}

// verdict is the exit status of a whole mesh.
func (f *meshFlags) verdict(t *tally) error {
	switch {
	case t.failed > 0:
		f.say(fmt.Sprintf("%d of %d cells failed; the first: %s", t.failed, t.cells, t.firstFailed))
		if t.code != "" {
			f.say(fmt.Sprintf("`hopbench doctor --explain %s` says more", t.code))
		}
		return exitError{code: t.status}
	case t.waived > 0 && t.waived == t.cells:
		f.say(t.firstWaived)
		return exitError{code: 3}
	}
	return nil
}

// answered is the answer as a program reads it.
type answered struct {
	Pattern  string           `json:"pattern"`
	Ranks    []answeredRank   `json:"ranks"`
	Missing  []string         `json:"missing,omitempty"`
	Suspects []matrix.Suspect `json:"suspects"`
	Reports  []matrix.Report  `json:"reports"`
	Loads    []matrix.Load    `json:"loads,omitempty"`
	Sums     []sum            `json:"sums,omitempty"`
	Moves    *move            `json:"byte_matrix,omitempty"`
	Spread   float64          `json:"start_spread_seconds,omitempty"` // the largest
	Cells    int              `json:"cells"`
	Failed   int              `json:"failed"`
}

type answeredRank struct {
	Rank    int    `json:"rank"`
	Host    string `json:"host"`
	Name    string `json:"name"`
	Address string `json:"address"`
	Chosen  string `json:"devices,omitempty"`
}

// move is when the pairs of a byte matrix would be done with their bytes at the rates that they have together.
type move struct {
	Bytes   uint64  `json:"bytes"`
	Seconds float64 `json:"seconds"` // of the last
	Last    string  `json:"last"`
	Basis   string  `json:"basis"`
}

// answer prints what came out.
func (f *meshFlags) answer(m *mesh.Mesh, l *mesh.Layout, t *tally) error {
	a := answered{
		Pattern: l.Pattern, Reports: t.mesh.Reports(matrix.Judge{}), Loads: t.mesh.Loads(), Sums: t.sums, Spread: t.spread, Cells: t.cells, Failed: t.failed,
	}
	a.Suspects = matrix.Suspects(a.Reports)
	for _, member := range m.Members {
		a.Ranks = append(a.Ranks, answeredRank{member.Number, member.Host, member.Name, member.Address.String(), member.Chosen})
	}
	for _, missing := range m.Missing {
		a.Missing = append(a.Missing, missing.String())
	}
	a.Moves = t.moves(m)
	if f.run.json {
		e := json.NewEncoder(f.env.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(a)
	}
	return a.write(f.env.Stdout, t.mesh)
}

// moves is the byte matrix's answer: the time of each pair's bytes at its rate in the loaded stage. Flows that are done early leave room
// for the others, which is not in it: it errs to the long side.
func (t *tally) moves(m *mesh.Mesh) *move {
	if t.bytes == nil {
		return nil
	}
	var loaded *matrix.Layer
	for _, l := range t.mesh.Layers() {
		if !l.Latency() && l.Key.Schedule == "matrix" && (loaded == nil || l.Key.TotalBytes > loaded.Key.TotalBytes) {
			loaded = l
		}
	}
	if loaded == nil {
		return nil
	}
	names := m.Names()
	out := &move{Basis: "each pair's bytes at its rate beside all others, for all of the time"}
	for pair, bytes := range t.bytes {
		out.Bytes += bytes
		p := loaded.At(names[pair.From], names[pair.To])
		if p.Status != results.StatusOK {
			return nil // a pair without a rate is never done
		}
		if s := float64(bytes) / p.Value; s > out.Seconds {
			out.Seconds, out.Last = s, names[pair.From]+" to "+names[pair.To]
		}
	}
	return out
}

// mostLoads is how many flows of a load are printed one by one.
const mostLoads = 16

func (a *answered) write(w io.Writer, m *matrix.Mesh) error {
	var b strings.Builder
	for _, r := range a.Reports {
		writeMatrix(&b, r)
	}
	for _, load := range a.Loads {
		writeLoad(&b, load)
	}
	for _, s := range a.Sums {
		if s.Reason != "" {
			fmt.Fprintf(&b, "%s, all flows together: %s: no figure: %s\n", s.Schedule, s.Title, s.Reason)
			continue
		}
		fmt.Fprintf(&b, "%s, all flows together: %s: %s\n", s.Schedule, s.Title, unit.Rate(s.Rate))
	}
	if a.Moves != nil {
		fmt.Fprintf(&b, "byte matrix: %s are moved after %s at most; the last is %s (%s)\n", unit.Bytes(int64(a.Moves.Bytes)), unit.Seconds(a.Moves.Seconds), a.Moves.Last, a.Moves.Basis)
	}
	if a.Spread > 0 {
		fmt.Fprintf(&b, "flows that ran at once began at most %s apart\n", unit.Seconds(a.Spread))
	}
	b.WriteByte('\n')
	if len(a.Suspects) == 0 {
		b.WriteString("nothing is out of line\n")
	}
	for _, s := range a.Suspects {
		fmt.Fprintf(&b, "%s (in %d of %d matrices)\n", s.Name, len(s.Says), s.Of)
		for _, says := range s.Says {
			fmt.Fprintf(&b, "  %s\n", says)
		}
	}
	for _, r := range a.Reports {
		for _, d := range r.Doubts {
			fmt.Fprintf(&b, "%s: %s\n", r.Title, d)
		}
	}
	for _, missing := range a.Missing {
		fmt.Fprintf(&b, "left out: %s\n", missing)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeLoad says what flows did to each other.
func writeLoad(b *strings.Builder, l matrix.Load) {
	fmt.Fprintf(b, "%s, against each pair alone:\n", l.Title)
	figure := unit.Rate
	if l.Loaded.Latency() {
		figure = unit.Seconds
	}
	for i, flow := range l.Flows {
		if i == mostLoads {
			fmt.Fprintf(b, "  and %d more\n", len(l.Flows)-i)
			break
		}
		fmt.Fprintf(b, "  %s to %s: alone %s, loaded %s, %.2f times slower\n", flow.Initiator, flow.Target, figure(flow.Alone), figure(flow.Loaded), flow.Slowdown)
	}
	var said []string
	if l.Slowdown != nil {
		said = append(said, fmt.Sprintf("slowdown %.2f (median), %.2f (largest)", l.Slowdown.Median, l.Slowdown.Max))
	}
	if l.Jain != nil {
		said = append(said, fmt.Sprintf("fairness (Jain) %.3f, of each flow's own %.3f", *l.Jain, *l.JainOfOwn))
	}
	if l.P99 != nil && l.P99Alone != nil {
		said = append(said, fmt.Sprintf("largest p99 %s, alone %s", unit.Seconds(*l.P99), unit.Seconds(*l.P99Alone)))
	}
	if l.Missing > 0 {
		said = append(said, fmt.Sprintf("%d flows have no figure", l.Missing))
	}
	if len(said) > 0 {
		fmt.Fprintf(b, "  %s\n", strings.Join(said, "; "))
	}
	b.WriteByte('\n')
}

// writeMatrix is one matrix as text: a row an initiator, a column a target.
func writeMatrix(b *strings.Builder, r matrix.Report) {
	fmt.Fprintf(b, "%s\n", r.Title)
}
