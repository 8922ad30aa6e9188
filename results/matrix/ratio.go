package matrix

import "hopbench/results"

// Ratio is what became of a pair's figure: the new over the old.
type Ratio struct {
	Initiator, Target string
	Value             float64
}

// Fewest says whether so many figures of so many hosts are enough to tell what became of a host from what became of a pair.
func Fewest(hosts, figures int) bool { return hosts >= fewest && figures >= 3*hosts }

// Ratios judges what became of a mesh as the figures of one are judged: what lost more than the others did is found, as a pair, a host or a switch group. For
// what became slower, less must be worse: latencies are handed in turned over, and for what became better all are turned over.
func Ratios(ratios []Ratio, j Judge) Report {
	m := New(Options{})
	for _, r := range ratios {
		// No error: a mesh of rows that fit in memory fits, and no row is of a double.
		_ = m.Add(&results.Cell{
			Definition: "bandwidth.ratio", Status: results.StatusOK, InitiatorHost: r.Initiator, TargetHost: r.Target, Realm: results.RealmHardware,
			Bandwidth: &results.Bandwidth{BytesPerSecond: r.Value},
		})
	}
	reports := m.Reports(j)
	if len(reports) == 0 {
		return Report{}
	}
	return reports[0]
}
