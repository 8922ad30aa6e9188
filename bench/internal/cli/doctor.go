package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hopbench/harness"
	"hopbench/harness/doctor"
	"hopbench/harness/doctor/logs"
	"hopbench/results/unit"
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/topo"
	"hopbench/transports/topo/nvml"
)

func newDoctor(env *Env) *cobra.Command {
	var (
		root, explain, logFile, peer, tokenFile, plan, sizes string
		names                                                []string
		asJSON, all                                          bool
		phase                                                time.Duration
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Why a transport is not usable here, with the evidence and what to do",
		Long: `doctor looks at this host, or at a captured one, and says for each transport whether it is usable,
and if not: the cause, what was read, and what to do, for the place where it is to be done.

--peer asks a hopbench serve on another host for what its doctor sees, compares the two sides (releases,
link layers, GIDs and their types, MTUs, subnets), and sends verified messages, a small one and a large
one each way, over the data connection of TCP, or of each transport that --transport names.

Exit status 0 when what was asked for is usable (without --transport: when any transport is), 3 when
not; with --peer 3 when the two sides cannot work together.`,
		Example: `  hopbench doctor
  hopbench doctor --transport roce --json
  hopbench doctor --root host.txtar          a host captured by scripts/capture.sh
  hopbench doctor --explain verbs.memlock
  mpirun ... 2>&1 | hopbench doctor --log -  what the lines of another program mean
  hopbench doctor --peer 192.0.2.7:18515     compare with the host that runs hopbench serve
  hopbench doctor --plan plan.yaml           can this plan's buffers be locked?`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed
			var one []string
			for _, name := range []string{"explain", "log", "peer"} {
				if given(name) {
					one = append(one, "--"+name)
				}
			}
			switch {
			case len(one) > 1:
				return usagef("doctor: %s: choose one", strings.Join(one, " and "))
			case given("token-file") && !given("peer"):
				return usagef("doctor: --token-file is for --peer")
			case given("phase-timeout") && !given("peer"):
				return usagef("doctor: --phase-timeout is for --peer")
			case given("explain"):
				return explainCode(env, explain, asJSON)
			}
			drivers, err := chosen(env.Drivers, names)
			if err != nil {
				return err
			}
			lock, err := planLock(plan, sizes)
			if err != nil {
				return err
			}
			h, err := readHost(root, lock)
			if err != nil {
				return usagef("doctor: %v", err)
			}
			if given("peer") {
				if phase < 100*time.Millisecond || phase > time.Hour {
					return usagef("doctor: --phase-timeout %v: 100ms to 1h are possible", phase)
				}
				return comparePeer(cmd.Context(), env, peer, tokenFile, h, names, phase, asJSON)
			}
			r := doctor.Examine(h, drivers)
			if h.Live {
				r.Probe(cmd.Context(), drivers)
			}
			switch {
			case given("log"):
				return explainLog(env, logFile, r, asJSON)
			case asJSON:
				err = writeJSON(env.Stdout, r)
			default:
				err = r.WriteText(env.Stdout, all)
			}
			if err != nil {
				return err
			}
			if code := r.ExitStatus(names); code != 0 {
				return exitError{code, nil}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&root, "root", "/", "read a captured host: a `DIR` with sys, proc and dev, or an archive of scripts/capture.sh")
	f.StringSliceVar(&names, "transport", nil, "only these transports; exit status 3 unless all are usable")
	f.StringVar(&explain, "explain", "", "explain a `CODE` that a run or the doctor named; \"list\" lists them")
	f.StringVar(&logFile, "log", "", "explain the known lines of another program's log: a `FILE`, or - for standard input")
	f.StringVar(&peer, "peer", "", "compare with the host that serves at `HOST:PORT`, or with a captured host")
	f.StringVar(&tokenFile, "token-file", "", "token of the peer for --peer: a `FILE`; else HOPBENCH_TOKEN")
	f.DurationVar(&phase, "phase-timeout", 10*time.Second, "limit of one step with the peer")
	f.StringVar(&plan, "plan", "", "judge the limit on locked memory by the plan of `FILE`: what run --dry-run wrote, or a result file")
	f.StringVar(&sizes, "sizes", "", "judge it by these `SIZES`, as of run")
	f.BoolVar(&asJSON, "json", false, "write JSON")
	f.BoolVar(&all, "all", false, "also show what is well, and what could not be read")
	return cmd
}

// readHost reads the running host with NVML beside it, or a captured one. Lock is how much memory is planned to be locked; 0: not told.
func readHost(root string, lock uint64) (*topo.Host, error) {
	if root == "" {
		return nil, errors.New("--root is empty: it names a captured host")
	}
	return topo.Read(root, topo.Options{NVML: nvml.Source{}, LockWanted: lock})
}

// planLock is how much memory a side of a plan registers; 0 where no plan was named.
func planLock(file, sizes string) (uint64, error) {
	if file == "" && sizes == "" {
		return 0, nil
	}
	p := harness.DefaultPlan()
	if file != "" {
		if err := readPlan(file, &p); err != nil {
			return 0, usagef("--plan: %v", err)
		}
	}
	if sizes != "" {
		s, err := unit.ParseSizes(sizes)
		if err != nil {
			return 0, usagef("--sizes: %v", err)
		}
		p.Sizes = nil
		for _, n := range s {
			p.Sizes = append(p.Sizes, uint64(n))
		}
	}
	if len(p.Transports) == 0 { // which it is does not matter for the memory
		p.Transports = []string{"any"}
	}
	if err := p.Check(); err != nil {
		return 0, usagef("doctor: the plan: %v", err)
	}
	return p.Memory(), nil
}

// chosen picks drivers by name, in the order of names; no name means all.
func chosen(drivers []transports.Driver, names []string) ([]transports.Driver, error) {
	if len(names) == 0 {
		return drivers, nil
	}
	var out []transports.Driver
	var known []string
	for _, d := range drivers {
		known = append(known, d.Name())
	}
	for _, n := range names {
		i := slices.Index(known, n)
		if i < 0 {
			return nil, usagef("there is no transport %q%s (there are %s)", n, nearest(n, known), strings.Join(known, ", "))
		}
		out = append(out, drivers[i])
	}
	return out, nil
}

func explainCode(env *Env, code string, asJSON bool) error {
	if code == "list" {
		if asJSON {
			return writeJSON(env.Stdout, fault.Table())
		}
		for _, r := range fault.Table() {
			line, rest := fmt.Sprintf("%-32s %s", r.Code, r.Title), "" // whole, if on two lines
			if at := strings.LastIndexByte(line[:min(len(line), 100)], ' '); len(line) > 100 && at > 33 {
				line, rest = line[:at], line[at+1:]
			}
			fmt.Fprintln(env.Stdout, line)
			if rest != "" {
				fmt.Fprintf(env.Stdout, "%33s%s\n", "", rest)
			}
		}
		return nil
	}
	row, ok := fault.Lookup(fault.Code(code))
	if !ok {
		var known []string
		for _, r := range fault.Table() {
			known = append(known, string(r.Code))
		}
		return usagef("there is no code %q%s; `hopbench doctor --explain list` lists them", code, nearest(code, known))
	}
	if asJSON {
		return writeJSON(env.Stdout, row)
	}
	return doctor.WriteExplanation(env.Stdout, row)
}

// explainLog explains the known lines of a log with what this host's facts say of each cause.
func explainLog(env *Env, name string, r doctor.Report, asJSON bool) error {
	in := env.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return usagef("--log: %v", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return usagef("--log %s: it is a folder; name a file, or - for standard input", name)
		}
		in = f
	}
	found, unknown, err := logs.Scan(in)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	read := r.ReadLog(found, unknown)
	if asJSON {
		return writeJSON(env.Stdout, read)
	}
	return read.WriteText(env.Stdout)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
