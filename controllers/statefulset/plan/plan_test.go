// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/claims"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
)

func fail(ordinals ...int) func(*simulation) {
	return func(w *simulation) {
		for _, o := range ordinals {
			w.pod(o).Status.Phase = corev1.PodFailed
			setReady(w.pod(o), false, w.Time)
		}
	}
}

func terminating(ordinals ...int) func(*simulation) {
	return func(w *simulation) {
		for _, o := range ordinals {
			w.pod(o).DeletionTimestamp = ptr.To(metav1.NewTime(w.Time))
		}
	}
}

func gone(ordinals ...int) func(*simulation) {
	return func(w *simulation) {
		for _, o := range ordinals {
			w.RemovePod(w.pod(o).Name)
		}
	}
}

// condemned makes claims go with their pods, as if the set had not asked for the ordinals a moment ago.
func condemned(ordinals ...int) func(*simulation) {
	return func(w *simulation) {
		for _, o := range ordinals {
			pod := w.pod(o)
			w.Claim("data-" + pod.Name).OwnerReferences = []metav1.OwnerReference{claims.PodReference(pod)}
		}
	}
}

func paused(w *simulation) { w.rolling().Paused = true }

// faulty is a server that would refuse the template.
func faulty(w *simulation) { w.fault = "spec.template.spec.containers[0].image: Required value" }

// unrecorded is a server that refuses to record the template.
func unrecorded(w *simulation) { w.unrecorded = "creating revision web-3: exceeded quota" }

func onDelete(w *simulation) {
	w.set.Spec.UpdateStrategy = appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}

func unordered(s *shared.UpdatePriorityStrategy) func(*simulation) {
	return func(w *simulation) {
		w.rolling().UnorderedUpdate = &appsv1beta1.UnorderedUpdateStrategy{PriorityStrategy: s}
	}
}

// TestPlan is about one pass: the steps are done in order, then the set is planned.
func TestPlan(t *testing.T) {
	cases := map[string]struct {
		replicas int32
		steps    []func(*simulation)
		want     []string // actions
		held     []string // reasons of notes
	}{
		// Creating and repairing.
		"a Parallel set creates all pods at once": {
			replicas: 3,
			want:     []string{"Create web-0 ScaleOut web-1", "Create web-1 ScaleOut web-1", "Create web-2 ScaleOut web-1"},
		},
		"an ordered set creates one pod": {
			replicas: 3, steps: []func(*simulation){ordered},
			want: []string{"Create web-0 ScaleOut web-1"},
		},
		"an ordered set waits for a pod that is not ready": {
			replicas: 3, steps: []func(*simulation){ordered, running, gone(2), unready(0)},
			held: []string{"PodNotReady"},
		},
		"a set at rest does nothing": {
			replicas: 3, steps: []func(*simulation){running},
		},
		"a failed pod is removed even when it uses up the scale limit": {
			replicas: 3, steps: []func(*simulation){scaleMaxUnavailable(1), running, fail(0), gone(2)},
			want: []string{"Delete web-0 Finished"}, held: []string{"ScaleMaxUnavailable"},
		},
		"all failed pods of a Parallel set are removed": {
			replicas: 3, steps: []func(*simulation){running, fail(0, 2)},
			want: []string{"Delete web-0 Finished", "Delete web-2 Finished"},
		},
		"an ordered set removes one failed pod and stops": {
			replicas: 3, steps: []func(*simulation){ordered, running, fail(0, 2)},
			want: []string{"Delete web-0 Finished"},
		},
		"a terminating pod stops an ordered set": {
			replicas: 3, steps: []func(*simulation){ordered, running, terminating(0), gone(1)},
			held: []string{"PodTerminating"},
		},
		"a terminating pod does not stop a Parallel set": {
			replicas: 3, steps: []func(*simulation){running, terminating(0), gone(1)},
			want: []string{"Create web-1 ScaleOut web-1"},
		},
		"a pod waits at its preDelete hook before it is replaced": {
			replicas: 1, steps: []func(*simulation){hooks(shared.Lifecycle{PreDelete: finalizerHook("example.io/drain")}), running,
				func(w *simulation) { w.pod(0).Finalizers = []string{"example.io/drain"} }, fail(0)},
			want: []string{"Edit web-0 Hook PreparingDelete"},
		},
		"a pod that lost its identity gets it back": {
			replicas: 1, steps: []func(*simulation){running, func(w *simulation) { delete(w.pod(0).Labels, shared.LabelPodName) }},
			want: []string{"Edit web-0 Repair"},
		},
		"three available pods and a scale limit of two: two are created": {
			replicas: 3, steps: []func(*simulation){scaleMaxUnavailable(2), running, replicas(10)},
			want: []string{"Create web-3 ScaleOut web-1", "Create web-4 ScaleOut web-1"}, held: []string{"ScaleMaxUnavailable"},
		},
		"the scale limit of a percentage is rounded down, but never to none": {
			replicas: 5, steps: []func(*simulation){scaleMaxUnavailable("10%")},
			want: []string{"Create web-0 ScaleOut web-1"}, held: []string{"ScaleMaxUnavailable"},
		},
		"a reserved element that cannot be read stops everything": {
			replicas: 3, steps: []func(*simulation){running, reserve("x"), replicas(0)},
			held: []string{"InvalidSpec"},
		},
		"a limit that cannot be read stops everything": {
			replicas: 3, steps: []func(*simulation){maxUnavailable("many")},
			held: []string{"InvalidSpec"},
		},
		"a huge reserved range costs nothing": {
			replicas: 1, steps: []func(*simulation){reserve("0-2000000000")},
			want: []string{"Create web-2000000001 ScaleOut web-1"},
		},
		"a set that is being deleted plans nothing": {
			replicas: 3, steps: []func(*simulation){func(w *simulation) { w.set.DeletionTimestamp = ptr.To(metav1.NewTime(w.Time)) }},
		},

		"a selector that is missing stops everything": {
			replicas: 3, steps: []func(*simulation){running, func(w *simulation) { w.set.Spec.Selector = nil }, replicas(5)},
			held: []string{"InvalidSpec"},
		},
		"a selector that selects everything stops everything": {
			replicas: 3, steps: []func(*simulation){func(w *simulation) { w.set.Spec.Selector = &metav1.LabelSelector{} }},
			held: []string{"InvalidSpec"},
		},
		"a template that the selector does not match stops everything": {
			replicas: 3, steps: []func(*simulation){running, func(w *simulation) { w.set.Spec.Template.Labels = nil }, replicas(5)},
			held: []string{"InvalidSpec"},
		},
		"a negative first ordinal stops everything": {
			replicas: 3, steps: []func(*simulation){func(w *simulation) {
				w.o.StartOrdinal = true
				w.set.Spec.Ordinals = &appsv1beta1.StatefulSetOrdinals{Start: -1}
			}},
			held: []string{"InvalidSpec"},
		},
		"a range that begins after it ends stops everything": {
			replicas: 3, steps: []func(*simulation){reserve("7-3")},
			held: []string{"InvalidSpec"},
		},
		"a strategy that is left out is a rolling update of one pod at a time": {
			replicas: 3, steps: []func(*simulation){func(w *simulation) { w.set.Spec.UpdateStrategy = appsv1beta1.StatefulSetUpdateStrategy{} }, running, image("2")},
			want: []string{"Delete web-2 Outdated"}, held: []string{"MaxUnavailable"},
		},
		"everything optional left out is one pod": {
			steps: []func(*simulation){func(w *simulation) {
				w.set.Spec = appsv1beta1.StatefulSetSpec{Selector: w.set.Spec.Selector, Template: w.set.Spec.Template}
			}},
			want: []string{"Create web-0 ScaleOut web-1"},
		},

		// The revision of a created pod.
		"a pod below the partition is created at the current revision": {
			replicas: 3, steps: []func(*simulation){partition(2), running, image("2"), gone(0, 2)},
			want: []string{"Create web-0 ScaleOut web-1", "Create web-2 ScaleOut web-2"}, held: []string{"Partition"},
		},
		"rank counts valid ordinals, not numbers": {
			replicas: 2, steps: []func(*simulation){reserve("0-4"), partition(1), running, image("2"), gone(5, 6)},
			want: []string{"Create web-5 ScaleOut web-1", "Create web-6 ScaleOut web-2"},
		},
		"OnDelete creates at the update revision": {
			replicas: 2, steps: []func(*simulation){running, onDelete, image("2"), gone(0)},
			want: []string{"Create web-0 ScaleOut web-2"}, held: []string{"OnDelete"},
		},
		"an unordered set creates at the current revision only while too few pods are there": {
			replicas: 4, steps: []func(*simulation){unordered(nil), partition(2), running, image("2"), gone(0, 1, 2)},
			want: []string{"Create web-0 ScaleOut web-1", "Create web-1 ScaleOut web-2", "Create web-2 ScaleOut web-2"}, held: []string{"Partition"},
		},
		"a gone current revision is replaced by the update revision": {
			replicas: 2, steps: []func(*simulation){partition(2), running, image("2"), gone(0),
				func(w *simulation) { w.set.Status.CurrentRevision = "web-0" }},
			want: []string{"Create web-0 ScaleOut web-2"}, held: []string{"Partition"},
		},

		// Scaling in.
		"a Parallel set removes all surplus pods, the highest first": {
			replicas: 4, steps: []func(*simulation){running, replicas(2)},
			want: []string{"Delete web-3 ScaleIn", "Delete web-2 ScaleIn"},
		},
		"an ordered set removes the highest surplus pod alone": {
			replicas: 4, steps: []func(*simulation){ordered, running, replicas(2)},
			want: []string{"Delete web-3 ScaleIn"},
		},
		"an ordered set does not shrink while a replica is not ready": {
			replicas: 4, steps: []func(*simulation){ordered, running, replicas(2), unready(0)},
			held: []string{"PodNotReady"},
		},
		"an ordered set waits for a surplus pod that is not ready above another one": {
			replicas: 4, steps: []func(*simulation){ordered, running, replicas(2), unready(2, 3)},
			held: []string{"PodNotReady"},
		},
		"an ordered set removes a surplus pod that is not ready and that its user deletes": {
			replicas: 4, steps: []func(*simulation){ordered, running, replicas(2), unready(2, 3), specified(3)},
			want: []string{"Delete web-3 ScaleIn"},
		},
		"an ordered set removes the only surplus pod that is not ready": {
			replicas: 4, steps: []func(*simulation){ordered, running, replicas(2), unready(3)},
			want: []string{"Delete web-3 ScaleIn"},
		},
		"an ordered set removes a surplus pod that has failed": {
			replicas: 4, steps: []func(*simulation){ordered, running, replicas(2), unready(2), fail(3)},
			want: []string{"Delete web-3 ScaleIn"},
		},
		"an ordered set replaces a reserved pod before it removes it": {
			replicas: 3, steps: []func(*simulation){ordered, running, reserve(1)},
			want: []string{"Create web-3 ScaleOut web-1"},
		},
		"a pod at its preDelete hook is deleted when the hook is released": {
			replicas: 2, steps: []func(*simulation){hooks(shared.Lifecycle{PreDelete: finalizerHook("example.io/drain")}), running,
				replicas(1), label(shared.LabelLifecycleState, "PreparingDelete", 1)},
			want: []string{"Delete web-1 ScaleIn"},
		},
		"a pod at its preDelete hook goes back to normal when it is needed again": {
			replicas: 2, steps: []func(*simulation){running, label(shared.LabelLifecycleState, "PreparingDelete", 1)},
			want: []string{"Edit web-1 Hook Normal"},
		},

		// Moving.
		"pods move from the highest ordinal down, as many as the limit allows": {
			replicas: 4, steps: []func(*simulation){maxUnavailable(2), running, image("2")},
			want: []string{"Delete web-3 Outdated", "Delete web-2 Outdated"}, held: []string{"MaxUnavailable"},
		},
		"the limit as a percentage is rounded down": {
			replicas: 7, steps: []func(*simulation){maxUnavailable("30%"), running, image("2")},
			want: []string{"Delete web-6 Outdated", "Delete web-5 Outdated"}, held: []string{"MaxUnavailable"},
		},
		"a limit of all moves all": {
			replicas: 3, steps: []func(*simulation){maxUnavailable("100%"), inPlace, running, image("2")},
			want: []string{"Edit web-2 InPlaceUpdate Updating", "Edit web-1 InPlaceUpdate Updating", "Edit web-0 InPlaceUpdate Updating"},
		},
		"an outage below the partition uses up the limit": {
			replicas: 4, steps: []func(*simulation){partition(1), running, image("2"), unready(0)},
			held: []string{"MaxUnavailable", "Partition"},
		},
		"a partition of all moves none": {
			replicas: 3, steps: []func(*simulation){partition(5), running, image("2")},
			held: []string{"Partition"},
		},
		"a missing pod uses up the limit": {
			replicas: 3, steps: []func(*simulation){running, image("2"), gone(0)},
			want: []string{"Create web-0 ScaleOut web-2"}, held: []string{"MaxUnavailable"},
		},
		"a terminating pod uses up the limit": {
			replicas: 3, steps: []func(*simulation){running, image("2"), terminating(0)},
			held: []string{"MaxUnavailable"},
		},
		"an unavailable outdated pod moves although an available one before it is blocked": {
			replicas: 6, steps: []func(*simulation){running, image("2"), unready(0)},
			want: []string{"Delete web-0 Outdated"}, held: []string{"MaxUnavailable"},
		},
		"pods that are ready but not for long enough are not taken down beyond the limit": {
			replicas: 3, steps: []func(*simulation){minReady(60), func(w *simulation) { w.Pass(); w.Kubelets() }, image("2")},
			held: []string{"MaxUnavailable"},
		},
		"an ordered set moves three pods at a time from the top": {
			replicas: 6, steps: []func(*simulation){ordered, maxUnavailable(3), running, image("2")},
			want: []string{"Delete web-5 Outdated", "Delete web-4 Outdated", "Delete web-3 Outdated"}, held: []string{"MaxUnavailable"},
		},
		"no more pods are replaced than the scale limit lets be created": {
			replicas: 10, steps: []func(*simulation){maxUnavailable("60%"), scaleMaxUnavailable("20%"), running, image("2")},
			want: []string{"Delete web-9 Outdated", "Delete web-8 Outdated"}, held: []string{"MaxUnavailable"},
		},
		"pods that are missing or not available use up what may be replaced under the scale limit": {
			replicas: 10, steps: []func(*simulation){maxUnavailable(6), scaleMaxUnavailable(2), running, unready(0), image("2")},
			want: []string{"Delete web-0 Outdated", "Delete web-9 Outdated"}, held: []string{"MaxUnavailable"},
		},
		"the scale limit does not hold for pods that are updated in place": {
			replicas: 4, steps: []func(*simulation){inPlace, maxUnavailable(2), scaleMaxUnavailable(1), running, image("2")},
			want: []string{"Edit web-3 InPlaceUpdate Updating", "Edit web-2 InPlaceUpdate Updating"}, held: []string{"MaxUnavailable"},
		},
		"no more pods are deleted by label than the scale limit lets be created": {
			replicas: 4, steps: []func(*simulation){maxUnavailable(3), scaleMaxUnavailable(1), running, specified(0, 1, 2)},
			want: []string{"Delete web-2 SpecifiedDelete"}, held: []string{"MaxUnavailable"},
		},
		"an ordered set moves one pod": {
			replicas: 3, steps: []func(*simulation){ordered, running, image("2")},
			want: []string{"Delete web-2 Outdated"}, held: []string{"MaxUnavailable"},
		},
		"an ordered set moves the pod it would wait for": {
			replicas: 3, steps: []func(*simulation){ordered, running, image("2"), unready(1)},
			want: []string{"Delete web-1 Outdated"}, held: []string{"PodNotReady"},
		},
		"an ordered set leaves an unavailable pod alone that is at the target": {
			replicas: 3, steps: []func(*simulation){ordered, running, unready(1)},
		},
		"a paused set moves nothing and deletes nothing by label": {
			replicas: 3, steps: []func(*simulation){paused, running, image("2"), specified(0)},
			held: []string{"Paused"},
		},
		"OnDelete moves nothing and deletes nothing by label": {
			replicas: 3, steps: []func(*simulation){running, onDelete, image("2"), specified(0)},
			held: []string{"OnDelete"},
		},
		"a paused set still finishes updates in place": {
			replicas: 2, steps: []func(*simulation){inPlace, running, image("2"), func(w *simulation) { w.Pass(); w.Kubelets() }, paused},
			want: []string{"Edit web-1 InPlaceFinished Normal"}, held: []string{"Paused"},
		},
		"a difference that does not allow it replaces the pod": {
			replicas: 2, steps: []func(*simulation){inPlace, running, image("2"), env},
			want: []string{"Delete web-1 Outdated"}, held: []string{"Replaced", "MaxUnavailable"},
		},
		"the way is chosen pod by pod": {
			replicas: 3, steps: []func(*simulation){inPlace, maxUnavailable(3), running, env, image("2"), func(w *simulation) { w.snapshot() },
				label(shared.LabelControllerRevisionHash, "web-2-env", 1), func(w *simulation) { w.pod(1).Spec.Containers[0].Image = "web:2" }, image("3"), label(shared.LabelControllerRevisionHash, "web-lost", 0)},
			want: []string{"Delete web-2 Outdated", "Edit web-1 InPlaceUpdate Updating", "Delete web-0 Outdated"}, held: []string{"Replaced"},
		},
		"InPlaceOnly never replaces a pod": {
			replicas: 2, steps: []func(*simulation){func(w *simulation) { w.rolling().PodUpdatePolicy = shared.InPlaceOnly }, running, env},
			held: []string{"InPlaceImpossible"},
		},
		"a pod stops at its update hook": {
			replicas: 1, steps: []func(*simulation){inPlace, hooks(shared.Lifecycle{InPlaceUpdate: finalizerHook("example.io/drain")}), running,
				func(w *simulation) { w.pod(0).Finalizers = []string{"example.io/drain"} }, image("2")},
			want: []string{"Edit web-0 Hook PreparingUpdate"},
		},
		"a pod at its update hook waits": {
			replicas: 1, steps: []func(*simulation){inPlace, hooks(shared.Lifecycle{InPlaceUpdate: finalizerHook("example.io/drain")}), running,
				func(w *simulation) { w.pod(0).Finalizers = []string{"example.io/drain"} }, image("2"), label(shared.LabelLifecycleState, "PreparingUpdate", 0)},
			held: []string{"Hook"},
		},
		"a pod whose hook is released is edited": {
			replicas: 1, steps: []func(*simulation){inPlace, hooks(shared.Lifecycle{InPlaceUpdate: finalizerHook("example.io/drain")}), running,
				image("2"), label(shared.LabelLifecycleState, "PreparingUpdate", 0)},
			want: []string{"Edit web-0 InPlaceUpdate Updating"},
		},
		"a pod at its update hook goes back when the template does": {
			replicas: 1, steps: []func(*simulation){inPlace, hooks(shared.Lifecycle{InPlaceUpdate: finalizerHook("example.io/drain")}), running,
				func(w *simulation) { w.pod(0).Finalizers = []string{"example.io/drain"} }, label(shared.LabelLifecycleState, "PreparingUpdate", 0)},
			want: []string{"Edit web-0 Hook Normal"},
		},
		"a pod at its update hook goes back when the partition keeps it": {
			replicas: 1, steps: []func(*simulation){inPlace, hooks(shared.Lifecycle{InPlaceUpdate: finalizerHook("example.io/drain")}), running,
				func(w *simulation) { w.pod(0).Finalizers = []string{"example.io/drain"} }, label(shared.LabelLifecycleState, "PreparingUpdate", 0), image("2"), partition(1)},
			want: []string{"Edit web-0 Hook Normal"}, held: []string{"Partition"},
		},
		"a pod at its update hook stays there while the set is paused": {
			replicas: 1, steps: []func(*simulation){inPlace, hooks(shared.Lifecycle{InPlaceUpdate: finalizerHook("example.io/drain")}), running,
				func(w *simulation) { w.pod(0).Finalizers = []string{"example.io/drain"} }, label(shared.LabelLifecycleState, "PreparingUpdate", 0), image("2"), paused},
			held: []string{"Paused"},
		},
		"an ordered set moves on with the pod at the hook that makes it wait": {
			replicas: 3, steps: []func(*simulation){ordered, inPlace, hooks(shared.Lifecycle{InPlaceUpdate: finalizerHook("example.io/drain")}), running,
				image("2"), label(shared.LabelLifecycleState, "PreparingUpdate", 2)},
			want: []string{"Edit web-2 InPlaceUpdate Updating"}, held: []string{"PodNotReady"},
		},

		// A template that the server would refuse.
		"no pod moves to a faulty template": {
			replicas: 3, steps: []func(*simulation){running, image("2"), faulty},
			held: []string{"TemplateInvalid"},
		},
		"no pod is edited for a faulty template": {
			replicas: 3, steps: []func(*simulation){inPlace, maxUnavailable(3), running, image("2"), faulty},
			held: []string{"TemplateInvalid"},
		},
		"an unavailable pod does not move to a faulty template either": {
			replicas: 3, steps: []func(*simulation){ordered, running, image("2"), unready(1), faulty},
			held: []string{"PodNotReady", "TemplateInvalid"},
		},
		"a missing pod is created from a faulty template, for the server to say what it thinks": {
			replicas: 3, steps: []func(*simulation){running, gone(1), image("2"), faulty},
			want: []string{"Create web-1 ScaleOut web-2"}, held: []string{"TemplateInvalid"},
		},
		"a missing pod is created at the template before one that cannot be recorded": {
			replicas: 3, steps: []func(*simulation){running, gone(1), image("2"), unrecorded},
			want: []string{"Create web-1 ScaleOut web-1"},
		},
		"no pod moves on to the template before one that cannot be recorded": {
			replicas: 3, steps: []func(*simulation){running, image("0"), func(w *simulation) { w.pod(2).Labels[shared.LabelControllerRevisionHash] = "web-0" }, unrecorded},
		},
		"a pod at its update hook goes back when the template cannot be recorded": {
			replicas: 1, steps: []func(*simulation){inPlace, hooks(shared.Lifecycle{InPlaceUpdate: finalizerHook("example.io/drain")}), running,
				func(w *simulation) { w.pod(0).Finalizers = []string{"example.io/drain"} }, image("2"), label(shared.LabelLifecycleState, "PreparingUpdate", 0), unrecorded},
			want: []string{"Edit web-0 Hook Normal"},
		},
		"a pod at its update hook goes back when the template is faulty": {
			replicas: 1, steps: []func(*simulation){inPlace, hooks(shared.Lifecycle{InPlaceUpdate: finalizerHook("example.io/drain")}), running,
				func(w *simulation) { w.pod(0).Finalizers = []string{"example.io/drain"} }, image("2"), label(shared.LabelLifecycleState, "PreparingUpdate", 0), faulty},
			want: []string{"Edit web-0 Hook Normal"}, held: []string{"TemplateInvalid"},
		},
		"pods that their user wants deleted go all the same": {
			replicas: 3, steps: []func(*simulation){running, image("2"), specified(0), faulty},
			want: []string{"Delete web-0 SpecifiedDelete"}, held: []string{"TemplateInvalid"},
		},
		"a faulty template that has its pods stops nothing": {
			replicas: 3, steps: []func(*simulation){running, faulty, unready(2)},
		},

		// Unordered updates.
		"an unordered update follows the weights": {
			replicas: 4, steps: []func(*simulation){maxUnavailable(2), running, label("tier", "canary", 1), image("2"),
				unordered(&shared.UpdatePriorityStrategy{WeightPriority: []shared.UpdatePriorityWeightTerm{
					{Weight: 10, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "canary"}}}}})},
			want: []string{"Delete web-1 Outdated", "Delete web-3 Outdated"}, held: []string{"MaxUnavailable"},
		},
		"the partition of an unordered update keeps pods that serve before a broken one": {
			replicas: 3, steps: []func(*simulation){unordered(nil), partition(1), running, image("2"), unready(0)},
			want: []string{"Delete web-0 Outdated"}, held: []string{"MaxUnavailable", "Partition"},
		},
		"the partition of an unordered update does not keep a pod that an earlier update broke, whatever its priority": {
			replicas: 3, steps: []func(*simulation){partition(2), running, label("tier", "canary", 1),
				label(shared.LabelControllerRevisionHash, "web-2", 0), unready(0), image("3"),
				unordered(&shared.UpdatePriorityStrategy{WeightPriority: []shared.UpdatePriorityWeightTerm{
					{Weight: 10, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "canary"}}}}})},
			want: []string{"Delete web-0 Outdated"}, held: []string{"Partition"},
		},
		"updated pods are the first to count against the partition of an unordered update": {
			replicas: 4, steps: []func(*simulation){unordered(nil), partition(3), running, label(shared.LabelControllerRevisionHash, "web-2", 0), image("2")},
			held: []string{"Partition"},
		},
		"a pod that is yet to be created counts as updated in an unordered update": {
			replicas: 5, steps: []func(*simulation){unordered(nil), partition(2), maxUnavailable(5), running, label(shared.LabelControllerRevisionHash, "web-2", 4), image("2"), gone(3)},
			want: []string{"Create web-3 ScaleOut web-2", "Delete web-2 Outdated"}, held: []string{"Partition"},
		},

		// Specified deletion.
		"a pod labeled for deletion goes while the limit has room": {
			replicas: 3, steps: []func(*simulation){running, specified(1)},
			want: []string{"Delete web-1 SpecifiedDelete"},
		},
		"the partition does not protect from a label": {
			replicas: 3, steps: []func(*simulation){partition(3), running, specified(0)},
			want: []string{"Delete web-0 SpecifiedDelete"},
		},
		"a label does nothing in an ordered set while a pod is not ready": {
			replicas: 3, steps: []func(*simulation){ordered, running, unready(0), specified(2)},
			held: []string{"PodNotReady"},
		},
		"a label on the broken outdated pod that stops an ordered set is followed": {
			replicas: 3, steps: []func(*simulation){ordered, running, image("2"), unready(1), specified(1)},
			want: []string{"Delete web-1 SpecifiedDelete"}, held: []string{"PodNotReady"},
		},

		"a label on the broken updated pod that stops an ordered set is followed": {
			replicas: 3, steps: []func(*simulation){ordered, running, unready(1), specified(1)},
			want: []string{"Delete web-1 SpecifiedDelete"}, held: []string{"PodNotReady"},
		},
		"a label on a broken pod is followed although another one stops an ordered set": {
			replicas: 3, steps: []func(*simulation){ordered, running, unready(0, 2), specified(2)},
			want: []string{"Delete web-2 SpecifiedDelete"}, held: []string{"PodNotReady"},
		},
		"a label on a pod whose update in place never ends is followed in an ordered set": {
			replicas: 2, steps: []func(*simulation){ordered, inPlace, running, image("2"), func(w *simulation) { w.breaks("web:2"); w.Pass() }, specified(1)},
			want: []string{"Delete web-1 SpecifiedDelete"}, held: []string{"PodNotReady"},
		},
		"a label on a pod that is about to be available is followed in an ordered set": {
			replicas: 2, steps: []func(*simulation){ordered, minReady(30), running, func(w *simulation) { setReady(w.pod(1), false, w.Time); setReady(w.pod(1), true, w.Time) }, specified(1)},
			want: []string{"Delete web-1 SpecifiedDelete"}, held: []string{"PodNotReady"},
		},
		"a label does nothing in a paused ordered set": {
			replicas: 3, steps: []func(*simulation){ordered, paused, running, unready(1), specified(1)},
			held: []string{"PodNotReady", "Paused"},
		},

		// Claims.
		"claims are created with the pod": {
			replicas: 1, steps: []func(*simulation){storage("1Gi")},
			want: []string{"Create web-0 ScaleOut web-1"},
		},
		"a claim that a pending pod lacks is made again": {
			replicas: 1, steps: []func(*simulation){storage("1Gi"), func(w *simulation) { w.Pass(); w.Claims = nil }},
			want: []string{"CreateClaim data-web-0 ClaimMissing"},
		},
		"a claim whose template is younger than the pending pod is not made for it": {
			replicas: 1, steps: []func(*simulation){func(w *simulation) { w.Pass() }, storage("1Gi")},
		},
		"a claim that the pod does not mount does not use up the limit while it has no capacity": {
			replicas: 2, steps: []func(*simulation){running, storage("1Gi"), image("2"), func(w *simulation) {
				w.o.AutoResizePVC = true
				w.set.Spec.VolumeClaimUpdateStrategy.Type = appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
				claim := w.set.Spec.VolumeClaimTemplates[0].DeepCopy()
				claim.Name = "data-web-0"
				w.PutClaim(claim)
			}},
			want: []string{"Delete web-1 Outdated"}, held: []string{"MaxUnavailable"},
		},
		"owners of claims follow a changed policy": {
			replicas: 1, steps: []func(*simulation){storage("1Gi"), running, retention("Retain", "Delete")},
			want: []string{"EditClaim data-web-0 ClaimOwners"},
		},
		"claims are condemned before their pod is deleted": {
			replicas: 2, steps: []func(*simulation){storage("1Gi"), retention("Delete", "Retain"), running, replicas(1)},
			want: []string{"EditClaim data-web-1 ClaimOwners"},
		},
		"claims of all surplus pods are condemned, although an ordered set removes one pod at a time": {
			replicas: 3, steps: []func(*simulation){ordered, storage("1Gi"), retention("Delete", "Retain"), running, replicas(1)},
			want: []string{"EditClaim data-web-2 ClaimOwners", "EditClaim data-web-1 ClaimOwners"},
		},
		"a terminating pod that is wanted again gives its claim back": {
			replicas: 2, steps: []func(*simulation){storage("1Gi"), retention("Delete", "Retain"), running, condemned(1), terminating(1)},
			want: []string{"EditClaim data-web-1 ClaimOwners"},
		},
		"a terminating pod that is wanted again gives its claim back in order": {
			replicas: 2, steps: []func(*simulation){ordered, storage("1Gi"), retention("Delete", "Delete"), running, condemned(1), terminating(1)},
			want: []string{"EditClaim data-web-1 ClaimOwners"},
		},
		"a terminating pod that is wanted again gives its claim back while the gate is off": {
			replicas: 2, steps: []func(*simulation){storage("1Gi"), running, condemned(1), terminating(1), func(w *simulation) { w.o.AutoDeletePVC = false }},
			want: []string{"EditClaim data-web-1 ClaimOwners"},
		},
		"a terminating pod that is wanted again gives back the claim of a dropped template": {
			replicas: 2, steps: []func(*simulation){storage("1Gi"), running, condemned(1), terminating(1), func(w *simulation) { w.set.Spec.VolumeClaimTemplates = nil }},
			want: []string{"EditClaim data-web-1 ClaimOwners"},
		},
		"a terminating surplus pod gives its claim back when claims are to stay": {
			replicas: 2, steps: []func(*simulation){storage("1Gi"), retention("Delete", "Retain"), running, replicas(1), condemned(1), terminating(1), retention("Retain", "Retain")},
			want: []string{"EditClaim data-web-1 ClaimOwners"},
		},
		"a pod that is wanted again is not replaced while its claim would go with it": {
			replicas: 2, steps: []func(*simulation){storage("1Gi"), retention("Delete", "Retain"), running, condemned(1), image("2")},
			want: []string{"EditClaim data-web-1 ClaimOwners"}, held: []string{"MaxUnavailable", "ClaimOwned"},
		},
		"a pod that is wanted again is not replaced in order while its claim would go with it": {
			replicas: 2, steps: []func(*simulation){ordered, storage("1Gi"), retention("Delete", "Retain"), running, condemned(1), unready(1), image("2")},
			want: []string{"EditClaim data-web-1 ClaimOwners"}, held: []string{"PodNotReady", "ClaimOwned"},
		},
		"a failed pod that is wanted again is not replaced while its claim would go with it": {
			replicas: 2, steps: []func(*simulation){storage("1Gi"), retention("Delete", "Retain"), running, condemned(1), fail(1)},
			want: []string{"EditClaim data-web-1 ClaimOwners"}, held: []string{"ClaimOwned"},
		},
		"a failed pod that is wanted again is not replaced in order while its claim would go with it": {
			replicas: 2, steps: []func(*simulation){ordered, storage("1Gi"), retention("Delete", "Retain"), running, condemned(1), fail(1)},
			want: []string{"EditClaim data-web-1 ClaimOwners"}, held: []string{"ClaimOwned"},
		},
		"a pod that its user wants replaced is not while its claim would go with it": {
			replicas: 2, steps: []func(*simulation){storage("1Gi"), retention("Delete", "Retain"), running, condemned(1), specified(1)},
			want: []string{"EditClaim data-web-1 ClaimOwners"}, held: []string{"ClaimOwned"},
		},
		"a pod whose claim goes with it is not replaced either while the gate is off": {
			replicas: 2, steps: []func(*simulation){storage("1Gi"), func(w *simulation) { w.o.AutoDeletePVC = false }, running, condemned(1), image("2")},
			want: []string{"EditClaim data-web-1 ClaimOwners"}, held: []string{"MaxUnavailable", "ClaimOwned"},
		},
		"a claim that is lost already does not keep its pod from being replaced": {
			replicas: 2, steps: []func(*simulation){storage("1Gi"), retention("Delete", "Retain"), running, condemned(1), fail(1),
				func(w *simulation) { w.Claim("data-web-1").DeletionTimestamp = ptr.To(metav1.NewTime(w.Time)) }},
			want: []string{"Delete web-1 Finished"},
		},
		"owners of claims are left alone while the gate is off": {
			replicas: 2, steps: []func(*simulation){storage("1Gi"), retention("Delete", "Delete"), func(w *simulation) { w.o.AutoDeletePVC = false }, running, replicas(1)},
			want: []string{"Delete web-1 ScaleIn"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, tc.replicas, tc.steps...)
			w.Pass()
			if diff := cmp.Diff(tc.want, w.ActionLines(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.held, w.HeldReasons(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("notes (-want +got):\n%s\n%s", diff, w.Log())
			}
		})
	}
}

// As many replicas as the field can hold must neither hang a pass nor fill the memory.
func TestPlanOfTooManyReplicas(t *testing.T) {
	for name, tc := range map[string]struct {
		policy appsv1.PodManagementPolicyType
		want   int
	}{
		"Parallel":     {appsv1.ParallelPodManagement, podset.MaxCreations},
		"OrderedReady": {appsv1.OrderedReadyPodManagement, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, math.MaxInt32, storage("1Gi"), func(w *simulation) { w.set.Spec.PodManagementPolicy = tc.policy })
			s := w.snapshot()
			if got := len(Plan(Parse(w.set, w.o), s).Actions); got != tc.want {
				t.Errorf("%d actions, want %d", got, tc.want)
			}
			pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}}}
			names := MissingPods(Parse(w.set, w.o), pods)
			if len(names) != podset.MaxCreations || names[0] != "web-0" || names[1] != "web-2" {
				t.Errorf("the claims of %d pods are read, beginning with %v", len(names), names[:2])
			}
		})
	}
}

// A webhook of others refused to change the owners of claims. The pods were never scaled away, and in order nothing else was done any more.
func TestASurplusPodIsDeletedAlthoughItsClaimsCannotBeGivenToIt(t *testing.T) {
	for name, options := range map[string][]func(*simulation){"at once": nil, "in order": {ordered}} {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 2, slices.Concat(options, []func(*simulation){storage("1Gi"), retention("Delete", "Retain"), running, replicas(1)})...)
			plan := func(refused string, failing time.Duration) string {
				s := w.snapshot()
				s.Retries = func(key planning.RetryKey) (planning.Retry, bool) {
					return planning.Retry{Wait: time.Second, Failing: failing}, key == planning.RetryKey{Step: podset.StepEditClaim, Namespace: "shop", Name: refused}
				}
				w.Plan = Plan(Parse(w.set, w.o), s)
				return strings.Join(w.ActionLines(), ", ")
			}
			const edit = "EditClaim data-web-1 ClaimOwners"
			if got := plan("data-web-1", 29*time.Second); got != edit || w.Plan.RecheckAfter != 0 {
				t.Errorf("while it waits: %s, recheck after %v", got, w.Plan.RecheckAfter)
			}
			for refused, what := range map[string]string{"data-web-1": "its own", "": "those of all pods"} {
				if got := plan(refused, 30*time.Second); got != edit+", Delete web-1 ScaleIn" {
					t.Errorf("%s, after 30 seconds: %s", what, got)
				}
				const says = "its volume claims cannot be given to it, and stay"
				if last := w.Plan.Actions[len(w.Plan.Actions)-1]; !strings.HasSuffix(last.Success.Message, says) {
					t.Errorf("%s: the event says %q", what, last.Success.Message)
				}
			}
			w.o.AutoResizePVC = true
			w.set.Spec.VolumeClaimUpdateStrategy.Type = appsv1beta1.OnPodRollingUpdateVolumeClaimUpdateStrategyType
			if got := plan("", 30*time.Second); got != edit {
				t.Errorf("where the others may be refused for their size: %s", got)
			}
		})
	}
}

// A pod whose deletion the server always refused used up maxUnavailable. The others waited for ever, also where there is no order among them.
func TestAPodWhoseDeletionIsRefusedLeavesItsPlaceToOthers(t *testing.T) {
	cases := map[string]struct {
		steps   []func(*simulation)
		refused string
		want    []string
	}{
		"asked for": {
			steps: []func(*simulation){running, specified(1, 3)}, refused: "web-3", want: []string{"Delete web-1 SpecifiedDelete", "Delete web-3 SpecifiedDelete"},
		},
		"an update in order waits": {
			steps: []func(*simulation){running, image("2")}, refused: "web-3", want: []string{"Delete web-3 Outdated"},
		},
		"an update in order waits for one that was asked for": {
			steps: []func(*simulation){running, specified(3), image("2")}, refused: "web-3", want: []string{"Delete web-3 SpecifiedDelete"},
		},
		"an update without order": {
			steps: []func(*simulation){unordered(nil), running, image("2")}, refused: "web-3", want: []string{"Delete web-2 Outdated", "Delete web-3 Outdated"},
		},
		"an update without order, and one that was asked for": {
			steps:   []func(*simulation){unordered(nil), running, specified(3), image("2")},
			refused: "web-3", want: []string{"Delete web-3 SpecifiedDelete", "Delete web-2 Outdated"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSimulation(t, 4, tc.steps...)
			s := w.snapshot()
			refused := planning.RetryKey{Step: podset.StepDelete, Namespace: "shop", Name: tc.refused}
			s.Retries = func(key planning.RetryKey) (planning.Retry, bool) {
				return planning.Retry{Wait: time.Hour}, key == refused
			}
			w.Plan = Plan(Parse(w.set, w.o), s)
			if diff := cmp.Diff(tc.want, w.ActionLines()); diff != "" {
				t.Error(diff)
			}
			if len(tc.want) > 1 && !w.Plan.Aside[refused] {
				t.Error("the refused one is tried")
			}
		})
	}
}
