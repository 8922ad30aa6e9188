package cli

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func probeRun(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }}
	if code := Run(env, append([]string{"probe"}, args...)); code != 0 {
		t.Fatalf("%v: exit %d: %s", args, code, errs.String())
	}
	return out.String()
}

func TestProbePages(t *testing.T) {
	files, _ := filepath.Glob(hostFolder + "/*.txtar")
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txtar")
		out := strings.ReplaceAll(probeRun(t, "--root", f), f, name)
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		if name != "hgx-infiniband" && name != "pcie-gpus" && name != "odd-attributes" {
			continue
		}
		golden := filepath.Join("testdata/probe", name+".txt")
		if *updateReports {
			_ = os.MkdirAll("testdata/probe", 0o755)
			if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != out {
			t.Errorf("probe of %s has changed (-update-reports writes it anew):\n%s", name, out)
		}
	}
}

func TestProbeJSONAndPicture(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "topology.svg")
	out := probeRun(t, "--root", hostFolder+"/hgx-infiniband.txtar", "--json", "--svg", svg)
	var got struct {
		GPUs  []any `json:"gpus"`
		Pairs []struct {
			GPU, NIC string
			Nearest  bool
			Pair     struct {
				Class  string
				Narrow struct {
					Generation, Width int
				} `json:"narrowest"`
			}
		}
		Graph struct {
			Boxes, Lines []any
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	// Eight GPUs and the eight HCAs beside them, and the management NIC.
	if len(got.GPUs) != 8 || len(got.Pairs) != 8*9 || len(got.Graph.Boxes) == 0 {
		t.Errorf("%d GPUs, %d pairs, %d boxes", len(got.GPUs), len(got.Pairs), len(got.Graph.Boxes))
	}
	if p := got.Pairs[0]; p.NIC != "mlx5_0" || !p.Nearest || p.Pair.Class != "PIX" || p.Pair.Narrow.Generation != 5 || p.Pair.Narrow.Width != 16 {
		t.Errorf("%+v", p)
	}
	b, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{">GPU 7<", ">mlx5_7<", ">NUMA node 1<", "Gen5 x16"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
}
