package scripts

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// meshManifest is k8s/mesh.yaml, held strictly to Kubernetes' own types.
type meshManifest struct {
	service corev1.Service
	job     batchv1.Job
	policy  networkingv1.NetworkPolicy
}

func readMeshManifest(t *testing.T) (m meshManifest) {
	t.Helper()
	text, err := os.ReadFile("k8s/mesh.yaml")
	if err != nil {
		t.Fatal(err)
	}
	into := map[string]any{"v1 Service": &m.service, "batch/v1 Job": &m.job, "networking.k8s.io/v1 NetworkPolicy": &m.policy}
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
			t.Fatalf("%s: %v", name, err)
		}
		delete(into, name)
	}
	for name := range into {
		t.Fatalf("there is no %s", name)
	}
	return m
}

// environment is what a pod of the Job has, as its manifest and the Job's controller set it.
func (m meshManifest) environment(index int) map[string]string {
	env := map[string]string{"JOB_COMPLETION_INDEX": fmt.Sprint(index)}
	for _, e := range m.job.Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	return env
}

func TestMeshManifest(t *testing.T) {
	m := readMeshManifest(t)
	spec, pod := m.job.Spec, m.job.Spec.Template.Spec
	if spec.CompletionMode == nil || *spec.CompletionMode != batchv1.IndexedCompletion {
		t.Error("the Job is not indexed")
	}
	env := m.environment(0)
	if n := fmt.Sprint(*spec.Completions); env["HOPBENCH_SIZE"] != n || fmt.Sprint(*spec.Parallelism) != n {
		t.Errorf("%s completions, parallelism %d, HOPBENCH_SIZE %s", n, *spec.Parallelism, env["HOPBENCH_SIZE"])
	}
	if pod.RestartPolicy != corev1.RestartPolicyNever || spec.BackoffLimitPerIndex == nil || *spec.BackoffLimitPerIndex != 0 {
		t.Error("a pod that fails is started again, or ends the others")
	}
	port := m.service.Spec.Ports[0].Port
	if want := fmt.Sprintf("%s-0.%s:%d", m.job.Name, m.service.Name, port); env["HOPBENCH_FIRST"] != want {
		t.Errorf("HOPBENCH_FIRST is %s; pod 0 is called %s", env["HOPBENCH_FIRST"], want)
	}
	if m.service.Spec.ClusterIP != corev1.ClusterIPNone || !m.service.Spec.PublishNotReadyAddresses || pod.Subdomain != m.service.Name {
		t.Errorf("no names for the pods: %+v, subdomain %q", m.service.Spec, pod.Subdomain)
	}
	labels := m.job.Spec.Template.Labels
	apart := pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels
	for who, selector := range map[string]map[string]string{
		"the service": m.service.Spec.Selector, "the policy": m.policy.Spec.PodSelector.MatchLabels,
		"the policy's source": m.policy.Spec.Ingress[0].From[0].PodSelector.MatchLabels, "the anti-affinity": apart,
	} {
		if len(selector) == 0 || !maps.Equal(selector, labels) {
			t.Errorf("%s selects %v, and the pods have %v", who, selector, labels)
		}
	}
	if len(m.policy.Spec.Ingress[0].Ports) != 0 {
		t.Error("the policy names ports, and the data's are the kernel's choice")
	}
	container := pod.Containers[0]
	if container.Ports[0].ContainerPort != port {
		t.Errorf("the pod's control port is %d and the service's %d", container.Ports[0].ContainerPort, port)
	}
	rdma := false
	for name, request := range container.Resources.Requests {
		rdma = rdma || strings.HasPrefix(string(name), "rdma/")
		if limit := container.Resources.Limits[name]; request.Cmp(limit) != 0 {
			t.Errorf("request and limit of %s differ", name)
		}
	}
	if !rdma {
		t.Error("no RDMA resource is asked for")
	}
	security := container.SecurityContext
	if security == nil || len(security.Capabilities.Add) != 1 || security.Capabilities.Add[0] != "IPC_LOCK" || *security.RunAsUser != 0 {
		t.Errorf("%+v", security)
	}
	mount, volume := container.VolumeMounts[0], pod.Volumes[0]
	if volume.Secret == nil || volume.Name != mount.Name || *volume.Secret.DefaultMode != 0o400 || !mount.ReadOnly {
		t.Error("the token is not mounted as a secret")
	}
	for _, e := range container.Env {
		if e.Name == "HOPBENCH_TOKEN" {
			t.Error("the token is in the manifest")
		}
	}
	help := meshHelp(t)
	if container.Args[0] != "mesh" {
		t.Errorf("the pod runs %q", container.Args)
	}
	for _, arg := range container.Args[1:] {
		flag, value, _ := strings.Cut(arg, "=")
		if !strings.Contains(help, flag+" ") {
			t.Errorf("hopbench mesh has no flag %s", flag)
		}
		if flag == "--token-file" && !strings.HasPrefix(value, mount.MountPath+"/") {
			t.Errorf("the token is read from %s and mounted at %s", value, mount.MountPath)
		}
	}
}
