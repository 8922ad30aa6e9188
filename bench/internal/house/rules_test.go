package house

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// room is what one part of the house may import of the module, directly. The first room whose pattern matches a package is its
// own. A pattern is a path; "/..." at its end means everything below as well, and "*" one element.
type room struct {
	packages string
	may      []string
	why      string
}

// contract is what every transport may know.
var contract = []string{"transports", "transports/fault", "transports/mem", "transports/topo", "transports/topo/rdmaport", "transports/topo/nvml", "transports/internal/..."}

// rooms are the arrows of the plan. A package that has no room here fails the test: where it belongs is decided on purpose.
var rooms = []room{
	{"results/unit", nil, "units know nothing but numbers"},
	{"results/stat", []string{"results/unit"}, "statistics know samples, not records"},
	{"results", []string{"results/unit", "results/stat"}, "records are read on a laptop, without anything that measures"},
	{"results/matrix", []string{"results", "results/unit"}, "the answer of a mesh is arithmetic on its cells"},
	{"results/page", []string{"results/unit"}, "the layout of a page knows nothing of what stands on it"},
	{"results/table", []string{"results", "results/unit", "results/stat", "results/matrix", "results/page"}, "tables are drawn from records, and from the matrices that they make"},
	{"results/compare", []string{"results", "results/unit", "results/stat", "results/matrix", "results/page"}, "what changed between two meshes is told as what is slow in one"},
	{"results/*", []string{"results", "results/unit", "results/stat"}, "what is made of records stands beside the others, not on them"},
	{"plots/...", []string{"results/...", "bench/kvcache", "bench/ttft/...", "plots/..."}, "a figure is drawn from records and projections; topology comes as a neutral graph"},

	{"transports/fault", nil, "the table of codes is shared by everything and so stands on nothing"},
	{"transports/topo", []string{"transports/fault"}, "facts of a host are read, not judged"},
	{"transports/topo/*", []string{"transports/topo", "transports/topo/rdmaport", "transports/fault"}, "what is read of a host in one more way, or concluded from it for several transports"},
	{"transports/mem", []string{"transports/fault", "transports/topo", "transports/internal/..."}, "buffers come before what moves them"},
	{"transports/internal/ibverbs", []string{"transports/fault"}, "the binding knows a library and nothing of ours but the codes"},
	{"transports/internal/cuda", []string{"transports/fault"}, "the binding knows a library and nothing of ours but the codes"},
	{"transports/internal/cuda/cudatest", []string{"transports/internal/cuda"}, "the fake library is built for the binding's tests and for those above"},
	{"transports/internal/*", []string{"transports/fault", "transports/topo", "transports/mem", "transports/internal/cuda"}, "what several transports share stands below the contract: staging, threads, checks of a host"},
	{"transports", []string{"transports/fault", "transports/mem", "transports/topo"}, "the contract knows no transport"},
	{"transports/transporttest/need", nil, "what a test needs of its host is asked from every package's tests"},
	{"transports/transporttest", []string{"transports", "transports/fault", "transports/mem"}, "the suite tests what the contract says, and so knows nothing else"},
	{"transports/all", []string{"transports", "transports/*", "transports/topo/nvml"}, "the one list of transports"},
	{"transports/*", contract, "a transport reports completions, not statistics, and knows no other transport"},
	{"transports/*/*", nil, "a transport has no rooms of its own"},

	{"harness/hostinfo", []string{"results", "transports/topo"}, "the fingerprint of a host is a record made of facts"},
	{"harness", []string{"results/...", "transports", "transports/fault", "transports/mem", "transports/topo", "harness/hostinfo"}, "the harness measures whatever keeps the contract"},
	{"harness/control/controlpb", nil, "generated"},
	{"harness/mesh/rank", nil, "which rank a process is stands in its environment: it is read before anything else is known"},
	{"harness/*", []string{"harness", "harness/*", "harness/mesh/*", "harness/control/controlpb", "harness/doctor/logs", "harness/mesh/rank", "results/...", "transports", "transports/fault", "transports/mem", "transports/topo", "transports/topo/*"}, "two sides, the doctor and the mesh are built on the harness and the contract"},
	{"harness/mesh/schedule", []string{"results/unit"}, "who measures whom and when is arithmetic on numbers of hosts"},
	{"harness/*/*", []string{"harness", "results/...", "transports", "transports/fault", "transports/mem", "transports/topo"}, "a room of one of the harness's rooms"},

	{"bench/kvcache/...", []string{"results/unit", "bench/kvcache/..."}, "the geometry of a cache is arithmetic on a config.json"},
	{"bench/report/...", []string{"results/...", "plots", "bench/kvcache", "bench/ttft/...", "bench/report/..."}, "a report is made of records, tables, figures and projections, on a laptop"},
	{"bench/ttft/...", []string{"results", "results/unit", "results/stat", "results/page", "bench/kvcache", "bench/ttft/..."}, "a projection is made of records and geometry, on a laptop"},
	{"bench/internal/nettest", nil, "namespaces and peers for the tests of the command"},
	{"bench/internal/house", nil, "tests of the repository"},
	{"bench/internal/cli", []string{"bench/...", "results/...", "plots/...", "harness/...", "transports", "transports/fault", "transports/mem", "transports/topo", "transports/topo/*"}, "the command knows everything but the list of transports, which is injected so that tests can give it their own"},
	{"bench", []string{"bench/internal/cli", "transports/all"}, "main is three lines"},
	{"scripts/...", []string{"results/..."}, "scripts drive the command from outside and read what it wrote"},
}

// matches says whether a path fits a pattern.
func matches(pattern, p string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return p == below || strings.HasPrefix(p, below+"/")
	}
	ok, err := path.Match(pattern, p)
	return ok && err == nil
}

func anyMatch(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(q string) bool { return matches(q, p) })
}

// directly holds every import to its room.
func directly(w tree) (wrong []string) {
	for _, p := range w.sorted() {
		at := slices.IndexFunc(rooms, func(r room) bool { return matches(r.packages, p.path) })
		if at < 0 {
			wrong = append(wrong, fmt.Sprintf("%s has no room: give it one in rules_test.go, with what it may import and why", p.path))
			continue
		}
		for _, i := range p.imports {
			if to, own := inside(i.to); own && !anyMatch(rooms[at].may, to) {
				wrong = append(wrong, fmt.Sprintf("%s: %s imports %s: %s", i.at, p.path, to, rooms[at].why))
			}
		}
	}
	return wrong
}

// never is a chain of imports that may not exist, of whatever length.
type never struct {
	from func(string) bool
	to   func(string) bool
	why  string
}

// concrete says whether a package is a transport, or is built on nothing but being one: every folder of transports that is not
// part of the contract or of its tests.
func concrete(p string) bool {
	name, ok := strings.CutPrefix(p, "transports/")
	name, _, _ = strings.Cut(name, "/")
	return ok && !slices.Contains([]string{"all", "fault", "internal", "mem", "topo", "transporttest"}, name)
}

func below(roots ...string) func(string) bool {
	return func(p string) bool {
		return slices.ContainsFunc(roots, func(r string) bool { return p == r || strings.HasPrefix(p, r+"/") })
	}
}

var nevers = []never{
	{below("harness"), concrete, "the harness must not know a transport's name: whatever keeps the contract is measured alike"},
	{below("transports"), below("harness", "results", "plots", "bench"), "a transport reports completions, not statistics"},
	{below("results", "plots", "bench/kvcache", "bench/ttft"), below("transports", "harness"), "analysis runs on a laptop, from files"},
	{func(p string) bool { return p != "bench" }, below("transports/all"), "only the command and tests know the whole list of transports: everything else is given its drivers"},
	{below("bench/kvcache"), func(p string) bool { return p != "results/unit" && !below("bench/kvcache")(p) }, "the geometry of a cache is arithmetic on a config.json"},
	{func(p string) bool { return p == "bench" }, below("transports/transporttest", "transports/internal/cuda/cudatest", "bench/internal/nettest", "bench/internal/house"), "the program is built without its tests"},
}

// everNever finds the shortest chain for each forbidden pair of ends.
func everNever(w tree) (wrong []string) {
	for _, p := range w.sorted() {
		for _, n := range nevers {
			if !n.from(p.path) {
				continue
			}
			if c := w.chain(p.path, n.to); c != nil {
				wrong = append(wrong, strings.Join(c, " -> ")+": "+n.why)
			}
		}
	}
	return wrong
}

// foreign are import paths of others that only some of the house may use.
var foreign = []struct {
	paths []string
	may   func(string) bool
	why   string
}{
	{[]string{"C"}, func(p string) bool { return p == "transports/internal/ibverbs" || p == "transports/internal/cuda" },
		"the two bindings are the only packages that know a foreign library"},
	{[]string{"flag", "github.com/spf13/pflag", "github.com/spf13/cobra"}, below("bench", "scripts"), "flags are the command's: a package is told what to do by its arguments"},
	{[]string{"log", "log/slog"}, below("bench", "scripts"), "a package returns what it found; the command prints"},
	{[]string{"testing"}, below("transports/transporttest", "transports/internal/cuda/cudatest", "bench/internal/nettest"), "production code is not built with the test framework"},
}

// words finds foreign imports, printing, exits and init functions where they may not be.
func words(w tree) (wrong []string) {
	for _, p := range w.sorted() {
		for _, i := range p.imports {
			for _, f := range foreign {
				if slices.Contains(f.paths, i.to) && !f.may(p.path) {
					wrong = append(wrong, fmt.Sprintf("%s: %s imports %q: %s", i.at, p.path, i.to, f.why))
				}
			}
		}
		for _, f := range p.files {
			if !ast.IsGenerated(f) {
				wrong = append(wrong, spoken(w, p, f)...)
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// mayPrint are the command, the scripts, and what builds the fake library for the tests, whose TestMain has nobody to tell but a terminal.
var mayPrint = below("bench", "scripts", "transports/internal/cuda/cudatest")

// spoken finds what a file outside the command may not say.
func spoken(w tree, p *pack, f *ast.File) (wrong []string) {
	complain := func(n ast.Node, what, why string) {
		wrong = append(wrong, fmt.Sprintf("%s: %s %s: %s", w.fset.Position(n.Pos()), p.path, what, why))
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if d, ok := n.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
			complain(n, "has an init function", "an explicit list beats registration: the order is stable and one search shows it")
		}
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := s.X.(*ast.Ident)
		if !ok || mayPrint(p.path) {
			return true
		}
		switch name := x.Name + "." + s.Sel.Name; name {
		case "os.Exit":
			complain(n, "calls os.Exit", "only main ends the program; a package returns an error")
		case "os.Stdout", "os.Stderr", "os.Stdin", "fmt.Print", "fmt.Println", "fmt.Printf":
			complain(n, "uses "+name, "only the command prints; a package is given a writer")
		}
		return true
	})
	return wrong
}

// silent finds packages without a comment that says what they are for, in the form that go doc expects.
func silent(w tree) (wrong []string) {
	for _, p := range w.sorted() {
		doc := strings.TrimSpace(p.doc)
		switch {
		case doc == "":
			wrong = append(wrong, fmt.Sprintf("%s has no package comment: say in one sentence what it is for", p.path))
		case p.name != "main" && !strings.HasPrefix(doc, "Package "+p.name+" "):
			wrong = append(wrong, fmt.Sprintf("%s: its comment does not begin with \"Package %s \"", p.path, p.name))
		}
	}
	return wrong
}
