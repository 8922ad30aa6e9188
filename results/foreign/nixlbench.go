package foreign

import (
	"bytes"
	"regexp"
	"strings"

	"hopbench/results"
)

// nixlbench is the text of ai-dynamo/nixl's nixlbench, benchmark/nixlbench/src/utils/utils.cpp.
var nixlbench = Format{
	Name: "nixlbench", Summary: "text of nixlbench",
	Definitions: []string{
		"nixlbench.bandwidth.total: block x batch x iterations over the whole parallel part, thread start, preparation and teardown included",
		"nixlbench.bandwidth.aggregate: the sum of that over the initiators",
		"nixlbench.latency.transfer: from the return of the post to done seen, mean and p99, of one batch",
		"nixlbench.latency.amortised: the whole time over iterations x batch (its \"Avg Lat.\"): a share of a batch, not a latency",
	},
	detect: func(b []byte) bool {
		return bytes.Contains(b, []byte("NIXLBench Configuration")) || bytes.Contains(b, []byte("Block Size (B)")) && bytes.Contains(b, []byte("Batch Size"))
	},
	parse: parseNixlbench,
}

var nixlColumns = []string{"Block Size (B)", "Batch Size", "B/W (GB/Sec)", "Aggregate B/W (GB/Sec)", "Network Util (%)", "Avg Lat. (us)", "Avg Prep (us)", "P99 Prep (us)",
	"Avg Post (us)", "P99 Post (us)", "Avg Tx (us)", "P99 Tx (us)"}

var nixlOption = regexp.MustCompile(`^.*?\(--([a-z_]+)=.*?\)\s*: ?(.*)$`)

func parseNixlbench(in *reader) error {
	in.f.Tool = "nixlbench"
	options := map[string]string{}
	var header []string
	for line := range strings.Lines(string(in.text)) {
		line = strings.TrimRight(line, "\r\n ")
		if m := nixlOption.FindStringSubmatch(line); m != nil && header == nil {
			options[m[1]] = strings.TrimSpace(m[2])
			continue
		}
		if strings.HasPrefix(line, "Block Size (B)") {
			header = nil
			for _, c := range nixlColumns {
				if strings.Contains(line, c) {
					// "B/W (GB/Sec)" is part of "Aggregate B/W (GB/Sec)" as well; both stand in this order
					header = append(header, c)
				}
			}
			continue
		}
		fields := strings.Fields(line)
		if header != nil && len(fields) > 0 && fields[0][0] >= '0' && fields[0][0] <= '9' {
			if len(fields) != len(header) {
				in.warn("a row of %d figures under %d columns is left out: %.80q", len(fields), len(header), line)
				continue
			}
			in.nixlRow(options, header, fields)
		}
	}
	return nil
}

func (in *reader) nixlRow(options map[string]string, header, fields []string) {
	get := func(name string) string {
		for i, h := range header {
			if h == name {
				return fields[i]
			}
		}
		return ""
	}
	block, ok1 := count(get("Block Size (B)"))
	batch, ok2 := count(get("Batch Size"))
	if !ok1 || !ok2 || block > 1<<50 || batch > 1<<20 {
		return
	}
	memory := map[string]string{"DRAM": "host", "VRAM": "cuda"}
	base := results.Cell{Transport: "nixl", Operation: strings.ToLower(or(options["op_type"], "WRITE")), PieceBytes: block, TotalBytes: block * batch, Descriptors: batch, Wait: "spin",
		InitiatorMemory: memory[options["initiator_seg_type"]], TargetMemory: memory[options["target_seg_type"]]}
	if b := options["backend"]; b != "" {
		base.Transport = "nixl-" + strings.ToLower(b)
	}
	if batch > 1 {
		base.Pattern = "scattered"
	}
	base.Depth, _ = count(options["pipeline_depth"])
	base.Concurrency, _ = count(options["num_threads"])
	base.Schedule = options["scheme"]
	if base.Schedule == "pairwise" {
		base.Schedule = ""
	}
	iterations, _ := count(options["num_iter"])
	if factor, ok := count(options["large_blk_iter_ftr"]); ok && block > mebibyte { // LARGE_BLOCK_SIZE
		iterations /= factor
	}

	c := base
	c.Definition = "nixlbench.bandwidth.total"
	in.bandwidth(&c, scaled(get("B/W (GB/Sec)"), 1e9))
	c.PhasesSeconds = map[string]float64{}
	for name, column := range map[string]string{"prepare": "Avg Prep (us)", "post": "Avg Post (us)"} {
		if v := scaled(get(column), 1e-6); v != nil {
			c.PhasesSeconds[name] = *v
		}
	}
	in.add(c)
	if sum := scaled(get("Aggregate B/W (GB/Sec)"), 1e9); sum != nil {
		a := base
		a.Definition = "nixlbench.bandwidth.aggregate"
		in.bandwidth(&a, sum)
		in.add(a)
	}
	if tx := scaled(get("Avg Tx (us)"), 1e-6); tx != nil {
		l := base
		l.Definition = "nixlbench.latency.transfer"
		l.Latency = &results.Latency{Samples: iterations, MeanSeconds: tx, RoundsP50Seconds: []float64{}, PercentileRule: "nixlbench: the sorted samples at index floor(0.99 n)"}
		if iterations >= 100 {
			l.Latency.P99Seconds = scaled(get("P99 Tx (us)"), 1e-6)
		}
		in.add(l)
	}
	if share := scaled(get("Avg Lat. (us)"), 1e-6); share != nil {
		l := base
		l.Definition = "nixlbench.latency.amortised"
		l.Latency = &results.Latency{Samples: iterations, MeanSeconds: share, RoundsP50Seconds: []float64{}}
		in.add(l)
	}
}
