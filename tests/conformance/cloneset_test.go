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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// The client knows CloneSet in v1alpha1 only; the stored version is v1beta1. Like these
// tests' StatefulSets, the set has no replicas.
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
	// The first annotation stands for a field of v1beta1, and must not be lost on the way there and back.
	annotations := map[string]string{"apps.kruise.io/image-predownload-parallelism": "3", "example.io/a": "b"}
	full := &appsv1alpha1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Name: "full", Labels: map[string]string{"a": "b"}, Annotations: annotations}, Spec: cloneSetSpec(),
	}
	set, err := sets.Create(t.Context(), full, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the spec with every field", cloneSetSpec(), set.Spec)

	full.Spec.ScaleStrategy.PodsToDelete = nil // a running operator clears the list of pods that are gone
	subject := create(t, sets, "full", full, func(set *appsv1alpha1.CloneSet) *appsv1alpha1.CloneSetSpec { return &set.Spec })

	set = subject.status(func(set *appsv1alpha1.CloneSet) { set.Status = cloneSetStatus() })
	same(t, "the status", cloneSetStatus(), set.Status)

	want := cloneSetSpec()
	want.UpdateStrategy.Paused = false
	want.UpdateStrategy.Type = appsv1alpha1.RecreateCloneSetUpdateStrategyType
	want.ScaleStrategy.DisablePVCReuse = false
	want.ScaleStrategy.PodsToDelete = nil
	want.Template.Spec.Containers[0].Image = "example/web:v2"
	set = subject.update(want)
	same(t, "the annotations after an update", annotations, set.Annotations)
	want.UpdateStrategy.Partition = ptr.To(intstr.FromInt32(5))
	subject.patch(`{"spec":{"updateStrategy":{"partition":5}}}`, want)

	if scale := scaled(t, sets, "full", 1); scale.Spec.Replicas != 1 || scale.Status.Selector != "app=conformance" {
		t.Errorf("scale %+v", scale)
	}
	scaled(t, sets, "full", 0)

	list, err := sets.List(t.Context(), metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d sets listed, want 1: %v", len(list.Items), err)
	}
	same(t, "the listed spec", want, list.Items[0].Spec)
	subject.delete()
}
