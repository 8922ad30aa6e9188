package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"hopbench/harness"
	"hopbench/harness/doctor"
	"hopbench/transports"
	"hopbench/transports/cudapeer"
	"hopbench/transports/fault"
	"hopbench/transports/loopback"
	"hopbench/transports/tcp"
	"hopbench/transports/topo"
	"hopbench/transports/verbs"
)

var updateReports = flag.Bool("update-reports", false, "write the doctor's golden reports anew")

const hostFolder = "../../../transports/topo/testdata/hosts"

// checksOnly is a driver of which the doctor gets to see the checks alone: what a captured host needs.
type checksOnly struct {
	name   string
	checks []transports.Check
}

func (d checksOnly) Name() string                 { return d.name }
func (checksOnly) Settings() []transports.Setting { return nil }
func (checksOnly) Probe(context.Context) error    { return nil }
func (d checksOnly) Checks() []transports.Check   { return d.checks }
func (checksOnly) Open(context.Context, transports.Options) (transports.Transport, error) {
	return nil, fault.New(fault.CapabilityGap, "open", "", "checks only")
}

func patients() []transports.Driver {
	return []transports.Driver{loopback.New(), checksOnly{"cuda-peer", cudapeer.Checks()}, checksOnly{"infiniband", verbs.Checks("InfiniBand")},
		checksOnly{"roce", verbs.Checks("Ethernet")}, tcp.New()}
}

// TestDoctorOnHosts holds the doctor to the verdicts and codes that were written beside each host before it existed: every
// finding that is not ok, and no other.
func TestDoctorOnHosts(t *testing.T) {
	files, err := filepath.Glob(hostFolder + "/*.expect")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d hosts, want at least 25 (%v)", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".expect")
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			h, err := topo.Read(filepath.Join(hostFolder, name+".txtar"), topo.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := doctor.Examine(h, patients())
			var want, got []string
			verdicts := map[string]string{}
			for line := range strings.Lines(string(b)) {
				f := strings.Fields(line)
				switch f[0] {
				case "finding":
					want = append(want, strings.Join(f[1:], " "))
				case "transport":
					verdicts[f[1]] = f[2]
				}
			}
			for _, x := range r.Transports {
				if v, ok := verdicts[x.Name]; ok && v != string(x.Verdict) {
					t.Errorf("%s is %s, want %s", x.Name, x.Verdict, v)
				}
				for _, f := range x.Findings {
					if f.Severity != fault.OK {
						got = append(got, fmt.Sprintf("%s %s %s", x.Name, f.Code, f.Severity))
						if len(f.Evidence) == 0 {
							t.Errorf("%s: %s has no evidence", x.Name, f.Code)
						}
					}
					if _, ok := fault.Lookup(f.Code); !ok {
						t.Errorf("%s: no row for %s", x.Name, f.Code)
					}
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			for _, w := range want {
				if !slices.Contains(got, w) {
					t.Errorf("missing: %s", w)
				}
			}
			for _, g := range got {
				if !slices.Contains(want, g) {
					t.Errorf("not expected: %s", g)
				}
			}
			golden(t, name, r)
		})
	}
}

// golden compares the page with the one of before, and holds it to the terminal's width.
func golden(t *testing.T, name string, r doctor.Report) {
	t.Helper()
	r.Host.Source = name
	var b bytes.Buffer
	if err := r.WriteText(&b, false); err != nil {
		t.Fatal(err)
	}
	fits(t, b.String())
	var all bytes.Buffer
	if err := r.WriteText(&all, true); err != nil {
		t.Fatal(err)
	}
	fits(t, all.String())
	file := filepath.Join("testdata/doctor", name+".txt")
	if *updateReports {
		if err := os.MkdirAll("testdata/doctor", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != b.String() {
		t.Errorf("the report of %s has changed (-update-reports writes it anew):\n%s", name, b.String())
	}
}

// fits holds a page to the terminal's width.
func fits(t *testing.T, page string) {
	t.Helper()
	for line := range strings.Lines(page) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > doctor.Columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestEveryPageFits: the explanations, the list of codes, and each host beside each of a few others.
func TestEveryPageFits(t *testing.T) {
	_, out, _ := doctorRun(t, "", "--explain", "list")
	fits(t, out)
	for _, row := range fault.Table() {
		_, out, _ := doctorRun(t, "", "--explain", string(row.Code))
		fits(t, out)
	}
	files, _ := filepath.Glob(hostFolder + "/*.txtar")
	for _, f := range files {
		for _, other := range []string{"single-roce", "hgx-infiniband", "rxe-only", "ipv6-only"} {
			_, out, _ := doctorRun(t, "", "--root", f, "--peer", hostFolder+"/"+other+".txtar")
			fits(t, out)
		}
	}
}

// TestEveryCodeOfAHostHasAHost: each code that a check can find is found on one of the hosts, as a finding or with its fixes.
func TestEveryCodeOfAHostHasAHost(t *testing.T) {
	found := map[fault.Code]bool{}
	files, _ := filepath.Glob(hostFolder + "/*.txtar")
	for _, f := range files {
		h, err := topo.Read(f, topo.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range doctor.Examine(h, patients()).Transports {
			for _, g := range x.Findings {
				if g.Severity != fault.OK {
					found[g.Code] = true
				}
			}
		}
	}
	// What says "ok" when all is well, and has no bad news of its own.
	wellOnly := []fault.Code{fault.PCISpeed, fault.GDRDMABuf}
	for _, d := range patients() {
		for _, c := range d.Checks() {
			if !found[c.Code] && !slices.Contains(wellOnly, c.Code) {
				t.Errorf("%s: no host has %s", d.Name(), c.Code)
			}
		}
	}
}

func doctorRun(t *testing.T, stdin string, args ...string) (int, string, string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := &Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Drivers: patients(), Getenv: func(string) string { return "" }}
	code := Run(env, append([]string{"doctor"}, args...))
	return code, out.String(), errs.String()
}

func TestDoctorExitStatusAndJSON(t *testing.T) {
	pod := hostFolder + "/pod-no-device.txtar"
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"--root", pod}, 0}, // tcp is usable
		{[]string{"--root", pod, "--transport", "infiniband"}, 3},
		{[]string{"--root", pod, "--transport", "tcp"}, 0},
		{[]string{"--root", pod, "--transport", "tcp,infiniband"}, 3},
		{[]string{"--root", "no-such-host"}, 2},
		{[]string{"--transport", "infinband"}, 2},
		{[]string{"--explain", "verbs.memlok"}, 2},
		{[]string{"--explain", "verbs.memlock"}, 0},
	} {
		code, _, errs := doctorRun(t, "", c.args...)
		if code != c.want {
			t.Errorf("%v: exit %d, want %d (%s)", c.args, code, c.want, errs)
		}
		if c.want == 2 && !strings.Contains(errs, "hopbench: ") {
			t.Errorf("%v: no line on standard error", c.args)
		}
	}
	_, out, _ := doctorRun(t, "", "--root", pod, "--json")
	var got struct {
		Transports []struct {
			Name, Verdict string
			Findings      []struct {
				Code, Severity, Summary string
				Evidence                []struct{ Source, Got, Want string }
				Fix                     []struct{ Place, Do string }
			}
		}
		Ports []map[string]any `json:"rdma_ports"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Transports) != 5 || len(got.Ports) != 8 || got.Ports[0]["verdict"] != "unusable" || got.Ports[0]["device"] != "mlx5_0" {
		t.Errorf("%s", out)
	}
	for _, tr := range got.Transports {
		for _, f := range tr.Findings {
			if f.Code == string(fault.RDMANoNode) && (len(f.Fix) == 0 || f.Fix[0].Place != string(fault.Kubernetes)) {
				t.Errorf("in a pod the first fix is the pod's spec: %+v", f.Fix)
			}
			if strings.HasPrefix(f.Code, "verbs.memlock") {
				t.Errorf("%s on a host where RDMA cannot be opened", f.Code)
			}
		}
	}
	_, out, _ = doctorRun(t, "", "--root", hostFolder+"/no-stack.txtar", "--json")
	if !strings.Contains(out, `"rdma_ports": []`) {
		t.Errorf("no port is an empty list: %s", out)
	}
}

// TestDoctorLogFromThePod is the case that started the project: an MPI job in a pod that did not request the device.
func TestDoctorLogFromThePod(t *testing.T) {
	log := "[pod-1:7:0] ib_device.c:1174 UCX ERROR ibv_create_ah(dlid=49152 sl=0 port=1) for UD mlx5 connect on mlx5_1 failed: No such device\n" +
		"*** An error occurred in MPI_Init_thread\n"
	code, out, errs := doctorRun(t, log, "--root", hostFolder+"/pod-no-device.txtar", "--log", "-")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"no bug of the program", "confirmed", "verbs.no-node", "pod spec: request the RDMA device plugin's resource"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	// On a host where everything is well the same line must not be blamed on it.
	_, out, _ = doctorRun(t, log, "--root", hostFolder+"/hgx-infiniband.txtar", "--log", "-")
	if strings.Contains(out, "confirmed, ") {
		t.Errorf("confirmed on a healthy host:\n%s", out)
	}
}

// TestDoctorPeerCaptured compares two captured hosts: the MTUs differ, the rest fits.
func TestDoctorPeerCaptured(t *testing.T) {
	code, out, errs := doctorRun(t, "", "--root", hostFolder+"/single-roce.txtar", "--peer", hostFolder+"/roce-untuned.txtar", "--json")
	var got comparison
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("exit %d: %v %s", code, err, errs)
	}
	if len(got.Findings) != 1 || got.Findings[0].Code != fault.PairMTU || got.NotTold == "" {
		t.Errorf("%+v", got.Findings)
	}
	code, out, _ = doctorRun(t, "", "--root", hostFolder+"/single-roce.txtar", "--peer", hostFolder+"/roce-v1-only.txtar")
	if code != 3 || !strings.Contains(out, string(fault.PairGIDType)) {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, _, errs = doctorRun(t, "", "--peer", "nowhere"); code != 2 || !strings.Contains(errs, "neither HOST:PORT") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestDoctorJudgesThePlan: the limit of an ordinary user holds a small plan and not a large one.
func TestDoctorJudgesThePlan(t *testing.T) {
	host := filepath.Join(t.TempDir(), "host.txtar")
	b, err := os.ReadFile(hostFolder + "/single-roce.txtar")
	if err != nil {
		t.Fatal(err)
	}
	s := strings.Replace(string(b), "Max locked memory         unlimited            unlimited ", "Max locked memory         12582912             12582912  ", 1)
	s = strings.ReplaceAll(s, "000001ffffffffff", "0000000000000000")
	if err := os.WriteFile(host, []byte(s), 0o644); err != nil {
		t.Fatal(err)
	}
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(plan, []byte("sizes_bytes: [1073741824]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// What the check takes for the default sweep's need holds what the default sweep needs, and not much more.
	if need := harness.DefaultPlan(); need.Memory() > 18<<20 || need.Memory() < 12<<20 {
		t.Errorf("the default plan takes %d bytes a side: transports/verbs/checks.go says otherwise", need.Memory())
	}
	for _, c := range []struct {
		args []string
		want int
		part string
	}{
		{nil, 0, "the default sweep's largest buffer"},
		{[]string{"--sizes", "64:64KiB"}, 0, ""},
		{[]string{"--sizes", "1GiB"}, 3, "the plan's buffer"},
		{[]string{"--plan", plan}, 3, "the plan's buffer"},
		{[]string{"--plan", plan, "--sizes", "64"}, 0, ""},
	} {
		code, out, errs := doctorRun(t, "", append([]string{"--root", host, "--transport", "roce"}, c.args...)...)
		said := strings.Join(strings.Fields(out), " ")
		if code != c.want || c.part != "" && !strings.Contains(said, c.part) || c.part == "" && strings.Contains(said, string(fault.RDMAMemlock)) {
			t.Errorf("%v: status %d, want %d: %s%s", c.args, code, c.want, out, errs)
		}
	}
}
