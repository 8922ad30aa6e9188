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
}

func (r *Report) html(w io.Writer) error {
	v := view{Report: r, Script: template.JS(pageScript), Missing: r.NoPlanner(), Tool: r.options.Tool,
		Models: kvcache.Catalogue(), Engines: engine.Presets(), GPUs: prefill.GPUs(), Command: r.Ask.Command(r.files...)}
	v.Style = template.CSS(r.style())
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
	v.Policy = policy(string(v.Style), scripts)
	t, err := template.New("page").Funcs(template.FuncMap{
		"svg":   func(s string) template.HTML { return template.HTML(s) }, // made by inline, which escapes it
		"plus":  func(a, b int) int { return a + b },
		"lower": strings.ToLower,
	}).Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	_, err = w.Write(out.Bytes())
	return err
}

// style is the page's style sheet with the figures' rules.
func (r *Report) style() string {
	var light, dark strings.Builder
	for _, f := range r.Figures {
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
