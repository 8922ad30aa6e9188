package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hopbench/plots"
	"hopbench/results"
	"hopbench/results/compare"
)

// A plotKind is a kind of figure: drawn from result files, or by read from what its arguments name.
type plotKind struct {
	name, about string
	draw        func([]results.Run, plots.Options) (*plots.Figure, error)
	read        func(env *Env, args []string, dash int, cells []string, o plots.Options) (*plots.Figure, error)
}

// everyKind stands for all kinds that are drawn from result files.
const everyKind = "all"

// plotKinds are the figures, in the order in which a folder gets those of result files.
var plotKinds = []plotKind{
	{name: "bandwidth", about: "bandwidth against size, with its interval and the physical limits", draw: plots.Bandwidth},
	{name: "latency", about: "median and p99 latency against size", draw: plots.Latency},
	{name: "cpu", about: "CPU seconds per GB against size", draw: plots.CPU},
	{name: "distribution", about: "empirical distribution of latency, with its tail", draw: plots.Distribution},
	{name: "phases", about: "phases of staged transfers", draw: plots.Phases},
	{name: "heat", about: "bandwidth and latency of pairs of hosts, and bandwidth over rails", draw: plots.Heat},
	{name: "ratio", about: "two sets of result files compared: OLD NEW, or OLD... -- NEW...", read: plotRatio},
	{name: "ttft", about: "TTFT by parts, from the output of hopbench ttft --json", read: plotTTFT(plots.TTFT)},
	{name: "ttft-length", about: "TTFT by prompt length, from ttft --against-isl --json (--find crossings marks where links cross)", read: plotTTFT(plots.TTFTByLength)},
	{name: "ttft-load", about: "TTFT by load, from ttft --against-rate --json", read: plotTTFT(plots.TTFTByLoad)},
	{name: "topology", about: "a host's GPUs and NICs, from the output of hopbench probe --json", read: plotTopology},
}

type plotFlags struct {
	out, title, theme string
	kinds, formats    []string
	cells             []string
	force             bool
	width             float64
}

func newPlot(env *Env) *cobra.Command {
	var o plotFlags
	kinds, formats := []string{everyKind}, []string(nil)
	themes := []string{"light", "dark"}
	var about strings.Builder
	for _, k := range plotKinds {
		kinds = append(kinds, k.name)
		fmt.Fprintf(&about, "\n  %-12s %s", k.name, k.about)
	}
	for _, f := range plots.Formats() {
		formats = append(formats, string(f))
	}
	cmd := &cobra.Command{
		Use:   "plot FILE... [--out DIR | --out FIGURE]",
		Short: "Draw figures from result files: SVG, PNG, PDF",
		Long: `Draws figures of result files: bandwidth and latency as SVG and PNG into the folder that --out names
(this one by default), or the kinds of --kind in the formats of --format. --out with a name that ends
in .svg, .png or .pdf draws one figure. A - reads standard input. What exists is not replaced without
--force.

--kind all is every kind that the files have values for. --kind ratio, ttft, ttft-length, ttft-load
and topology stand alone and read what the list says.

Rows of different definitions are never on one pair of axes. Each figure says beneath what its
numbers mean, where, when and by what they were measured, and what has no value and why. A figure's
markers are hollow where a software device or an emulated machine was measured.

Kinds:` + about.String(),
		Example: `  hopbench plot run.jsonl
  hopbench plot run.jsonl --kind latency --out latency.png --theme dark
  hopbench plot results/runs --out figures/ --kind all --format svg,pdf --cells 'tcp/write/*'
  hopbench plot --kind ratio base.jsonl head.jsonl --out ratio.pdf
  hopbench ttft llama-3.1-8b --isl 8000 --reference --json | hopbench plot --kind ttft - --out ttft.svg`,
		Args:              someFile("a result file"),
		ValidArgsFunction: resultFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, k := range o.kinds {
				if err := oneOf("--kind", k, kinds); err != nil {
					return err
				}
			}
			if err := oneOf("--theme", o.theme, themes); err != nil {
				return err
			}
			for _, f := range o.formats {
				if err := oneOf("--format", f, formats); err != nil {
					return err
				}
			}
			if len(o.formats) == 0 {
				return usagef("--format: it is empty")
			}
			return o.run(env, args, cmd.ArgsLenAtDash(), cmd.Flags().Changed("format"))
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.kinds, "kind", nil, "which figures: "+strings.Join(kinds, ", ")+" (default bandwidth,latency, bandwidth for one file; heat for results of a mesh)")
	f.StringSliceVar(&o.kinds, "metric", nil, "the same as --kind")
	f.StringVarP(&o.out, "out", "o", ".", "a folder, or the file of one figure")
	f.StringSliceVar(&o.formats, "format", []string{"svg", "png"}, "formats for a folder: "+strings.Join(formats, ", "))
	f.StringSliceVar(&o.cells, "cells", nil, "only the cells whose name matches a pattern, as in compare")
	f.StringVar(&o.theme, "theme", themes[0], "light or dark")
	f.StringVar(&o.title, "title", "", "another title")
	f.Float64Var(&o.width, "width", 17, "width of a figure in centimetres")
	f.BoolVar(&o.force, "force", false, "replace files that exist")
	// The only error is a flag that is not defined.
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("metric", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("theme", cobra.FixedCompletions(themes, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *plotFlags) run(env *Env, args []string, dash int, formatAsked bool) error {
	if o.out == "" {
		return usagef("--out is empty: it names a figure's file (.svg, .png, .pdf) or a folder")
	}
	if !(o.width >= 8 && o.width <= 100) {
		return usagef("--width %v: between 8 and 100 centimetres", o.width)
	}
	folder := filepath.Ext(o.out) == "" || strings.HasSuffix(o.out, "/")
	if info, err := os.Stat(o.out); err == nil && info.IsDir() {
		folder = true
	}
	var format plots.Format
	if !folder {
		var err error
		if format, err = plots.FormatOf(o.out); err != nil {
			return usagef("--out %w", err)
		}
		if formatAsked {
			return usagef("--format is for a folder; %s has its format in its name", o.out)
		}
		if err := free(o.out, o.force); err != nil {
			return err
		}
	}
	kinds, err := o.chosen(folder)
	if err != nil {
		return err
	}
	kind := kinds[0]
	tool, commit := toolVersion()
	options := plots.Options{Dark: o.theme == "dark", Title: o.title, Width: o.width}
	if kind.read != nil {
		if len(o.cells) > 0 && kind.name != "ratio" {
			return usagef("--cells chooses among cells of result files, and --kind %s has none", kind.name)
		}
		options.Notes = []string{"Drawn by " + strings.TrimSpace("hopbench "+tool+" "+commit[:min(len(commit), 12)]) + "."}
		return o.other(env, kind, args, dash, format, options)
	}
	runs, err := readRuns(env, args)
	if err != nil {
		return usagef("%w", err)
	}
	for _, r := range runs {
		for _, w := range r.Warnings {
			fmt.Fprintf(env.Stderr, "hopbench: %s\n", w)
		}
	}
	if runs, err = only(runs, o.cells); err != nil {
		return err
	}
	if len(o.kinds) == 0 && ofMesh(runs) { // a line for each pair says nothing
		kinds = slices.DeleteFunc(slices.Clone(plotKinds), func(k plotKind) bool { return k.name != "heat" })
		kind = kinds[0]
	}
	if folder {
		return o.all(env, kinds, runs, options)
	}
	f, err := kind.draw(runs, options)
	if err != nil {
		return usagef("plot: %w", err)
	}
	return save(env, f, o.out, format, o.force)
}

// ofMesh says whether the cells are of pairs of hosts.
func ofMesh(runs []results.Run) bool {
	return slices.ContainsFunc(runs, func(r results.Run) bool {
		return slices.ContainsFunc(r.Cells, func(c results.Cell) bool { return c.InitiatorHost != "" && c.TargetHost != "" })
	})
}

// chosen is the kinds that the flags ask for, one at least. One file takes one kind, and what is not drawn from cells stands alone.
func (o *plotFlags) chosen(folder bool) ([]plotKind, error) {
	names := o.kinds
	if len(names) == 0 {
		names = []string{"bandwidth", "latency"}
		if !folder {
			names = names[:1]
		}
	}
	var kinds []plotKind
	for _, k := range plotKinds {
		if slices.Contains(names, k.name) || k.read == nil && slices.Contains(names, everyKind) {
			kinds = append(kinds, k)
		}
	}
	if !folder && len(kinds) > 1 {
		return nil, usagef("--out %s is one figure; --kind %s are %d: name a folder", o.out, strings.Join(names, ","), len(kinds))
	}
	for _, k := range kinds {
		if k.read != nil && len(kinds) > 1 {
			return nil, usagef("--kind %s reads other files than the others do: ask for it alone", k.name)
		}
	}
	return kinds, nil
}

// other draws a kind that does not come from the cells of result files alone.
func (o *plotFlags) other(env *Env, kind plotKind, args []string, dash int, format plots.Format, options plots.Options) error {
	formats, names := []plots.Format{format}, []string{o.out}
	if format == "" {
		formats, names = nil, nil
		for _, f := range o.formats {
			formats, names = append(formats, plots.Format(f)), append(names, filepath.Join(o.out, kind.name+"."+f))
		}
	}
	for _, name := range names {
		if err := free(name, o.force); err != nil {
			return err
		}
	}
	f, err := kind.read(env, args, dash, o.cells, options)
	if err != nil {
		return err
	}
	if format == "" {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return usagef("--out: %w", err)
		}
	}
	for i, name := range names {
		if err := save(env, f, name, formats[i], o.force); err != nil {
			return err
		}
	}
	return nil
}

// all draws the kinds into the folder. One that was asked for by name must have values; of the others those that have none are
// said on standard error.
func (o *plotFlags) all(env *Env, kinds []plotKind, runs []results.Run, options plots.Options) error {
	type sheet struct {
		figure *plots.Figure
		name   string
		format plots.Format
	}
	var sheets []sheet
	var empty []error
	var without []string // the names of the kinds of empty
	for _, k := range kinds {
		f, err := k.draw(runs, options)
		if errors.Is(err, plots.ErrEmpty) && !slices.Contains(o.kinds, k.name) {
			empty, without = append(empty, err), append(without, k.name)
			continue
		}
		if err != nil {
			return usagef("plot: %w", err)
		}
		for _, format := range o.formats {
			name := filepath.Join(o.out, k.name+"."+format)
			if err := free(name, o.force); err != nil {
				return err
			}
			sheets = append(sheets, sheet{f, name, plots.Format(format)})
		}
	}
	if len(sheets) == 0 && len(empty) == 1 {
		return usagef("plot: %w", empty[0])
	}
	if len(sheets) == 0 { // all of them say why of the same cells
		_, why, _ := strings.Cut(empty[0].Error(), "; ")
		return usagef("plot: no values for %s%s", strings.Join(without, ", "), strings.TrimSuffix("; "+why, "; "))
	}
	if len(without) > 0 {
		fmt.Fprintf(env.Stderr, "hopbench: plot: no values for %s\n", strings.Join(without, ", "))
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return usagef("--out: %w", err)
	}
	for _, s := range sheets {
		if err := save(env, s.figure, s.name, s.format, o.force); err != nil {
			return err
		}
	}
	return nil
}

// only keeps the cells whose name matches one of the patterns; none keeps all.
func only(runs []results.Run, patterns []string) ([]results.Run, error) {
	if len(patterns) == 0 {
		return runs, nil
	}
	var out []results.Run
	kept := 0
	for _, r := range runs {
		var cells []results.Cell
		for _, c := range r.Cells {
			for _, p := range patterns {
				if compare.Match(p, compare.CellName(c.Identity())) {
					cells = append(cells, c)
					break
				}
			}
		}
		kept += len(cells)
		r.Cells = cells
		out = append(out, r)
	}
	if kept == 0 {
		return nil, usagef("--cells %s: no cell's name matches; `hopbench compare` shows the names", strings.Join(patterns, ","))
	}
	return out, nil
}

// free is a usage error where the file exists and may not be replaced.
func free(name string, force bool) error {
	if _, err := os.Stat(name); err == nil && !force {
		return usagef("--out %s: it exists; --force replaces it", name)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return usagef("--out: %w", err)
	}
	return nil
}

// save draws the whole figure before it touches the file.
func save(env *Env, f *plots.Figure, name string, format plots.Format, force bool) error {
	var b bytes.Buffer
	if err := f.Write(&b, format); err != nil {
		return fmt.Errorf("plot: %s: %w", name, err)
	}
	if err := writeNew(name, "--out", force, b.Bytes()); err != nil {
		return err
	}
	fmt.Fprintln(env.Stdout, name)
	return nil
}
