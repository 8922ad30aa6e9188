package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"hopbench/harness/control"
	"hopbench/harness/mesh"
	"hopbench/results"
	"hopbench/results/matrix"
	"hopbench/results/table"
	"hopbench/results/unit"
	"hopbench/transports/fault"
)

// tally is what rank 0 keeps of the rows: the matrices, the sums, and how many failed. No row is kept.
type tally struct {
	mesh  *matrix.Mesh
	moved []*move // of a byte matrix: one a transport, operation and direction

	cells, failed, waived int
	status                int // exit status of the first failure
	firstFailed           string
	firstWaived           string
	code                  string
	waivedAll             []string // transports that cannot be used, and why
	sums                  []sum
	spread                float64  // the largest of the rows, in seconds
	gone                  []string // ranks that are no longer there, and how that was seen
	known                 map[int]bool
	asked                 int // failed cells for which the ranks have been asked for a sign
}

// sum is the row of several flows together.
type sum struct {
	Schedule string  `json:"schedule"`
	Title    string  `json:"title"`
	Rate     float64 `json:"bytes_per_second"`
	Reason   string  `json:"reason,omitempty"`
}

func (t *tally) add(c *results.Cell) error {
	if c.Rail == mesh.SumOf && c.InitiatorHost == "" { // of flows whose rows are counted already
		s := sum{Schedule: c.Schedule, Title: sumTitle(c), Reason: c.Reason}
		if c.Bandwidth != nil {
			s.Rate = c.Bandwidth.BytesPerSecond
		}
		t.sums = append(t.sums, s)
		return nil
	}
	t.cells++
	what := fmt.Sprintf("%s to %s: %s", c.InitiatorHost, c.TargetHost, c.Reason)
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
	if c.Schedule == mesh.Moved {
		t.move(c)
	}
	return t.mesh.Add(c)
}

// sumTitle is what the flows do, with everything in which rows of one mesh differ.
func sumTitle(c *results.Cell) string {
	s := fmt.Sprintf("%s %s of %s", c.Transport, c.Operation, unit.Bytes(c.TotalBytes))
	if c.Descriptors > 1 {
		s += fmt.Sprintf(" in %d pieces", c.Descriptors)
	}
	if c.Pattern != "" && c.Pattern != "contiguous" {
		s += ", " + c.Pattern
	}
	if c.Concurrency > 1 {
		s += fmt.Sprintf(", %d at once", c.Concurrency)
	}
	if c.Direction != "" && c.Direction != "forward" {
		s += ", " + c.Direction
	}
	return s
}

// missed asks the ranks for a sign after a cell has failed, and tells once of each that gives none. No loop may run meanwhile.
func (t *tally) missed(ctx context.Context, m *mesh.Mesh, say func(string)) {
	if t.failed == t.asked || ctx.Err() != nil {
		return
	}
	t.asked = t.failed
	limited, cancel := context.WithTimeout(ctx, signLimit)
	defer cancel()
	gone := m.Alive(limited)
	for _, member := range m.Members {
		err := gone[member.Number]
		if err == nil || t.known[member.Number] {
			continue
		}
		if t.known == nil {
			t.known = map[int]bool{}
		}
		t.known[member.Number] = true
		how := "its control connection ended"
		if code := fault.CodeOf(err); code == fault.PeerDeadline {
			how = "it gives no sign"
		}
		text := fmt.Sprintf("%v is gone: %s", member.Member, how)
		if strings.Contains(err.Error(), control.Interrupted) {
			text = fmt.Sprintf("%v was interrupted", member.Member)
		}
		t.gone = append(t.gone, text)
		say(t.gone[len(t.gone)-1])
	}
}

// header is the first record of the result file.
func (f *meshFlags) header(me place, m *mesh.Mesh) (*results.Header, error) {
	encoded, err := json.Marshal(f.plans[0])
	if err != nil {
		return nil, err
	}
	tool, commit := toolVersion()
	seed := int64(f.plans[0].Seed)
	h := &results.Header{
		Schema: results.Schema, ToolVersion: tool, ToolCommit: commit, Started: f.env.Now(), Plan: encoded, Seed: &seed,
		Hosts: []results.Host{}, Settings: processSettings(), Command: append([]string{"hopbench"}, f.env.args...),
	}
	h.Settings["mesh_pattern"], h.Settings["mesh_size"] = f.pattern, strconv.Itoa(m.Size)
	h.Settings["mesh_rank_source"] = me.Source
	for _, member := range m.Members {
		host := member.Fingerprint
		host.Role, host.ToolVersion = fmt.Sprintf("rank %d", member.Number), tool
		h.Hosts = append(h.Hosts, host)
		rank := fmt.Sprintf("mesh_rank_%d", member.Number)
		if member.Name != host.Hostname {
			h.Settings[rank+"_name"] = member.Name
		}
		if member.Chosen != "" {
			h.Settings[rank+"_devices"] = member.Chosen
		}
	}
	for _, missing := range m.Missing {
		h.Settings[fmt.Sprintf("mesh_rank_%d_missing", missing.Number)] = missing.String()
	}
	return h, nil
}

// verdict is the exit status of a whole mesh.
func (f *meshFlags) verdict(t *tally) error {
	switch {
	case t.failed > 0 && len(t.gone) > 0: // a pair's own words would blame whichever of its two ranks is still there
		pair, _, _ := strings.Cut(t.firstFailed, ": ")
		f.say(fmt.Sprintf("%s; %d of %d cells failed, the first %s", strings.Join(t.gone, "; "), t.failed, t.cells, pair))
		return exitError{code: t.status}
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
	Waived   []string         `json:"waived,omitempty"`
	Suspects []matrix.Suspect `json:"suspects"`
	Reports  []matrix.Report  `json:"reports"`
	Loads    []matrix.Load    `json:"loads,omitempty"`
	Sums     []sum            `json:"sums,omitempty"`
	Moves    []*move          `json:"byte_matrix,omitempty"`
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

// move is what it takes to move a byte matrix, all pairs begun together: the time of the last pair.
type move struct {
	What    string  `json:"what"`
	Bytes   int64   `json:"bytes"` // of a round, over all pairs
	Pairs   int     `json:"pairs"`
	Rounds  int     `json:"rounds"`
	Seconds float64 `json:"seconds,omitempty"` // median over the rounds of the last pair's time, by its initiator's clock
	Last    string  `json:"last,omitempty"`    // the pair that was last in that round
	Failed  string  `json:"failed,omitempty"`  // the first pair without a figure: the matrix was never moved

	last []finish
}

// finish is when a round was done, and by which pair.
type finish struct {
	seconds float64
	pair    string
}

// move takes one pair's part of a byte matrix.
func (t *tally) move(c *results.Cell) {
	what := fmt.Sprintf("%s, %s %s", c.Label, c.Operation, c.Direction)
	if c.Direction == "forward" {
		what = fmt.Sprintf("%s, %s", c.Label, c.Operation)
	}
	var m *move
	for _, known := range t.moved {
		if known.What == what {
			m = known
		}
	}
	if m == nil {
		m = &move{What: what}
		t.moved = append(t.moved, m)
	}
	pair := c.InitiatorHost + " to " + c.TargetHost
	m.Pairs++
	m.Bytes += c.TotalBytes
	if c.Bandwidth == nil || len(c.Bandwidth.RoundsSeconds) == 0 || m.Rounds > 0 && m.Rounds != len(c.Bandwidth.RoundsSeconds) {
		if m.Failed == "" {
			m.Failed = pair
		}
		return
	}
	if m.Rounds == 0 {
		m.Rounds, m.last = len(c.Bandwidth.RoundsSeconds), make([]finish, len(c.Bandwidth.RoundsSeconds))
	}
	for i, s := range c.Bandwidth.RoundsSeconds {
		if s > m.last[i].seconds {
			m.last[i] = finish{s, pair}
		}
	}
}

// settle makes the answer of all rounds.
func (m *move) settle() {
	if m.Failed != "" || len(m.last) == 0 {
		return
	}
	slices.SortFunc(m.last, func(a, b finish) int { return cmp.Compare(a.seconds, b.seconds) })
	middle := m.last[(len(m.last)-1)/2]
	m.Seconds, m.Last = middle.seconds, middle.pair
}

// answer prints what came out.
func (f *meshFlags) answer(m *mesh.Mesh, l *mesh.Layout, t *tally) error {
	a := answered{
		Pattern: l.Pattern, Reports: t.mesh.Reports(matrix.Judge{}), Loads: t.mesh.Loads(), Sums: t.sums, Spread: t.spread, Cells: t.cells, Failed: t.failed, Waived: t.waivedAll,
	}
	a.Suspects = matrix.Suspects(a.Reports)
	for _, member := range m.Members {
		a.Ranks = append(a.Ranks, answeredRank{member.Number, member.Host, member.Name, member.Address.String(), member.Chosen})
	}
	for _, missing := range m.Missing {
		a.Missing = append(a.Missing, missing.String())
	}
	for _, moved := range t.moved {
		moved.settle()
	}
	a.Moves = t.moved
	if f.run.json {
		e := json.NewEncoder(f.env.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(a)
	}
	return a.write(f.env.Stdout, t.mesh)
}

// write prints the answer as tables, with what belongs to none of them beneath.
func (a *answered) write(w io.Writer, m *matrix.Mesh) error {
	p := table.Page{Tables: table.Meshes(m, matrix.Judge{}, table.Text), Waived: a.Waived}
	if len(a.Sums) > 0 {
		t := &table.Table{Title: "All flows together", Columns: []table.Column{{Head: "schedule"}, {Head: "what"}, {Head: "sum", Align: table.Right}}}
		for _, s := range a.Sums {
			rate := "failed"
			if s.Reason == "" {
				rate = unit.Rate(s.Rate)
			} else {
				t.Below = append(t.Below, s.Reason)
			}
			t.Rows = append(t.Rows, []table.Cell{{Text: s.Schedule}, {Text: s.Title}, {Text: rate}})
		}
		p.Tables = append(p.Tables, t)
	}
	if err := p.Write(w, table.Options{Format: table.Text, Width: 120}); err != nil {
		return err
	}
	var b strings.Builder
	for _, m := range a.Moves {
		if m.Failed != "" {
			fmt.Fprintf(&b, "%s: the byte matrix was never moved whole: %s has no figure.\n", m.What, m.Failed)
			continue
		}
		fmt.Fprintf(&b, "%s: the byte matrix's %s are moved in %s, median of %d rounds in which its %d pairs begin together; the last then is %s.\n",
			m.What, unit.Bytes(m.Bytes), unit.Seconds(m.Seconds), m.Rounds, m.Pairs, m.Last)
	}
	if a.Spread > 0 {
		fmt.Fprintf(&b, "The loops of flows that ran at once began at most %s apart, by the clock of rank 0.\n", unit.Seconds(a.Spread))
	}
	for _, missing := range a.Missing {
		fmt.Fprintf(&b, "Left out: %s.\n", missing)
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(w, "\n"+b.String())
	return err
}
