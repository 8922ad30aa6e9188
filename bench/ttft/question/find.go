package question

import (
	"errors"
	"fmt"

	"hopbench/bench/ttft"
	"hopbench/bench/ttft/ask"
	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/report"
	"hopbench/results/unit"
)

// Limits lists the questions about a limit that Find answers.
func Limits() []string { return []string{"rate", "concurrency", "bandwidth", "workers"} }

// Find answers one question about the scenario's limit on one link. A limit that cannot be met is an answer; an error is about the
// scenario. One request alone has no p90 or p99 and is no load: where one of them is asked, 2000 are simulated.
func Find(s *ttft.Scenario, l *link.Link, q ask.Quantile, what string) (report.Answer, error) {
	a := report.Answer{Transport: l.Transport, Label: l.Label, Provenance: l.Provenance}
	if s.Load.Requests < 100 && (q != ask.P50 || what == "rate") {
		c := *s
		c.Load.Requests = 2000
		s = &c
	}
	limit := fmt.Sprintf("TTFT %s within %s", q, report.Seconds(s.Limit))
	value := func(v float64, u, text string) {
		a.Value, a.Unit, a.Text = &v, u, text
	}
	var err error
	switch what {
	case "rate":
		a.Question = "largest rate with " + limit
		var rate float64
		var p *ttft.Projection
		if rate, p, err = ask.MaxRate(s, l, q); err == nil {
			text := fmt.Sprintf("%.3g requests/s", rate)
			if busy := p.Result.Utilisation.Prefill; busy != nil {
				text += fmt.Sprintf(" (prefill %.0f %% busy)", 100**busy)
			}
			value(rate, "requests/s", text)
		}
	case "concurrency":
		a.Question = "most users with " + limit
		var n int
		if n, _, err = ask.MaxConcurrency(s, l, q); err == nil {
			value(float64(n), "users", unit.Count(n, "user"))
		}
	case "bandwidth":
		a.Question = "bandwidth of a NIC that " + limit + " needs"
		var b ask.Bandwidth
		if b, err = ask.NeededBandwidth(s, l, q); err == nil {
			value(b.BytesPerSecond, "bytes/s", fmt.Sprintf("%.3g GB/s with this shape, %s times what it does: %s for each", b.BytesPerSecond/1e9, report.Factor(b.Factor), unit.Count(b.NICs, "NIC")))
		}
	case "workers":
		a.Question = "fewest workers with " + limit
		var w ask.Workers
		if w, err = ask.NeededWorkers(s, l, q); err == nil {
			value(float64(w.Prefill+w.Decode), "workers", fmt.Sprintf("%s for prefill, %s for decode", unit.Count(w.Prefill, "worker"), unit.Count(w.Decode, "worker")))
		}
	default:
		return a, fmt.Errorf("there is no question %q about a limit", what)
	}
	if errors.Is(err, ask.ErrUnreachable) || errors.Is(err, ask.ErrUnbounded) {
		a.Text, err = err.Error(), nil
	}
	return a, err
}
