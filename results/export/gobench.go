package export

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"

	"hopbench/results"
	"hopbench/results/unit"
)

// units of the benchmark lines, each with the way that is better. benchstat takes a unit's words from its name alone.
var goUnits = []struct{ unit, better string }{
	{"B/s", "higher"}, {"sec/op", "lower"}, {"p99-sec/op", "lower"}, {"msg/s", "higher"}, {"cpu-initiator-sec/GB", "lower"}, {"cpu-target-sec/GB", "lower"},
}

// gobench writes the format of https://golang.org/design/14313-benchmark-format: a line a round, so that benchstat has the
// samples, and a line for what a cell has one of. The identity stands in the name: benchstat makes a table of its own for
// every difference in the configuration lines, so what differs between two builds may not stand there.
func gobench(out io.Writer, runs []results.Run) error {
	w := bufio.NewWriter(out)
	for _, u := range goUnits {
		fmt.Fprintf(w, "Unit %s better=%s\n", u.unit, u.better)
	}
	for _, r := range runs {
		fmt.Fprintf(w, "\n# %s, %s\n", unit.Text(r.File), unit.Text(strings.TrimSpace(r.Header.ToolVersion+" "+r.Header.ToolCommit)))
		for _, h := range r.Header.Hosts {
			fmt.Fprintf(w, "# host %s, kernel %s, %s\n", unit.Text(h.Hostname), unit.Text(h.Kernel), unit.Text(h.CPUModel))
		}
		for i := range r.Cells {
			c := &r.Cells[i]
			name := goName(c)
			if !c.HasFigure() {
				status, reason := c.Status, c.Reason
				if c.Verified != nil && !*c.Verified {
					status, reason = results.StatusFailed, "the payload was wrong"
				}
				fmt.Fprintf(w, "# %s: %s: %s\n", name, unit.Text(status), unit.Text(reason))
				continue
			}
			if b := c.Bandwidth; b != nil {
				rounds := b.Rounds
				if len(rounds) == 0 {
					rounds = []float64{b.BytesPerSecond}
				}
				for _, v := range rounds {
					fmt.Fprintf(w, "Benchmark%s 1 %v B/s\n", name, v)
				}
			}
			if l := c.Latency; l != nil {
				rounds := l.RoundsP50Seconds
				if len(rounds) == 0 && l.P50Seconds != nil {
					rounds = []float64{*l.P50Seconds}
				} else if len(rounds) == 0 && l.MeanSeconds != nil {
					rounds = []float64{*l.MeanSeconds}
				}
				for _, v := range rounds {
					fmt.Fprintf(w, "Benchmark%s %d %v sec/op\n", name, max(1, l.Samples/int64(max(1, len(rounds)))), v)
				}
			}
			var once strings.Builder
			add := func(v *float64, unit string) {
				if v != nil {
					fmt.Fprintf(&once, " %v %s", *v, unit)
				}
			}
			if l := c.Latency; l != nil {
				add(l.P99Seconds, "p99-sec/op")
			}
			add(c.MessageRatePerSecond, "msg/s")
			if c.CPU != nil {
				add(c.CPU.InitiatorSecondsPerGigabyte, "cpu-initiator-sec/GB")
				add(c.CPU.TargetSecondsPerGigabyte, "cpu-target-sec/GB")
			}
			if once.Len() > 0 {
				fmt.Fprintf(w, "Benchmark%s 1%s\n", name, once.String())
			}
		}
	}
	return w.Flush()
}

// goName is the identity as a benchmark's name. The realm comes last: a name that ends in -N would be read as GOMAXPROCS.
func goName(c *results.Cell) string {
	var b strings.Builder
	title := []rune(word(c.Transport))
	if len(title) > 0 {
		title[0] = unicode.ToUpper(title[0])
	}
	b.WriteString(string(title))
	key := func(k, v string) {
		if v != "" {
			b.WriteString("/" + k + "=" + word(v))
		}
	}
	number := func(k string, v, plain int64) {
		if v != plain {
			key(k, fmt.Sprint(v))
		}
	}
	id := c.Identity()
	key("op", id.Operation)
	key("def", id.Definition)
	key("bytes", fmt.Sprint(id.TotalBytes))
	if id.Direction != "forward" {
		key("direction", id.Direction)
	}
	number("pieces", id.Descriptors, 1)
	if id.Descriptors > 1 {
		key("piece", fmt.Sprint(id.PieceBytes))
	}
	if id.Pattern != "contiguous" {
		key("pattern", id.Pattern)
	}
	number("depth", id.Depth, 1)
	number("streams", id.Streams, 1)
	number("concurrency", id.Concurrency, 1)
	if id.InitiatorMemory != "host" || id.TargetMemory != "host" {
		key("from", id.InitiatorMemory)
		key("to", id.TargetMemory)
	}
	key("gpuway", id.InitiatorGPUWay)
	key("targetgpuway", id.TargetGPUWay)
	key("rail", id.Rail)
	key("initiator", id.InitiatorHost)
	key("target", id.TargetHost)
	key("schedule", id.Schedule)
	number("rate", id.RateBytesPerSecond, 0)
	key("wait", id.Wait)
	key("realm", id.Realm)
	if id.Realm == "" {
		b.WriteString("/realm=unknown")
	}
	return b.String()
}

// word makes a part of a name: no space, slash or other mark that the format gives a meaning.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '=' || unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, s)
}
