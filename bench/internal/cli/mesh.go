package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"hopbench/harness"
	"hopbench/harness/control"
	"hopbench/harness/mesh"
	"hopbench/harness/mesh/rank"
	"hopbench/results"
	"hopbench/results/matrix"
	"hopbench/transports"
	"hopbench/transports/fault"
)

func newMesh(env *Env) *cobra.Command {
	f := &meshFlags{env: env, run: &runFlags{env: env}}
	cmd := &cobra.Command{
		Use:   "mesh",
		Short: "Be one rank of N hosts, and measure the links between all of them",
		Long: `Started once a rank by srun, mpirun, an indexed Kubernetes Job or torchrun, with one command line for all.
Number, size and the first rank's address come from the engine's environment, or from --rank, --size and
--first; what was used is said. The ranks meet at rank 0, which coordinates over one connection a rank,
and end with it.

All hold one token and prove it without sending it: --token-file, or HOPBENCH_TOKEN. It is no argument,
since those are public on a host.

--pattern says which pairs move data:
  all-pairs       every pair, both directions, in rounds in which no rank has two pairs (the default)
  half            every second of those rounds
  ring            each rank to the next
  bisection       each rank of --left with one of --right (default: lower with upper half)
  incast          --sources to --to (default: all others to rank 0)
  one-to-all      --from to --targets (default: rank 0 to all others)
  prefill-decode  each of --prefill to each of --decode; with --kv MODEL and --isl N as KV-shaped requests
  matrix          the pairs of --matrix FILE, a byte matrix: a line a rank, bytes to each rank
Ranks are given by number, range or host name: 0-3,7 or node1,node2. The last five are measured twice, each
pair alone and all at once: --isolated or --loaded chooses one, or adds it to the others. --background
adds a load of bulk writes between the same pairs beside what is measured.

At the end rank 0 prints a matrix, what is out of line and by whom, and what the flows did to each other.
Rows go to --out as rounds end. A pair, or a rank, that fails is failed rows; the others complete.`,
		Example: `  srun hopbench mesh --token-file token --out mesh.jsonl
  mpirun -n 8 hopbench mesh --token-file token --pattern incast --to 0
  srun hopbench mesh --pattern prefill-decode --prefill 0-3 --decode 4-7 --kv llama-3.1-8b --isl 8192
  hopbench mesh --dry-run --size 64                      the rounds, and about how long they take
  HOPBENCH_TOKEN=... hopbench mesh --rank 1 --size 2 --first node1`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.main(cmd) },
	}
	f.define(cmd)
	return cmd
}

// main is one rank, whichever it is.
func (f *meshFlags) main(cmd *cobra.Command) error {
	me, err := f.rank(cmd)
	if err != nil {
		return err
	}
	err = f.check(cmd, me)
	if merr := f.introduce(&me); merr != nil && err == nil {
		err = merr
	}
	switch {
	case f.dryRun && err != nil:
		return err
	case f.dryRun && me.Number != 0:
		return nil
	case f.dryRun:
		return f.printDry(me)
	case err != nil && (me.Number != 0 || me.Size < 2):
		return err
	}
	token, terr := control.GivenToken(f.tokenFile, f.env.Getenv)
	switch {
	case terr != nil:
		return usagef("%s: %s", me.name(), tokenError(f.tokenFile, terr))
	case !token.Given():
		return usagef("%s: give all ranks one token, by --token-file or %s; make it with `openssl rand -hex 32`", me.name(), control.TokenVariable)
	}
	caution(f.env, token)
	if me.Number == 0 {
		return f.first(cmd, me, token, err)
	}
	return f.other(cmd.Context(), me, token)
}

// place is a rank with what the environment said of it.
type place struct {
	rank.Rank
	member control.Member
}

func (p place) name() string { return fmt.Sprintf("rank %d of %d", p.Number, p.Size) }

// other is a rank that is not the first.
func (f *meshFlags) other(ctx context.Context, me place, token control.Token) error {
	addr := me.Address(f.port)
	tool, _ := toolVersion()
	side := harness.NewSide(f.env.Drivers, harness.Limits{})
	err := control.Join(ctx, addr, token, me.member, side, control.JoinOptions{
		Limit: f.wait, ToolVersion: tool,
		Joined: func(first string) {
			text := fmt.Sprintf("%v of %d joined the mesh of %s; %s", me.member, me.Size, first, me.Source)
			if me.member.Chosen != "" {
				text += "; " + me.member.Chosen
			}
			f.say(text)
		},
	})
	if err != nil {
		var refused *fault.Error
		switch {
		case ctx.Err() != nil:
			err = errors.New("ended by a signal")
		case errors.As(err, &refused) && refused.Code == fault.PeerRefused:
			err = refused.Err // the first rank's own words
		}
		return exitError{1, fmt.Errorf("%v: %w", me.member, err)}
	}
	f.say(fmt.Sprintf("%v: the mesh has ended", me.member))
	return nil
}

func (f *meshFlags) say(text string) { fmt.Fprintf(f.env.Stderr, "hopbench: %s\n", text) }

// first is rank 0. Wrong is what is wrong with its command line: the others are told before it ends.
func (f *meshFlags) first(cmd *cobra.Command, me place, token control.Token, wrong error) error {
	ctx := cmd.Context()
	if wrong == nil { // before anybody is told to wait
		wrong = f.checkOut()
	}
	l, err := f.listen(ctx, me)
	if err != nil {
		return err
	}
	if wrong != nil {
		f.say(fmt.Sprintf("%v of %d tells the others that there is no mesh: %v", me.member, me.Size, wrong))
	} else {
		f.say(fmt.Sprintf("%v of %d waits for the others on %v; %s", me.member, me.Size, l.Addr(), me.Source))
	}
	if me.member.Chosen != "" {
		f.say(me.member.Chosen)
	}
	tool, _ := toolVersion()
	var plan harness.Plan
	if len(f.plans) > 0 {
		plan = f.plans[0]
	}
	m, err := mesh.Gather(ctx, l, mesh.GatherOptions{
		First: me.member, Side: harness.NewSide(f.env.Drivers, harness.Limits{}), Token: token, Limit: f.wait, LeaveOut: f.missing == "leave-out",
		Control: control.DialOptions{ToolVersion: tool, Loop: f.longest(), Phase: time.Duration(plan.PhaseTimeout * 1e9)},
		HostOf:  f.hostOf(me), Log: f.say, Refuse: wrong,
	})
	if err != nil {
		switch {
		case wrong != nil:
			return wrong
		case ctx.Err() != nil:
			return exitError{1, errors.New("ended by a signal while the ranks gathered")}
		}
		return exitError{1, err}
	}
	for _, line := range otherwise(m.Members) {
		f.say(line)
	}
	err = f.measure(cmd, me, m)
	var said exitError
	if err != nil && !(errors.As(err, &said) && said.err == nil) { // failed rows are rank 0's to tell, and no failure of the others
		m.End(err.Error(), true)
		return err
	}
	m.End("", false)
	return err
}

// hostOf is the engine's host of a rank, where it tells.
func (f *meshFlags) hostOf(me place) func(int) string {
	if len(me.HostOf) != me.Size {
		return nil
	}
	return func(n int) string { return me.HostOf[n] }
}

// hostNames are the names that the ranks will have, where there is one a host and the engine tells them; else nil.
func (p place) hostNames() []string {
	once := map[string]bool{}
	for _, h := range p.HostOf {
		once[h] = true
	}
	if len(p.HostOf) != p.Size || len(once) != p.Size {
		return nil
	}
	return p.HostOf
}

// longest is the longest time for which rank 0 may be silent towards a rank: nobody is spoken to while a cell is measured in which it
// has no part, and a background load is one loop. It is generous: what it bounds is how soon a rank whose first rank's host vanished
// without a sign ends by itself.
func (f *meshFlags) longest() time.Duration {
	longest := 0.0
	for _, p := range f.plans {
		longest = max(longest, p.Estimate())
	}
	return time.Duration(math.Ceil(min(2*longest, 86400)*1e9)) + 2*time.Minute
}

// checkOut finds a result path that cannot be written before anything is measured.
func (f *meshFlags) checkOut() error {
	if f.run.out == "" {
		return nil
	}
	mode, err := f.run.outMode()
	if err != nil {
		return err
	}
	if mode == results.Refuse {
		if _, err := os.Lstat(f.run.out); err == nil {
			return usagef("--out %s: it exists; --force replaces it, --append adds to it", f.run.out)
		}
	}
	if err := unix.Access(filepath.Dir(f.run.out), unix.W_OK); err != nil {
		return usagef("--out %s: the folder cannot be written: %v", f.run.out, err)
	}
	return nil
}

// measure runs the pattern over the ranks that are here, and prints what came out.
func (f *meshFlags) measure(cmd *cobra.Command, me place, m *mesh.Mesh) error {
	ctx := cmd.Context()
	layout, err := f.layout(m.Size, m.Names(), m.Present())
	if err != nil {
		return usagef("%v", err)
	}
	f.say(f.here(m, layout))
	header, err := f.header(me, m)
	if err != nil {
		return exitError{1, err}
	}
	var w *results.Writer
	if f.run.out != "" {
		mode, err := f.run.outMode()
		if err != nil {
			return err
		}
		if w, err = results.Create(f.run.out, mode, header); err != nil {
			return exitError{1, fmt.Errorf("--out: %w", err)}
		}
	}
	var stream *results.Writer
	if f.records {
		if stream, err = results.NewWriter(f.env.Stdout, "standard output", header); err != nil {
			return exitError{1, err}
		}
	}
	names := slices.DeleteFunc(m.Names(), func(n string) bool { return n == "" })
	tally := &tally{mesh: matrix.New(matrix.Options{Hosts: names})}
	line := newProgressLine(f.env)
	signed := time.Now()
	write := func(c *results.Cell) error {
		for _, to := range []*results.Writer{stream, w} {
			if to == nil {
				continue
			}
			if err := to.Cell(c); err != nil {
				return err
			}
		}
		return nil
	}
	err = m.Run(ctx, layout, mesh.RunOptions{
		Plans: f.plans, Background: f.load, BothWays: f.bothWays, OneWay: f.oneWay, DeviceKind: deviceKind,
	}, harness.Sink{
		Cell: func(c *results.Cell) error { return errors.Join(write(c), tally.add(c)) },
		Progress: func(p harness.Progress) {
			if tally.failed > tally.asked {
				line.clear()
				tally.missed(ctx, m, f.say)
			}
			line.show(p)
			if time.Since(signed) > signEvery { // no loop runs now: ranks that have no part hear that the mesh goes on
				limited, cancel := context.WithTimeout(ctx, signLimit)
				m.Alive(limited)
				cancel()
				signed = time.Now()
			}
		},
	})
	line.clear()
	tally.missed(ctx, m, f.say)
	if err == nil {
		err = f.waive(ctx, m, layout, func(c *results.Cell) error {
			tally.waivedAll = append(tally.waivedAll, c.Transport+": "+c.Reason)
			return write(c)
		})
	}
	state, reason := results.StateComplete, ""
	switch {
	case ctx.Err() != nil:
		state, reason = results.StateInterrupted, "a signal ended the run"
	case err != nil:
		state, reason = results.StateFailed, err.Error()
	}
	kept := w != nil
	for _, to := range []*results.Writer{stream, w} {
		if to == nil {
			continue
		}
		if cerr := to.Close(state, reason); cerr != nil {
			kept = kept && to != w
			if err == nil {
				err = cerr
			}
		}
	}
	if !f.records {
		if perr := f.answer(m, layout, tally); perr != nil && err == nil {
			err = perr
		}
	}
	if kept {
		f.say("results are in " + f.run.out)
	}
	switch {
	case state == results.StateInterrupted:
		return exitError{1, errors.New("interrupted; what was measured until then is kept")}
	case err != nil:
		return exitError{1, err}
	}
	return f.verdict(tally)
}

const (
	// signEvery is how often every rank hears of rank 0, and signLimit how long one that does not answer holds the others up for that.
	signEvery, signLimit = 30 * time.Second, 3 * time.Second
)

// deviceKind says which of a rank's devices a transport uses.
func deviceKind(transport string) string {
	if transport == "infiniband" || transport == "roce" {
		return mesh.RDMA
	}
	return mesh.NetDev
}

// here says who is here and what they will do.
func (f *meshFlags) here(m *mesh.Mesh, l *mesh.Layout) string {
	hosts := map[string]bool{}
	for _, member := range m.Members {
		hosts[member.HostID+member.Host] = true
	}
	text := fmt.Sprintf("%d ranks on %s are here; %s: %s in %s", len(m.Members), count(len(hosts), "host"), l.Pattern, count(l.Pairs(), "pair"), count(len(l.Stages), "round"))
	if idle := unused(l, m.Present(), m.Names()); idle != "" {
		text += "; in no pair: " + idle
	}
	if len(m.Missing) > 0 {
		text += fmt.Sprintf("; %s left out", count(len(m.Missing), "rank"))
	}
	return text
}

// unused lists ranks that are here and in no pair.
func unused(l *mesh.Layout, here []bool, names []string) string {
	used := make([]bool, len(here))
	for _, s := range l.Stages {
		for _, p := range s.Pairs {
			used[p.From], used[p.To] = true, true
		}
	}
	var out []string
	for n := range here {
		if here[n] && !used[n] {
			out = append(out, names[n])
		}
	}
	if most := 8; len(out) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(out[:most], ", "), len(out)-most)
	}
	return strings.Join(out, ", ")
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// crossing parts transports into those that can have their two sides in two processes, found by opening them, and those that cannot.
func crossing(ctx context.Context, env *Env, names []string) (cross, inside []string) {
	for _, d := range env.Drivers {
		if !slices.Contains(names, d.Name()) {
			continue
		}
		one := false
		if t, err := d.Open(ctx, transports.Options{}); err == nil {
			one = t.Caps().OneProcess
			_ = t.Close()
		}
		if one {
			inside = append(inside, d.Name())
		} else {
			cross = append(cross, d.Name())
		}
	}
	return cross, inside
}

// usable parts transports into those that this host can use and those that it cannot.
func usable(ctx context.Context, env *Env, names []string) (can, cannot []string) {
	for _, d := range env.Drivers {
		switch {
		case !slices.Contains(names, d.Name()):
		case d.Probe(ctx) == nil:
			can = append(can, d.Name())
		default:
			cannot = append(cannot, d.Name())
		}
	}
	return can, cannot
}

// waive gives each transport that cannot be used here a row with the reason: of the first pair alone, since the others would say the same.
func (f *meshFlags) waive(ctx context.Context, m *mesh.Mesh, l *mesh.Layout, cell func(*results.Cell) error) error {
	if len(f.unusable) == 0 {
		return nil
	}
	p := f.plans[0]
	p.Transports = f.unusable
	if len(p.Sizes) > 0 {
		p.Sizes = p.Sizes[:1]
	}
	one := &mesh.Layout{Pattern: l.Pattern, Stages: []mesh.Stage{{Schedule: l.Stages[0].Schedule, Pairs: l.Stages[0].Pairs[:1]}}}
	return m.Run(ctx, one, mesh.RunOptions{Plans: []harness.Plan{p}, OneWay: true, DeviceKind: deviceKind}, harness.Sink{Cell: cell})
}
