package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"hopbench/harness"
	"hopbench/results"
	"hopbench/results/unit"
)

// runForever prints a line an interval until it is stopped.
func (f *runFlags) runForever(ctx context.Context, p harness.Plan, s *harness.Session) error {
	if len(p.Transports) != 1 {
		return usagef("--forever watches one transport: name it with --transport")
	}
	encode := json.NewEncoder(f.env.Stdout)
	err := harness.Watch(ctx, p, s, f.interval.Seconds(), func(i *results.Interval) error {
		if f.json {
			return encode.Encode(i)
		}
		line := fmt.Sprintf("%7.1f s  %s", i.StartSeconds+i.Seconds, unit.Rate(i.BytesPerSecond))
		if i.P50Seconds != nil {
			line = fmt.Sprintf("%7.1f s  p50 %s", i.StartSeconds+i.Seconds, unit.Seconds(*i.P50Seconds))
			if i.P99Seconds != nil {
				line += "  p99 " + unit.Seconds(*i.P99Seconds)
			}
		}
		if i.Retransmits != nil && *i.Retransmits > 0 {
			line += fmt.Sprintf("  %d retransmits", *i.Retransmits)
		}
		_, err := fmt.Fprintln(f.env.Stdout, line)
		return err
	})
	if ctx.Err() != nil {
		return nil // being stopped is how it ends
	}
	return err
}

// asyncPreemption says whether the runtime interrupts loops by signal.
func asyncPreemption() string {
	for _, s := range []string{os.Getenv("GODEBUG")} {
		if strings.Contains(s, "asyncpreemptoff=1") {
			return "off by GODEBUG"
		}
	}
	return "on"
}
