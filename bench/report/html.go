package report

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft/engine"
	"hopbench/bench/ttft/prefill"
)

//go:embed page.html.tmpl
var pageTemplate string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// view is what the template sees.
type view struct {
	*Report
	Policy     string
	Style      template.CSS
	Script     template.JS
	Exec       template.JS
	Wasm, Data template.HTML // base64 of gzip
	HasPlanner bool
	Missing    string
	Tool       string
	Models     []string
	Engines    []engine.Preset
	GPUs       []prefill.GPU
	Command    string
	Drawn      []*Figure // of Figures those that there is room for
	Left       []string  // the others, and how to have them
}

func (r *Report) html(w io.Writer) error {
	v := view{Report: r, Script: template.JS(pageScript), Missing: r.NoPlanner(), Tool: r.options.Tool,
		Models: kvcache.Catalogue(), Engines: engine.Presets(), GPUs: prefill.GPUs(), Command: r.Ask.Command(r.files...)}
	scripts := []string{pageScript}
	if p := r.options.Planner; p != nil {
		data, err := json.Marshal(map[string]any{"cells": r.cells, "files": r.files})
		if err != nil {
			return fmt.Errorf("cells: %w", err)
		}
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := z.Write(data); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		v.HasPlanner = true
		v.Wasm = template.HTML(base64.StdEncoding.EncodeToString(p.Wasm))
		v.Data = template.HTML(base64.StdEncoding.EncodeToString(packed.Bytes()))
		v.Exec = template.JS(p.Exec)
		scripts = append(scripts, string(p.Exec))
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"svg": func(s string) template.HTML { return template.HTML(s) }, // made by inline, which escapes it
	}).Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	for _, f := range r.Figures {
		c := *f
		v.Drawn = append(v.Drawn, &c)
	}
	var out bytes.Buffer
	for {
		out.Reset()
		style := v.style()
		v.Style, v.Policy = template.CSS(style), policy(style, scripts)
		if err := t.Execute(&out, v); err != nil {
			return fmt.Errorf("page: %w", err)
		}
		if out.Len() <= MostBytes || !v.lighten() {
			break
		}
	}
	_, err = w.Write(out.Bytes())
	return err
}

// lighten takes a drawing out of the page: those for phones first, the heaviest before the others, where the other drawing then
// scrolls; after that the last figure, since they stand in the order of their weight for a reader. It is false where none is left.
func (v *view) lighten() bool {
	heaviest := -1
	for i, f := range v.Drawn {
		if f.Narrow.SVG != "" && (heaviest < 0 || len(f.Narrow.SVG) > len(v.Drawn[heaviest].Narrow.SVG)) {
			heaviest = i
		}
	}
	if heaviest >= 0 {
		v.Drawn[heaviest].Narrow = drawing{}
		return true
	}
	last := len(v.Drawn) - 1
	if last < 0 {
		return false
	}
	f := v.Drawn[last]
	v.Drawn = v.Drawn[:last]
	v.Left = append(v.Left, fmt.Sprintf("%s: it would make this page larger than %d bytes; `hopbench plot --kind %s` draws it from the same files.", f.Title, MostBytes, f.Kind))
	return true
}

// style is the page's style sheet with the figures' rules.
func (v *view) style() string {
	var light, dark strings.Builder
	for _, f := range v.Drawn {
		for _, d := range []drawing{f.Wide, f.Narrow} {
			light.WriteString(strings.Join(d.Light, "\n") + "\n")
			dark.WriteString(strings.Join(d.Dark, "\n") + "\n")
		}
	}
	return pageStyle + light.String() + "@media screen and (prefers-color-scheme: dark) {\n" + dark.String() + "}\n"
}

// policy lets the page run its own scripts and style by their hashes, and WebAssembly; it may load nothing, send nothing, be
// sent nowhere.
func policy(style string, scripts []string) string {
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	src := ""
	for _, s := range scripts {
		src += hash(s)
	}
	if len(scripts) > 1 {
		src += " 'wasm-unsafe-eval'"
	}
	return "default-src 'none'; img-src data:; script-src" + src + "; style-src" + hash(style) + "; base-uri 'none'; form-action 'none'"
}
