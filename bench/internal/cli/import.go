package cli

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"hopbench/results"
	"hopbench/results/foreign"
	"hopbench/results/unit"
)

func newImport(env *Env) *cobra.Command {
	var format, transport, realm, out, buffer string
	var force bool
	var names []string
	var summaries strings.Builder
	for _, f := range foreign.Formats() {
		names = append(names, f.Name)
		fmt.Fprintf(&summaries, "\n  %-14s %s", f.Name, f.Summary)
		for _, d := range f.Definitions {
			if f.Name != "perftest-json" { // the same as perftest's
				fmt.Fprintf(&summaries, "\n      %s", d)
			}
		}
	}
	realms := []string{results.RealmHardware, results.RealmSoftware, results.RealmEmulated}
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Read results of perftest, iperf3, nvbandwidth and others into result files",
		Long: `Reads what other tools printed and writes it as a result file, a run for each FILE (- is standard
input). Every cell names the tool, and that tool's own definition of its number, so that it stands
beside other figures and is not mixed up with them.

Formats, and what their numbers mean:` + summaries.String(),
		Example: `  iperf3 -c HOST -J | hopbench import - -o iperf3.jsonl
  hopbench import ib_write_bw.txt --realm emulated -o perftest.jsonl
  hopbench table run.jsonl perftest.jsonl`,
		Args: someFile("a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "" {
				if err := oneOf("--format", format, names); err != nil {
					return err
				}
			}
			o := foreign.Options{Transport: transport, Realm: realm}
			if realm != "" {
				if err := oneOf("--realm", realm, realms); err != nil {
					return err
				}
			}
			if buffer != "" {
				n, err := unit.ParseBytes(buffer)
				if err != nil || n <= 0 {
					return usagef("--buffer-size %q: not a size above 0", buffer)
				}
				o.BufferBytes = n
			}
			if out != "" && !force {
				if _, err := os.Lstat(out); err == nil {
					return usagef("--out %s: it exists; --force replaces it", out)
				} else if !errors.Is(err, fs.ErrNotExist) {
					return usagef("%w", err)
				}
			}
			// All files are read before anything is written.
			var headers []*results.Header
			var files []*foreign.File
			for _, name := range args {
				h, f, err := importFile(env, name, format, o)
				if err != nil {
					return usagef("%s: %w", name, err)
				}
				for _, w := range f.Warnings {
					fmt.Fprintf(env.Stderr, "%s: %s\n", name, w)
				}
				headers, files = append(headers, h), append(files, f)
			}
			var text bytes.Buffer // written whole or not at all
			for i, f := range files {
				if err := writeImport(&text, headers[i], f); err != nil {
					return err
				}
			}
			if out == "" {
				if _, err := env.Stdout.Write(text.Bytes()); err != nil {
					return exitError{1, err}
				}
				return nil
			}
			return writeNew(out, "--out", force, text.Bytes())
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", "", "what FILE is, where its content does not tell: "+strings.Join(names, ", "))
	f.StringVar(&transport, "transport", "", "transport that the figures are of, where the output does not show it")
	f.StringVar(&realm, "realm", "", "what carried the bytes, where the output does not show it: "+strings.Join(realms, ", "))
	f.StringVar(&buffer, "buffer-size", "", "nvbandwidth's --bufferSize, which its JSON does not name; without it sizes are left open")
	f.StringVarP(&out, "out", "o", "", "write to this file instead of standard output")
	f.BoolVar(&force, "force", false, "replace the file of --out")
	// The only error is a flag that is not defined.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("realm", cobra.FixedCompletions(realms, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func importFile(env *Env, name, format string, o foreign.Options) (*results.Header, *foreign.File, error) {
	in, label := env.Stdin, "standard input"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		in, label = f, name
	}
	sum := sha256.New()
	f, err := foreign.Parse(io.TeeReader(in, sum), format, o)
	if err != nil {
		return nil, nil, err
	}
	tool, commit := toolVersion()
	h := &results.Header{ToolVersion: tool, ToolCommit: commit, Started: f.Started, Hosts: f.Hosts,
		Source: fmt.Sprintf("%s output of %s, from %s (sha256 %x)", f.Format, f.Tool, label, sum.Sum(nil))}
	if h.Started.IsZero() {
		// The output does not say when: the time of reading it is at least not before.
		h.Started = env.Now()
		f.Warnings = append(f.Warnings, "the output does not say when it was measured; the run is dated by its import")
	}
	if f.Incomplete != "" { // so that it travels with each number
		f.Warnings = append(f.Warnings, "the run is not whole: "+f.Incomplete)
	}
	for i := range f.Cells {
		f.Cells[i].Warnings = append(f.Cells[i].Warnings, f.Warnings...)
	}
	return h, f, nil
}

func writeImport(to io.Writer, h *results.Header, f *foreign.File) error {
	w, err := results.NewWriter(to, "the import", h)
	if err != nil {
		return err
	}
	for i := range f.Cells {
		if err := w.Cell(&f.Cells[i]); err != nil {
			return errors.Join(err, w.Close(results.StateFailed, err.Error()))
		}
	}
	if f.Incomplete != "" {
		return w.Close(results.StateFailed, f.Incomplete)
	}
	return w.Close(results.StateComplete, "")
}
