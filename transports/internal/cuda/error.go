package cuda

// #include "shim.h"
import "C"

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
