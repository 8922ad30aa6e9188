package matrix

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

func sizeText(k results.Identity) string {
	s := unit.Bytes(k.TotalBytes)
	if k.Descriptors > 1 {
		s += fmt.Sprintf(" in %d pieces", k.Descriptors)
	}
	return s
}

// Name is what the finding is of: "host n5", "n1 to n2", "rail mlx5_1", "switch group leaf3".
func (f Finding) Name() string {
	var s string
	switch f.Kind {
	case Pair:
		if s = f.Host + " to " + f.Peer; f.Role == "both" {
			s = f.Host + " and " + f.Peer
		}
		s = "pair " + s
	case Host:
		s = "host " + f.Host
	case Rail:
		return "rail " + f.Rail
	case Group:
		if s = "switch group " + f.Group; f.Other != "" && f.Other != f.Group {
			s = "switch groups " + f.Group + " and " + f.Other + " with each other"
		} else if f.Other != "" {
			s = "switch group " + f.Group + " within itself"
		}
	}
	if f.Rail != "" {
		s += ", rail " + f.Rail
	}
	return s
}

// Suspect is the name without the rail of a pair, host or switch group: findings of the same on several rails are gathered by it.
func (f Finding) Suspect() string {
	if f.Kind != Rail {
		f.Rail = ""
	}
	return f.Name()
}

// Suspect is what failed, as Suspects names it.
func (f Failure) Suspect() string {
	if f.Peer == "" {
		return "host " + f.Host
	}
	return "pair " + f.Host + " to " + f.Peer
}

// Figure is a figure of the layer as people read it.
func (l *Layer) Figure(v float64) string {
	if l.Latency() {
		return unit.Seconds(v)
	}
	return unit.Rate(v)
}

// Text is the finding as a sentence; definition, operation and size are the report's.
func (f Finding) Text(l *Layer) string {
	amount := fmt.Sprintf("%.0f %% slower", -100*f.Change)
	if l.Latency() {
		amount = fmt.Sprintf("%+.0f %%", 100*f.Change)
	}
	s := fmt.Sprintf("%s: %s where the others let expect %s, %s", f.Name(), l.Figure(f.Value), l.Figure(f.Expected), amount)
	if how := f.How(l); how != "" {
		s += ", " + how
	}
	return s
}

// How says in which of its figures it is slow.
func (f Finding) How(l *Layer) string {
	var s string
	switch {
	case len(f.Peers) > 0:
		return fmt.Sprintf("with %d of the %d it was measured with: %s", f.Slow, f.Of, some(f.Peers, 6))
	case f.Kind == Pair && f.Role == "initiator" && f.Of == 2:
		return "that way alone"
	case f.Kind == Pair && f.Role == "both":
		return "both ways"
	case f.Kind == Pair:
		return ""
	case f.Role == "both":
		s = fmt.Sprintf("in %d of %d figures", f.Slow, f.Of)
	default:
		s = fmt.Sprintf("as %s alone, in %d of %d figures", side(l.Key, f.Role), f.Slow, f.Of)
	}
	if len(f.Hosts) > 0 {
		s += ": " + some(f.Hosts, 6)
	}
	return s
}

// side says what the initiator or the target does with the bytes.
func side(k results.Identity, role string) string {
	if strings.HasPrefix(k.Definition, "latency") || k.Direction == "both" {
		return role
	}
	if sends := (k.Operation == "read") == (role == "target"); sends {
		return role + " (it sends)"
	}
	return role + " (it receives)"
}

// Suspect is what the findings of all matrices say of one thing.
type Suspect struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Says are the sentences of the matrices that show it, the largest change first, and Of the matrices that could have.
	Says []string `json:"says"`
	Of   int      `json:"of"`
	// Worst is the largest change, as a part of what is expected: of a bandwidth below 0, of a latency above.
	Worst float64 `json:"worst_change"`
}

// Suspects gathers the findings of all reports: one entry for each pair, host, rail or switch group, what explains most first, and what failed
// altogether before.
func Suspects(reports []Report) []Suspect {
	at := map[string]int{}
	var out []Suspect
	order := map[string]int{"failed": 0, Group: 1, Rail: 2, Host: 3, Pair: 4, "failed pair": 5}
	add := func(name, kind, says string, change float64) {
		k, ok := at[kind+name]
		if !ok {
			k = len(out)
			at[kind+name] = k
			out = append(out, Suspect{Name: name, Kind: kind, Of: len(reports)})
		}
		s := &out[k]
		if math.Abs(change) > math.Abs(s.Worst) {
			s.Worst = change
			s.Says = append([]string{says}, s.Says...)
			return
		}
		if !slices.Contains(s.Says, says) {
			s.Says = append(s.Says, says)
		}
	}
	for _, r := range reports {
		for _, f := range r.Failures {
			if f.Peer == "" {
				add(f.Suspect(), "failed", fmt.Sprintf("nothing with host %s has a figure: %s", f.Host, f.Reason), 0)
			} else {
				add(f.Suspect(), "failed pair", fmt.Sprintf("%s to %s failed: %s", f.Host, f.Peer, f.Reason), 0)
			}
		}
		for _, f := range r.Findings {
			add(f.Suspect(), f.Kind, f.Text(r.Layer)+" ("+r.Title+")", f.Change)
		}
	}
	slices.SortStableFunc(out, func(a, b Suspect) int {
		return cmp.Or(cmp.Compare(order[a.Kind], order[b.Kind]), cmp.Compare(math.Abs(b.Worst), math.Abs(a.Worst)))
	})
	return out
}
