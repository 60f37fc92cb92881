// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package node_test shows the operator on a real kubelet and container runtime, beyond
// simulated nodes' claims. Pods keep their sandbox while a container is replaced, no
// request goes to a pod about to restart, resources change in the control group, and an
// update survives an absent kubelet or runtime.
//
// It needs Linux, root and realnode.DebianPackages; elsewhere every test is skipped with
// the reason.
package node_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/realnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/deploy"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/images"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

const repository = "openkruise/guestbook"

var (
	// env is shared by all tests; nil when unavailable says why this machine cannot have it.
	env         *environment.Environment
	unavailable error
	pushed      = sync.OnceValue(pushImages)
)

func TestMain(m *testing.M) {
	if unavailable = realnode.Check(); unavailable != nil {
		os.Exit(m.Run())
	}
	environment.Main(m, environment.Options{
		Cluster:  cluster.Options{RealNodes: 1},
		Operator: operator.Options{Args: []string{"--feature-gates=InPlaceWorkloadVerticalScaling=true"}},
	}, func(e *environment.Environment) { env = e })
}

// onNode gives a test its namespace, or skips it where no node can run. Where results count, root on Linux has to be able to.
func onNode(t *testing.T) *environment.Namespace {
	t.Helper()
	deploy.Need(t, unavailable)
	if err := pushed(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Cluster.Exited(); err != nil {
			t.Errorf("a component of the cluster failed: %v", err)
		}
		if err := theNode().Exited(); err != nil {
			t.Error(err)
		}
	})
	return env.Namespace(t)
}

func theNode() *realnode.Node { return env.Cluster.RealNodes()[0] }

// pushImages pushes v1, v2 and, as the same image as v1, v1-again.
func pushImages() error {
	ctx := context.Background()
	for tag, version := range map[string]string{"v1": "v1", "v1-again": "v1", "v2": "v2"} {
		content := images.Image{Programs: []images.Program{images.Guestbook(version)}}
		if _, err := deploy.Push(ctx, env.Cluster, repository+":"+tag, content); err != nil {
			return err
		}
	}
	return nil
}

// guestbookTemplate is a pod with a probed container "web" with pull policy Always and one
// nobody changes.
func guestbookTemplate() corev1.PodTemplateSpec {
	server := func(name string, port int32) corev1.Container {
		return corev1.Container{
			Name: name, Image: repository + ":v1", ImagePullPolicy: corev1.PullAlways,
			Args: []string{fmt.Sprintf("-listen=:%d", port)},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
			},
			ReadinessProbe: &corev1.Probe{
				PeriodSeconds: 1,
				ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(port)}},
			},
		}
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			ReadinessGates:                []corev1.PodReadinessGate{{ConditionType: shared.GateInPlaceUpdateReady}},
			TerminationGracePeriodSeconds: new(int64(5)),
			Containers:                    []corev1.Container{server("web", 3000), server("other", 3001)},
		},
	}
}

// guestbook is a set "web" updated in place.
func guestbook(replicas int32) *v1beta1.StatefulSet {
	return &v1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: v1beta1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "web", PodManagementPolicy: "Parallel",
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			UpdateStrategy: v1beta1.StatefulSetUpdateStrategy{
				Type:          "RollingUpdate",
				RollingUpdate: &v1beta1.RollingUpdateStatefulSetStrategy{PodUpdatePolicy: shared.InPlaceIfPossible},
			},
			Template: guestbookTemplate(),
		},
	}
}

// guestbookClones is guestbook as a CloneSet.
func guestbookClones(replicas int32) *v1beta1.CloneSet {
	template := guestbookTemplate()
	template.Spec.ReadinessGates = nil // the set adds it
	return &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: v1beta1.CloneSetSpec{
			Replicas:       &replicas,
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateCloneSetStrategy{PodUpdatePolicy: shared.InPlaceIfPossible}},
			Template:       template,
		},
	}
}

// workload is a kind of set for the guestbook.
type workload struct {
	// start creates the set and waits until its pods are available.
	start func(t *testing.T, n *environment.Namespace, replicas int32) []corev1.Pod
	// change changes the template.
	change func(n *environment.Namespace, change func(*corev1.PodTemplateSpec))
	// settled waits until all pods are available at the update revision, and returns it.
	settled func(n *environment.Namespace) string
	// named: a replacing pod has the old one's name.
	named bool
}

// forWorkloads runs a test for every kind.
func forWorkloads(t *testing.T, test func(*testing.T, workload)) {
	t.Run("StatefulSet", func(t *testing.T) {
		test(t, workload{
			start: func(t *testing.T, n *environment.Namespace, replicas int32) []corev1.Pod {
				return start(t, n, guestbook(replicas))
			},
			change: func(n *environment.Namespace, change func(*corev1.PodTemplateSpec)) {
				n.Change("web", func(set *v1beta1.StatefulSet) { change(&set.Spec.Template) })
			},
			settled: func(n *environment.Namespace) string { return n.Settled("web").Status.UpdateRevision },
			named:   true,
		})
	})
	t.Run("CloneSet", func(t *testing.T) {
		test(t, workload{
			start: func(t *testing.T, n *environment.Namespace, replicas int32) []corev1.Pod {
				return startClones(t, n, guestbookClones(replicas))
			},
			change: func(n *environment.Namespace, change func(*corev1.PodTemplateSpec)) {
				n.ChangeCloneSet("web", func(set *v1beta1.CloneSet) { change(&set.Spec.Template) })
			},
			settled: func(n *environment.Namespace) string { return n.SettledCloneSet("web").Status.UpdateRevision },
		})
	})
}

// start creates the set and waits until its pods are available.
func start(t *testing.T, n *environment.Namespace, set *v1beta1.StatefulSet) []corev1.Pod {
	t.Helper()
	create(t, n, set)
	n.Settled(set.Name)
	return n.Pods()
}

// startClones creates the set and waits until its pods are available.
func startClones(t *testing.T, n *environment.Namespace, set *v1beta1.CloneSet) []corev1.Pod {
	t.Helper()
	create(t, n, set)
	n.SettledCloneSet(set.Name)
	return n.Pods()
}

func create(t *testing.T, n *environment.Namespace, set client.Object) {
	t.Helper()
	set.SetNamespace(n.Name)
	if err := n.Client.Create(t.Context(), set); err != nil {
		t.Fatalf("creating the set: %v", err)
	}
}

// history is every state of every pod of a namespace, in the API server's order.
type history struct {
	mutex   sync.Mutex
	moments []moment
}

// moment is one state of a pod and when it was learned.
type moment struct {
	at  time.Time
	pod *corev1.Pod
}

// follow records the pods of the namespace until the test ends.
func follow(t *testing.T, n *environment.Namespace) *history {
	t.Helper()
	watcher, err := n.Client.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(n.Name))
	if err != nil {
		t.Fatalf("watching pods: %v", err)
	}
	h := &history{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			if pod, is := event.Object.(*corev1.Pod); is {
				h.mutex.Lock()
				h.moments = append(h.moments, moment{time.Now(), pod})
				h.mutex.Unlock()
			}
		}
	}()
	t.Cleanup(func() { watcher.Stop(); <-done })
	return h
}

// of returns a pod's states up to the one read.
func (h *history) of(n *environment.Namespace, pod *corev1.Pod) []moment {
	var states []moment
	n.Eventually("the watch has seen pod "+pod.Name, func(context.Context) error {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		states = nil
		for _, m := range h.moments {
			if m.pod.Name != pod.Name {
				continue
			}
			states = append(states, m)
			if m.pod.UID == pod.UID && m.pod.ResourceVersion == pod.ResourceVersion {
				return nil
			}
		}
		return fmt.Errorf("resource version %s is not among the %d seen", pod.ResourceVersion, len(states))
	})
	return states
}

// steady waits until the pod is ready and unwritten for two seconds, and returns it. A
// kubelet writes a starting pod's status several times, and a write computed before it saw
// the readiness gates marks the pod unready.
func steady(n *environment.Namespace, pod corev1.Pod) corev1.Pod {
	var is *corev1.Pod
	var since time.Time
	n.Eventually("pod "+pod.Name+" is ready and left alone", func(context.Context) error {
		now := n.Pod(pod.Name)
		if now == nil || !environment.IsReady(now) {
			is = nil
			return fmt.Errorf("the pod is not ready: %+v", now)
		}
		if is == nil || is.ResourceVersion != now.ResourceVersion {
			is, since = now, time.Now()
		}
		if left := 2*time.Second - time.Since(since); left > 0 {
			return fmt.Errorf("it was written less than two seconds ago, at resource version %s", is.ResourceVersion)
		}
		return nil
	})
	return *is
}

// assertInService checks that the pod was ready in each state. An unready one with all
// gates True and ready containers is logged, not counted: only a late kubelet, or the node
// controller after losing the node, writes it.
func assertInService(t *testing.T, states []moment) {
	t.Helper()
	for _, m := range states {
		if environment.IsReady(m.pod) {
			continue
		}
		out := condition(m.pod, corev1.ContainersReady).Status != corev1.ConditionTrue
		for _, gate := range m.pod.Spec.ReadinessGates {
			out = out || condition(m.pod, gate.ConditionType).Status != corev1.ConditionTrue
		}
		report := t.Logf
		if out {
			report = t.Errorf
		}
		report("the pod was not ready in resource version %s: %+v", m.pod.ResourceVersion, m.pod.Status.Conditions)
	}
}

// first returns the first state the check accepts, and all after it.
func first(t *testing.T, states []moment, what string, check func(*corev1.Pod) bool) (moment, []moment) {
	t.Helper()
	i := slices.IndexFunc(states, func(m moment) bool { return check(m.pod) })
	if i < 0 {
		t.Fatalf("no state of the pod in which %s, among %d", what, len(states))
	}
	return states[i], states[i+1:]
}

// assertSamePod checks the fields only a new pod changes, and the container nobody changed.
func assertSamePod(t *testing.T, was, is *corev1.Pod) {
	t.Helper()
	if is == nil {
		t.Fatalf("pod %s is gone", was.Name)
	}
	if was.UID != is.UID || was.Status.PodIP != is.Status.PodIP || was.Status.PodIP == "" || was.Spec.NodeName != is.Spec.NodeName {
		t.Errorf("pod %s: UID %s, IP %s, node %s became UID %s, IP %s, node %s", was.Name,
			was.UID, was.Status.PodIP, was.Spec.NodeName, is.UID, is.Status.PodIP, is.Spec.NodeName)
	}
	assertSameContainer(t, was, is, "other")
}

func assertSameContainer(t *testing.T, was, is *corev1.Pod, name string) {
	t.Helper()
	before, after := status(was, name), status(is, name)
	if before.ContainerID != after.ContainerID || before.RestartCount != after.RestartCount || before.ContainerID == "" {
		t.Errorf("pod %s: container %s %s (%d restarts) became %s (%d restarts)", was.Name, name,
			before.ContainerID, before.RestartCount, after.ContainerID, after.RestartCount)
	}
}

// assertReplacedOnce checks for a single replacement of the container.
func assertReplacedOnce(t *testing.T, was, is *corev1.Pod, name string) {
	t.Helper()
	before, after := status(was, name), status(is, name)
	if before.ContainerID == after.ContainerID || after.RestartCount != before.RestartCount+1 {
		t.Errorf("pod %s: container %s %s (%d restarts) became %s (%d restarts), want one restart", was.Name, name,
			before.ContainerID, before.RestartCount, after.ContainerID, after.RestartCount)
	}
}

// assertNotReadyWithOld checks that the pod is never ready with the container to be
// replaced.
func assertNotReadyWithOld(t *testing.T, states []moment, was *corev1.Pod) {
	t.Helper()
	for _, m := range states {
		if environment.IsReady(m.pod) && status(m.pod, "web").ContainerID == status(was, "web").ContainerID {
			t.Errorf("pod %s was ready with the container that is to be replaced, in resource version %s", was.Name, m.pod.ResourceVersion)
		}
	}
}

func status(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == name {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

func condition(pod *corev1.Pod, name corev1.PodConditionType) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == name {
			return condition
		}
	}
	return corev1.PodCondition{}
}

// assertVersion asks the pod itself for its version.
func assertVersion(t *testing.T, pod *corev1.Pod, want string) {
	t.Helper()
	if got := get(t, "http://"+pod.Status.PodIP+":3000/version"); got != want+"\n" {
		t.Errorf("pod %s answers %q, want %s", pod.Name, got, want)
	}
}

// newHTTPClient returns a client with a connection for each request and no proxy: it would
// not know pods' addresses.
func newHTTPClient() *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
}

func get(t *testing.T, address string) string {
	t.Helper()
	content, err := ask(t.Context(), newHTTPClient(), address)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func ask(ctx context.Context, c *http.Client, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	response, err := c.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", address, response.Status)
	}
	return string(content), nil
}

// sandbox asks the runtime for the sandbox of a pod.
func sandbox(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	filter := fmt.Sprintf(`labels."io.kubernetes.pod.uid"==%s,labels."io.cri-containerd.kind"==sandbox`, pod.UID)
	output, err := theNode().Command(t.Context(), "ctr", "--namespace=k8s.io", "containers", "list", "--quiet", filter).Output()
	id := strings.TrimSpace(string(output))
	if err != nil || id == "" || strings.Contains(id, "\n") {
		t.Fatalf("asking for the sandbox of pod %s: %q (%v)", pod.Name, id, err)
	}
	return id
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
