package cuda

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// State is why no GPU can be used through the driver API. The states look alike from outside ("no CUDA") and are mended
// in different places.
type State int

const (
	NoLibrary      State = iota // the loader finds no libcuda.so.1
	TooOld                      // functions that this program needs are missing
	NoDevice                    // CUDA_ERROR_NO_DEVICE (100)
	FabricNotReady              // CUDA_ERROR_SYSTEM_NOT_READY (802)
	DriverMismatch              // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)
	StubLibrary                 // CUDA_ERROR_STUB_LIBRARY (34)
	InitFailed                  // any other answer of cuInit
)

func stateOf(err error) State {
	var e *Error
	if !errors.As(err, &e) {
		return InitFailed
	}
	switch e.Code {
	case 34:
		return StubLibrary
	case 100:
		return NoDevice
	case 802:
		return FabricNotReady
	case 803:
		return DriverMismatch
	}
	return InitFailed
}

// Unavailable is the error of [Open].
type Unavailable struct {
	State      State
	Library    string // the file that was loaded, or the name that was asked for
	API        int    // cuDriverGetVersion; 0 where it is not known
	Kernel     string // version of the kernel's module; empty where there is none
	OnBus      int    // NVIDIA display functions and 3D controllers on the PCI bus
	Visible    string // CUDA_VISIBLE_DEVICES
	VisibleSet bool
	Detail     string // the loader's words, or the missing functions
	Err        error  // the answer of cuInit
}

// Unwrap returns the answer of cuInit, if it came to that.
func (u *Unavailable) Unwrap() error { return u.Err }

// Error is one sentence that names the state, what was read, and nothing that was not.
func (u *Unavailable) Error() string {
	switch u.State {
	case NoLibrary:
		if u.Kernel != "" {
			return fmt.Sprintf("the kernel runs NVIDIA driver %s but its user library cannot be loaded (%s): a container runtime did not mount it", u.Kernel, u.Detail)
		}
		return fmt.Sprintf("there is no NVIDIA driver here, and %s: %s", u.bus(), u.Detail)
	case TooOld:
		return fmt.Sprintf("%s (CUDA %s) is too old: it lacks %s", u.Library, apiVersion(u.API), u.Detail)
	case NoDevice:
		return u.noDevice()
	case FabricNotReady:
		return fmt.Sprintf("GPUs are present but their NVSwitch fabric is not initialised: nvidia-fabricmanager is missing, failed or still starting (%v)", u.Err)
	case DriverMismatch:
		return fmt.Sprintf("the user library and the kernel module are of different driver releases: %s beside kernel driver %s (%v)",
			userDriver(u.Library), orUnknown(u.Kernel), u.Err)
	case StubLibrary:
		return fmt.Sprintf("%s is the CUDA toolkit's stub for linking, not a driver (%v)", u.Library, u.Err)
	}
	return fmt.Sprintf("%s (CUDA %s) does not initialise: %v", u.Library, apiVersion(u.API), u.Err)
}

func (u *Unavailable) noDevice() string {
	s := fmt.Sprintf("the driver library is here (CUDA %s) and sees no GPU", apiVersion(u.API))
	switch {
	case u.VisibleSet && strings.TrimSpace(u.Visible) == "":
		s += ": CUDA_VISIBLE_DEVICES is set and empty"
	case u.VisibleSet:
		s += fmt.Sprintf(": CUDA_VISIBLE_DEVICES=%s may name none of them", u.Visible)
	case u.Kernel == "":
		s += ": the kernel module nvidia is not loaded, and " + u.bus()
	default:
		s += fmt.Sprintf(": the kernel runs driver %s, so no device node was given to this container or user", u.Kernel)
	}
	return fmt.Sprintf("%s (%v)", s, u.Err)
}

func (u *Unavailable) bus() string {
	switch u.OnBus {
	case 0:
		return "no NVIDIA GPU is on the PCI bus"
	case 1:
		return "one NVIDIA GPU is on the PCI bus"
	}
	return fmt.Sprintf("%d NVIDIA GPUs are on the PCI bus", u.OnBus)
}

// userDriver reads the driver's release from the file that libcuda.so.1 links to (libcuda.so.550.163.01).
func userDriver(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if _, release, ok := strings.Cut(filepath.Base(path), ".so."); ok && strings.Contains(release, ".") {
		return "library " + release
	}
	return "library " + path
}

func orUnknown(s string) string {
	if s == "" {
		return "of unknown version"
	}
	return s
}
