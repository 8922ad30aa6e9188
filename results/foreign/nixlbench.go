package foreign

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
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
		return bytes.Contains(b, []byte("NIXLBench Configuration")) || bytes.Contains(b, []byte("Block Size (B)")) && bytes.Contains(b, []byte("Batch Size")) || nixlRows.Match(b)
	},
	parse: parseNixlbench,
}

// nixlColumns are the columns of all versions, of which 0.5.0 and before had the latency ahead of three bandwidths.
var nixlColumns = []string{"Block Size (B)", "Batch Size", "B/W (GB/Sec)", "B/W (MiB/Sec)", "B/W (GiB/Sec)", "Aggregate B/W (GB/Sec)", "Network Util (%)", "Avg Lat. (us)",
	"Avg Prep (us)", "P99 Prep (us)", "Avg Post (us)", "P99 Post (us)", "Avg Tx (us)", "P99 Tx (us)"}

var (
	nixlOption = regexp.MustCompile(`^.*?\(--([a-z_]+)=.*?\)\s*: ?(.*)$`)
	nixlWorker = regexp.MustCompile(`^Init nixl worker, .*, hostname (\S+)$`)
	// nixlRows is what is left of a table whose header is lost: its rule, and a row with six digits behind the point.
	nixlRows = regexp.MustCompile(`(?m)^-{80,}\r?\n\d+ +\d+ +\d+\.\d{6} +\d`)
)

func parseNixlbench(in *reader) error {
	in.f.Tool = "nixlbench"
	options := map[string]string{}
	var header []string
	rows, planned, headers := 0, 0, 0
	for line := range strings.Lines(string(in.text)) {
		line = strings.TrimRight(line, "\r\n ")
		if m := nixlWorker.FindStringSubmatch(line); m != nil && len(in.f.Hosts) == 0 {
			in.f.Hosts = append(in.f.Hosts, results.Host{Hostname: m[1]})
		}
		if strings.HasPrefix(line, "NIXLBench Configuration") { // of the next run in the same log
			options, header = map[string]string{}, nil
			continue
		}
		if m := nixlOption.FindStringSubmatch(line); m != nil && header == nil {
			if _, again := options[m[1]]; !again { // num_threads comes back as the threads of a kernel's block
				options[m[1]] = strings.TrimSpace(m[2])
			}
			continue
		}
		if strings.HasPrefix(line, nixlColumns[0]) {
			var err error
			if header, err = nixlHeader(line); err != nil {
				return err
			}
			for _, name := range []string{"op_type", "initiator_seg_type", "target_seg_type"} {
				if options[name] == "" {
					return fmt.Errorf("no line of --%s above the table: what was measured is not known", name)
				}
			}
			if options["mode"] == "MG" {
				in.warn("the bandwidth is of %s devices at once (mode MG), and the time per block (\"Avg Lat.\") is left out: it is divided by them", options["num_initiator_dev"])
			}
			headers++
			planned += nixlPlanned(options)
			continue
		}
		fields := strings.Fields(line)
		if header != nil && len(fields) > 0 && fields[0][0] >= '0' && fields[0][0] <= '9' {
			if len(fields) != len(header) {
				in.incomplete("a row has %d of %d columns and is left out: %.80q", len(fields), len(header), strings.Join(fields, " "))
				continue
			}
			if in.nixlRow(options, header, fields) {
				rows++
			}
		}
	}
	if headers == 0 {
		return fmt.Errorf("no header line (%q ...): what its columns are is not known", nixlColumns[0])
	}
	if rows < planned {
		in.f.Incomplete = strings.TrimPrefix(in.f.Incomplete+fmt.Sprintf("; %d of %d rows that the sizes in its configuration make", rows, planned), "; ")
	}
	return nil
}

// nixlHeader reads the names of the columns, which hold blanks.
func nixlHeader(line string) ([]string, error) {
	var header []string
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		at := slices.IndexFunc(nixlColumns, func(name string) bool { return strings.HasPrefix(rest, name) })
		if at < 0 {
			return nil, fmt.Errorf("the header has an unknown column: %.40q", rest)
		}
		header, rest = append(header, nixlColumns[at]), rest[len(nixlColumns[at]):]
	}
	for _, name := range nixlColumns[:3] {
		if !slices.Contains(header, name) {
			return nil, fmt.Errorf("the header has no column %q", name)
		}
	}
	return header, nil
}

// nixlPlanned is the number of rows of a whole run: main.cpp doubles the block from its start to its largest, and for each the
// batch. It is 0 where the configuration does not tell.
func nixlPlanned(options map[string]string) int {
	steps := func(of string) (n int) {
		first, ok1 := count(options["start_"+of+"_size"])
		last, ok2 := count(options["max_"+of+"_size"])
		for v := first; ok1 && ok2 && v > 0 && v <= last; v *= 2 {
			n++
		}
		return n
	}
	return steps("block") * steps("batch")
}

// nixlRow takes a row, and tells whether it had a block and a batch.
func (in *reader) nixlRow(options map[string]string, header, fields []string) bool {
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
		in.incomplete("a row has no block or batch size and is left out: %.80q", strings.Join(fields, " "))
		return false
	}
	memory := map[string]string{"DRAM": "host", "VRAM": "cuda"}
	base := results.Cell{Transport: "nixl", Operation: strings.ToLower(options["op_type"]), PieceBytes: block, TotalBytes: block * batch, Descriptors: batch, Wait: "spin",
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
	if options["mode"] == "MG" {
		base.Settings = map[string]string{"mode": "MG", "initiator_devices": options["num_initiator_dev"]}
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
	if share := scaled(get("Avg Lat. (us)"), 1e-6); share != nil && options["mode"] != "MG" {
		l := base
		l.Definition = "nixlbench.latency.amortised"
		l.Latency = &results.Latency{Samples: iterations, MeanSeconds: share, RoundsP50Seconds: []float64{}}
		in.add(l)
	}
	return true
}
