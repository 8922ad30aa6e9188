package topo

import (
	"os"
	"path"
	"strings"
)

// modulesOfInterest are the kernel modules that decide something here, with underscores as the kernel names them.
var modulesOfInterest = []string{
	"ib_core", "ib_uverbs", "rdma_ucm", "rdma_cm", "ib_umad", "ib_ipoib", "mlx5_core", "mlx5_ib", "mlx4_ib", "irdma", "bnxt_re", "ionic_rdma",
	"efa", "hns_roce", "erdma", "mana_ib", "rdma_rxe", "siw", "nvidia", "nvidia_uvm", "nvidia_peermem", "nv_peer_mem", "gdrdrv", "bonding", "tls",
}

// modules says which are loaded and which are on disk.
func (r *reader) modules(release string) map[string]Module {
	out := map[string]Module{}
	loaded := map[string]bool{}
	procKnown := false
	if s, ok := r.try("proc/modules"); ok {
		procKnown = true
		for line := range strings.Lines(s) {
			loaded[first(line)] = true
		}
	}
	onDisk, builtin := map[string]bool{}, map[string]bool{}
	known := false
	if release != "" {
		dir := "lib/modules/" + release
		for _, f := range []struct {
			name string
			in   map[string]bool
		}{{"modules.dep", onDisk}, {"modules.builtin", builtin}} {
			b, err := r.t.ReadFile(dir + "/" + f.name)
			if err != nil {
				continue
			}
			known = true
			for line := range strings.Lines(string(b)) {
				name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
				name = path.Base(name)
				if i := strings.Index(name, ".ko"); i > 0 {
					f.in[strings.ReplaceAll(name[:i], "-", "_")] = true
				}
			}
		}
	}
	for _, m := range modulesOfInterest {
		var x Module
		inSys := r.t.Exists("sys/module/" + m)
		x.Loaded = loaded[m] || inSys || builtin[m]
		if known {
			d := onDisk[m] || builtin[m]
			x.OnDisk = &d
		}
		if inSys {
			x.Version = r.text("sys/module/" + m + "/version")
		}
		if x.Loaded || x.OnDisk != nil && *x.OnDisk || procKnown && known {
			out[m] = x
		}
	}
	return out
}

func (r *reader) liveEnv(name string) bool { return r.t.live && os.Getenv(name) != "" }
