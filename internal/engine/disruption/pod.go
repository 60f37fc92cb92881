// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// Available is true if the pod counts: running and ready, not terminating, not labeled unavailable, and not in the middle of
// an update in place. The form of image IDs does not matter: only updates under way make it inconsistent.
func Available(pod *corev1.Pod, now time.Time) bool {
	if pod.DeletionTimestamp != nil || !podstate.RunningAndReady(pod) || unavailable(pod.Labels) {
		return false
	}
	if pod.Status.ObservedGeneration > 0 && pod.Status.ObservedGeneration < pod.Generation {
		return false
	}
	return !updating(inplace.Check(pod, inplace.Options{}, now)) && !sidecarsUpdating(pod, now)
}

func updating(s inplace.Status) bool { return s.Progress != inplace.None && s.Progress != inplace.Done }

// longestRecord and mostRecords limit what is read of a pod's SidecarSets: anybody can write it.
const (
	longestRecord = 32 << 10
	mostRecords   = 100
)

func sidecarsUpdating(pod *corev1.Pod, now time.Time) bool {
	var members map[string]json.RawMessage
	text := pod.Annotations[shared.AnnotationSidecarSetInPlaceState]
	if text == "" || len(text) > longestRecord || json.Unmarshal([]byte(text), &members) != nil || len(members) > mostRecords {
		return false
	}
	for member := range members {
		record := inplace.Record{State: shared.AnnotationSidecarSetInPlaceState, Evidence: shared.AnnotationSidecarSetInPlaceEvidence, Member: member}
		if updating(record.Check(pod, now)) {
			return true
		}
	}
	return false
}

func unavailable(labels map[string]string) bool { return marks(nil, labels) }

// marks is true if labels for unavailable pods are added.
func marks(before, after map[string]string) bool {
	for key := range after {
		if _, had := before[key]; !had && strings.HasPrefix(key, v1beta1.LabelUnavailablePrefix) {
			return true
		}
	}
	return false
}

// leaves is true if the pod is marked to be deleted by its workload.
func leaves(pod *corev1.Pod) bool {
	_, marked := pod.Labels[shared.LabelSpecifiedDelete]
	return marked || lifecycle.StateOf(pod) == shared.StatePreparingDelete
}

// Bypasses is true if the pod asks for no protection: by annotation, or by the label of last resort.
func Bypasses(pod *corev1.Pod) bool {
	if pod.Labels[podentry.BypassLabel] == podentry.BypassValue {
		return true
	}
	bypass, err := strconv.ParseBool(pod.Annotations[v1beta1.AnnotationNoProtect])
	return err == nil && bypass
}

// UpdateOf is the operation behind a change of a pod; empty: none that a budget is about.
func UpdateOf(before, after *corev1.Pod) v1beta1.PubOperation {
	switch {
	case marks(before.Labels, after.Labels):
		return v1beta1.PubUpdateOperation
	case equality.Semantic.DeepEqual(before.Spec, after.Spec):
		return ""
	case resizes(before, after):
		return v1beta1.PubResizeOperation
	}
	return v1beta1.PubUpdateOperation
}

// resizes is true if only CPU and memory change, and no container restarts for it.
func resizes(before, after *corev1.Pod) bool {
	if _, static := before.Annotations["kubernetes.io/config.source"]; static && before.Annotations["kubernetes.io/config.source"] != "api" {
		return false
	}
	if inplace.QOSClass(&before.Spec) != inplace.QOSClass(&after.Spec) {
		return false
	}
	was, is := before.Spec.DeepCopy(), after.Spec.DeepCopy()
	return resized(was.InitContainers, is.InitContainers) && resized(was.Containers, is.Containers) && equality.Semantic.DeepEqual(was, is)
}

// resized makes the CPU and memory of both lists equal; false: a container restarts, or they differ otherwise.
func resized(before, after []corev1.Container) bool {
	if len(before) != len(after) {
		return false
	}
	for i := range before {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			for _, lists := range [][2]*corev1.ResourceList{
				{&before[i].Resources.Requests, &after[i].Resources.Requests}, {&before[i].Resources.Limits, &after[i].Resources.Limits},
			} {
				was, is := (*lists[0])[name], (*lists[1])[name]
				if was.Cmp(is) != 0 && restartsFor(&before[i], name) {
					return false
				}
				delete(*lists[0], name)
				delete(*lists[1], name)
			}
		}
	}
	return true
}

func restartsFor(container *corev1.Container, name corev1.ResourceName) bool {
	for _, policy := range container.ResizePolicy {
		if policy.ResourceName == name && policy.RestartPolicy != "" && policy.RestartPolicy != corev1.NotRequired {
			return true
		}
	}
	return false
}

// OperationOf is what an action of a plan does to its pod; empty: nothing that a budget is about.
func OperationOf(a *planning.Action) v1beta1.PubOperation {
	pod := podset.PodOf(*a)
	if pod == nil {
		return ""
	}
	switch a.Verb {
	case planning.VerbDelete:
		return v1beta1.PubDeleteOperation
	case planning.VerbPatch:
		change, _ := a.Change.(edit.Edit)
		return editing(pod, change)
	}
	return ""
}

// editing is the operation of an edit: it takes the pod out of service, or changes its containers.
func editing(pod *corev1.Pod, e edit.Edit) v1beta1.PubOperation {
	switch {
	case len(e.Images) > 0, takesOut(e):
		return v1beta1.PubUpdateOperation
	case len(e.Resources) > 0:
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			if _, edited := e.Resources[c.Name]; edited && (restartsFor(c, corev1.ResourceCPU) || restartsFor(c, corev1.ResourceMemory)) {
				return v1beta1.PubUpdateOperation
			}
		}
		return v1beta1.PubResizeOperation
	}
	return ""
}

func takesOut(e edit.Edit) bool {
	for key, value := range e.Labels {
		if value != nil && strings.HasPrefix(key, v1beta1.LabelUnavailablePrefix) {
			return true
		}
	}
	for i := range e.Conditions {
		if c := &e.Conditions[i]; c.Status == corev1.ConditionFalse &&
			(c.Type == corev1.PodReady || c.Type == shared.GateInPlaceUpdateReady || c.Type == shared.GateKruisePodReady) {
			return true
		}
	}
	return false
}
