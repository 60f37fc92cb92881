// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controller_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// documentedWait runs README's commands to wait for a rollout, on another object, in
// sequence until one fails.
func documentedWait(t *testing.T, n *environment.Namespace, object string) (out string, failed int, err error) {
	t.Helper()
	page, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n$ kubectl wait ")
	line, _, _ := strings.Cut("kubectl wait "+rest, "\n")
	if commands := strings.Split(line, " && "); found && len(commands) > 1 {
		for i, command := range commands {
			words := strings.Fields(strings.ReplaceAll(command, "asts/ring", object))
			if out, err = n.Kubectl(words[1:]...); err != nil {
				return out, i + 1, err
			}
		}
		return out, 0, nil
	}
	t.Fatalf("README does not say how to wait for a rollout: %q", line)
	return "", 0, nil
}

// A script waiting for Reconciling=False took an unpullable image for a success.
func TestTheDocumentedWaitFailsForAnImageThatCannotBePulled(t *testing.T) {
	t.Parallel()
	c := newClones(t, 2)
	c.Apply(environment.StatefulSetManifest("ring", 2))
	c.Settled("ring")
	for _, object := range []string{"asts/ring", "clone/web"} {
		if out, _, err := documentedWait(t, c.Namespace, object); err != nil {
			t.Errorf("of %s at rest: %v: %s", object, err, out)
		}
	}
	c.SetImage("ring", "example/unpullable:v2")
	c.ChangeCloneSet("web", func(set *v1beta1.CloneSet) { set.Spec.Template.Spec.Containers[0].Image = "example/unpullable:v2" })
	for _, object := range []string{"asts/ring", "clone/web"} {
		out, failed, err := documentedWait(t, c.Namespace, object)
		if failed != 2 {
			t.Errorf("of %s whose image cannot be pulled: command %d fails, want the second: %v: %s", object, failed, err, out)
		}
		describe, err := c.Kubectl("get", object, "-o", `jsonpath={.status.conditions[?(@.type=="Stalled")].reason}: {.status.conditions[?(@.type=="Stalled")].message}`)
		if err != nil || !strings.HasPrefix(describe, v1beta1.ReasonImagePullFailed+": ") || !strings.Contains(describe, "container main: ImagePullBackOff example/unpullable:v2") {
			t.Errorf("Stalled of %s says %q (%v), want the image", object, describe, err)
		}
	}
}

// restartOperator stops the operator, changes the cluster and runs it again. At the end of the test its roles are installed again.
func restartOperator(t *testing.T, meanwhile func()) {
	t.Helper()
	if err := env.Operator.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := errors.Join(env.Operator.Stop(), env.Operator.Install(ctx), env.Operator.Run(ctx)); err != nil {
			t.Errorf("starting the operator again: %v", err)
		}
	})
	meanwhile()
	if err := env.Operator.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A set with claims did nothing, for ever and in silence, while the operator had no right to read claims.
func TestARightThatTheOperatorLacksIsSaid(t *testing.T) {
	n := env.Namespace(t)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-manager"}}
	var all []rbacv1.PolicyRule
	restartOperator(t, func() { all = withoutRight(t, n, role, "persistentvolumeclaims") })
	kruise := createKruise(t, n)
	if err := env.Nodes.CreateStorageClass(t.Context(), "simulated", storagev1.VolumeBindingWaitForFirstConsumer, false); err != nil {
		t.Fatal(err)
	}
	claims := "  volumeClaimTemplates:\n  - metadata: {name: data}\n    spec: {storageClassName: simulated, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
	n.Apply(environment.StatefulSetManifest("web", 2, "  serviceName: web\n", "  serviceName: web\n"+claims))
	clone := "apiVersion: apps.kruise.io/v1beta1\nkind: CloneSet\nmetadata: {name: shop}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: shop}}\n" +
		"  template:\n    metadata: {labels: {app: shop}}\n    spec: {containers: [{name: main, image: example/web:v1}]}\n" + claims
	n.Apply(clone)
	const right = `cannot list resource "persistentvolumeclaims"`
	says := func(conditions map[string]string) error {
		if got := conditions["Stalled"]; !strings.HasPrefix(got, "True "+v1beta1.ReasonRightsMissing+" ") || !strings.Contains(got, right) {
			return fmt.Errorf("Stalled is %q", got)
		}
		return nil
	}
	n.Eventually("the StatefulSet says which right is missing", func(context.Context) error {
		conditions := map[string]string{}
		for _, c := range n.StatefulSet("web").Status.Conditions {
			conditions[string(c.Type)] = fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
		}
		return says(conditions)
	})
	n.Eventually("the CloneSet says which right is missing", func(context.Context) error {
		conditions := map[string]string{}
		for _, c := range n.CloneSet("shop").Status.Conditions {
			conditions[string(c.Type)] = fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
		}
		return says(conditions)
	})
	n.Eventually("the Kruise object says so of the kinds", func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(kruise), kruise); err != nil {
			return err
		}
		for _, kind := range kruise.Status.Kinds {
			if kind.Kind == "StatefulSet" && kind.Reason == operatorv1alpha1.KindRightsMissing && strings.Contains(kind.Message, right) {
				return nil
			}
		}
		return fmt.Errorf("the status is %+v", kruise.Status)
	})
	if found := events(t, n, "web", v1beta1.ReasonRightsMissing); len(found) != 1 || found[0].Type != corev1.EventTypeWarning {
		t.Errorf("the events are %+v, want one warning", found)
	}
	if pods := n.Pods(); len(pods) > 0 {
		t.Errorf("there are pods %v", environment.Names(pods))
	}

	giveRights(t, n, role, all)
	began := time.Now()
	set := n.Settled("web")
	n.SettledCloneSet("shop")
	t.Logf("measured: both sets are available %s after the right was given", time.Since(began).Round(10*time.Millisecond))
	if c := condition(set, v1beta1.StatefulSetFailedCreatePod); c != nil || is(set, v1beta1.StatefulSetStalled, corev1.ConditionTrue) {
		t.Errorf("with the right the conditions are %+v", set.Status.Conditions)
	}
}

// withoutRight takes all rights on a resource from the operator's role, and returns the rules before.
func withoutRight(t *testing.T, n *environment.Namespace, role *rbacv1.ClusterRole, resource string) []rbacv1.PolicyRule {
	t.Helper()
	if err := n.Client.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(role.Rules)
	for i, rule := range role.Rules {
		role.Rules[i].Resources = slices.DeleteFunc(slices.Clone(rule.Resources), func(r string) bool { return r == resource })
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return len(rule.Resources) == 0 })
	if err := n.Client.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the server has noticed that the right is gone", func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               operator.ServiceAccountUser,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: resource},
		}}
		if err := n.Client.Create(ctx, review); err != nil {
			return err
		}
		if review.Status.Allowed {
			return fmt.Errorf("%s may be listed", resource)
		}
		return nil
	})
	return all
}

func giveRights(t *testing.T, n *environment.Namespace, role *rbacv1.ClusterRole, rules []rbacv1.PolicyRule) {
	t.Helper()
	if err := n.Client.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
		t.Fatal(err)
	}
	role.Rules = rules
	if err := n.Client.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
}

func createKruise(t *testing.T, n *environment.Namespace) *operatorv1alpha1.Kruise {
	t.Helper()
	kruise := &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Name: operatorv1alpha1.KruiseName}}
	if err := n.Client.Create(t.Context(), kruise); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Client.Delete(context.WithoutCancel(t.Context()), kruise); err != nil {
			t.Error(err)
		}
	})
	return kruise
}

// Nothing runs before the caches are filled, so an operator unable to read pods was ready,
// and did nothing in silence.
func TestAnOperatorThatMayNotReadPodsSaysSo(t *testing.T) {
	n := env.Namespace(t)
	if err := env.Operator.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := errors.Join(env.Operator.Install(ctx), env.Operator.Run(ctx)); err != nil {
			t.Errorf("starting the operator again: %v", err)
		}
	})
	kruise := createKruise(t, n)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-manager"}}
	all := withoutRight(t, n, role, "pods")
	blind, err := operator.New(t.Context(), env.Cluster, operator.Options{Name: "blind", NoWait: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := blind.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := blind.Stop(); err != nil {
			t.Error(err)
		}
	})
	available := func(ctx context.Context, status metav1.ConditionStatus, text string) error {
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(kruise), kruise); err != nil {
			return err
		}
		c := meta.FindStatusCondition(kruise.Status.Conditions, operatorv1alpha1.KruiseAvailable)
		if c == nil || c.Status != status || !strings.Contains(c.Message, text) {
			return fmt.Errorf("Available is %+v", c)
		}
		return nil
	}
	n.Eventually("the Kruise object says which right is missing", func(ctx context.Context) error {
		return available(ctx, metav1.ConditionFalse, `cannot list resource "pods"`)
	})
	if log, err := os.ReadFile(blind.Log()); err != nil || !strings.Contains(string(log), "The operator may not read what it needs") {
		t.Errorf("the log does not say so: %v:\n%s", err, log)
	}
	giveRights(t, n, role, all)
	// A refusal counts for a minute at most, if nothing else ends it.
	n.EventuallyWithin(2*time.Minute, "with the right the kinds are managed", func(ctx context.Context) error { return available(ctx, metav1.ConditionTrue, "managed: ") })
}

// A restart of containers during the replacement of OpenKruise left its pod out of service
// for good, and nothing said why.
func TestPodsThatOthersHoldOutOfServiceAreNamedOrReleased(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 2))
	n.Settled("web")
	hold := func(pod, holder string) {
		t.Helper()
		patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"KruisePodReady","status":"False","message":%q}]}}`, holder)
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: pod}}
		if err := n.Client.Status().Patch(t.Context(), object, client.RawPatch(types.StrategicMergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	hold("web-1", `[{"userAgent":"Backup","key":"nightly"}]`)
	hold("web-0", `[{"userAgent":"ContainerRecreateRequest","key":"`+n.Name+`/restart-1"}]`)
	named := func(context.Context) error {
		released := slices.ContainsFunc(n.Pod("web-0").Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == "KruisePodReady" && c.Status == corev1.ConditionTrue && c.Message == "[]"
		})
		if !released {
			return fmt.Errorf("the conditions of web-0 are %+v", n.Pod("web-0").Status.Conditions)
		}
		c := condition(n.StatefulSet("web"), v1beta1.StatefulSetPodsHeldNotReady)
		if c == nil || c.Reason != v1beta1.ReasonHeldByOthers || !strings.HasSuffix(c.Message, "KruisePodReady: web-1 by Backup nightly") {
			return fmt.Errorf("PodsHeldNotReady is %+v", c)
		}
		if !environment.IsReady(n.Pod("web-0")) || environment.IsReady(n.Pod("web-1")) {
			return fmt.Errorf("ready are web-0 %v, web-1 %v", environment.IsReady(n.Pod("web-0")), environment.IsReady(n.Pod("web-1")))
		}
		return nil
	}
	n.Eventually("the hold of a request that does not exist is given up, and the other holder is named", named)
	n.Consistently(2*time.Second, "an unknown holder keeps its hold", func(context.Context) error {
		held := slices.ContainsFunc(n.Pod("web-1").Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == "KruisePodReady" && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "Backup")
		})
		if !held {
			return fmt.Errorf("the conditions of web-1 are %+v", n.Pod("web-1").Status.Conditions)
		}
		return nil
	})
	patch := `{"status":{"conditions":[{"type":"KruisePodReady","status":"True","message":"[]"}]}}`
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "web-1"}}
	if err := n.Client.Status().Patch(t.Context(), object, client.RawPatch(types.StrategicMergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the condition goes with the hold", func(context.Context) error {
		if c := condition(n.StatefulSet("web"), v1beta1.StatefulSetPodsHeldNotReady); c != nil {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}
