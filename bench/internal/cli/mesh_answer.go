package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"hopbench/harness/mesh"
	"hopbench/harness/mesh/schedule"
	"hopbench/results"
	"hopbench/results/matrix"
	"hopbench/results/table"
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
	waivedAll             []string // transports that cannot be used, and why
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
	if c.Rail == mesh.SumOf && c.InitiatorHost == "" { // of flows whose rows are counted already
		s := sum{Schedule: c.Schedule, Title: fmt.Sprintf("%s %s of %s", c.Transport, c.Operation, unit.Bytes(c.TotalBytes)), Reason: c.Reason}
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
	return t.mesh.Add(c)
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
		Pattern: l.Pattern, Reports: t.mesh.Reports(matrix.Judge{}), Loads: t.mesh.Loads(), Sums: t.sums, Spread: t.spread, Cells: t.cells, Failed: t.failed, Waived: t.waivedAll,
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
	if a.Moves != nil {
		fmt.Fprintf(&b, "The byte matrix's %s are moved after %s at most; the last pair is %s (%s).\n", unit.Bytes(int64(a.Moves.Bytes)), unit.Seconds(a.Moves.Seconds), a.Moves.Last, a.Moves.Basis)
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
