package cli

import (
	"io"
	"unicode/utf8"

	"hopbench/results/unit"
)

// plainWriter is standard output and standard error of every subcommand: whatever text of a file, a peer or a driver reaches them, a
// terminal shows it and obeys none of it. What they render in columns they clean before they measure it; this is the last gate.
type plainWriter struct {
	w    io.Writer
	rest []byte // of a character that was written in part
	err  error  // the first failure of w, which not every renderer hands on
}

func (p *plainWriter) Write(b []byte) (int, error) {
	n := len(b)
	if len(p.rest) > 0 {
		b = append(p.rest, b...)
		p.rest = nil
	}
	end := len(b)
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		if c := b[len(b)-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-back:]) {
				end = len(b) - back
			}
			break
		}
	}
	p.rest = append(p.rest, b[end:]...)
	if _, err := io.WriteString(p.w, unit.Lines(string(b[:end]))); err != nil {
		if p.err == nil {
			p.err = err
		}
		return 0, err
	}
	return n, nil
}

// raw is what stands behind a plainWriter: for the progress line, which moves the cursor.
func raw(w io.Writer) io.Writer {
	if p, ok := w.(*plainWriter); ok {
		return p.w
	}
	return w
}
