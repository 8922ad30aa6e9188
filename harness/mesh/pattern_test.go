package mesh

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hopbench/harness"
	"hopbench/harness/control"
	"hopbench/harness/mesh/schedule"
)

func lay(t *testing.T, size int, a Ask) *Layout {
	t.Helper()
	l, err := Lay(size, a)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *Layout) text() string {
	var all []string
	for _, s := range l.Stages {
		var pairs []string
		for _, p := range s.Pairs {
			pairs = append(pairs, fmt.Sprintf("%d-%d", p.From, p.To))
		}
		all = append(all, s.Schedule+" "+strings.Join(pairs, ","))
	}
	return strings.Join(all, "; ")
}

func TestPatternsAreSpeltOut(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	for _, c := range []struct {
		ask  Ask
		want string
	}{
		{Ask{Name: "ring"}, "ring 0-1,2-3; ring 1-2,3-0"},
		{Ask{Name: "ring", Loaded: true}, "ring 0-1,2-3; ring 1-2,3-0; ring at once 0-1,2-3,1-2,3-0"},
		{Ask{Name: "ring", Isolated: true}, "isolated 0-1; isolated 2-3; isolated 1-2; isolated 3-0"},
		{Ask{Name: "bisection"}, "isolated 0-2; isolated 1-3; bisection 0-2,1-3"},
		{Ask{Name: "bisection", Left: "d,a", Loaded: true}, "bisection 3-1,0-2"},
		{Ask{Name: "incast", To: "b", Sources: "a,d"}, "isolated 0-1; isolated 3-1; incast 0-1,3-1"},
		{Ask{Name: "one-to-all", From: "2", Loaded: true}, "one-to-all 2-0,2-1,2-3"},
		{Ask{Name: "prefill-decode", Prefill: "0", Decode: "c,d", Loaded: true}, "prefill-decode 0-2,0-3"},
		{Ask{Name: "matrix", Matrix: strings.NewReader("0 5 0 0\n0 0 0 0\n0 0 0 7\n0 0 0 0\n"), Loaded: true}, "matrix 0-1,2-3; matrix, moved 0-1,2-3"},
		{Ask{Name: "all-pairs", Present: []bool{true, false, true, true}}, "all-pairs 0-3; all-pairs 3-2; all-pairs 2-0"},
		{Ask{Name: "incast", Present: []bool{true, false, true, true}, Loaded: true}, "incast 2-0,3-0"},
	} {
		c.ask.Names = names
		got := lay(t, 4, c.ask)
		if c.ask.Name == "all-pairs" { // which way round a pair stands is the schedule's matter
			if len(got.Stages) != 3 || got.Pairs() != 3 || !got.BothDirections {
				t.Errorf("%+v: %s", c.ask, got.text())
			}
			continue
		}
		if got.text() != c.want {
			t.Errorf("%s: %s, want %s", c.ask.Name, got.text(), c.want)
		}
	}
	l := lay(t, 4, Ask{Name: "matrix", Matrix: strings.NewReader("0 5 0 0\n0 0 0 0\n0 0 0 7\n0 0 0 0\n")})
	last := l.Stages[len(l.Stages)-1]
	if last.Schedule != Moved || last.Bytes[schedule.Pair{From: 2, To: 3}] != 7 || len(last.Bytes) != 2 || last.Sum {
		t.Errorf("the last stage moves %+v", last)
	}
	if a, b, c := last.bytes(schedule.Pair{From: 2, To: 3}, 0, 3), last.bytes(schedule.Pair{From: 2, To: 3}, 1, 3), last.bytes(schedule.Pair{From: 2, To: 3}, 2, 3); a != 3 || b != 2 || c != 2 {
		t.Errorf("7 bytes over three rails are %d, %d, %d", a, b, c)
	}
	l = lay(t, 4, Ask{Name: "incast", Loaded: true})
	l.AddBackground()
	if len(l.Stages) != 2 || !l.Stages[1].Background || l.Stages[1].Schedule != "incast, background" || l.Stages[0].Background {
		t.Errorf("with a load: %+v", l.Stages)
	}
}

// Every pair of a mesh that lacks ranks is measured once, and those that are missing in none.
func TestAllPairsOfThoseThatAreHere(t *testing.T) {
	for size := 3; size <= 20; size++ {
		present := make([]bool, size)
		here := 0
		for n := range size {
			if present[n] = n%5 != 3; present[n] {
				here++
			}
		}
		l := lay(t, size, Ask{Name: "all-pairs", Present: present})
		seen := map[[2]int]bool{}
		for _, s := range l.Stages {
			busy := map[int]bool{}
			for _, p := range s.Pairs {
				if !present[p.From] || !present[p.To] || busy[p.From] || busy[p.To] {
					t.Fatalf("%d ranks: a round has %v", size, s.Pairs)
				}
				busy[p.From], busy[p.To] = true, true
				seen[[2]int{min(p.From, p.To), max(p.From, p.To)}] = true
			}
		}
		if len(seen) != here*(here-1)/2 {
			t.Errorf("%d ranks, %d here: %d pairs", size, here, len(seen))
		}
	}
}

func TestPatternsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		size int
		ask  Ask
		want string
	}{
		{1, Ask{Name: "ring"}, "at least 2 ranks"},
		{4, Ask{Name: "star"}, `there is no "star"`},
		{4, Ask{Name: "bisection", Left: "0,1,0"}, "--left"},
		{4, Ask{Name: "bisection", Left: "0,1", Right: "1,2"}, "rank 1 is in"},
		{4, Ask{Name: "prefill-decode", Decode: "1"}, "give --prefill"},
		{4, Ask{Name: "incast", To: "0,1"}, "--to: 2 ranks; it is one"},
		{4, Ask{Name: "incast", To: "7"}, "ranks 0 to 3"},
		{4, Ask{Name: "matrix"}, "--matrix FILE"},
		{4, Ask{Name: "matrix", Matrix: strings.NewReader("0 1\n1 0\n")}, "2 rows; the mesh has 4 ranks"},
		{4, Ask{Name: "incast", Present: []bool{false, true, true, true}}, "no pair of ranks is left"},
	} {
		if _, err := Lay(c.size, c.ask); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.ask, err, c.want)
		}
	}
}

func TestCostOfALayout(t *testing.T) {
	p := harness.DefaultPlan()
	p.Transports, p.Operations, p.Metrics, p.Sizes = []string{"tcp"}, p.Operations[:1], p.Metrics[:1], []uint64{1 << 20}
	l := lay(t, 8, Ask{Name: "all-pairs"})
	rows, seconds := l.Cost([]harness.Plan{p}, false, false)
	if rows != 56 || seconds < 7 || seconds > 60 {
		t.Errorf("%d rows in %g s", rows, seconds)
	}
	if rows, _ = l.Cost([]harness.Plan{p}, false, true); rows != 28 {
		t.Errorf("one way: %d rows", rows)
	}
	if rows, _ = l.Cost([]harness.Plan{p}, true, false); rows != 56 {
		t.Errorf("both ways: %d rows", rows)
	}
}

// A run of more flows than are held at once goes in parts, and gives each stage's rows in order.
func TestALargeLayoutGoesInParts(t *testing.T) {
	o := RunOptions{}
	m := &Mesh{Size: 100}
	for n := range 100 {
		m.Members = append(m.Members, &Member{Name: fmt.Sprint(n)})
		m.Members[n].Number = n
	}
	l := lay(t, 100, Ask{Name: "all-pairs"})
	plans := []harness.Plan{harness.DefaultPlan()}
	p := part{mesh: m, o: &o, at: map[flowKey]int{}}
	for i := range l.Stages {
		p.add(&l.Stages[i], plans, i+1)
	}
	if len(p.flows) != 4950 || len(p.steps) != 99 {
		t.Errorf("%d flows in %d steps", len(p.flows), len(p.steps))
	}
	for _, s := range p.steps {
		if len(s.Flows) != 50 {
			t.Fatalf("a step of %d flows", len(s.Flows))
		}
	}
	p.add(&Stage{Schedule: "again", Pairs: l.Stages[3].Pairs, Sum: true}, plans, 100)
	last := p.steps[len(p.steps)-1]
	if len(p.flows) != 4950 || !slices.Equal(last.Flows, p.steps[3].Flows) || last.Aggregate != SumOf {
		t.Errorf("the same pairs have other flows: %d flows", len(p.flows))
	}
}

func TestRails(t *testing.T) {
	m := &Mesh{Size: 2}
	for n := range 2 {
		m.Members = append(m.Members, &Member{Name: fmt.Sprint("h", n)})
		m.Members[n].Number, m.Members[n].Host = n, m.Members[n].Name
		m.Members[n].Rails = []control.Rail{{Device: fmt.Sprint("mlx", n, "_0"), Memory: "cuda:0"}, {Device: fmt.Sprint("mlx", n, "_1")}}
	}
	names, err := m.rails()
	if err != nil || !slices.Equal(names, []string{"mlx0_0", "mlx0_1"}) {
		t.Fatalf("%v, %v", names, err)
	}
	p := part{mesh: m, o: &RunOptions{}, rails: names, at: map[flowKey]int{}}
	plans := []harness.Plan{harness.DefaultPlan()}
	pair := []schedule.Pair{{From: 0, To: 1}}
	p.add(&Stage{Schedule: Isolated, Pairs: pair}, plans, 1)
	p.add(&Stage{Schedule: "incast", Pairs: pair, Sum: true}, plans, 2)
	if len(p.flows) != 2 || len(p.steps) != 3 || len(p.steps[0].Flows) != 1 || len(p.steps[2].Flows) != 2 || p.steps[2].Aggregate != SumOf || p.steps[1].Aggregate != "" {
		t.Fatalf("%d flows, steps %+v", len(p.flows), p.steps)
	}
	if f := p.flows[1]; f.Rail != "mlx0_1" || f.InitiatorDevice != "mlx0_1" || f.TargetDevice != "mlx1_1" || f.InitiatorBind.IsValid() {
		t.Errorf("%+v", f)
	}
	if f := p.flows[0]; f.InitiatorMemory != "cuda:0" || f.TargetMemory != "cuda:0" {
		t.Errorf("%+v", f)
	}
	m.Members[1].Rails = m.Members[1].Rails[:1]
	if _, err := m.rails(); err == nil || !strings.Contains(err.Error(), "rank 1 on h1 has 1 rails, and rank 0 on h0 has 2") {
		t.Errorf("rails that differ: %v", err)
	}
}
