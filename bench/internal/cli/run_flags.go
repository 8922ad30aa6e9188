package cli

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hopbench/harness"
	"hopbench/harness/control"
	"hopbench/results"
	"hopbench/results/unit"
	"hopbench/transports"
)

// runFlags is the command line of run.
type runFlags struct {
	env *Env

	planFile                            string
	transport, op, metric, direction    []string
	sizes                               string
	latencyMax                          string
	pieces                              int
	scattered                           bool
	concurrency                         []int
	depth, streams, batch               int
	notify                              bool
	wait                                string
	rate                                string
	buffers, pool                       string
	duration, round, warmup             time.Duration
	rounds                              int
	iterations                          uint64
	seed                                uint64
	mem, localMem, remoteMem, hugePages string
	numaNode                            int
	device, remoteDevice                string
	settings                            map[string]*string
	remote                              []string
	phaseTimeout, stallTimeout          time.Duration
	kv                                  string
	isl                                 string
	kvTP                                int
	kvBlock                             int
	kvDType                             string
	kvMerge                             float64

	between                            pairFlags
	rails                              railFlags
	peer, tokenFile, bind, dataAddress string
	out                                string
	force, appendTo                    bool
	json, dryRun, forever              bool
	interval                           time.Duration
}

func (f *runFlags) define(cmd *cobra.Command) {
	d := harness.DefaultPlan()
	fs := cmd.Flags()
	fs.SortFlags = false
	ops := make([]string, 0, len(d.Operations))
	for _, op := range d.Operations {
		ops = append(ops, string(op))
	}
	var names []string
	for _, t := range f.env.Drivers {
		names = append(names, t.Name())
	}
	fs.StringSliceVar(&f.transport, "transport", []string{"auto"}, "auto, all, or a list of "+strings.Join(names, ", "))
	fs.StringSliceVar(&f.op, "op", ops, "operations: write, read, send")
	fs.StringSliceVar(&f.metric, "metric", []string{"bandwidth", "latency"}, "bandwidth, latency")
	fs.StringSliceVar(&f.direction, "direction", []string{"forward"}, "forward (this side initiates), reverse, both (at once)")
	fs.StringVar(&f.sizes, "sizes", "64,4KiB,64KiB,1MiB,16MiB", "bytes of an operation: a list, or FROM:TO[:xN]")
	fs.StringVar(&f.latencyMax, "latency-max", "1MiB", "largest size for latency; 0 for all")
	fs.IntVar(&f.pieces, "pieces", 1, "descriptors of one operation; --sizes is then the size of each")
	fs.BoolVar(&f.scattered, "scattered", false, "draw each descriptor's place from a pool of pages on both sides")
	fs.IntSliceVar(&f.concurrency, "concurrency", nil, "requests at once, each one operation on a stream of its own")
	fs.StringVar(&f.kv, "kv", "", "move the KV cache of this model: a config.json, a folder with one, or a name from the catalogue")
	fs.StringVar(&f.isl, "isl", "", "prompt lengths in tokens for --kv: a list")
	fs.IntVar(&f.kvTP, "tp", 1, "tensor parallelism for --kv; one rank's descriptors are moved")
	fs.IntVar(&f.kvBlock, "block-size", 16, "tokens of a KV block for --kv")
	fs.Float64Var(&f.kvMerge, "kv-merge", 0, "share of neighbouring blocks that touch on both sides and move as one, 0 to 1, for --kv")
	fs.StringVar(&f.kvDType, "kv-dtype", "", "data type of the KV cache for --kv; empty reads it from the model")
	fs.IntVar(&f.depth, "depth", d.Depth, "operations outstanding on one stream")
	fs.IntVar(&f.streams, "streams", d.Streams, "connections (TCP) or QPs (verbs)")
	fs.IntVar(&f.batch, "batch", d.Batch, "operations handed over in one call; above 1 a message is confirmed later")
	fs.BoolVar(&f.notify, "notify", false, "end each operation with a notification and its reply: bandwidth.notified")
	fs.StringVar(&f.wait, "wait", string(d.Wait), "adaptive (spin, then block), spin or block")
	fs.StringVar(&f.rate, "rate", "", "pace each stream: 100MB/s, 10Gb/s; empty for as fast as it goes")
	fs.StringVar(&f.buffers, "buffers", d.Buffers, "reuse one place a stream (warm caches), or rotate over --pool")
	fs.StringVar(&f.pool, "pool", "256MiB", "memory over which --buffers rotate goes")
	fs.DurationVar(&f.duration, "duration", time.Second, "measured time of a cell at most")
	fs.DurationVar(&f.round, "round", 50*time.Millisecond, "length of a round, or one operation where that takes longer")
	fs.DurationVar(&f.warmup, "warmup", 10*time.Millisecond, "warm-up of each round, at least one operation")
	fs.IntVar(&f.rounds, "rounds", 0, "exactly so many rounds; 0: until the interval is narrow or --duration has passed")
	fs.Uint64Var(&f.iterations, "iterations", 0, "operations a stream and round, instead of --round")
	fs.Uint64Var(&f.seed, "seed", d.Seed, "of payload patterns and scattered places")
	fs.StringVar(&f.mem, "mem", "", "memory on both sides: host, pinned, cuda:N")
	fs.StringVar(&f.localMem, "local-mem", "", "memory on this side")
	fs.StringVar(&f.remoteMem, "remote-mem", "", "memory on the peer's side")
	fs.StringVar(&f.hugePages, "huge-pages", "", "transparent, 2MiB or 1GiB pages under host buffers")
	fs.IntVar(&f.numaNode, "numa-node", -1, "NUMA node of host buffers; -1 for no wish")
	fs.StringVar(&f.device, "device", "", "device of this side: a network interface, an RDMA device; a list a,b measures rails: each alone, then all at once")
	fs.StringVar(&f.remoteDevice, "remote-device", "", "device of the peer's side; without --peer the same as --device unless given; for a list as many, and the same names unless given")
	f.settings = map[string]*string{}
	for _, t := range f.env.Drivers {
		for _, s := range t.Settings() {
			if f.settings[s.Name] == nil && fs.Lookup(s.Name) == nil {
				f.settings[s.Name] = fs.String(s.Name, s.Default, s.Usage+" ("+t.Name()+")")
			}
		}
	}
	f.between.define(cmd)
	f.rails.define(cmd)
	fs.StringArrayVar(&f.remote, "remote", nil, "NAME=VALUE: one of the transports' settings for the peer's side alone")
	fs.StringVar(&f.peer, "peer", "", "HOST:PORT of a hopbench serve; empty: a second process on this host")
	fs.StringVar(&f.tokenFile, "token-file", "", "file with the token that serve printed; else HOPBENCH_TOKEN")
	fs.StringVar(&f.bind, "bind", "", "local address of the data path")
	fs.StringVar(&f.dataAddress, "data-address", "", "address under which the peer shall be reached for data; empty: as it announces")
	fs.DurationVar(&f.phaseTimeout, "phase-timeout", 20*time.Second, "limit of each step that is no loop")
	fs.DurationVar(&f.stallTimeout, "stall-timeout", 5*time.Second, "limit of a loop in which no byte moves")
	fs.StringVar(&f.planFile, "plan", "", "repeat the plan of a YAML file (see --dry-run) or of a result file; flags given beside it win")
	fs.StringVar(&f.out, "out", "", "result file (JSON Lines)")
	fs.BoolVar(&f.force, "force", false, "replace an existing result file")
	fs.BoolVar(&f.appendTo, "append", false, "add a run to an existing result file")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print the plan and about how long it takes, and measure nothing")
	fs.BoolVar(&f.forever, "forever", false, "print a line each --interval until stopped, for the first cell of the plan")
	fs.DurationVar(&f.interval, "interval", time.Second, "of --forever")
	fs.BoolVar(&f.json, "json", false, "print records instead of tables")
}

// plan reads flags and plan file. Its errors are usage errors that name the flag.
func (f *runFlags) plan(cmd *cobra.Command) (harness.Plan, selection, error) {
	p := harness.DefaultPlan()
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	none := selection{}
	if f.planFile != "" {
		if err := readPlan(f.planFile, &p); err != nil {
			return p, none, usagef("--plan: %v", err)
		}
	}
	use := func(name string) bool { return f.planFile == "" || given(name) } // a flag beside a plan file wins only where it was given
	var err error
	fail := func(name string, err error) (harness.Plan, selection, error) {
		return p, none, usagef("--%s: %v", name, err)
	}
	if use("op") {
		p.Operations = nil
		for _, v := range f.op {
			op := transports.Op(v)
			if !slices.Contains(transports.Ops(), op) {
				return fail("op", fmt.Errorf("there is no operation %q%s; want write, read or send", v, nearest(v, []string{"write", "read", "send"})))
			}
			p.Operations = append(p.Operations, op)
		}
	}
	if use("metric") {
		p.Metrics = nil
		for _, v := range f.metric {
			if v != "bandwidth" && v != "latency" {
				return fail("metric", fmt.Errorf("there is no metric %q%s; want bandwidth or latency", v, nearest(v, []string{"bandwidth", "latency"})))
			}
			p.Metrics = append(p.Metrics, harness.Metric(v))
		}
	}
	if use("direction") {
		p.Directions = nil
		for _, v := range f.direction {
			if !slices.Contains([]string{"forward", "reverse", "both"}, v) {
				return fail("direction", fmt.Errorf("there is no direction %q%s; want forward, reverse or both", v, nearest(v, []string{"forward", "reverse", "both"})))
			}
			p.Directions = append(p.Directions, harness.Direction(v))
		}
	}
	if use("sizes") {
		sizes, err := unit.ParseSizes(f.sizes)
		if err != nil {
			return fail("sizes", err)
		}
		p.Sizes = nil
		for _, s := range sizes {
			p.Sizes = append(p.Sizes, uint64(s))
		}
	}
	bytes := func(name, text string, into *uint64) error {
		if !use(name) {
			return nil
		}
		if text == "0" {
			*into = 0
			return nil
		}
		n, err := unit.ParseBytes(text)
		if err != nil {
			return usagef("--%s: %v", name, err)
		}
		*into = uint64(n)
		return nil
	}
	if err := bytes("latency-max", f.latencyMax, &p.LatencyMax); err != nil {
		return p, none, err
	}
	if use("pool") && f.buffers == "rotate" {
		if err := bytes("pool", f.pool, &p.PoolBytes); err != nil {
			return p, none, err
		}
	}
	counts := map[string]int{"pieces": f.pieces, "batch": f.batch}
	for _, name := range sortedKeys(counts) {
		if n := counts[name]; n < 1 {
			return fail(name, fmt.Errorf("%d; at least 1", n))
		}
	}
	if given("numa-node") && f.numaNode < -1 {
		return fail("numa-node", fmt.Errorf("%d; a node, or -1 for no wish", f.numaNode))
	}
	set(use("pieces"), &p.Pieces, f.pieces)
	set(use("scattered"), &p.Scattered, f.scattered)
	set(use("concurrency"), &p.Concurrency, f.concurrency)
	set(use("depth"), &p.Depth, f.depth)
	set(use("streams"), &p.Streams, f.streams)
	set(use("batch"), &p.Batch, f.batch)
	set(use("notify"), &p.Notify, f.notify)
	set(use("wait"), &p.Wait, transports.Wait(f.wait))
	set(use("buffers"), &p.Buffers, f.buffers)
	set(use("duration"), &p.Duration, f.duration.Seconds())
	set(use("round"), &p.Round, f.round.Seconds())
	set(use("warmup"), &p.Warmup, f.warmup.Seconds())
	set(use("rounds"), &p.Rounds, f.rounds)
	set(use("iterations"), &p.Iterations, f.iterations)
	set(use("seed"), &p.Seed, f.seed)
	set(use("huge-pages"), &p.HugePages, f.hugePages)
	set(use("device"), &p.Device, f.device)
	set(use("remote-device"), &p.RemoteDevice, f.remoteDevice)
	set(use("phase-timeout"), &p.PhaseTimeout, f.phaseTimeout.Seconds())
	set(use("stall-timeout"), &p.StallTimeout, f.stallTimeout.Seconds())
	if given("numa-node") && f.numaNode >= 0 {
		p.NUMANode = &f.numaNode
	}
	if given("mem") {
		p.LocalMemory, p.RemoteMemory = f.mem, f.mem
	}
	set(given("local-mem"), &p.LocalMemory, f.localMem)
	set(given("remote-mem"), &p.RemoteMemory, f.remoteMem)
	if f.rate != "" {
		if given("metric") && slices.Contains(f.metric, "latency") {
			return fail("rate", fmt.Errorf("it paces streams; latency is one operation at a time: leave it out of --metric"))
		}
		p.Metrics = []harness.Metric{harness.Bandwidth}
		if p.Rate, err = unit.ParseRate(f.rate); err != nil {
			return fail("rate", err)
		}
	}
	if err := f.readSettings(cmd, &p); err != nil {
		return p, none, err
	}
	if f.kv != "" {
		for _, name := range []string{"sizes", "pieces"} {
			if given(name) {
				return fail(name, fmt.Errorf("the model's KV cache has its own; leave it out, or leave out --kv"))
			}
		}
		if err := f.kvRequests(&p); err != nil {
			return p, none, err
		}
	}
	for _, name := range []string{"isl", "tp", "block-size", "kv-merge", "kv-dtype"} {
		if f.kv == "" && given(name) {
			return fail(name, fmt.Errorf("it goes with --kv"))
		}
	}
	if f.peer != "" {
		if _, _, err := net.SplitHostPort(f.peer); err != nil {
			return fail("peer", fmt.Errorf("%q: want HOST:PORT", f.peer))
		}
	}
	if f.forever && (f.out != "" || f.interval < 20*time.Millisecond) {
		return fail("forever", fmt.Errorf("it prints lines until it is stopped: no --out, and an --interval of at least 20ms"))
	}
	if f.bind != "" {
		if _, err := netip.ParseAddr(f.bind); err != nil {
			return fail("bind", fmt.Errorf("%q is not an IP address", f.bind))
		}
	}
	c := selection{}
	if use("transport") {
		p.Transports = f.transport
	} else if len(p.Transports) == 0 {
		p.Transports = []string{"auto"}
	}
	switch {
	case slices.Equal(p.Transports, []string{"auto"}):
	case slices.Equal(p.Transports, []string{"all"}):
		c.all = true
	case slices.Contains(p.Transports, "auto") || slices.Contains(p.Transports, "all"):
		return fail("transport", fmt.Errorf("auto and all stand alone"))
	default:
		c.named = true
	}
	if f.peer == "" && given("device") && !strings.Contains(p.Device, ",") {
		set(p.RemoteDevice == "", &p.RemoteDevice, p.Device) // both sides are this host
	}
	return p, c, f.idleSettings(cmd, &p, c)
}

// idleSettings refuses settings of GPU memory where no side has any: they would have no effect.
func (f *runFlags) idleSettings(cmd *cobra.Command, p *harness.Plan, c selection) error {
	value, flag := map[string]string{}, map[string]string{}
	for name, v := range f.settings {
		if cmd.Flags().Changed(name) {
			value[name], flag[name] = *v, "--"+name+" "+*v
		}
	}
	for _, pair := range f.remote {
		name, v, _ := strings.Cut(pair, "=")
		value[name], flag[name] = v, "--remote "+pair
	}
	gpu := strings.HasPrefix(p.LocalMemory, "cuda") || strings.HasPrefix(p.RemoteMemory, "cuda") || f.between.gpus != ""
	for _, name := range sortedKeys(value) {
		known, effect := false, false
		for _, d := range f.env.Drivers {
			if c.named && !slices.Contains(p.Transports, d.Name()) {
				continue
			}
			for _, s := range d.Settings() {
				if s.Name == name {
					known = true
					effect = effect || gpu || !s.GPUMemory || value[name] == s.Default
				}
			}
		}
		if known && !effect {
			return usagef("%s: it is about GPU memory, and both sides' is %s (--mem)", flag[name], p.LocalMemory)
		}
	}
	return nil
}

func set[T any](when bool, to *T, v T) {
	if when {
		*to = v
	}
}

// readSettings gathers the transports' own settings, and refuses what none of them knows.
func (f *runFlags) readSettings(cmd *cobra.Command, p *harness.Plan) error {
	var known []transports.Setting
	for _, d := range f.env.Drivers {
		known = append(known, d.Settings()...)
	}
	put := func(m *map[string]string, name, value string) {
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[name] = value
	}
	for name, value := range f.settings {
		if cmd.Flags().Changed(name) {
			put(&p.Settings, name, *value)
			put(&p.RemoteSettings, name, *value)
		}
	}
	for _, pair := range f.remote {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return usagef("--remote %s: want NAME=VALUE", pair)
		}
		put(&p.RemoteSettings, name, value)
	}
	for _, m := range []map[string]string{p.Settings, p.RemoteSettings} {
		for _, name := range sortedKeys(m) {
			if err := transports.CheckSettings(known, map[string]string{name: m[name]}); err != nil {
				if _, both := p.Settings[name]; !both {
					return usagef("--remote %s=%s: %v", name, m[name], err)
				}
				return usagef("--%s: %v", name, err)
			}
		}
	}
	return nil
}

func (f *runFlags) outMode() (results.Mode, error) {
	switch {
	case f.out == "-":
		return 0, usagef("--out -: --json prints the records on standard output")
	case f.force && f.appendTo:
		return 0, usagef("--force and --append: choose one")
	case (f.force || f.appendTo) && f.out == "":
		return 0, usagef("--force and --append go with --out")
	case f.force:
		return results.Overwrite, nil
	case f.appendTo:
		return results.Append, nil
	}
	return results.Refuse, nil
}

// session makes the peers of a run. done ends them.
func (f *runFlags) session(ctx context.Context, p harness.Plan) (*harness.Session, func(), error) {
	s := &harness.Session{
		Local: harness.NewSide(f.env.Drivers, harness.Limits{}), InProcess: harness.NewSide(f.env.Drivers, harness.Limits{}),
		OtherHost: f.peer != "", Announce: f.dataAddress,
	}
	if f.bind != "" {
		s.Bind, _ = netip.ParseAddr(f.bind) // checked with the other flags
	}
	done := func() {
		_ = s.Local.Close()
		_ = s.InProcess.Close()
		if s.Remote != nil {
			_ = s.Remote.Close()
		}
	}
	// A round is its time or one operation, and an operation may be as slow as the slowest link and the largest size make it.
	loop := time.Duration(math.Ceil(max(p.Round, p.Warmup)*1e9)) + time.Minute
	phase := time.Duration(p.PhaseTimeout * 1e9)
	tool, _ := toolVersion()
	var err error
	if f.between.gpus != "" {
		s.RemoteErr = fmt.Errorf("both sides of a pair of GPUs are in this process")
		return s, done, nil
	}
	if f.peer == "" {
		if f.env.Executable == "" {
			s.RemoteErr = fmt.Errorf("no second process of this program can be started here")
			return s, done, nil
		}
		s.RemoteBind = s.Bind
		if !s.Bind.IsValid() {
			s.RemoteBind = netip.MustParseAddr("127.0.0.1")
		}
		if s.Remote, err = control.StartLocal(ctx, f.env.Executable, control.DialOptions{ToolVersion: tool, Loop: loop, Phase: phase}); err != nil {
			done()
			return nil, nil, err
		}
		return s, done, nil
	}
	token, err := control.TokenFor(f.peer, f.tokenFile, f.env.Getenv)
	if err != nil {
		done()
		return nil, nil, usagef("%s", tokenError(f.tokenFile, err))
	}
	caution(f.env, token)
	if s.Remote, err = control.Dial(ctx, f.peer, token, control.DialOptions{ToolVersion: tool, Loop: loop, Phase: phase, Bind: s.Bind}); err != nil {
		done()
		return nil, nil, err
	}
	return s, done, nil
}

// processSettings records the choices that hold for the whole process.
func processSettings() map[string]string {
	gc := debug.SetGCPercent(100)
	debug.SetGCPercent(gc)
	return map[string]string{
		"gomaxprocs":       strconv.Itoa(runtime.GOMAXPROCS(0)),
		"garbage_collect":  fmt.Sprintf("GOGC=%d between loops, off during them", gc),
		"async_preemption": asyncPreemption(),
		"thread_affinity":  "one CPU a thread, the two sides on different CPUs of one host",
	}
}
