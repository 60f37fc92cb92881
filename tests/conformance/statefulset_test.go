// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appspub "github.com/openkruise/kruise-api/apps/pub"
	appsv1alpha1 "github.com/openkruise/kruise-api/apps/v1alpha1"
	appsv1beta1 "github.com/openkruise/kruise-api/apps/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// The sets have no replicas, so a running operator makes no pods, and every other field
// differs from zero and its default.
func spec() appsv1beta1.StatefulSetSpec {
	labels := map[string]string{"app": "conformance"}
	return appsv1beta1.StatefulSetSpec{
		Replicas: ptr.To[int32](0),
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "InPlaceUpdateReady"}},
				Containers:     []corev1.Container{{Name: "main", Image: "example/web:v1"}},
			},
		},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			},
		}},
		VolumeClaimUpdateStrategy: appsv1beta1.VolumeClaimUpdateStrategy{Type: appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType},
		ServiceName:               "conformance",
		PodManagementPolicy:       appsv1.ParallelPodManagement,
		UpdateStrategy: appsv1beta1.StatefulSetUpdateStrategy{
			Type: appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1beta1.RollingUpdateStatefulSetStrategy{
				Partition:       ptr.To[int32](2),
				MaxUnavailable:  ptr.To(intstr.FromString("40%")),
				PodUpdatePolicy: appsv1beta1.InPlaceIfPossiblePodUpdateStrategyType,
				Paused:          true,
				UnorderedUpdate: &appsv1beta1.UnorderedUpdateStrategy{PriorityStrategy: &appspub.UpdatePriorityStrategy{
					WeightPriority: []appspub.UpdatePriorityWeightTerm{{Weight: 7, MatchSelector: metav1.LabelSelector{MatchLabels: labels}}},
				}},
				InPlaceUpdateStrategy: &appspub.InPlaceUpdateStrategy{GracePeriodSeconds: 3},
				MinReadySeconds:       ptr.To[int32](4),
			},
		},
		RevisionHistoryLimit: ptr.To[int32](5),
		ReserveOrdinals:      []intstr.IntOrString{intstr.FromInt32(1), intstr.FromString("3-7")},
		Lifecycle: &appspub.Lifecycle{
			PreNormal:     &appspub.LifecycleHook{LabelsHandler: map[string]string{"example.io/warm": "true"}},
			PreDelete:     &appspub.LifecycleHook{FinalizersHandler: []string{"example.io/drain"}, MarkPodNotReady: true},
			InPlaceUpdate: &appspub.LifecycleHook{FinalizersHandler: []string{"example.io/drain"}},
		},
		ScaleStrategy: &appsv1beta1.StatefulSetScaleStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(3))},
		PersistentVolumeClaimRetentionPolicy: &appsv1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: appsv1beta1.DeletePersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1beta1.DeletePersistentVolumeClaimRetentionPolicyType,
		},
		Ordinals: &appsv1beta1.StatefulSetOrdinals{Start: 2},
	}
}

func oldSpec() appsv1alpha1.StatefulSetSpec {
	s := spec()
	rolling := s.UpdateStrategy.RollingUpdate
	return appsv1alpha1.StatefulSetSpec{
		Replicas: s.Replicas, Selector: s.Selector, Template: s.Template, VolumeClaimTemplates: s.VolumeClaimTemplates,
		ServiceName: s.ServiceName, PodManagementPolicy: s.PodManagementPolicy, RevisionHistoryLimit: s.RevisionHistoryLimit,
		UpdateStrategy: appsv1alpha1.StatefulSetUpdateStrategy{
			Type: s.UpdateStrategy.Type,
			RollingUpdate: &appsv1alpha1.RollingUpdateStatefulSetStrategy{
				Partition: rolling.Partition, MaxUnavailable: rolling.MaxUnavailable,
				PodUpdatePolicy: appsv1alpha1.PodUpdateStrategyType(rolling.PodUpdatePolicy), Paused: rolling.Paused,
				UnorderedUpdate:       &appsv1alpha1.UnorderedUpdateStrategy{PriorityStrategy: rolling.UnorderedUpdate.PriorityStrategy},
				InPlaceUpdateStrategy: rolling.InPlaceUpdateStrategy, MinReadySeconds: rolling.MinReadySeconds,
			},
		},
	}
}

func status() appsv1beta1.StatefulSetStatus {
	return appsv1beta1.StatefulSetStatus{
		ObservedGeneration: 1, Replicas: 2, ReadyReplicas: 3, AvailableReplicas: 4, CurrentReplicas: 5, UpdatedReplicas: 6,
		UpdatedReadyReplicas: 7, UpdatedAvailableReplicas: 8, CurrentRevision: "a", UpdateRevision: "b", CollisionCount: ptr.To[int32](9),
		Conditions: []appsv1.StatefulSetCondition{{
			Type: "FailedCreatePod", Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(1_700_000_000, 0), Reason: "r", Message: "m",
		}},
		LabelSelector: "app=conformance",
		VolumeClaims:  []appsv1beta1.VolumeClaimStatus{{VolumeClaimName: "data", CompatibleReplicas: 1, CompatibleReadyReplicas: 2}},
	}
}

// TestEveryFieldIsSet keeps the other tests honest when the client learns new fields.
func TestEveryFieldIsSet(t *testing.T) {
	full := spec()
	full.Replicas = ptr.To[int32](1) // its zero is meant
	full.UpdateStrategy.RollingUpdate.UnorderedUpdate.PriorityStrategy.OrderPriority = []appspub.UpdatePriorityOrderTerm{{OrderedKey: "either of the two"}}
	old := oldSpec()
	old.Replicas, old.UpdateStrategy.RollingUpdate.UnorderedUpdate = full.Replicas, nil
	for name, value := range map[string]any{"v1beta1": full, "v1beta1 status": status(), "v1alpha1": old} {
		got := unset(value)
		got = slices.DeleteFunc(got, func(path string) bool {
			return path == ".UpdateStrategy.RollingUpdate.UnorderedUpdate" && name == "v1alpha1" ||
				strings.HasPrefix(path, ".Lifecycle.") || strings.HasSuffix(path, ".MatchExpressions") ||
				strings.HasPrefix(path, ".UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy.ImagePreDownload")
		})
		if len(got) > 0 {
			t.Errorf("%s: fields that the tests do not set: %v", name, got)
		}
	}
}

func TestStatefulSetV1beta1(t *testing.T) {
	c, ns := connect(t)
	sets := c.AppsV1beta1().StatefulSets(ns)
	subject := create(t, sets, "full", &appsv1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "full", Labels: map[string]string{"a": "b"}}, Spec: spec(),
	}, func(set *appsv1beta1.StatefulSet) *appsv1beta1.StatefulSetSpec { return &set.Spec })

	set := subject.status(func(set *appsv1beta1.StatefulSet) { set.Status = status() })
	same(t, "the status", status(), set.Status)
	same(t, "the spec after the status was written", spec(), set.Spec)

	want := spec()
	want.UpdateStrategy.RollingUpdate.Paused = false
	want.Template.Spec.Containers[0].Image = "example/web:v2"
	subject.update(want)
	want.ReserveOrdinals = []intstr.IntOrString{intstr.FromString("8-9")}
	subject.patch(`{"spec":{"reserveOrdinals":["8-9"]}}`, want)

	list, err := sets.List(t.Context(), metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d sets listed, want 1: %v", len(list.Items), err)
	}
	same(t, "the listed spec", want, list.Items[0].Spec)
	subject.delete()
}

func TestStatefulSetV1alpha1(t *testing.T) {
	c, ns := connect(t)
	subject := create(t, c.AppsV1alpha1().StatefulSets(ns), "old", &appsv1alpha1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: oldSpec()},
		func(set *appsv1alpha1.StatefulSet) *appsv1alpha1.StatefulSetSpec { return &set.Spec })
	want := oldSpec()
	want.Template.Spec.Containers[0].Image = "example/web:v2"
	want.UpdateStrategy.RollingUpdate.Partition = ptr.To[int32](0)
	subject.update(want)
	subject.delete()
}

// A client of v1alpha1 decodes a set into types without the newer fields and writes it back whole.
func TestOlderClientsLoseNothing(t *testing.T) {
	c, ns := connect(t)
	if _, err := c.AppsV1beta1().StatefulSets(ns).Create(t.Context(), &appsv1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "both"}, Spec: spec(),
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	old := c.AppsV1alpha1().StatefulSets(ns)
	edit(t, old, old.Update, "both", func(set *appsv1alpha1.StatefulSet) {
		set.Annotations = map[string]string{"touched": "by an older client"}
		set.Spec.Template.Spec.Containers[0].Image = "example/web:v2"
	})
	scaled(t, old, "both", 1)
	set, err := c.AppsV1beta1().StatefulSets(ns).Get(t.Context(), "both", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := spec()
	want.Replicas = ptr.To[int32](1)
	want.Template.Spec.Containers[0].Image = "example/web:v2"
	same(t, "the spec", want, set.Spec)
	if !maps.Equal(set.Annotations, map[string]string{"touched": "by an older client"}) {
		t.Errorf("annotations: %v", set.Annotations)
	}
}
