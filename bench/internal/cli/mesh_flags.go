package cli

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hopbench/harness"
	"hopbench/harness/mesh"
	"hopbench/harness/mesh/rank"
	"hopbench/results/unit"
	"hopbench/transports/fault"
)

// meshPort is the first rank's port where none is given.
const meshPort = 18517

// meshFlags is the command line of mesh: what a mesh needs beside what run measures.
type meshFlags struct {
	env   *Env
	flags *pflag.FlagSet // all of mesh
	run   *runFlags      // what is measured

	number, size, local, localSize int
	firstAt, listenAt              string
	port                           int
	tokenFile                      string
	bind, announce                 string
	wait                           time.Duration
	missing                        string
	pattern                        string
	ask                            mesh.Ask
	matrixFile                     string
	bothWays, oneWay               bool
	background                     string
	rails                          string
	latencySizes                   string
	dryRun, records                bool

	devices  []string       // the rails by name
	link     string         // of the rails that each rank finds
	gpu      bool           // each rank of a host has its data in a GPU of its own
	matrix   []byte         // of the byte matrix's file
	unusable []string       // transports of --transport all that rank 0 cannot use
	plans    []harness.Plan // one for each metric
	load     *harness.Plan  // beside the stages that have a background
}

// ofRun are the flags that mesh takes from run as they are.
var ofRun = []string{
	"transport", "op", "metric", "sizes", "pieces", "scattered", "concurrency", "kv", "isl", "tp", "block-size", "kv-merge", "kv-dtype",
	"depth", "streams", "batch", "notify", "wait", "rate", "buffers", "pool", "duration", "round", "warmup", "rounds", "iterations", "seed",
	"huge-pages", "numa-node", "device", "phase-timeout", "stall-timeout", "out", "force", "append",
}

func (f *meshFlags) define(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.flags = fs
	fs.SortFlags = false
	fs.IntVar(&f.number, "rank", -1, "number of this rank; else from the engine's environment")
	fs.IntVar(&f.size, "size", 0, "number of ranks")
	fs.StringVar(&f.firstAt, "first", "", "HOST[:PORT] of rank 0")
	fs.IntVar(&f.local, "local-rank", -1, "number of this rank within its host")
	fs.IntVar(&f.localSize, "local-size", 0, "number of ranks on this host")
	fs.IntVar(&f.port, "first-port", meshPort, "port of rank 0, where --first names none")
	fs.StringVar(&f.listenAt, "listen", "", "ADDR:PORT at which rank 0 listens (default the port on every address, or on loopback where all ranks are here)")
	fs.StringVar(&f.tokenFile, "token-file", "", "file with the token that all ranks hold; else HOPBENCH_TOKEN")
	fs.StringVar(&f.bind, "bind", "", "local address of this rank's data connections (default the one towards rank 0)")
	fs.StringVar(&f.announce, "data-address", "", "address under which this rank is to be reached for data")
	fs.DurationVar(&f.wait, "wait-for-ranks", time.Minute, "limit of the ranks' meeting")
	fs.StringVar(&f.missing, "missing", "fail", "what to do about a rank that does not come: fail, or leave-out")

	fs.StringVar(&f.pattern, "pattern", mesh.Patterns[0], strings.Join(mesh.Patterns, ", "))
	fs.StringVar(&f.ask.Left, "left", "", "one half of a bisection: ranks or hosts")
	fs.StringVar(&f.ask.Right, "right", "", "the other half")
	fs.StringVar(&f.ask.Sources, "sources", "", "who sends in an incast")
	fs.StringVar(&f.ask.To, "to", "", "whom to")
	fs.StringVar(&f.ask.From, "from", "", "who sends in one-to-all")
	fs.StringVar(&f.ask.Targets, "targets", "", "whom to")
	fs.StringVar(&f.ask.Prefill, "prefill", "", "the prefill ranks of prefill-decode")
	fs.StringVar(&f.ask.Decode, "decode", "", "the decode ranks")
	fs.StringVar(&f.matrixFile, "matrix", "", "byte matrix, for --pattern matrix, which it implies")
	fs.BoolVar(&f.ask.Isolated, "isolated", false, "measure each pair alone")
	fs.BoolVar(&f.ask.Loaded, "loaded", false, "measure all pairs at once")
	fs.BoolVar(&f.bothWays, "both-ways", false, "both directions of a pair at once, instead of one after the other")
	fs.BoolVar(&f.oneWay, "one-way", false, "one direction of each pair")
	fs.StringVar(&f.background, "background", "", "a load beside what is measured, between the same pairs: full, or a rate a pair such as 5Gb/s")

	fs.StringVar(&f.rails, "rails", "", "auto: measure rail by rail, over the RDMA devices of each host that are usable, each GPU's nearest; a list in --device names them instead")

	fs.StringVar(&f.latencySizes, "latency-sizes", "64", "bytes of an operation for latency")
	fs.StringVar(&f.run.mem, "mem", "host", "where each rank's data lies: host, pinned, cuda (a GPU for each rank of a host), cuda:N")

	inner := &cobra.Command{}
	f.run.define(inner)
	take := func(fl *pflag.Flag) {
		if fs.Lookup(fl.Name) == nil {
			fs.AddFlag(fl)
		}
	}
	for _, name := range ofRun {
		if fl := inner.Flags().Lookup(name); fl != nil {
			take(fl)
		}
	}
	for _, name := range sortedKeys(f.run.settings) { // the same order in each help page
		take(inner.Flags().Lookup(name))
	}
	becomes := func(name, value, usage string) {
		fl := fs.Lookup(name)
		if list, ok := fl.Value.(pflag.SliceValue); ok { // Set would make the user's own value an addition
			if list.Replace(strings.Split(value, ",")) == nil {
				fl.DefValue = "[" + value + "]"
			}
		} else if fl.Value.Set(value) == nil {
			fl.DefValue = value
		}
		if usage != "" {
			fl.Usage = usage
		}
	}
	becomes("op", "write", "")
	becomes("sizes", "4MiB", "bytes of an operation for bandwidth: a list, or FROM:TO[:xN]")
	becomes("device", "", "device of each rank's data: a network interface, an RDMA device; a list measures rail by rail; empty: chosen by topology where a host has several ranks")

	fs.BoolVar(&f.run.json, "json", false, "print the answer as one JSON object")
	fs.BoolVar(&f.records, "records", false, "print the result records instead of the answer")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print the rounds and about how long they take, and measure nothing")
}

// rank finds out who this process is.
func (f *meshFlags) rank(cmd *cobra.Command) (place, error) {
	given := func(name string, v *int) *int {
		if cmd.Flags().Changed(name) {
			return v
		}
		return nil
	}
	o := rank.Overrides{
		Number: given("rank", &f.number), Size: given("size", &f.size), LocalNumber: given("local-rank", &f.local),
		LocalSize: given("local-size", &f.localSize), First: f.firstAt,
	}
	r, err := rank.Find(f.env.Getenv, o)
	if err != nil && f.dryRun && o.Size != nil && o.Number == nil { // a plan needs no engine
		zero := 0
		o.Number, o.First = &zero, "first"
		r, err = rank.Find(f.env.Getenv, o)
	}
	if err != nil {
		return place{}, usagef("%v", err)
	}
	if f.wait < time.Second {
		return place{}, usagef("--wait-for-ranks %v: at least 1s", f.wait)
	}
	if f.port < 1 || f.port > 65535 {
		return place{}, usagef("--first-port %d: 1 to 65535", f.port)
	}
	return place{Rank: r}, nil
}

// check reads everything else of the command line, and says what is wrong with it by the flag.
func (f *meshFlags) check(cmd *cobra.Command, me place) error {
	if me.Size < 2 {
		return usagef("a mesh has at least 2 ranks, not %d (%s)", me.Size, me.Source)
	}
	if err := f.idle(cmd); err != nil {
		return err
	}
	if f.missing != "fail" && f.missing != "leave-out" {
		return usagef("--missing %s: fail or leave-out", f.missing)
	}
	if f.listenAt != "" {
		if _, _, err := net.SplitHostPort(f.listenAt); err != nil {
			return usagef("--listen %s: want ADDR:PORT, or :PORT for every address of this host", f.listenAt)
		}
	}
	if f.bothWays && f.oneWay {
		return usagef("--both-ways and --one-way: choose one")
	}
	if f.records && f.run.json {
		return usagef("--records and --json: choose one")
	}
	if f.matrixFile != "" {
		if cmd.Flags().Changed("pattern") && f.pattern != "matrix" {
			return usagef("--matrix goes with --pattern matrix, not %s", f.pattern)
		}
		f.pattern = "matrix"
	}
	if !slices.Contains(mesh.Patterns, f.pattern) {
		return usagef("--pattern: there is no %q%s (there are %s)", f.pattern, nearest(f.pattern, mesh.Patterns), strings.Join(mesh.Patterns, ", "))
	}
	if me.Number == 0 && f.matrixFile != "" { // it need not be on the other hosts
		text, err := os.ReadFile(f.matrixFile)
		if err != nil {
			return usagef("--matrix: %v", err)
		}
		f.matrix = text
	}
	if me.Number == 0 || f.pattern != "matrix" {
		if err := f.checkPattern(me); err != nil {
			return err
		}
	}
	return f.checkPlans(cmd, me)
}

// flagsOf are the flags of one pattern each.
var flagsOf = []struct{ flag, pattern string }{
	{"left", "bisection"}, {"right", "bisection"}, {"sources", "incast"}, {"to", "incast"}, {"from", "one-to-all"}, {"targets", "one-to-all"},
	{"prefill", "prefill-decode"}, {"decode", "prefill-decode"},
}

// idle refuses flags that would have no effect.
func (f *meshFlags) idle(cmd *cobra.Command) error {
	fs := cmd.Flags()
	for _, of := range flagsOf {
		if !fs.Changed(of.flag) {
			continue
		}
		if f.pattern != of.pattern || f.matrixFile != "" {
			return usagef("--%s is of --pattern %s, and this is %s", of.flag, of.pattern, f.pattern)
		}
		if fs.Lookup(of.flag).Value.String() == "" {
			return usagef("--%s is empty: a list of ranks, or leave it out", of.flag)
		}
	}
	if fs.Changed("isolated") && fs.Changed("loaded") && !f.ask.Isolated && !f.ask.Loaded {
		return usagef("--isolated=false and --loaded=false: nothing would be measured")
	}
	return nil
}

// checkPattern finds a pattern that cannot be before the ranks meet, as far as their names are known.
func (f *meshFlags) checkPattern(me place) error {
	names := me.hostNames()
	_, err := f.layout(me.Size, names, nil)
	if err != nil && names == nil && strings.Contains(err.Error(), "no host is called") {
		return nil // it may be a name that the ranks bring with them
	}
	if err != nil {
		return usagef("%v", err)
	}
	return nil
}

// layout spells the pattern out.
func (f *meshFlags) layout(size int, names []string, present []bool) (*mesh.Layout, error) {
	a := f.ask
	a.Name, a.Names, a.Present = f.pattern, names, present
	if f.matrix != nil {
		a.Matrix = bytes.NewReader(f.matrix)
	}
	l, err := mesh.Lay(size, a)
	if err != nil {
		return nil, err
	}
	if f.background != "" {
		l.AddBackground()
	}
	return l, nil
}

// checkPlans makes the plans, one a metric, and this rank's member.
func (f *meshFlags) checkPlans(cmd *cobra.Command, me place) error {
	if f.gpu = f.run.mem == "cuda"; f.gpu {
		f.run.mem = "cuda:0" // each rank has its own in its place
	}
	plan, choice, err := f.run.plan(cmd)
	if err != nil {
		return err
	}
	if err := f.checkRails(&plan); err != nil {
		return err
	}
	if me.Number == 0 {
		if plan.Transports, _, err = choose(cmd.Context(), f.env, choice, plan.Transports); err != nil {
			return err
		}
		var inside []string
		plan.Transports, inside = crossing(cmd.Context(), f.env, plan.Transports)
		switch {
		case len(inside) > 0 && (choice.named || len(plan.Transports) == 0):
			return fault.New(fault.OneProcess, "choose the transports of a mesh", "", "%s works inside one process, and the ranks of a mesh are several", strings.Join(inside, ", "))
		case len(inside) > 0 && choice.all:
			f.say(strings.Join(inside, ", ") + " works inside one process and is not measured between ranks")
		}
		if choice.all {
			plan.Transports, f.unusable = usable(cmd.Context(), f.env, plan.Transports)
			if len(plan.Transports) == 0 {
				return exitError{3, errors.New("no transport is usable here")}
			}
		}
	}
	if err := f.metrics(plan); err != nil {
		return err
	}
	if err := f.backgroundPlan(plan); err != nil {
		return err
	}
	for i := range f.plans {
		f.plans[i].RemoteDevice = f.plans[i].Device // one command line for all ranks
		if err := f.plans[i].Check(); err != nil {
			return usagef("%s", f.run.planError(err))
		}
	}
	return nil
}

// checkRails takes a list of devices out of the plan: they are rails.
func (f *meshFlags) checkRails(plan *harness.Plan) error {
	if f.rails != "" && f.rails != "auto" {
		return usagef("--rails %s: want auto, or a list in --device", f.rails)
	}
	if f.rails == "auto" {
		f.link = map[string]string{"infiniband": "InfiniBand", "roce": "Ethernet"}[plan.Transports[0]]
		switch {
		case f.run.device != "":
			return usagef("--rails auto finds the devices: leave --device out, or name them all there")
		case len(plan.Transports) != 1 || f.link == "":
			return usagef("--rails auto: name the transport whose devices they are: --transport infiniband or roce")
		}
		return nil
	}
	if !strings.Contains(plan.Device, ",") {
		return nil
	}
	for _, d := range strings.Split(plan.Device, ",") {
		d = strings.TrimSpace(d)
		switch {
		case d == "":
			return usagef("--device %s: an empty name", plan.Device)
		case slices.Contains(f.devices, d):
			return usagef("--device: %s is named twice, and a rail is a device of its own", d)
		}
		f.devices = append(f.devices, d)
	}
	plan.Device = ""
	return nil
}

// metrics parts the plan into one of bandwidth and one of latency: they have different sizes.
func (f *meshFlags) metrics(plan harness.Plan) error {
	latency, err := unit.ParseSizes(f.latencySizes)
	if err != nil {
		return usagef("--latency-sizes: %v", err)
	}
	f.plans = nil
	for _, m := range plan.Metrics {
		p := plan
		p.Metrics = []harness.Metric{m}
		if m == harness.Latency && len(p.Requests) == 0 {
			p.Sizes, p.LatencyMax = nil, 0
			for _, s := range latency {
				p.Sizes = append(p.Sizes, uint64(s))
			}
		}
		f.plans = append(f.plans, p)
	}
	return nil
}

// backgroundPlan is the load beside what is measured: writes of 1 MiB over the first transport.
func (f *meshFlags) backgroundPlan(plan harness.Plan) error {
	if f.background == "" {
		return nil
	}
	p := plan
	p.Metrics, p.Operations, p.Directions = []harness.Metric{harness.Bandwidth}, plan.Operations[:1], []harness.Direction{harness.Forward}
	p.Sizes, p.Pieces, p.Scattered, p.Requests, p.Concurrency, p.Rate = []uint64{1 << 20}, 1, false, nil, nil, 0
	p.Transports = plan.Transports[:min(1, len(plan.Transports))]
	p.Notify, p.Iterations = false, 0
	if f.background != "full" {
		rate, err := unit.ParseRate(f.background)
		if err != nil {
			return usagef("--background %s: full, or a rate such as 5Gb/s: %v", f.background, err)
		}
		p.Rate = rate
	}
	f.load = &p
	return nil
}

// introduce makes the member that this rank is. With an error the member has at least a name.
func (f *meshFlags) introduce(me *place) error {
	o := mesh.PlaceOptions{Announce: f.announce, GPU: f.gpu, Visible: f.env.Getenv("CUDA_VISIBLE_DEVICES"), Devices: f.devices, Link: f.link}
	var wrong error
	if f.bind != "" {
		if o.Bind, wrong = netip.ParseAddr(f.bind); wrong != nil {
			wrong = usagef("--bind %s: not an IP address", f.bind)
		}
	}
	var err error
	if me.member, err = mesh.Place(me.Rank, o); err != nil && wrong == nil {
		wrong = exitError{1, err}
	}
	me.member.Asked = f.asked()
	if f.run.device != "" { // what was asked for by name is the plan's
		me.member.Device = nil
	}
	return wrong
}
