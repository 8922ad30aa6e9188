package report

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft"
	"hopbench/bench/ttft/engine"
	"hopbench/bench/ttft/example"
	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/prefill"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (-update writes it anew):\n%s", path, got)
	}
}

func TestExample(t *testing.T) {
	e, err := example.Dynamo98()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := WriteExample(&b, e); err != nil {
		t.Fatal(err)
	}
	golden(t, "dynamo-98s.txt", b.Bytes())
}

// A table of references, one link given, and one load that cannot be served;
// the paragraph beside it.
func TestTableAndParagraph(t *testing.T) {
	m, err := kvcache.Load("meta-llama/Meta-Llama-3.1-70B", kvcache.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	preset, err := engine.Find("vllm-nixl")
	if err != nil {
		t.Fatal(err)
	}
	p, err := prefill.Rate(20_000, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	tp := kvcache.Parallel{TP: 8}
	s := &ttft.Scenario{
		Model: m, Layout: kvcache.Options{BlockTokens: 16, Placement: kvcache.Split, Prefill: tp, Decode: tp}, Engine: preset, Prefill: p,
		PrefillWorkers: 2, DecodeWorkers: 1, Budget: 8192, DecodeBatch: 64, Step: ttft.Step{Base: 0.02, PerRequest: 1e-4, Provenance: "given"},
		Load: ttft.Load{Rate: 2, Requests: 2000, Input: 8192, Output: 100}, Limit: 2, Seed: 1,
	}
	links, err := link.References(0)
	if err != nil {
		t.Fatal(err)
	}
	thin, err := link.Given("thin", link.Spec{Low: 0.3e9, High: 0.3e9})
	if err != nil {
		t.Fatal(err)
	}
	var list []*ttft.Projection
	for _, l := range append(links, thin) {
		p, err := ttft.Project(s, l)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	var b bytes.Buffer
	if err := Table(&b, list); err != nil {
		t.Fatal(err)
	}
	b.WriteString("\n" + Paragraph(list[1], 3.5, nil) + "\n\n" + Paragraph(list[len(list)-1], 0, nil) + "\n")
	golden(t, "table.txt", b.Bytes())
}

func TestSeconds(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1e-7: "0.1 us", 999.6e-6: "1.00 ms", 0.0123: "12.3 ms", 0.9996: "1.00 s", 1.0985: "1.10 s", 1.4951: "1.50 s", 20e-3: "20 ms", 9.996: "10.0 s", 12.34: "12.3 s", 99.96: "100 s", 1234: "1234 s", -0.002: "-2 ms"} {
		if got := Seconds(v); got != want {
			t.Errorf("Seconds(%g) = %q, want %q", v, got, want)
		}
	}
	for v, want := range map[int64]string{12: "12 B", 999_600: "1 MB", 32768: "32.8 kB", 1048576000: "1.05 GB"} {
		if got := Bytes(v); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", v, got, want)
		}
	}
}
