package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"hopbench/results"
)

// nvbandwidth is the JSON (-j) of NVIDIA/nvbandwidth v0.8, json_output.cpp: numbers are strings there, and
// "N/A" stands where a pair has none.
//
// Of a test between two devices, and of a latency, the cell's initiator is the GPU that reads or writes. That is the row: the
// arrows of the descriptions are turned round against what testcases_ce.cpp and testcases_sm.cpp copy. Of every other test
// the initiator is where the bytes come from.
var nvbandwidth = Format{
	Name: "nvbandwidth", Summary: "JSON of nvbandwidth -j",
	Definitions: []string{
		"nvbandwidth.bandwidth.median: bytes of 16 queued copies over the time between two CUDA events, median of 3",
		"nvbandwidth.bandwidth.median.read1, .read2, .write1, .write2, .total: of a bidirectional test, by the order of its matrices",
		"nvbandwidth.latency.load: one load of a chain of pointers, there and back",
	},
	detect: func(b []byte) bool { return bytes.Contains(b, []byte(`"nvbandwidth"`)) },
	parse:  parseNVBandwidth,
}

var (
	nvbArrow  = regexp.MustCompile(`(All Gpus|All|CPU|GPU)(?:\((row|column)\))?\s*(<->|->|<-)\s*(All Gpus|All|CPU|GPU)(?:\((row|column)\))?`)
	nvbDevice = regexp.MustCompile(`^(\d+): (.*?) \(([0-9A-Fa-f:.]+)\): \((.*)\)$`)
)

func parseNVBandwidth(in *reader) error {
	var doc struct {
		Root struct {
			Version string   `json:"version"`
			Git     string   `json:"git_version"`
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
	if git := doc.Root.Git; git != "" && git != doc.Root.Version {
		in.f.Tool += " (" + git + ")"
	}
	if doc.Root.Warning != nil {
		in.warn("the run says: %v", doc.Root.Warning)
	}
	if doc.Root.Error != nil {
		in.incomplete("the run failed: %s", strings.TrimSpace(fmt.Sprint(doc.Root.Error)))
	}
	if len(doc.Root.Cases) == 0 {
		return errors.New("no \"testcases\": nothing was measured")
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
	if in.o.BufferBytes == 0 {
		in.warn("the JSON does not name the buffer size: sizes are left open (--buffer-size tells)")
	}
	for i, t := range doc.Root.Cases {
		if t.Name == "" || t.Status == "" {
			return fmt.Errorf("testcases[%d] (%s) has no name or no status", i, t.Name)
		}
		base := results.Cell{Transport: "cuda-peer", Operation: t.Name, TotalBytes: in.o.BufferBytes, Wait: "spin", Definition: "nvbandwidth.bandwidth.median", InitiatorMemory: "cuda", TargetMemory: "cuda"}
		if strings.Contains(t.Name, "bidirectional") {
			base.Direction = "both"
		}
		switch {
		case strings.EqualFold(t.Status, "Waived"):
			base.Status, base.Reason = results.StatusWaived, or(t.Error, "nvbandwidth waived it on this host")
			in.add(base)
			continue
		case t.Status == "Running" && i+1 < len(doc.Root.Cases) && doc.Root.Cases[i+1].Name == t.Name:
			continue // a test that ended in an error stands twice
		case t.Status == "Not Found" || t.Status == "ERROR": // written so for a name that it does not know
			in.warn("test case %q is not in this build of nvbandwidth", t.Name)
			continue
		case !strings.EqualFold(t.Status, "Passed") || t.Error != "":
			base.Status, base.Reason = results.StatusFailed, or(t.Error, "nvbandwidth's status is "+t.Status)
			if t.Status == "Running" {
				base.Reason = "it was running when the output ended"
				in.incomplete("%s was running when the output ended", t.Name)
			}
			in.add(base)
			continue
		}
		// No key tells the unit; one description of multinode_testcases.cpp has none, and is of GB/s.
		if !strings.Contains(t.Description, "(GB/s)") && !strings.Contains(t.Description, "(ns)") && !strings.HasSuffix(t.Description, " BW") {
			return fmt.Errorf("testcases[%d] (%s): no bandwidth_description with a unit, GB/s or ns: %.60q", i, t.Name, t.Description)
		}
		devices := len(doc.Root.Devices)
		if strings.HasPrefix(t.Name, "multinode") { // one column for each process, on any host
			devices = 0
		}
		if err := shape(base, t.Matrix, devices); err != nil {
			return fmt.Errorf("testcases[%d] (%s): bandwidth_matrix: %w", i, t.Name, err)
		}
		in.nvbMatrix(base, t.Description, t.Matrix)
	}
	return nil
}

// shape is an error where the rows and columns are not those of the devices: one row, a square, or three squares of a test
// both ways. devices is 0 where the number is not known.
func shape(base results.Cell, matrix [][]loose, devices int) error {
	if len(matrix) == 0 || len(matrix[0]) == 0 {
		return errors.New("missing or empty")
	}
	columns := len(matrix[0])
	for i, line := range matrix {
		if len(line) != columns {
			return fmt.Errorf("row %d has %d columns, the first %d", i, len(line), columns)
		}
	}
	rows := len(matrix)
	if devices > 0 && columns > devices {
		return fmt.Errorf("%d columns do not fit %d devices", columns, devices)
	}
	if rows == 1 || rows == columns || rows == 3*columns && base.Direction == "both" {
		return nil
	}
	return fmt.Errorf("%d rows do not fit %d devices", rows, columns)
}

// nvbMatrix makes a cell of every entry that has a figure. A bidirectional test between GPUs puts three matrices
// one below the other under one description: two directions or readings, and the total.
func (in *reader) nvbMatrix(base results.Cell, description string, matrix [][]loose) {
	parts := []string{""}
	columns := len(matrix[0])
	if base.Direction == "both" && len(matrix) == 3*columns {
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
			c.Definition += parts[i/rows]
			row, column := i%rows, j
			if toOne, toAll := strings.Contains(base.Operation, "all_to_one"), strings.Contains(base.Operation, "one_to_all"); (toOne || toAll) && rows == 1 {
				// The one row is all the others; the names say which way, the arrows not always.
				c.InitiatorMemory, c.TargetMemory = "cuda:all", fmt.Sprintf("cuda:%d", column)
				if toAll {
					c.InitiatorMemory, c.TargetMemory = c.TargetMemory, c.InitiatorMemory
				}
			} else if strings.Contains(base.Operation, "device_to_device") {
				mine, other := fmt.Sprintf("cuda:%d", row), fmt.Sprintf("cuda:%d", column)
				c.InitiatorMemory, c.TargetMemory = mine, other
				switch {
				case latency || c.Direction == "both":
				case strings.Contains(base.Operation, "_read_"):
					c.Settings = map[string]string{"data": other + " to " + mine}
				case strings.Contains(base.Operation, "_write_"):
					c.Settings = map[string]string{"data": mine + " to " + other}
				}
			} else if latency && arrow != nil && arrow[1] == "CPU" {
				c.InitiatorMemory, c.TargetMemory = fmt.Sprintf("cuda:%d", column), "host"
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
