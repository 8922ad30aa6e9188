package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the name that import paths of this repository start with.
const module = "hopbench"

// pack is one package as its source files say, whatever they are built with: no build constraint hides a file from here.
type pack struct {
	path    string // below the module: "transports/tcp"
	name    string // of the package clause
	imports []edge
	doc     string
	files   map[string]*ast.File // production files by path
}

// edge is one import, and where it stands.
type edge struct{ to, at string }

// tree is the production source of a repository.
type tree struct {
	packages map[string]*pack
	fset     *token.FileSet
}

// read parses every production file below the root. Test files, testdata and hidden folders are left out.
func read(t *testing.T, root fs.FS) tree {
	t.Helper()
	w := tree{packages: map[string]*pack{}, fset: token.NewFileSet()}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			if name != "." && (base == "testdata" || base == "out" || base == "dist" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, "_test.go") {
			return nil
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(w.fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		w.add(name, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w tree) add(name string, f *ast.File) {
	dir := path.Dir(name)
	p := w.packages[dir]
	if p == nil {
		p = &pack{path: dir, name: f.Name.Name, files: map[string]*ast.File{}}
		w.packages[dir] = p
	}
	p.files[name] = f
	p.doc += f.Doc.Text()
	for _, i := range f.Imports {
		to, _ := strconv.Unquote(i.Path.Value)
		p.imports = append(p.imports, edge{to, w.fset.Position(i.Pos()).String()})
	}
}

// inside is the path below the module of an import, if it is one of the module's own.
func inside(to string) (string, bool) { return strings.CutPrefix(to, module+"/") }

// sorted are the packages in the order of their paths.
func (w tree) sorted() []*pack {
	var all []*pack
	for _, p := range w.packages {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pack) int { return strings.Compare(a.path, b.path) })
	return all
}

// chain is a shortest chain of imports from a package to one that forbidden says yes to, or nil. Each link says where it stands.
func (w tree) chain(from string, forbidden func(string) bool) []string {
	type step struct {
		at   string
		come []string
	}
	queue, seen := []step{{from, []string{from}}}, map[string]bool{from: true}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		p := w.packages[s.at]
		if p == nil {
			continue
		}
		for _, i := range p.imports {
			to, own := inside(i.to)
			if !own || seen[to] {
				continue
			}
			seen[to] = true
			come := append(slices.Clone(s.come), to+" ("+i.at+")")
			if forbidden(to) {
				return come
			}
			queue = append(queue, step{to, come})
		}
	}
	return nil
}

// repository is the root of this one: the folder of go.mod.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, e := os.Stat(filepath.Join(dir, "go.mod")); e == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	t.Fatal("there is no go.mod above this test")
	return ""
}
