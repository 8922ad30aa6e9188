package rank

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// env makes a getenv of KEY=VALUE words.
func env(words ...string) func(string) string {
	m := map[string]string{}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		m[k] = v
	}
	return func(k string) string { return m[k] }
}

func set(text string) []string { return strings.Fields(text) }

func number(n int) *int { return &n }

// captured reads an environment of testdata: KEY=VALUE lines, and comments that say how it was captured.
func captured(t *testing.T, name string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".env"))
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			words = append(words, line)
		}
	}
	return words
}

const (
	torchRun  = "TORCHELASTIC_RUN_ID=none TORCHELASTIC_USE_AGENT_STORE=True RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500"
	ompi      = "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2"
	ompiOne   = "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=4"
	mpich     = "PMI_RANK=1 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4"
	step      = "SLURM_STEP_TASKS_PER_NODE=2(x2) SLURM_NODEID=1 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=1 SLURM_GTIDS=2,3 SLURM_STEP_NODELIST=node[01-02]"
	batch     = "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_LOCALID=0 SLURM_GTIDS=0 SLURM_JOB_NODELIST=node[01-02]"
	variables = "RANK=1 WORLD_SIZE=4 MASTER_ADDR=head MASTER_PORT=23456"
	pod       = "JOB_COMPLETION_INDEX=2 HOPBENCH_SIZE=4 HOPBENCH_FIRST=mesh-0.mesh:18515"
)

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name   string
		env    string
		o      Overrides
		want   Rank // without Hosts and Source
		hosts  string
		source []string // parts, in their order
	}{
		{"torchrun", torchRun, Overrides{}, Rank{Number: 3, Size: 4, LocalNumber: 1, LocalSize: 2, First: "10.0.0.1"}, "", []string{"torchrun (RANK=3, WORLD_SIZE=4)", "rank 0 at 10.0.0.1 (MASTER_ADDR)"}},
		{"Open MPI on one host", ompiOne, Overrides{}, Rank{Number: 2, Size: 4, LocalNumber: 2, LocalSize: 4, First: "127.0.0.1"}, "", []string{"Open MPI (OMPI_COMM_WORLD_RANK=2, OMPI_COMM_WORLD_SIZE=4)", "loopback", "all 4 ranks"}},
		{"Open MPI, first by variable", ompi + " HOPBENCH_FIRST=node1:4000", Overrides{}, Rank{Number: 2, Size: 4, LocalSize: 2, First: "node1:4000"}, "", []string{"rank 0 at node1:4000 (HOPBENCH_FIRST)"}},
		{"Open MPI, first by flag", ompi + " HOPBENCH_FIRST=node1:4000", Overrides{First: "fd00::1"}, Rank{Number: 2, Size: 4, LocalSize: 2, First: "fd00::1"}, "", []string{"--first"}},
		{"Open MPI, first by MASTER_ADDR", ompi + " MASTER_ADDR=node1 MASTER_PORT=29500", Overrides{}, Rank{Number: 2, Size: 4, LocalSize: 2, First: "node1"}, "", []string{"MASTER_ADDR"}},
		{"MPICH on one host", mpich, Overrides{}, Rank{Number: 1, Size: 4, LocalNumber: 1, LocalSize: 4, First: "127.0.0.1"}, "", []string{"MPICH (PMI_RANK=1, PMI_SIZE=4)", "loopback"}},
		{"Slurm", step, Overrides{}, Rank{Number: 3, Size: 4, LocalNumber: 1, LocalSize: 2, First: "node01"}, "node01 node02", []string{"Slurm (SLURM_PROCID=3, SLURM_STEP_NUM_TASKS=4)", "first of SLURM_STEP_NODELIST=node[01-02]"}},
		{"Slurm on one host", strings.ReplaceAll(step, "[01-02]", "01"), Overrides{}, Rank{Number: 3, Size: 4, LocalNumber: 1, LocalSize: 2, First: "127.0.0.1"}, "node01", []string{"loopback"}},
		{"PMI-2 of Slurm", step + " PMI_RANK=3 PMI_SIZE=4 PMI_FD=16", Overrides{}, Rank{Number: 3, Size: 4, LocalNumber: 1, LocalSize: 2, First: "node01"}, "node01 node02", []string{"Slurm ("}},
		{"PMIx of Slurm", step + " PMIX_RANK=3", Overrides{}, Rank{Number: 3, Size: 4, LocalNumber: 1, LocalSize: 2, First: "node01"}, "node01 node02", []string{"Slurm ("}},
		{"variables alone", variables, Overrides{}, Rank{Number: 1, Size: 4, First: "head:23456"}, "", []string{"RANK and WORLD_SIZE (RANK=1, WORLD_SIZE=4)", "head:23456 (MASTER_ADDR, MASTER_PORT)"}},
		{"a Job", pod, Overrides{}, Rank{Number: 2, Size: 4, LocalSize: 1, First: "mesh-0.mesh:18515"}, "", []string{"Kubernetes Job (JOB_COMPLETION_INDEX=2, HOPBENCH_SIZE 4)", "HOPBENCH_FIRST"}},
		{"a Job, size by flag", "JOB_COMPLETION_INDEX=2 HOPBENCH_SIZE=9", Overrides{Size: number(4), First: "a"}, Rank{Number: 2, Size: 4, LocalSize: 1, First: "a"}, "", []string{"--size 4"}},
		{"one pod", "JOB_COMPLETION_INDEX=0 HOPBENCH_SIZE=1", Overrides{}, Rank{Number: 0, Size: 1, LocalSize: 1, First: "127.0.0.1"}, "", []string{"only rank"}},
		{"PMIx and a size", "PMIX_RANK=1 HOPBENCH_SIZE=2 HOPBENCH_FIRST=[fd00::1]:5", Overrides{}, Rank{Number: 1, Size: 2, First: "[fd00::1]:5"}, "", []string{"PMIx (PMIX_RANK=1, HOPBENCH_SIZE 2)"}},
		{"flags", "", Overrides{Number: number(1), Size: number(2), First: "a:1"}, Rank{Number: 1, Size: 2, First: "a:1"}, "", []string{"flags (--rank 1, --size 2)"}},
		{"flags, local", "", Overrides{Number: number(1), Size: number(2), LocalNumber: number(1), LocalSize: number(2)}, Rank{Number: 1, Size: 2, LocalNumber: 1, LocalSize: 2, First: "127.0.0.1"}, "", nil},

		{"mpirun in a script of sbatch", batch + " " + ompiOne, Overrides{}, Rank{Number: 2, Size: 4, LocalNumber: 2, LocalSize: 4, First: "127.0.0.1"}, "", []string{"Open MPI", "not used: Slurm (SLURM_JOB_ID=7, SLURM_PROCID=0, SLURM_NTASKS=4)"}},
		{"mpirun whose daemons are a step", strings.ReplaceAll(step, "=4", "=2") + " SLURM_PROCID=1 " + ompiOne, Overrides{}, Rank{Number: 2, Size: 4, LocalNumber: 2, LocalSize: 4, First: "127.0.0.1"}, "", []string{"Open MPI", "not used: Slurm, which says rank 1 of 2"}},
		{"mpiexec.hydra in a step", step + " " + mpich, Overrides{}, Rank{Number: 1, Size: 4, LocalNumber: 1, LocalSize: 4, First: "127.0.0.1"}, "", []string{"MPICH", "not used: Slurm, which says rank 3 of 4"}},
		{"torchrun under srun", step + " " + torchRun + " WORLD_SIZE=8", Overrides{}, Rank{Number: 3, Size: 8, LocalNumber: 1, LocalSize: 2, First: "10.0.0.1"}, "", []string{"torchrun", "not used: Slurm, which says rank 3 of 4"}},
		{"torchrun in a Job", pod + " " + torchRun, Overrides{}, Rank{Number: 3, Size: 4, LocalNumber: 1, LocalSize: 2, First: "mesh-0.mesh:18515"}, "", []string{"torchrun", "not used: Kubernetes Job, which says rank 2 of 4"}},
		{"mpirun in an operator's pod", variables + " " + ompiOne, Overrides{}, Rank{Number: 2, Size: 4, LocalNumber: 2, LocalSize: 4, First: "127.0.0.1"}, "", []string{"Open MPI", "not used: RANK and WORLD_SIZE, which says rank 1 of 4"}},
		{"srun in a pod", "JOB_COMPLETION_INDEX=0 " + step, Overrides{}, Rank{Number: 3, Size: 4, LocalNumber: 1, LocalSize: 2, First: "node01"}, "node01 node02", []string{"Slurm", "not used: Kubernetes Job (JOB_COMPLETION_INDEX=0)"}},
		{"a script that copies", step + " RANK=3 WORLD_SIZE=4 MASTER_ADDR=node01", Overrides{}, Rank{Number: 3, Size: 4, LocalNumber: 1, LocalSize: 2, First: "node01"}, "node01 node02", []string{"Slurm", "SLURM_STEP_NODELIST"}},
		{"half a pair beside an engine", step + " RANK=1", Overrides{}, Rank{Number: 3, Size: 4, LocalNumber: 1, LocalSize: 2, First: "node01"}, "node01 node02", []string{"Slurm", "not used: RANK and WORLD_SIZE (RANK=1)"}},
		{"a damaged outer engine", ompiOne + " SLURM_STEP_NUM_TASKS=x SLURM_PROCID=0", Overrides{}, Rank{Number: 2, Size: 4, LocalNumber: 2, LocalSize: 4, First: "127.0.0.1"}, "", []string{"Open MPI", "not used: SLURM_STEP_NUM_TASKS=x"}},
		{"flags over an engine", step, Overrides{Number: number(0), Size: number(2), First: "a"}, Rank{Number: 0, Size: 2, First: "a"}, "", []string{"flags", "not used: Slurm, which says rank 3 of 4"}},
		{"flags that agree with an engine", step, Overrides{Number: number(3), Size: number(4)}, Rank{Number: 3, Size: 4, LocalNumber: 1, LocalSize: 2, First: "node01"}, "node01 node02", []string{"flags", "Slurm says the same"}},
		{"flags in a script of sbatch", batch, Overrides{Number: number(3), Size: number(4), First: "a"}, Rank{Number: 3, Size: 4, First: "a"}, "", []string{"flags", "not used: Slurm"}},
		{"flags over a damaged engine", "OMPI_COMM_WORLD_RANK=3", Overrides{Number: number(0), Size: number(1)}, Rank{Number: 0, Size: 1, First: "127.0.0.1"}, "", []string{"flags", "not used: Open MPI (OMPI_COMM_WORLD_RANK=3): OMPI_COMM_WORLD_SIZE is not set"}},
		{"a host file, first by variable", step + " SLURM_DISTRIBUTION=arbitrary HOPBENCH_FIRST=node02", Overrides{}, Rank{Number: 3, Size: 4, LocalNumber: 1, LocalSize: 2, First: "node02"}, "node01 node02", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Find(env(set(c.env)...), c.o)
			if err != nil {
				t.Fatal(err)
			}
			hosts, source := strings.Join(got.Hosts, " "), got.Source
			got.Hosts, got.HostOf, got.Source = nil, nil, ""
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if hosts != c.hosts {
				t.Errorf("hosts %q, want %q", hosts, c.hosts)
			}
			rest := source
			for _, part := range c.source {
				at := strings.Index(rest, part)
				if at < 0 {
					t.Fatalf("source %q does not say %q where it should", source, part)
				}
				rest = rest[at:]
			}
		})
	}
}

func TestFindRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		env  string
		o    Overrides
		want []string
	}{
		{"nothing", "", Overrides{}, []string{"no variables", "srun", "--rank"}},
		{"rank alone", "", Overrides{Number: number(1)}, []string{"--rank 1", "--size"}},
		{"size alone", "", Overrides{Size: number(4)}, []string{"--size 4", "--rank"}},
		{"a size of ours alone", "HOPBENCH_SIZE=4", Overrides{}, []string{"HOPBENCH_SIZE 4", "--rank"}},
		{"a size that is none", "HOPBENCH_SIZE=four", Overrides{}, []string{"HOPBENCH_SIZE=four"}},
		{"a script of sbatch", batch, Overrides{}, []string{"SLURM_PROCID=0", "SLURM_NTASKS=4", "srun"}},
		{"a shell of salloc", "SLURM_JOB_ID=7 SLURM_NTASKS=4", Overrides{}, []string{"SLURM_NTASKS=4", "srun"}},
		{"an interactive step", step + " SLURM_STEP_ID=4294967290 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", Overrides{}, []string{"allocation", "srun"}},
		{"no rank in a step", step + " SLURM_PROCID=", Overrides{}, []string{"SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID is not set"}},
		{"a rank that is none", step + " SLURM_PROCID=-1", Overrides{}, []string{"SLURM_PROCID=-1"}},
		{"a rank above the size", step + " SLURM_PROCID=4", Overrides{}, []string{"SLURM_PROCID=4", "rank 4 is not below the size 4"}},
		{"two counts", step + " SLURM_NTASKS=8", Overrides{}, []string{"SLURM_STEP_NUM_TASKS=4", "SLURM_NTASKS=8", "srun"}},
		{"a local rank above", step + " SLURM_LOCALID=2", Overrides{}, []string{"SLURM_LOCALID=2", "SLURM_GTIDS=2,3"}},
		{"a broken node list", step + " SLURM_STEP_NODELIST=node[01-", Overrides{}, []string{"SLURM_STEP_NODELIST", "node[01-"}},
		{"a node twice", step + " SLURM_STEP_NODELIST=a,b,a", Overrides{}, []string{"a,b,a", "a twice"}},
		{"a host file", step + " SLURM_DISTRIBUTION=arbitrary", Overrides{}, []string{"arbitrary", "--first"}},
		{"no node list", step + " SLURM_STEP_NODELIST=", Overrides{}, []string{"SLURM_STEP_NODELIST is not set", "--first"}},
		{"half of Open MPI in a step", step + " OMPI_COMM_WORLD_RANK=1", Overrides{}, []string{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE is not set"}},
		{"the other half of Open MPI", "OMPI_COMM_WORLD_SIZE=2", Overrides{}, []string{"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK is not set"}},
		{"Open MPI on several hosts", ompi, Overrides{}, []string{"Open MPI does not tell", "--first", "HOPBENCH_FIRST"}},
		{"a local size of none", ompi + " OMPI_COMM_WORLD_LOCAL_SIZE=0", Overrides{}, []string{"OMPI_COMM_WORLD_LOCAL_SIZE=0"}},
		{"a local size above the size", ompi + " OMPI_COMM_WORLD_LOCAL_SIZE=5", Overrides{}, []string{"OMPI_COMM_WORLD_LOCAL_SIZE=5"}},
		{"half of MPICH", "PMI_RANK=1", Overrides{}, []string{"PMI_RANK=1", "PMI_SIZE is not set"}},
		{"half of torchrun", "TORCHELASTIC_RUN_ID=a RANK=1 " + step, Overrides{}, []string{"RANK=1", "WORLD_SIZE is not set"}},
		{"torchrun without either", "TORCHELASTIC_RUN_ID=a", Overrides{}, []string{"TORCHELASTIC_RUN_ID=a", "neither"}},
		{"half of the variables", "RANK=1", Overrides{}, []string{"RANK=1", "WORLD_SIZE is not set"}},
		{"PMIx alone", "PMIX_RANK=1", Overrides{}, []string{"PMIX_RANK=1", "HOPBENCH_SIZE"}},
		{"a Job without a size", "JOB_COMPLETION_INDEX=1", Overrides{}, []string{"JOB_COMPLETION_INDEX=1", "HOPBENCH_SIZE"}},
		{"a Job without a first", "JOB_COMPLETION_INDEX=1 HOPBENCH_SIZE=2", Overrides{}, []string{"JOB-0.SERVICE", "HOPBENCH_FIRST"}},
		{"an index above the size", "JOB_COMPLETION_INDEX=4 HOPBENCH_SIZE=4", Overrides{}, []string{"JOB_COMPLETION_INDEX=4", "HOPBENCH_SIZE 4"}},
		{"several halves", "RANK=1 " + batch, Overrides{}, []string{"SLURM_NTASKS=4", "RANK=1"}},
		{"a size that differs", step + " HOPBENCH_SIZE=8", Overrides{}, []string{"HOPBENCH_SIZE is 8", "Slurm says 4"}},
		{"a size flag that differs", ompiOne, Overrides{Size: number(8)}, []string{"--size is 8", "Open MPI says 4"}},
		{"a rank flag that differs", ompiOne, Overrides{Number: number(0)}, []string{"--rank is 0", "Open MPI says 2"}},
		{"a first that is none", step, Overrides{First: "http://a"}, []string{"--first", "http://a"}},
		{"a port that is none", step + " HOPBENCH_FIRST=a:70000", Overrides{}, []string{"HOPBENCH_FIRST", "70000"}},
		{"a port of 0", step, Overrides{First: "a:0"}, []string{"--first", "port"}},
		{"no host", step, Overrides{First: ":1"}, []string{"--first"}},
		{"a master that is none", ompi + " MASTER_ADDR=a/b", Overrides{}, []string{"MASTER_ADDR"}},
		{"a size of none", "", Overrides{Number: number(0), Size: number(0)}, []string{"--size 0"}},
		{"a negative rank", "", Overrides{Number: number(-1), Size: number(2)}, []string{"--rank -1"}},
		{"a size beyond all", "PMI_RANK=0 PMI_SIZE=2000000000", Overrides{}, []string{"2000000000"}},
		{"a local rank alone", "", Overrides{Number: number(0), Size: number(2), LocalNumber: number(1), First: "a"}, []string{"--local-rank 1", "--local-size"}},
		{"a local size alone", "", Overrides{Number: number(0), Size: number(2), LocalSize: number(1), First: "a"}, []string{"--local-size 1", "--local-rank"}},
		{"a local rank that does not fit", step, Overrides{LocalNumber: number(2)}, []string{"local rank 2 of 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Find(env(set(c.env)...), c.o)
			if err == nil {
				t.Fatalf("got %+v", got)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is more than one line", err)
			}
		})
	}
}

// Environments as the engines leave them, captured.
func TestFindInCapturedEnvironments(t *testing.T) {
	for _, c := range []struct {
		name   string
		add    string
		want   Rank
		hosts  string
		source string
		err    string // instead of the others
	}{
		{"slurm-step", "", Rank{Number: 3, Size: 4, LocalNumber: 0, LocalSize: 1, First: "n1"}, "n1 n2", "first of SLURM_STEP_NODELIST=n[1-2]", ""},
		{"slurm-pmi2", "", Rank{Number: 2, Size: 4, LocalNumber: 2, LocalSize: 3, First: "n1"}, "n1 n2", "Slurm (", ""},
		{"slurm-het", "", Rank{Number: 2, Size: 3, LocalNumber: 0, LocalSize: 1, First: "n1"}, "n1 n2", "Slurm (", ""},
		{"slurm-host-file", "HOPBENCH_FIRST=n3", Rank{Number: 1, Size: 3, LocalNumber: 0, LocalSize: 1, First: "n3"}, "n1 n3", "HOPBENCH_FIRST", ""},
		{name: "slurm-host-file", err: "SLURM_DISTRIBUTION=arbitrary"},
		{name: "slurm-salloc", err: "start the ranks with srun"},
		{name: "slurm-interactive", err: "start the ranks with srun"},
		{name: "slurm-batch", err: "start the ranks with srun"},
		{name: "slurm-batch-in-step", err: "SLURM_STEP_NUM_TASKS=3, SLURM_NTASKS=4"},
		{name: "slurm-preserve-env", err: "--preserve-env"},
		{"mpirun", "", Rank{Number: 2, Size: 4, LocalNumber: 2, LocalSize: 4, First: "127.0.0.1"}, "", "Open MPI (", ""},
		{name: "mpirun-two-hosts", err: "Open MPI does not tell it"},
		{"mpirun-two-hosts", "HOPBENCH_FIRST=a:1", Rank{Number: 3, Size: 4, LocalNumber: 1, LocalSize: 2, First: "a:1"}, "", "HOPBENCH_FIRST", ""},
		{"mpirun-in-slurm", "HOPBENCH_FIRST=n1", Rank{Number: 3, Size: 4, LocalNumber: 0, LocalSize: 1, First: "n1"}, "", "not used: Slurm, which says rank 1 of 2", ""},
		{"hydra", "", Rank{Number: 2, Size: 4, LocalNumber: 2, LocalSize: 4, First: "127.0.0.1"}, "", "MPICH (", ""},
		{name: "hydra-two-hosts", err: "MPICH does not tell it"},
		{"hydra-in-slurm", "HOPBENCH_FIRST=n1", Rank{Number: 1, Size: 4, LocalNumber: 1, LocalSize: 3, First: "n1"}, "", "not used: Slurm", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Find(env(append(captured(t, c.name), set(c.add)...)...), Overrides{})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%+v, %v; want an error that says %q", got, err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got.Source, c.source) || strings.Join(got.Hosts, " ") != c.hosts {
				t.Errorf("hosts %v, source %q", got.Hosts, got.Source)
			}
			got.Hosts, got.HostOf, got.Source = nil, nil, ""
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestHostOfEachRank(t *testing.T) {
	three := func(tasks, method string, node, own string) string {
		number, _, _ := strings.Cut(own, ",")
		return "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=n[1-3] SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=5 SLURM_STEP_TASKS_PER_NODE=" +
			tasks + " SLURM_DISTRIBUTION=" + method + " SLURM_NODEID=" + node + " SLURM_GTIDS=" + own + " SLURM_PROCID=" + number
	}
	for env1, want := range map[string]string{
		three("2(x2),1", "", "0", "0,1"):                "n1 n1 n2 n2 n3",
		three("1,2(x2)", "block:cyclic", "1", "1,2"):    "n1 n2 n2 n3 n3",
		three("1,2(x2)", "block,Pack", "2", "3,4"):      "n1 n2 n2 n3 n3",
		three("1,2(x2)", "cyclic", "1", "1,3"):          "n1 n2 n3 n2 n3",
		three("3,1(x2)", "cyclic:block", "0", "0,3,4"):  "n1 n2 n3 n1 n1",
		three("1,2(x2)", "", "1", "1,3"):                "", // this node's own tasks say otherwise
		three("1,2(x2)", "plane", "1", "1,2"):           "",
		three("1,2(x2)", "arbitrary", "1", "1,2"):       "",
		three("2(x2)", "", "0", "0,1"):                  "", // two nodes
		three("2(x3)", "", "0", "0,1"):                  "", // six tasks
		three("2(x2),0", "", "0", "0,1"):                "",
		three("2(x4),1", "", "0", "0,1"):                "",
		three("2(x,1", "", "0", "0,1"):                  "",
		three("2(x2,1", "", "0", "0,1"):                 "",
		three("2000000000,1(x2)", "", "0", "0,1"):       "",
		three("2000000000,1(x2)", "cyclic", "0", "0,3"): "",
		three("", "", "0", "0,1"):                       "",
		three("2(x2),1", "", "3", "0,1"):                "",
	} {
		got, err := Find(env(set(env1)...), Overrides{First: "n1"})
		if err != nil || strings.Join(got.HostOf, " ") != want {
			t.Errorf("%s:\n%q, %v; want %q", env1, got.HostOf, err, want)
		}
	}
	for name, want := range map[string]string{"slurm-step": "n1 n1 n1 n2", "slurm-het": "", "slurm-host-file": "", "mpirun": ""} {
		got, err := Find(env(captured(t, name)...), Overrides{First: "n1"})
		if err != nil || strings.Join(got.HostOf, " ") != want {
			t.Errorf("%s: %q, %v; want %q", name, got.HostOf, err, want)
		}
	}
}

func TestAddress(t *testing.T) {
	for first, want := range map[string]string{
		"node1": "node1:18515", "node1:9": "node1:9", "10.0.0.1": "10.0.0.1:18515", "fd00::1": "[fd00::1]:18515", "[fd00::1]": "[fd00::1]:18515", "[fd00::1]:9": "[fd00::1]:9", "fe80::1%eth0": "[fe80::1%eth0]:18515",
	} {
		if got := (Rank{First: first}).Address(18515); got != want {
			t.Errorf("%s: %s, want %s", first, got, want)
		}
	}
}

// FuzzFind holds every answer to what a caller relies on, whatever the environment has.
func FuzzFind(f *testing.F) {
	for _, seed := range []string{torchRun, ompi, mpich, step, batch, variables, pod, batch + " " + ompi} {
		f.Add(strings.ReplaceAll(seed, " ", "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Find(env(strings.Split(text, "\n")...), Overrides{})
		if err != nil {
			return
		}
		if r.Size < 1 || r.Number < 0 || r.Number >= r.Size || r.LocalSize < 0 || r.LocalSize > r.Size || r.LocalNumber < 0 || r.LocalNumber > max(r.LocalSize-1, 0) || r.First == "" || r.Source == "" || r.HostOf != nil && len(r.HostOf) != r.Size {
			t.Errorf("%+v", r)
		}
		if _, port, err := splitFirst(r.Address(1)); err != nil || port == "" {
			t.Errorf("%+v: address %q", r, r.Address(1))
		}
	})
}

// TestSplitFirst: a bracket without its other one is no address.
func TestSplitFirst(t *testing.T) {
	for _, s := range []string{"[::1", "::1]", "[", "[::1]]", "[[::1]]"} {
		if host, _, err := splitFirst(s); err == nil {
			t.Errorf("%q is the host %q", s, host)
		}
	}
	for _, s := range []string{"::1", "[::1]", "[::1]:18517", "node1:7"} {
		if _, _, err := splitFirst(s); err != nil {
			t.Error(err)
		}
	}
}
