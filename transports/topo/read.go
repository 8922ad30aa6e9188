package topo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

// Options is what a reader may use beside files.
type Options struct {
	// NVML is asked on the running host only; nil asks nobody. A captured host carries its answer with it.
	NVML NVMLSource
	// Environ is the environment of the running host's process; nil takes the process's own.
	Environ []string
	// LockWanted is how many bytes of memory the user plans to have locked at once; 0: nobody said.
	LockWanted uint64
}

// Read reads the host at root: "/" is the running one, a folder holds a copy of /sys, /proc and /dev, a file is a text
// archive made by scripts/capture.sh. An error means that there is no such root; what a host refuses to tell stands in
// [Host.Errors] instead.
func Read(root string, o Options) (*Host, error) {
	t, err := Open(root)
	if err != nil {
		return nil, err
	}
	if !t.live && !t.Exists("sys") && !t.Exists("proc") && !t.Exists("dev") {
		return nil, fmt.Errorf("%s: it holds neither sys nor proc nor dev: no host was captured there", root)
	}
	return t.Read(o), nil
}

// Read reads the host of the tree.
func (t *Tree) Read(o Options) *Host {
	r := &reader{t: t, seen: map[string]bool{}}
	h := &Host{Source: t.Name(), Live: t.Live()}
	h.Kernel = r.text("proc/sys/kernel/osrelease")
	h.Modules = r.modules(h.Kernel)
	h.Process = r.process()
	if o.LockWanted > 0 {
		h.Process.LockWanted = &o.LockWanted
	}
	h.Env = r.env(o.Environ)
	h.Container = r.container()
	h.NUMA = r.numaNodes()
	h.PCI = r.pci()
	h.IOMMU = r.iommu()
	h.Net = r.net()
	h.RDMA = r.rdma(h)
	h.TCP = r.tcp()
	h.TCP.RoutesKnown = r.routes(h.Net)
	h.NVIDIA, h.GPUs = r.gpus(h)
	r.nvml(h, o.NVML)
	sort.Slice(r.errs, func(i, j int) bool { return r.errs[i].Path < r.errs[j].Path })
	h.Errors = r.errs
	return h
}

// reader collects what was refused while it reads.
type reader struct {
	t    *Tree
	errs []ReadError
	seen map[string]bool
}

// note keeps a refused read, once a path. A file that is not there is no refusal.
func (r *reader) note(p string, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || r.seen[p] {
		return
	}
	r.seen[p] = true
	r.errs = append(r.errs, ReadError{Path: "/" + p, Err: errText(err)})
}

// try is the trimmed text of an attribute, and whether it could be read.
func (r *reader) try(p string) (string, bool) {
	b, err := r.t.ReadFile(p)
	if err != nil {
		r.note(p, err)
		return "", false
	}
	// Attributes of some drivers end in blanks or a NUL.
	return strings.Trim(string(b), " \t\r\n\x00"), true
}

func (r *reader) text(p string) string { s, _ := r.try(p); return s }

// quiet reads an attribute whose refusal is an answer of its own and no trouble: an empty GID slot, the speed of a bridge.
func (r *reader) quiet(p string) (string, error) {
	b, err := r.t.ReadFile(p)
	return strings.Trim(string(b), " \t\r\n\x00"), err
}

// num is an attribute that holds one number, decimal or with a prefix; nil where there is none, with a note on odd text.
func (r *reader) num(p string) *int64 {
	s, ok := r.try(p)
	if !ok || s == "" {
		return nil
	}
	v, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		r.note(p, fmt.Errorf("not a number: %q", clip(s)))
		return nil
	}
	return &v
}

// numa is a node number; -1 is the kernel's way of saying that it has none.
func (r *reader) numa(p string) *int {
	v := r.num(p)
	if v == nil || *v < 0 || *v > 1<<20 {
		return nil
	}
	n := int(*v)
	return &n
}

func (r *reader) int(p string) *int {
	v := r.num(p)
	if v == nil || *v > 1<<31-1 || *v < -1<<31 {
		return nil
	}
	n := int(*v)
	return &n
}

func (r *reader) list(p string) []string {
	l, err := r.t.ReadDir(p)
	r.note(p, err)
	return l
}

// base is the last element of where a link leads; empty where there is no link.
func (r *reader) base(p string) string {
	if !r.t.Exists(p) {
		return ""
	}
	real, err := r.t.Resolve(p)
	if err != nil {
		r.note(p, err)
		return ""
	}
	return path.Base(real)
}

func (r *reader) node(p string) *Node {
	mode, err := r.t.OpenNode(p)
	n := &Node{Path: "/" + p}
	switch {
	case errors.Is(err, errNotRecorded):
		n.Untried = true
	case err != nil:
		n.Err = errText(err)
	}
	if mode != nil {
		m := uint32(*mode)
		n.Mode = &m
	}
	return n
}

// clip shortens odd text for evidence.
func clip(s string) string {
	if len(s) > 40 {
		s = s[:40] + "…"
	}
	return s
}

// natural orders names so that mlx5_10 follows mlx5_9.
func natural(names []string) []string {
	slices.SortFunc(names, func(a, b string) int {
		pa, na := splitNum(a)
		pb, nb := splitNum(b)
		if pa != pb || na < 0 || nb < 0 || na == nb {
			return strings.Compare(a, b)
		}
		return na - nb
	})
	return names
}

func splitNum(s string) (prefix string, n int) {
	i := len(s)
	for i > 0 && s[i-1] >= '0' && s[i-1] <= '9' {
		i--
	}
	n, err := strconv.Atoi(s[i:])
	if err != nil {
		return s, -1
	}
	return s[:i], n
}

// nvml merges NVML's answer, the captured or the live one, into the GPUs of the bus.
func (r *reader) nvml(h *Host, src NVMLSource) {
	var a NVML
	switch {
	case r.t.live && src != nil:
		a = src.ReadNVML()
	case !r.t.live:
		p := factsDir + "/nvml.json"
		b, err := r.t.ReadFile(p)
		if err != nil {
			return
		}
		if err := json.Unmarshal(b, &a); err != nil {
			r.note(p, err)
			return
		}
	default:
		return
	}
	h.NVIDIA.NVMLError, h.NVIDIA.NVMLDriver, h.NVIDIA.CUDAVersion = a.Error, a.Driver, a.CUDA
	for _, g := range a.GPUs {
		i := slices.IndexFunc(h.GPUs, func(x GPU) bool { return x.BDF == g.BDF })
		if i < 0 { // a GPU without a function on a visible PCI bus
			h.GPUs = append(h.GPUs, GPU{BDF: g.BDF, Vendor: vendorNVIDIA})
			i = len(h.GPUs) - 1
		}
		x := &h.GPUs[i]
		x.NVML = &g
		if x.Model == "" {
			x.Model = g.Name
		}
		if x.UUID == "" {
			x.UUID = g.UUID
		}
		if x.BAR1 == nil {
			x.BAR1 = g.BAR1Bytes
		}
	}
}

func (r *reader) env(environ []string) []EnvVar {
	if !r.t.live {
		environ = r.t.Fact("env")
	} else if environ == nil {
		environ = os.Environ()
	}
	var out []EnvVar
	for _, e := range environ {
		k, v, ok := strings.Cut(e, "=")
		if ok && steers(k) {
			out = append(out, EnvVar{Name: k, Value: v})
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// steers reports whether a variable steers the choice of a path in the libraries of this field.
func steers(name string) bool {
	for _, p := range []string{"UCX_", "NCCL_", "MC_", "NIXL_", "OMPI_MCA_", "FI_", "NVSHMEM_", "IBV_", "RDMAV_", "MLX5_", "MOONCAKE_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	switch name {
	case "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MPS_PIPE_DIRECTORY", "GLOO_SOCKET_IFNAME", "LD_BIND_NOW":
		return true
	}
	return false
}
