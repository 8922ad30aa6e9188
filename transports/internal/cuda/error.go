package cuda

// #include "shim.h"
import "C"

import "fmt"

// Codes that callers tell apart.
const (
	codeOutOfMemory       = 2
	codePeerUnsupported   = 217
	codeNotReady          = 600
	codePeerAlready       = 704
	codeNotSupported      = 801
	codeAbsent            = -1 // not CUDA's: the loaded library has no such function
	codeAlreadyRegistered = 712
)

// Error is the refusal of one call of the driver.
type Error struct {
	Op   string // the function: "cuMemAlloc_v2"
	Code int    // CUresult
	Name string // "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // the driver's own sentence
}

// Error names the call, the code and the driver's sentence.
func (e *Error) Error() string {
	if e.Code == codeAbsent {
		return e.Op + ": the installed driver has no such function"
	}
	if e.Text == "" {
		return fmt.Sprintf("%s: %s", e.Op, e.Native())
	}
	return fmt.Sprintf("%s: %s: %s", e.Op, e.Native(), e.Text)
}

// Native is the code as it is looked up: "CUDA_ERROR_OUT_OF_MEMORY (2)".
func (e *Error) Native() string {
	return fmt.Sprintf("%s (%d)", e.Name, e.Code)
}

// check turns a result into an error with the driver's own words.
func (l *Library) check(op string, r C.hb_result) error {
	if r == 0 {
		return nil
	}
	e := &Error{Op: op, Code: int(r), Name: "CUDA_ERROR"}
	if r == codeAbsent {
		return e
	}
	var words *C.char
	if C.hb_cuGetErrorName(l.table, r, &words) == 0 && words != nil {
		e.Name = C.GoString(words)
	}
	words = nil
	if C.hb_cuGetErrorString(l.table, r, &words) == 0 && words != nil {
		e.Text = C.GoString(words)
	}
	return e
}
