package scripts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hopbench/transports/transporttest/need"
)

// someToken is a token that a test gives.
const someToken = "3f1c5a0e77b84d219cd6e0428a95fb1276d3049be1a84c5d93f7206eab58c41d"

// spy stands in for hopbench mesh: each rank says which token and which first rank it was given, what its arguments are, and what every
// user of this host can read of all processes' arguments.
const spy = `#!/bin/bash
for argument in "$@"; do
  [[ ${previous:-} != --token-file ]] || file=$argument
  previous=$argument
done
out=$SPY/rank-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}}
if [[ -n ${file:-} ]]; then stat -c %a "$file" >"$out.mode"; cat "$file" >"$out.token"; else echo "$HOPBENCH_TOKEN" >"$out.token"; fi
echo "${HOPBENCH_FIRST:-}" >"$out.first"
echo "$*" >"$out.arguments"
for p in /proc/[0-9]*/cmdline; do tr '\0' ' ' <$p; echo; done >"$out.public" 2>/dev/null
number=${out##*-}
if [[ ${SPY_END:-} = "$number":* ]]; then
  echo now >"$out.end"
  [[ $SPY_END != *:killed ]] || kill -KILL $$
  exit "${SPY_END#*:}"
fi
[[ -z ${SPY_END:-} || $SPY_END = 0:* ]] || sleep 0.5 # after the other's end
echo now >"$out.end"
`

// spied runs a launcher's script with the spy, and returns what each of the ranks saw, by name.
func spied(t *testing.T, ranks int, env []string, argv ...string) (dir string, saw func(rank int, what string) string, err error) {
	t.Helper()
	dir = t.TempDir()
	path := filepath.Join(dir, "hopbench")
	if werr := os.WriteFile(path, []byte(spy), 0o755); werr != nil {
		t.Fatal(werr)
	}
	out, err := command(t, dir, append([]string{"SPY=" + dir, "HOPBENCH=" + path}, env...), argv...).CombinedOutput()
	t.Logf("%s", out)
	saw = func(rank int, what string) string {
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("rank-%d.%s", rank, what)))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	token := saw(0, "token")
	if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(token) {
		t.Fatalf("rank 0 has the token %q", token)
	}
	for i := range ranks {
		if got := saw(i, "token"); got != token {
			t.Errorf("rank %d has the token %q, and rank 0 %q", i, got, token)
		}
		if public := saw(i, "public"); strings.Contains(public, token) || !strings.Contains(public, "--pattern ring") {
			t.Errorf("the arguments of all processes, seen beside rank %d, have the token, or not the ranks", i)
		}
		if args := saw(i, "arguments"); !strings.HasPrefix(args, "mesh ") || !strings.HasSuffix(args, "--pattern ring") {
			t.Errorf("rank %d has the arguments %q", i, args)
		}
	}
	return dir, saw, err
}

// remoteShell stands in for ssh, and writes down what it was given: that is public too.
func remoteShell(t *testing.T) (path, log string) {
	t.Helper()
	dir := t.TempDir()
	path, log = filepath.Join(dir, "rsh"), filepath.Join(dir, "log")
	script := "#!/bin/sh\necho \"$@\" >>" + log + "\nwhile :; do case $1 in -*) shift ;; *) break ;; esac; done\nshift\nexec sh -c \"$*\"\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, log
}

func TestMPIScriptHandsTheTokenOn(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, which := range []string{"Open MPI", "MPICH"} {
		t.Run(which, func(t *testing.T) {
			launcher := need.MPI(t, which)
			shell, log := remoteShell(t)
			one := []string{"-n", "4", "--oversubscribe"}
			two := []string{"--mca", "plm_rsh_agent", shell, "--host", "localhost:2,hopbench-b:2", "-n", "4"}
			if which == "MPICH" {
				one = []string{"-n", "4"}
				two = []string{"-launcher", "ssh", "-launcher-exec", shell, "-hosts", "localhost,hopbench-b", "-n", "4", "-ppn", "2"}
			}
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(someToken), 0o600); err != nil {
				t.Fatal(err)
			}
			for name, c := range map[string]struct {
				options, env  []string
				first, token  string
				end           string // RANK:STATUS of the rank that ends before the others
				status, spoke int    // of the script; how many ranks end by themselves
			}{
				"one host":               {one, nil, "", "", "", 0, 4},
				"two hosts":              {two, nil, host, "", "", 0, 4},
				"first and token given":  {two, []string{"HOPBENCH_FIRST=node1:9", "HOPBENCH_TOKEN=" + someToken}, "node1:9", someToken, "", 0, 4},
				"token file, rank fails": {one, []string{"HOPBENCH_TOKEN_FILE=" + file}, "", someToken, "2:1", 0, 4},
				"a rank is killed":       {two, nil, host, "", "2:killed", 0, 4},
				"rank 0 fails":           {one, nil, "", "", "0:3", 3, 1},
			} {
				t.Run(name, func(t *testing.T) {
					argv := append(append([]string{absolute(t, "mpi/mesh.sh")}, c.options...), "--", "--pattern", "ring")
					_, saw, err := spied(t, 4, append(c.env, "MPIRUN="+launcher, "SPY_END="+c.end), argv...)
					var exit *exec.ExitError
					if errors.As(err, &exit) && exit.ExitCode() != c.status || (err != nil) != (c.status != 0) {
						t.Errorf("%v; want the status of rank 0, %d", err, c.status)
					}
					token := saw(0, "token")
					if c.token != "" && token != c.token {
						t.Errorf("the token is %q", token)
					}
					for i := range 4 {
						if got := saw(i, "first"); got != c.first {
							t.Errorf("rank %d looks for rank 0 at %q, want %q", i, got, c.first)
						}
						if i < c.spoke && saw(i, "end") == "" {
							t.Errorf("rank %d was ended", i)
						}
					}
					said, err := os.ReadFile(log)
					if strings.Contains(string(said), token) || c.first != "" && err != nil {
						t.Errorf("the remote shell was told the token, or nothing: %v", err)
					}
				})
			}
		})
	}
}

func TestMPIScriptRefuses(t *testing.T) {
	for launcher, want := range map[string]string{"no-such-launcher": "there is no no-such-launcher", "true": "neither Open MPI's mpirun nor mpiexec.hydra"} {
		out, err := command(t, t.TempDir(), []string{"MPIRUN=" + launcher}, absolute(t, "mpi/mesh.sh"), "-n", "2").CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s", launcher, err, out)
		}
	}
}

func TestSlurmScriptHandsTheTokenOn(t *testing.T) {
	need.Slurm(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(someToken), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, script := absolute(t, "slurm/cluster.sh"), absolute(t, "slurm/mesh.sbatch")
	for name, c := range map[string]struct {
		env  []string
		mode string
	}{
		"made for the job":   {nil, "600"},
		"in a file":          {[]string{"HOPBENCH_TOKEN_FILE=" + file}, "600"},
		"in the environment": {[]string{"HOPBENCH_TOKEN=" + someToken}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			// salloc stays until the script has ended; sbatch itself is run by the test that measures.
			dir, saw, err := spied(t, 4, c.env, cluster, "--nodes", "2", "salloc", "-Q", "--nodes=2", "--ntasks-per-node=2", "bash", script, "--pattern", "ring")
			if err != nil {
				t.Fatal(err)
			}
			if c.env != nil && saw(3, "token") != someToken {
				t.Errorf("the token is %q", saw(3, "token"))
			}
			if c.mode != "" && saw(3, "mode") != c.mode {
				t.Errorf("the token's file has the mode %s", saw(3, "mode"))
			}
			if left, _ := filepath.Glob(filepath.Join(dir, ".hopbench-token*")); len(left) > 0 {
				t.Errorf("%v is left behind", left)
			}
		})
	}
}
