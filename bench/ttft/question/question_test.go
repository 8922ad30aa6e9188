package question

import (
	"strings"
	"testing"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft"
	"hopbench/bench/ttft/ask"
	"hopbench/bench/ttft/engine"
	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/prefill"
	"hopbench/bench/ttft/report"
	"hopbench/bench/ttft/sim"
	"hopbench/results"
)

// base is Llama-3.1-8B at 8000 tokens with prefill at 20000 tokens a second: 0.4 s a prompt.
func base(t *testing.T) *ttft.Scenario {
	t.Helper()
	s := Scenario(engine.Presets()[0])
	var err error
	if s.Model, err = kvcache.Load("meta-llama/Meta-Llama-3.1-8B", kvcache.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	if s.Prefill, err = prefill.Rate(20_000, 0); err != nil {
		t.Fatal(err)
	}
	s.Load.Input = 8000
	return s
}

func TestSettle(t *testing.T) {
	for _, k := range []struct {
		load                  ttft.Load
		concurrency, requests int
	}{
		{ttft.Load{}, 1, 1}, {ttft.Load{Requests: 7}, 1, 1}, {ttft.Load{Rate: 2}, 0, 20_000}, {ttft.Load{Rate: 2, Requests: 7}, 0, 7},
		{ttft.Load{Concurrency: 4}, 4, 1000}, {ttft.Load{Concurrency: 400}, 400, 8000},
	} {
		l := k.load
		if err := Settle(&l); err != nil || l.Concurrency != k.concurrency || l.Requests != k.requests {
			t.Errorf("%+v: %d users, %d requests (%v), want %d and %d", k.load, l.Concurrency, l.Requests, err, k.concurrency, k.requests)
		}
	}
	if err := Settle(&ttft.Load{Rate: 1, Concurrency: 1}); err == nil {
		t.Error("two loads are taken")
	}
}

func TestOverlap(t *testing.T) {
	sglang, err := engine.Find("sglang")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]sim.Overlap{"": sim.Chunked, "serial": sim.Serial, "layerwise": sim.Layerwise} {
		if got, err := Overlap(name, sglang); err != nil || got != want {
			t.Errorf("%q: %v %v, want %v", name, got, err, want)
		}
	}
	if _, err := Overlap("sometimes", sglang); err == nil || !strings.Contains(err.Error(), "sometimes") {
		t.Errorf("%v", err)
	}
}

func TestLinksThatAreWanted(t *testing.T) {
	cell := func(transport, operation, memory string) results.Cell {
		return results.Cell{Transport: transport, Label: transport, Operation: operation, Direction: "forward", Definition: "bandwidth.confirmed", PieceBytes: 32768, TotalBytes: 32768, Descriptors: 1, Depth: 16,
			Streams: 1, Concurrency: 1, InitiatorMemory: memory, TargetMemory: memory, Status: results.StatusOK, Bandwidth: &results.Bandwidth{BytesPerSecond: 1e9}}
	}
	cells := []results.Cell{cell("tcp", "read", "host"), cell("tcp", "read", "cuda:0"), cell("tcp", "write", "host"), cell("roce", "read", "host")}
	var doc report.Document
	links, have, err := Links(cells, Want{Operation: "read", Transports: []string{"tcp"}}, &doc)
	if err != nil || len(links) != 2 || strings.Join(have, " ") != "tcp" {
		t.Fatalf("%d links of %q: %v", len(links), have, err)
	}
	if links[0].Label == links[1].Label || !strings.Contains(links[0].Label+links[1].Label, "cuda:0 to cuda:0") {
		t.Errorf("%q and %q read the same", links[0].Label, links[1].Label)
	}
	if len(doc.Refused) != 1 || !strings.Contains(doc.Refused[0].Reason, "measured with write") {
		t.Errorf("refused: %+v", doc.Refused)
	}
	cells[0].Realm = results.RealmDouble
	if _, _, err := Links(cells, Want{Operation: "read"}, &doc); err == nil {
		t.Error("a cell of a test double makes a link")
	}
}

// A load that no link serves is said with the part and its utilisation; one link that does is enough for silence.
func TestNever(t *testing.T) {
	s := base(t)
	s.Load.Rate, s.Load.Requests = 5, 2000
	fast, err := link.Given("fast", link.Spec{Low: 100e9, High: 100e9})
	if err != nil {
		t.Fatal(err)
	}
	var doc report.Document
	list, kept, err := Project(s, []*link.Link{fast}, []bool{false}, "x", &doc)
	if err != nil || len(list) != 1 || len(kept) != 1 {
		t.Fatalf("%d of %d: %v", len(list), len(kept), err)
	}
	if why := Never(list); !strings.Contains(why, "fast (given)") || !strings.Contains(why, "% of its capacity") {
		t.Errorf("%q", why)
	}
	s = base(t)
	s.Load.Rate, s.Load.Requests = 0.5, 2000
	more, _, err := Project(s, []*link.Link{fast}, []bool{false}, "x", &doc)
	if err != nil {
		t.Fatal(err)
	}
	if why := Never(append(list, more...)); why != "" {
		t.Errorf("one link serves the load, and %q", why)
	}
	if Never(nil) != "" {
		t.Error("no projection can serve it?")
	}
}

// Numbers of one are said as one.
func TestFindSaysOne(t *testing.T) {
	s := base(t)
	if err := Settle(&s.Load); err != nil {
		t.Fatal(err)
	}
	s.Limit = 2
	l, err := link.Given("a", link.Spec{Low: 10e9, High: 10e9})
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range Limits() {
		a, err := Find(s, l, ask.P50, what)
		if err != nil || a.Value == nil || strings.Contains(a.Text, " 1 NICs") || strings.Contains(a.Text, " 1 workers") || a.Text == "1 users" {
			t.Errorf("%s: %+v %v", what, a, err)
		}
	}
	if _, err := Find(s, l, ask.P50, "colour"); err == nil {
		t.Error("an unknown question is answered")
	}
	s.Limit = 1e-6
	if a, err := Find(s, l, ask.P50, "bandwidth"); err != nil || a.Value != nil || !strings.Contains(a.Text, "cannot be met") {
		t.Errorf("a limit that cannot be met: %+v %v", a, err)
	}
}
