package need_test

import (
	"fmt"
	"strings"
	"testing"

	"hopbench/transports/transporttest/need"
)

type recorder struct{ skipped, failed string }

func (*recorder) Helper()                     {}
func (r *recorder) Skipf(f string, a ...any)  { r.skipped = fmt.Sprintf(f, a...) }
func (r *recorder) Fatalf(f string, a ...any) { r.failed = fmt.Sprintf(f, a...) }

func TestWhatIsMissingSkipsAndFailsWhereRequired(t *testing.T) {
	const absent = "no-such-program-of-hopbench"
	for _, k := range []struct {
		require string
		fails   bool
	}{{"", false}, {"namespaces", false}, {"tool", true}, {"guest,tool", true}, {"toolbox", false}} {
		t.Setenv(need.Require, k.require)
		r := &recorder{}
		need.Tool(r, absent)
		got := r.skipped
		if k.fails {
			got = r.failed
		}
		if !strings.Contains(got, absent) || !strings.HasPrefix(got, "needs tool") || (r.failed != "") != k.fails {
			t.Errorf("%q required: skipped %q, failed %q", k.require, r.skipped, r.failed)
		}
	}
}

func TestWhatIsThereIsFound(t *testing.T) {
	r := &recorder{}
	if path := need.Tool(r, "sh"); path == "" || r.skipped != "" || r.failed != "" {
		t.Errorf("sh is at %q; skipped %q, failed %q", path, r.skipped, r.failed)
	}
}

func TestABrowserIsRequiredByItsKind(t *testing.T) {
	t.Setenv("PATH", "/nowhere")
	t.Setenv(need.Require, "namespaces")
	r := &recorder{}
	if need.Browser(r); !strings.HasPrefix(r.skipped, "needs browser") || r.failed != "" {
		t.Errorf("not required: skipped %q, failed %q", r.skipped, r.failed)
	}
	t.Setenv(need.Require, "browser")
	if need.Browser(r); !strings.Contains(r.failed, "Debian: chromium") {
		t.Errorf("required: failed %q", r.failed)
	}
}

func TestNamespacesAreProbedByDoing(t *testing.T) {
	t.Setenv("PATH", "/nowhere")
	t.Setenv(need.Require, "namespaces")
	r := &recorder{}
	need.Namespaces(r)
	if !strings.Contains(r.failed, "iproute2") {
		t.Errorf("without ip on the path: skipped %q, failed %q", r.skipped, r.failed)
	}
}

func TestEnginesThatAreMissingAreNamedWithTheirPackages(t *testing.T) {
	t.Setenv("PATH", "/nowhere")
	for _, k := range []struct {
		kind, says string
		ask        func(need.T)
	}{
		{"slurm", "Debian: munge, slurmctld, slurmd, slurm-client", need.Slurm},
		{"mpi", "mpirun.openmpi (Debian: openmpi-bin)", func(t need.T) { need.MPI(t, "Open MPI") }},
		{"mpi", "mpiexec.hydra (Debian: mpich)", func(t need.T) { need.MPI(t, "MPICH") }},
	} {
		t.Setenv(need.Require, "guest")
		r := &recorder{}
		k.ask(r)
		if !strings.HasPrefix(r.skipped, "needs "+k.kind+": ") || !strings.Contains(r.skipped, k.says) || r.failed != "" {
			t.Errorf("skipped %q, failed %q", r.skipped, r.failed)
		}
		t.Setenv(need.Require, "namespaces,"+k.kind)
		r = &recorder{}
		k.ask(r)
		if !strings.Contains(r.failed, k.says) || r.skipped != "" {
			t.Errorf("required: skipped %q, failed %q", r.skipped, r.failed)
		}
	}
}
