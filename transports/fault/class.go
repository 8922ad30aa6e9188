package fault

import "errors"

// Class says what kind of outcome an error is, and thereby how it is shown.
type Class string

const (
	// NotSupported is a conclusive no: the hardware, the kernel or the peer cannot do it. Shown as waived.
	NotSupported Class = "not supported"
	// NotReady is a no that an operator can turn into a yes: a module, a link, a limit, a permission. Shown as
	// waived, with the code and the fix.
	NotReady Class = "not ready"
	// Peer means that the other side refused, vanished or did not answer in time. Failed on both sides.
	Peer Class = "peer"
	// Corrupt means that the payload, or a witness that counts it, disagrees with what was sent. The number is withheld.
	Corrupt Class = "corrupt"
	// Usage means that a flag, a plan or a file is wrong.
	Usage Class = "usage"
	// Internal is everything else: an error that nobody gave a class. It counts as a failed measurement.
	Internal Class = "internal"
)

// Exit is the exit status of a command whose only outcome is of class c. Asked says whether the transport was asked
// for by name: a transport that merely could not be used is no failure when nobody insisted on it.
func (c Class) Exit(asked bool) int {
	switch c {
	case NotSupported, NotReady:
		if asked {
			return 3
		}
		return 0
	case Usage:
		return 2
	default:
		return 1
	}
}

// Waives reports whether an outcome of class c leaves the row unmeasured with a reason rather than failed.
func (c Class) Waives() bool { return c == NotSupported || c == NotReady }

// ClassOf returns the class of the first [Error] in err's chain, Internal for an error without one, and the empty class for nil.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Class()
	}
	return Internal
}

// CodeOf returns the code of the first [Error] in err's chain, or the empty code.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
