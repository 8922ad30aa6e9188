// Package cli is the command: one file a subcommand. Everything that a subcommand touches outside the module's packages comes in
// by Env, so that tests give it their own drivers, streams and environment.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"hopbench/bench/report"
	"hopbench/results/page"
	"hopbench/transports"
	"hopbench/transports/fault"
)

// Env is the world that a command sees.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Drivers        []transports.Driver
	Now            func() time.Time
	Getenv         func(string) string
	Context        context.Context // ends on SIGINT and SIGTERM
	Terminal       bool            // standard error is a terminal: progress may be shown
	Executable     string          // path of this program, for a second process of it; empty: none can be started

	args []string // the command line without the program's name: for the record. A token is never in it
}

// System is the world of the real process.
func System(drivers []transports.Driver) *Env {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // the second signal does what it does to any process
	}()
	executable, _ := os.Executable()
	stat, err := os.Stderr.Stat()
	return &Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Drivers: drivers, Now: time.Now, Getenv: os.Getenv,
		Context: ctx, Terminal: err == nil && stat.Mode()&os.ModeCharDevice != 0, Executable: executable,
	}
}

// exitError carries the exit status that an error ends the command with.
type exitError struct {
	code int
	err  error // nil: everything was said already
}

func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}
func (e exitError) Unwrap() error { return e.err }

// usagef is a usage error: one line, exit status 2.
func usagef(format string, args ...any) error {
	return exitError{2, fmt.Errorf(format, args...)}
}

// Run executes the command line and returns the exit status.
func Run(env *Env, args []string) int {
	world := *env
	env = &world
	if env.Context == nil {
		env.Context = context.Background()
	}
	env.args = args
	stdout := &plainWriter{w: env.Stdout}
	env.Stdout, env.Stderr = stdout, &plainWriter{w: env.Stderr}
	root := newRoot(env)
	root.SetArgs(args)
	ended, err := execute(env.Context, root, args)
	if !ended {
		fmt.Fprintln(raw(env.Stderr), "hopbench: interrupted") // the command may still write to the other
		return interrupted
	}
	if err == nil && stdout.err != nil {
		err = exitError{1, fmt.Errorf("standard output: %w", stdout.err)}
	}
	if err == nil {
		return 0
	}
	code := status(err)
	var exit exitError
	if !errors.As(err, &exit) || exit.err != nil {
		fmt.Fprintf(env.Stderr, "hopbench: %v\n", err)
		if c := fault.CodeOf(err); c != "" && code != 2 {
			fmt.Fprintf(env.Stderr, "hopbench: `hopbench doctor --explain %s` says more\n", c)
		}
	}
	return code
}

// interrupted is the exit status of a command that a signal ended before it came to an end of its own: a shell's for SIGINT.
const interrupted = 130

// grace is what a command that only reads and computes has to end after a signal.
const grace = time.Second

// execute runs the command. ended is false where ctx ended and the command did not, within grace: it stands in a read that nothing
// ends, or computes. Commands that measure tidy up for as long as they need; a second signal ends those.
func execute(ctx context.Context, root *cobra.Command, args []string) (ended bool, err error) {
	if c, _, err := root.Find(args); err == nil && slices.Contains([]string{"run", "serve", "mesh", "probe", "kv"}, c.Name()) {
		return true, root.ExecuteContext(ctx)
	}
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	select {
	case err := <-done:
		return true, err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return true, err
	case <-time.After(grace):
		return false, nil
	}
}

// status is the exit status of an error: what it carries, else what its class means, else 1.
func status(err error) int {
	var exit exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	if class := fault.ClassOf(err); class != fault.Internal {
		return class.Exit(true)
	}
	return 1
}

func newRoot(env *Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "hopbench",
		Short: "Measure every hop that a KV cache can take, and what each costs in time to first token",
		Long: `hopbench measures the paths that a KV cache can take from a prefill GPU to a decode GPU
(NVLink, InfiniBand, RoCE, TCP with host staging) with one harness and one definition of each
number, and says what each costs in time to first token.

Start with
  hopbench run                  every transport that this host can use, on this host
  hopbench doctor               what is missing for the others, and what to do
  hopbench serve                the other side, on another host

Exit status: 0; 1 a measurement failed or a regression was found; 2 usage; 3 a transport that was asked
for by name is not usable here. Where several apply, 2 comes before 1 before 3.`,
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return usagef("there is no subcommand %q%s", args[0], nearest(args[0], subcommandNames(cmd)))
		},
	}
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	show := root.Flags().BoolP("version", "v", false, "version, commit, and the back ends of this build")
	run := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *show {
			_, err := fmt.Fprintln(env.Stdout, version(env.Drivers))
			return err
		}
		return run(cmd, args)
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if name, ok := unknownFlag(err); ok {
			var names []string
			cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
			return usagef("%s has no flag %s%s", cmd.CommandPath(), name, nearest(name, names))
		}
		var wrong *pflag.InvalidValueError
		if errors.As(err, &wrong) {
			return usagef("--%s %q: want %s", wrong.GetFlag().Name, wrong.GetValue(), flagWants(wrong.GetFlag(), err))
		}
		return usagef("%s: %v", cmd.CommandPath(), err)
	})
	for _, subcommand := range subcommands {
		root.AddCommand(subcommand(env))
	}
	root.SetUsageTemplate(strings.NewReplacer(".LocalFlags.FlagUsages", fmt.Sprintf(".LocalFlags.FlagUsagesWrapped %d", page.Width),
		".InheritedFlags.FlagUsages", fmt.Sprintf(".InheritedFlags.FlagUsagesWrapped %d", page.Width)).Replace(root.UsageTemplate()))
	root.SetHelpCommand(newHelp(root))
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) == 0 {
					return cmd.Help()
				}
				return usagef("completion: there is no shell %q%s", args[0], nearest(args[0], subcommandNames(cmd)))
			}
			c.Args = cobra.ArbitraryArgs
		}
	}
	strict(root)
	return root
}

// strict makes what cobra says of wrong arguments a usage error, for every command below c.
func strict(c *cobra.Command) {
	for _, s := range c.Commands() {
		strict(s)
	}
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		var exit exitError
		if err == nil || errors.As(err, &exit) {
			return err
		}
		return usagef("%s: %v", cmd.CommandPath(), err)
	}
}

// newHelp is cobra's help subcommand, but for a name that is none: that is a usage error and no page.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [SUBCOMMAND]",
		Short: "Help on a subcommand",
		Long:  "help SUBCOMMAND says the same as SUBCOMMAND --help.",
		Example: `  hopbench help
  hopbench help doctor`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if len(args) == 0 {
				names = subcommandNames(root)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			about := root
			for _, name := range args {
				next := (*cobra.Command)(nil)
				for _, c := range about.Commands() {
					if c.Name() == name || c.HasAlias(name) {
						next = c
					}
				}
				if next == nil {
					return usagef("there is no subcommand %q%s", strings.Join(args, " "), nearest(name, subcommandNames(about)))
				}
				about = next
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

func subcommandNames(c *cobra.Command) (names []string) {
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() {
			names = append(names, s.Name())
		}
	}
	return names
}

// subcommands is the explicit list, in the order of help.
var subcommands = []func(*Env) *cobra.Command{
	newRun, newServe, newMesh, newProbe, newDoctor, newTable, newPlot, newKV, newTTFT, newCompare, newImport, newExport, newReport,
}

// unknownFlag finds the flag's name in pflag's error.
func unknownFlag(err error) (string, bool) {
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		if name := missing.GetSpecifiedName(); len(name) > 1 {
			return "--" + name, true
		}
	}
	return "", false
}

// flagWants says what a flag's value is, where it was given something else: err.
func flagWants(f *pflag.Flag, err error) string {
	if errors.Is(err, strconv.ErrRange) {
		return "a smaller number"
	}
	switch kind := f.Value.Type(); {
	case kind == "duration":
		return "a time with its unit, such as 200ms or 1.5s"
	case strings.HasPrefix(kind, "uint"):
		return "a whole number of 0 or more"
	case kind == "intSlice":
		return "whole numbers, with commas between them"
	case strings.HasPrefix(kind, "int"), kind == "count":
		return "a whole number"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	case kind == "bool":
		return "true or false"
	case strings.HasSuffix(kind, "Slice"):
		return "a list with commas between its parts, quotes in pairs"
	}
	return "a value of kind " + f.Value.Type()
}

// nearest is "; did you mean X?" for the closest of names, or nothing where none is close: a slip of one or two letters in a word
// that is long enough for that to mean something, or a name that begins with what was typed.
func nearest(got string, names []string) string {
	word := strings.TrimLeft(got, "-")
	n := len([]rune(word))
	if n < 2 {
		return ""
	}
	most := 1
	switch {
	case n < 3:
		most = 0 // of two letters any other word is as near
	case n > 12:
		most = 3
	case n > 5:
		most = 2
	}
	best, at := most+1, ""
	for _, name := range slices.Sorted(slices.Values(names)) {
		bare := strings.TrimLeft(name, "-")
		d := distance(strings.ToLower(word), strings.ToLower(bare))
		if strings.HasPrefix(strings.ToLower(bare), strings.ToLower(word)) {
			d = min(d, most)
		}
		if d < best {
			best, at = d, name
		}
	}
	if at == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", at)
}

// distance is the number of slips between two short words: a letter too many, too few or wrong, or two that stand the wrong way
// round (the optimal string alignment distance).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range y {
		rows[0][j+1] = j + 1
	}
	for i := range x {
		for j := range y {
			d := min(rows[i][j+1], rows[i+1][j]) + 1
			if x[i] == y[j] {
				d = min(d, rows[i][j])
			} else {
				d = min(d, rows[i][j]+1)
			}
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				d = min(d, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = d
		}
	}
	return rows[len(x)][len(y)]
}

// Set by the linker: -X hopbench/bench/internal/cli.release=v1.2.3.
var release = ""

// toolVersion is the release, or "dev", and the commit where the build knew it.
func toolVersion() (tool, commit string) {
	tool = "dev"
	if release != "" {
		tool = release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return tool, ""
	}
	modified := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	if commit != "" && modified {
		commit += "+modified"
	}
	return tool, commit
}

// version is what --version prints: the release or what git describes, the commit where the toolchain stamped it, and the back ends of this build.
func version(drivers []transports.Driver) string {
	tool, commit := toolVersion()
	if commit != "" {
		tool += " (" + commit + ")"
	}
	planner := "built in"
	if report.Built() == nil {
		planner = "not in this build: the page of `hopbench report` does not recompute"
	}
	return fmt.Sprintf("hopbench %s, %s %s/%s\nback ends: %s\nplanner: %s", tool, runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(backends(drivers), ", "), planner)
}

// backends are the transports of this build; those whose foreign library it was built without say so.
func backends(drivers []transports.Driver) []string {
	var names []string
	for _, d := range drivers {
		name := d.Name()
		switch fault.CodeOf(d.Probe(context.Background())) {
		case fault.VerbsBuiltWithout, fault.CUDABuiltWithout:
			name += " (not in this build)"
		}
		names = append(names, name)
	}
	return names
}
