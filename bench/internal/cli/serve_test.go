package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"hopbench/harness/control"
	"hopbench/transports"
	"hopbench/transports/loopback"
	"hopbench/transports/tcp"
)

// lockedBuffer is written by a command and read by its test.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serveEnv is a world for serve: it ends with stop.
func serveEnv(t *testing.T, vars map[string]string) (env *Env, out, errs *lockedBuffer, stop context.CancelFunc) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	out, errs = &lockedBuffer{}, &lockedBuffer{}
	return &Env{
		Stdout: out, Stderr: errs, Stdin: strings.NewReader(""), Drivers: []transports.Driver{loopback.New(), tcp.New()}, Now: time.Now,
		Getenv: func(k string) string { return vars[k] }, Context: ctx,
	}, out, errs, stop
}

func TestServeOnLoopback(t *testing.T) {
	env, out, errs, stop := serveEnv(t, nil)
	defer stop()
	status := make(chan int, 1)
	go func() {
		status <- Run(env, []string{"serve", "--listen", "127.0.0.1:0", "--json", "--max-memory", "64MiB", "--max-duration", "90s"})
	}()
	var said struct {
		Listen     string  `json:"listen"`
		TokenFile  string  `json:"token_file"`
		Token      string  `json:"token"`
		MaxMemory  uint64  `json:"max_memory_bytes"`
		MaxSize    uint64  `json:"max_size_bytes"`
		MaxSeconds float64 `json:"max_duration_seconds"`
	}
	for end := time.Now().Add(30 * time.Second); json.Unmarshal([]byte(out.String()), &said) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("nothing is said: %s", errs)
		}
	}
	if said.MaxMemory != 64<<20 || said.MaxSize != 64<<20 || said.MaxSeconds != 90 {
		t.Errorf("%+v", said)
	}
	if said.Token != "" || said.TokenFile == "" {
		t.Errorf("on loopback the token is left in a file and not shown: %+v", said)
	}
	token, err := control.TokenFor(said.Listen, "", env.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	p, err := control.Dial(t.Context(), said.Listen, token, control.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := p.Host(t.Context()); err != nil || h.Hostname == "" {
		t.Errorf("%+v, %v", h, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	stop() // as an interrupt does
	if got := <-status; got != 0 {
		t.Errorf("exit status %d: %s", got, errs)
	}
	if _, err := os.Stat(said.TokenFile); err == nil {
		t.Error("the token's file is left behind")
	}
	for _, want := range []string{"begins", "closed by the client"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is missing in %s", want, errs)
		}
	}
}

func TestServeRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("abcdef0123456789\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		args       []string
		vars       map[string]string
	}{
		{"short token", "too short", []string{"--token-file", short}, nil},
		{"no token file", "no such file", []string{"--token-file", short + "x"}, nil},
		{"token of the environment", "HOPBENCH_TOKEN", nil, map[string]string{"HOPBENCH_TOKEN": "secret"}},
		{"no port", "--listen", []string{"--listen", "127.0.0.1"}, nil},
		{"taken port", "address already in use", []string{"--listen", taken.Addr().String()}, nil},
		{"address of nobody", "--listen", []string{"--listen", "192.0.2.1:0"}, nil},
		{"memory", "--max-memory", []string{"--max-memory", "10XB"}, nil},
		{"no memory", "--max-memory", []string{"--max-memory", "0"}, nil},
		{"size", "--max-size", []string{"--max-size", "-1"}, nil},
		{"duration", "--max-duration", []string{"--max-duration", "1ms"}, nil},
		{"bind", "--bind", []string{"--bind", "eth0"}, nil},
		{"setting", "--data-port", []string{"--data-port", "70000"}, nil},
		{"argument", "takes no argument", []string{"now"}, nil},
		{"flag", "did you mean --once", []string{"--onse"}, nil},
		{"child by hand", "--child", []string{"--child"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			env, out, errs, stop := serveEnv(t, c.vars)
			defer stop()
			if got := Run(env, append([]string{"serve", "--listen", "127.0.0.1:0"}, c.args...)); got != 2 {
				t.Errorf("exit status %d", got)
			}
			if said := errs.String(); !strings.Contains(said, c.want) || strings.Count(said, "\n") != 1 || out.String() != "" {
				t.Errorf("said %q, printed %q; want one line about %q", said, out, c.want)
			}
		})
	}
}

// The manifest is held to Kubernetes' own types, without a cluster, and its arguments to the flags that there are.
func TestTwoPods(t *testing.T) {
	text, err := os.ReadFile("../../../scripts/k8s/two-pods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	var service corev1.Service
	var job batchv1.Job
	var policy networkingv1.NetworkPolicy
	into := map[string]any{"v1 Pod": &pod, "v1 Service": &service, "batch/v1 Job": &job, "networking.k8s.io/v1 NetworkPolicy": &policy}
	for i, document := range strings.Split(string(text), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatalf("document %d: %v", i, err)
		}
		name := kind.APIVersion + " " + kind.Kind
		to, ok := into[name]
		if !ok {
			t.Fatalf("document %d is a %s", i, name)
		}
		if err := yaml.UnmarshalStrict([]byte(document), to); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		delete(into, name)
	}
	for name := range into {
		t.Errorf("there is no %s", name)
	}
	// A misspelt key must be found: the decoding is strict.
	if err := yaml.UnmarshalStrict([]byte("apiVersion: v1\nkind: Pod\nspec:\n  container: []\n"), new(corev1.Pod)); err == nil {
		t.Error("an unknown key was taken")
	}
	if t.Failed() {
		return
	}
	env, _, _, stop := serveEnv(t, nil)
	defer stop()
	for _, c := range []struct {
		who  string
		spec corev1.PodSpec
		cmd  *cobra.Command
	}{{"serve", pod.Spec, newServe(env)}, {"run", job.Spec.Template.Spec, newRun(env)}} {
		container := c.spec.Containers[0]
		if container.Args[0] != c.who {
			t.Errorf("the %s pod runs %q", c.who, container.Args[0])
		}
		if err := c.cmd.ParseFlags(container.Args[1:]); err != nil {
			t.Errorf("%s: %v", c.who, err)
		}
		rdma := false
		for name := range container.Resources.Limits {
			rdma = rdma || strings.HasPrefix(string(name), "rdma/")
		}
		if !rdma {
			t.Errorf("%s asks for no RDMA resource", c.who)
		}
		security := container.SecurityContext
		if security == nil || len(security.Capabilities.Add) != 1 || security.Capabilities.Add[0] != "IPC_LOCK" || *security.RunAsUser != 0 {
			t.Errorf("%s: %+v", c.who, security)
		}
		mount, volume := container.VolumeMounts[0], c.spec.Volumes[0]
		if volume.Secret == nil || volume.Name != mount.Name || *volume.Secret.DefaultMode != 0o400 {
			t.Errorf("%s does not mount the token", c.who)
		}
		if file, err := c.cmd.Flags().GetString("token-file"); err != nil || filepath.Dir(file) != mount.MountPath {
			t.Errorf("%s reads the token from %q", c.who, file)
		}
		for name, request := range container.Resources.Requests {
			if limit := container.Resources.Limits[name]; request.Cmp(limit) != 0 {
				t.Errorf("%s: request and limit of %s differ", c.who, name)
			}
		}
	}
	for key, value := range service.Spec.Selector {
		if pod.Labels[key] != value || policy.Spec.PodSelector.MatchLabels[key] != value {
			t.Errorf("label %s: the pod, the service and the policy differ", key)
		}
	}
	for key, value := range policy.Spec.Ingress[0].From[0].PodSelector.MatchLabels {
		if job.Spec.Template.Labels[key] != value {
			t.Errorf("label %s: the job's pod and the policy differ", key)
		}
	}
}
