package ttft

import (
	"fmt"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/sim"
)

// geometry answers what a prompt's KV is on the wire, by whole blocks, and
// remembers it: a trace of a million requests has some thousand lengths.
type geometry struct {
	model   *kvcache.Model
	options kvcache.Options
	block   int
	known   map[int]*kv
	bulk    bool // every cache at the best bandwidth that the link showed, without a cost of pieces
}

// kv is one prompt's cache on the wire.
type kv struct {
	layout *kvcache.Layout
	wire   float64 // bytes of all ranks
	// shape is what the binding NIC carries.
	shape   []curve.Shape
	binding float64
	egress  float64 // bytes of the busiest prefill NIC, ingress of the busiest decode NIC
	ingress float64
}

func newGeometry(m *kvcache.Model, o kvcache.Options) *geometry {
	b := o.BlockTokens
	if b <= 0 {
		b = 16
	}
	return &geometry{model: m, options: o, block: b, known: map[int]*kv{}}
}

// at is the cache of a prompt of n tokens.
func (g *geometry) at(n int) (*kv, error) {
	blocks := (n + g.block - 1) / g.block
	if k := g.known[blocks]; k != nil {
		return k, nil
	}
	o := g.options
	o.Tokens = int64(n)
	l, err := g.model.Layout(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.model.Name, err)
	}
	k := &kv{layout: l, wire: float64(l.WireBytes), binding: float64(l.Binding.Bytes)}
	for _, nic := range l.NICs {
		if b := float64(nic.Bytes); nic.Side == "prefill" {
			k.egress = max(k.egress, b)
		} else {
			k.ingress = max(k.ingress, b)
		}
	}
	k.shape = bindingShape(l)
	if k.wire <= 0 || len(k.shape) == 0 {
		return nil, fmt.Errorf("%s: a prompt of %d tokens has nothing to move", g.model.Name, n)
	}
	g.known[blocks] = k
	return k, nil
}

// bindingShape is what the binding NIC carries: the pieces of all flows over it.
func bindingShape(l *kvcache.Layout) []curve.Shape {
	count := map[int64]int64{}
	var order []int64
	for _, f := range l.Flows {
		nic := f.SourceNIC
		if l.Binding.Side == "decode" {
			nic = f.TargetNIC
		}
		if nic != l.Binding.NIC {
			continue
		}
		for _, d := range f.Descriptors {
			if count[d.SizeBytes] == 0 {
				order = append(order, d.SizeBytes)
			}
			count[d.SizeBytes] += d.Count
		}
	}
	var shape []curve.Shape
	for _, size := range order {
		if size > 0 && count[size] > 0 {
			shape = append(shape, curve.Shape{PieceBytes: float64(size), Count: float64(count[size])})
		}
	}
	return shape
}

// layerwise is the same cache sent a layer at a time: the pieces are those of
// the layout by layers, and each layer is a list of its own.
func layerOptions(o kvcache.Options, overlap sim.Overlap) kvcache.Options {
	if overlap == sim.Layerwise {
		o.Order = kvcache.ByLayer
		if o.Placement == kvcache.Packed {
			o.Placement = kvcache.Split
		}
	}
	return o
}

// lanes is how many requests have NICs of their own on one side of a worker.
func lanes(p kvcache.Parallel) int {
	if p.AttentionDP && p.DP == 0 {
		return max(1, p.TP)
	}
	return max(1, p.DP)
}
