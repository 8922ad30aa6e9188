package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hopbench/results"
	"hopbench/results/matrix"
	"hopbench/results/stat"
)

// OfMesh is the verdict of a row that is judged with its mesh: what became of it is told of its hosts, or of all. A pair that changed by itself has a verdict
// of its own.
const OfMesh = "of_mesh"

// Mesh is what became of the pairs of one matrix: as a whole, and of hosts, switch groups and pairs against that.
type Mesh struct {
	Title   string   `json:"title"`
	Metric  string   `json:"metric"`
	Hosts   int      `json:"hosts"`
	Pairs   int      `json:"pairs"` // on both sides
	Whole   Shift    `json:"whole"` // without the hosts that changed by themselves
	Changes []Shift  `json:"changes,omitempty"`
	Doubts  []string `json:"doubts,omitempty"`
}

// Shift is a change of a mesh, or of a part of it.
type Shift struct {
	Name    string   `json:"name"`  // "all pairs", "host n5", "pair n1 to n4"
	Ratio   float64  `json:"ratio"` // new over old, the median of its pairs
	Low     *float64 `json:"ratio_low,omitempty"`
	High    *float64 `json:"ratio_high,omitempty"` // 95 %, over the medians of the hosts
	Verdict string   `json:"verdict"`
	Reason  string   `json:"reason,omitempty"`
}

// meshRows are the pairs of one matrix and metric.
type meshRows struct {
	key     results.Identity
	metric  string
	better  string
	minimum float64
	rows    []*Row
}

type meshKey struct {
	id     results.Identity
	metric string
}

// meshes are the matrices of a comparison.
type meshes struct {
	enough map[results.Identity]bool
	by     map[meshKey]*meshRows
	order  []*meshRows
}

// hostless is what the pairs of a matrix have in common; false where the identity is of no pair.
func hostless(id results.Identity) (results.Identity, bool) {
	if id.InitiatorHost == "" || id.TargetHost == "" {
		return id, false
	}
	id.InitiatorHost, id.TargetHost = "", ""
	if id.Direction == "reverse" { // the hosts say which way
		id.Direction = "forward"
	}
	return id, true
}

// meshesOf finds the matrices that have pairs enough on both sides to be judged as such. Smaller ones are rows like all others.
func meshesOf(pairs []pair) *meshes {
	m := &meshes{enough: map[results.Identity]bool{}, by: map[meshKey]*meshRows{}}
	hosts := map[results.Identity]map[string]bool{}
	figures := map[results.Identity]int{}
	for _, p := range pairs {
		key, ok := hostless(p.id)
		if !ok || p.row != nil || len(p.old.series) == 0 || len(p.new.series) == 0 {
			continue
		}
		if hosts[key] == nil {
			hosts[key] = map[string]bool{}
		}
		hosts[key][p.id.InitiatorHost], hosts[key][p.id.TargetHost] = true, true
		figures[key]++
	}
	for key, of := range hosts {
		m.enough[key] = matrix.Fewest(len(of), figures[key])
	}
	return m
}

// take takes the row of a pair into its matrix. It returns false where it stands for itself: a pair of no such matrix, or one that is missing on a side or failed.
func (m *meshes) take(p pair, row *Row, s *series) bool {
	key, ok := hostless(p.id)
	if !ok || !m.enough[key] || s == nil || len(p.old.broken)+len(p.new.broken) > 0 {
		return false
	}
	k := meshKey{key, row.Metric}
	if m.by[k] == nil {
		m.by[k] = &meshRows{key: key, metric: row.Metric, better: row.Better, minimum: s.minimum}
		m.order = append(m.order, m.by[k])
	}
	old, new := *medianOf(p.old.series[row.Metric]), *medianOf(p.new.series[row.Metric])
	ratio := new / old
	row.Old, row.New, row.Ratio, row.MinEffect, row.Verdict = &old, &new, &ratio, &s.minimum, OfMesh
	m.by[k].rows = append(m.by[k].rows, row)
	return true
}

// judge judges the matrices.
func (m *meshes) judge(o *Options) []Mesh {
	var out []Mesh
	for _, r := range m.order {
		if len(r.rows) == 0 || r.better == "" {
			continue
		}
		out = append(out, r.judge(o, len(m.order)))
	}
	return out
}

func (r *meshRows) judge(o *Options, many int) Mesh {
	title := CellName(r.key)
	m := Mesh{Title: title, Metric: r.metric, Pairs: len(r.rows)}
	minimum := r.minimum
	if minimum == 0 {
		minimum = 1e-9
	}
	// As logarithms, of which less is worse.
	sign := 1.0
	if r.better == "lower" {
		sign = -1
	}
	hosts := map[string][]float64{}
	for _, row := range r.rows {
		v := math.Log(*row.Ratio)
		hosts[row.InitiatorHost] = append(hosts[row.InitiatorHost], v)
		hosts[row.TargetHost] = append(hosts[row.TargetHost], v)
	}
	m.Hosts = len(hosts)
	for _, verdict := range []string{Worse, Better} {
		turn := sign
		if verdict == Better {
			turn = -sign
		}
		var ratios []matrix.Ratio
		for _, row := range r.rows {
			ratios = append(ratios, matrix.Ratio{Initiator: row.InitiatorHost, Target: row.TargetHost, Value: math.Exp(turn * math.Log(*row.Ratio))})
		}
		report := matrix.Ratios(ratios, matrix.Judge{Groups: o.Groups, MinEffect: minimum, FalseAlarm: o.Alpha / float64(4*many)})
		for _, f := range report.Findings {
			// Value over Expected is against the others; what it became is Value itself.
			s := Shift{Name: f.Name(), Ratio: math.Exp(turn * math.Log(f.Value)), Verdict: verdict}
			s.Reason = fmt.Sprintf("%s, where the others changed by %s", Change(s.Ratio), Change(math.Exp(turn*math.Log(f.Expected))))
			if len(f.Peers) > 0 {
				s.Reason += ", with " + strings.Join(f.Peers, ", ")
			}
			m.Changes = append(m.Changes, s)
			for _, h := range append(f.Hosts, f.Host) {
				if f.Kind != matrix.Pair {
					delete(hosts, h) // it speaks for itself
				}
			}
			if f.Kind != matrix.Pair {
				continue
			}
			for _, row := range r.rows {
				if row.InitiatorHost == f.Host && row.TargetHost == f.Peer || f.Role == "both" && row.InitiatorHost == f.Peer && row.TargetHost == f.Host {
					row.Verdict, row.Reason = verdict, "the pair alone: its hosts changed by "+Change(math.Exp(turn*math.Log(f.Expected)))
				}
			}
		}
		for _, d := range report.Doubts {
			if verdict == Worse && !strings.Contains(d, "not judged by themselves") {
				m.Doubts = append(m.Doubts, d)
			}
		}
	}
	var others []float64
	for _, row := range r.rows {
		if hosts[row.InitiatorHost] != nil && hosts[row.TargetHost] != nil {
			others = append(others, math.Log(*row.Ratio))
		}
	}
	m.Whole = whole(others, hosts, minimum, sign, o.Alpha/float64(2*many))
	slices.SortStableFunc(m.Changes, func(a, b Shift) int {
		return cmp.Or(-cmp.Compare(a.Verdict, b.Verdict), -cmp.Compare(math.Abs(math.Log(a.Ratio)), math.Abs(math.Log(b.Ratio))))
	})
	return m
}

// whole is what became of the mesh: the median of its pairs, with the interval of the hosts' medians, since the pairs of a host are alike beyond what chance makes them.
func whole(all []float64, hosts map[string][]float64, minimum, sign, alpha float64) Shift {
	s := Shift{Name: "all pairs", Verdict: Same, Ratio: 1}
	if len(all) == 0 {
		s.Verdict, s.Reason = Undecided, "every pair has a host that changed by itself"
		return s
	}
	s.Ratio = math.Exp(median(all))
	var of []float64
	for _, v := range hosts {
		of = append(of, median(v))
	}
	i, err := stat.Median(of, 1-alpha)
	if err != nil || i.Low == nil || i.High == nil {
		s.Verdict, s.Reason = Undecided, fmt.Sprintf("%d hosts are too few for an interval of their medians", len(of))
		return s
	}
	low, high := math.Exp(*i.Low), math.Exp(*i.High)
	s.Low, s.High = &low, &high
	least := -math.Log(1 - minimum)
	switch at := sign * median(all); {
	case at <= -least && sign**i.Low < 0 && sign**i.High < 0:
		s.Verdict = Worse
	case at >= least && sign**i.Low > 0 && sign**i.High > 0:
		s.Verdict = Better
	case *i.High-*i.Low > 6*least:
		s.Verdict, s.Reason = Undecided, "the interval is wider than three times the least change that matters"
	}
	return s
}

// shifts are the changes of all meshes with that verdict, worded.
func (r *Report) shifts(verdict string) []string {
	var out []string
	for _, m := range r.Meshes {
		for _, s := range append([]Shift{m.Whole}, m.Changes...) {
			if s.Verdict == verdict {
				out = append(out, fmt.Sprintf("%s %s (%s, %s)", s.Name, Change(s.Ratio), m.Title, m.Metric))
			}
		}
	}
	return out
}

// meshLines are the meshes as lines of text, the head of a report that has them.
func (r *Report) meshLines() []string {
	var out []string
	for _, m := range r.Meshes {
		bounds := ""
		if m.Whole.Low != nil && m.Whole.High != nil {
			bounds = fmt.Sprintf(" (hosts %+.1f … %+.1f %%)", 100*(*m.Whole.Low-1), 100*(*m.Whole.High-1))
		}
		line := fmt.Sprintf("%s %s: %d pairs of %d hosts: %s%s, %s", m.Title, m.Metric, m.Pairs, m.Hosts, Change(m.Whole.Ratio), bounds, strings.ReplaceAll(m.Whole.Verdict, "_", " "))
		if m.Whole.Reason != "" {
			line += ": " + m.Whole.Reason
		}
		out = append(out, line)
		const most = 16
		for i, s := range m.Changes {
			if i == most {
				out = append(out, fmt.Sprintf("  and %d more", len(m.Changes)-most))
				break
			}
			out = append(out, fmt.Sprintf("  %s: %s: %s", s.Name, s.Verdict, s.Reason))
		}
		if len(m.Changes) == 0 {
			out = append(out, "  no host and no pair by itself")
		}
		for _, d := range m.Doubts {
			out = append(out, "  "+d)
		}
	}
	return out
}
