package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"hopbench/bench/report"
)

type reportFlags struct {
	out, format, title string
	cells              []string
	force              bool
}

func newReport(env *Env) *cobra.Command {
	var o reportFlags
	var formats []string
	for _, f := range report.Formats() {
		formats = append(formats, string(f))
	}
	cmd := &cobra.Command{
		Use:   "report FILE... [-o report.html]",
		Short: "One HTML page, or Markdown, from result files",
		Long: `Writes one document of result files for those who did not measure. As HTML it is a page that holds
everything it needs and asks no network for anything: the summary with its numbers, tables that sort
and filter, figures with the values of their points, the evidence of each path, what did not run and
why, the hosts side by side, the definitions, and a planner for time to first token that recomputes in
the page by the code of hopbench ttft. As Markdown it is for a pull request or a wiki, without figures.

A FILE may be a folder, for the *.jsonl files in it, or - for standard input. Without -o HTML goes to
report.html and Markdown to standard output; -o - is standard output. A file that exists is not
replaced without --force.`,
		Example: `  hopbench report run.jsonl
  hopbench report results/runs -o links.html --title 'Links of cluster A'
  hopbench report run.jsonl --format markdown > report.md`,
		Args:              someFile("a result file"),
		ValidArgsFunction: resultFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			set := cmd.Flags().Changed
			if !set("format") {
				if ext := strings.ToLower(filepath.Ext(o.out)); ext == ".md" || ext == ".markdown" {
					o.format = string(report.Markdown)
				}
			}
			if err := oneOf("--format", o.format, formats); err != nil {
				return err
			}
			if set("out") && o.out == "" {
				return usagef("--out is empty: it names a file, or - for standard output")
			}
			return o.run(env, args)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "out", "o", "", "file to write, or - for standard output (default report.html; Markdown: standard output)")
	f.StringVar(&o.format, "format", formats[0], "how to write: "+strings.Join(formats, ", ")+" (a name that ends in .md is Markdown)")
	f.StringVar(&o.title, "title", "", "another title")
	f.StringSliceVar(&o.cells, "cells", nil, "only the cells whose name matches a pattern, as in compare")
	f.BoolVar(&o.force, "force", false, "replace a file that exists")
	// The only error is a flag that is not defined.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *reportFlags) run(env *Env, args []string) error {
	format, out := report.Format(o.format), o.out
	if out == "" {
		out = "-"
		if format == report.HTML {
			out = "report.html"
		}
	}
	if out != "-" {
		if info, err := os.Stat(out); err == nil && info.IsDir() {
			return usagef("--out %s: it is a folder", out)
		}
		if err := free(out, o.force); err != nil {
			return err
		}
	}
	runs, err := readRuns(env, args)
	if err != nil {
		return usagef("%w", err)
	}
	if runs, err = only(runs, o.cells); err != nil {
		return err
	}
	tool, commit := toolVersion()
	if commit != "" {
		tool += " (" + commit[:min(len(commit), 12)] + ")"
	}
	r, err := report.Build(runs, report.Options{Title: o.title, Tool: "hopbench " + tool, Planner: report.Built()})
	if errors.Is(err, report.ErrDouble) {
		return usagef("%w", err)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	var page bytes.Buffer
	if err := r.Write(&page, format); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if out == "-" {
		if _, err := env.Stdout.Write(page.Bytes()); err != nil {
			return err
		}
		remarks(env, r, format, page.Len())
		return nil
	}
	if err := writeNew(out, "--out", o.force, page.Bytes()); err != nil {
		return err
	}
	fmt.Fprintln(env.Stdout, out)
	remarks(env, r, format, page.Len())
	return nil
}

// remarks says on standard error what the reader of the document will find wrong with it.
func remarks(env *Env, r *report.Report, format report.Format, bytes int) {
	for _, w := range r.Warnings {
		fmt.Fprintf(env.Stderr, "hopbench: %s\n", w)
	}
	if format == report.HTML {
		if r.NoPlanner() != "" {
			fmt.Fprintln(env.Stderr, "hopbench: report: this hopbench was built without the planner, so the page's inputs for time to first token do not recompute, and the page says so; `make planner build` builds it in")
		}
		if bytes > report.MostBytes {
			fmt.Fprintf(env.Stderr, "hopbench: report: the page has %d bytes, more than the %d that mail and wikis take; --cells makes it smaller\n", bytes, report.MostBytes)
		}
	}
}
