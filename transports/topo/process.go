package topo

import (
	"strconv"
	"strings"
)

// process reads /proc/self/status and /proc/self/limits.
func (r *reader) process() Process {
	var p Process
	for line := range strings.Lines(r.text("proc/self/status")) {
		k, v, ok := strings.Cut(line, ":")
		f := strings.Fields(v)
		if !ok || len(f) == 0 {
			continue
		}
		switch k {
		case "Uid": // real, effective, saved, file system
			if len(f) > 1 {
				if n, err := strconv.Atoi(f[1]); err == nil {
					p.UID = &n
				}
			}
		case "CapEff":
			p.CapEff = hexMask(f[0])
		case "CapBnd":
			p.CapBnd = hexMask(f[0])
		}
	}
	for line := range strings.Lines(r.text("proc/self/limits")) {
		if rest, ok := strings.CutPrefix(line, "Max locked memory"); ok {
			p.MemlockSoft, p.MemlockHard = limits(rest)
		} else if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			if l, _ := limits(rest); l != nil && !l.Unlimited {
				p.NoFile = &l.Bytes
			}
		}
	}
	return p
}

func hexMask(s string) *uint64 {
	v, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return nil
	}
	return &v
}

// limits parses the soft and hard columns of a line of /proc/self/limits.
func limits(s string) (soft, hard *Limit) {
	one := func(s string) *Limit {
		if s == "unlimited" {
			return &Limit{Unlimited: true}
		}
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return nil
		}
		return &Limit{Bytes: v}
	}
	f := strings.Fields(s)
	if len(f) < 2 {
		return nil, nil
	}
	return one(f[0]), one(f[1])
}

// container looks for the marks that runtimes leave.
func (r *reader) container() Container {
	var c Container
	see := func(kind, evidence string) {
		if c.Kind == "" || c.Kind == "container" {
			c.Kind = kind
		}
		c.Evidence = append(c.Evidence, evidence)
	}
	pod := func(evidence string) {
		c.Pod = true
		see("container", evidence)
	}
	if r.t.Exists(".dockerenv") {
		see("docker", "/.dockerenv exists")
	}
	if r.t.Exists("run/.containerenv") {
		see("podman", "/run/.containerenv exists")
	}
	for _, p := range []string{"proc/self/cgroup", "proc/1/cgroup"} {
		s, ok := r.try(p)
		if !ok {
			continue
		}
		found := false
		for _, k := range []struct{ word, kind string }{{"kubepods", "pod"}, {"docker", "docker"}, {"cri-containerd", "containerd"}, {"crio-", "cri-o"}, {"libpod", "podman"}, {"/lxc", "lxc"}} {
			if !strings.Contains(s, k.word) {
				continue
			}
			found = true
			if k.kind == "pod" {
				pod("/" + p + " names " + k.word)
			} else {
				see(k.kind, "/"+p+" names "+k.word)
			}
		}
		if found {
			break
		}
	}
	if r.t.Exists("var/run/secrets/kubernetes.io/serviceaccount") || r.t.Exists("run/secrets/kubernetes.io/serviceaccount") {
		pod("/var/run/secrets/kubernetes.io/serviceaccount exists")
	}
	// Kubelet mounts /etc/hosts and the termination log from its own folders: true under cgroup v2 too, where a container
	// sees its own cgroup as the root.
	for line := range strings.Lines(r.text("proc/self/mountinfo")) {
		if f := strings.Fields(line); len(f) > 4 && (strings.Contains(f[3], "/kubelet/pods/") || strings.Contains(f[3], "/kubelet.slice/")) {
			pod("/proc/self/mountinfo mounts " + f[4] + " from a kubelet folder")
			break
		} else if len(f) > 4 && f[4] == "/etc/hostname" && strings.Contains(f[3], "/containers/") {
			see("container", "/proc/self/mountinfo mounts /etc/hostname from a container's folder")
		}
	}
	if len(r.t.Fact("kubernetes")) > 0 || r.liveEnv("KUBERNETES_SERVICE_HOST") {
		pod("KUBERNETES_SERVICE_HOST is set")
	}
	return c
}
