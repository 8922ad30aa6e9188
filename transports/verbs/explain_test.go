package verbs

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/mem"
	"hopbench/transports/topo"
)

// inOrder says whether the words stand in the text one after the other; else the first that does not.
func inOrder(text string, words ...string) string {
	for _, w := range words {
		_, after, ok := strings.Cut(text, w)
		if !ok {
			return w
		}
		text = after
	}
	return ""
}

// TestLimitOnLockedMemory speaks only where the limit is finite and no capability lifts it, and calls it what the doctor calls it.
func TestLimitOnLockedMemory(t *testing.T) {
	const lock, admin = uint64(1) << topo.CapIPCLock, uint64(1) << topo.CapAdmin
	mask := func(m uint64) *uint64 { return &m }
	user, root := 1000, 0
	for _, c := range []struct {
		name      string
		limit     uint64
		process   topo.Process
		container string
		code      fault.Code
		words     []string
	}{
		{"no limit", unix.RLIM_INFINITY, topo.Process{CapEff: mask(0), CapBnd: mask(0), UID: &user}, "", "", nil},
		{"a capability lifts it", 65536, topo.Process{CapEff: mask(lock), CapBnd: mask(lock), UID: &root}, "docker", "", nil},
		{"capabilities not known", 65536, topo.Process{}, "", "", nil},
		{"an ordinary user of a host", 65536, topo.Process{CapEff: mask(0), CapBnd: mask(1<<41 - 1), UID: &user}, "", fault.RDMAMemlock, []string{"65536 bytes (ulimit -l 64)", "CAP_IPC_LOCK is not effective"}},
		{"a container without it", 8 << 20, topo.Process{CapEff: mask(0), CapBnd: mask(0), UID: &root}, "docker", fault.RDMAMemlock, []string{"8388608 bytes (ulimit -l 8192)"}},
		{"a pod that was granted it, not as root", 65536, topo.Process{CapEff: mask(0), CapBnd: mask(lock), UID: &user}, "kubernetes", fault.RDMAMemlockBound, []string{"65536 bytes", "not effective for uid 1000", "in the bounding set"}},
		{"the same, uid not known", 65536, topo.Process{CapEff: mask(admin), CapBnd: mask(lock)}, "", fault.RDMAMemlockBound, []string{"not effective for this process"}},
	} {
		code, hint := locked(unix.Rlimit{Cur: c.limit, Max: c.limit}, &topo.Host{Process: c.process, Container: topo.Container{Kind: c.container}})
		if code != c.code || (hint == "") != (c.code == "") {
			t.Errorf("%s: %q, %q", c.name, code, hint)
		}
		if w := inOrder(hint, c.words...); w != "" {
			t.Errorf("%s: %q is not said: %s", c.name, w, hint)
		}
	}
}

// TestNoLimitIsBlamedWithoutAReason: ENOMEM of a process that may lock what it wants is the device's own limit, or nobody's.
func TestNoLimitIsBlamedWithoutAReason(t *testing.T) {
	lock := uint64(1) << topo.CapIPCLock
	host.Lock()
	before := host.facts
	host.facts = &topo.Host{Process: topo.Process{CapEff: &lock, CapBnd: &lock}}
	host.Unlock()
	t.Cleanup(func() { host.facts = before })
	e := twoPorts(ibverbs.LinkEthernet)
	e.t.limits.MaxRegion = 4096
	b, err := mem.Allocate(mem.Spec{Kind: mem.Host, Bytes: 8192})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	got := e.t.explainRegister(syscall.ENOMEM, b)
	wantCode(t, got, fault.VerbsRegister, "register 8192 bytes of host memory", "mlx5_0 port 1", "ENOMEM (12)", "at most 4096 bytes at once")
	got = e.t.explainQueues(syscall.ENOMEM, ibverbs.Want{Queues: 3, SendWork: 7, RecvWork: 9, SGE: 2, Inline: 220})
	wantCode(t, got, fault.VerbsQueues, "ENOMEM (12)")
	for _, err := range []error{got, e.t.explainRegister(syscall.ENOMEM, b)} {
		if strings.Contains(err.Error(), "ulimit") {
			t.Errorf("a limit that does not count is blamed: %v", err)
		}
	}
	e.t.limits = ibverbs.Limits{MaxQP: 11, MaxWork: 12, MaxSGE: 13, MaxCQE: 14}
	got = e.t.explainQueues(syscall.EINVAL, ibverbs.Want{Queues: 3, SendWork: 7, RecvWork: 9, SGE: 2, Inline: 220})
	if w := inOrder(fmt.Sprintf("%+v", got), "EINVAL (22)", "asked: 7 send and 9 receive", "2 pieces", "220 bytes inline", "limits of the device: 11 queue pairs, 12 work requests, 13 pieces, 14 completions"); w != "" {
		t.Errorf("%q does not stand beside what was asked: %+v", w, got)
	}
	none := uint64(0)
	host.facts = &topo.Host{Process: topo.Process{CapEff: &none, CapBnd: &none}}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		t.Fatal(err)
	}
	small := unix.Rlimit{Cur: min(l.Cur, 65536), Max: l.Max}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &small); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &l)
	for _, err := range []error{e.t.explainRegister(syscall.ENOMEM, b), e.t.explainQueues(syscall.ENOMEM, ibverbs.Want{})} {
		wantCode(t, err, fault.RDMAMemlock, "ENOMEM (12)", fmt.Sprintf("%d bytes (ulimit -l %d)", small.Cur, small.Cur/1024))
	}
}

// TestTransitionsThatAreRefused: each errno at RTR has its cause, and EINVAL its suspects in order.
func TestTransitionsThatAreRefused(t *testing.T) {
	e := twoPorts(ibverbs.LinkEthernet)
	if err := e.join(""); err != nil {
		t.Fatal(err)
	}
	e.local.netdev = "ens1"
	for errno, c := range map[syscall.Errno]struct {
		code  fault.Code
		words []string
	}{
		syscall.EINVAL:       {fault.VerbsAttributes, []string{"suspects in order: route header (true)", "GID index 3 (::ffff:10.0.0.1)", "path MTU 4096"}},
		syscall.ENODEV:       {fault.VerbsGIDGone, []string{"GID index 3", "ens1"}},
		syscall.ETIMEDOUT:    {fault.VerbsAddress, []string{"10.0.0.1 to 10.0.0.2"}},
		syscall.ENETUNREACH:  {fault.VerbsNoRoute, []string{"10.0.0.1 to 10.0.0.2"}},
		syscall.EHOSTUNREACH: {fault.VerbsNoRoute, []string{"10.0.0.1 to 10.0.0.2"}},
		syscall.EPERM:        {fault.VerbsCall, nil},
	} {
		err := e.explainPath(&ibverbs.Failure{Step: ibverbs.StepRTR, Errno: errno})
		wantCode(t, err, c.code, ibverbs.ErrnoName(errno))
		if w := inOrder(err.Error(), c.words...); w != "" {
			t.Errorf("%v: %q is not said in its place: %v", errno, w, err)
		}
	}
}

// TestStatusesInWords looks for each status's suspects in their order and for what is excluded, after nothing and after much that worked.
func TestStatusesInWords(t *testing.T) {
	onDouble(t)
	o := transports.Options{Device: "fake0"}
	end := mustConnect(t, setup{options: [2]transports.Options{o, o}})[0].endpoint.(*endpoint)
	for status, suspects := range map[int][]string{
		4:  {"GPU memory", "IOMMU", "host memory", "local key"},
		5:  {"something failed before", "peer's side"},
		9:  {"path MTUs that differ", "longer than the peer's receive", "not set up"},
		10: {"remote key", "address range", "access rights"},
		12: {"GIDs", "path MTU", "PFC", "packet numbers", "a peer that is gone", "UDP port 4791"},
		13: {"CPU of its own", "RNR retries", "peer that stopped"},
	} {
		for _, confirmed := range []uint64{0, 60} {
			err := end.explainLoop("stream write", &ibverbs.Failure{Step: ibverbs.StepCompletion, Status: status, Text: "words"}, confirmed)
			wantCode(t, err, statusCodes[status], fmt.Sprintf("status %d (words)", status), "fake0 port 1")
			whole := fmt.Sprintf("%+v", err)
			row, _ := fault.Lookup(fault.CodeOf(err))
			if w := inOrder(row.Means, suspects...); w != "" {
				t.Errorf("status %d: %q is no suspect, or not in its place: %s", status, w, row.Means)
			}
			for _, w := range []string{"excluded: path MTUs that differ, since both sides agreed on 4096", "excluded: the local port, which is ACTIVE", row.Means} {
				if !strings.Contains(whole, w) {
					t.Errorf("status %d: %q is not said: %s", status, w, whole)
				}
			}
			if worked := strings.Contains(whole, "excluded: GID, queue pair numbers, path MTU and keys"); worked != (confirmed > 0) {
				t.Errorf("status %d after %d confirmed: only what worked before excludes GID and keys: %s", status, confirmed, whole)
			}
		}
	}
}

// TestFullQueueIsNoShortMemory: ENOMEM of a post is the queue's.
func TestFullQueueIsNoShortMemory(t *testing.T) {
	onDouble(t)
	o := transports.Options{Device: "fake0"}
	p := mustConnect(t, setup{options: [2]transports.Options{o, o}})
	err := p[0].endpoint.(*endpoint).explainLoop("write", &ibverbs.Failure{Step: ibverbs.StepPostSend, Errno: syscall.ENOMEM}, 0)
	if !strings.Contains(err.Error(), "the queue is full; memory is not short") || strings.Contains(err.Error(), "ulimit") {
		t.Error(err)
	}
}

// TestErrnosOfAGPUBuffer: what each says, with what was read of the host; and nothing where there is nothing to say.
func TestErrnosOfAGPUBuffer(t *testing.T) {
	for _, loaded := range []bool{true, false} {
		h := &topo.Host{Kernel: "5.4.0-generic"}
		peer := "nvidia-peermem is not loaded"
		if loaded {
			h.Modules = map[string]topo.Module{"nvidia_peermem": {Loaded: true}}
			peer = "nvidia-peermem is loaded"
		}
		tr := &transport{chosen: &chosen{host: h}}
		for errno, words := range map[syscall.Errno][]string{
			syscall.EFAULT: {"EFAULT", "cannot pin device memory", peer, "DMA-BUF"}, syscall.EINVAL: {"EINVAL", "exceeds what the descriptor covers", "several segments"},
			syscall.EPROTONOSUPPORT: {"EPROTONOSUPPORT", "older than 5.12", "5.4.0-generic"}, syscall.EOPNOTSUPP: {"EOPNOTSUPP", "driver or provider", peer},
			syscall.ENOSYS: {"ibv_reg_dmabuf_mr", peer},
		} {
			if got := tr.gpuHint(fmt.Errorf("register: %w", errno)); inOrder(got, words...) != "" {
				t.Errorf("%v: %q lacks %q", errno, got, inOrder(got, words...))
			}
		}
		if got := tr.gpuHint(syscall.EIO); got != "" {
			t.Errorf("a guess without evidence: %q", got)
		}
	}
}

// nothing is a buffer of no bytes.
type nothing struct{ mem.Buffer }
