// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"slices"
	"strings"
	"testing"

	appspub "github.com/openkruise/kruise-api/apps/pub"
	appsv1alpha1 "github.com/openkruise/kruise-api/apps/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// The client knows CloneSet in v1alpha1 only; what is stored is v1beta1. Like the StatefulSets of these tests, the set has no replicas.
func cloneSetSpec() appsv1alpha1.CloneSetSpec {
	s := spec()
	return appsv1alpha1.CloneSetSpec{
		Replicas: s.Replicas, Selector: s.Selector, Template: s.Template, VolumeClaimTemplates: s.VolumeClaimTemplates,
		RevisionHistoryLimit: s.RevisionHistoryLimit, Lifecycle: s.Lifecycle, MinReadySeconds: 4,
		ScaleStrategy: appsv1alpha1.CloneSetScaleStrategy{
			PodsToDelete: []string{"gone"}, MaxUnavailable: ptr.To(intstr.FromString("30%")), DisablePVCReuse: true,
		},
		UpdateStrategy: appsv1alpha1.CloneSetUpdateStrategy{
			Type:                  appsv1alpha1.InPlaceIfPossibleCloneSetUpdateStrategyType,
			Partition:             ptr.To(intstr.FromString("33.3%")),
			MaxUnavailable:        ptr.To(intstr.FromString("40%")),
			MaxSurge:              ptr.To(intstr.FromInt32(2)),
			Paused:                true,
			PriorityStrategy:      s.UpdateStrategy.RollingUpdate.UnorderedUpdate.PriorityStrategy,
			ScatterStrategy:       appsv1alpha1.UpdateScatterStrategy{{Key: "a", Value: "b"}},
			InPlaceUpdateStrategy: &appspub.InPlaceUpdateStrategy{GracePeriodSeconds: 3},
		},
	}
}

func cloneSetStatus() appsv1alpha1.CloneSetStatus {
	return appsv1alpha1.CloneSetStatus{
		ObservedGeneration: 1, Replicas: 2, ReadyReplicas: 3, AvailableReplicas: 4, UpdatedReplicas: 5, UpdatedReadyReplicas: 6,
		UpdatedAvailableReplicas: 7, ExpectedUpdatedReplicas: 8, UpdateRevision: "b", CurrentRevision: "a", CollisionCount: ptr.To[int32](9),
		Conditions: []appsv1alpha1.CloneSetCondition{{
			Type: appsv1alpha1.CloneSetConditionFailedScale, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1_700_000_000, 0), Reason: "r", Message: "m",
		}},
		LabelSelector: "app=conformance",
	}
}

// TestEveryFieldOfCloneSetIsSet keeps the other tests honest when the client learns new fields.
func TestEveryFieldOfCloneSetIsSet(t *testing.T) {
	full := cloneSetSpec()
	full.Replicas = ptr.To[int32](1) // its zero is meant
	full.UpdateStrategy.PriorityStrategy.OrderPriority = []appspub.UpdatePriorityOrderTerm{{OrderedKey: "either of the two"}}
	for name, value := range map[string]any{"spec": full, "status": cloneSetStatus()} {
		got := slices.DeleteFunc(unset(value), func(path string) bool {
			return strings.HasPrefix(path, ".Lifecycle.") || strings.HasSuffix(path, ".MatchExpressions")
		})
		if len(got) > 0 {
			t.Errorf("%s: fields that the tests do not set: %v", name, got)
		}
	}
}

func TestCloneSet(t *testing.T) {
	c, ns := connect(t)
	sets := c.AppsV1alpha1().CloneSets(ns)
	watcher, err := sets.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	// The annotations stand for fields of v1beta1, and must not be lost on the way there and back.
	annotations := map[string]string{"apps.kruise.io/image-predownload-parallelism": "3", "example.io/a": "b"}

	set, err := sets.Create(t.Context(), &appsv1alpha1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Name: "full", Labels: map[string]string{"a": "b"}, Annotations: annotations}, Spec: cloneSetSpec(),
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the created spec", cloneSetSpec(), set.Spec)
	same(t, "the created annotations", annotations, set.Annotations)
	seen(t, watcher, watch.Added, "full", func(o *appsv1alpha1.CloneSet) bool { return equality.Semantic.DeepEqual(o.Spec, cloneSetSpec()) })

	if set, err = sets.Get(t.Context(), "full", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, "the spec that is read", cloneSetSpec(), set.Spec)

	// A running operator writes status too, and clears podsToDelete; what counts is what this write returns.
	set = edit(t, sets, sets.UpdateStatus, "full", func(set *appsv1alpha1.CloneSet) { set.Status = cloneSetStatus() })
	same(t, "the status", cloneSetStatus(), set.Status)

	want := cloneSetSpec()
	want.UpdateStrategy.Paused = false
	want.UpdateStrategy.Type = appsv1alpha1.RecreateCloneSetUpdateStrategyType
	want.ScaleStrategy.DisablePVCReuse = false
	want.ScaleStrategy.PodsToDelete = nil
	want.Template.Spec.Containers[0].Image = "example/web:v2"
	set = edit(t, sets, sets.Update, "full", func(set *appsv1alpha1.CloneSet) { set.Spec = want })
	same(t, "the updated spec", want, set.Spec)
	same(t, "the annotations after an update", annotations, set.Annotations)
	seen(t, watcher, watch.Modified, "full", func(o *appsv1alpha1.CloneSet) bool { return equality.Semantic.DeepEqual(o.Spec, want) })

	set, err = sets.Patch(t.Context(), "full", types.MergePatchType, []byte(`{"spec":{"updateStrategy":{"partition":5}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want.UpdateStrategy.Partition = ptr.To(intstr.FromInt32(5))
	same(t, "the patched spec", want, set.Spec)

	if scale := scaled(t, sets, "full", 1); scale.Spec.Replicas != 1 || scale.Status.Selector != "app=conformance" {
		t.Errorf("scale %+v", scale)
	}
	scaled(t, sets, "full", 0)

	list, err := sets.List(t.Context(), metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d sets listed, want 1: %v", len(list.Items), err)
	}
	same(t, "the listed spec", want, list.Items[0].Spec)

	if err := sets.Delete(t.Context(), "full", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	seen(t, watcher, watch.Deleted, "full", func(*appsv1alpha1.CloneSet) bool { return true })
}
