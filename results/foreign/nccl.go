package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"hopbench/results"
)

// ncclTests is the JSON (-J) of NVIDIA/nccl-tests, file versions 1 to 3, src/util.cu. Its "env" is the whole
// environment of the run, and is never taken over.
var ncclTests = Format{
	Name: "nccl-tests", Summary: "JSON of nccl-tests -J",
	Definitions: []string{
		"nccl-tests.bandwidth.algorithm.out_of_place: size over the mean time of an operation, operations queued back to back; of sendrecv one way of an exchange in both",
		"nccl-tests.bandwidth.algorithm.in_place: the same with one buffer",
		"nccl-tests.latency.amortised.out_of_place: that mean time (its \"time\"): an inverse rate, not one operation alone",
		"nccl-tests.latency.amortised.in_place: the same with one buffer",
		"nccl-tests.latency.iteration.out_of_place: each iteration by CUDA events, the largest over the processes (-I 1)",
		"nccl-tests.latency.iteration.in_place: the same with one buffer",
	},
	detect: func(b []byte) bool {
		return bytes.Contains(b, []byte(`"nccl_version"`)) || bytes.Contains(b, []byte(`"bus_bw"`)) || ncclText(b)
	},
	parse: parseNCCL,
}

// ncclText tells what nccl-tests prints, which its JSON is never part of.
func ncclText(b []byte) bool {
	return bytes.Contains(b, []byte("# Collective test starting:")) || bytes.Contains(b, []byte("# nThread "))
}

// ncclVersions is the newest layout of the file that is known; 2 brought the times of each iteration and 3 those left out.
const ncclVersions = 3

// ncclNumber tells null, which is printed for what was not checked, from a key that is missing.
type ncclNumber struct {
	loose
	present bool
}

func (n *ncclNumber) UnmarshalJSON(b []byte) error {
	n.present = true
	return n.loose.UnmarshalJSON(b)
}

type ncclBody struct {
	Time    ncclNumber `json:"time"`
	CPUTime ncclNumber `json:"cpu_time"` // in place of time (-C): of the host to launch, not of the operation
	AlgBW   ncclNumber `json:"alg_bw"`
	BusBW   ncclNumber `json:"bus_bw"`
	Wrong   ncclNumber `json:"nwrong"`
}

// missing names the first key that a body must have and has not.
func (b *ncclBody) missing() string {
	for _, key := range []struct {
		name string
		has  bool
	}{{"time", b.Time.present || b.CPUTime.present}, {"alg_bw", b.AlgBW.present}, {"bus_bw", b.BusBW.present}, {"nwrong", b.Wrong.present}} {
		if !key.has {
			return key.name
		}
	}
	return ""
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
		Bounds struct {
			Count loose `json:"count"`
		} `json:"out_of_bounds"`
		Errors []string `json:"errors"`
		End    string   `json:"end_time"`
	}
	if err := in.decode(&doc); err != nil {
		if ncclText(in.text) && !bytes.ContainsRune(in.text, '{') {
			return fmt.Errorf("%w; this is the text of nccl-tests, and the file of its -J is what can be read", err)
		}
		return err
	}
	switch v, ok := count(string(doc.Version)); {
	case doc.Version == "":
		return errors.New("no \"version\": the layout is not known")
	case !ok || v > ncclVersions:
		return fmt.Errorf("\"version\" is %.20s: the layouts 1 to %d are known", doc.Version, ncclVersions)
	}
	if len(doc.Results) == 0 {
		return errors.New("no \"results\": no size was measured")
	}
	if doc.End == "" {
		in.incomplete("the run did not end: there is no \"end_time\"")
	}
	in.f.Tool = "nccl-tests"
	if n, ok := count(string(doc.NCCL)); ok && n >= 10000 { // NCCL_VERSION_CODE of 2.9 and later
		in.f.Tool = fmt.Sprintf("nccl-tests (NCCL %d.%d.%d)", n/10000, n/100%100, n%100)
	}
	if t, err := time.Parse("2006-01-02 15:04:05", doc.Start); err == nil {
		in.f.Started = t
		in.warn("start time %s has no zone in the file; taken as UTC", doc.Start)
	}
	if n, ok := count(string(doc.Bounds.Count)); ok {
		in.warn("\"out_of_bounds\": wrong elements in %d checks, one for each rank, row and half", n)
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
	operation := ncclOperation(doc.Args)
	launches := 0
	for i, r := range doc.Results {
		size, ok := count(string(r.Size))
		if !ok {
			return fmt.Errorf("results[%d].size is missing or not above 0", i)
		}
		n, _ := count(string(r.Iterations))
		base := results.Cell{Transport: "nccl", Operation: or(operation, strings.ToLower(or(r.Name, "collective"))), TotalBytes: size, InitiatorMemory: "cuda", TargetMemory: "cuda", Wait: "spin",
			Settings: map[string]string{"type": r.Type}}
		if strings.Contains(base.Operation, "reduce") { // the others print one too
			base.Settings["redop"] = r.Op
		}
		if ranks > 0 {
			base.Settings["ranks"] = fmt.Sprint(ranks)
		}
		for _, place := range []struct {
			name string
			body *ncclBody
			each *ncclIterations
		}{{"out_of_place", r.Out, r.OutEach}, {"in_place", r.In, r.InEach}} {
			if place.body == nil { // both are printed for each size, unless the run ended between them
				in.f.Incomplete = strings.TrimPrefix(in.f.Incomplete+fmt.Sprintf("; results[%d] (%d bytes) has no %q", i, size, place.name), "; ")
				continue
			}
			if key := place.body.missing(); key != "" {
				return fmt.Errorf("results[%d].%s.%s is missing (%d bytes)", i, place.name, key, size)
			}
			cell := func(definition string) results.Cell {
				c := base
				c.Settings = maps.Clone(base.Settings)
				c.Definition = definition + "." + place.name
				verdict(&c, string(place.body.Wrong.loose))
				return c
			}
			c := cell("nccl-tests.bandwidth.algorithm")
			in.bandwidth(&c, scaled(string(place.body.AlgBW.loose), 1e9))
			if bus := scaled(string(place.body.BusBW.loose), 1e9); bus != nil {
				c.Settings["bus_bytes_per_second"] = fmt.Sprintf("%.10g", *bus)
			}
			in.add(c)
			us := func(v loose) *float64 { return scaled(string(v), 1e-6) }
			if place.body.CPUTime.present {
				launches++
			}
			if mean := us(place.body.Time.loose); mean != nil {
				l := cell("nccl-tests.latency.amortised")
				l.Latency = &results.Latency{Samples: n, MeanSeconds: mean, RoundsP50Seconds: []float64{}}
				in.add(l)
			}
			if e := place.each; e != nil {
				l := cell("nccl-tests.latency.iteration")
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
	if launches > 0 {
		in.warn("\"cpu_time\" is the host's time to launch (-C), not the operation's: there is no latency")
	}
	return nil
}

// ncclOperation is the collective, which only the program's name tells: experiment_name is written empty.
func ncclOperation(args []string) string {
	if len(args) == 0 {
		return ""
	}
	name := strings.TrimSuffix(path.Base(args[0]), "_mpi")
	if op, ok := strings.CutSuffix(name, "_perf"); ok {
		return strings.ToLower(op)
	}
	return ""
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
