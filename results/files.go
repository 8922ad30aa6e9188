package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Run is one run of a result file.
type Run struct {
	File      string
	Line      int // of its header
	Header    Header
	Cells     []Cell
	Intervals []Interval
	Footer    *Footer           // nil where the run has none
	Other     []json.RawMessage // records of a kind that this version does not know
	Warnings  []string          // of the reader
}

// Read reads every run of one file. A cell that does not say its provenance has that of its header. A file without a run is
// an error. name stands in errors.
func Read(r io.Reader, name string) ([]Run, error) { return read(r, name, nil) }

func read(r io.Reader, name string, keep *Keep) ([]Run, error) {
	var runs []Run
	reader := NewReader(r, name)
	reader.keep = keep
	told := 0
	for {
		record, err := reader.Next()
		if n := len(runs); n > 0 {
			w := reader.Warnings()[told:]
			runs[n-1].Warnings = append(runs[n-1].Warnings, w...)
			told += len(w)
		}
		if err == io.EOF {
			return runs, nil
		}
		if err != nil {
			return nil, err
		}
		switch v := record.(type) {
		case *Header:
			runs = append(runs, Run{File: name, Line: reader.Line(), Header: *v})
		case *Cell:
			last := &runs[len(runs)-1]
			if v.Provenance == "" && last.Header.Provenance != "" {
				v.Provenance = last.Header.Provenance
				if v.Source == "" {
					v.Source = last.Header.Source
				}
			}
			last.Cells = append(last.Cells, *v)
		case *Interval:
			last := &runs[len(runs)-1]
			last.Intervals = append(last.Intervals, *v)
		case *Footer:
			runs[len(runs)-1].Footer = v
		case json.RawMessage:
			last := &runs[len(runs)-1]
			last.Other = append(last.Other, v)
		}
	}
}

// ReadFile reads every run of the file at path.
func ReadFile(path string) ([]Run, error) { return readFile(path, nil) }

func readFile(path string, keep *Keep) ([]Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, path, keep)
}

// ReadFiles reads every run of the files, and of the *.jsonl files in the folders and below, in the order of the
// names. The same file named twice is read once. No file at all, or a folder without one, is an error.
func ReadFiles(paths ...string) ([]Run, error) {
	var runs []Run
	err := EachFile(paths, func(r []Run) error {
		runs = append(runs, r...)
		return nil
	})
	return runs, err
}

// EachFile calls f with the runs of one file after the other, for the paths of ReadFiles. Files are read ahead on all
// CPUs, a few at a time, so memory is bounded by the largest files and not by their number. The first error ends it.
func EachFile(paths []string, f func([]Run) error) error { return eachFile(nil, paths, f) }

func eachFile(keep *Keep, paths []string, f func([]Run) error) error {
	files, err := Find(paths...)
	if err != nil {
		return err
	}
	type answer struct {
		runs []Run
		err  error
	}
	ahead := runtime.GOMAXPROCS(0)
	queue := make(chan chan answer, ahead)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		defer close(queue)
		slots := make(chan struct{}, ahead)
		for _, name := range files {
			one := make(chan answer, 1)
			select {
			case slots <- struct{}{}:
			case <-stop:
				return
			}
			go func() {
				runs, err := readFile(name, keep)
				one <- answer{runs, err}
				<-slots
			}()
			select {
			case queue <- one:
			case <-stop:
				return
			}
		}
	}()
	for one := range queue {
		a := <-one
		if a.err != nil {
			return a.err
		}
		if err := f(a.runs); err != nil {
			return err
		}
	}
	return nil
}

// Find lists the result files that the paths mean: a file is itself, a folder the *.jsonl files in it and below,
// sorted. The same file named twice stands once.
func Find(paths ...string) ([]string, error) {
	if len(paths) == 0 {
		return nil, errors.New("no result file named")
	}
	var files []string
	seen := map[string]bool{}
	add := func(name string) {
		key := name
		if real, err := filepath.EvalSymlinks(name); err == nil {
			if abs, err := filepath.Abs(real); err == nil {
				key = abs
			}
		}
		if !seen[key] {
			seen[key] = true
			files = append(files, name)
		}
	}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			add(p)
			continue
		}
		n := 0
		err = filepath.WalkDir(p, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(name, ".jsonl") {
				n++
				add(name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, fmt.Errorf("%s: a folder without result files (*.jsonl)", p)
		}
	}
	return files, nil
}
