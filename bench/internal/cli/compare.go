package cli

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"hopbench/results/compare"
	"hopbench/results/unit"
)

func newCompare(env *Env) *cobra.Command {
	var o compareFlags
	formats := []string{"text", "markdown", "json"}
	var metrics []string
	for _, m := range compare.Metrics() {
		metrics = append(metrics, m[0])
	}
	cmd := &cobra.Command{
		Use:   "compare OLD NEW | OLD... -- NEW...",
		Short: "Compare two sets of result files: better, worse, the same, undecided",
		Long: `Sets the cells of NEW against those of OLD, each a result file or a folder of them. With several
files a side, -- stands between the sides.

A cell is paired by its identity; another definition, memory kind, path or realm is not compared,
and the row says so. Per cell: the ratio of medians, new over old, with its 95 % interval; a rank
test, taken within blocks where the runs of the sides alternate in time (A B B A), else
Mann-Whitney's; Holm's correction over all rows. A row is better or worse where p survives the
correction, the ratio is off by at least --min-effect, and by at least the noise floor that runs of
one build show against each other (--noise; without it the rounds of OLD, where the sides do not
alternate). From six runs a side on, the median of a run is the sample; below, a round is. There is
no average over sizes.

The pairs of two meshes (hopbench mesh) are judged together: what became of all of them, and which
host, pair or, with --groups, switch group became slower or better against that. Their rows stand in
the JSON; the table has those alone that changed by themselves or failed.

Exit status 1 where the comparison fails: on what --fail-on names, on a broken --fail-below or
--fail-above (each row on its own), and where nothing could have been found different, whatever
the samples said. Patterns are matched against the cell's name as the table shows it; * is any run
of characters.

Metrics: ` + metricHelp() + `

How often it cries wolf, and what it finds at which noise: results/compare/POWER.md.`,
		Example: `  hopbench compare base.jsonl head.jsonl
  hopbench compare out/base out/head --fail-on regression,missing --format markdown
  hopbench compare base/*.jsonl -- head/*.jsonl --min-effect 3% --min-effect 'roce/*=8%'
  hopbench compare base head --noise aa --fail-below 'bandwidth:tcp/*/1MiB*=2GB/s'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.json {
				if cmd.Flags().Changed("format") && o.format != "json" {
					return usagef("--json and --format %s: choose one", o.format)
				}
				o.format = "json"
			}
			if err := oneOf("--format", o.format, formats); err != nil {
				return err
			}
			for _, m := range o.metrics {
				if err := oneOf("--metric", m, metrics); err != nil {
					return err
				}
			}
			for _, f := range o.failOn {
				if err := oneOf("--fail-on", f, append(compare.FailOn(), "none")); err != nil {
					return err
				}
			}
			oldPaths, newPaths, err := sides(args, cmd.ArgsLenAtDash())
			if err != nil {
				return err
			}
			return o.run(env, oldPaths, newPaths, cmd.Flags().Changed("fail-on"))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.format, "format", "text", "how to write: "+strings.Join(formats, ", "))
	f.BoolVar(&o.json, "json", false, "the same as --format json")
	f.StringVarP(&o.out, "out", "o", "", "write to this file instead of standard output")
	f.BoolVar(&o.force, "force", false, "replace the file of --out")
	f.StringSliceVar(&o.metrics, "metric", []string{compare.Bandwidth, compare.Latency}, "what to compare")
	f.StringSliceVar(&o.cells, "cells", nil, "only the cells whose name matches a pattern")
	f.StringArrayVar(&o.minEffect, "min-effect", nil, "least change that matters, for all or as PATTERN=CHANGE; the last that matches counts (default 3%)")
	f.Float64Var(&o.alpha, "alpha", 0.05, "chance of a false verdict in the whole comparison")
	f.StringSliceVar(&o.noise, "noise", nil, "runs of one build against itself, to learn the noise floor from")
	f.StringVar(&o.groups, "groups", "", "of meshes: file with the switch group of each host")
	f.StringSliceVar(&o.across, "across", nil, "keys of the identity that may differ, such as wait or path")
	f.StringSliceVar(&o.failOn, "fail-on", []string{compare.Regression}, "fail on: "+strings.Join(compare.FailOn(), ", ")+"; none never fails")
	f.StringArrayVar(&o.below, "fail-below", nil, "fail where a row of NEW is below METRIC=VALUE or METRIC:PATTERN=VALUE, such as bandwidth=2GB/s")
	f.StringArrayVar(&o.above, "fail-above", nil, "the same for above, such as latency_p50=20us")
	// The only error is a flag that is not defined.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("metric", cobra.FixedCompletions(metrics, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions(compare.FailOn(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func metricHelp() string {
	var b strings.Builder
	for _, m := range compare.Metrics() {
		fmt.Fprintf(&b, "\n  %-26s %s", m[0], m[1])
	}
	return b.String()
}

type compareFlags struct {
	format, out, groups                      string
	json, force                              bool
	metrics, cells, minEffect, noise, across []string
	failOn, below, above                     []string
	alpha                                    float64
}

// sides splits the arguments into the two sets.
func sides(args []string, dash int) (old, new []string, err error) {
	switch {
	case dash >= 0 && (dash == 0 || dash == len(args)):
		return nil, nil, usagef("compare: a side of -- is empty")
	case dash >= 0:
		return args[:dash], args[dash:], nil
	case len(args) == 2:
		return args[:1], args[1:], nil
	case len(args) < 2:
		return nil, nil, usagef("compare: name two result files or folders, OLD and NEW")
	}
	return nil, nil, usagef("compare: %d files, and no -- between OLD... and NEW...", len(args))
}

func (o *compareFlags) run(env *Env, oldPaths, newPaths []string, gate bool) error {
	options := compare.Options{Alpha: o.alpha, Metrics: o.metrics, Cells: o.cells, Across: o.across}
	if o.alpha <= 0 || o.alpha >= 1 {
		return usagef("--alpha %v: between 0 and 1", o.alpha)
	}
	for _, text := range o.minEffect {
		e, err := parseEffect(text)
		if err != nil {
			return usagef("--min-effect %q: %w", text, err)
		}
		options.MinEffects = append(options.MinEffects, e)
	}
	for _, text := range o.below {
		f, err := parseFloor(text)
		if err != nil {
			return usagef("--fail-below %q: %w", text, err)
		}
		options.Floors = append(options.Floors, f)
	}
	for _, text := range o.above {
		f, err := parseFloor(text)
		if err != nil {
			return usagef("--fail-above %q: %w", text, err)
		}
		f.Above = true
		options.Floors = append(options.Floors, f)
	}
	if o.groups != "" {
		judge, err := meshJudge(o.groups, "5%")
		if err != nil {
			return err
		}
		options.Groups = judge.Groups
	}
	old, err := compare.Load(oldPaths...)
	if err != nil {
		return usagef("%w", err)
	}
	new, err := compare.Load(newPaths...)
	if err != nil {
		return usagef("%w", err)
	}
	if len(o.noise) > 0 {
		if options.Noise, err = compare.Load(o.noise...); err != nil {
			return usagef("--noise: %w", err)
		}
	}
	report, err := compare.Compare(old, new, options)
	if err != nil {
		return usagef("%w", err)
	}
	var failures []string
	if !slices.Contains(o.failOn, "none") {
		failures = report.Failures(o.failOn...)
		said := report.Tested == 0 || slices.Contains(o.failOn, compare.Undecided) // that this comparison cannot fail
		if gate && report.SameFiles && !said {
			failures = append(failures, "the same file stands on both sides: this comparison cannot fail")
		}
	}
	if err := o.write(env, report, failures); err != nil {
		return err
	}
	if len(failures) > 0 {
		return exitError{1, fmt.Errorf("compare: %s%s", failures[0], more(len(failures)-1))}
	}
	return nil
}

func more(n int) string {
	if n < 1 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

func (o *compareFlags) write(env *Env, report *compare.Report, failures []string) error {
	if o.out == "" {
		return o.render(env.Stdout, report, failures)
	}
	var text bytes.Buffer
	if err := o.render(&text, report, failures); err != nil {
		return err
	}
	return writeNew(o.out, "--out", o.force, text.Bytes())
}

func (o *compareFlags) render(w io.Writer, report *compare.Report, failures []string) error {
	switch o.format {
	case "json":
		return report.WriteJSON(w)
	case "markdown":
		return report.WriteMarkdown(w, failures)
	}
	return report.WriteText(w, failures)
}

// parseEffect reads "3%", "0.03" and "PATTERN=3%".
func parseEffect(s string) (compare.Effect, error) {
	pattern, value := "", s
	if i := strings.LastIndexByte(s, '='); i >= 0 {
		pattern, value = s[:i], s[i+1:]
		if pattern == "" {
			return compare.Effect{}, fmt.Errorf("no pattern before =")
		}
	}
	number, percent := strings.CutSuffix(strings.TrimSpace(value), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil {
		return compare.Effect{}, fmt.Errorf("%q is no change such as 3%%", value)
	}
	if percent {
		v /= 100
	}
	if !(v >= 0 && v < 1) {
		return compare.Effect{}, fmt.Errorf("a change is from 0 to below 100%%")
	}
	return compare.Effect{Pattern: pattern, Minimum: v}, nil
}

// parseFloor reads "bandwidth=2GB/s", "latency_p50=20us" and "bandwidth:tcp/*=2GB/s".
func parseFloor(s string) (compare.Floor, error) {
	i := strings.LastIndexByte(s, '=')
	if i < 0 {
		return compare.Floor{}, fmt.Errorf("not METRIC=VALUE")
	}
	metric, pattern, _ := strings.Cut(s[:i], ":")
	f := compare.Floor{Metric: metric, Pattern: pattern}
	var names []string
	for _, m := range compare.Metrics() {
		names = append(names, m[0])
	}
	if !slices.Contains(names, metric) {
		return f, fmt.Errorf("no metric %q%s", metric, nearest(metric, names))
	}
	var err error
	switch value := s[i+1:]; {
	case strings.Contains(metric, "bandwidth"):
		f.Value, err = unit.ParseRate(value)
	case strings.HasPrefix(metric, "latency"):
		f.Value, err = parseSeconds(value)
	default:
		f.Value, err = strconv.ParseFloat(value, 64)
		if err != nil || !(f.Value > 0) {
			err = fmt.Errorf("%q is no number above 0", value)
		}
	}
	return f, err
}

// parseSeconds reads a time with its unit: 20us, 1.5ms, 0.1s.
func parseSeconds(s string) (float64, error) {
	for _, u := range []struct {
		suffix string
		worth  float64
	}{{"ns", 1e-9}, {"us", 1e-6}, {"µs", 1e-6}, {"μs", 1e-6}, {"ms", 1e-3}, {"s", 1}} {
		if number, ok := strings.CutSuffix(s, u.suffix); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil || !(v > 0) || v > 1e9 {
				return 0, fmt.Errorf("%q is no time above 0", s)
			}
			return v * u.worth, nil
		}
	}
	return 0, fmt.Errorf("%q: a time needs its unit: ns, us, ms or s", s)
}
