package rank

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"hopbench/transports/transporttest/need"
)

// role, in the environment of this test's own executable, makes it a rank: it prints what Find says, as one line.
const role = "HOPBENCH_RANK_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	r, err := Find(os.Getenv, Overrides{})
	said := struct {
		Rank
		Err string
	}{Rank: r}
	if err != nil {
		said.Err = err.Error()
	}
	line, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	fmt.Printf("rank: %s\n", line)
	os.Exit(0)
}

// said is what one started process found.
type said struct {
	Rank
	Err string
}

// start runs a command line with this executable as a rank, and returns what it printed.
func start(t *testing.T, env []string, argv ...string) string {
	t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	// What started this test may have an engine's variables itself.
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "SLURM") && !strings.HasPrefix(e, "OMPI_") && !strings.HasPrefix(e, "PMI") && !strings.HasPrefix(e, "HOPBENCH_") {
			c.Env = append(c.Env, e)
		}
	}
	// The race detector keeps a process for a second at its end: there are dozens.
	c.Env = append(append(c.Env, role+"=1", "GORACE=atexit_sleep_ms=0"), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// launch starts ranks by a launcher's command line.
func launch(t *testing.T, env []string, argv ...string) []said {
	t.Helper()
	return spoken(t, start(t, env, argv...))
}

// spoken is what the ranks said, in the order of their numbers.
func spoken(t *testing.T, out string) (all []said) {
	t.Helper()
	for line := range strings.Lines(out) {
		_, text, ok := strings.Cut(line, "rank: ")
		if !ok {
			continue
		}
		var s said
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b said) int { return a.Number - b.Number })
	return all
}

// self is this test's executable.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// numbered holds ranks to one each from 0 to size-1 with one idea of the first.
func numbered(t *testing.T, all []said, size, perHost int, first, source string) {
	t.Helper()
	if len(all) != size {
		t.Fatalf("%d ranks spoke, want %d: %+v", len(all), size, all)
	}
	hosts := map[int]int{} // how many ranks have a local number
	for i, r := range all {
		if r.Err != "" || r.Number != i || r.Size != size || r.LocalSize != perHost || r.First != first || !strings.Contains(r.Source, source) {
			t.Errorf("rank %d: %+v; want %d ranks a host, the first at %s, from %s", i, r, perHost, first, source)
		}
		hosts[r.LocalNumber]++
	}
	if len(hosts) != perHost {
		t.Errorf("local numbers %v", hosts)
	}
}

// asRoot lets Open MPI run as root, which it refuses otherwise.
var asRoot = []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}

func TestOpenMPI(t *testing.T) {
	mpirun := need.MPI(t, "Open MPI")
	numbered(t, launch(t, asRoot, mpirun, "--oversubscribe", "-n", "4", self(t)), 4, 4, "127.0.0.1", "Open MPI (")
}

// Two hosts, as far as Open MPI can tell: the second is reached by a remote shell that starts its daemon here.
func TestOpenMPIOnTwoHosts(t *testing.T) {
	mpirun := need.MPI(t, "Open MPI")
	shell := remoteShell(t)
	args := []string{mpirun, "--mca", "plm_rsh_agent", shell, "--host", "localhost:2,hopbench-b:2", "-n", "4"}
	for _, r := range launch(t, asRoot, append(args, self(t))...) {
		if !strings.Contains(r.Err, "Open MPI does not tell it") || !strings.Contains(r.Err, "HOPBENCH_FIRST") {
			t.Errorf("%+v", r)
		}
	}
	args = append(args, "-x", "HOPBENCH_FIRST")
	numbered(t, launch(t, append(asRoot, "HOPBENCH_FIRST=a:1"), append(args, self(t))...), 4, 2, "a:1", "HOPBENCH_FIRST")
}

func TestMPICH(t *testing.T) {
	hydra := need.MPI(t, "MPICH")
	numbered(t, launch(t, nil, hydra, "-n", "4", self(t)), 4, 4, "127.0.0.1", "MPICH (")
}

func TestMPICHOnTwoHosts(t *testing.T) {
	hydra := need.MPI(t, "MPICH")
	shell := remoteShell(t)
	args := []string{hydra, "-launcher", "ssh", "-launcher-exec", shell, "-hosts", "localhost,hopbench-b", "-n", "4", "-ppn", "2"}
	for _, r := range launch(t, nil, append(args, self(t))...) {
		if !strings.Contains(r.Err, "MPICH does not tell it") {
			t.Errorf("%+v", r)
		}
	}
	numbered(t, launch(t, []string{"HOPBENCH_FIRST=a:1"}, append(args, self(t))...), 4, 2, "a:1", "HOPBENCH_FIRST")
}

// remoteShell stands in for ssh: it drops the options and the host, and runs the command here.
func remoteShell(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rsh")
	script := "#!/bin/sh\nwhile :; do case $1 in -*) shift ;; *) break ;; esac; done\nshift\nexec sh -c \"$*\"\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Each part is a command line in a cluster of four nodes, whose ranks must say the same.
var slurmParts = []struct {
	name, command string
	ranks         int
	perHost       string // ranks of each rank's host, in the order of the ranks; "" where the scheduler decides
	first         string
	says          string // in the source, or in the error where first is ""
}{
	{"two nodes", "srun -N 2 -n 4 --ntasks-per-node=2 $SELF", 4, "2 2 2 2", "n1", "first of SLURM_STEP_NODELIST=n[1-2]"},
	{"one node", "srun -N 1 -n 4 $SELF", 4, "4 4 4 4", "127.0.0.1", "all 4 ranks are on this host"},
	{"cyclic", "srun -N 3 -n 5 -m cyclic $SELF", 5, "", "n1", "SLURM_STEP_NODELIST=n[1-3]"},
	{"some nodes", "srun -w n[4,2] -N 2 -n 2 $SELF", 2, "1 1", "n2", "SLURM_STEP_NODELIST=n[2,4]"},
	{"PMI-2", "srun --mpi=pmi2 -N 2 -n 2 $SELF", 2, "1 1", "n1", "Slurm ("},
	{"host file", "SLURM_HOSTFILE=$PWD/hosts srun -m arbitrary -n 3 $SELF", 3, "", "", "SLURM_DISTRIBUTION=arbitrary"},
	{"host file, first told", "SLURM_HOSTFILE=$PWD/hosts HOPBENCH_FIRST=n3:9 srun -m arbitrary -n 3 $SELF", 3, "2 1 2", "n3:9", "HOPBENCH_FIRST"},
	{"shell of salloc", "salloc -Q -N 2 -n 4 $SELF", 1, "", "", "start the ranks with srun"},
	{"srun in salloc", "salloc -Q -N 2 -n 4 srun $SELF", 4, "", "n1", "Slurm ("},
	{"fewer than salloc", "salloc -Q -N 2 -n 8 srun -N 2 -n 2 $SELF", 2, "1 1", "n1", "Slurm ("},
	{"script of sbatch", "batch -N 2 -n 4 ./alone", 1, "", "", "start the ranks with srun"},
	{"srun in a script of sbatch", "batch -N 2 -n 4 --ntasks-per-node=2 ./with-srun", 4, "2 2 2 2", "n1", "Slurm ("},
	{"script that a task submits", "batch_in_step -N 2 -n 4 ./alone", 1, "", "", "start the ranks with srun"},
	{"srun in a script that a task submits", "batch_in_step -N 2 -n 4 --ntasks-per-node=2 ./with-srun", 4, "2 2 2 2", "n1", "Slurm ("},
}

// MPI's launchers use srun to start their daemons, which leaves the variables of two engines.
var slurmMPIParts = []struct{ mpi, name, command, says string }{
	{"Open MPI", "mpirun in salloc", "salloc -Q -N 2 -n 4 --ntasks-per-node=2 mpirun.openmpi -x HOPBENCH_FIRST $SELF", "Open MPI ("},
	{"Open MPI", "mpirun in a script of sbatch", "batch -N 2 -n 4 --ntasks-per-node=2 ./with-mpirun", "Open MPI ("},
	{"MPICH", "mpiexec.hydra in salloc", "salloc -Q -N 2 -n 4 --ntasks-per-node=2 mpiexec.hydra $SELF", "MPICH ("},
}

func TestSlurm(t *testing.T) {
	need.Slurm(t)
	dir := t.TempDir()
	var script strings.Builder
	script.WriteString(`#!/bin/bash
cd "$(dirname "$0")"
printf 'n3\nn1\nn3\n' >hosts
for starter in '' srun mpirun.openmpi; do
  file=alone; [[ -z $starter ]] || file=with-${starter%.openmpi}
  options=; [[ $starter != mpirun.openmpi ]] || options='-x HOPBENCH_FIRST'
  printf '#!/bin/bash\n%s %s "$SELF"\n' "$starter" "$options" >$file
done
ended() { until [[ -z $(squeue --noheader) ]]; do sleep 0.1; done; }
batch() { sbatch -Q -o batch.out "$@"; ended; cat batch.out; }
batch_in_step() { srun -n 1 sbatch -Q -o batch.out "$@"; ended; cat batch.out; }
`)
	for _, p := range slurmParts {
		fmt.Fprintf(&script, "echo 'part: %s'\n%s\nended\n", p.name, p.command)
	}
	var mpi []string
	for _, p := range slurmMPIParts {
		if path := map[string]string{"Open MPI": "mpirun.openmpi", "MPICH": "mpiexec.hydra"}[p.mpi]; exec.Command("which", path).Run() != nil {
			continue // the tests of this MPI say that it is missing
		}
		mpi = append(mpi, p.name)
		fmt.Fprintf(&script, "echo 'part: %s'\nHOPBENCH_FIRST=n1 %s\nended\n", p.name, p.command)
	}
	path := filepath.Join(dir, "all")
	if err := os.WriteFile(path, []byte(script.String()), 0o755); err != nil {
		t.Fatal(err)
	}
	out := start(t, append(asRoot, "SELF="+self(t)), "../../../scripts/slurm/cluster.sh", "--nodes", "4", path)
	parts := map[string]string{}
	for text := range strings.SplitSeq(out, "part: ") {
		name, text, _ := strings.Cut(text, "\n")
		parts[name] = text
	}
	for _, p := range slurmParts {
		t.Run(p.name, func(t *testing.T) {
			all := spoken(t, parts[p.name])
			if len(all) != p.ranks {
				t.Fatalf("%d ranks spoke, want %d:\n%s", len(all), p.ranks, parts[p.name])
			}
			var perHost []string
			for i, r := range all {
				if p.first == "" {
					if !strings.Contains(r.Err, p.says) {
						t.Errorf("%+v", r)
					}
					continue
				}
				perHost = append(perHost, fmt.Sprint(r.LocalSize))
				if len(r.HostOf) != p.ranks || strings.Join(r.HostOf, " ") != strings.Join(all[0].HostOf, " ") {
					unknown := strings.Contains(p.name, "host file")
					if len(r.HostOf) > 0 || !unknown {
						t.Errorf("rank %d thinks that the ranks are on %q, and rank 0 that they are on %q", i, r.HostOf, all[0].HostOf)
					}
				}
				if r.Err != "" || r.Number != i || r.Size != p.ranks || r.First != p.first || !strings.Contains(r.Source, p.says) {
					t.Errorf("rank %d: %+v", i, r)
				}
			}
			got := strings.Join(perHost, " ")
			if p.perHost != "" && got != p.perHost {
				t.Errorf("%s ranks a host, want %s", got, p.perHost)
			}
			for _, k := range perHost { // as many ranks say "one of k" as fill hosts of k
				if n, _ := strconv.Atoi(k); n == 0 || strings.Count(" "+got+" ", " "+k)%n != 0 {
					t.Errorf("%s ranks a host do not add up", got)
				}
			}
		})
	}
	for _, p := range slurmMPIParts {
		if slices.Contains(mpi, p.name) {
			t.Run(p.name, func(t *testing.T) { numbered(t, spoken(t, parts[p.name]), 4, 2, "n1", p.says) })
		}
	}
}
