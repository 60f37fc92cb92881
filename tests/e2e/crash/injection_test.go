// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package crash_test

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// TestPodsAreInjectedWithTheOperatorDead kills the operator. All pods of a Deployment for a
// SidecarSet on the policy path get the sidecar; on the webhook path they are refused, by
// its failure policy; pods without a set come up.
func TestPodsAreInjectedWithTheOperatorDead(t *testing.T) {
	replicas := sample.Number(50, 200)
	n := env.Namespace(t)
	create := func(name string, resources *v1beta1.SidecarResourcesPolicy) {
		t.Helper()
		set := &v1beta1.SidecarSet{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1beta1.SidecarSetSpec{
				Selector:          &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: n.Name}},
				Containers: []v1beta1.SidecarContainer{{
					Container: corev1.Container{Name: "sidecar", Image: scenario.V1}, ResourcesPolicy: resources,
				}},
			},
		}
		if err := n.Client.Create(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := client.IgnoreNotFound(n.Client.Delete(context.WithoutCancel(t.Context()), set)); err != nil {
				t.Error(err)
			}
		})
	}
	create("by-policy", nil)
	// The policy does not compute.
	create("by-webhook", &v1beta1.SidecarResourcesPolicy{
		TargetContainersMode: v1beta1.TargetContainersSum, TargetContainersNameRegex: ".*",
		ResourcesExpr: v1beta1.SidecarResourcesExpr{Requests: &v1beta1.SidecarResourceExpressions{CPU: "cpu*50%"}},
	})
	injectedBy(t, n, "by-policy", "Policy")
	injectedBy(t, n, "by-webhook", "Webhook")

	if err := env.Operator.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for name, count := range map[string]int32{"by-policy": int32(replicas), "by-webhook": 1, "nobody": 1} {
		if err := n.Client.Create(t.Context(), deployment(n.Name, name, count)); err != nil {
			t.Fatal(err)
		}
	}
	n.EventuallyWithin(2*time.Minute, "all pods are running", func(ctx context.Context) error { return running(ctx, n, "by-policy", replicas) })
	t.Logf("measured: %d pods came up with their sidecar in %.1f s while the operator was dead", replicas, time.Since(began).Seconds())
	n.Eventually("the pod that no set selects runs", func(ctx context.Context) error { return running(ctx, n, "nobody", 1) })
	for _, pod := range n.Pods("app=by-policy") {
		if !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "sidecar" }) {
			t.Errorf("pod %s has no sidecar", pod.Name)
		}
	}
	if pods := n.Pods("app=by-webhook"); len(pods) > 0 {
		t.Errorf("%d pods were created without the sidecar of a set that fails closed", len(pods))
	}
	if err := env.Operator.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.EventuallyWithin(2*time.Minute, "the refused pod comes up", func(ctx context.Context) error { return running(ctx, n, "by-webhook", 1) })
}

// TestHotUpgradeKilledAnywhere kills the operator between the steps of a hot upgrade, again and again. Every pod ends with the new image in the second
// container of the pair and the idle one in the first, and at no moment is the image of both idle.
func TestHotUpgradeKilledAnywhere(t *testing.T) {
	const (
		replicas = 12
		v1, v2   = "example/mesh:v1", "example/mesh:v2"
		idle     = "example/idle:v1"
	)
	seed := int64(sample.Day())
	t.Logf("%s=%d", sample.DayVariable, seed)
	n := env.Namespace(t)
	name := n.Name
	set := &v1beta1.SidecarSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.SidecarSetSpec{
			Selector:          &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: n.Name}},
			Containers: []v1beta1.SidecarContainer{{
				Container:       corev1.Container{Name: "mesh", Image: v1},
				UpgradeStrategy: v1beta1.SidecarUpgradeStrategy{UpgradeType: v1beta1.HotUpgrade, HotUpgradeEmptyImage: idle},
			}},
			UpdateStrategy: v1beta1.SidecarSetUpdateStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(3))},
		},
	}
	if err := n.Client.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.IgnoreNotFound(n.Client.Delete(context.WithoutCancel(t.Context()), set)) })
	injectedBy(t, n, name, "Policy")
	if err := n.Client.Create(t.Context(), deployment(n.Name, name, replicas)); err != nil {
		t.Fatal(err)
	}
	n.EventuallyWithin(2*time.Minute, "all pods are running", func(ctx context.Context) error { return running(ctx, n, name, replicas) })

	// images counts the pods by images in the pair.
	images := func(ctx context.Context) (map[string]int, error) {
		pods := &corev1.PodList{}
		if err := n.Client.List(ctx, pods, client.InNamespace(n.Name), client.MatchingLabels{"app": name}); err != nil {
			return nil, err
		}
		counts := map[string]int{}
		for i := range pods.Items {
			pair := map[string]string{}
			for _, c := range pods.Items[i].Spec.Containers {
				pair[c.Name] = c.Image
			}
			if pair["mesh-1"] == idle && pair["mesh-2"] == idle {
				t.Errorf("both containers of pod %s are idle", pods.Items[i].Name)
			}
			counts[pair["mesh-1"]+" "+pair["mesh-2"]]++
		}
		return counts, nil
	}
	n.Eventually("the set is changed", func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		set.Spec.Containers[0].Image = v2
		return n.Client.Update(ctx, set)
	})
	points := []int{1, 10, 22}
	if sample.All() {
		points = []int{1, 4, 7, 10, 14, 18, 22}
	}
	// Each pod takes two steps: 1 when the second container gets the image, 2 when the first one is idle.
	killAt(t, n, rand.New(rand.NewSource(seed)), points, func(ctx context.Context) (int, error) {
		counts, err := images(ctx)
		return counts[v1+" "+v2] + 2*counts[idle+" "+v2], err
	})
	n.EventuallyWithin(3*time.Minute, "all pods are upgraded", func(ctx context.Context) error {
		counts, err := images(ctx)
		if err == nil && counts[idle+" "+v2] != replicas {
			err = fmt.Errorf("the pairs are %v", counts)
		}
		return err
	})
	for _, pod := range n.Pods("app=" + name) {
		if got := pod.Annotations[shared.AnnotationSidecarSetWorkingContainer]; got != `{"mesh":"mesh-2"}` {
			t.Errorf("pod %s says that %s works", pod.Name, got)
		}
	}
}

// injectedBy waits until the set reports a way of injection, proven.
func injectedBy(t *testing.T, n *environment.Namespace, name, path string) {
	t.Helper()
	n.EventuallyWithin(time.Minute, name+" is injected by "+path, func(ctx context.Context) error {
		set := &v1beta1.SidecarSet{}
		if err := n.Client.Get(ctx, client.ObjectKey{Name: name}, set); err != nil {
			return err
		}
		c := meta.FindStatusCondition(set.Status.Conditions, string(v1beta1.SidecarSetInjectionPath))
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != path {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
}

func running(ctx context.Context, n *environment.Namespace, app string, want int) error {
	pods := &corev1.PodList{}
	if err := n.Client.List(ctx, pods, client.InNamespace(n.Name), client.MatchingLabels{"app": app}); err != nil {
		return err
	}
	are := 0
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning {
			are++
		}
	}
	if are != want {
		return fmt.Errorf("%d are running", are)
	}
	return nil
}

func deployment(namespace, name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](1), Containers: []corev1.Container{{Name: "main", Image: scenario.V1}}},
			},
		},
	}
}
