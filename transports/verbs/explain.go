package verbs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hopbench/transports/fault"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/mem"
	"hopbench/transports/topo"
)

// memlock reads the limit that an ENOMEM may mean.
func memlock() (fault.Code, string) {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) != nil {
		return "", ""
	}
	h, err := facts(nil)
	if err != nil {
		return "", ""
	}
	return locked(l, h)
}

// locked says what a limit on locked memory explains: nothing where it is not finite, or where a capability lifts it or may do so.
func locked(l unix.Rlimit, h *topo.Host) (fault.Code, string) {
	if lifted := topo.Has(h.Process.CapEff, topo.CapIPCLock); l.Cur == unix.RLIM_INFINITY || lifted == nil || *lifted {
		return "", ""
	}
	hint := fmt.Sprintf("the limit on locked memory is %d bytes (ulimit -l %d) and CAP_IPC_LOCK is not effective", l.Cur, l.Cur/1024)
	if granted(h) { // as the doctor tells the two apart
		whose := "this process"
		if h.Process.UID != nil {
			whose = fmt.Sprintf("uid %d", *h.Process.UID)
		}
		return fault.RDMAMemlockBound, hint + " for " + whose + ", though it is in the bounding set"
	}
	return fault.RDMAMemlock, hint
}

// explainRegister puts an errno of a registration of host memory in words.
func (t *transport) explainRegister(err error, b mem.Buffer) error {
	e := &fault.Error{Code: fault.VerbsRegister, Op: fmt.Sprintf("register %d bytes of %s memory", b.Len(), b.Facts().Kind),
		Device: where(t.device.Name, t.number), Native: native(err), Err: err}
	switch {
	case errors.Is(err, syscall.ENOMEM):
		if code, hint := memlock(); hint != "" {
			e.Code, e.Hint = code, hint
		} else if t.limits.MaxRegion > 0 && b.Len() > t.limits.MaxRegion {
			e.Hint = fmt.Sprintf("the device registers at most %d bytes at once", t.limits.MaxRegion)
		}
	case errors.Is(err, syscall.EFAULT):
		e.Hint = "the address is not ordinary memory of this process"
	}
	return e
}

// explainQueues puts the refusal of queues in words, with what was asked beside what the device can.
func (t *transport) explainQueues(err error, w ibverbs.Want) error {
	e := &fault.Error{Code: fault.VerbsQueues, Op: fmt.Sprintf("make %d queue pairs", w.Queues+1), Device: where(t.device.Name, t.number), Native: native(err), Err: err}
	e.Detail = fmt.Sprintf("asked: %d send and %d receive work requests a queue pair, %d pieces each, %d bytes inline\nlimits of the device: %d queue pairs, %d work requests, %d pieces, %d completions",
		w.SendWork, w.RecvWork, w.SGE, w.Inline, t.limits.MaxQP, t.limits.MaxWork, t.limits.MaxSGE, t.limits.MaxCQE)
	switch {
	case errors.Is(err, syscall.ENOMEM):
		if code, hint := memlock(); hint != "" {
			e.Code, e.Hint = code, hint
		}
	case errors.Is(err, syscall.EOPNOTSUPP):
		e.Hint = "the device offers no reliable connections"
	}
	return e
}

// explainPath puts the refusal of a transition in words.
func (e *endpoint) explainPath(err error) error {
	out := &fault.Error{Code: fault.VerbsCall, Op: "connect", Device: where(e.t.device.Name, e.t.number), Native: native(err), Err: err}
	var f *ibverbs.Failure
	if !errors.As(err, &f) || f.Step != ibverbs.StepRTR {
		return out
	}
	ends := fmt.Sprintf("from %s to %s", e.local.short(), e.peerText())
	out.Detail = strings.Join(e.evidence(), "\n")
	switch f.Errno {
	case syscall.EINVAL:
		out.Code = fault.VerbsAttributes
		out.Hint = fmt.Sprintf("suspects in order: route header (%v), GID index %d (%s), path MTU %d", e.way.Global, e.local.Index, e.local.GID, ibverbs.MTUBytes(e.way.MTU))
	case syscall.ENODEV:
		out.Code, out.Hint = fault.VerbsGIDGone, fmt.Sprintf("GID index %d (%s) on interface %s", e.local.Index, e.local.GID, orUnknown(e.local.netdev))
	case syscall.ETIMEDOUT:
		out.Code, out.Hint = fault.VerbsAddress, ends
	case syscall.ENETUNREACH, syscall.EHOSTUNREACH:
		out.Code, out.Hint = fault.VerbsNoRoute, ends
	}
	return out
}

var statusCodes = map[int]fault.Code{
	1: fault.VerbsLocalLength, 2: fault.VerbsLocalQueue, 4: fault.VerbsLocalProtect, 5: fault.VerbsFlushed, 9: fault.VerbsRemoteInvalid, 10: fault.VerbsRemoteAccess,
	11: fault.VerbsRemoteOp, 12: fault.VerbsRetries, 13: fault.VerbsNotReady,
}

// explainLoop puts the end of a loop in words: the status, its suspects, and what has been excluded by what worked before.
func (e *endpoint) explainLoop(op string, err error, confirmed uint64) error {
	if err == nil {
		return nil
	}
	out := &fault.Error{Code: fault.VerbsCall, Op: op, Device: where(e.t.device.Name, e.t.number), Native: native(err), Err: err}
	var f *ibverbs.Failure
	if !errors.As(err, &f) {
		return out
	}
	events := e.settle(f)
	var excluded []string
	if confirmed > 0 {
		excluded = append(excluded, fmt.Sprintf("excluded: GID, queue pair numbers, path MTU and keys at the start, since %d operations were confirmed before", confirmed))
	}
	if e.way.MTU > 0 { // both sides computed it from both ports
		excluded = append(excluded, fmt.Sprintf("excluded: path MTUs that differ, since both sides agreed on %d", ibverbs.MTUBytes(e.way.MTU)))
	}
	if port, err := e.t.context.Port(e.t.number); err == nil {
		if port.State == ibverbs.PortActive {
			excluded = append(excluded, "excluded: the local port, which is ACTIVE")
		} else {
			events = append([]string{"the local port is " + stateName(port.State)}, events...)
		}
	}
	out.Detail = strings.Join(append(excluded, e.evidence()...), "\n")
	switch f.Step {
	case ibverbs.StepCompletion:
		out.Native = fmt.Sprintf("status %d (%s)", f.Status, f.Text)
		out.Code = fault.VerbsCompletion
		if code, ok := statusCodes[f.Status]; ok {
			out.Code = code
		}
		if f.Status == 12 {
			events = append(events, fmt.Sprintf("%s to %s, retries %d of about %.0f ms each", e.local.short(), e.peerText(), e.way.Retries, 4.096e-3*float64(uint64(1)<<e.way.Timeout)))
			if confirmed > 0 {
				events = append(events, fmt.Sprintf("%d operations had been confirmed, so the peer or the link went away", confirmed))
			}
		}
	case ibverbs.StepStall:
		out.Code = fault.LoopStalled
	case ibverbs.StepAbsent:
		out.Code = fault.VerbsNotServing
	case ibverbs.StepDisagree:
		out.Code = fault.VerbsDisagree
	case ibverbs.StepPostSend, ibverbs.StepPostRecv:
		if f.Errno == syscall.ENOMEM {
			events = append(events, "the queue is full; memory is not short")
		}
	}
	out.Hint = strings.Join(events, "; ")
	return out
}

// settle drains what the device has reported. A queue that fails with its port can say so before the port does: then it waits a moment
// for the news.
func (e *endpoint) settle(f *ibverbs.Failure) []string {
	events := e.events()
	switch statusCodes[f.Status] {
	case fault.VerbsLocalQueue, fault.VerbsFlushed, fault.VerbsRetries:
	default:
		return events
	}
	const step, most = 20 * time.Millisecond, 500 * time.Millisecond
	for waited := time.Duration(0); waited < most; waited += step {
		port, err := e.t.context.Port(e.t.number)
		down := err == nil && port.State != ibverbs.PortActive
		if len(events) > 0 && (down || err != nil) {
			break
		}
		time.Sleep(step)
		events = append(events, e.events()...)
	}
	return events
}

// eventNames are the asynchronous events that explain a failed loop, as IBV_EVENT_* counts them.
var eventNames = map[int]string{0: "CQ error", 1: "QP fatal error", 2: "QP request error", 3: "QP access error: the peer sent a request that this side's memory refused",
	8: "device fatal error", 9: "the port became active", 10: "the port went down", 11: "LID change", 12: "partition key change", 18: "GID change"}

// events drains what the device has reported.
func (e *endpoint) events() []string {
	var out []string
	for range 64 {
		kind, qpn, ok := e.t.context.Event()
		if !ok {
			break
		}
		name, known := eventNames[kind]
		if !known {
			continue
		}
		if qpn != 0 {
			name += fmt.Sprintf(" (queue pair 0x%x)", qpn)
		}
		out = append(out, "device event: "+name)
	}
	return out
}
