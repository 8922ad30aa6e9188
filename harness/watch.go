package harness

import (
	"context"
	"time"

	"hopbench/harness/hostinfo"
	"hopbench/results"
	"hopbench/results/stat"
)

// CPUs is the number of CPUs that this process may use.
func CPUs() int { return len(allowedCPUs()) }

// Watch measures the first cell of a plan over its first transport, again and again, and hands over a line for each interval until ctx
// ends or emit fails. Intervals follow one another with a short gap for arming; each figure is over its own loop's time, never over the
// gap.
func Watch(ctx context.Context, p Plan, s *Session, interval float64, emit func(*results.Interval) error) error {
	if err := p.Check(); err != nil {
		return err
	}
	here, err := s.Local.Host(ctx)
	if err != nil {
		return err
	}
	l := &link{name: p.Transports[0], plan: &p, session: s, emulated: hostinfo.Emulated(here)}
	if err := l.open(ctx); err != nil {
		return err
	}
	defer l.close(ctx)
	cells := p.cells()
	t := newTrack(l, &cells[0], 0)
	if t.err != nil {
		return t.err
	}
	if err := t.first(ctx); err != nil {
		return err
	}
	span := t.span
	span.Operations, span.Seconds = 0, interval
	if t.cell.metric == Bandwidth {
		span.StampEvery *= uint64(max(1, interval/p.Round))
	} else {
		span.Stamps = mostStamps
	}
	var described results.Cell
	described.Settings = map[string]string{}
	t.describe(&described)
	start := time.Now()
	for ctx.Err() == nil {
		t.forget()
		begin := time.Since(start).Seconds()
		if err := t.round(ctx, Span{}, span); err != nil {
			return err
		}
		line := &results.Interval{Transport: l.name, Label: described.Label, Definition: cells[0].definition(), Operation: string(cells[0].op), TotalBytes: int64(cells[0].shape.Bytes()), StartSeconds: begin}
		for i, w := range t.ways {
			o := w.rounds[0]
			if o.Seconds <= 0 {
				continue
			}
			if i == 0 {
				line.Seconds = o.Seconds
			}
			line.Bytes += int64(o.Bytes)
			line.BytesPerSecond += float64(o.Bytes) / o.Seconds
			for _, c := range o.Counters {
				if c.Loss {
					n := int64(c.Value)
					if line.Retransmits != nil {
						n += *line.Retransmits
					}
					line.Retransmits = &n
				}
			}
			if t.cell.metric != Latency || len(o.LatencySeconds) == 0 {
				continue
			}
			h := stat.NewHistogram()
			for _, v := range o.LatencySeconds {
				if t.cell.pingpong {
					v /= 2
				}
				if err := h.Record(v); err != nil {
					return err
				}
			}
			if v, ok := h.Quantile(0.5); ok {
				line.P50Seconds = &v
			}
			if v, ok := h.Quantile(0.99); ok {
				line.P99Seconds = &v
			}
		}
		if line.Seconds == 0 {
			continue
		}
		if err := emit(line); err != nil {
			return err
		}
	}
	return ctx.Err()
}
