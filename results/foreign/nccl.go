package foreign

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"hopbench/results"
)

// ncclTests is the JSON (-J) of NVIDIA/nccl-tests, file version 3, src/util.cu.
var ncclTests = Format{
	Name: "nccl-tests", Summary: "JSON of nccl-tests -J",
	Definitions: []string{
		"nccl-tests.bandwidth.algorithm.out_of_place: size over the mean time of an operation, operations queued back to back",
		"nccl-tests.bandwidth.algorithm.in_place: the same with one buffer",
		"nccl-tests.latency.iteration.out_of_place: each iteration by CUDA events, the largest over the processes (-I 1)",
		"nccl-tests.latency.iteration.in_place: the same with one buffer",
	},
	detect: func(b []byte) bool {
		return bytes.Contains(b, []byte(`"nccl_version"`)) || bytes.Contains(b, []byte(`"bus_bw"`))
	},
	parse: parseNCCL,
}

type ncclBody struct {
	Time    loose `json:"time"`
	CPUTime loose `json:"cpu_time"`
	AlgBW   loose `json:"alg_bw"`
	BusBW   loose `json:"bus_bw"`
	Wrong   loose `json:"nwrong"`
}

type ncclIterations struct {
	Skipped loose   `json:"skipped_iterations"` // from the front of Times, left out of the others
	Min     loose   `json:"min_us"`
	Max     loose   `json:"max_us"`
	Mean    loose   `json:"avg_us"`
	P50     loose   `json:"p50_us"`
	P99     loose   `json:"p99_us"`
	Times   []loose `json:"times_us"`
}

func parseNCCL(in *reader) error {
	var doc struct {
		Version loose    `json:"version"`
		Start   string   `json:"start_time"`
		Args    []string `json:"args"`
		NCCL    loose    `json:"nccl_version"`
		Config  struct {
			Threads loose `json:"nthreads"`
			GPUs    loose `json:"ngpus"` // of a thread
			Devices []struct {
				Hostname string `json:"hostname"`
				Device   *int64 `json:"device"`
				PCI      string `json:"device_hex"`
				Name     string `json:"device_info"`
			} `json:"devices"`
		} `json:"config"`
		Results []struct {
			Size       loose           `json:"size"`
			Type       string          `json:"type"`
			Op         string          `json:"redop"`
			Out        *ncclBody       `json:"out_of_place"`
			In         *ncclBody       `json:"in_place"`
			OutEach    *ncclIterations `json:"out_of_place_per_iter"`
			InEach     *ncclIterations `json:"in_place_per_iter"`
			Iterations loose           `json:"actual_iterations"`
			Name       string          `json:"experiment_name"`
		} `json:"results"`
		Errors []string `json:"errors"`
	}
	if err := in.decode(&doc); err != nil {
		return err
	}
	in.f.Tool = "nccl-tests"
	if n, ok := count(string(doc.NCCL)); ok && n >= 10000 { // NCCL_VERSION_CODE of 2.9 and later
		in.f.Tool = fmt.Sprintf("nccl-tests (NCCL %d.%d.%d)", n/10000, n/100%100, n%100)
	}
	if t, err := time.Parse("2006-01-02 15:04:05", doc.Start); err == nil {
		in.f.Started = t
		in.warn("start time %s has no zone in the file; taken as UTC", doc.Start)
	}
	if v := string(doc.Version); v != "3" {
		in.warn("JSON version %q; version 3 is known", v)
	}
	for _, e := range doc.Errors {
		if e != "" { // NCCL's last error, which is empty where there was none
			in.warn("the run reports: %s", e)
		}
	}
	for _, d := range doc.Config.Devices {
		at := slices.IndexFunc(in.f.Hosts, func(h results.Host) bool { return h.Hostname == d.Hostname })
		if at < 0 {
			in.f.Hosts = append(in.f.Hosts, results.Host{Hostname: d.Hostname})
			at = len(in.f.Hosts) - 1
		}
		in.f.Hosts[at].GPUs = append(in.f.Hosts[at].GPUs, results.GPU{Index: d.Device, Name: d.Name, PCI: d.PCI})
	}
	// One device stands for a process, whatever number it drives.
	ranks := int64(len(doc.Config.Devices))
	for _, of := range []loose{doc.Config.Threads, doc.Config.GPUs} {
		if n, ok := count(string(of)); ok && n < 1<<20 {
			ranks *= n
		}
	}
	for _, r := range doc.Results {
		size, ok := count(string(r.Size))
		if !ok {
			continue
		}
		n, _ := count(string(r.Iterations))
		base := results.Cell{Transport: "nccl", Operation: strings.ToLower(or(r.Name, "collective")), TotalBytes: size, InitiatorMemory: "cuda", TargetMemory: "cuda", Wait: "spin",
			Settings: map[string]string{"type": r.Type, "redop": r.Op, "ranks": fmt.Sprint(ranks)}}
		for _, place := range []struct {
			name string
			body *ncclBody
			each *ncclIterations
		}{{"out_of_place", r.Out, r.OutEach}, {"in_place", r.In, r.InEach}} {
			if place.body == nil {
				continue
			}
			c := base
			c.Settings = cloneSettings(base.Settings)
			c.Definition = "nccl-tests.bandwidth.algorithm." + place.name
			verdict(&c, string(place.body.Wrong))
			in.bandwidth(&c, scaled(string(place.body.AlgBW), 1e9))
			if bus := scaled(string(place.body.BusBW), 1e9); bus != nil {
				c.Settings["bus_bytes_per_second"] = fmt.Sprintf("%.6g", *bus)
			}
			in.add(c)
			if e := place.each; e != nil {
				l := base
				l.Definition = "nccl-tests.latency.iteration." + place.name
				verdict(&l, string(place.body.Wrong))
				us := func(v loose) *float64 { return scaled(string(v), 1e-6) }
				times := e.Times
				if skipped, ok := count(string(e.Skipped)); ok && skipped < int64(len(times)) {
					times = times[skipped:]
				}
				l.Latency = &results.Latency{Samples: int64(len(times)), MinSeconds: us(e.Min), P50Seconds: us(e.P50), MaxSeconds: us(e.Max), MeanSeconds: us(e.Mean),
					PercentileRule: "nccl-tests: p50 at index n/2 counted from 0, p99 by nearest rank", RoundsP50Seconds: []float64{}}
				if l.Latency.Samples == 0 {
					l.Latency.Samples = n
				}
				if l.Latency.Samples >= 100 {
					l.Latency.P99Seconds = us(e.P99)
				}
				for _, t := range times {
					if v := us(t); v != nil {
						l.Latency.RoundsP50Seconds = append(l.Latency.RoundsP50Seconds, *v)
					}
				}
				in.add(l)
			}
		}
	}
	return nil
}

// verdict reads the count of wrong elements: null is unchecked.
func verdict(c *results.Cell, wrong string) {
	if wrong == "" {
		return
	}
	v, bad := figure(wrong)
	good := !bad
	c.Verified = &good
	if bad {
		c.Status, c.Reason = results.StatusFailed, fmt.Sprintf("%g elements were wrong", v)
	}
}

func cloneSettings(m map[string]string) map[string]string {
	out := make(map[string]string, len(m)+1)
	for k, v := range m {
		out[k] = v
	}
	return out
}
