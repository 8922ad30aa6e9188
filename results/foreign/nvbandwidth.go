package foreign

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"hopbench/results"
)

// nvbandwidth is the JSON (-j) of NVIDIA/nvbandwidth v0.8, json_output.cpp: numbers are strings there, and
// "N/A" stands where a pair has none.
var nvbandwidth = Format{
	Name: "nvbandwidth", Summary: "JSON of nvbandwidth -j",
	Definitions: []string{
		"nvbandwidth.bandwidth.median: bytes of 16 queued copies over the time between two CUDA events, median of 3",
		"nvbandwidth.bandwidth.median.read1, .read2, .write1, .write2, .total: of a bidirectional test, by the order of its matrices",
		"nvbandwidth.latency.load: one load of a chain of pointers",
	},
	detect: func(b []byte) bool { return bytes.Contains(b, []byte(`"nvbandwidth"`)) },
	parse:  parseNVBandwidth,
}

// defaultBuffer is nvbandwidth's own: 512 MiB (its README).
const defaultBuffer = 512 << 20

var (
	nvbArrow  = regexp.MustCompile(`(All Gpus|All|CPU|GPU)(?:\((row|column)\))?\s*(<->|->|<-)\s*(All Gpus|All|CPU|GPU)(?:\((row|column)\))?`)
	nvbDevice = regexp.MustCompile(`^(\d+): (.*?) \(([0-9A-Fa-f:.]+)\): \((.*)\)$`)
)

func parseNVBandwidth(in *reader) error {
	var doc struct {
		Root struct {
			Version string   `json:"version"`
			Runtime loose    `json:"CUDA Runtime Version"`
			Driver  string   `json:"Driver Version"`
			Devices []string `json:"GPU Device list"`
			Error   any      `json:"error"`
			Warning any      `json:"warning"`
			Cases   []struct {
				Name        string    `json:"name"`
				Status      string    `json:"status"`
				Error       string    `json:"error"`
				Description string    `json:"bandwidth_description"`
				Matrix      [][]loose `json:"bandwidth_matrix"`
			} `json:"testcases"`
		} `json:"nvbandwidth"`
	}
	if err := in.decode(&doc); err != nil {
		return err
	}
	in.f.Tool = strings.TrimSpace("nvbandwidth " + doc.Root.Version)
	if doc.Root.Warning != nil {
		in.warn("the run says: %v", doc.Root.Warning)
	}
	if doc.Root.Error != nil {
		in.warn("the run failed: %v", doc.Root.Error)
	}
	for _, d := range doc.Root.Devices {
		m := nvbDevice.FindStringSubmatch(d)
		if m == nil {
			continue
		}
		if len(in.f.Hosts) == 0 || in.f.Hosts[len(in.f.Hosts)-1].Hostname != m[4] {
			in.f.Hosts = append(in.f.Hosts, results.Host{Hostname: m[4]})
		}
		index, _ := count(m[1])
		h := &in.f.Hosts[len(in.f.Hosts)-1]
		h.GPUs = append(h.GPUs, results.GPU{Index: &index, Name: m[2], PCI: m[3], DriverVersion: doc.Root.Driver})
	}
	buffer := in.o.BufferBytes
	switch {
	case buffer > 0:
	case strings.Contains(fmt.Sprint(doc.Root.Warning), "smaller than the default buffer size"):
		in.warn("the buffer size is not the default, and the JSON does not name it: sizes are left open (--buffer-size tells)")
	default:
		buffer = defaultBuffer
		in.warn("the JSON does not name the buffer size: the default of 512 MiB is taken")
	}
	for i, t := range doc.Root.Cases {
		base := results.Cell{Transport: "cuda-peer", Operation: t.Name, TotalBytes: buffer, Wait: "spin", Definition: "nvbandwidth.bandwidth.median", InitiatorMemory: "cuda", TargetMemory: "cuda"}
		if strings.Contains(t.Name, "bidirectional") {
			base.Direction = "both"
		}
		switch {
		case t.Status == "Waived":
			base.Status, base.Reason = results.StatusWaived, or(t.Error, "nvbandwidth waived it on this host")
			in.add(base)
			continue
		case t.Status == "Running" && i+1 < len(doc.Root.Cases) && doc.Root.Cases[i+1].Name == t.Name:
			continue // a test that ended in an error stands twice
		case t.Status == "Not Found" || t.Status == "ERROR": // written so for a name that it does not know
			in.warn("test case %q is not in this build of nvbandwidth", t.Name)
			continue
		case t.Status != "Passed" || t.Error != "":
			base.Status, base.Reason = results.StatusFailed, or(t.Error, "nvbandwidth's status is "+t.Status)
			if t.Status == "Running" {
				base.Reason = "it was running when the output ended"
			}
			in.add(base)
			continue
		}
		if strings.Contains(t.Name, "device_to_device") { // some of them call their rows CPU
			t.Description = strings.Replace(t.Description, "CPU(row)", "GPU(row)", 1)
		}
		in.nvbMatrix(base, t.Description, t.Matrix)
	}
	return nil
}

// nvbMatrix makes a cell of every entry that has a figure. A bidirectional test between GPUs puts three matrices
// one below the other under one description: two directions or readings, and the total.
func (in *reader) nvbMatrix(base results.Cell, description string, matrix [][]loose) {
	parts := []string{""}
	columns := 0
	if len(matrix) > 0 {
		columns = len(matrix[0])
	}
	if base.Direction == "both" && columns > 0 && len(matrix) == 3*columns {
		parts = []string{".read1", ".read2", ".total"}
		if strings.Contains(base.Operation, "write") {
			parts = []string{".write1", ".write2", ".total"}
		}
	}
	rows := len(matrix) / len(parts)
	latency := strings.Contains(description, "(ns)")
	arrow := nvbArrow.FindStringSubmatch(description)
	for i, line := range matrix {
		for j, text := range line {
			if text == "N/A" {
				continue
			}
			c := base
			c.Definition += parts[i/max(rows, 1)]
			row, column := i%max(rows, 1), j
			if toOne, toAll := strings.Contains(base.Operation, "all_to_one"), strings.Contains(base.Operation, "one_to_all"); (toOne || toAll) && rows == 1 {
				// The one row is all the others; the names say which way, the arrows not always.
				c.InitiatorMemory, c.TargetMemory = "cuda:all", fmt.Sprintf("cuda:%d", column)
				if toAll {
					c.InitiatorMemory, c.TargetMemory = c.TargetMemory, c.InitiatorMemory
				}
			} else if arrow != nil {
				side := func(kind, axis string) string {
					n := column
					if axis == "row" {
						n = row
					}
					switch {
					case kind == "CPU":
						return "host"
					case strings.HasPrefix(kind, "All"):
						return "cuda:all"
					}
					return fmt.Sprintf("cuda:%d", n)
				}
				c.InitiatorMemory, c.TargetMemory = side(arrow[1], arrow[2]), side(arrow[4], arrow[5])
				if arrow[3] == "<-" { // the data flows to the left
					c.InitiatorMemory, c.TargetMemory = c.TargetMemory, c.InitiatorMemory
				}
			} else {
				c.InitiatorMemory = fmt.Sprintf("cuda:%d", column)
				c.TargetMemory = c.InitiatorMemory
			}
			if latency {
				c.Definition = "nvbandwidth.latency.load"
				c.TotalBytes, c.PieceBytes = 0, 0
				c.Direction = ""
				if v := scaled(string(text), 1e-9); v != nil {
					c.Latency = &results.Latency{MeanSeconds: v, RoundsP50Seconds: []float64{}}
				}
			} else if v := scaled(string(text), 1e9); v != nil {
				in.bandwidth(&c, v)
			} else if base.Operation != "" && row == column && string(text) != "" {
				continue // text output prints 0.00 on the diagonal; no pair
			}
			in.add(c)
		}
	}
}
