package cli

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"

	"hopbench/bench/ttft/report"
	"hopbench/plots"
	"hopbench/results"
	"hopbench/results/compare"
	"hopbench/results/unit"
)

// plotRatio compares two sets of result files as hopbench compare does by default, over the cells whose name matches a pattern.
func plotRatio(_ *Env, args []string, dash int, cells []string, o plots.Options) (*plots.Figure, error) {
	oldPaths, newPaths, err := sides(args, dash)
	if err != nil {
		return nil, err
	}
	old, err := compare.Load(oldPaths...)
	if err != nil {
		return nil, usagef("%w", err)
	}
	new, err := compare.Load(newPaths...)
	if err != nil {
		return nil, usagef("%w", err)
	}
	r, err := compare.Compare(old, new, compare.Options{Cells: cells})
	if err != nil {
		return nil, usagef("%w", err)
	}
	var origins plots.Origins
	for _, paths := range [][]string{oldPaths, newPaths} {
		err := results.EachFile(paths, func(runs []results.Run) error {
			for i := range runs {
				origins.Add(&runs[i])
			}
			return nil
		})
		if err != nil {
			return nil, usagef("%w", err)
		}
	}
	o.Notes = append(origins.Notes(), o.Notes...)
	f, err := plots.Ratios(r, o)
	if err != nil {
		return nil, usagef("plot: %w", err)
	}
	return f, nil
}

// plotTTFT draws what hopbench ttft --json wrote.
func plotTTFT(draw func(*report.Document, plots.Options) (*plots.Figure, error)) func(*Env, []string, int, []string, plots.Options) (*plots.Figure, error) {
	return func(env *Env, args []string, _ int, _ []string, o plots.Options) (*plots.Figure, error) {
		var doc report.Document
		if err := readDocument(env, args, "projections", "hopbench ttft --json", &doc); err != nil {
			return nil, err
		}
		if doc.Tool != "" { // what the figure shows was computed there; who drew it adds nothing but another version
			o.Notes = nil
		}
		f, err := draw(&doc, o)
		if err != nil {
			return nil, usagef("plot: %w", err)
		}
		return f, nil
	}
}

// plotTopology draws the graph of what hopbench probe --json wrote.
func plotTopology(env *Env, args []string, _ int, _ []string, o plots.Options) (*plots.Figure, error) {
	var doc struct {
		Source string      `json:"source"`
		Live   bool        `json:"live"`
		Kernel string      `json:"kernel"`
		Graph  plots.Graph `json:"graph"`
		About  probed      `json:"about"`
	}
	if err := readDocument(env, args, "graph", "hopbench probe --json", &doc); err != nil {
		return nil, err
	}
	var from []string
	if doc.Source != "" && !doc.Live {
		from = append(from, "captured host "+filepath.Base(doc.Source))
	}
	if doc.About.Hostname != "" {
		from = append(from, "host "+doc.About.Hostname)
	}
	if v := doc.About.Virtualisation; v != "" && v != "none" {
		from = append(from, v)
	}
	if doc.Kernel != "" {
		from = append(from, "kernel "+doc.Kernel)
	}
	var about []string
	if len(from) > 0 {
		about = append(about, "Read from: "+strings.Join(from, ", ")+".")
	}
	if day, _, ok := strings.Cut(doc.About.Read, "T"); ok {
		about = append(about, day+".")
	}
	if doc.About.Tool != "" { // who drew it adds nothing but another version
		about = append(about, "Read by "+doc.About.Tool+".")
		o.Notes = nil
	}
	if len(about) > 0 {
		o.Notes = append([]string{strings.Join(about, " ")}, o.Notes...)
	}
	if doc.About.Emulated {
		doc.Graph.Realm = results.RealmEmulated
	}
	f, err := plots.Topology(doc.Graph, o)
	if err != nil {
		return nil, usagef("plot: %w", err)
	}
	return f, nil
}

// mostJSON bounds a document that is read whole.
const mostJSON = 64 << 20

// readDocument reads the one JSON object that the arguments name, which must have the key that makes it what made says.
func readDocument(env *Env, args []string, key, made string, into any) error {
	if len(args) != 1 {
		return usagef("plot: name one file with the output of %s, or - for standard input", made)
	}
	name, in := args[0], env.Stdin
	if name == "-" {
		name = "standard input"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return usagef("%w", err)
		}
		defer file.Close()
		in = file
	}
	b, err := io.ReadAll(io.LimitReader(in, mostJSON+1))
	if err != nil {
		return usagef("%s: %w", name, err)
	}
	if len(b) > mostJSON {
		return usagef("%s: more than %d bytes", name, mostJSON)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		return usagef("%s: not the output of %s: %w", name, made, unit.Decoding(err))
	}
	if _, ok := keys[key]; !ok {
		return usagef("%s: not the output of %s: it has no key %q", name, made, key)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return usagef("%s: %w", name, unit.Decoding(err))
	}
	return nil
}
