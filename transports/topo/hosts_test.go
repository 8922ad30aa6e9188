package topo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// hosts opens every captured host and gives it with its hand-written expectations.
func hosts(t *testing.T, f func(t *testing.T, h *topo.Host, expect []string)) {
	t.Helper()
	files, err := filepath.Glob("testdata/hosts/*.txtar")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d hosts, want at least 25 (%v)", len(files), err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			h, err := topo.Read(name, topo.Options{})
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(strings.TrimSuffix(name, ".txtar") + ".expect")
			if err != nil {
				t.Fatal(err)
			}
			f(t, h, strings.Split(strings.TrimSpace(string(b)), "\n"))
		})
	}
}

func TestPortsAsExpected(t *testing.T) {
	hosts(t, func(t *testing.T, h *topo.Host, expect []string) {
		got := map[string]rdmaport.Port{}
		for _, p := range rdmaport.Assess(h) {
			got[fmt.Sprintf("%s/%d", p.Device, p.Port)] = p
		}
		named := false
		seen := map[string]bool{}
		for _, line := range expect {
			f := strings.SplitN(line, " ", 4)
			if f[0] != "port" {
				continue
			}
			named = true
			p, ok := got[f[1]]
			if !ok {
				t.Errorf("%s: no such port was read", line)
				continue
			}
			seen[f[1]] = true
			if string(p.Verdict) != f[2] {
				t.Errorf("%s: verdict %s (%s)", line, p.Verdict, p.Reason)
			}
			rest := strings.Join(f[3:], " ")
			if typ, after, ok := strings.Cut(rest, `type="`); ok {
				want, tail, _ := strings.Cut(after, `"`)
				if p.GIDType != want {
					t.Errorf("%s: type %q", line, p.GIDType)
				}
				rest = typ + tail
			}
			for _, w := range strings.Fields(rest) {
				switch k, v, eq := strings.Cut(w, "="); {
				case eq && k == "gid":
					if p.GIDIndex == nil || fmt.Sprint(*p.GIDIndex) != v {
						t.Errorf("%s: GID index %v", line, p.GIDIndex)
					}
				case eq && k == "mtu":
					if p.PathMTU == nil || fmt.Sprint(*p.PathMTU) != v {
						t.Errorf("%s: MTU %v", line, p.PathMTU)
					}
				case w == "software":
					if !p.Software {
						t.Errorf("%s: not software", line)
					}
				default:
					if len(p.Codes) == 0 || string(p.Codes[0]) != w {
						t.Errorf("%s: codes %v", line, p.Codes)
					}
				}
			}
		}
		if named {
			for k, p := range got {
				if !seen[k] {
					t.Errorf("port %s was read (%s) and is not expected", k, p.Verdict)
				}
			}
		}
	})
}

func TestNearestAndReadErrors(t *testing.T) {
	hosts(t, func(t *testing.T, h *topo.Host, expect []string) {
		for _, line := range expect {
			f := strings.Fields(line)
			switch f[0] {
			case "nearest":
				near := h.Nearest(f[1])
				if len(near) == 0 || near[0].NIC.Name != f[2] && near[0].NIC.RDMA != f[2] || string(near[0].Pair.Class) != f[3] {
					t.Errorf("%s: got %+v", line, near)
				}
			case "readerror":
				ok := false
				for _, e := range h.Errors {
					s := e.Path + " " + e.Err
					all := true
					for _, w := range f[1:] {
						all = all && strings.Contains(s, w)
					}
					ok = ok || all
				}
				if !ok {
					t.Errorf("%s: got %v", line, h.Errors)
				}
			}
		}
	})
}
