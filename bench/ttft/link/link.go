// Package link is one way for KV to get from a prefill to a decode worker, with
// the time that it takes: measured cells, a source's reference figures, or
// figures that the user gives. Which of them a link is stands in it and is
// never lost. Sizes are bytes, times seconds; rates are those of one NIC in
// one direction.
package link

import (
	"fmt"
	"math"

	"hopbench/bench/ttft/curve"
	"hopbench/results"
)

// Link is one way. It is immutable.
type Link struct {
	Transport string
	Label     string // what a row is called; it says "reference" or "given" where that is so
	// Provenance is measured, reference, or given.
	Provenance string
	Source     string
	Operation  string // write or read where that was measured, else empty: either
	// Hypothetical is why the link cannot be had in an ordinary deployment.
	Hypothetical string
	Notes        []string

	curve *curve.Curve
	spec  Spec
	scale float64 // of the bandwidth; 1 for the link itself
}

// Spec is a link by its figures.
type Spec struct {
	// Low and High are the range of a NIC's bandwidth in bytes/s, one direction;
	// equal for a single figure. The middle is their geometric mean.
	Low, High float64
	// Latency is paid once a request.
	Latency float64
	// PerDescriptor is paid for each piece, one after the other and by all
	// requests together: the cost of an engine's one thread that posts them.
	PerDescriptor float64
}

// Measured makes a link of a measured curve.
func Measured(c *curve.Curve) *Link {
	o := c.Origin
	l := &Link{Transport: o.Transport, Label: o.Label, Provenance: o.Provenance, Source: o.Source, Operation: o.Operation, curve: c, scale: 1}
	if o.Realm != "" && o.Realm != results.RealmHardware {
		l.Notes = append(l.Notes, "measured over "+o.Realm+" and not over a real link")
	}
	if o.Provenance != results.Measured {
		l.Label += " (" + o.Provenance + ")"
	}
	return l
}

// Given makes a link of figures that the user states.
func Given(label string, s Spec) (*Link, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("link %s: %w", label, err)
	}
	return &Link{Transport: "given", Label: label + " (given)", Provenance: "given", Source: "figures given by the user", spec: s, scale: 1}, nil
}

func (s Spec) check() error {
	if !(s.Low > 0) || !(s.High >= s.Low) || math.IsInf(s.High, 0) {
		return fmt.Errorf("bandwidth from %g to %g bytes/s", s.Low, s.High)
	}
	if !(s.Latency >= 0) || math.IsInf(s.Latency, 0) {
		return fmt.Errorf("latency %g s", s.Latency)
	}
	if !(s.PerDescriptor >= 0) || math.IsInf(s.PerDescriptor, 0) {
		return fmt.Errorf("%g s a descriptor", s.PerDescriptor)
	}
	return nil
}

// References are the reference links of the field, from the results package's
// table, each with what must be known to read it. perDescriptor is added to
// each: the sources give none.
func References(perDescriptor float64) ([]*Link, error) {
	rows, err := results.References()
	if err != nil {
		return nil, err
	}
	var out []*Link
	for _, r := range rows {
		s := Spec{Low: r.LowBytesPerSecond, High: r.HighBytesPerSecond, PerDescriptor: perDescriptor}
		l := &Link{Transport: r.Transport, Label: r.Label + " (reference)", Provenance: results.FromSource, Source: r.Source + ", " + r.URL, scale: 1}
		if r.LatencySeconds != nil {
			s.Latency = *r.LatencySeconds
		} else {
			l.Notes = append(l.Notes, "the source gives no latency: taken as 0")
		}
		if r.Note != "" {
			l.Notes = append(l.Notes, r.Note)
		}
		l.Notes = append(l.Notes, trap(r.Transport)...)
		if r.Transport == "cuda-peer" {
			l.Hypothetical = "peer access needs one process, or pods that share a PID namespace and see each other's GPUs, or a multi-node NVLink domain with fabric handles: ordinary pods do not have it"
		}
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("reference %s: %w", r.Label, err)
		}
		l.spec = s
		out = append(out, l)
	}
	return out, nil
}

// trap says how the source's table misleads.
func trap(transport string) []string {
	switch transport {
	case "infiniband":
		return []string{"one direction of one port, 200 to 400 Gb/s; an 8-GPU node has up to eight. The same port speed gives RoCE the same bandwidth"}
	case "roce":
		return []string{"one direction of one port, 100 to 200 Gb/s: the source compares port speeds here, not protocols"}
	case "tcp":
		return []string{"one direction of one stream: published aggregates of many streams reach 36 to 41 GB/s (Mooncake, FAST'25, figure 12)"}
	}
	return nil
}

// Time is that of one request of the given pieces on one NIC while parallel
// of them run. With strict, what was not measured is refused (*curve.Outside);
// else it is noted.
func (l *Link) Time(shape []curve.Shape, parallel float64, strict bool) (curve.Answer, error) {
	var a curve.Answer
	if l.curve != nil {
		var err error
		if a, err = l.curve.At(shape, parallel, strict); err != nil {
			return a, err
		}
	} else {
		bytes, count := 0.0, 0.0
		for _, s := range shape {
			bytes += s.PieceBytes * s.Count
			count += s.Count
		}
		if !(bytes > 0) {
			return a, fmt.Errorf("link %s: an empty request", l.Label)
		}
		at := func(rate float64) float64 {
			return l.spec.Latency + parallel*(bytes/rate+count*l.spec.PerDescriptor)
		}
		a = curve.Answer{
			Seconds: at(math.Sqrt(l.spec.Low * l.spec.High)), Low: at(l.spec.High), High: at(l.spec.Low),
			Bounded: l.spec.High > l.spec.Low, Latency: l.spec.Latency,
		}
		if a.Bounded {
			a.Notes = append(a.Notes, "the interval is the source's range and not a confidence interval")
		}
	}
	if l.scale != 1 {
		faster := func(v float64) float64 { return a.Latency + max(0, v-a.Latency)/l.scale }
		a.Seconds, a.Low, a.High = faster(a.Seconds), faster(a.Low), faster(a.High)
	}
	return a, nil
}

// MaxParallel is the most requests at once that the link's figures cover; a
// link by its figures shares its bandwidth and needs no more than 1.
func (l *Link) MaxParallel() float64 {
	if l.curve == nil {
		return 1
	}
	return l.curve.MaxParallel()
}

// Bulk is the largest bandwidth of a NIC on the link in bytes/s.
func (l *Link) Bulk() float64 {
	if l.curve == nil {
		return math.Sqrt(l.spec.Low*l.spec.High) * l.scale
	}
	return l.curve.Bulk() * l.scale
}

// Measured is where and how the curve was measured; nil for a link by its figures.
func (l *Link) Measured() *curve.Origin {
	if l.curve == nil {
		return nil
	}
	return &l.curve.Origin
}

// Spread is how much the times of requests alone on a measured link differ (sigma of a lognormal), and from how many requests that is
// known; ok is false where it is not.
func (l *Link) Spread() (sigma float64, requests int, ok bool) {
	if l.curve == nil {
		return 0, 0, false
	}
	return l.curve.Spread()
}

// Faster is the same link with another bandwidth, its latency unchanged: a
// question, and no link that there is.
func (l *Link) Faster(factor float64) *Link {
	c := *l
	c.scale *= factor
	return &c
}
