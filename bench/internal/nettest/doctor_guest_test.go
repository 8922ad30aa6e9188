package nettest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hopbench/harness/control"
	"hopbench/transports/transporttest/need"
)

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	return exe
}

// guestLimit is how long the guest may take, in seconds: what this test has left, and a little less.
func guestLimit(t *testing.T) string {
	limit := 540.0
	if end, ok := t.Deadline(); ok {
		limit = max(60, time.Until(end).Seconds()-30)
	}
	return fmt.Sprintf("%.0f", limit)
}

// outside runs the command on this machine.
func outside(t *testing.T, want int, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(hopbench(t), args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == want {
		err = nil
	}
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out
}

// examined is what doctor --json writes.
type examined struct {
	Transports []struct {
		Name, Verdict string
		Findings      []finding
	}
	Ports []struct {
		Device, Verdict, Reason, GID string
		GIDType                      string `json:"gid_type"`
		PathMTU                      int    `json:"path_mtu"`
		Software                     bool
		Codes                        []string
	} `json:"rdma_ports"`
}

func (e examined) verdict(name string) string {
	for _, x := range e.Transports {
		if x.Name == name {
			return x.Verdict
		}
	}
	return "absent"
}

// said are the findings that are not ok, "roce verbs.software warn", in order.
func (e examined) said() (out []string) {
	for _, x := range e.Transports {
		for _, f := range x.Findings {
			if f.Severity != "ok" {
				out = append(out, fmt.Sprintf("%s %s %s", x.Name, f.Code, f.Severity))
			}
		}
	}
	slices.Sort(out)
	return out
}

func (e examined) evidence(name, code string) string {
	for _, x := range e.Transports {
		for _, f := range x.Findings {
			if x.Name == name && f.Code == code {
				return fmt.Sprint(f.Evidence)
			}
		}
	}
	return ""
}

// guestScript is run by the guest's shell: each step leaves its output and its status under $RXE_OUT. A process takes seconds under
// emulation, so there are few of them; what needs no guest (reading a capture) is done outside.
const guestScript = `
step() { name=$1; shift; "$@" >$RXE_OUT/$name.out 2>$RXE_OUT/$name.err; echo $? >$RXE_OUT/$name.rc; }
B=/tmp/hopbench-guest; cp $RXE_OUT/hopbench $B; chmod 755 $B
step live $B doctor --json
step probe $B probe --json
step capture sh scripts/capture.sh --addresses
echo TOKEN >/tmp/token; chmod 600 /tmp/token
$B serve --listen 10.9.0.1:18515 --token-file /tmp/token --quiet >/tmp/serve.out 2>&1 & server=$!
for i in $(seq 100); do grep -q listening /tmp/serve.out && break; sleep 0.5; done
step peer $B doctor --peer 10.9.0.1:18515 --token-file /tmp/token --transport roce,tcp --phase-timeout 120s --json
kill $server
step memlock prlimit --memlock=65536 setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock $B doctor --transport roce --json
step user prlimit --memlock=65536 setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all,+ipc_lock $B doctor --transport roce --json
u=$(grep -l rxe1 /sys/class/infiniband_verbs/*/ibdev); u=${u%/ibdev}; u=${u##*/}
step partial unshare -m sh -c "mkdir /tmp/ib; cp -a /dev/infiniband/$u /tmp/ib; mount --bind /tmp/ib /dev/infiniband; exec $B doctor --transport roce --json"
step no-nodes unshare -m sh -c "mount -t tmpfs none /dev/infiniband; exec $B doctor --transport roce --json"
ip link set veth0 down; ip link set veth6 down
step down $B doctor --transport roce --json
`

// TestGuestDoctor asks the doctor about a machine with real soft-RoCE devices: live, captured, with a peer, and with one thing after
// the other taken away. Each step is the kernel's own doing: nothing of it is made up.
func TestGuestDoctor(t *testing.T) {
	need.Guest(t)
	out := t.TempDir()
	root, err := filepath.Abs("../../..")
	must(t, err)
	b, err := os.ReadFile(hopbench(t))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(out, "hopbench"), b, 0o755))
	script := strings.Replace(guestScript, "TOKEN", control.NewToken().Text(), 1)
	must(t, os.WriteFile(filepath.Join(out, "steps.sh"), []byte(script), 0o755))
	cmd := exec.Command(filepath.Join(root, "scripts/rxe/rxe.sh"), "--limit", guestLimit(t), "--out", out, "--", "sh $RXE_OUT/steps.sh")
	cmd.Dir = root
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	read := func(t *testing.T, step string, status int) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(out, step+".out"))
		must(t, err)
		rc, err := os.ReadFile(filepath.Join(out, step+".rc"))
		must(t, err)
		errs, _ := os.ReadFile(filepath.Join(out, step+".err"))
		if got := strings.TrimSpace(string(rc)); got != fmt.Sprint(status) {
			t.Errorf("%s: exit status %s, want %d: %s", step, got, status, errs)
		}
		return b
	}
	examine := func(t *testing.T, step string, status int) (e examined) {
		t.Helper()
		if err := json.Unmarshal(read(t, step, status), &e); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		return e
	}
	live := examine(t, "live", 0)
	capture := filepath.Join(out, "capture.out")
	read(t, "capture", 0)
	t.Run("live", func(t *testing.T) {
		for name, want := range map[string]string{"roce": "usable", "infiniband": "unusable", "cuda-peer": "unusable", "tcp": "usable", "loopback": "usable"} {
			if got := live.verdict(name); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		for _, want := range []string{"roce verbs.software warn", "infiniband verbs.link-layer fail", "cuda-peer gpu.none fail"} {
			if !slices.Contains(live.said(), want) {
				t.Errorf("no %s in %v", want, live.said())
			}
		}
		for _, s := range live.said() {
			if strings.HasPrefix(s, "roce") && s != "roce verbs.software warn" {
				t.Errorf("not expected: %s", s)
			}
		}
		gids := map[string]string{"rxe0": "0000:0000:0000:0000:0000:ffff:0a09:0001", "rxe1": "0000:0000:0000:0000:0000:ffff:0a09:0101", "rxe6": "fd00:0096:0000:0000:0000:0000:0000:0001"}
		for _, p := range live.Ports {
			if p.Verdict != "usable" || !p.Software || p.PathMTU != 4096 || p.GIDType != "RoCE v2" || p.GID != gids[p.Device] {
				t.Errorf("%+v", p)
			}
			delete(gids, p.Device)
		}
		if len(gids) > 0 {
			t.Errorf("not seen: %v", gids)
		}
	})
	t.Run("probe", func(t *testing.T) {
		type host struct {
			Kernel string
			RDMA   struct {
				Devices []struct {
					Name, Driver, Parent string
					Software             bool
				}
				NetNS string `json:"netns_mode"`
			}
			Net []struct {
				Name      string
				MTU       int
				Addresses []string
			}
		}
		var a, b host
		must(t, json.Unmarshal(read(t, "probe", 0), &a))
		must(t, json.Unmarshal(outside(t, 0, "probe", "--json", "--root", capture), &b))
		for _, h := range []host{a, b} {
			var names []string
			for _, d := range h.RDMA.Devices {
				names = append(names, d.Name+" "+d.Driver+" "+d.Parent+fmt.Sprint(d.Software))
			}
			if want := []string{"rxe0 rdma_rxe veth0true", "rxe1 rdma_rxe veth2true", "rxe6 rdma_rxe veth6true"}; !slices.Equal(names, want) {
				t.Errorf("%v", names)
			}
			veth6 := slices.IndexFunc(h.Net, func(d struct {
				Name      string
				MTU       int
				Addresses []string
			}) bool {
				return d.Name == "veth6"
			})
			if h.Kernel == "" || h.RDMA.NetNS != "shared" || veth6 < 0 || h.Net[veth6].MTU != 4200 || !slices.Contains(h.Net[veth6].Addresses, "fd00:96::1/64") {
				t.Errorf("%+v", h)
			}
		}
	})
	t.Run("captured", func(t *testing.T) {
		var c examined
		must(t, json.Unmarshal(outside(t, 0, "doctor", "--json", "--root", capture), &c))
		if !slices.Equal(c.said(), live.said()) {
			t.Errorf("captured: %v\nlive: %v", c.said(), live.said())
		}
		if len(c.Ports) != len(live.Ports) {
			t.Fatalf("%d ports, live %d", len(c.Ports), len(live.Ports))
		}
		for i, p := range c.Ports {
			q := live.Ports[i]
			if p.Device != q.Device || p.Verdict != q.Verdict || p.GIDType != q.GIDType || p.PathMTU != q.PathMTU || !slices.Equal(p.Codes, q.Codes) || p.GID != q.GID {
				t.Errorf("captured %+v, live %+v", p, q)
			}
		}
		for line := range strings.Lines(string(outside(t, 0, "doctor", "--root", capture))) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 100 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	})
	t.Run("peer", func(t *testing.T) {
		var c compared
		must(t, json.Unmarshal(read(t, "peer", 0), &c))
		c.find(t, "pair.data-address", "ok", "over roce, verified messages")
		c.find(t, "pair.data-address", "ok", "over tcp, verified messages")
		if len(c.Proofs) != 2 || !c.Proofs[0].Passed || !c.Proofs[1].Passed {
			t.Errorf("%+v", c.Proofs)
		}
	})
	for _, c := range []struct {
		step, verdict, code, evidence string
		status                        int
	}{
		{"memlock", "unusable", "verbs.memlock", "65536 bytes", 3},
		{"user", "unusable", "verbs.memlock-bounding", "65536 bytes", 3},
		{"partial", "usable", "verbs.no-node", "ENOENT", 0},
		{"no-nodes", "unusable", "verbs.no-node", "ENOENT", 3},
		{"down", "usable", "verbs.port-down", "DOWN", 0},
	} {
		t.Run(c.step, func(t *testing.T) {
			e := examine(t, c.step, c.status)
			if got := e.verdict("roce"); got != c.verdict {
				t.Errorf("roce is %s, want %s", got, c.verdict)
			}
			if got := e.evidence("roce", c.code); !strings.Contains(got, c.evidence) {
				t.Errorf("%s: %q is not in %q; %v", c.code, c.evidence, got, e.said())
			}
		})
	}
}
