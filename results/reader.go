package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// FileError is a fault of a file at a line, printed as file:line: fault.
type FileError struct {
	File string
	Line int // from 1
	Err  error
}

func (e *FileError) Error() string { return fmt.Sprintf("%s:%d: %v", e.File, e.Line, e.Err) }

// Unwrap returns the fault.
func (e *FileError) Unwrap() error { return e.Err }

var (
	errEmpty   = errors.New("empty, not a hopbench result file")
	errForeign = errors.New("not a hopbench result file (hopbench import reads the results of other tools)")
)

// Reader reads the records of one file, a line at a time, in bounded memory.
type Reader struct {
	name     string
	b        *bufio.Reader
	line     int
	cut      bool // the last line is cut short
	any      bool // a header was read
	inRun    bool // behind a header, before its footer
	cells    int64
	warnings []string
	buf      []byte
	err      error

	keep *Keep  // of cells; nil: all
	part []byte // memory for keep
}

// NewReader reads from r. name stands in errors and warnings.
func NewReader(r io.Reader, name string) *Reader {
	return &Reader{name: name, b: bufio.NewReaderSize(r, 1<<16)}
}

// Line is the number of the line that the last record stood in, from 1.
func (r *Reader) Line() int { return r.line }

// Warnings are what was found so far that does not stop the reading: a last line that is cut short, a run without
// footer, a footer that counts other cells.
func (r *Reader) Warnings() []string { return r.warnings }

// Next returns the next record: a *Header, *Cell, *Interval or *Footer, or for a kind that this version does not
// know its json.RawMessage. At the end it returns io.EOF. Any other error is a *FileError, or the error of the
// underlying reader, and stays. A file may hold several runs, each with its header.
func (r *Reader) Next() (any, error) {
	if r.err != nil {
		return nil, r.err
	}
	record, err := r.next()
	r.err = err
	return record, err
}

func (r *Reader) next() (any, error) {
	for {
		line, whole, err := r.readLine()
		if err == io.EOF && !r.any {
			return nil, &FileError{r.name, 1, errEmpty}
		}
		if err == io.EOF {
			r.endRun()
		}
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			continue
		}
		record, err := r.record(line)
		if err == nil {
			return record, nil
		}
		if !whole && r.inRun && !json.Valid(line) {
			r.cut = true
			r.warn("%s:%d: the last line is cut short and left out", r.name, r.line)
			continue
		}
		return nil, &FileError{r.name, r.line, err}
	}
}

// readLine returns the next line without its end; whole says that it had one. The end of the file is io.EOF.
func (r *Reader) readLine() (line []byte, whole bool, err error) {
	r.buf = r.buf[:0]
	for {
		part, err := r.b.ReadSlice('\n')
		r.buf = append(r.buf, part...)
		switch {
		case len(r.buf) > maxLine+1:
			return nil, false, &FileError{r.name, r.line + 1, fmt.Errorf("a line of more than %d bytes", maxLine)}
		case err == nil:
			r.line++
			return bytes.TrimSpace(r.buf), true, nil
		case err == io.EOF:
			if len(r.buf) == 0 {
				return nil, false, io.EOF
			}
			r.line++
			return bytes.TrimSpace(r.buf), false, nil
		case err != bufio.ErrBufferFull:
			return nil, false, fmt.Errorf("%s: %w", r.name, err)
		}
	}
}

func (r *Reader) record(line []byte) (any, error) {
	if !r.inRun {
		// Between runs only a header is right. What else it may be is for the message alone.
		if !json.Valid(line) {
			return nil, r.notHeader(errForeign)
		}
		if kindOf(line) != "header" {
			return nil, r.notHeader(errForeign)
		}
	} else if line[0] != '{' {
		return nil, errors.New("not a JSON object")
	}
	// The records' own UnmarshalJSON would have the line checked once more.
	kind := kindOf(line)
	switch kind {
	case "header":
		var p plainHeader
		if err := decode(line, &p, &p.Extra); err != nil {
			return nil, err
		}
		h := Header(p)
		if err := h.check(); err != nil {
			return nil, err
		}
		r.endRun()
		r.any, r.inRun, r.cells = true, true, 0
		return &h, nil
	case "cell":
		var p plainCell
		var err error
		if r.keep != nil {
			r.part, err = r.keep.decode(line, &p, r.part)
		} else {
			err = decode(line, &p, &p.Extra)
		}
		if err != nil {
			return nil, err
		}
		c := (*Cell)(&p)
		r.cells++
		return c, c.check()
	case "interval":
		var p plainInterval
		if err := decode(line, &p, &p.Extra); err != nil {
			return nil, err
		}
		v := Interval(p)
		return &v, nil
	case "footer":
		var p plainFooter
		if err := decode(line, &p, &p.Extra); err != nil {
			return nil, err
		}
		f := Footer(p)
		if f.Cells != r.cells {
			r.warn("%s:%d: the footer counts %d cells, the file has %d", r.name, r.line, f.Cells, r.cells)
		}
		r.inRun = false
		return &f, nil
	}
	if !json.Valid(line) {
		return nil, errors.New("not valid JSON")
	}
	if kind == "" {
		return nil, errors.New(`a line without "record"`)
	}
	return json.RawMessage(bytes.Clone(line)), nil
}

func (r *Reader) notHeader(err error) error {
	if r.line > 1 {
		return errors.New("a line that is no header, behind a footer")
	}
	return err
}

// endRun notes a run that ended without a footer.
func (r *Reader) endRun() {
	if r.inRun {
		r.inRun = false
		r.warn("%s: a run without footer: it is still going on, or was ended from outside", r.name)
	}
}

func (r *Reader) warn(format string, args ...any) {
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}
