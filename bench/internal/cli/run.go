package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"hopbench/harness"
	"hopbench/results"
	"hopbench/results/table"
	"hopbench/results/unit"
	"hopbench/transports"
	"hopbench/transports/fault"
)

func newRun(env *Env) *cobra.Command {
	f := &runFlags{env: env}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Measure bandwidth and latency of the transports that this host can use",
		Long: `Measures each transport between two sides: this process, and a second process of this program on this
host, or with --peer a hopbench serve on another. Transports of one process (memory copy, CUDA peer
access) have both sides here.

--transport auto measures all that are usable and says which are not; all gives a waived row with the
reason for each of those; a list runs exactly those, and one that cannot be used ends the command with
status 3.

Rounds of the transports take turns. A cell ends when the 95 % interval of the median over its rounds is
within 2.5 %, or after --duration; --rounds fixes the number instead. Every payload is verified outside
the clock. harness/METHOD.md says what is inside each clock and what outside.`,
		Example: `  hopbench run
  hopbench run --transport tcp --sizes 64:256MiB:x4 --out tcp.jsonl
  hopbench run --transport tcp --peer 192.0.2.7:18515 --token-file token --direction both
  hopbench run --pieces 1000 --scattered --sizes 16KiB --op write --metric bandwidth
  hopbench run --gpus all --pairs all,one-to-all --out pairs.jsonl
  hopbench run --transport roce --device mlx5_0,mlx5_1 --peer 192.0.2.7:18515 --token-file token
  hopbench run --kv llama-3.1-8b --isl 4096,32768 --concurrency 1,8
  hopbench run --plan plan.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.define(cmd)
	return cmd
}

// noArgs refuses words that belong to no flag.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// run is the whole command.
func (f *runFlags) run(cmd *cobra.Command) error {
	env := f.env
	plan, choice, err := f.plan(cmd)
	if err != nil {
		return err
	}
	if err := f.between.settle(cmd, env.Drivers, &plan, &choice); err != nil {
		return err
	}
	rails, err := f.rails.settle(cmd, env.Drivers, &plan, &choice)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	var skipped map[string]error
	if plan.Transports, skipped, err = choose(ctx, env, choice, plan.Transports); err != nil {
		return err
	}
	if err := plan.Check(); err != nil {
		return usagef("%s", f.planError(err))
	}
	if err := f.checkUse(cmd, plan); err != nil {
		return err
	}
	if err := f.checkSpin(plan, rails); err != nil {
		return err
	}
	if f.dryRun {
		return f.printPlan(ctx, plan, skipped, rails)
	}
	mode, err := f.outMode()
	if err != nil {
		return err
	}
	// A result path that cannot be written is found before anything is measured.
	if f.out != "" && mode == results.Refuse {
		if info, err := os.Stat(f.out); err == nil && info.IsDir() {
			return usagef("--out %s: it is a folder; name a file in it", f.out)
		}
		if _, err := os.Lstat(f.out); err == nil {
			return usagef("--out %s: it exists; --force replaces it, --append adds to it", f.out)
		}
	}
	if f.out != "" {
		if err := unix.Access(filepath.Dir(f.out), unix.W_OK); err != nil {
			return usagef("--out %s: the folder cannot be written: %v", f.out, err)
		}
	}
	for _, name := range sortedKeys(skipped) {
		fmt.Fprintf(env.Stderr, "hopbench: %s is not usable here: %v\n", name, skipped[name])
	}
	session, done, err := f.session(ctx, plan)
	if err != nil {
		return err
	}
	defer done()
	if f.forever {
		return f.runForever(ctx, plan, session)
	}
	if rails != nil {
		if err := rails.prepare(ctx, plan, session); err != nil {
			return err
		}
	}
	header, err := f.header(ctx, plan, session)
	if err != nil {
		return err
	}
	measure := func(sink harness.Sink) error { return harness.Run(ctx, plan, session, sink) }
	if f.between.gpus != "" {
		header.Settings["gpus"], header.Settings["pairs"] = f.between.gpus, strings.Join(f.between.pairs, ",")
		measure = func(sink harness.Sink) error { return f.between.run(ctx, plan, session, env.Drivers, sink) }
	}
	if rails != nil {
		header.Settings["rails"] = rails.settingOf()
		measure = func(sink harness.Sink) error { return rails.run(ctx, plan, session, sink) }
	}
	var w *results.Writer
	if f.out != "" {
		if w, err = results.Create(f.out, mode, header); err != nil {
			var full syscall.Errno // a disk that is full is no mistake of the user's
			if errors.As(err, &full) && full == syscall.ENOSPC {
				return exitError{1, fmt.Errorf("--out: %w", err)}
			}
			return usagef("--out: %v", err)
		}
	}
	var stream *results.Writer // --json: the same records on standard output
	if f.json {
		if stream, err = results.NewWriter(env.Stdout, "standard output", header); err != nil {
			return exitError{1, err}
		}
	}
	run := results.Run{Header: *header}
	line := newProgressLine(env)
	err = measure(harness.Sink{
		Cell: func(c *results.Cell) error {
			run.Cells = append(run.Cells, *c)
			for _, to := range []*results.Writer{stream, w} {
				if to == nil {
					continue
				}
				if err := to.Cell(c); err != nil {
					return err
				}
			}
			return nil
		},
		Progress: line.show,
	})
	line.clear()
	state, reason := results.StateComplete, ""
	switch {
	case ctx.Err() != nil:
		state, reason = results.StateInterrupted, "a signal ended the run"
	case err != nil:
		state, reason = results.StateFailed, err.Error()
	default:
		if lost := peerLost(run.Cells); lost != "" {
			state, reason = results.StateFailed, lost
		}
	}
	if stream != nil {
		if cerr := stream.Close(state, reason); cerr != nil && err == nil {
			err = cerr
		}
	}
	kept := w != nil
	if w != nil {
		if cerr := w.Close(state, reason); cerr != nil {
			kept = false
			if err == nil {
				err = fmt.Errorf("--out: %w", cerr)
			}
		}
	}
	if anyFigure(run.Cells) && !f.json {
		if perr := f.print(run); perr != nil && err == nil {
			err = perr
		}
	}
	if kept {
		fmt.Fprintf(env.Stderr, "hopbench: results are in %s\n", f.out)
	}
	switch {
	case state == results.StateInterrupted:
		return exitError{1, errors.New("interrupted; what was measured until then is kept")}
	case err != nil:
		return exitError{1, err}
	}
	return f.verdict(run.Cells, choice)
}

// print writes the run's tables.
func (f *runFlags) print(run results.Run) error {
	o := table.Options{Format: table.Text, Width: 100}
	if f.between.gpus != "" {
		o.View = table.Pairs
	}
	err := table.Write(f.env.Stdout, []results.Run{run}, o)
	if errors.Is(err, table.ErrDouble) {
		return exitError{1, err}
	}
	return err
}

// printPlan says what would be measured and for how long.
func (f *runFlags) printPlan(ctx context.Context, p harness.Plan, skipped map[string]error, rails *railRun) error {
	cells, estimate := p.Cells(), p.Estimate()
	var over []string
	if rails != nil {
		over = rails.words(ctx, p)
		if rails.auto && f.peer != "" {
			over = append(over, "those are this host's; the peer is asked for its own when the plan is run")
		}
		cells, estimate = rails.cells(p), estimate*float64(len(rails.rails)+1)
	}
	if f.json {
		e := json.NewEncoder(f.env.Stdout)
		e.SetIndent("", "  ")
		answer := map[string]any{"plan": p, "cells": cells, "estimate_seconds": estimate}
		if rails != nil {
			answer["rails"] = over
		}
		return e.Encode(answer)
	}
	text, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	w := f.env.Stdout
	fmt.Fprintf(w, "# %d cells over %s, about %s at most. Repeat with hopbench run --plan FILE.\n", cells, strings.Join(p.Transports, ", "), unit.Seconds(estimate))
	for _, line := range over {
		fmt.Fprintf(w, "# %s\n", line)
	}
	for _, name := range sortedKeys(skipped) {
		fmt.Fprintf(w, "# not usable here: %s: %v\n", name, skipped[name])
	}
	_, err = w.Write(text)
	return err
}

// header is the first record of the result file.
func (f *runFlags) header(ctx context.Context, p harness.Plan, s *harness.Session) (*results.Header, error) {
	encoded, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	tool, commit := toolVersion()
	seed := int64(p.Seed)
	h := &results.Header{
		Schema: results.Schema, ToolVersion: tool, ToolCommit: commit, Started: f.env.Now(), Plan: encoded, Seed: &seed,
		Hosts: []results.Host{}, Settings: processSettings(), Command: append([]string{"hopbench"}, f.env.args...),
	}
	local, err := s.Local.Host(ctx)
	if err != nil {
		return nil, err
	}
	local.Role, local.ToolVersion, local.ToolCommit = "both", tool, commit
	if s.OtherHost {
		local.Role = "initiator"
	}
	h.Hosts = append(h.Hosts, local)
	if s.OtherHost && s.Remote != nil {
		remote, err := s.Remote.Host(ctx)
		if err != nil {
			return nil, err
		}
		remote.Role = "target"
		h.Hosts = append(h.Hosts, remote)
	}
	return h, nil
}

// selection is what --transport asked for.
type selection struct {
	named bool // by name: what cannot run is a failure
	all   bool // a waived row for what cannot run
}

// choose turns the choice into driver names, in display order, and tells what auto left out and why.
func choose(ctx context.Context, env *Env, c selection, names []string) ([]string, map[string]error, error) {
	skipped := map[string]error{}
	var chosen []string
	if c.named {
		var known []string
		for _, d := range env.Drivers {
			known = append(known, d.Name())
		}
		for _, n := range names {
			if !slices.Contains(known, n) {
				return nil, nil, usagef("there is no transport %q%s (there are %s)", n, nearest(n, known), strings.Join(known, ", "))
			}
		}
	}
	for _, d := range env.Drivers {
		switch {
		case c.named && !slices.Contains(names, d.Name()):
			continue
		case !c.named && !c.all:
			if err := d.Probe(ctx); err != nil {
				skipped[d.Name()] = fault.Sharper(err)
				continue
			}
		}
		chosen = append(chosen, d.Name())
	}
	if len(chosen) == 0 {
		return nil, skipped, exitError{3, errors.New("no transport is usable here")}
	}
	return chosen, skipped, nil
}

// checkUse refuses a setting that none of the chosen transports knows: it would change nothing, in silence.
func (f *runFlags) checkUse(cmd *cobra.Command, p harness.Plan) error {
	var known []transports.Setting
	for _, d := range f.env.Drivers {
		if slices.Contains(p.Transports, d.Name()) {
			known = append(known, d.Settings()...)
		}
	}
	for _, name := range sortedKeys(f.settings) {
		if cmd.Flags().Changed(name) && !slices.ContainsFunc(known, func(s transports.Setting) bool { return s.Name == name }) {
			return usagef("--%s: none of the transports that would run (%s) has such a setting", name, strings.Join(p.Transports, ", "))
		}
	}
	return nil
}

// checkSpin refuses more spinning threads than CPUs: they would starve each other.
func (f *runFlags) checkSpin(p harness.Plan, rails *railRun) error {
	if p.Wait != transports.Spin {
		return nil
	}
	threads := p.Streams
	for _, c := range p.Concurrency {
		threads = max(threads, c)
	}
	for _, d := range p.Directions {
		if d == harness.Both {
			threads *= 2
			break
		}
	}
	if rails != nil {
		threads *= max(1, len(rails.local)) // all of them run at once; those of --rails auto are not known yet
	}
	sides := "on each side"
	if f.peer == "" {
		threads, sides = threads*2, "on the two sides together"
	}
	if n := harness.CPUs(); threads > n {
		return usagef("--wait spin: %d threads would spin %s on %d CPUs; use adaptive or fewer streams", threads, sides, n)
	}
	return nil
}

// progressLine is one line on a terminal's standard error that is written over; elsewhere there is none.
type progressLine struct {
	w     io.Writer
	width int
}

func newProgressLine(env *Env) *progressLine {
	if !env.Terminal {
		return &progressLine{}
	}
	return &progressLine{w: raw(env.Stderr)}
}

func (l *progressLine) show(p harness.Progress) {
	if l.w == nil {
		return
	}
	text := fmt.Sprintf("%d/%d  %s  %s", p.Done, p.Total, p.What, p.Elapsed.Round(time.Second))
	if p.Estimate > 0 {
		text += fmt.Sprintf(", about %s left", p.Estimate.Round(time.Second))
	}
	if len(text) > 100 {
		text = text[:100]
	}
	fmt.Fprintf(l.w, "\r%-*s", l.width, text)
	l.width = len(text)
}

func (l *progressLine) clear() {
	if l.w != nil && l.width > 0 {
		fmt.Fprintf(l.w, "\r%*s\r", l.width, "")
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// flagOf names the flag behind a field of the plan.
var flagOf = map[string]string{
	"transports": "transport", "operations": "op", "metrics": "metric", "directions": "direction", "sizes_bytes": "sizes",
	"duration_seconds": "duration", "round_seconds": "round", "warmup_seconds": "warmup", "phase_timeout_seconds": "phase-timeout",
	"stall_timeout_seconds": "stall-timeout", "rate_bytes_per_second": "rate", "local_memory": "local-mem", "remote_memory": "remote-mem",
	"pieces": "pieces", "depth": "depth", "streams": "streams", "batch": "batch", "rounds": "rounds", "concurrency": "concurrency",
	"wait": "wait", "buffers": "buffers", "requests": "kv", "huge_pages": "huge-pages",
}

// planError is the first thing wrong with a plan, by the flag that a user knows; by the field where a plan file was given.
func (f *runFlags) planError(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	field, rest, ok := strings.Cut(line, ":")
	flag := flagOf[field]
	if f.mem != "" && (flag == "local-mem" || flag == "remote-mem") {
		flag = "mem"
	}
	if ok && flag != "" && f.planFile == "" {
		return "--" + flag + ":" + rest
	}
	return line
}

// peerLost is why a run whose plan came to its end is no whole run: the peer went away, and no cell that was tried has a figure.
func peerLost(cells []results.Cell) (reason string) {
	for _, c := range cells {
		switch {
		case c.Status == results.StatusOK:
			return ""
		case c.Status == results.StatusFailed && c.Code == string(fault.PeerVanished):
			reason = c.Reason
		}
	}
	return reason
}
