package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"hopbench/harness"
	"hopbench/results"
	"hopbench/transports"
	"hopbench/transports/fault"
)

// Schedules of a run over pairs of GPUs, as --pairs names them.
const (
	allPairs = "all"        // each ordered pair by itself
	oneToAll = "one-to-all" // each GPU with all others at once
)

// pairFlags are the flags of a run over pairs of GPUs.
type pairFlags struct {
	gpus  string
	pairs []string
}

func (f *pairFlags) define(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.gpus, "gpus", "", "measure between GPUs of this process: all, or a list such as 0,1,2")
	cmd.Flags().StringSliceVar(&f.pairs, "pairs", []string{allPairs}, "for --gpus: all (each ordered pair by itself), one-to-all (each GPU with all others at once); then --op is write,read, --sizes 64,64MiB and --direction forward,both unless given")
}

// notWithPairs are the flags that choose sides, which --gpus chooses.
var notWithPairs = []string{"mem", "local-mem", "remote-mem", "peer", "bind", "data-address", "device", "remote-device", "forever"}

// settle refuses what does not go together, and fits the plan: the transport that knows pairs, and what a matrix is made of where nothing else was
// asked for.
func (f *pairFlags) settle(cmd *cobra.Command, drivers []transports.Driver, p *harness.Plan, c *selection) error {
	given := cmd.Flags().Changed
	if f.gpus == "" {
		if given("pairs") {
			return usagef("--pairs goes with --gpus")
		}
		return nil
	}
	if !given("plan") {
		if !given("op") {
			p.Operations = []transports.Op{transports.Write, transports.Read}
		}
		if !given("sizes") {
			p.Sizes = []uint64{64, 64 << 20}
		}
		if !given("direction") {
			p.Directions = []harness.Direction{harness.Forward, harness.Both}
		}
	}
	for _, name := range notWithPairs {
		if cmd.Flags().Changed(name) {
			return usagef("--gpus and --%s: choose one", name)
		}
	}
	if len(f.pairs) == 0 {
		return usagef("--pairs: it is empty; want %s or %s", allPairs, oneToAll)
	}
	for _, p := range f.pairs {
		if p != allPairs && p != oneToAll {
			return usagef("--pairs: there is no %q%s (there are %s, %s)", p, nearest(p, []string{allPairs, oneToAll}), allPairs, oneToAll)
		}
	}
	if slices.Contains(p.Directions, harness.Reverse) {
		return usagef("--direction reverse: each pair is measured in both orders anyhow")
	}
	if f.gpus != "all" {
		if _, err := f.named(); err != nil {
			return err
		}
	}
	var able []string
	for _, d := range drivers {
		if _, ok := d.(transports.Pairer); ok {
			able = append(able, d.Name())
		}
	}
	if !c.named { // auto or all: the first that knows pairs
		if len(able) == 0 {
			return usagef("--gpus: no transport of this build knows pairs of GPUs")
		}
		c.named, c.all = true, false
		p.Transports = able[:1]
		return nil
	}
	if len(p.Transports) != 1 || !slices.Contains(able, p.Transports[0]) {
		return usagef("--gpus and --transport %s: want %s", strings.Join(p.Transports, ","), strings.Join(able, " or "))
	}
	return nil
}

// named are the GPUs of the list.
func (f *pairFlags) named() ([]string, error) {
	var out []string
	for _, text := range strings.Split(f.gpus, ",") {
		text = strings.TrimPrefix(strings.TrimSpace(text), "cuda:")
		if n, err := strconv.Atoi(text); err != nil || n < 0 || n > 1023 {
			return nil, usagef("--gpus %q: want all, or numbers such as 0,1,2", f.gpus)
		}
		if memory := "cuda:" + text; !slices.Contains(out, memory) {
			out = append(out, memory)
		}
	}
	if len(out) < 2 {
		return nil, usagef("--gpus %s: a pair takes two GPUs", f.gpus)
	}
	return out, nil
}

// run measures the pairs. A pair that the driver does not list has waived rows, each with its reason.
func (f *pairFlags) run(ctx context.Context, p harness.Plan, s *harness.Session, drivers []transports.Driver, sink harness.Sink) error {
	var driver transports.Pairer
	for _, d := range drivers {
		if k, ok := d.(transports.Pairer); ok && d.Name() == p.Transports[0] {
			driver = k
		}
	}
	if driver == nil {
		return fmt.Errorf("%s knows no pairs", p.Transports[0])
	}
	known, why := driver.Pairs(ctx)
	if why != nil && f.gpus == "all" { // no pair at all: the driver's own rows say why
		p.LocalMemory, p.RemoteMemory = "cuda:0", "cuda:1"
		return harness.Run(ctx, p, s, sink)
	}
	var gpus []string
	if f.gpus != "all" {
		gpus, _ = f.named() // checked before
	}
	listed := map[[2]string]bool{}
	for _, k := range known {
		listed[[2]string{k.Initiator, k.Target}] = true
		if f.gpus == "all" {
			for _, g := range []string{k.Initiator, k.Target} {
				if !slices.Contains(gpus, g) {
					gpus = append(gpus, g)
				}
			}
		}
	}
	var flows []harness.Flow
	of := map[string][]int{} // flows by initiator
	for _, a := range gpus {
		for _, b := range gpus {
			if a == b {
				continue
			}
			if !listed[[2]string{a, b}] {
				if err := f.waive(p, a, b, known, why, sink); err != nil {
					return err
				}
				continue
			}
			of[a] = append(of[a], len(flows))
			flows = append(flows, harness.Flow{Initiator: s.Local, Target: s.InProcess, InitiatorMemory: a, TargetMemory: b, SameProcess: true})
		}
	}
	if len(flows) == 0 {
		return nil
	}
	var steps []harness.Step
	sums := map[string]string{} // aggregate's name to its initiator
	for _, kind := range f.pairs {
		for _, a := range gpus {
			switch {
			case kind == allPairs:
				for _, n := range of[a] {
					steps = append(steps, harness.Step{Schedule: "isolated", Flows: []int{n}})
				}
			case len(of[a]) > 0:
				name := a + " to all"
				sums[name] = a
				steps = append(steps, harness.Step{Schedule: oneToAll, Flows: of[a], Aggregate: name})
			}
		}
	}
	give := sink.Cell
	sink.Cell = func(c *results.Cell) error {
		if a := sums[c.Rail]; a != "" { // a sum is with all of them
			c.InitiatorMemory, c.TargetMemory = a, "cuda:all"
		}
		return give(c)
	}
	return harness.RunFlows(ctx, p, flows, steps, sink)
}

// waive gives a row for each thing that would have been measured between two GPUs that are no pair here.
func (f *pairFlags) waive(p harness.Plan, a, b string, known []transports.Pair, why error, sink harness.Sink) error {
	reason := why
	if reason == nil {
		gone := a
		if slices.ContainsFunc(known, func(k transports.Pair) bool { return k.Initiator == a }) {
			gone = b
		}
		seen := map[string]bool{}
		for _, k := range known {
			seen[k.Initiator] = true
		}
		reason = fault.New(fault.CUDADevice, "find the pair", gone, "it is not among the %d GPUs that this process sees (CUDA_VISIBLE_DEVICES, or the container, leaves it out)", len(seen))
	}
	for _, metric := range p.Metrics {
		for _, op := range p.Operations {
			for _, direction := range p.Directions {
				for _, size := range p.Sizes {
					if metric == harness.Latency && (p.LatencyMax > 0 && size > p.LatencyMax || direction == harness.Both) {
						continue
					}
					bytes, pieces := int64(size), int64(max(p.Pieces, 1))
					definition := "bandwidth.confirmed"
					switch {
					case metric == harness.Latency && op == transports.Read:
						definition = "latency.completion"
					case metric == harness.Latency:
						definition = "latency.half_rtt"
					case p.Notify:
						definition = "bandwidth.notified"
					}
					depth, streams := int64(p.Depth), int64(p.Streams)
					if metric == harness.Latency {
						depth, streams = 1, 1
					}
					pattern := "contiguous"
					if p.Scattered {
						pattern = "scattered"
					}
					err := sink.Cell(&results.Cell{
						Transport: p.Transports[0], Label: p.Transports[0], Definition: definition, Operation: string(op), Direction: string(direction), PieceBytes: bytes,
						TotalBytes: bytes * pieces, Descriptors: pieces, Pattern: pattern, Depth: depth, Streams: streams, Concurrency: 1,
						InitiatorMemory: a, TargetMemory: b, Wait: string(p.Wait), Schedule: "isolated", Status: results.StatusWaived,
						Reason: reason.Error(), Code: string(fault.CodeOf(reason)),
					})
					if err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}
