package mesh

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"hopbench/harness"
	"hopbench/harness/mesh/schedule"
)

// mostFlows bounds the flows of one run of the harness: what a large mesh measures goes there in parts, so that the first rank does not
// hold half a million pairs at once.
const mostFlows = 4096

// RunOptions is what a run does beside its layout.
type RunOptions struct {
	// Plans are measured in each stage, one after the other: bandwidth and latency have different sizes.
	Plans []harness.Plan
	// Background is the load beside the stages that have one: one cell of bandwidth over one transport.
	Background *harness.Plan
	// BothWays measures the two directions of each pair at once instead of one after the other, and OneWay only one.
	BothWays, OneWay bool
	// DeviceKind says which kind of a rank's devices a transport uses: NetDev or RDMA; nil: none is chosen.
	DeviceKind func(transport string) string
	// Ended is called when a stage has given its rows, with how many stages have; nil for none.
	Ended func(stages int) error
}

// BothWays is what the schedule of rows ends in whose pairs move data both ways at once.
const BothWays = ", both ways"

// SumOf is the rail of rows that are the sum of a stage's flows.
const SumOf = "all"

// Run measures a layout. Rows go to the sink as their stages end, and nothing of them is kept.
func (m *Mesh) Run(ctx context.Context, l *Layout, o RunOptions, sink harness.Sink) error {
	here := m.Present()
	for i, s := range l.Stages {
		for _, p := range s.Pairs {
			if p.From < 0 || p.To < 0 || p.From >= len(here) || p.To >= len(here) || !here[p.From] || !here[p.To] {
				return fmt.Errorf("stage %d has ranks %d and %d, and one of them is not in the mesh", i, p.From, p.To)
			}
		}
	}
	rails, err := m.rails()
	if err != nil {
		return err
	}
	plans := l.directed(m.split(o), o.BothWays, o.OneWay)
	progress := &parts{of: l.rows(plans, o.BothWays) * max(1, len(rails)), sink: sink}
	for first := 0; first < len(l.Stages); {
		run := part{mesh: m, o: &o, rails: rails, at: map[flowKey]int{}}
		next := first
		for next < len(l.Stages) && (next == first || len(run.flows)+2*len(l.Stages[next].Pairs)*len(plans)*max(1, len(rails)) <= mostFlows) {
			run.add(&l.Stages[next], plans, next+1)
			next++
		}
		if err := harness.RunFlows(ctx, plans[0], run.flows, run.steps, progress.sinkOf()); err != nil {
			return err
		}
		first = next
	}
	return ctx.Err()
}

// rails are the names of the rails, which are those of the first rank's devices; none where the mesh is not measured by rails. Ranks whose
// hosts have another number of them are an error that names them.
func (m *Mesh) rails() (names []string, err error) {
	first := m.Members[0]
	for _, r := range first.Rails {
		names = append(names, r.Device)
	}
	for _, member := range m.Members {
		if len(member.Rails) != len(first.Rails) {
			return nil, fmt.Errorf("%v has %d rails, and %v has %d: name those that belong together with --device", member.Member, len(member.Rails), first.Member, len(first.Rails))
		}
	}
	return names, nil
}

// split gives each transport plans of its own where ranks have devices of their own: a flow has one device.
func (m *Mesh) split(o RunOptions) []harness.Plan {
	own := slices.ContainsFunc(m.Members, func(member *Member) bool { return len(member.Device) > 0 })
	var plans []harness.Plan
	for _, p := range o.Plans {
		if !own {
			plans = append(plans, p)
			continue
		}
		for _, t := range p.Transports {
			one := p
			one.Transports = []string{t}
			plans = append(plans, one)
		}
	}
	return plans
}

// directed gives plans the directions that a layout's pairs stand for.
func (l *Layout) directed(plans []harness.Plan, bothWays, oneWay bool) []harness.Plan {
	plans = slices.Clone(plans)
	for i := range plans {
		if l.BothDirections && !oneWay && !bothWays {
			plans[i].Directions = []harness.Direction{harness.Forward, harness.Reverse}
		}
	}
	return plans
}

// rows is how many rows of pairs a layout gives.
func (l *Layout) rows(plans []harness.Plan, bothWays bool) int {
	n := 0
	for i := range plans {
		for _, s := range l.Stages {
			if p := s.plan(&plans[i]); p != nil {
				n += p.Cells() * len(s.Pairs)
			}
		}
	}
	if bothWays {
		n *= 2
	}
	return n
}

// openSeconds is about what opening, connecting and closing a pair's link takes.
const openSeconds = 0.05

// Cost is how many rows a layout gives, and about how many seconds it takes, at most: cells end early when their interval is narrow.
func (l *Layout) Cost(plans []harness.Plan, bothWays, oneWay bool) (rows int, seconds float64) {
	plans = l.directed(plans, bothWays, oneWay)
	for i := range plans {
		seconds += float64(len(l.Stages)) * (plans[i].Estimate() + openSeconds)
	}
	return l.rows(plans, bothWays), seconds
}

// plan is what a stage measures of a plan; nil: nothing.
func (s *Stage) plan(p *harness.Plan) *harness.Plan {
	if s.Bytes == nil {
		return p
	}
	if len(p.Requests) > 0 || !slices.Contains(p.Metrics, harness.Bandwidth) {
		return nil
	}
	once := *p
	once.Metrics, once.Sizes, once.Concurrency, once.Iterations = []harness.Metric{harness.Bandwidth}, p.Sizes[:1], nil, 1
	return &once
}

// part is the stages that one run of the harness measures.
type part struct {
	mesh  *Mesh
	o     *RunOptions
	rails []string
	flows []harness.Flow
	steps []harness.Step
	at    map[flowKey]int
}

// flowKey is what makes two flows different: a pair, the kind of its devices, and whether it is a background load.
type flowKey struct {
	pair       schedule.Pair
	rail       int
	kind       string
	background bool
	bytes      uint64
}

// add makes a stage's steps: one a plan and rail; one a plan where the stage loads something together, which all rails then do.
func (p *part) add(s *Stage, plans []harness.Plan, number int) {
	together := [][]int{{0}}
	for rail := 1; rail < len(p.rails); rail++ {
		if s.Sum || s.Bytes != nil {
			together[0] = append(together[0], rail)
		} else {
			together = append(together, []int{rail})
		}
	}
	pairs, name := s.Pairs, s.Schedule
	if p.o.BothWays {
		pairs, name = schedule.Pairs(schedule.BothWays([]schedule.Round{s.Pairs})), name+BothWays
	}
	for i := range plans {
		plan := s.plan(&plans[i])
		if plan == nil {
			continue
		}
		for _, rails := range together {
			step := harness.Step{Schedule: name, Plan: plan}
			for _, rail := range rails {
				for _, pair := range pairs {
					step.Flows = append(step.Flows, p.flow(pair, rail, p.kind(plans[i].Transports), false, s.bytes(pair, rail, len(p.rails))))
					if s.Background && p.o.Background != nil {
						step.Background = append(step.Background, p.flow(pair, rail, p.kind(p.o.Background.Transports), true, 0))
						step.BackgroundPlan = p.o.Background
					}
				}
			}
			if s.Sum && len(step.Flows) > 1 {
				step.Aggregate = SumOf
			}
			p.steps = append(p.steps, step)
		}
	}
	if p.o.Ended != nil && len(p.steps) > 0 {
		p.steps[len(p.steps)-1].Done = func() error { return p.o.Ended(number) }
	}
}

func (p *part) kind(transports []string) string {
	if p.o.DeviceKind == nil || len(transports) != 1 {
		return ""
	}
	return p.o.DeviceKind(transports[0])
}

// bytes is a rail's part of what a pair moves in a stage; 0 where that measures a rate.
func (s *Stage) bytes(pair schedule.Pair, rail, rails int) uint64 {
	all := s.Bytes[pair]
	if rails < 2 {
		return all
	}
	each := all / uint64(rails)
	if uint64(rail) < all%uint64(rails) {
		each++
	}
	return each
}

// flow is the index of a pair's flow over a rail.
func (p *part) flow(pair schedule.Pair, rail int, kind string, background bool, bytes uint64) int {
	key := flowKey{pair, rail, kind, background, bytes}
	if at, ok := p.at[key]; ok {
		return at
	}
	from, to := p.mesh.member(pair.From), p.mesh.member(pair.To)
	f := harness.Flow{
		InitiatorHost: from.Name, TargetHost: to.Name, Initiator: from.Peer, Target: to.Peer,
		InitiatorDevice: from.Device[kind], TargetDevice: to.Device[kind], InitiatorMemory: from.Memory, TargetMemory: to.Memory,
		Bytes: bytes, InitiatorBind: from.Address, TargetBind: to.Address, Announce: to.Announce, OtherHost: from.HostID != to.HostID,
	}
	if len(p.rails) > 0 { // the device decides the address
		a, b := from.Rails[rail], to.Rails[rail]
		f.Rail, f.InitiatorDevice, f.TargetDevice, f.InitiatorMemory, f.TargetMemory = p.rails[rail], a.Device, b.Device, a.Memory, b.Memory
		f.InitiatorBind, f.TargetBind, f.Announce = netip.Addr{}, netip.Addr{}, ""
	}
	p.at[key] = len(p.flows)
	p.flows = append(p.flows, f)
	return p.at[key]
}

// parts joins the progress of several runs of the harness into one.
type parts struct {
	done, of int
	sink     harness.Sink
}

func (p *parts) sinkOf() harness.Sink {
	before, now := p.done, 0
	s := harness.Sink{Cell: p.sink.Cell}
	if p.sink.Progress == nil {
		return s
	}
	s.Progress = func(pr harness.Progress) {
		now = pr.Total
		p.done = before + now
		pr.Done, pr.Total = before+pr.Done, p.of
		p.sink.Progress(pr)
	}
	return s
}
