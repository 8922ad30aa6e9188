package topo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"
)

// factsDir holds, in a captured tree, what no file of the host can tell: links, refused reads and the answers of open(2).
const factsDir = ".hopbench"

// maxFile bounds one attribute; what is longer is cut. The symbol table of the kernel is the longest thing read.
const maxFile = 64 << 20

// Tree is a host's file system: rooted, so that every reader works on a captured host as it does on the running one. Paths
// have no leading slash ("sys/class/net"). Every method follows links and never leaves the root.
type Tree struct {
	name string
	live bool
	raw  rawTree
	errs map[string]syscall.Errno // reads that the captured host refused
	open map[string]openFact
	fact map[string][]string // key to values, in order
}

type openFact struct {
	err  error
	mode *fs.FileMode
}

// rawTree is one store of files. Its methods see no links but through readlink.
type rawTree interface {
	readlink(p string) (string, error) // errNotLink when p is no link
	read(p string) ([]byte, error)
	list(p string) ([]string, error)
}

var errNotLink = errors.New("not a link")

// Open opens the host at root: "/" is the running one, a folder holds a copy, and a file is a text archive.
func Open(root string) (*Tree, error) {
	if root == "" || filepath.Clean(root) == "/" {
		return &Tree{name: "/", live: true, raw: dirTree("/")}, nil
	}
	st, err := os.Stat(root)
	if err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	if st.IsDir() {
		t := &Tree{name: root, raw: dirTree(root)}
		if err := t.loadFacts(); err != nil {
			return nil, fmt.Errorf("open host %s: %w", root, err)
		}
		return t, nil
	}
	b, err := os.ReadFile(root)
	if err != nil {
		return nil, fmt.Errorf("open host: %w", err)
	}
	t, err := ParseArchive(root, b)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ParseArchive opens a host from the bytes of a text archive. Name is what the host is called in evidence.
func ParseArchive(name string, b []byte) (*Tree, error) {
	a := txtar.Parse(b)
	if len(a.Files) == 0 {
		return nil, fmt.Errorf("open host %s: no file in the archive (a capture made by scripts/capture.sh, or a folder, is wanted)", name)
	}
	ar := &archive{files: map[string][]byte{}, dirs: map[string]map[string]bool{"": {}}, links: map[string]string{}}
	for _, f := range a.Files {
		p := clean(f.Name)
		if p == "" {
			continue
		}
		if p == factsDir+"/links" {
			for line := range strings.Lines(string(f.Data)) {
				from, to, ok := strings.Cut(strings.TrimSpace(line), " -> ")
				if from = clean(from); ok && from != "" && to != "" {
					ar.links[from] = to
					ar.addName(from)
				}
			}
			continue
		}
		ar.files[p] = f.Data
		ar.addName(p)
	}
	t := &Tree{name: name, raw: ar}
	if err := t.loadFacts(); err != nil {
		return nil, fmt.Errorf("open host %s: %w", name, err)
	}
	for p := range t.errs { // a refused file is listed all the same
		ar.addName(p)
	}
	for p, o := range t.open {
		if !errors.Is(o.err, syscall.ENOENT) {
			ar.addName(p)
		}
	}
	return t, nil
}

// loadFacts reads the captured answers: "errors" holds lines "PATH ERRNO", "facts" lines "KEY VALUE", where the key open has
// the value "PATH ok|ERRNO [MODE]".
func (t *Tree) loadFacts() error {
	t.errs, t.open, t.fact = map[string]syscall.Errno{}, map[string]openFact{}, map[string][]string{}
	if b, err := t.raw.read(factsDir + "/errors"); err == nil {
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) == 0 {
				continue
			}
			e := syscall.Errno(0)
			if len(f) == 2 {
				e = errnoByName(f[1])
			}
			if e == 0 {
				return fmt.Errorf("%s/errors: line %q is not \"PATH ERRNO\"", factsDir, strings.TrimSpace(line))
			}
			t.errs[clean(f[0])] = e
		}
	}
	b, err := t.raw.read(factsDir + "/facts")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, val, _ := strings.Cut(line, " ")
		if key != "open" {
			t.fact[key] = append(t.fact[key], val)
			continue
		}
		f := strings.Fields(val)
		if len(f) < 2 {
			return fmt.Errorf("%s/facts: line %q is not \"open PATH ok|ERRNO [MODE]\"", factsDir, line)
		}
		var o openFact
		if f[1] != "ok" {
			e := errnoByName(f[1])
			if e == 0 {
				return fmt.Errorf("%s/facts: %q names no errno", factsDir, line)
			}
			o.err = e
		}
		if len(f) > 2 {
			var m uint32
			if _, err := fmt.Sscanf(f[2], "%o", &m); err == nil {
				fm := fs.FileMode(m) & fs.ModePerm
				o.mode = &fm
			}
		}
		t.open[clean(f[0])] = o
	}
	return nil
}

// Name is the path of the tree as it was asked for; "/" for the running host.
func (t *Tree) Name() string { return t.name }

// Live reports whether the tree is the running host.
func (t *Tree) Live() bool { return t.live }

// Resolve follows every link in p and returns the real path inside the tree.
func (t *Tree) Resolve(p string) (string, error) {
	rest := strings.Split(clean(p), "/")
	cur := ""
	for hops := 0; len(rest) > 0; {
		c := rest[0]
		rest = rest[1:]
		switch c {
		case "", ".":
			continue
		case "..":
			if cur = path.Dir(cur); cur == "." {
				cur = ""
			}
			continue
		}
		next := path.Join(cur, c)
		to, err := t.raw.readlink(next)
		if errors.Is(err, errNotLink) {
			cur = next
			continue
		}
		if err != nil {
			return "", &fs.PathError{Op: "resolve", Path: p, Err: errnoOf(err)}
		}
		if hops++; hops > 40 {
			return "", &fs.PathError{Op: "resolve", Path: p, Err: syscall.ELOOP}
		}
		if strings.HasPrefix(to, "/") {
			cur = ""
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return cur, nil
}

// reach is the path by which a file is opened. On the running host the kernel follows links itself, which spares a call for each
// part of each path: a host of eight HCAs has some ten thousand attributes.
func (t *Tree) reach(p string) (string, error) {
	if t.live {
		return clean(p), nil
	}
	return t.Resolve(p)
}

// ReadFile returns the content of one attribute.
func (t *Tree) ReadFile(p string) ([]byte, error) {
	r, err := t.reach(p)
	if err != nil {
		return nil, err
	}
	for _, q := range []string{clean(p), r} {
		if e, ok := t.errs[q]; ok {
			return nil, &fs.PathError{Op: "read", Path: p, Err: e}
		}
	}
	b, err := t.raw.read(r)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: p, Err: errnoOf(err)}
	}
	return b, nil
}

// ReadDir returns the sorted names in a folder, without "." and "..".
func (t *Tree) ReadDir(p string) ([]string, error) {
	r, err := t.reach(p)
	if err != nil {
		return nil, err
	}
	for _, q := range []string{clean(p), r} {
		if e, ok := t.errs[q]; ok {
			return nil, &fs.PathError{Op: "list", Path: p, Err: e}
		}
	}
	l, err := t.raw.list(r)
	if err != nil {
		return nil, &fs.PathError{Op: "list", Path: p, Err: errnoOf(err)}
	}
	return l, nil
}

// Exists reports whether p is there; an error other than "not there" counts as there.
func (t *Tree) Exists(p string) bool {
	r, err := t.reach(p)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	if _, err = t.raw.list(r); err == nil {
		return true
	}
	if errors.Is(err, fs.ErrNotExist) {
		_, isErr := t.errs[r]
		return isErr
	}
	return true
}

// OpenNode opens a device node for reading and writing and closes it again: the only honest test of mode, owner and device
// cgroup together. The mode is nil where it is not known.
func (t *Tree) OpenNode(p string) (mode *fs.FileMode, err error) {
	if !t.live {
		if o, ok := t.open[clean(p)]; ok {
			return o.mode, o.err
		}
		if t.Exists(p) {
			return nil, errNotRecorded
		}
		return nil, syscall.ENOENT
	}
	name := "/" + clean(p)
	if st, err := os.Stat(name); err == nil {
		m := st.Mode().Perm()
		mode = &m
	}
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return mode, err
	}
	return mode, unix.Close(fd)
}

var errNotRecorded = errors.New("the capture did not try to open it")

// Fact returns the values that a capture recorded under key; nothing on a running host.
func (t *Tree) Fact(key string) []string { return t.fact[key] }

func clean(p string) string { return strings.TrimPrefix(path.Clean("/"+p), "/") }

// dirTree is a folder of the running host.
type dirTree string

func (d dirTree) full(p string) string { return filepath.Join(string(d), filepath.FromSlash(p)) }

func (d dirTree) readlink(p string) (string, error) {
	s, err := os.Readlink(d.full(p))
	if errors.Is(err, syscall.EINVAL) {
		return "", errNotLink
	}
	return s, err
}

func (d dirTree) read(p string) ([]byte, error) {
	// O_NONBLOCK: nothing that lies in a copied tree (a pipe, say) may hold the reader.
	f, err := os.OpenFile(d.full(p), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		if st.IsDir() {
			return nil, syscall.EISDIR
		}
		return nil, syscall.ENOTSUP
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

func (d dirTree) list(p string) ([]string, error) {
	es, err := os.ReadDir(d.full(p))
	names := make([]string, 0, len(es))
	for _, e := range es {
		names = append(names, e.Name())
	}
	if len(names) > 0 {
		err = nil // the kernel removed an entry while it was listed
	}
	return names, err
}

// archive is a host in memory.
type archive struct {
	files map[string][]byte
	dirs  map[string]map[string]bool
	links map[string]string
}

func (a *archive) addName(p string) {
	for p != "" {
		dir, base := path.Split(p)
		dir = strings.TrimSuffix(dir, "/")
		if a.dirs[dir] == nil {
			a.dirs[dir] = map[string]bool{}
		}
		a.dirs[dir][base] = true
		p = dir
	}
}

func (a *archive) readlink(p string) (string, error) {
	if to, ok := a.links[p]; ok {
		return to, nil
	}
	dir, base := path.Split(p)
	if !a.dirs[strings.TrimSuffix(dir, "/")][base] {
		return "", syscall.ENOENT
	}
	return "", errNotLink
}

func (a *archive) read(p string) ([]byte, error) {
	if b, ok := a.files[p]; ok {
		return b, nil
	}
	if _, ok := a.dirs[p]; ok {
		return nil, syscall.EISDIR
	}
	return nil, syscall.ENOENT
}

func (a *archive) list(p string) ([]string, error) {
	d, ok := a.dirs[p]
	if !ok {
		if _, ok := a.files[p]; ok {
			return nil, syscall.ENOTDIR
		}
		dir, base := path.Split(p)
		if a.dirs[strings.TrimSuffix(dir, "/")][base] {
			return nil, syscall.ENOTDIR // a device node
		}
		return nil, syscall.ENOENT
	}
	names := make([]string, 0, len(d))
	for n := range d {
		names = append(names, n)
	}
	sort.Strings(names)
	return names, nil
}

// errnoOf strips what the os package wraps around an errno, so that a path is not named twice.
func errnoOf(err error) error {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return err
}

// errnoByName is the errno that is called name; 0 for none.
func errnoByName(name string) syscall.Errno {
	for e := syscall.Errno(1); e < 134; e++ {
		if unix.ErrnoName(e) == name {
			return e
		}
	}
	return 0
}

// errText names an error the way a kernel person says it: "EINVAL", or the text where it is no errno.
func errText(err error) string {
	var e syscall.Errno
	if errors.As(err, &e) {
		if n := unix.ErrnoName(e); n != "" {
			return n
		}
	}
	return err.Error()
}
