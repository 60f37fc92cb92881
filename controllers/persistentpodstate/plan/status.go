// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/place"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Status is the status after a pass.
func Status(spec *Spec, s *Snapshot) appsv1beta1.PersistentPodStateStatus {
	before := spec.State.Status
	places, over := Places(spec, s)
	if len(places) == 0 {
		places = nil
	}
	list := conditions.NewList(conditions.From(before.Conditions), s.Now)
	list.Set(progressOf(spec, s, places, over).Conditions()...)
	return appsv1beta1.PersistentPodStateStatus{
		ObservedGeneration: spec.State.Generation, PodStates: places, Conditions: conditions.To[metav1.Condition](list),
	}
}

// Urgent statuses have other places: a pod deleted before the write would not return.
func Urgent(before, after *appsv1beta1.PersistentPodStateStatus) bool {
	return !equality.Semantic.DeepEqual(before.PodStates, after.PodStates)
}

// progressOf describes the state, the first true one:
//
//  1. the target is not supported, or cannot be read: stalled;
//  2. it is missing;
//  3. pods wait for their places: stalled;
//  4. places are gone, so that pods start elsewhere;
//  5. there are too many pods: stalled;
//  6. new pods do not return: stalled;
//  7. all is well.
func progressOf(spec *Spec, s *Snapshot, places map[string]appsv1beta1.PodState, over []string) podset.Progress {
	target := spec.State.Spec.TargetRef
	switch {
	case s.Target.Unsupported != "":
		return podset.Stalled(appsv1beta1.ReasonTargetUnsupported, s.Target.Unsupported)
	case s.Target.Missing:
		return podset.Progress{
			Reason: appsv1beta1.ReasonTargetNotFound, Message: fmt.Sprintf("%s %s does not exist, or is being deleted, so nothing is remembered.", target.Kind, target.Name),
		}
	}
	if waits := waiting(spec, s); len(waits) > 0 {
		return podset.Stalled(appsv1beta1.ReasonPlaceTaken, fmt.Sprintf(
			"No node with room has the labels that these pods need: %s. Make room there, or take the key out of spec.requiredPersistentTopology and delete the pod.", podset.List(waits)))
	}
	if gone := goneOf(spec, s, places); len(gone) > 0 {
		return podset.Progress{Reason: appsv1beta1.ReasonPlaceGone, Message: fmt.Sprintf("No node has these recorded labels any more, so new pods start without them: %s.", podset.List(gone))}
	}
	if len(over) > 0 {
		return podset.Stalled(appsv1beta1.ReasonTooManyPods, fmt.Sprintf("%d places are remembered at most; those of %d pods with the highest ordinals are not.", MaxStates, len(over)))
	}
	if s.NotSteered != "" {
		return podset.Stalled(appsv1beta1.ReasonNotSteered, "New pods start anywhere: "+s.NotSteered)
	}
	return podset.Progress{Reason: appsv1beta1.ReasonRemembering, Message: "Places of ready pods are recorded, and new pods return to them."}
}

// waiting names the pods held pending by this state, with their labels.
func waiting(spec *Spec, s *Snapshot) []string {
	if spec.State.Spec.RequiredPersistentTopology == nil {
		return nil
	}
	var waits []string
	for _, pod := range s.Pods {
		if !isActive(pod) || pod.Annotations[shared.AnnotationInjectedPersistentPodState] != spec.State.Name || !podstate.Unschedulable(pod) {
			continue
		}
		needs := map[string]string{}
		for _, key := range spec.State.Spec.RequiredPersistentTopology.Keys {
			if value, found := pod.Spec.NodeSelector[key]; found {
				needs[key] = value
			}
		}
		if len(needs) > 0 {
			waits = append(waits, pod.Name+" ("+labelsText(needs)+")")
		}
	}
	slices.Sort(waits)
	return waits
}

// goneOf names the places without a node.
func goneOf(spec *Spec, s *Snapshot, places map[string]appsv1beta1.PodState) []string {
	now := &appsv1beta1.PersistentPodState{Spec: spec.State.Spec, Status: appsv1beta1.PersistentPodStateStatus{PodStates: places}}
	var all []string
	for _, name := range slices.SortedFunc(maps.Keys(places), byOrdinal) {
		if _, gone := place.Required(now, name, s.Nodes); len(gone) > 0 {
			all = append(all, name+" ("+labelsText(gone)+")")
		}
	}
	return all
}

func labelsText(set labels.Set) string { return strings.ReplaceAll(set.String(), ",", ", ") }

// Events tell of pods that begin to wait for their places, and of places that go.
func Events(before, after *appsv1beta1.PersistentPodStateStatus) []planning.Event {
	told := map[string]bool{appsv1beta1.ReasonPlaceTaken: true, appsv1beta1.ReasonPlaceGone: true}
	now := conditions.From(after.Conditions)
	reconciling, found := conditions.Find(now, appsv1beta1.PersistentPodStateReconciling)
	if !found || !told[reconciling.Reason] || conditions.Contains(conditions.From(before.Conditions), reconciling) {
		return nil
	}
	return []planning.Event{{Warning: true, Reason: reconciling.Reason, Message: reconciling.Message}}
}
