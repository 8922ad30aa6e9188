package verbs

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/cuda/cudatest"
	"hopbench/transports/mem"
	"hopbench/transports/transporttest"
)

// overInterposer runs the test of the given name in a fresh process that opens the interposer instead of libibverbs.
func overInterposer(t *testing.T, name string, env ...string) {
	t.Helper()
	onRXE(t)
	lib := os.Getenv("HOPBENCH_INTERPOSER")
	if lib == "" {
		t.Skip("HOPBENCH_INTERPOSER does not name the interposer: scripts/test-verbs.sh builds it")
	}
	inChild(t, name, append(env, LibraryVariable+"="+lib)...)
}

// inChild runs the test of the given name in a fresh process: what it loads stays there.
func inChild(t *testing.T, name string, env ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "-test.v", "-test.run", "^"+name+"$")
	c.Env = append(os.Environ(), append(env, "VERBS_CHILD="+name)...)
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+name) {
		t.Errorf("%v: %s", err, out)
		return
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "seen:") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

func child(t *testing.T) {
	if os.Getenv("VERBS_CHILD") != t.Name() {
		t.Skip("the body of another test's process")
	}
}

func TestInfiniBandByLID(t *testing.T) {
	overInterposer(t, "TestInfiniBandByLIDChild", "INTERPOSER_LINK=infiniband")
}

func TestInfiniBandByLIDChild(t *testing.T) {
	child(t)
	p := mustConnect(t, setup{driver: InfiniBand()})
	path := p[0].endpoint.Path()
	if path.LinkLayer != "InfiniBand" || path.Remote != "LID 7" || path.Realm != transports.Double || path.Settings["route_header"] != "false" {
		t.Errorf("%+v", path)
	}
	for _, w := range path.Warnings {
		if strings.Contains(w, "link-local") {
			t.Errorf("a link-local prefix is normal on InfiniBand: %s", w)
		}
	}
	for _, op := range transports.Ops() {
		p.verify(t, op, list(30_000, 8, 1, 1<<20))
	}
	_, err := connect(t, setup{})
	wantCode(t, err, fault.RDMALinkLayer, "InfiniBand")
	t.Logf("seen: %s to %s, %s", path.Device, path.Remote, path.LinkLayer)
}

func TestInfiniBandWithRouteHeader(t *testing.T) {
	overInterposer(t, "TestInfiniBandWithRouteHeaderChild", "INTERPOSER_LINK=infiniband", "INTERPOSER_GRH=1", "INTERPOSER_PKEY=0x7fff")
}

func TestInfiniBandWithRouteHeaderChild(t *testing.T) {
	child(t)
	p := mustConnect(t, setup{driver: InfiniBand()})
	path := p[0].endpoint.Path()
	if path.Settings["route_header"] != "true" {
		t.Errorf("no route header, which the port requires: %+v", path)
	}
	if text := strings.Join(path.Warnings, "\n"); !strings.Contains(text, "0x7fff") {
		t.Errorf("no warning of a limited partition key: %q", text)
	}
	p.verify(t, transports.Write, list(30_000, 8, 1, 1<<20))
	t.Logf("seen: %s", strings.Join(path.Warnings, "; "))
}

func TestInfiniBandConformance(t *testing.T) {
	overInterposer(t, "TestInfiniBandConformanceChild", "INTERPOSER_LINK=infiniband")
}

func TestInfiniBandConformanceChild(t *testing.T) {
	child(t)
	o := transports.Options{Device: "rxe0"}
	for _, k := range transporttest.Cases() {
		switch k.Name {
		case "every size arrives whole", "many pieces": // the same code and the same bytes as over RoCE, and slow here
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			k.Run(t, transporttest.Config{Initiator: InfiniBand(), Slow: true, InitiatorOptions: o, TargetOptions: o})
		})
	}
}

func TestGPUDirectByDMABuf(t *testing.T) { overInterposer(t, "TestGPUDirectByDMABufChild") }

func TestGPUDirectByDMABufChild(t *testing.T) {
	child(t)
	cudatest.Load(t, "FAKECUDA_DEVICES", "1")
	gpu := mem.Spec{Kind: mem.CUDA, Device: "0"}
	p := mustConnect(t, setup{memory: gpu})
	path := p[0].endpoint.Path()
	if path.GPUWay != transports.DMABuf || path.Realm != transports.Double || path.Settings["inline"] != "0" {
		t.Errorf("%+v", path)
	}
	for _, op := range transports.Ops() {
		p.verify(t, op, list(30_000, 8, 1, 1<<20))
	}
	// The answer cannot be watched in device memory, so it comes as a completion.
	l := &transports.Loop{Op: transports.Write, Lists: []transports.List{{Pieces: []transports.Piece{{Length: 8}}, Ends: []uint32{1}}}, Depth: 1, Count: 20, Echo: true, ReplyOffset: 4096}
	if err := p.run(l); err != nil {
		t.Error(err)
	}
	t.Logf("seen: %s", transports.Label("roce", path, p[1].endpoint.Path()))
}

func TestGPUDirectRefused(t *testing.T) {
	onRXE(t)
	if os.Getenv("VERBS_CHILD") == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(self, "-test.v", "-test.run", "^TestGPUDirectRefused$")
		c.Env = append(os.Environ(), "VERBS_CHILD=refused")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	cudatest.Load(t, "FAKECUDA_DEVICES", "1")
	for way, code := range map[string]fault.Code{"dmabuf": fault.GDRDMABuf} {
		_, err := connect(t, setup{memory: mem.Spec{Kind: mem.CUDA, Device: "0"}, options: [2]transports.Options{set("gpu-direct", way), set("gpu-direct", way)}})
		wantCode(t, err, code, "EOPNOTSUPP (95)", "nvidia-peermem is not loaded")
	}
}
