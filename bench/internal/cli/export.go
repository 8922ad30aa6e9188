package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"hopbench/results/export"
)

func newExport(env *Env) *cobra.Command {
	var format, out string
	var force bool
	var names []string
	var summaries strings.Builder
	for _, f := range export.Formats() {
		names = append(names, f[0])
		fmt.Fprintf(&summaries, "\n  %-12s %s", f[0], f[1])
	}
	cmd := &cobra.Command{
		Use:   "export FILE...",
		Short: "Write result files in the formats of other tools: benchstat, CSV, OpenMetrics",
		Long: `Writes result files in another tool's format. A FILE may be a folder, for the *.jsonl files in
it, or - for standard input. Units are base units: bytes, seconds.

Formats:` + summaries.String(),
		Example: `  hopbench export base.jsonl > base.txt; hopbench export head.jsonl > head.txt
  benchstat base.txt head.txt
  hopbench export --format openmetrics run.jsonl -o /var/lib/node_exporter/hopbench.prom
  hopbench export --format csv results/runs`,
		Args: someFile("a result file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("--format", format, names); err != nil {
				return err
			}
			runs, err := readRuns(env, args)
			if err != nil {
				return usagef("%w", err)
			}
			remark(env, runs)
			var text bytes.Buffer
			if err := export.Write(&text, format, runs); err != nil {
				return usagef("%w", err)
			}
			if out != "" {
				return writeNew(out, "--out", force, text.Bytes())
			}
			_, err = env.Stdout.Write(text.Bytes())
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", "gobench", "how to write: "+strings.Join(names, ", "))
	f.StringVarP(&out, "out", "o", "", "write to this file instead of standard output")
	f.BoolVar(&force, "force", false, "replace the file of --out")
	// The only error is a flag that is not defined.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
