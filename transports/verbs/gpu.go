package verbs

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/cuda"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/mem"
)

// registerGPU registers device memory by the ways that the setting allows, in order: DMA-BUF, nvidia-peermem, and staging through host
// memory, which registers nothing here. The refusal of each is kept, and a way that was asked for by name has no second.
func (t *transport) registerGPU(r *region, access ibverbs.Access) error {
	// A small completion may carry its payload in the completion queue entry, which the provider would then copy to device
	// memory with the CPU. The provider reads this variable when a queue pair is made.
	if os.Getenv("MLX5_SCATTER_TO_CQE") == "" {
		if err := os.Setenv("MLX5_SCATTER_TO_CQE", "0"); err != nil {
			return &fault.Error{Code: fault.VerbsCall, Op: "turn CQE scatter off", Err: err}
		}
	}
	want := t.set.text("gpu-direct")
	if want == string(transports.Staged) {
		r.way, r.how = transports.Staged, "host memory, as asked"
		return nil
	}
	op := fmt.Sprintf("register %d bytes of GPU memory", r.buffer.Len())
	var tried []string
	var last error
	if want != string(transports.PeerMem) {
		err := t.registerDMABuf(r, access)
		if err == nil {
			return nil
		}
		last = err
		tried = append(tried, "dmabuf: "+err.Error())
	}
	if want != string(transports.DMABuf) {
		mr, err := t.context.Register(r.buffer.Addr(), r.buffer.Len(), access)
		if err == nil {
			r.mr, r.way, r.how = mr, transports.PeerMem, "nvidia-peermem"+t.peerMemVersion()
			return nil
		}
		last = err
		tried = append(tried, "peermem: "+err.Error())
	}
	if want == "auto" {
		r.way, r.how = transports.Staged, "host memory"
		r.warnings = append(r.warnings, fmt.Sprintf("no GPUDirect way, so GPU memory goes through host memory: %s [%s]", strings.Join(tried, "; "), fault.GDRNoWay))
		if hint := t.gpuHint(last); hint != "" {
			r.warnings = append(r.warnings, hint)
		}
		return nil
	}
	e := &fault.Error{Code: map[string]fault.Code{"dmabuf": fault.GDRDMABuf, "peermem": fault.GDRPeerMemMissing}[want], Op: op, Device: where(t.device.Name, t.number), Native: native(last), Err: errors.New(strings.Join(tried, "; "))}
	e.Hint = t.gpuHint(last)
	return e
}

// registerDMABuf exports the buffer's pages and has the device import them.
func (t *transport) registerDMABuf(r *region, access ibverbs.Access) error {
	c := mem.CUDAContext(r.buffer)
	if c == nil {
		return errors.New("the buffer has no CUDA context")
	}
	page := uint64(os.Getpagesize())
	// Device memory is allocated in whole blocks, so the pages up to the rounded end belong to the buffer.
	whole := (r.buffer.Len() + page - 1) / page * page
	fd, how := -1, ""
	if err := c.Do(func(th *cuda.Thread) (err error) {
		fd, how, err = th.DMABuf(cuda.Pointer(r.buffer.Addr()), whole)
		return err
	}); err != nil {
		return err
	}
	closeFD := func() error { return unix.Close(fd) }
	// An allocation of several segments exports only its first: registering past its end would fail late or not at all.
	if size, err := unix.Seek(fd, 0, unix.SEEK_END); err == nil && size > 0 && uint64(size) < r.buffer.Len() {
		return errors.Join(fmt.Errorf("the descriptor covers %d bytes of %d: the allocation has several segments", size, r.buffer.Len()), closeFD())
	}
	mr, err := t.context.RegisterDMABuf(fd, 0, r.buffer.Len(), uint64(r.buffer.Addr()), access)
	if err != nil {
		return errors.Join(err, closeFD())
	}
	r.mr, r.way, r.how, r.close = mr, transports.DMABuf, how, closeFD
	return nil
}

func (t *transport) peerMemVersion() string {
	if v := t.host.NVIDIA.PeerMem; v != "" {
		return " " + v
	}
	return ""
}

// gpuHint says what an errno on a GPU buffer means, with what was read on this host.
func (t *transport) gpuHint(err error) string {
	peer := "nvidia-peermem is loaded"
	if t.host.NVIDIA.PeerMem == "" && !t.host.Modules["nvidia_peermem"].Loaded {
		peer = "nvidia-peermem is not loaded"
	}
	switch {
	case errors.Is(err, syscall.EFAULT):
		return "EFAULT: the kernel cannot pin device memory; " + peer + "; memory of the virtual memory API goes by DMA-BUF only"
	case errors.Is(err, syscall.EINVAL):
		return "EINVAL: the range exceeds what the descriptor covers, or the allocation has several segments"
	case errors.Is(err, syscall.EPROTONOSUPPORT):
		return "EPROTONOSUPPORT: the kernel's RDMA side is older than 5.12; it runs " + t.host.Kernel
	case errors.Is(err, syscall.EOPNOTSUPP):
		return "EOPNOTSUPP: the NIC's driver or provider cannot import DMA-BUF; " + peer
	case errors.Is(err, syscall.ENOSYS):
		return "ENOSYS: this libibverbs has no ibv_reg_dmabuf_mr; " + peer
	}
	return ""
}
