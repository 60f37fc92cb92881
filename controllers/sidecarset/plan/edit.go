// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
)

// update is the one edit for the images of the spec, with the pod's record of the set, the
// set's annotations and, if missing, SidecarSetUpgradable. The error names the obstacle.
func (p *planner) update(pod *Pod) (edit.Edit, error) {
	object, name := pod.Object, p.Set.Name
	images := map[string]string{}
	var marks edit.Edit
	version := nextVersion(object, pod.pairs, p.Set.ResourceVersion)
	for i := range p.Containers {
		if c := &p.Containers[i]; !c.Hot {
			images[c.Name] = c.Image
		}
	}
	proven := func(container string) bool { return !pod.recorded.Unproven(object, container, p.s.Now) }
	for i := range pod.pairs {
		pod.pairs[i].upgrade(object, proven, version, images, &marks)
	}
	e := p.record().Begin(object, p.Hashes.Hash, images, p.s.Now)
	e.Merge(marks)
	entry := shared.SidecarSetUpgrade{
		UpdateTimestamp: podstate.Time(p.s.Now), SidecarSetHash: p.Hashes.Hash, SidecarSetName: name, SidecarList: p.List,
		ControllerRevision: p.s.Update.Name,
	}
	if err := setEntry(&e, object, shared.AnnotationSidecarSetHash, name, entry); err != nil {
		return edit.Edit{}, err
	}
	if created, ok := p.toNote(pod); ok || sidecar.HasBareHash(object, shared.AnnotationSidecarSetHashWithoutImage, name) {
		entry.SidecarSetHash, entry.ControllerRevision = p.Hashes.WithoutImage, created
		if err := setEntry(&e, object, shared.AnnotationSidecarSetHashWithoutImage, name, entry); err != nil {
			return edit.Edit{}, err
		}
	}
	if err := patchMetadata(&e, object, p.Set.Spec.PatchPodMetadata); err != nil {
		return edit.Edit{}, err
	}
	if condition, ok := upgradable(object, name, true, p.s.Now); ok {
		e.SetCondition(condition)
	}
	e.Exact = true // other sets have entries in the same annotations
	return e, nil
}

// toNote returns the revision of the pod's creation if the pod keeps fields of it and does not say so yet.
func (p *planner) toNote(pod *Pod) (string, bool) {
	if pod.Keeps == "" {
		return "", false
	}
	created := p.createdAs(pod.Object)
	return created, created != sidecar.EntryOf(pod.Object, shared.AnnotationSidecarSetHashWithoutImage, p.Set.Name).ControllerRevision
}

// setEntry sets one set's entry in an annotation. Old plain entries become objects.
func setEntry(e *edit.Edit, pod *corev1.Pod, key, set string, entry any) error {
	all := sidecar.EntriesOf(pod, key)
	text, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("encoding annotation %s: %w", key, err)
	}
	all[set] = text
	value, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encoding annotation %s: %w", key, err)
	}
	e.SetAnnotation(key, string(value))
	return nil
}

// patchMetadata adds the set's annotations, in order.
func patchMetadata(e *edit.Edit, pod *corev1.Pod, patches []appsv1beta1.SidecarSetPatchPodMetadata) error {
	for _, patch := range patches {
		for key, wanted := range patch.Annotations {
			if sidecar.OwnAnnotation(key) {
				continue
			}
			is, has := pod.Annotations[key]
			if edited := e.Annotations[key]; edited != nil {
				is, has = *edited, true
			}
			value, changes, err := sidecar.Patched(patch.PatchPolicy, is, has, wanted)
			if err != nil {
				return fmt.Errorf("annotation %s cannot be merged with that of spec.patchPodMetadata: %w", key, err)
			}
			if changes && (!has || is != value) {
				e.SetAnnotation(key, value)
			}
		}
	}
	return nil
}

// upgradable returns the pod's condition for the set; false: it is already there.
func upgradable(pod *corev1.Pod, set string, is bool, now time.Time) (corev1.PodCondition, bool) {
	condition, before := upgradableSets(pod)
	was, known := before[set]
	if known && was == is {
		return corev1.PodCondition{}, false
	}
	before[set] = is
	status, reason := corev1.ConditionTrue, shared.ReasonAllSidecarSetUpgradable
	for _, one := range before {
		if !one {
			status, reason = corev1.ConditionFalse, shared.ReasonUpdateImmutableField
		}
	}
	if condition.Status != status {
		condition.LastTransitionTime = podstate.Time(now)
	}
	condition.Status, condition.Reason = status, reason
	message, err := json.Marshal(before)
	if err != nil {
		return corev1.PodCondition{}, false // Names and booleans always marshal.
	}
	condition.Message = string(message)
	return condition, true
}

// upgradableSets are the pod's condition, and what it says of each set.
func upgradableSets(pod *corev1.Pod) (corev1.PodCondition, map[string]bool) {
	condition, is := corev1.PodCondition{Type: shared.SidecarSetUpgradable}, map[string]bool{}
	if old := podstate.Condition(pod, shared.SidecarSetUpgradable); old != nil {
		condition = *old
		if json.Unmarshal([]byte(old.Message), &is) != nil || is == nil {
			is = map[string]bool{}
		}
	}
	return condition, is
}

func saysNotUpgradable(pod *corev1.Pod, set string) bool {
	_, all := upgradableSets(pod)
	is, known := all[set]
	return known && !is
}

// Injected returns the sets recorded on a pod, sorted.
func Injected(pod *corev1.Pod) []string {
	names := podstate.Listed(pod.Annotations[shared.AnnotationSidecarSetInjectedList])
	slices.Sort(names)
	return slices.Compact(names)
}
