package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"hopbench/results"
	"hopbench/results/table"
)

func newTable(env *Env) *cobra.Command {
	var format, view string
	var asJSON, details bool
	var width int
	formats := []string{string(table.Text), string(table.Markdown), string(table.CSV), string(table.JSON)}
	views := []string{string(table.Perftest), string(table.NVBandwidth)}
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
that takes, and says of the others why not.`,
		Example: `  hopbench table run.jsonl
  hopbench table --format markdown results/runs > tables.md
  hopbench table --view perftest roce.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s: name a result file", cmd.CommandPath())
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"jsonl"}, cobra.ShellCompDirectiveFilterFileExt
		},
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
			runs, err := readRuns(env, args)
			if err != nil {
				return usagef("%w", err)
			}
			o := table.Options{Format: table.Format(format), View: table.View(view), Width: width, Details: details}
			if err := table.Write(env.Stdout, runs, o); errors.Is(err, table.ErrDouble) {
				return usagef("%w", err)
			} else if err != nil {
				return err
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", string(table.Text), "how to write: "+strings.Join(formats, ", "))
	f.StringVar(&view, "view", "", "another tool's definitions: "+strings.Join(views, ", "))
	f.BoolVar(&asJSON, "json", false, "the same as --format json")
	f.BoolVar(&details, "details", false, "also costs paid once, phases, CPU by size, tcp_info")
	f.IntVar(&width, "width", 100, "columns of a text page; wider tables are split")
	// The only error is a flag that is not defined.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("view", cobra.FixedCompletions(views, cobra.ShellCompDirectiveNoFileComp))
	return cmd
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
