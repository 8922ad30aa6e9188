package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"sync"
	"time"
)

// maxLine bounds a record, in bytes: what is longer is neither written nor read.
const maxLine = 16 << 20

// Mode says what becomes of a path that exists.
type Mode int

const (
	Refuse    Mode = iota // an existing path is an error that wraps fs.ErrExist
	Overwrite             // its content is replaced
	Append                // another run is added to the result file that it must be
)

// Writer writes one run. Each record is handed to the kernel before the call returns, in one piece, so what
// stands in the file is valid at every moment and outlives the process. It is safe for use by
// several goroutines.
type Writer struct {
	mu    sync.Mutex
	name  string
	w     io.Writer
	file  *os.File // nil where the caller gave w
	good  int64    // offset in file behind the last whole record
	cells int64
	began time.Time
	err   error // the first failure of w; nothing is written after it
	done  bool
}

// Create opens the result file of a run and writes its header. An empty h.Schema becomes Schema. No file is left behind
// when the header is not valid. The file stays locked until Close: ErrBusy is the error while another Writer, of any process, has it.
// A path that is not a regular file is refused.
func Create(path string, mode Mode, h *Header) (*Writer, error) {
	line, err := headerLine(h)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	flags := os.O_RDWR | os.O_CREATE
	if mode == Refuse {
		flags |= os.O_EXCL
	}
	if info, err := os.Stat(path); err == nil && mode != Refuse && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, notRegular(info)) // before it is opened: that may wait for another process
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s: %w: it is not overwritten unless asked for", path, fs.ErrExist)
	}
	if err != nil {
		return nil, err
	}
	// The lock is this file's and ends with Close, so two runs never write one file. What stands in it is replaced
	// only by its holder.
	if err := lock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if mode == Overwrite {
		if err := f.Truncate(0); err != nil {
			f.Close()
			return nil, err
		}
	}
	w := &Writer{name: path, w: f, file: f, began: time.Now()}
	if mode == Append {
		if err := w.seekEnd(); err != nil {
			f.Close()
			return nil, err
		}
	}
	if err := w.write(line); err != nil {
		f.Close()
		if mode == Refuse {
			os.Remove(path)
		}
		return nil, err
	}
	return w, nil
}

// NewWriter writes a run to w, with its header, and leaves closing w to the caller. name stands in errors.
func NewWriter(w io.Writer, name string, h *Header) (*Writer, error) {
	line, err := headerLine(h)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out := &Writer{name: name, w: w, began: time.Now()}
	return out, out.write(line)
}

func headerLine(h *Header) ([]byte, error) {
	c := *h
	if c.Schema == "" {
		c.Schema = Schema
	}
	if c.Started.IsZero() {
		c.Started = time.Now()
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return encodeLine(c)
}

// seekEnd reads the file that is to be appended to, which must be a result file, and stands behind its last
// record. An empty file is as good as none.
func (w *Writer) seekEnd() error {
	r := NewReader(w.file, w.name)
	for {
		if _, err := r.Next(); err == io.EOF {
			break
		} else if errors.Is(err, errEmpty) {
			return nil
		} else if err != nil {
			return fmt.Errorf("cannot append: %w", err)
		}
	}
	if r.cut {
		return fmt.Errorf("%s:%d: cannot append: the last line is cut short: write to another file, or take that line away first", w.name, r.line)
	}
	end, err := w.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	last := []byte{0}
	if _, err := w.file.ReadAt(last, end-1); err != nil {
		return err
	}
	w.good = end
	if last[0] != '\n' {
		return w.write([]byte{'\n'})
	}
	return nil
}

// Name is the path, or the name that NewWriter was given.
func (w *Writer) Name() string { return w.name }

// Cell appends a cell. A cell that may not stand in a file is refused (NaN, with its key named; a figure beside a failure; a failure
// without reason), nothing is written of it, and the next is welcome. After a failed write every call gives that error.
func (w *Writer) Cell(c *Cell) error {
	if err := c.checkNew(); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.append(*c); err != nil {
		return err
	}
	w.cells++
	return nil
}

// Interval appends an interval line, by the rules of Cell.
func (w *Writer) Interval(v *Interval) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.append(*v)
}

// Close writes the footer, with the state (complete, interrupted or failed) and the reason for one that is not
// complete, and closes the file. Where a record could not be written before, the state becomes failed, and that first error is
// returned. A second Close does nothing.
func (w *Writer) Close(state, reason string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return nil
	}
	first := w.err
	if first != nil {
		// There may be room again, or room for so little.
		w.err, state, reason = nil, StateFailed, first.Error()
	}
	now, elapsed := time.Now(), time.Since(w.began).Seconds()
	err := w.append(Footer{State: state, Cells: w.cells, Reason: reason, Ended: &now, ElapsedSeconds: &elapsed})
	w.done = true
	if w.file != nil {
		err = errors.Join(err, sync1(w.file), w.file.Close())
	}
	if first != nil {
		return first
	}
	return err
}

// sync1 asks for the file on stable storage, where the file is of a kind that has one.
func sync1(f *os.File) error {
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return f.Sync()
}

func (w *Writer) append(record any) error {
	switch {
	case w.done:
		return fmt.Errorf("%s: written to after its footer", w.name)
	case w.err != nil:
		return w.err
	}
	line, err := encodeLine(record)
	if err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	return w.write(line)
}

// encodeLine is the record as one line.
func encodeLine(record any) ([]byte, error) {
	line, err := json.Marshal(record)
	if err != nil {
		if bad := notFinite(reflect.ValueOf(record), ""); bad != "" {
			return nil, fmt.Errorf("%s is not a finite number: leave it out and say why", bad)
		}
		return nil, err
	}
	if len(line) > maxLine {
		return nil, fmt.Errorf("a record of %d bytes, more than %d", len(line), maxLine)
	}
	return append(line, '\n'), nil
}

// write hands the line over whole. Where only a part went, that part is taken back, so that the file stays valid.
func (w *Writer) write(line []byte) error {
	n, err := w.w.Write(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if err == nil {
		w.good += int64(n)
		return nil
	}
	if w.file != nil && n > 0 {
		if terr := w.file.Truncate(w.good); terr == nil {
			w.file.Seek(w.good, io.SeekStart)
		}
	}
	w.err = fmt.Errorf("%s: the record was not written: %w", w.name, err)
	return w.err
}
