package foreign

import (
	"regexp"
	"strings"

	"hopbench/results"
)

// qperf is the text of qperf, plain (which names no message size), -v or -uu. Its tests: tcp_bw, rc_rdma_write_lat and so on.
var qperf = Format{
	Name: "qperf", Summary: "text of qperf; run it with -v or -vv so that the message size is in it",
	Definitions: []string{
		"qperf.bandwidth.mean: bytes that arrived over the fixed time of the test, no warm-up",
		"qperf.latency.half_rtt: time over messages received on both sides, mean",
		"qperf.latency.completion: time over operations, mean (rdma_read, atomics)",
	},
	detect: func(b []byte) bool { return qperfTest.Match(b) },
	parse:  parseQperf,
}

var (
	qperfTest  = regexp.MustCompile(`(?m)^((?:tcp|udp|sctp|sdp|rds|rc|uc|ud|xrc)_[a-z_]+|ver_[a-z_]+):\s*$`)
	qperfValue = regexp.MustCompile(`^\s+([a-z_0-9]+)\s+=\s+(.+?)\s*$`)
)

func parseQperf(in *reader) error {
	in.f.Tool = "qperf"
	var name string
	node := map[string]string{}
	values := map[string]string{}
	var failure string
	flush := func() {
		if name != "" && (len(values) > 0 || failure != "") {
			in.qperfCell(name, values, failure)
		}
		values, failure = map[string]string{}, ""
	}
	for line := range strings.Lines(string(in.text)) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasSuffix(line, ":") && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t"):
			flush()
			name = ""
			if qperfTest.MatchString(line) {
				name = strings.TrimSuffix(line, ":")
			}
		case qperfValue.MatchString(line):
			m := qperfValue.FindStringSubmatch(line)
			if m[1] == "loc_qperf" {
				in.f.Tool = "qperf " + m[2]
			}
			if m[1] == "loc_node" || m[1] == "rem_node" {
				node[m[1]] = m[2]
			}
			values[m[1]] = m[2]
		case strings.TrimSpace(line) != "" && name != "" && !strings.HasPrefix(line, "warning:"):
			failure = strings.TrimSpace(line)
		}
	}
	flush()
	switch {
	case node["loc_node"] == "" || node["rem_node"] == "":
		in.warn("whether the two sides are one host is not in the output (the test conf prints it): taken as hardware")
	case node["loc_node"] == node["rem_node"]:
		for i := range in.f.Cells {
			in.f.Cells[i].Realm = results.RealmSoftware
		}
		in.f.Hosts = []results.Host{{Hostname: node["loc_node"]}}
	default:
		in.f.Hosts = []results.Host{{Hostname: node["loc_node"], Role: "initiator"}, {Hostname: node["rem_node"], Role: "target"}}
	}
	return nil
}

func (in *reader) qperfCell(name string, values map[string]string, failure string) {
	kind, test, _ := strings.Cut(name, "_")
	c := results.Cell{Transport: kind, Operation: "send", Wait: "block"}
	switch kind {
	case "rc", "uc", "ud", "xrc":
		c.Transport = "verbs"
		c.Settings = map[string]string{"queue_pair": strings.ToUpper(kind)}
		c.Wait = "spin"
	}
	whole := false
	switch {
	case strings.Contains(test, "rdma_read"):
		c.Operation, whole = "read", true
	case strings.Contains(test, "rdma_write"):
		c.Operation = "write"
	case strings.Contains(test, "compare_swap"), strings.Contains(test, "fetch_add"):
		c.Operation, whole = "atomic", true
	}
	if strings.Contains(test, "bi_bw") {
		c.Direction = "both"
	}
	if size, ok := qperfSize(values["msg_size"]); ok {
		c.TotalBytes = size
	} else {
		c.Warnings = append(c.Warnings, "the message size is not in the output (qperf -v prints it)")
	}
	if rate, ok := qperfNumber(values["msg_rate"], rateUnits); ok {
		c.MessageRatePerSecond = &rate
	}
	cost := func(k string) *float64 {
		if v, ok := qperfNumber(values[k], costUnits); ok {
			return &v
		}
		return nil
	}
	if a, b := cost("send_cost"), cost("recv_cost"); a != nil || b != nil {
		c.CPU = &results.CPU{InitiatorSecondsPerGigabyte: a, TargetSecondsPerGigabyte: b}
	}
	switch {
	case failure != "" && len(values) == 0:
		c.Status, c.Reason = results.StatusFailed, "qperf: "+failure
		c.Definition = "qperf.bandwidth.mean"
	case values["latency"] != "":
		c.Definition = "qperf.latency.half_rtt"
		if whole {
			c.Definition = "qperf.latency.completion"
		}
		if v, ok := qperfNumber(values["latency"], timeUnits); ok {
			n, _ := count(values["loc_recv_msgs"])
			c.Latency = &results.Latency{Samples: n, MeanSeconds: &v, RoundsP50Seconds: []float64{}}
		} else {
			c.Status, c.Reason = results.StatusFailed, "qperf printed latency "+values["latency"]
		}
	default:
		c.Definition = "qperf.bandwidth.mean"
		bw := or(values["bw"], values["recv_bw"])
		if v, ok := qperfNumber(bw, bandwidthUnits); ok {
			in.bandwidth(&c, &v)
		} else if bw != "" {
			c.Status, c.Reason = results.StatusFailed, "qperf printed bandwidth "+bw
		} else {
			return
		}
	}
	in.add(c)
}

// Steps of 1000 (qperf's src/qperf.c), bytes where the letter is B and bits where it is b.
var (
	bandwidthUnits = map[string]float64{"bytes/sec": 1, "KB/sec": 1e3, "MB/sec": 1e6, "GB/sec": 1e9, "TB/sec": 1e12,
		"bits/sec": 1. / 8, "Kb/sec": 1e3 / 8, "Mb/sec": 1e6 / 8, "Gb/sec": 1e9 / 8, "Tb/sec": 1e12 / 8}
	timeUnits = map[string]float64{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1}
	rateUnits = map[string]float64{"/sec": 1, "K/sec": 1e3, "M/sec": 1e6, "G/sec": 1e9}
	costUnits = map[string]float64{"ns/GB": 1e-9, "us/GB": 1e-6, "ms/GB": 1e-3, "sec/GB": 1}
	sizeUnits = map[string]float64{"bytes": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
)

func qperfNumber(s string, units map[string]float64) (float64, bool) {
	number, unit, _ := strings.Cut(s, " ")
	by, known := units[strings.TrimSpace(unit)]
	v := scaled(strings.ReplaceAll(number, ",", ""), by)
	if !known || v == nil {
		return 0, false
	}
	return *v, true
}

// qperfSize reads "64 KiB (65,536)", "1 KB" and "65536 bytes".
func qperfSize(s string) (int64, bool) {
	if _, exact, ok := strings.Cut(s, "("); ok {
		return count(strings.TrimSuffix(exact, ")"))
	}
	v, ok := qperfNumber(s, sizeUnits)
	if v > 1<<50 {
		return 0, false
	}
	return int64(v), ok
}
