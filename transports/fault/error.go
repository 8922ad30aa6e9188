package fault

import (
	"fmt"
	"io"
	"strings"
)

// Error is one failure, told so that its reader can act. Only Code is required.
type Error struct {
	Code   Code   // row of the table
	Op     string // what was attempted: "connect the data socket"
	Device string // on what: "mlx5_0 port 1", "192.0.2.7:18515", "cuda:1"
	Native string // what the library or kernel answered: "ECONNREFUSED (111)", "status 12 (retry exceeded)"
	Err    error  // the cause, if it is an error itself
	Hint   string // what the evidence on this host suggests; empty without evidence
	Detail string // more than one line is worth: shown by %+v
}

// New returns an error with a formatted cause.
func New(code Code, op, device, format string, args ...any) *Error {
	return &Error{Code: code, Op: op, Device: device, Err: fmt.Errorf(format, args...)}
}

// Because is a cause that says text and unwraps to err, whose own words are a program's and not a reader's.
func Because(text string, err error) error { return because{text, err} }

type because struct {
	text string
	err  error
}

func (b because) Error() string { return b.text }
func (b because) Unwrap() error { return b.err }

// told puts the two causes of package context that end up in many chains in a reader's words.
var told = strings.NewReplacer("context deadline exceeded", "the time for it is over", "context canceled", "it was called off")

// Class is the class of the error's code; Internal for a code that the table does not hold.
func (e *Error) Class() Class {
	if row, ok := Lookup(e.Code); ok {
		return row.Class
	}
	return Internal
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Error is the failure on one line: operation, device, cause, native answer, hint, code.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Device != "" {
		if b.Len() > 0 {
			b.WriteString(" on ")
		}
		b.WriteString(e.Device)
	}
	cause := ""
	if e.Err != nil {
		cause = told.Replace(e.Err.Error())
	} else if row, ok := Lookup(e.Code); ok && e.Native == "" {
		cause = row.Title
	}
	if cause != "" {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(cause)
	}
	if e.Native != "" && !strings.Contains(cause, e.Native) {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(e.Native)
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	if e.Code != "" {
		b.WriteString(" [" + string(e.Code) + "]")
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// Format prints the one line for %v and %s, and with %+v also the detail and what the table knows of the code.
func (e *Error) Format(s fmt.State, verb rune) {
	io.WriteString(s, e.Error())
	if verb != 'v' || !s.Flag('+') {
		return
	}
	if e.Detail != "" {
		io.WriteString(s, "\n"+strings.TrimRight(e.Detail, "\n"))
	}
	if row, ok := Lookup(e.Code); ok {
		io.WriteString(s, "\n"+row.Explain())
	}
}
