package verbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/transporttest"
)

var double = sync.OnceValues(func() (string, error) {
	source := "../internal/ibverbs/testdata/fakeverbs"
	dir, err := os.MkdirTemp("", "fakeverbs")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "libibverbs.so.1")
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-O2", "-pthread", "-Wl,-soname,libibverbs.so.1", "-Wl,--version-script="+source+"/fakeverbs.map",
		"-o", path, source+"/fakeverbs.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// onDouble makes this process open a double of libibverbs that moves bytes inside the process.
func onDouble(t *testing.T, env ...string) {
	t.Helper()
	if os.Getenv("HOPBENCH_RXE") != "" {
		t.Skip("this process has the real library: the double is for machines without RDMA")
	}
	path, err := double()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(LibraryVariable, path)
	t.Setenv("FAKEVERBS_LINK", "2")
	for i := 0; i+1 < len(env); i += 2 {
		t.Setenv(env[i], env[i+1])
	}
}

func TestConformanceOverTheDouble(t *testing.T) {
	for _, d := range []struct {
		driver transports.Driver
		link   string
	}{{RoCE(), "2"}, {InfiniBand(), "1"}} {
		t.Run(d.driver.Name(), func(t *testing.T) {
			onDouble(t, "FAKEVERBS_LINK", d.link)
			o := transports.Options{Device: "fake0"}
			transporttest.Run(t, transporttest.Config{Initiator: d.driver, InitiatorOptions: o, TargetOptions: o})
		})
	}
}

func TestMessagesAreCutAtThePortsMaximum(t *testing.T) {
	onDouble(t, "FAKEVERBS_MAX_MESSAGE", "1000")
	o := transports.Options{Device: "fake0"}
	p := mustConnect(t, setup{options: [2]transports.Options{o, o}, endpoint: transports.EndpointOptions{Pieces: 7}})
	for _, op := range transports.Ops() {
		p.verify(t, op, list(4321, 6, 7, 1<<20))
	}
	if path := p[0].endpoint.Path(); path.Realm != transports.Double {
		t.Errorf("realm %s over a double", path.Realm)
	}
}

// TestRefusalsAreTold has the double refuse each step, and holds the code and the words.
func TestRefusalsAreTold(t *testing.T) {
	errno := func(e syscall.Errno) string { return fmt.Sprint(int(e)) }
	for _, c := range []struct {
		name, variable, value string
		code                  fault.Code
		words                 []string
	}{
		{"no kernel stack", "FAKEVERBS_ENOSYS", "1", fault.RDMANoStack, []string{"ENOSYS"}},
		{"no device", "FAKEVERBS_DEVICES", "0", fault.RDMANoDevice, nil},
		{"port down", "FAKEVERBS_STATE", "1", fault.RDMAPortDown, []string{"DOWN"}},
		{"no such link layer", "FAKEVERBS_LINK", "0", fault.RDMALinkLayer, []string{"Unknown"}},
		{"iWARP", "FAKEVERBS_NODE_TYPE", "4", fault.RDMAIWARP, []string{"connection manager"}},
		{"node type 7", "FAKEVERBS_NODE_TYPE", "7", fault.RDMANodeType, []string{"7"}},
		{"node refused", "FAKEVERBS_FAIL_OPEN", errno(syscall.EACCES), fault.RDMANodeRefused, []string{"uverbs0"}},
		{"node missing", "FAKEVERBS_FAIL_OPEN", errno(syscall.ENOENT), fault.RDMANoNode, []string{"uverbs0"}},
		{"registration", "FAKEVERBS_FAIL_MR", errno(syscall.EFAULT), fault.VerbsRegister, []string{"EFAULT (14)"}},
		{"queue pair", "FAKEVERBS_FAIL_QP", errno(syscall.EOPNOTSUPP), fault.VerbsQueues, []string{"EOPNOTSUPP (95)", "no reliable connections"}},
		{"RTR, attributes", "FAKEVERBS_FAIL_RTR", errno(syscall.EINVAL), fault.VerbsAttributes, []string{"EINVAL (22)", "route header", "GID index", "path MTU"}},
		{"RTR, address", "FAKEVERBS_FAIL_RTR", errno(syscall.ETIMEDOUT), fault.VerbsAddress, []string{"ETIMEDOUT (110)"}},
		{"RTR, GID", "FAKEVERBS_FAIL_RTR", errno(syscall.ENODEV), fault.VerbsGIDGone, []string{"ENODEV (19)"}},
		{"RTR, route", "FAKEVERBS_FAIL_RTR", errno(syscall.ENETUNREACH), fault.VerbsNoRoute, []string{"ENETUNREACH (101)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onDouble(t, c.variable, c.value)
			o := transports.Options{Device: "fake0"}
			_, err := connect(t, setup{options: [2]transports.Options{o, o}})
			wantCode(t, err, c.code, c.words...)
		})
	}
}

func TestEachStatusHasItsWords(t *testing.T) {
	for status, code := range statusCodes {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			onDouble(t, "FAKEVERBS_FAIL_AT", "60", "FAKEVERBS_STATUS", fmt.Sprint(status))
			o := transports.Options{Device: "fake0"}
			p := mustConnect(t, setup{options: [2]transports.Options{o, o}})
			err := p.run(&transports.Loop{Op: transports.Write, Lists: []transports.List{list(64, 1, 1, 4096)}, Depth: 4, Count: 200})
			wantCode(t, err, code, fmt.Sprintf("status %d", status))
			var e *fault.Error
			errors.As(err, &e)
			if whole := fmt.Sprintf("%+v", e); status == 12 && !containsAll(whole, "excluded: GID", "excluded: the local port") {
				t.Errorf("what was excluded is not said: %s", whole)
			}
		})
	}
}

func containsAll(s string, words ...string) bool {
	for _, w := range words {
		if !strings.Contains(s, w) {
			return false
		}
	}
	return true
}

func TestNoLibrary(t *testing.T) {
	if os.Getenv("VERBS_CHILD") != "nolibrary" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command(self, "-test.run", "^TestNoLibrary$")
		c.Env = append(os.Environ(), "VERBS_CHILD=nolibrary", LibraryVariable+"=/nowhere/libibverbs.so.1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	_, err := RoCE().Open(context.Background(), transports.Options{})
	wantCode(t, err, fault.RDMANoLibrary, "/nowhere/libibverbs.so.1")
	if err := InfiniBand().Probe(context.Background()); fault.CodeOf(err) != fault.RDMANoLibrary {
		t.Error(err)
	}
}
