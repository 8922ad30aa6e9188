package curve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

// FromCells makes the curves that result cells hold: one for each path (its
// label, memories, GPU ways, distances, rail) and operation, ordered by
// transport, label and operation. skipped says which cells were not used, and
// why. Cells of a test double are an error: no figure may come of them.
func FromCells(cells []results.Cell) (curves []*Curve, skipped []string, err error) {
	if cells, err = (Selection{}).Take(cells); err != nil { // of a mesh: the median pair
		return nil, nil, err
	}
	type place struct {
		size, count, parallel float64
		rate                  bool
		mix                   string
	}
	type group struct {
		points map[place]ranked
		order  []place
		spread spread
	}
	groups := map[Origin]*group{}
	why := map[string]int{}
	for i := range cells {
		c := &cells[i]
		if c.Realm == results.RealmDouble {
			return nil, nil, fmt.Errorf("curve: cell %d (%s) was measured through a test double", i+1, c.Label)
		}
		p, rank, reason := point(c)
		if reason != "" {
			why[reason]++
			continue
		}
		o := origin(c)
		g := groups[o]
		if g == nil {
			g = &group{points: map[place]ranked{}}
			groups[o] = g
		}
		g.spread.add(Times(c))
		key := place{p.PieceBytes, p.Descriptors, p.Parallel, p.Rate, ""}
		if len(p.Mix) > 1 {
			key.mix = mixKey(p.Mix)
		}
		old, have := g.points[key]
		if !have {
			g.order = append(g.order, key)
		}
		if !have || rank > old.rank {
			g.points[key] = ranked{p, rank}
		}
	}
	for o, g := range groups {
		var points []Point
		for _, k := range g.order {
			points = append(points, g.points[k].Point)
		}
		c, err := New(o, points)
		if err != nil {
			return nil, nil, err
		}
		c.spread = g.spread
		curves = append(curves, c)
	}
	slices.SortFunc(curves, func(a, b *Curve) int {
		return strings.Compare(a.Origin.key(), b.Origin.key())
	})
	for reason, n := range why {
		skipped = append(skipped, unit.Count(n, "cell")+": "+reason)
	}
	slices.Sort(skipped)
	return curves, skipped, nil
}

type ranked struct {
	Point
	rank int
}

func (o Origin) key() string {
	return strings.Join([]string{o.Transport, o.Label, o.Operation, o.Memory[0], o.Memory[1], o.GPUWay[0], o.GPUWay[1],
		o.PCIDistance[0], o.PCIDistance[1], o.NUMANode[0], o.NUMANode[1], o.Rail, o.Provenance, o.Source}, "\x00")
}

func origin(c *results.Cell) Origin {
	o := Origin{
		Transport: c.Transport, Label: c.Label, Realm: c.Realm, Operation: c.Operation,
		Memory: [2]string{c.InitiatorMemory, c.TargetMemory}, GPUWay: [2]string{c.InitiatorGPUWay, c.TargetGPUWay},
		Rail: c.Rail, Provenance: c.Provenance, Source: c.Source,
	}
	if o.Label == "" {
		o.Label = c.Transport
	}
	if o.Provenance == "" {
		o.Provenance = results.Measured
	}
	if c.Path != nil {
		for i, s := range []*results.Side{c.Path.Initiator, c.Path.Target} {
			if s == nil {
				continue
			}
			o.PCIDistance[i] = s.PCIDistance
			if s.NUMANode != nil {
				o.NUMANode[i] = strconv.FormatInt(*s.NUMANode, 10)
			}
		}
	}
	return o
}

// point turns a cell into a point, or says why it is none. Of two cells at the
// same place the one with the higher rank is used: a notified bandwidth is what
// a decode worker waits for, and best pipelines are the deepest.
func point(c *results.Cell) (p Point, rank int, reason string) {
	switch {
	case !c.HasFigure():
		return p, 0, "no figure (" + c.Status + ")"
	case c.Direction != "" && c.Direction != "forward":
		return p, 0, "direction " + c.Direction
	case c.View != "":
		return p, 0, "another tool's view of a cell that is already here"
	case c.RateBytesPerSecond != nil:
		return p, 0, "held to a rate"
	case c.Schedule != "" && c.Schedule != "isolated":
		return p, 0, "schedule " + c.Schedule
	case c.PieceBytes <= 0:
		return p, 0, "no size"
	}
	n := max(1, c.Descriptors)
	total := float64(c.TotalBytes)
	if total <= 0 {
		total = float64(c.PieceBytes) * float64(n)
	}
	p = Point{PieceBytes: float64(c.PieceBytes), Descriptors: float64(n), Parallel: float64(max(1, c.Concurrency))}
	if len(c.Pieces) > 1 {
		p.PieceBytes = total / float64(n)
		for _, g := range c.Pieces {
			if g.SizeBytes <= 0 || g.Count <= 0 {
				return p, 0, "pieces without a size"
			}
			p.Mix = append(p.Mix, Shape{PieceBytes: float64(g.SizeBytes), Count: float64(g.Count)})
		}
	}
	switch c.Metric() {
	case "latency":
		if c.Latency == nil || c.Latency.P50Seconds == nil || *c.Latency.P50Seconds <= 0 {
			return p, 0, "no median latency"
		}
		if c.Depth > 1 {
			return p, 0, "latency of a pipeline"
		}
		p.Seconds = *c.Latency.P50Seconds
		if l := c.Latency; l.P50LowSeconds != nil && l.P50HighSeconds != nil {
			p.Low, p.High = *l.P50LowSeconds, *l.P50HighSeconds
		}
		if strings.HasSuffix(c.Definition, ".completion") {
			rank = 1
		}
		return p, rank, ""
	case "bandwidth":
		b := c.Bandwidth
		if b == nil || b.BytesPerSecond <= 0 {
			return p, 0, "no bandwidth"
		}
		rank = int(min(c.Depth, 1<<20))
		if strings.HasSuffix(c.Definition, ".notified") {
			rank += 1 << 21
		}
		bytes := total * p.Parallel
		// Requests at once are each on a stream of their own, one after the other:
		// the streams are then no second number. Streams without requests, or
		// operations in flight, make a pipeline.
		together := c.Concurrency > 1 && c.Depth <= 1
		if alone := c.Depth <= 1 && c.Streams <= 1; !together && (c.Depth > 1 || n == 1 && !alone) {
			if len(p.Mix) > 1 {
				return p, 0, "pieces of several sizes, several requests in flight"
			}
			p.Rate = true
			p.Descriptors = 1
			p.PieceBytes = total / float64(n)
			p.Parallel = float64(max(1, c.Streams, c.Concurrency))
			bytes = p.PieceBytes
			if n > 1 {
				rank -= 1 << 22 // a plain sweep says the same with less in it
			}
		} else if !together && c.Streams > 1 {
			p.Parallel = float64(c.Streams)
			bytes = total * p.Parallel
		}
		p.Seconds = bytes / b.BytesPerSecond
		if b.Low != nil && b.High != nil && *b.Low > 0 {
			p.Low, p.High = bytes / *b.High, bytes / *b.Low
		}
		return p, rank, ""
	}
	return p, 0, "definition " + c.Definition
}
