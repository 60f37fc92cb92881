// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// awaitBudget waits until a budget in force has these numbers: allowed, current, desired, total.
func awaitBudget(n *environment.Namespace, name string, allowed, current, desired, total int32) *v1beta1.PodUnavailableBudget {
	want := fmt.Sprint("allowed ", allowed, " current ", current, " desired ", desired, " total ", total)
	budget := &v1beta1.PodUnavailableBudget{}
	n.EventuallyWithin(time.Minute, "budget "+name+" has "+want, func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, budget); err != nil {
			return err
		}
		s := &budget.Status
		got := fmt.Sprint("allowed ", s.UnavailableAllowed, " current ", s.CurrentAvailable, " desired ", s.DesiredAvailable, " total ", s.TotalReplicas)
		if got != want || s.ObservedGeneration != budget.Generation {
			return fmt.Errorf("it has %s, of generation %d: %+v", got, s.ObservedGeneration, s.Conditions)
		}
		return nil
	})
	return budget
}

func budgetManifest(name, spec string) string {
	return "apiVersion: policy.kruise.io/v1beta1\nkind: PodUnavailableBudget\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

func deploymentManifest(name string, replicas int, image string) string {
	return strings.NewReplacer("NAME", name, "REPLICAS", fmt.Sprint(replicas), "IMAGE", image).Replace(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "IMAGE"}]
`)
}

func evict(ctx context.Context, c client.Client, pod *corev1.Pod, dryRun ...string) error {
	return c.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun},
	})
}

// Fifty clients delete or evict at once: never more than allowed go. A replacement that is ready gives room again.
func TestNoMoreThanTheBudgetGoAtOnce(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(deploymentManifest("web", 10, "example/web:v1"))
	n.Apply(budgetManifest("web", `{targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxUnavailable: "30%"}`))
	awaitBudget(n, "web", 3, 10, 7, 10)
	pods := n.Pods("app=web")
	for i := range pods {
		n.PatchPod(pods[i].Name, `{"metadata":{"finalizers":["example.com/stay"]}}`)
	}
	var gone atomic.Int32
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			pod := &pods[i%len(pods)]
			err := n.Client.Delete(t.Context(), pod.DeepCopy())
			if i%2 == 0 {
				err = evict(t.Context(), n.Client, pod.DeepCopy())
			}
			switch {
			case err == nil:
				gone.Add(1)
			case i%2 == 0 && (!apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)):
				t.Errorf("eviction: %v", err)
			case i%2 == 1 && !apierrors.IsForbidden(err):
				t.Errorf("deletion: %v", err)
			}
			if seconds, asked := apierrors.SuggestsClientDelay(err); asked {
				t.Errorf("a client is told to wait %d seconds", seconds)
			}
		})
	}
	group.Wait()
	terminating := 0
	for _, pod := range n.Pods("app=web") {
		if pod.DeletionTimestamp != nil {
			terminating++
		}
	}
	if terminating == 0 || terminating > 3 { // a request that fails after it was allowed keeps its place for a while
		t.Errorf("%d pods are terminating, of %d requests that were allowed; want at most 3", terminating, gone.Load())
	}
	for i := range pods {
		n.PatchPod(pods[i].Name, `{"metadata":{"finalizers":null}}`)
	}
	awaitBudget(n, "web", 3, 10, 7, 10)
}

// Bare pods, pods of native kinds, and two reported cases of users.
func TestBudgetsOfPodsOfOthers(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	for _, kind := range []string{"apps/v1 ReplicaSet", "apps/v1 StatefulSet", "v1 ReplicationController"} {
		version, kind, _ := strings.Cut(kind, " ")
		selector := "{matchLabels: {set: " + strings.ToLower(kind) + "}}"
		if kind == "ReplicationController" {
			selector = "{set: replicationcontroller}"
		}
		n.Apply(strings.NewReplacer("VERSION", version, "KIND", kind, "SELECTOR", selector, "SET", strings.ToLower(kind)).Replace(`
apiVersion: VERSION
kind: KIND
metadata: {name: SET}
spec:
  replicas: 2
  selector: SELECTOR
  template:
    metadata: {labels: {app: mix, set: SET}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "example/web:v1"}]
`))
	}
	n.Apply(budgetManifest("mix", `{selector: {matchLabels: {app: mix}}, minAvailable: 5}`))
	awaitBudget(n, "mix", 1, 6, 5, 6)
	for _, pod := range n.Pods("app=mix") {
		if pod.Annotations[v1beta1.AnnotationRelatedBudget] != "mix" || pod.Annotations[v1beta1.AnnotationRelatedBudgetLegacy] != "mix" {
			t.Errorf("pod %s has annotations %v", pod.Name, pod.Annotations)
		}
	}
	debugged(t, n, 3) // bare pods with the label app=web
	n.Apply(budgetManifest("web", `{selector: {matchLabels: {app: web}}, maxUnavailable: 1, protectTotalReplicas: 3}`))
	awaitBudget(n, "web", 1, 3, 2, 3)
	p0, p1 := n.Pod("p0"), n.Pod("p1")
	if err := evict(t.Context(), n.Client, p0.DeepCopy(), metav1.DryRunAll); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if err := evict(t.Context(), n.Client, p0.DeepCopy()); err != nil {
		t.Errorf("the first eviction: %v", err)
	}
	if err := evict(t.Context(), n.Client, p1.DeepCopy()); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the second eviction: %v", err)
	}
	if err := n.Client.Delete(t.Context(), p1.DeepCopy(), client.DryRunAll); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodUnavailableBudget web") {
		t.Errorf("a dry run of a deletion: %v", err)
	}
	n.PatchPod("p1", `{"metadata":{"annotations":{"`+v1beta1.AnnotationNoProtect+`":"true"}}}`)
	if err := n.Client.Delete(t.Context(), p1.DeepCopy()); err != nil {
		t.Errorf("a pod that asks for no protection: %v", err)
	}
}

// Q01: a pod is protected, whatever form the runtime gives the id of an image that is pinned by its digest.
func TestPodsOfAPinnedImageAreProtected(t *testing.T) {
	t.Parallel()
	const digest = "sha256:5f1b9f8c1e0f4c0e9d8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e"
	n := env.Namespace(t)
	n.Apply(environment.Edited(deploymentManifest("web", 2, "example/web@"+digest),
		"labels: {app: web}}", fmt.Sprintf("labels: {app: web}, annotations: {%s: %q}}", simnode.ImageID, strings.Replace(digest, "5f", "00", 1))))
	n.Apply(budgetManifest("web", `{targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxUnavailable: 1}`))
	awaitBudget(n, "web", 1, 2, 1, 2)
	pods := n.Pods("app=web")
	if id := pods[0].Status.ContainerStatuses[0].ImageID; !strings.HasPrefix(id, "sha256:00") {
		t.Errorf("the id of the image is %q", id)
	}
	n.PatchPod(pods[0].Name, `{"metadata":{"finalizers":["example.com/stay"]}}`)
	if err := evict(t.Context(), n.Client, pods[0].DeepCopy()); err != nil {
		t.Errorf("the first eviction: %v", err)
	}
	if err := evict(t.Context(), n.Client, pods[1].DeepCopy()); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the second eviction: %v", err)
	}
	n.PatchPod(pods[0].Name, `{"metadata":{"finalizers":null}}`)
}

// A CloneSet waits for the budget of its pods, names it, and needs no answer of the webhook. Q03: pods that are marked to be
// deleted make no room by their replacements.
func TestACloneSetWaitsForItsBudget(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(`
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 4
  updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "example/web:v1"}]
`)
	n.SettledCloneSet("web")
	n.Apply(budgetManifest("web", `{targetRef: {apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, name: web}, maxUnavailable: 0}`))
	awaitBudget(n, "web", 0, 4, 4, 4)
	marked := n.Pods("app=web")[0]
	n.PatchPod(marked.Name, `{"metadata":{"labels":{"apps.kruise.io/specified-delete":"true"}}}`)
	waits(n, "cloneset/web")
	tolerate(t, n, 1)
	for _, pod := range n.Pods("app=web") {
		n.PatchPod(pod.Name, `{"metadata":{"labels":{"apps.kruise.io/specified-delete":"true"}}}`)
	}
	n.Eventually("all pods are replaced, and never more than 1 is allowed", func(ctx context.Context) error {
		budget := &v1beta1.PodUnavailableBudget{}
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "web"}, budget); err != nil {
			return err
		}
		if budget.Status.UnavailableAllowed > 1 {
			t.Fatalf("allowed are %d: %+v", budget.Status.UnavailableAllowed, budget.Status)
		}
		pods := n.Pods("app=web")
		for _, pod := range pods {
			if pod.Labels["apps.kruise.io/specified-delete"] != "" || !environment.IsReady(&pod) {
				return fmt.Errorf("pod %s is marked or not ready", pod.Name)
			}
		}
		if len(pods) != 4 {
			return fmt.Errorf("%d pods", len(pods))
		}
		return nil
	})
	awaitBudget(n, "web", 1, 4, 3, 4)
}
