// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// distribution is a ResourceDistribution for the namespaces with a label of its own.
type distribution struct {
	*environment.Namespace
	t    *testing.T
	name string
}

// distribute creates one. The resource is of a kind, with further fields.
func distribute(t *testing.T, kind, fields string) *distribution {
	t.Helper()
	d := &distribution{Namespace: env.Namespace(t), t: t}
	d.name = d.Name
	d.Apply(fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: ResourceDistribution
metadata: {name: %[1]s}
spec:
  resource: {apiVersion: v1, kind: %[2]s, metadata: {name: hub}, %[3]s}
  targets:
    namespaceSelector: {matchLabels: {team: %[1]s}}
`, d.name, kind, fields))
	t.Cleanup(func() {
		_ = env.Client.Delete(context.WithoutCancel(t.Context()), &v1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: d.name}})
	})
	return d
}

// chosen makes a namespace a target, or none.
func (d *distribution) chosen(namespace string, is bool) {
	d.t.Helper()
	label := "null"
	if is {
		label = `"` + d.name + `"`
	}
	d.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, `{"metadata":{"labels":{"team":`+label+`}}}`)
}

func (d *distribution) patch(object client.Object, patch string) {
	d.t.Helper()
	if err := env.Client.Patch(d.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		d.t.Fatal(err)
	}
}

func (d *distribution) object() *v1beta1.ResourceDistribution {
	return &v1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: d.name}}
}

// reports waits for counters, and for the conditions that are True with the namespaces they name.
func (d *distribution) reports(desired, succeeded int32, faulty ...string) {
	d.t.Helper()
	d.Eventually("the status", func(ctx context.Context) error {
		object := d.object()
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		var is []string
		for _, c := range object.Status.Conditions {
			if c.Status == corev1.ConditionTrue && c.Type != v1beta1.ResourceDistributionStalled && c.Type != v1beta1.ResourceDistributionReconciling {
				is = append(is, string(c.Type)+" "+strings.Join(c.FailedNamespaces, " "))
			}
		}
		s := &object.Status
		if s.ObservedGeneration != object.Generation || s.Desired != desired || s.Succeeded != succeeded || s.Failed != desired-succeeded || fmt.Sprint(is) != fmt.Sprint(faulty) {
			return fmt.Errorf("it is %+v", s)
		}
		return nil
	})
}

func hub(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hub"}}
}

// has waits for a copy with this data; nil: for none.
func (d *distribution) has(namespace string, data map[string]string) *corev1.ConfigMap {
	d.t.Helper()
	found := hub(namespace)
	d.Eventually("the copy in "+namespace, func(ctx context.Context) error {
		found = hub(namespace)
		err := env.Client.Get(ctx, client.ObjectKeyFromObject(found), found)
		switch {
		case data == nil && apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case data == nil || !maps.Equal(found.Data, data):
			return fmt.Errorf("there is %v", found.Data)
		}
		return nil
	})
	return found
}

// writesOf are the operator's writes of a kind of copies.
func writesOf(t *testing.T, log *audit.Log, resource string) []auditv1.Event {
	t.Helper()
	events, err := log.Next(func(e *auditv1.Event) bool {
		return e.User.Username == operator.ServiceAccountUser && e.ObjectRef != nil && e.ObjectRef.Resource == resource && e.ObjectRef.Name == "hub" &&
			e.Verb != "get" && e.Verb != "list" && e.Verb != "watch"
	})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// TestAConfigMapIsDistributed goes through what a user and the owners of namespaces do.
func TestAConfigMapIsDistributed(t *testing.T) {
	t.Parallel()
	d := distribute(t, "ConfigMap", "data: {a: '1'}")
	one, two, own := env.Namespace(t).Name, env.Namespace(t).Name, env.Namespace(t).Name
	d.reports(0, 0)
	data := map[string]string{"a": "1"}

	d.chosen(one, true)
	d.chosen(two, true)
	made := d.has(one, data)
	d.has(two, data)
	d.reports(2, 2)
	if owner := metav1.GetControllerOf(made); owner == nil || owner.Name != d.name || owner.APIVersion != "apps.kruise.io/v1beta1" || owner.BlockOwnerDeletion == nil {
		t.Errorf("the owner is %+v", owner)
	}
	if from := made.Annotations["kruise.io/resourcedistribution.resource.from"]; from != d.name || len(made.Annotations["kruise.io/resourcedistribution.resource.hashcode"]) != 64 {
		t.Errorf("the annotations are %v", made.Annotations)
	}

	d.patch(hub(one), `{"metadata":{"labels":{"mine":"yes"}},"data":{"a":"2"}}`)
	d.has(one, data)
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: one, Name: "other"}}
	if err := env.Client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	made.OwnerReferences = append(made.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: other.UID})
	owners, err := json.Marshal(made.OwnerReferences)
	if err != nil {
		t.Fatal(err)
	}
	d.patch(hub(one), `{"metadata":{"annotations":{"mine":"yes"},"ownerReferences":`+string(owners)+`},"data":{"b":"3"}}`)
	if kept := d.has(one, data); kept.Labels["mine"] != "yes" || kept.UID != made.UID {
		t.Errorf("the copy is %+v", kept.ObjectMeta)
	}
	if err := env.Client.Delete(t.Context(), hub(two)); err != nil {
		t.Fatal(err)
	}
	d.has(two, data)

	d.patch(d.object(), `{"spec":{"resource":{"metadata":{"labels":{"x":"y"}}}}}`)
	d.Eventually("labels reach copies", func(ctx context.Context) error {
		found := hub(one)
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(found), found); err != nil || found.Labels["x"] != "y" || found.Labels["mine"] != "yes" {
			return fmt.Errorf("labels %v, %w", found.Labels, err)
		}
		return nil
	})
	d.patch(d.object(), `{"spec":{"resource":{"metadata":{"labels":null},"data":{"a":null,"c":"4"}}}}`)
	data = map[string]string{"c": "4"}
	kept := d.has(one, data)
	if _, found := kept.Labels["x"]; found || kept.Labels["mine"] != "yes" || kept.Annotations["mine"] != "yes" || len(kept.OwnerReferences) != 2 {
		t.Errorf("the copy is %+v", kept.ObjectMeta)
	}
	d.has(two, data)

	theirs := hub(own)
	theirs.Data = map[string]string{"mine": "yes"}
	if err := env.Client.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	d.chosen(own, true)
	d.reports(3, 2, "ConflictOccurred "+own)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil || len(theirs.OwnerReferences)+len(theirs.Labels) > 0 || theirs.Data["mine"] != "yes" {
		t.Errorf("the user's object is %+v, %v", theirs, err)
	}
	if err := env.Client.Delete(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	d.has(own, data)
	d.reports(3, 3)

	d.chosen(one, false)
	d.has(one, nil)
	d.reports(2, 2)
	if err := env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: own}}); err != nil {
		t.Fatal(err)
	}
	d.reports(1, 1)
	d.patch(d.object(), `{"spec":{"targets":{"includedNamespaces":{"list":[{"name":"`+d.name+`-later"}]}}}}`)
	d.reports(2, 1, "NamespaceNotExists "+d.name+"-later")
	later := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.name + "-later"}}
	if err := env.Client.Create(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(t.Context()), later) })
	d.has(later.Name, data)
	d.reports(2, 2)

	older := &v1alpha1.ResourceDistribution{}
	if err := env.Client.Get(t.Context(), types.NamespacedName{Name: d.name}, older); err != nil || older.Spec.Targets.NamespaceLabelSelector.MatchLabels["team"] != d.name {
		t.Errorf("v1alpha1 shows %+v, %v", older.Spec.Targets, err)
	}
	d.Eventually("events tell of it", func(ctx context.Context) error {
		list := &eventsv1.EventList{}
		if err := env.Client.List(ctx, list); err != nil {
			return err
		}
		seen := map[string]bool{}
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.Kind == "ResourceDistribution" && e.Regarding.Name == d.name {
				seen[e.Reason] = true
			}
		}
		if !seen["Distributed"] || !seen["DistributionFailed"] {
			return fmt.Errorf("there are %v", seen)
		}
		return nil
	})
	if err := env.Client.Delete(t.Context(), d.object()); err != nil {
		t.Fatal(err)
	}
	d.has(two, nil)
	d.has(later.Name, nil)
}

// TestTheFirstOfTwoDistributionsHasTheCopy: the other one reports a conflict, and gets it when the first gives it up.
func TestTheFirstOfTwoDistributionsHasTheCopy(t *testing.T) {
	t.Parallel()
	first, second := distribute(t, "ConfigMap", "data: {a: '1'}"), distribute(t, "ConfigMap", "data: {a: '2'}")
	target := env.Namespace(t).Name
	first.chosen(target, true)
	first.has(target, map[string]string{"a": "1"})
	second.patch(second.object(), `{"spec":{"targets":{"includedNamespaces":{"list":[{"name":"`+target+`"}]}}}}`)
	second.reports(1, 0, "ConflictOccurred "+target)
	first.has(target, map[string]string{"a": "1"})
	first.chosen(target, false)
	second.has(target, map[string]string{"a": "2"})
	second.reports(1, 1)
}

// TestEachCopyIsWrittenOnce counts requests.
func TestEachCopyIsWrittenOnce(t *testing.T) {
	t.Parallel()
	const count = 30
	mine := map[string]bool{}
	d := distribute(t, "ConfigMap", "data: {a: '1'}")
	log, err := audit.Open(env.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	written := func() (n int) {
		for _, e := range writesOf(t, log, "configmaps") {
			if mine[e.ObjectRef.Namespace] {
				n++
			}
		}
		return n
	}
	for i := range count {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", d.name, i), Labels: map[string]string{"team": d.name}}}
		mine[namespace.Name] = true
		if err := env.Client.Create(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(t.Context()), namespace) })
	}
	d.reports(count, count)
	if n := written(); n != count {
		t.Errorf("%d writes of %d new copies", n, count)
	}
	d.patch(d.object(), `{"spec":{"resource":{"data":{"a":"2"}}}}`)
	for namespace := range mine {
		d.has(namespace, map[string]string{"a": "2"})
	}
	d.reports(count, count)
	if n := written(); n != count {
		t.Errorf("%d writes of %d changed copies", n, count)
	}
	d.Consistently(3*time.Second, "nothing is written at rest", func(context.Context) error {
		if n := written(); n > 0 {
			return fmt.Errorf("%d writes", n)
		}
		return nil
	})
}

// TestASecretNeedsARole: without it a condition says what is missing, and nothing is listed or watched.
func TestASecretNeedsARole(t *testing.T) {
	t.Parallel()
	d := distribute(t, "Secret", "stringData: {token: fake}")
	one, two := env.Namespace(t).Name, env.Namespace(t).Name
	d.chosen(one, true)
	d.chosen(two, true)
	bind := func(namespace string) {
		t.Helper()
		err := env.Client.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "distribute"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kruise-operator-distribute-secrets"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kruise-system", Name: "kruise-operator-manager"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	bind(one)
	d.reports(2, 1, "GetResourceFailed "+two)
	d.Eventually("the role is named", func(ctx context.Context) error {
		object := d.object()
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		for _, c := range object.Status.Conditions {
			if c.Type == v1beta1.ResourceDistributionStalled && c.Reason == v1beta1.ReasonRightsMissing && strings.Contains(c.Message, "("+two+"): bind the ClusterRole kruise-operator-distribute-secrets") {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", object.Status.Conditions)
	})
	bind(two)
	d.reports(2, 2)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: one, Name: "hub"}}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil || string(secret.Data["token"]) != "fake" {
		t.Errorf("the Secret is %v, %v", secret.Data, err)
	}
	log, err := audit.Open(env.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	d.Consistently(2*time.Second, "nothing is written at rest", func(context.Context) error {
		for _, e := range writesOf(t, log, "secrets") {
			if e.ObjectRef.Namespace == one || e.ObjectRef.Namespace == two {
				return fmt.Errorf("%s in %s", e.Verb, e.ObjectRef.Namespace)
			}
		}
		return nil
	})
	d.chosen(one, false)
	d.Eventually("the copy goes", func(ctx context.Context) error {
		err := env.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		if err == nil {
			return fmt.Errorf("there is %s", secret.UID)
		}
		return client.IgnoreNotFound(err)
	})
	d.reports(1, 1)
}
