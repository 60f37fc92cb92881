// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package takeover_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// ofUnited are UnitedDeployments' objects: workloads by name, with all other parts to be
// kept.
type ofUnited struct {
	workloads map[string]*unstructured.Unstructured
	pods      map[types.NamespacedName]corev1.Pod
	revisions map[types.NamespacedName]appsv1.ControllerRevision
	sets      map[types.NamespacedName]v1beta1.UnitedDeployment
}

func readUnited(ctx context.Context, c client.Client) (ofUnited, error) {
	all := ofUnited{workloads: map[string]*unstructured.Unstructured{}}
	for _, adapter := range united.Adapters() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(adapter.Kind.GroupVersion().WithKind(adapter.Kind.Kind + "List"))
		if err := c.List(ctx, list, client.InNamespace("uniteddeployment")); err != nil {
			return all, err
		}
		for i := range list.Items {
			all.workloads[list.Items[i].GetName()] = &list.Items[i]
		}
	}
	pods, revisions, sets := &corev1.PodList{}, &appsv1.ControllerRevisionList{}, &v1beta1.UnitedDeploymentList{}
	for _, list := range []client.ObjectList{pods, revisions, sets} {
		if err := c.List(ctx, list, client.InNamespace("uniteddeployment")); err != nil {
			return all, err
		}
	}
	all.pods, all.revisions, all.sets = byName(pods.Items), byName(revisions.Items), byName(sets.Items)
	return all, nil
}

// TestTakeoverOfUnitedDeployments starts the operator on three UnitedDeployments in the
// middle of an update by OpenKruise. No workload is created again or gets another spec, no
// pod and no revision changes; and a field removed from a template later goes.
func TestTakeoverOfUnitedDeployments(t *testing.T) {
	t.Parallel()
	c := cluster.StartForTest(t, cluster.Options{ControlPlane: cluster.APIServerOnly})
	direct, err := client.New(c.Config(), client.Options{Scheme: environment.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.InstallCRDs(t.Context(), "../../../config/crd/bases"); err != nil {
		t.Fatal(err)
	}
	fixtures.Restore(t.Context(), t, client.WithFieldOwner(direct, "manager"), "cluster/state.yaml", "uniteddeployment/state.yaml")
	before, err := readUnited(t.Context(), direct)
	if err != nil || len(before.workloads) != 6 || len(before.pods) == 0 || len(before.sets) != 3 || len(before.revisions) < 12 {
		t.Fatalf("restored are %d workloads, %d pods, %d revisions and %d sets: %v", len(before.workloads), len(before.pods), len(before.revisions), len(before.sets), err)
	}
	o, err := operator.New(t.Context(), c, operator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := namespaceOf(t, c, direct)
	n.Eventually("all workloads are taken over", func(ctx context.Context) error {
		now, err := readUnited(ctx, direct)
		if err != nil {
			return err
		}
		for name, w := range now.workloads {
			if hash := w.GetAnnotations()[shared.AnnotationAppliedHash]; hash == "" || hash == shared.Adopting {
				return fmt.Errorf("%s has the hash %q", name, hash)
			}
		}
		return nil
	})
	n.Consistently(quiet, "everything stays", func(ctx context.Context) error {
		now, err := readUnited(ctx, direct)
		if err != nil {
			return err
		}
		return unchanged(before, now)
	})
	reapplyUnited(t, n, direct, before)
	losesAField(t, n, direct)
}

// reapplyUnited applies the user's last manifests: by a replace and by an apply, which drop
// OpenKruise's defaults. This once replaced all pods.
func reapplyUnited(t *testing.T, n *environment.Namespace, direct client.Client, before ofUnited) {
	t.Helper()
	steps := fixtures.Applied(t, "uniteddeployment")
	for _, set := range steps[len(steps)-1] {
		set.SetNamespace("uniteddeployment")
		live := set.DeepCopy()
		if err := direct.Get(t.Context(), client.ObjectKeyFromObject(set), live); err != nil {
			t.Fatal(err)
		}
		set.SetResourceVersion(live.GetResourceVersion())
		if err := direct.Update(t.Context(), set.DeepCopy()); err != nil {
			t.Errorf("replacing %s: %v", set.GetName(), err)
		}
		set.SetResourceVersion("")
		if err := direct.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(set), client.FieldOwner("user"), client.ForceOwnership); err != nil {
			t.Errorf("applying %s: %v", set.GetName(), err)
		}
	}
	n.Eventually("the sets are observed", func(ctx context.Context) error {
		now, err := readUnited(ctx, direct)
		for name, set := range now.sets {
			if set.Status.ObservedGeneration != set.Generation || set.Generation == before.sets[name].Generation {
				err = fmt.Errorf("%s has generation %d, observed is %d", name, set.Generation, set.Status.ObservedGeneration)
			}
		}
		return err
	})
	n.Consistently(quiet, "no pod and no revision follows from it", func(ctx context.Context) error {
		now, err := readUnited(ctx, direct)
		if err != nil {
			return err
		}
		for name, w := range now.workloads {
			if w.GroupVersionKind().Group != appsv1.GroupName { // its own revisions and pods say enough
				now.workloads[name] = before.workloads[name]
			}
		}
		return unchanged(before, now)
	})
}

// unchanged reports changes of UnitedDeployments' objects.
func unchanged(before, now ofUnited) error {
	if len(now.workloads) != len(before.workloads) || len(now.pods) != len(before.pods) || len(now.revisions) != len(before.revisions) {
		return fmt.Errorf("there are %d workloads, %d pods and %d revisions", len(now.workloads), len(now.pods), len(now.revisions))
	}
	for name, was := range before.workloads {
		is := now.workloads[name]
		if is == nil || is.GetUID() != was.GetUID() {
			return fmt.Errorf("workload %s is another one", name)
		}
		if diff := cmp.Diff(was.Object["spec"], is.Object["spec"]); diff != "" || is.GetGeneration() != was.GetGeneration() {
			return fmt.Errorf("the spec of %s has changed (-before +now):\n%s", name, diff)
		}
	}
	for name := range before.pods {
		was, is := before.pods[name], now.pods[name]
		if was.UID != is.UID || !cmp.Equal(was.Spec, is.Spec) || !cmp.Equal(was.Labels, is.Labels) {
			return fmt.Errorf("pod %s has changed", name)
		}
	}
	for name := range before.revisions {
		was, is := before.revisions[name], now.revisions[name]
		if was.UID != is.UID || was.Revision != is.Revision || !cmp.Equal(was.Data, is.Data) {
			return fmt.Errorf("revision %s has changed", name)
		}
	}
	for name := range before.sets {
		was, is := before.sets[name].Status, now.sets[name].Status
		if was.CurrentRevision != is.CurrentRevision || was.UpdatedRevision != is.UpdatedRevision || was.Replicas != is.Replicas || was.ReadyReplicas != is.ReadyReplicas {
			return fmt.Errorf("the status of %s was %+v and is %+v", name, was, is)
		}
	}
	return nil
}

// losesAField removes fields from the templates of OpenKruise's workloads.
func losesAField(t *testing.T, n *environment.Namespace, direct client.Client) {
	t.Helper()
	rolling := []string{"spec", "updateStrategy", "rollingUpdate", "podUpdatePolicy"}
	cases := []struct {
		set, remove string
		// kind, subset: its field must be as without the template.
		kind, subset string
		field        []string
		was, want    string
	}{
		{"shop", "/spec/template/cloneSetTemplate/spec/updateStrategy", "CloneSet", "subset-a", rolling, "InPlaceIfPossible", "ReCreate"},
		{"shop", "/spec/topology/subsets/1/patch", "CloneSet", "subset-b", []string{"spec", "template", "metadata", "labels", "tier"}, "b", ""},
		{"ledger", "/spec/template/advancedStatefulSetTemplate/spec/updateStrategy", "StatefulSet", "east", rolling, "InPlaceIfPossible", "ReCreate"},
	}
	value := func(w *unstructured.Unstructured, path []string) string {
		var at any = w.Object
		for _, key := range path {
			switch inner := at.(type) {
			case map[string]any:
				at = inner[key]
			case []any:
				at = inner[0]
			}
		}
		text, _ := at.(string)
		return text
	}
	find := func(all map[string]*unstructured.Unstructured, kind, subset string) *unstructured.Unstructured {
		for _, w := range all {
			if w.GetKind() == kind && w.GetLabels()[shared.LabelSubsetName] == subset {
				return w
			}
		}
		return nil
	}
	before, err := readUnited(t.Context(), direct)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range cases {
		if w := find(before.workloads, tc.kind, tc.subset); w == nil || value(w, tc.field) != tc.was {
			t.Fatalf("the workload of %s: %v is not %s before", tc.subset, tc.field, tc.was)
		}
		set := &v1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "uniteddeployment", Name: tc.set}}
		patch := fmt.Sprintf(`[{"op":"remove","path":%q}]`, tc.remove)
		if err := direct.Patch(t.Context(), set, client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
			t.Fatalf("removing %s of %s: %v", tc.remove, tc.set, err)
		}
	}
	n.EventuallyWithin(time.Minute, "the fields go", func(ctx context.Context) error {
		now, err := readUnited(ctx, direct)
		if err != nil {
			return err
		}
		for _, tc := range cases {
			w := find(now.workloads, tc.kind, tc.subset)
			if w == nil || w.GetUID() != find(before.workloads, tc.kind, tc.subset).GetUID() {
				return fmt.Errorf("the workload of %s is another one", tc.subset)
			}
			if got := value(w, tc.field); got != tc.want {
				return fmt.Errorf("%v of %s is %q, want %q; fields are of %v", tc.field, w.GetName(), got, tc.want, managers(w))
			}
		}
		return nil
	})
}

// managers are the owners of fields.
func managers(w *unstructured.Unstructured) []string {
	var all []string
	for _, entry := range w.GetManagedFields() {
		all = append(all, fmt.Sprintf("%s %s: %s", entry.Manager, entry.Operation, entry.FieldsV1))
	}
	return all
}
