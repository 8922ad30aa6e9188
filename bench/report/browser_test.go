package report_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hopbench/bench/report"
	"hopbench/results"
)

// planner is built once, as `make planner` builds it.
var planner = sync.OnceValues(func() (*report.Planner, error) {
	dir, err := os.MkdirTemp("", "hopbench-planner-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	wasm := filepath.Join(dir, "planner.wasm")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", wasm, "hopbench/bench/report/planner")
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("planner: %w\n%s", err, out)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	p := &report.Planner{}
	if p.Exec, err = os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib/wasm/wasm_exec.js")); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(wasm)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if _, err := z.Write(raw); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	p.Wasm = packed.Bytes()
	return p, nil
})

// page writes the page of runs with a planner, and returns its path.
func page(t *testing.T, runs []results.Run) string {
	t.Helper()
	p, err := planner()
	if err != nil {
		t.Fatal(err)
	}
	r, err := report.Build(runs, report.Options{Planner: p})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Write(&b, report.HTML); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// command is the program, built once.
var command = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hopbench-report-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "hopbench")
	if out, err := exec.Command("go", "build", "-o", path, "hopbench/bench").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// column is the texts of a table's column that are shown.
const column = `(table, name) => {
	const t = document.getElementById(table), i = [...t.tHead.rows[0].cells].findIndex((c) => c.textContent === name);
	return [...t.tBodies[0].rows].filter((r) => !r.hidden).map((r) => r.cells[i].textContent);
}`

func TestTablesInABrowser(t *testing.T) {
	c := newChrome(t)
	path := page(t, read(t, "typical.jsonl"))
	c.look(1280, 900, "light")
	c.open(path)

	// Sizes sort as numbers, both ways, and the head says which.
	var head string
	click := func(name string) {
		c.eval(fmt.Sprintf(`(() => { const b = [...document.querySelectorAll("#cells-1 th button")].find((b) => b.textContent === %q); b.focus(); b.click(); return b.parentElement.getAttribute("aria-sort"); })()`, name), &head)
	}
	var sizes, figures []string
	click("size")
	c.eval("("+column+`)("cells-1", "size")`, &sizes)
	if head != "ascending" || len(sizes) < 4 || sizes[0] != "64 B" || sizes[len(sizes)-1] != "256 KiB" {
		t.Errorf("by size: %s %q", head, sizes)
	}
	click("size")
	c.eval("("+column+`)("cells-1", "size")`, &sizes)
	if head != "descending" || sizes[0] != "256 KiB" {
		t.Errorf("by size again: %s %q", head, sizes)
	}
	click("GB/s")
	c.eval("("+column+`)("cells-1", "GB/s")`, &figures)
	last := -1.0
	for _, f := range figures {
		var v float64
		if _, err := fmt.Sscan(f, &v); err != nil || v < last {
			t.Errorf("by bandwidth: %q", figures)
			break
		}
		last = v
	}

	// Words filter, and the count is said.
	var count string
	c.eval(`(() => { const i = document.getElementById("cells-1-filter"); i.value = "tcp read"; i.dispatchEvent(new Event("input")); return i.parentElement.querySelector("output").textContent; })()`, &count)
	var labels []string
	c.eval("("+column+`)("cells-1", "path")`, &labels)
	if len(labels) == 0 || !strings.HasPrefix(count, fmt.Sprint(len(labels), " of ")) {
		t.Errorf("%q rows, said %q", labels, count)
	}
	for _, l := range labels {
		if !strings.HasPrefix(l, "tcp") {
			t.Errorf("a row of %s", l)
		}
	}

	// Markers have values.
	var hit string
	c.eval(`(() => { const h = document.querySelector("#figure-1 .wide .hit"); h.dispatchEvent(new PointerEvent("pointerover", { bubbles: true })); return document.querySelector("#figure-1 .readout").textContent; })()`, &hit)
	if !strings.Contains(hit, "B/s at 64 B") {
		t.Errorf("a marker says %q", hit)
	}
	// A mark lies on what it speaks of: something of the drawing is painted there.
	var astray []string
	c.eval(onTheDrawing, &astray)
	if len(astray) > 0 {
		t.Errorf("marks beside the drawing: %q", astray)
	}

	// Text has the contrast that WCAG's AA asks for, on light and on dark.
	for _, scheme := range []string{"light", "dark"} {
		c.look(1280, 900, scheme)
		var faint []string
		c.eval(contrast, &faint)
		if len(faint) > 0 {
			t.Errorf("%s: too little contrast: %q", scheme, faint)
		}
	}
	// What takes input has a name, and every table's cells have heads.
	var nameless []string
	c.eval(`[...document.querySelectorAll("input, select, button, [role=region], table")].filter((e) => !(e.labels?.length || e.textContent.trim() && e.tagName === "BUTTON" || e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") && document.getElementById(e.getAttribute("aria-labelledby")) || e.caption)).map((e) => e.outerHTML.slice(0, 90))`, &nameless)
	if len(nameless) > 0 {
		t.Errorf("without a name: %q", nameless)
	}
	var twice []string
	c.eval(`[...document.querySelectorAll("[id]")].map((e) => e.id).filter((id, i, all) => all.indexOf(id) !== i)`, &twice)
	if len(twice) > 0 {
		t.Errorf("ids twice: %q", twice)
	}

	// Nothing is wider than a phone but what scrolls by itself.
	c.look(375, 800, "dark")
	var wide []string
	c.eval(`[...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, svg, .skip") && e.getBoundingClientRect().right > 376).map((e) => e.tagName + "#" + e.id + "." + e.className)`, &wide)
	if len(wide) > 0 {
		t.Errorf("wider than a phone: %q", wide)
	}
	quiet(t, c, path)
	if left := c.left(path); len(left) > 0 {
		t.Errorf("requests: %q", left)
	}
}

// onTheDrawing lists the marks that stand neither on the middle of something painted, such as a marker or a bar, nor on a line.
const onTheDrawing = `(() => {
	const out = [];
	const middle = (r) => [r.x + r.width / 2, r.y + r.height / 2];
	for (const svg of document.querySelectorAll("figure .wide svg")) {
		const height = svg.viewBox.baseVal.height;
		const painted = [...svg.querySelectorAll("g path")];
		const middles = painted.map((e) => middle(e.getBoundingClientRect()));
		for (const hit of svg.querySelectorAll(".hit")) {
			const [x, y] = middle(hit.getBoundingClientRect());
			if (middles.some(([a, b]) => Math.abs(a - x) < 1.5 && Math.abs(b - y) < 1.5)) continue;
			if (hit.cx && painted.some((e) => e.isPointInStroke(new DOMPoint(hit.cx.baseVal.value, height - hit.cy.baseVal.value)))) continue;
			out.push(hit.textContent);
		}
	}
	return out;
})()`

// contrast lists the texts whose contrast to the ground beneath is under 4.5. Figures are drawn by package plots, disabled inputs need none.
const contrast = `(() => {
	const parse = (c) => c.match(/[0-9.]+/g).map(Number);
	const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
	const out = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (e.closest("svg, script, :disabled") || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
		const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) out.add(e.tagName + "." + e.className + " " + ratio.toFixed(2));
	}
	return [...out];
})()`

// TestByKeyboard goes through the page without a mouse: the first stop leads past the navigation, every control is a stop, none is a trap, heads
// sort by Enter and by the space bar, the planner answers to Enter, and what has the focus can be seen.
func TestByKeyboard(t *testing.T) {
	c := newChrome(t)
	path := page(t, read(t, "typical.jsonl"))
	c.look(1280, 900, "light")
	c.open(path)
	c.press("Tab")
	var at string
	if c.eval(`document.activeElement.className`, &at); at != "skip" {
		t.Errorf("the first stop is %q", at)
	}
	c.press("Enter")
	if c.eval(`location.hash`, &at); at == "" || at == "#" {
		t.Error("the skip link leads nowhere")
	}
	// Every stop of the page is reached, in the order of the document, and the last one leads out.
	c.open(path)
	var stops, seen int
	c.eval(`(() => {
		globalThis.stops = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")].filter((e) => !e.disabled && e.checkVisibility({ visibilityProperty: true }) && e.tabIndex >= 0);
		globalThis.reached = new Set();
		globalThis.unseen = new Set();
		document.addEventListener("focusin", (e) => {
			reached.add(e.target);
			const s = getComputedStyle(e.target);
			if (s.outlineStyle === "none" && s.boxShadow === "none") unseen.add(e.target.outerHTML.slice(0, 80));
		});
		return stops.length;
	})()`, &stops)
	for range stops + 20 {
		c.press("Tab")
	}
	var missed, unseen []string
	c.eval(`stops.filter((e) => !reached.has(e) && !(e.type === "radio")).map((e) => e.outerHTML.slice(0, 80))`, &missed)
	c.eval(`[...unseen]`, &unseen)
	c.eval(`reached.size`, &seen)
	if len(missed) > 0 || stops < 30 {
		t.Errorf("%d stops, %d reached; never: %q", stops, seen, missed)
	}
	if len(unseen) > 0 {
		t.Errorf("the focus cannot be seen on %q", unseen)
	}
	head := func() (sort string) {
		c.eval(`[...document.querySelectorAll("#cells-1 th button")].find((b) => b.textContent === "size").parentElement.getAttribute("aria-sort") ?? ""`, &sort)
		return sort
	}
	c.eval(`[...document.querySelectorAll("#cells-1 th button")].find((b) => b.textContent === "size").focus()`, nil)
	c.press("Enter")
	if got := head(); got != "ascending" {
		t.Errorf("Enter on a head: %q", got)
	}
	c.press(" ")
	if got := head(); got != "descending" {
		t.Errorf("the space bar on a head: %q", got)
	}
	c.eval(`(() => { const e = document.getElementById("ask").elements.isl_tokens; e.focus(); e.select(); })()`, nil)
	c.press("Enter")
	c.wait(`document.getElementById("ask-status").textContent.startsWith("Computed")`)
	quiet(t, c, path)
}

// TestNothingCanLeave tries to: the page's policy must stop what a script that got in would do.
func TestNothingCanLeave(t *testing.T) {
	c := newChrome(t)
	path := page(t, read(t, "typical.jsonl"))
	c.open(path)
	quiet(t, c, path)
	var blocked []string
	c.eval(`(async () => {
		const seen = [];
		document.addEventListener("securitypolicyviolation", (e) => seen.push(e.effectiveDirective));
		await fetch("http://127.0.0.1:9/").catch(() => {});
		const image = new Image();
		image.src = "http://127.0.0.1:9/x.png";
		const script = document.createElement("script");
		script.textContent = "globalThis.got = true";
		document.body.append(script);
		const style = document.createElement("p");
		style.setAttribute("style", "color: red");
		await new Promise((done) => setTimeout(done, 300));
		return [...new Set(seen)].sort().concat(globalThis.got ? "a script ran" : []);
	})()`, &blocked)
	if got := strings.Join(blocked, " "); got != "connect-src img-src script-src-elem style-src-attr" {
		t.Errorf("blocked: %q", got)
	}
}

// quiet holds the page to a console without an error, and to no request but for itself.
func quiet(t *testing.T, c *chrome, path string) {
	t.Helper()
	if said := c.said(); len(said) > 0 {
		t.Errorf("the console says:\n%s", strings.Join(said, "\n"))
	}
	if left := c.left(path); len(left) > 0 {
		t.Errorf("requests left the page: %q", left)
	}
}

// TestPictures writes pictures of the page where HOPBENCH_PICTURES names a folder, to be looked at.
func TestPictures(t *testing.T) {
	dir := os.Getenv("HOPBENCH_PICTURES")
	if dir == "" {
		t.Skip("HOPBENCH_PICTURES names no folder for pictures")
	}
	c := newChrome(t)
	path := page(t, read(t, "typical.jsonl"))
	for _, l := range []struct {
		name   string
		width  int
		scheme string
	}{{"desk-light", 1280, "light"}, {"desk-dark", 1280, "dark"}, {"phone-light", 375, "light"}, {"phone-dark", 375, "dark"}} {
		c.look(l.width, 900, l.scheme)
		c.open(path)
		c.shot(filepath.Join(dir, l.name+".png"))
	}
	quiet(t, c, path)
}

// TestHostilePageInABrowser opens a page of hostile strings and asks its planner, which puts labels of the file into the page.
func TestHostilePageInABrowser(t *testing.T) {
	c := newChrome(t)
	runs := hostile(`</script><script>globalThis.got = 1</script><img src=x onerror="globalThis.got = 2">`)
	path := page(t, runs)
	c.open(path)
	c.eval(`(() => { const f = document.getElementById("ask"); f.elements.extrapolate.checked = true; f.elements.isl_tokens.value = 1000; f.elements.isl_tokens.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`, nil)
	c.wait(`document.getElementById("ask-status").textContent.startsWith("Computed")`)
	var got struct {
		Got    int
		Images int
		Label  string
	}
	c.eval(`({ Got: globalThis.got ?? 0, Images: document.images.length, Label: document.getElementById("answer-table").tBodies[0].rows[0].cells[0].textContent })`, &got)
	if got.Got != 0 || got.Images != 0 || !strings.Contains(got.Label, "<img src=x") {
		t.Errorf("%+v", got)
	}
	quiet(t, c, path)
}
