// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

// report is the status of the simulation as it is now.
func (w *simulation) report(outcome planning.Outcome) appsv1beta1.StatefulSetStatus {
	s := w.snapshot()
	return Status(Parse(w.set, w.o), s, Plan(Parse(w.set, w.o), s), outcome)
}

// brief is the conditions as type=status/reason.
func brief(conditions []appsv1.StatefulSetCondition) []string {
	out := make([]string, len(conditions))
	for i, c := range conditions {
		out[i] = fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason)
	}
	return out
}

func TestStatusConditions(t *testing.T) {
	drain := "example.io/drain"
	cases := map[string]struct {
		replicas int32
		steps    []func(*simulation)
		outcome  planning.Outcome
		want     []string
	}{
		"complete": {
			replicas: 3, steps: []func(*simulation){running},
			want: []string{"Progressing=False/Complete", "Reconciling=False/Complete", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"no pods wanted is complete": {
			replicas: 0, steps: []func(*simulation){running},
			want: []string{"Progressing=False/Complete", "Reconciling=False/Complete", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"pods are missing": {
			replicas: 3,
			want:     []string{"Progressing=True/Scaling", "Reconciling=True/Scaling", "Stalled=False/NotStalled", "Available=False/TooFewPodsAvailable"},
		},
		"pods are surplus": {
			replicas: 3, steps: []func(*simulation){running, replicas(2)},
			want: []string{"Progressing=True/Scaling", "Reconciling=True/Scaling", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"a single pod that is not available is not enough": {
			replicas: 1, steps: []func(*simulation){running, unready(0)},
			want: []string{"Progressing=True/PodsNotAvailable", "Reconciling=True/PodsNotAvailable", "Stalled=False/NotStalled", "Available=False/TooFewPodsAvailable"},
		},
		"an outage within the limit leaves the set available": {
			replicas: 3, steps: []func(*simulation){running, unready(0)},
			want: []string{"Progressing=True/PodsNotAvailable", "Reconciling=True/PodsNotAvailable", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"pods move": {
			replicas: 3, steps: []func(*simulation){running, image("2")},
			want: []string{"Progressing=True/RollingOut", "Reconciling=True/RollingOut", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"the partition is reached": {
			replicas: 3, steps: []func(*simulation){partition(2), running, image("2"), running},
			want: []string{"Progressing=False/PartitionReached", "Reconciling=False/PartitionReached", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"paused with pods left to move": {
			replicas: 3, steps: []func(*simulation){running, image("2"), paused},
			want: []string{"Progressing=False/Paused", "Reconciling=False/Paused", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"OnDelete with pods left to move": {
			replicas: 3, steps: []func(*simulation){running, image("2"), onDelete},
			want: []string{"Progressing=False/OnDelete", "Reconciling=False/OnDelete", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"a pod at its hook": {
			replicas: 2, steps: []func(*simulation){inPlace, hooks(shared.Lifecycle{InPlaceUpdate: finalizerHook(drain)}), running,
				func(w *simulation) { w.pod(1).Finalizers = []string{drain} }, image("2"), running},
			want: []string{"Progressing=True/RollingOut", "Reconciling=True/RollingOut", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"InPlaceOnly and a change that cannot be made in place": {
			replicas: 2, steps: []func(*simulation){func(w *simulation) { w.rolling().PodUpdatePolicy = shared.InPlaceOnly }, running, env},
			want: []string{"FailedUpdatePod=True/InPlaceImpossible", "Progressing=False/InPlaceImpossible", "Reconciling=False/InPlaceImpossible", "Stalled=True/InPlaceImpossible", "Available=True/EnoughPodsAvailable"},
		},
		"a spec that cannot be read": {
			replicas: 2, steps: []func(*simulation){running, reserve("x")},
			want: []string{"Progressing=False/InvalidSpec", "Reconciling=False/InvalidSpec", "Stalled=True/InvalidSpec", "Available=True/EnoughPodsAvailable"},
		},
		"a refused creation": {
			replicas: 2, outcome: planning.Outcome{Failures: []planning.Failure{{Step: podset.StepCreate, Slot: "1", Message: "exceeded quota"}}},
			want: []string{"FailedCreatePod=True/RequestFailed", "Progressing=True/RequestFailed", "Reconciling=True/RequestFailed", "Stalled=False/NotStalled", "Available=False/TooFewPodsAvailable"},
		},
		"a refused deletion": {
			replicas: 2, steps: []func(*simulation){running}, outcome: planning.Outcome{Failures: []planning.Failure{{Step: podset.StepDelete, Slot: "1", Message: "forbidden"}}},
			want: []string{"FailedUpdatePod=True/RequestFailed", "Progressing=True/RequestFailed", "Reconciling=True/RequestFailed", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"a deletion that has been refused for a minute": {
			replicas: 2, steps: []func(*simulation){running, func(w *simulation) {
				since := metav1.NewTime(w.Time.Add(-time.Minute))
				w.set.Status.Conditions = append(w.set.Status.Conditions, appsv1.StatefulSetCondition{Type: "FailedUpdatePod", Status: corev1.ConditionTrue, LastTransitionTime: since})
			}}, outcome: planning.Outcome{Failures: []planning.Failure{{Step: podset.StepEditClaim, Slot: "1", Message: "forbidden"}}},
			want: []string{"FailedUpdatePod=True/RequestFailed", "Progressing=False/RequestFailed", "Reconciling=False/RequestFailed", "Stalled=True/RequestFailed", "Available=True/EnoughPodsAvailable"},
		},
		"a failure that is over": {
			replicas: 2, steps: []func(*simulation){running, func(w *simulation) {
				w.set.Status.Conditions = append(w.set.Status.Conditions, appsv1.StatefulSetCondition{Type: "FailedCreatePod", Status: corev1.ConditionTrue})
			}},
			want: []string{"Progressing=False/Complete", "Reconciling=False/Complete", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"a template that the server finds faulty, and no pod to move": {
			replicas: 2, steps: []func(*simulation){running, faulty},
			want: []string{"Progressing=False/Complete", "Reconciling=False/Complete", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable", "TemplateInvalid=True/InvalidTemplate"},
		},
		"a faulty template, and pods that would move to it": {
			replicas: 2, steps: []func(*simulation){running, image("2"), faulty},
			want: []string{"Progressing=False/InvalidTemplate", "Reconciling=False/InvalidTemplate", "Stalled=True/InvalidTemplate", "Available=True/EnoughPodsAvailable", "TemplateInvalid=True/InvalidTemplate"},
		},
		"a faulty template, while updates are paused": {
			replicas: 2, steps: []func(*simulation){running, image("2"), faulty, paused},
			want: []string{"Progressing=False/Paused", "Reconciling=False/Paused", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable", "TemplateInvalid=True/InvalidTemplate"},
		},
		"a faulty template, and the server has refused a pod": {
			replicas: 2, steps: []func(*simulation){faulty}, outcome: planning.Outcome{Failures: []planning.Failure{{Step: podset.StepCreate, Slot: "1", Message: "Invalid"}}},
			want: []string{"FailedCreatePod=True/RequestFailed", "Progressing=False/InvalidTemplate", "Reconciling=False/InvalidTemplate", "Stalled=True/InvalidTemplate", "Available=False/TooFewPodsAvailable", "TemplateInvalid=True/InvalidTemplate"},
		},
		"fields whose gates are off": {
			replicas: 0, steps: []func(*simulation){func(w *simulation) {
				w.o = Options{}
				w.set.Spec.Ordinals = &appsv1beta1.StatefulSetOrdinals{Start: 3}
			}, retention("Delete", "Retain")},
			want: []string{"FieldsIgnored=True/FeatureGateOff", "Progressing=False/Complete", "Reconciling=False/Complete", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"what is said about pulling images ahead, with its gate": {
			replicas: 0, steps: []func(*simulation){func(w *simulation) {
				w.o.PreDownloadImages = true
				w.set.Annotations = map[string]string{shared.AnnotationPreDownloadParallelism: "3"}
			}},
			want: []string{"Progressing=False/Complete", "Reconciling=False/Complete", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"what is said about pulling images ahead, without its gate": {
			replicas: 0, steps: []func(*simulation){func(w *simulation) {
				w.set.Annotations = map[string]string{shared.AnnotationPreDownloadParallelism: "3"}
			}},
			want: []string{"FieldsIgnored=True/FeatureGateOff", "Progressing=False/Complete", "Reconciling=False/Complete", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"what cannot be read about pulling images ahead": {
			replicas: 0, steps: []func(*simulation){func(w *simulation) {
				w.o.PreDownloadImages = true
				w.set.Annotations = map[string]string{shared.AnnotationPreDownloadParallelism: "50%"}
			}},
			want: []string{"FieldsIgnored=True/Unreadable", "Progressing=False/Complete", "Reconciling=False/Complete", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"a volume that can never grow, and pods behind it": {
			replicas: 3, steps: []func(*simulation){storage("1Gi"), resizing, running, storage("2Gi"), image("2"), cannotGrow},
			want: []string{"FailedUpdatePod=True/ClaimsCannotFollow", "Progressing=False/ClaimsCannotFollow", "Reconciling=False/ClaimsCannotFollow", "Stalled=True/ClaimsCannotFollow", "Available=True/EnoughPodsAvailable"},
		},
		"a volume that can never grow, while another pod is replaced": {
			replicas: 3, steps: []func(*simulation){storage("1Gi"), resizing, maxUnavailable(2), running, storage("2Gi"), image("2"), cannotGrow,
				func(w *simulation) { w.pod(1).DeletionTimestamp = ptr.To(metav1.NewTime(w.Time)) }},
			want: []string{"FailedUpdatePod=True/ClaimsCannotFollow", "Progressing=True/RollingOut", "Reconciling=True/RollingOut", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"a volume that can never grow, and nothing else to do": {
			replicas: 3, steps: []func(*simulation){storage("1Gi"), resizing, running, storage("2Gi"), cannotGrow},
			want: []string{"FailedUpdatePod=True/ClaimsCannotFollow", "Progressing=False/ClaimsCannotFollow", "Reconciling=False/ClaimsCannotFollow", "Stalled=True/ClaimsCannotFollow", "Available=True/EnoughPodsAvailable"},
		},
		"a volume that could never grow, and that nobody asks to grow any more": {
			replicas: 3, steps: []func(*simulation){storage("1Gi"), resizing, running, storage("2Gi"), cannotGrow, storage("1Gi")},
			want: []string{"Progressing=False/Complete", "Reconciling=False/Complete", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"a resize that the node refuses, and pods behind it": {
			replicas: 3, steps: []func(*simulation){running, infeasible(2)},
			want: []string{"FailedUpdatePod=True/InPlaceBlocked", "Progressing=False/InPlaceBlocked", "Reconciling=False/InPlaceBlocked", "Stalled=True/InPlaceBlocked", "Available=True/EnoughPodsAvailable"},
		},
		"a resize that the node refuses, and a pod that is created after it": {
			replicas: 3, steps: []func(*simulation){ordered, running, infeasible(2), replicas(4)},
			want: []string{"FailedUpdatePod=True/InPlaceBlocked", "Progressing=False/InPlaceBlocked", "Reconciling=False/InPlaceBlocked", "Stalled=True/InPlaceBlocked", "Available=False/TooFewPodsAvailable"},
		},
		"a resize that the node refuses, and a pod that is created beside it": {
			replicas: 3, steps: []func(*simulation){running, infeasible(2), replicas(4)},
			want: []string{"FailedUpdatePod=True/InPlaceBlocked", "Progressing=True/Scaling", "Reconciling=True/Scaling", "Stalled=False/NotStalled", "Available=False/TooFewPodsAvailable"},
		},
		"a resize that the node has no room for yet": {
			replicas: 3, steps: []func(*simulation){running, infeasible(2), func(w *simulation) {
				w.pod(2).Status.Conditions[len(w.pod(2).Status.Conditions)-1].Reason = corev1.PodReasonDeferred
			}},
			want: []string{"FailedUpdatePod=True/InPlaceBlocked", "Progressing=True/RollingOut", "Reconciling=True/RollingOut", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"a blocked pod does not hide that others move": {
			replicas: 3, steps: []func(*simulation){maxUnavailable(2), running, infeasible(2), image("2")},
			want: []string{"Progressing=True/RollingOut", "Reconciling=True/RollingOut", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"an update of another manager that needs the node daemon": {
			replicas: 2, steps: []func(*simulation){running, func(w *simulation) {
				pod := w.pod(1)
				pod.Labels[shared.LabelLifecycleState] = string(shared.StateUpdating)
				pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['v']"}}}}
				pod.Annotations[shared.AnnotationInPlaceState] = `{"revision":"web-1","updateTimestamp":"2026-01-02T03:04:05Z","lastContainerStatuses":null,"updateEnvFromMetadata":true}`
				setCondition(pod, shared.GateInPlaceUpdateReady, false, w.Time)
			}},
			want: []string{"FailedUpdatePod=True/InPlaceBlocked", "Progressing=False/InPlaceBlocked", "Reconciling=False/InPlaceBlocked", "Stalled=True/InPlaceBlocked", "Available=True/EnoughPodsAvailable"},
		},
		"an annotation that cannot be read": {
			replicas: 2, steps: []func(*simulation){running, func(w *simulation) {
				w.pod(1).Labels[shared.LabelLifecycleState] = string(shared.StateUpdating)
				w.pod(1).Annotations[shared.AnnotationInPlaceState] = "{"
			}},
			want: []string{"FailedUpdatePod=True/InPlaceBlocked", "Progressing=False/InPlaceBlocked", "Reconciling=False/InPlaceBlocked", "Stalled=True/InPlaceBlocked", "Available=True/EnoughPodsAvailable"},
		},
		"no selector": {
			replicas: 2, steps: []func(*simulation){running, func(w *simulation) { w.set.Spec.Selector = nil }},
			want: []string{"Progressing=False/InvalidSpec", "Reconciling=False/InvalidSpec", "Stalled=True/InvalidSpec", "Available=True/EnoughPodsAvailable"},
		},
		"being deleted": {
			replicas: 1, steps: []func(*simulation){running, func(w *simulation) { w.set.DeletionTimestamp = ptr.To(metav1.NewTime(w.Time)) }},
			want: []string{"Progressing=True/Deleting", "Reconciling=True/Deleting", "Stalled=False/NotStalled", "Available=True/EnoughPodsAvailable"},
		},
		"a claim whose class does not let it grow": {
			replicas: 1, steps: []func(*simulation){storage("1Gi"), func(w *simulation) {
				w.o.AutoResizePVC = true
				w.set.Spec.VolumeClaimUpdateStrategy.Type = appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
				w.expandable = nil
			}, running, storage("2Gi")},
			want: []string{"FailedUpdatePod=True/ClaimsCannotFollow", "Progressing=False/ClaimsCannotFollow", "Reconciling=False/ClaimsCannotFollow", "Stalled=True/ClaimsCannotFollow", "Available=True/EnoughPodsAvailable"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			status := newSimulation(t, tc.replicas, tc.steps...).report(tc.outcome)
			if diff := cmp.Diff(tc.want, brief(status.Conditions)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s\n%+v", diff, status.Conditions)
			}
		})
	}
}

// resizing makes claims grow with their template.
func resizing(w *simulation) {
	w.o.AutoResizePVC = true
	w.set.Spec.VolumeClaimUpdateStrategy.Type = appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
}

// cannotGrow is a storage driver that refuses the new size of the last claim for good.
func cannotGrow(w *simulation) {
	for _, claim := range w.Claims {
		claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		if claim.Name == "data-web-2" {
			claim.Spec.Resources.Requests = w.set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.DeepCopy()
			claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible}
		} else {
			claim.Spec.Resources.Requests = w.set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.DeepCopy()
			claim.Status.Capacity = claim.Spec.Resources.Requests.DeepCopy()
		}
	}
}

// infeasible is a resize under way that the node says it can never make.
func infeasible(ordinal int) func(*simulation) {
	return func(w *simulation) {
		w.o.InPlace.Resources = true
		pod := w.pod(ordinal)
		pod.Labels[shared.LabelLifecycleState] = string(shared.StateUpdating)
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		pod.Annotations[shared.AnnotationInPlaceState] = `{"revision":"web-1","updateTimestamp":"2026-01-02T03:04:05Z","lastContainerStatuses":null,"updateResources":true}`
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, Message: "the node has 2 cpus",
		})
	}
}

func TestAnnouncements(t *testing.T) {
	claims := func(w *simulation) {
		w.o.AutoResizePVC = true
		w.set.Spec.VolumeClaimUpdateStrategy.Type = appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
		w.expandable = nil
	}
	cases := map[string]struct {
		steps []func(*simulation)
		want  []string
	}{
		"a set at rest says nothing":        {steps: []func(*simulation){running}},
		"claims that cannot grow":           {steps: []func(*simulation){storage("1Gi"), claims, running, storage("2Gi")}, want: []string{"FailedUpdatePVC"}},
		"a change that InPlaceOnly forbids": {steps: []func(*simulation){func(w *simulation) { w.rolling().PodUpdatePolicy = shared.InPlaceOnly }, running, env}, want: []string{"FailedUpdatePodInPlace"}},
		"a resize that the node refuses":    {steps: []func(*simulation){running, infeasible(0)}, want: []string{"FailedUpdatePodInPlace"}},
		"a spec that cannot be read":        {steps: []func(*simulation){running, reserve("x")}, want: []string{"InvalidSpec"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 2, tc.steps...)
			reasons := func() (all []string) {
				for _, event := range Events(Parse(w.set, w.o), w.report(planning.Outcome{})) {
					if !event.Warning || event.Message == "" {
						t.Errorf("event %+v", event)
					}
					all = append(all, event.Reason)
				}
				return all
			}
			if diff := cmp.Diff(tc.want, reasons()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			w.set.Status = w.report(planning.Outcome{})
			if again := reasons(); len(again) > 0 {
				t.Errorf("said again: %v", again)
			}
			w.set.Generation++
			if diff := cmp.Diff(tc.want, reasons()); diff != "" {
				t.Errorf("events about another spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatusCounters(t *testing.T) {
	w := newSimulation(t, 4, inPlace, partition(2), running, image("2"), running, terminating(3), unready(0), replicas(3))
	got := w.report(planning.Outcome{})
	got.Conditions, got.VolumeClaims = nil, nil
	want := appsv1beta1.StatefulSetStatus{
		ObservedGeneration: 2,
		Replicas:           4, ReadyReplicas: 3, AvailableReplicas: 2,
		CurrentReplicas: 2, UpdatedReplicas: 1, UpdatedReadyReplicas: 1, UpdatedAvailableReplicas: 1,
		CurrentRevision: "web-1", UpdateRevision: "web-2", LabelSelector: "app=web", CollisionCount: ptr.To[int32](0),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// A node that does not answer keeps its pod for as long as nobody does something about it.
func TestPodsThatDoNotEndAreNamed(t *testing.T) {
	for name, policy := range map[string]func(*simulation){"all at once": func(*simulation) {}, "in order": ordered} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 3, policy)
			running(w)
			s := w.snapshot()
			grace := metav1.NewTime(s.Now)
			w.pod(1).DeletionTimestamp, w.pod(1).Finalizers = &grace, []string{"example.io/stays"}
			message := func(passed time.Duration) (string, time.Duration) {
				s := w.snapshot()
				s.Now = s.Now.Add(passed)
				spec := Parse(w.set, w.o)
				plan := Plan(spec, s)
				status := Status(spec, s, plan, planning.Outcome{})
				i := slices.IndexFunc(status.Conditions, func(c appsv1.StatefulSetCondition) bool { return c.Type == appsv1beta1.StatefulSetProgressing })
				return status.Conditions[i].Message, plan.RecheckAfter
			}
			const terminating = "web-1 is still terminating 30s after the grace period: a node does not answer, or a finalizer holds a pod"
			if got, recheck := message(10 * time.Second); strings.Contains(got, terminating) || recheck != 20*time.Second {
				t.Errorf("10 s after its grace period: %q, looked at again in %s", got, recheck)
			}
			if got, _ := message(31 * time.Second); !strings.Contains(got, terminating) {
				t.Errorf("31 s after its grace period: %q, want %q", got, terminating)
			}
		})
	}
}

func TestStatusRevisions(t *testing.T) {
	cases := map[string]struct {
		steps []func(*simulation)
		want  string // current revision
	}{
		"a finished rollout makes the update revision current":          {[]func(*simulation){running, image("2"), running}, "web-2"},
		"with a partition the old revision stays current":               {[]func(*simulation){partition(1), running, image("2"), running}, "web-1"},
		"OnDelete keeps the old revision":                               {[]func(*simulation){running, onDelete, image("2"), gone(0, 1, 2), running}, "web-1"},
		"a set whose pods are all gone for a moment keeps its revision": {[]func(*simulation){partition(1), running, image("2"), gone(0, 1, 2)}, "web-1"},
		"a canary is not forgotten when the set is scaled to 0":         {[]func(*simulation){running, partition(2), image("2"), running, replicas(0), running}, "web-1"},
		"nor when the pods that the partition keeps are scaled in":      {[]func(*simulation){running, partition(1), unordered(nil), image("2"), running, reserve(0), replicas(2), running}, "web-1"},
		"scaled to 0, a set without partition takes the new revision":   {[]func(*simulation){running, image("2"), replicas(0), running}, "web-2"},
		"an update whose pods are not ready is not finished":            {[]func(*simulation){running, image("2"), func(w *simulation) { w.breaks("web:2") }, running}, "web-1"},
		"a rollback makes the old revision both current and updated":    {[]func(*simulation){running, image("2"), func(w *simulation) { w.Pass() }, image("1"), running}, "web-1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := newSimulation(t, 3, tc.steps...).report(planning.Outcome{}).CurrentRevision; got != tc.want {
				t.Errorf("current revision is %s, want %s", got, tc.want)
			}
		})
	}
}

// A status that nothing changed must be equal to the one before, so that it is not written again.
func TestStatusStaysStill(t *testing.T) {
	cases := map[string][]func(*simulation){
		"at rest":                 {running},
		"stuck at the limit":      {maxUnavailable(2), running, image("2"), unready(0, 1, 2), func(w *simulation) { w.breaks("web:2") }, running},
		"waiting to be available": {minReady(300), func(w *simulation) { w.Pass(); w.Kubelets(); w.Pass() }},
		"stalled":                 {func(w *simulation) { w.rolling().PodUpdatePolicy = shared.InPlaceOnly }, running, env},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 12, steps...)
			w.set.Status = w.report(planning.Outcome{})
			w.Time = w.Time.Add(10 * time.Second)
			if diff := cmp.Diff(w.set.Status, w.report(planning.Outcome{})); diff != "" {
				t.Errorf("the status moved (-before +after):\n%s", diff)
			}
		})
	}
}

func TestConditionKeepsItsTransitionTime(t *testing.T) {
	w := newSimulation(t, 3, running)
	w.set.Status = w.report(planning.Outcome{})
	first := w.set.Status.Conditions[0].LastTransitionTime
	w.Time = w.Time.Add(time.Minute)
	paused(w)
	image("2")(w)
	status := w.report(planning.Outcome{})
	if got := status.Conditions[0]; got.Reason != "Paused" || !got.LastTransitionTime.Equal(&first) {
		t.Errorf("another reason moved the transition time: %+v", got)
	}
	w.rolling().Paused = false
	status = w.report(planning.Outcome{})
	if got := status.Conditions[0]; got.Status != corev1.ConditionTrue || got.LastTransitionTime.Equal(&first) {
		t.Errorf("another status did not: %+v", got)
	}
}

// BenchmarkPlan plans and reports a set of 1000 pods.
func BenchmarkPlan(b *testing.B) {
	cases := map[string][]func(*simulation){
		"at rest":             nil,
		"at rest with claims": {storage("1Gi"), retention("Delete", "Delete")},
		"rolling out":         {inPlace, func(w *simulation) { w.revisions["old"] = w.snapshot().Update; image("2")(w) }},
	}
	for name, steps := range cases {
		b.Run(name, func(b *testing.B) {
			w := benchWorld(b, 1000, steps...)
			s := w.snapshot()
			b.ReportAllocs()
			for b.Loop() {
				plan := Plan(Parse(w.set, w.o), s)
				Status(Parse(w.set, w.o), s, plan, planning.Outcome{})
			}
		})
	}
}

// BenchmarkPods derives the facts about 1000 pods.
func BenchmarkPods(b *testing.B) {
	w := benchWorld(b, 1000)
	objects := make([]*corev1.Pod, 0, len(w.Pods))
	objects = append(objects, w.Pods...)
	b.ReportAllocs()
	for b.Loop() {
		Pods(Parse(w.set, w.o), objects, nil, w.Time)
	}
}

func benchWorld(b *testing.B, replicas int32, steps ...func(*simulation)) *simulation {
	w := newSimulation(&testing.T{}, replicas)
	for i, step := range steps {
		if i == 0 || len(w.set.Spec.VolumeClaimTemplates) > 0 {
			step(w)
		}
	}
	w.Pass()
	w.Kubelets()
	w.Pass()
	for _, step := range steps {
		step(w)
	}
	if len(w.Pods) != int(replicas) {
		b.Fatalf("%d pods", len(w.Pods))
	}
	for _, pod := range w.Pods {
		pod.UID = types.UID(pod.Name)
	}
	return w
}

func TestSetLooksAgainAtAStorageClassThatLetsNothingGrow(t *testing.T) {
	w := newSimulation(t, 1, storage("1Gi"), func(w *simulation) {
		w.o.AutoResizePVC = true
		w.set.Spec.VolumeClaimUpdateStrategy.Type = appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
		w.expandable = nil
	}, running, storage("2Gi"))
	if plan := Plan(Parse(w.set, w.o), w.snapshot()); plan.RecheckAfter != time.Minute {
		t.Errorf("recheck after %s, want a minute: nothing else would trigger a pass", plan.RecheckAfter)
	}
}

// The kubelet refuses a pod that the server has taken. It was made again and again, and nothing said why.
func TestTheCauseOfAPodThatTheNodeRefusesIsSaid(t *testing.T) {
	w := newSimulation(t, 3, running)
	pod := w.pod(1)
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "OutOfcpu", "Node didn't have enough resource: cpu"
	message := conditionOf(t, w.report(planning.Outcome{}), appsv1beta1.StatefulSetReconciling).Message
	if want := "web-1: it has failed: OutOfcpu: Node didn't have enough resource: cpu; "; !strings.HasPrefix(message, want) {
		t.Errorf("the message is %q, want it to begin with %q", message, want)
	}
}

// A rollout stopped at an image that starts and never becomes ready, and the condition said no more than who uses up maxUnavailable, or is not available.
func TestAPodThatIsNotReadyIsNamedWithWhatItWaitsFor(t *testing.T) {
	for name, tc := range map[string]struct {
		policy func(*simulation)
		rest   string
	}{
		"all at once": {func(*simulation) {}, "2 pods wait: maxUnavailable 1 is used up by web-2"},
		"in order":    {ordered, "the next step waits: web-2 is not available yet"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 3, tc.policy, running)
			w.breaks("web:bad")
			w.change(image("bad"))
			w.Rest()
			got := conditionOf(t, w.report(planning.Outcome{}), appsv1beta1.StatefulSetReconciling).Message
			if want := "web-2: container main: it runs and is not ready; " + tc.rest; got != want {
				t.Errorf("Reconciling says %q, want %q", got, want)
			}
		})
	}
}

func TestWhyAPodIsReplacedIsInTheEventAndTheCondition(t *testing.T) {
	const why = "spec.template.spec.containers[0].env changed: only image, resources and metadata can change in place"
	for name, options := range map[string][]func(*simulation){"Parallel": {inPlace, running}, "OrderedReady": {inPlace, ordered, running}} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 3, append(options, env)...)
			plan := Plan(Parse(w.set, w.o), w.snapshot())
			replaced := 0
			for _, action := range plan.Actions {
				if action.Step != podset.StepDelete {
					continue
				}
				replaced++
				if action.Success.Reason != "SuccessfulDelete" || !strings.HasSuffix(action.Success.Message, "successful, because it cannot be updated in place: "+why) {
					t.Errorf("the event is %+v", action.Success)
				}
			}
			if replaced != 1 {
				t.Errorf("%d pods are replaced, want one", replaced)
			}
			message := conditionOf(t, w.report(planning.Outcome{}), appsv1beta1.StatefulSetReconciling).Message
			if !strings.Contains(message, "pods are replaced although podUpdatePolicy is InPlaceIfPossible: "+why) {
				t.Errorf("the condition says %q", message)
			}
		})
	}
	w := newSimulation(t, 3, running, env)
	if note, held := ptr.To(Plan(Parse(w.set, w.o), w.snapshot())).HeldFor(podset.ReasonReplaced); held {
		t.Errorf("of pods that were to be replaced it is said as well: %+v", note)
	}
}

// conditionOf is the condition of that type, which there must be.
func conditionOf(t *testing.T, status appsv1beta1.StatefulSetStatus, kind appsv1.StatefulSetConditionType) appsv1.StatefulSetCondition {
	t.Helper()
	for _, c := range status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	t.Fatalf("there is no condition %s in %+v", kind, status.Conditions)
	return appsv1.StatefulSetCondition{}
}

// A pod that its node refused was replaced less and less often, and nobody said why.
func TestASetWhosePodFailsAgainAndAgainIsStalled(t *testing.T) {
	w := newSimulation(t, 2, running)
	stalled := func() conditions.Condition {
		s := w.snapshot()
		failing := []planning.FailingSlot{{Slot: "1", MadeFrom: s.Current.Name}}
		status := Status(Parse(w.set, w.o), s, Plan(Parse(w.set, w.o), s), planning.Outcome{Failing: failing})
		c, _ := conditions.Find(conditions.From(status.Conditions), appsv1beta1.StatefulSetStalled)
		return c
	}
	if c := stalled(); c.Status != corev1.ConditionFalse {
		t.Errorf("with a pod that has got over it, the condition Stalled is %+v", c)
	}
	fail(1)(w)
	w.pod(1).Status.Reason = "NodeAffinity"
	if c := stalled(); c.Status != corev1.ConditionTrue || c.Reason != appsv1beta1.ReasonPodsFail || !strings.Contains(c.Message, "web-1 (NodeAffinity)") {
		t.Errorf("the condition Stalled is %+v", c)
	}
	w.pod(1).Labels[shared.LabelControllerRevisionHash], w.pod(1).Status.Phase = "web-2", corev1.PodPending
	if c := stalled(); c.Status != corev1.ConditionFalse {
		t.Errorf("with a pod of another template, which has not failed yet, the condition Stalled is %+v", c)
	}
}
