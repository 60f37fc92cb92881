// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/simdaemon"
)

// recreatePod is a CloneSet's pod with two containers on its own node, with a running
// daemon.
func recreatePod(t *testing.T, n *environment.Namespace) *corev1.Pod {
	t.Helper()
	node := ownNodes(t, n, 1)[0]
	n.Apply(strings.ReplaceAll(`
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {e2e: NODES}
      tolerations: [{key: e2e, operator: Exists}]
      containers:
      - {name: app, image: "example/web:v1"}
      - {name: log, image: "example/log:v1"}
`, "NODES", n.Name))
	n.SettledCloneSet("web")
	simdaemon.Run(t, env, node, 143)
	return &n.Pods("app=web")[0]
}

// recreate is a request for a pod; spec are more lines of the spec.
func recreate(name, pod, containers, spec string) string {
	var list []string
	for container := range strings.SplitSeq(containers, ",") {
		list = append(list, "{name: "+container+"}")
	}
	return fmt.Sprintf("apiVersion: apps.kruise.io/v1beta1\nkind: ContainerRecreateRequest\nmetadata: {name: %s}\nspec:\n  podName: %s\n  containers: [%s]\n%s",
		name, pod, strings.Join(list, ","), spec)
}

func request(ctx context.Context, n *environment.Namespace, name string) (*v1beta1.ContainerRecreateRequest, error) {
	r := &v1beta1.ContainerRecreateRequest{}
	return r, n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, r)
}

// requestIs waits until a request is as it should be.
func requestIs(n *environment.Namespace, name, what string, is func(*v1beta1.ContainerRecreateRequest) bool) {
	n.Eventually("request "+name+" "+what, func(ctx context.Context) error {
		r, err := request(ctx, n, name)
		if err == nil && !is(r) {
			err = fmt.Errorf("its labels are %v, its finalizers %v, its status is %+v", r.Labels, r.Finalizers, r.Status)
		}
		return err
	})
}

// over: a request is completed, tidied up, and has succeeded or not.
func over(succeeded metav1.ConditionStatus) func(*v1beta1.ContainerRecreateRequest) bool {
	return func(r *v1beta1.ContainerRecreateRequest) bool {
		return r.Status.Phase == v1beta1.RecreateCompleted && r.Labels[v1beta1.LabelRequestActive] == "" && len(r.Finalizers) == 0 &&
			says(r, v1beta1.RecreateConditionSucceeded, succeeded, "")
	}
}

func says(r *v1beta1.ContainerRecreateRequest, kind string, status metav1.ConditionStatus, message string) bool {
	for _, c := range r.Status.Conditions {
		if c.Type == kind {
			return c.Status == status && strings.Contains(c.Message, message)
		}
	}
	return false
}

func TestContainersAreRestartedInPlace(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	before := recreatePod(t, n)
	n.Apply(recreate("both", before.Name, "app,log", "  activeDeadlineSeconds: 60\n  strategy: {orderedRecreate: true}\n"))
	requestIs(n, "both", "succeeds", over(metav1.ConditionTrue))
	after := n.Pod(before.Name)
	if after.UID != before.UID || after.Status.PodIP != before.Status.PodIP {
		t.Errorf("the pod has become another one: %s at %s was %s at %s", after.UID, after.Status.PodIP, before.UID, before.Status.PodIP)
	}
	for _, container := range []string{"app", "log"} {
		was, is := restart.StatusOf(before, container), restart.StatusOf(after, container)
		if is.RestartCount != was.RestartCount+1 || is.ContainerID == was.ContainerID {
			t.Errorf("%s: %d restarts, was %d", container, is.RestartCount, was.RestartCount)
		}
	}
	// One alone leaves the other as it is, and is deleted after its time.
	n.Apply(recreate("one", before.Name, "app", "  ttlSecondsAfterFinished: 2\n"))
	requestIs(n, "one", "succeeds", over(metav1.ConditionTrue))
	last := n.Pod(before.Name)
	if was, is := restart.StatusOf(after, "log"), restart.StatusOf(last, "log"); is.RestartCount != was.RestartCount || is.ContainerID != was.ContainerID {
		t.Errorf("log was restarted, too: %+v", is)
	}
	old := &v1alpha1.ContainerRecreateRequest{}
	if err := n.Client.Get(t.Context(), client.ObjectKey{Namespace: n.Name, Name: "both"}, old); err != nil {
		t.Fatal(err)
	}
	if text := old.Annotations[v1alpha1.AnnotationSyncContainerStatuses]; !strings.Contains(text, restart.StatusOf(after, "app").ContainerID) {
		t.Errorf("v1alpha1 shows the snapshot %q", text)
	}
	n.Eventually("the request is deleted after its time", func(ctx context.Context) error {
		if _, err := request(ctx, n, "one"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

func TestAPodIsTakenOutOfServiceBeforeItsContainersAreRestarted(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	before := recreatePod(t, n)
	holder := shared.ReadinessHolder{UserAgent: "ContainerRecreateRequest", Key: n.Name + "/drain"}
	n.Apply(recreate("drain", before.Name, "app", "  strategy: {unreadyGracePeriodSeconds: 600}\n"))
	requestIs(n, "drain", "holds its pod and says so", func(r *v1beta1.ContainerRecreateRequest) bool {
		return says(r, v1beta1.RecreatePreRecreateGrace, metav1.ConditionTrue, "held not ready by ContainerRecreateRequest "+holder.Key)
	})
	held := n.Pod(before.Name)
	if holders := podstate.Holders(held); len(holders) != 1 || holders[0] != holder || podstate.Ready(held) {
		t.Errorf("holders %v, ready %v", holders, podstate.Ready(held))
	}
	// Clients of v1alpha1 see the start in an annotation, and cannot move it.
	const earlier = `{"metadata":{"annotations":{"crr.apps.kruise.io/unready-acquired":"2026-01-01T00:00:00Z"}}}`
	out, err := n.Kubectl("patch", "containerrecreaterequests.v1alpha1.apps.kruise.io", "drain", "--type=merge", "--patch", earlier)
	if err == nil || !strings.Contains(out, "metadata.annotations[crr.apps.kruise.io/unready-acquired]: Forbidden") {
		t.Errorf("the start of the grace period was moved: %v, %s", err, out)
	}
	// A second request waits for the first, and names it.
	n.Apply(recreate("next", before.Name, "app", "  strategy: {unreadyGracePeriodSeconds: 1}\n"))
	requestIs(n, "next", "waits and says why", func(r *v1beta1.ContainerRecreateRequest) bool {
		return r.Status.Phase == v1beta1.RecreatePending && says(r, v1beta1.RecreateReconciling, metav1.ConditionTrue, "Request drain for the same pod")
	})
	if got := restart.StatusOf(n.Pod(before.Name), "app"); got.RestartCount != 0 {
		t.Errorf("app was restarted during the grace period: %+v", got)
	}
	// The first goes, gives the pod back, and the next one follows by itself.
	r, err := request(t.Context(), n, "drain")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	requestIs(n, "next", "succeeds", over(metav1.ConditionTrue))
	n.Eventually("the pod is back in service", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(before), pod); err != nil {
			return err
		}
		if holders := podstate.Holders(pod); len(holders) > 0 || !podstate.Ready(pod) || restart.StatusOf(pod, "app").RestartCount != 1 {
			return fmt.Errorf("holders %v, ready %v, %+v", holders, podstate.Ready(pod), restart.StatusOf(pod, "app"))
		}
		return nil
	})
}

func TestRequestsThatCannotBeCarriedOut(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	pod := recreatePod(t, n)
	for name, tc := range map[string]struct{ manifest, want string }{
		"a pod that does not exist":       {recreate("r", "nobody", "app", ""), `spec.podName: Invalid value: "nobody": there is no such pod`},
		"a container that does not exist": {recreate("r", pod.Name, "nobody", ""), `spec.containers[0].name: Invalid value: "nobody": the pod has no such container`},
		"a container twice":               {recreate("r", pod.Name, "app,app", ""), "Duplicate value"},
		"a deadline that is too short":    {recreate("r", pod.Name, "app", "  activeDeadlineSeconds: 2\n"), "spec.activeDeadlineSeconds: Invalid value: 2: must be 3 or more"},
		"a negative time to run, in the older version": {
			strings.Replace(recreate("r", pod.Name, "app", "  strategy: {minStartedSeconds: -1}\n"), "v1beta1", "v1alpha1", 1),
			"spec.strategy.minStartedSeconds: Invalid value: -1",
		},
		"a hook of one's own": {
			strings.Replace(recreate("r", pod.Name, "app", ""), "{name: app}", "{name: app, preStop: {exec: {command: [x]}}}", 1),
			"spec.containers[0].preStop: Forbidden",
		},
	} {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(tc.manifest), &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetNamespace(n.Name)
		if err := n.Client.Create(t.Context(), object); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	// Its end frees it; its target cannot be changed.
	n.Apply(recreate("drain", pod.Name, "app", "  strategy: {unreadyGracePeriodSeconds: 600}\n  activeDeadlineSeconds: 5\n"))
	requestIs(n, "drain", "is filled in", func(r *v1beta1.ContainerRecreateRequest) bool { return r.Labels[v1beta1.LabelRequestActive] != "" })
	for patch, want := range map[string]string{
		`{"spec":{"podName":"another"}}`:                                     "spec: Forbidden: cannot be changed",
		`{"metadata":{"labels":{"crr.apps.kruise.io/node-name":"another"}}}`: "is set at admission and cannot be changed",
		`{"metadata":{"labels":{"crr.apps.kruise.io/active":null}}}`:         "cannot be changed before the request is completed",
	} {
		if out, err := n.Kubectl("patch", "crr", "drain", "--type=merge", "--patch", patch); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %s, want %q", patch, out, want)
		}
	}
	requestIs(n, "drain", "ends at its deadline", func(r *v1beta1.ContainerRecreateRequest) bool {
		return over(metav1.ConditionFalse)(r) && r.Status.Message == "recreating has exceeded the activeDeadlineSeconds" &&
			says(r, v1beta1.RecreateStalled, metav1.ConditionTrue, "Not restarted: app.")
	})
	if holders := podstate.Holders(n.Pod(pod.Name)); len(holders) > 0 {
		t.Errorf("the pod is still held by %v", holders)
	}
	// With its pod a request is over.
	n.Apply(recreate("gone", pod.Name, "app", "  strategy: {unreadyGracePeriodSeconds: 600}\n"))
	requestIs(n, "gone", "has begun", func(r *v1beta1.ContainerRecreateRequest) bool { return len(r.Finalizers) > 0 })
	if err := n.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	requestIs(n, "gone", "ends with its pod", func(r *v1beta1.ContainerRecreateRequest) bool {
		return over(metav1.ConditionFalse)(r) && r.Status.Message == "pod has gone"
	})
}

// A pod without a workload of ours may list the gate, too. It becomes ready, can be taken
// out of service, and is given back although the request's finalizer was removed by force.
func TestAPodOfOthersWithTheReadinessGate(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	node := ownNodes(t, n, 1)[0]
	simdaemon.Run(t, env, node, 143)
	n.Apply(strings.ReplaceAll(`
apiVersion: v1
kind: Pod
metadata: {name: bare}
spec:
  nodeSelector: {e2e: NODES}
  tolerations: [{key: e2e, operator: Exists}]
  readinessGates: [{conditionType: KruisePodReady}]
  containers: [{name: app, image: "example/web:v1"}]
`, "NODES", n.Name))
	ready := func(is bool) func(context.Context) error {
		return func(ctx context.Context) error {
			pod := &corev1.Pod{}
			if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "bare"}, pod); err != nil {
				return err
			}
			if podstate.Ready(pod) != is {
				return fmt.Errorf("its conditions are %+v", pod.Status.Conditions)
			}
			return nil
		}
	}
	n.Eventually("the pod is ready", ready(true))
	n.Apply(recreate("drain", "bare", "app", "  strategy: {unreadyGracePeriodSeconds: 600}\n"))
	requestIs(n, "drain", "holds its pod", func(r *v1beta1.ContainerRecreateRequest) bool {
		return says(r, v1beta1.RecreatePreRecreateGrace, metav1.ConditionTrue, "held not ready by")
	})
	n.Eventually("the pod is out of service", ready(false))
	if out, err := n.Kubectl("patch", "crr", "drain", "--type=merge", "--patch", `{"metadata":{"finalizers":null}}`); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r, err := request(t.Context(), n, "drain")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	n.EventuallyWithin(2*time.Minute, "the pod is back in service", ready(true))
}

// podsOfRequests makes the pods named by the requests in a file for kubectl: they have to
// run before.
func podsOfRequests(t *testing.T, n *environment.Namespace, file []string) {
	t.Helper()
	out, err := n.Kubectl(append([]string{"create", "--dry-run=client", "--output=yaml"}, file...)...)
	if err != nil {
		t.Fatalf("reading %v: %v\n%s", file, err, out)
	}
	pods := map[string][]string{}
	for document := range strings.SplitSeq(out, "\n---\n") {
		var objects struct {
			Kind string
			Spec v1beta1.ContainerRecreateRequestSpec
		}
		if err := yaml.Unmarshal([]byte(document), &objects); err != nil {
			t.Fatalf("reading %v: %v", file, err)
		}
		if objects.Kind == "ContainerRecreateRequest" {
			for _, container := range objects.Spec.Containers {
				pods[objects.Spec.PodName] = append(pods[objects.Spec.PodName], "{name: "+container.Name+", image: example/web:v1}")
			}
		}
	}
	for name, containers := range pods {
		n.Apply("apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {containers: [" + strings.Join(containers, ", ") + "]}")
		n.Eventually("pod "+name+" runs", func(ctx context.Context) error {
			pod := &corev1.Pod{}
			if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, pod); err != nil {
				return err
			}
			if !podstate.RunningAndReady(pod) {
				return fmt.Errorf("its status is %+v", pod.Status)
			}
			return nil
		})
	}
}

// requestsTakenUp waits until the operator reports on every ContainerRecreateRequest, and
// counts them.
func requestsTakenUp(t *testing.T, n *environment.Namespace) int {
	t.Helper()
	list := &v1beta1.ContainerRecreateRequestList{}
	if err := n.Client.List(t.Context(), list, client.InNamespace(n.Name)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		requestIs(n, list.Items[i].Name, "is managed", func(r *v1beta1.ContainerRecreateRequest) bool {
			return says(r, v1beta1.RecreateReconciling, metav1.ConditionTrue, "The daemon of node") ||
				says(r, v1beta1.RecreateReconciling, metav1.ConditionTrue, "for the same pod is carried out first") ||
				says(r, v1beta1.RecreateStalled, metav1.ConditionTrue, "daemon has not responded") // the other objects took longer
		})
	}
	return len(list.Items)
}
