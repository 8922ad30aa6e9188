package cli

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"hopbench/results"
	"hopbench/results/matrix"
	"hopbench/results/table"
)

func newTable(env *Env) *cobra.Command {
	var format, view string
	var asJSON, details bool
	var groups, minEffect string
	var width int
	formats := []string{string(table.Text), string(table.Markdown), string(table.CSV), string(table.JSON)}
	views := []string{string(table.Perftest), string(table.NVBandwidth), string(table.Pairs), string(table.Mesh)}
	cmd := &cobra.Command{
		Use:   "table FILE...",
		Short: "Print tables from result files: text, Markdown, CSV",
		Long: `Prints the tables of result files: first the one that people plan with, one row a path, beside
what the field states of such links; then bandwidth and latency with the paths side by side by
size; beneath them what could not run, with its reason. A FILE may be a folder, for the *.jsonl
files in it, or - for standard input.

GB is 10^9 bytes, GiB 2^30. ±% is the half width of the 95 % interval of the median over the
rounds, slowest the bandwidth of the slowest window of a round (the longer of 10 ms and 16
completions). A percentile stands only where there are samples enough: p99 needs 100, p99.9
needs 1000.

As CSV the cells of the files stand one a record, in GB/s and µs, with everything that they were
measured by.

--view shows the figures as another tool defines them, from the same samples where they have what
that takes, and says of the others why not; --view pairs is a matrix of every pair of GPUs.

Results of hopbench mesh stand as matrices of their hosts (--view mesh: nothing else): what is slow
against the rest by name, a pair, host, rail or switch group; how the figures lie; and what flows do
to each other. With --groups, a file that has a host and its switch group on each line, pairs within
a group and across are judged apart, and a switch group can be named.`,
		Example: `  hopbench table run.jsonl
  hopbench table --format markdown results/runs > tables.md
  hopbench table --view perftest roce.jsonl
  hopbench table --view mesh --groups leafs.txt mesh.jsonl`,
		Args:              someFile("a result file"),
		ValidArgsFunction: resultFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if asJSON {
				if cmd.Flags().Changed("format") && format != string(table.JSON) {
					return usagef("--json and --format %s: choose one", format)
				}
				format = string(table.JSON)
			}
			if err := oneOf("--format", format, formats); err != nil {
				return err
			}
			if view != "" {
				if err := oneOf("--view", view, views); err != nil {
					return err
				}
			}
			if width < 40 {
				return usagef("--width %d: a page has at least 40 columns", width)
			}
			judge, err := meshJudge(groups, minEffect)
			if err != nil {
				return err
			}
			runs, err := readRuns(env, args)
			if err != nil {
				return usagef("%w", err)
			}
			o := table.Options{Format: table.Format(format), View: table.View(view), Width: width, Details: details, Judge: judge}
			if err := table.Write(env.Stdout, runs, o); errors.Is(err, table.ErrDouble) || errors.Is(err, table.ErrNoPairs) {
				return usagef("%w", err)
			} else if err != nil {
				return err
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", string(table.Text), "how to write: "+strings.Join(formats, ", "))
	f.StringVar(&view, "view", "", "another tool's definitions, pairs or mesh: "+strings.Join(views, ", "))
	f.BoolVar(&asJSON, "json", false, "the same as --format json")
	f.BoolVar(&details, "details", false, "also costs paid once, phases, CPU by size, tcp_info")
	f.StringVar(&groups, "groups", "", "of a mesh: file with the switch group of each host")
	f.StringVar(&minEffect, "min-effect", "5%", "of a mesh: what is slow is slower by this at least")
	f.IntVar(&width, "width", 100, "columns of a text page; wider tables are split")
	// The only error is a flag that is not defined.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("view", cobra.FixedCompletions(views, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// meshJudge is how slow pairs and hosts are told, by the flags --groups and --min-effect.
func meshJudge(groups, minEffect string) (j matrix.Judge, err error) {
	e, err := parseEffect(minEffect)
	if err != nil {
		return j, usagef("--min-effect %q: %w", minEffect, err)
	}
	if e.Pattern != "" || e.Minimum == 0 {
		return j, usagef("--min-effect %q: it is a part above 0, such as 5%%", minEffect)
	}
	j.MinEffect = e.Minimum
	if groups == "" {
		return j, nil
	}
	f, err := os.Open(groups)
	if err != nil {
		return j, usagef("--groups: %w", err)
	}
	defer f.Close()
	if j.Groups, err = matrix.ReadGroups(f); err != nil {
		return j, usagef("--groups %s: %w", groups, err)
	}
	return j, nil
}

// oneOf is a usage error where the flag's value is none of those that there are.
func oneOf(flag, got string, values []string) error {
	for _, v := range values {
		if got == v {
			return nil
		}
	}
	return usagef("%s %q: there are %s%s", flag, got, strings.Join(values, ", "), nearest(got, values))
}

// someFile refuses a command line that names no file.
func someFile(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s: name %s", cmd.CommandPath(), what)
		}
		return nil
	}
}

// resultFiles completes the names of result files.
func resultFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"jsonl"}, cobra.ShellCompDirectiveFilterFileExt
}

// readRuns reads the result files that a command line names. A - is standard input.
func readRuns(env *Env, paths []string) ([]results.Run, error) {
	var files []string
	var runs []results.Run
	for _, p := range paths {
		if p != "-" {
			files = append(files, p)
			continue
		}
		in, err := results.Read(env.Stdin, "standard input")
		if err != nil {
			return nil, err
		}
		runs = append(runs, in...)
	}
	if len(files) > 0 {
		from, err := results.ReadFiles(files...)
		if err != nil {
			return nil, err
		}
		runs = append(runs, from...)
	}
	return runs, nil
}
