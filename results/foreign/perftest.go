package foreign

import (
	"bytes"
	"math"
	"regexp"
	"strconv"
	"strings"

	"hopbench/results"
)

// The formats of linux-rdma/perftest (ib_write_bw and its kin), src/perftest_parameters.h. Its definitions, from
// src/perftest_resources.c: the average is size x iterations x QPs over the time from the first post to the last
// local completion; latencies are between posts, halved for write and send and whole for read and atomic, with
// the two largest samples dropped first.
var perftestDefinitions = []string{
	"perftest.bandwidth.average: bytes over first post to last local completion, no warm-up by default; both ways summed where bidirectional",
	"perftest.latency.half_rtt: half of post to post, median (t_typical); its two largest samples dropped (write, send)",
	"perftest.latency.completion: post to post, median (t_typical); its two largest samples dropped (read, atomic)",
	"perftest.latency.average: mean over a duration; no percentiles (-D)",
}

var perftestText = Format{
	Name: "perftest", Summary: "text of ib_write_bw, ib_read_lat and their kin", Definitions: perftestDefinitions,
	detect: func(b []byte) bool {
		return bytes.Contains(b, []byte("#bytes")) && (bytes.Contains(b, []byte("#iterations")) || bytes.Contains(b, []byte("BW average")))
	},
	parse: parsePerftestText,
}

var perftestJSON = Format{
	Name: "perftest-json", Summary: "--out_json of the same", Definitions: perftestDefinitions,
	detect: func(b []byte) bool { return perftestInfo.Match(b) },
	parse:  parsePerftestJSON,
}

var perftestInfo = regexp.MustCompile(`(?m)^\s*"?test_info"?\s*:`)

const (
	mebibyte = 1 << 20
	gigabit  = 1e9 / 8
)

// perftest is what the head of an output says.
type perftest struct {
	verb, device, link string
	latency, both      bool
	qps, depth, mtu    int64
	cqMod              int64
}

// setTest reads "RDMA_Write Bidirectional BW Test" or "RDMA_Write_BW_Test".
func (p *perftest) setTest(name string) {
	name = strings.ReplaceAll(name, "_", " ")
	lower := strings.ToLower(name)
	p.both = strings.Contains(lower, "bidirectional")
	p.latency = strings.Contains(lower, "latency")
	switch {
	case strings.Contains(lower, "write"):
		p.verb = "write"
	case strings.Contains(lower, "read"):
		p.verb = "read"
	case strings.Contains(lower, "atomic"):
		p.verb = "atomic"
	case strings.Contains(lower, "send"):
		p.verb = "send"
	default:
		p.verb = strings.TrimSuffix(strings.TrimSpace(lower), " test")
	}
}

func (p *perftest) cell() results.Cell {
	c := results.Cell{Transport: "verbs", Operation: p.verb, Streams: p.qps, Depth: p.depth, Wait: "spin"}
	switch p.link {
	case "Ethernet":
		c.Transport = "roce"
	case "IB", "InfiniBand":
		c.Transport = "infiniband"
	}
	if strings.HasPrefix(p.device, "rxe") || strings.HasPrefix(p.device, "siw") {
		c.Realm = results.RealmSoftware
	}
	if p.both {
		c.Direction = "both"
	}
	if p.device != "" {
		side := &results.Side{Device: p.device, LinkLayer: p.link}
		if p.mtu > 0 {
			side.PathMTUBytes = &p.mtu
		}
		c.Path = &results.Path{Initiator: side}
	}
	if p.depth == 0 && !p.latency { // the serving side does not print it
		c.Depth = 128
		c.Warnings = append(c.Warnings, "depth not in the output: perftest's default of 128 is taken")
	}
	if p.cqMod > 0 {
		c.CompletionPolicy = "one completion for every " + strconv.FormatInt(p.cqMod, 10) + " operations"
	}
	return c
}

func (p *perftest) latencyDefinition() string {
	if p.verb == "read" || p.verb == "atomic" {
		return "perftest.latency.completion"
	}
	return "perftest.latency.half_rtt"
}

const perftestRule = "perftest: the sorted samples at index ceil(q x m) counted from 0, one rank above nearest rank"

var colonPair = regexp.MustCompile(`([A-Za-z*_./ ]+?)\s*:\s*([^\t]+)`)

func parsePerftestText(in *reader) error {
	in.f.Tool = "perftest"
	p := &perftest{}
	var header []string
	for line := range strings.Lines(string(in.text)) {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasSuffix(trimmed, " Test") && !strings.Contains(trimmed, ":"):
			*p = perftest{}
			p.setTest(trimmed)
			header = nil
		case strings.HasPrefix(trimmed, "#bytes"):
			header = columnsOf(trimmed)
		case strings.Contains(trimmed, ": ") && header == nil:
			for _, m := range colonPair.FindAllStringSubmatch(trimmed, -1) {
				p.set(strings.TrimSpace(m[1]), strings.TrimSpace(m[2]))
			}
		case header != nil && trimmed != "" && trimmed[0] >= '0' && trimmed[0] <= '9':
			in.perftestRow(p, header, strings.Fields(trimmed))
		case strings.HasPrefix(trimmed, "Couldn't") || strings.HasPrefix(trimmed, "Failed") || strings.HasPrefix(trimmed, "Unable") || strings.HasPrefix(trimmed, "Completion with error"):
			in.warn("the output says: %s", trimmed)
		}
	}
	return nil
}

func (p *perftest) set(key, value string) {
	n, _ := count(strings.TrimSuffix(value, "[B]"))
	switch key {
	case "Device":
		p.device = value
	case "Link type":
		p.link = value
	case "Number of qps":
		p.qps = n
	case "TX depth":
		p.depth = n
	case "CQ Moderation":
		p.cqMod = n
	case "Mtu":
		p.mtu = n
	}
}

var columnName = regexp.MustCompile(`#?[A-Za-z0-9_.%]+( (peak|average|percentile|Port[12]|Rate))*(\[[^\]]*\])?`)

// columnsOf splits a head such as " #bytes #iterations BW peak[MiB/sec] 99% percentile[usec]".
func columnsOf(line string) []string {
	var out []string
	for _, c := range columnName.FindAllString(line, -1) {
		out = append(out, strings.TrimSpace(c))
	}
	return out
}

func (in *reader) perftestRow(p *perftest, header, fields []string) {
	get := func(prefix string) (string, string) { // value and unit
		for i, h := range header {
			name, unit, _ := strings.Cut(strings.TrimSuffix(h, "]"), "[")
			if name == prefix && i < len(fields) {
				return fields[i], unit
			}
		}
		return "", ""
	}
	size, ok := count(fields[0])
	if !ok {
		return
	}
	c := p.cell()
	c.TotalBytes = size
	iterations, _ := get("#iterations")
	n, _ := count(iterations)
	if average, unit := get("BW average"); average != "" {
		c.Definition = "perftest.bandwidth.average"
		by := float64(mebibyte)
		switch unit {
		case "Gb/sec":
			by = gigabit
		case "MB/sec":
			c.Warnings = append(c.Warnings, "the output says MB/sec: this build of perftest meant MiB/sec, and is read so")
		case "MiB/sec":
		default:
			c.Status, c.Reason = results.StatusFailed, "unknown unit of bandwidth: "+unit
		}
		in.bandwidth(&c, scaled(average, by))
		peak, _ := get("BW peak")
		if c.Bandwidth != nil {
			c.Bandwidth.BestWindowBytesPerSecond = scaled(peak, by)
		}
		rate, _ := get("MsgRate")
		c.MessageRatePerSecond = scaled(rate, 1e6)
		in.add(c)
		return
	}
	us := func(prefix string) *float64 { s, _ := get(prefix); return scaled(s, 1e-6) }
	if c.Depth == 0 {
		c.Depth = 1
	}
	l := &results.Latency{Samples: n, MinSeconds: us("t_min"), P50Seconds: us("t_typical"), MeanSeconds: us("t_avg"), MaxSeconds: us("t_max"),
		P99Seconds: us("99% percentile"), P999Seconds: us("99.9% percentile"), RoundsP50Seconds: []float64{}}
	in.perftestLatency(&c, p, l, iterations)
}

// perftestLatency finishes a latency cell of either form.
func (in *reader) perftestLatency(c *results.Cell, p *perftest, l *results.Latency, iterations string) {
	c.Definition = p.latencyDefinition()
	if l.P50Seconds == nil && l.MeanSeconds != nil {
		c.Definition = "perftest.latency.average"
	} else {
		l.PercentileRule = perftestRule
		dropped := int64(2)
		c.SamplesDropped = &dropped
	}
	if l.P50Seconds != nil || l.MeanSeconds != nil {
		c.Latency = l
	} else {
		c.Warnings = append(c.Warnings, "the tool printed no time above zero ("+iterations+" iterations)")
	}
	if l.Samples < 100 {
		l.P99Seconds = nil
	}
	if l.Samples < 1000 {
		l.P999Seconds = nil
	}
	in.add(*c)
}

func parsePerftestJSON(in *reader) error {
	in.f.Tool = "perftest"
	var doc struct {
		Info    map[string]loose `json:"test_info"`
		Results map[string]loose `json:"results"`
	}
	if err := in.decode(&doc); err != nil {
		return err
	}
	info := func(k string) string { return string(doc.Info[k]) }
	result := func(k string) string { return string(doc.Results[k]) }
	p := &perftest{device: info("Device"), link: info("Link_type")}
	p.setTest(info("test"))
	p.qps, _ = count(info("Number_of_qps"))
	p.depth, _ = count(info("TX_depth"))
	p.cqMod, _ = count(info("CQ_Moderation"))
	p.mtu, _ = count(info("Mtu"))
	c := p.cell()
	size, ok := count(result("MsgSize"))
	if !ok {
		return nil
	}
	c.TotalBytes = size
	if average := result("BW_average"); average != "" {
		c.Definition = "perftest.bandwidth.average"
		c.MessageRatePerSecond = scaled(result("MsgRate"), 1e6)
		by, why := perftestUnit(average, c.MessageRatePerSecond, size)
		if by == 0 {
			c.Status, c.Reason = results.StatusFailed, why
		} else {
			c.Warnings = append(c.Warnings, why)
			in.bandwidth(&c, scaled(average, by))
			if c.Bandwidth != nil {
				c.Bandwidth.BestWindowBytesPerSecond = scaled(result("BW_peak"), by)
			}
		}
		in.add(c)
		return nil
	}
	us := func(k string) *float64 { return scaled(result(k), 1e-6) }
	n, _ := count(result("n_iterations"))
	in.perftestLatency(&c, p, &results.Latency{Samples: n, MinSeconds: us("t_min"), P50Seconds: us("t_typical"), MeanSeconds: us("t_avg"), MaxSeconds: us("t_max"),
		P99Seconds: us("percentile_99"), P999Seconds: us("percentile_99.9"), RoundsP50Seconds: []float64{}}, result("n_iterations"))
	return nil
}

// perftestUnit finds the unit of a bandwidth whose JSON names none: MiB/s, or Gb/s under --report_gbits. The
// message rate times the size is the same quantity, so it tells which.
func perftestUnit(average string, rate *float64, size int64) (by float64, why string) {
	v, ok := figure(average)
	if !ok {
		return mebibyte, "the tool printed no bandwidth above zero"
	}
	if rate == nil {
		return 0, "this JSON names no unit, and without a message rate it cannot be told whether it is MiB/s or Gb/s"
	}
	want := *rate * float64(size)
	off := func(by float64) float64 { return math.Abs(math.Log(v * by / want)) }
	switch {
	case off(mebibyte) < 0.2:
		return mebibyte, "unit not in the JSON: MiB/s by the message rate"
	case off(gigabit) < 0.2:
		return gigabit, "unit not in the JSON: Gb/s by the message rate"
	}
	return 0, "this JSON names no unit, and the message rate fits neither MiB/s nor Gb/s"
}
