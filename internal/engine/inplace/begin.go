// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Move is the update of a pod from one revision to another: from the one of the pod's label to the one it shall have.
type Move struct {
	Pod      *corev1.Pod
	From, To revision.Revision
	// Difference is Compare of the two templates, the same for all pods of this move.
	Difference Difference
	// Grace is how long the pod is out of service before its containers change.
	Grace time.Duration
	// MarkUpdating makes the lifecycle state Updating. A pod in state Normal with changed metadata alone stays Normal and available.
	MarkUpdating bool
	Options      Options
	Now          time.Time
}

// Begin returns the first Edit of an update.
//
// When containers restart, the pod goes out of service first, if it has the gate
// InPlaceUpdateReady, and the edit of its spec waits for the grace period. Without a restart
// (metadata; resources, unless a resize policy restarts the container) the pod stays in service and
// nothing waits.
//
// Resources take a request of their own, and the next one may be refused. So such an update is
// recorded on the pod first, like one with a grace period, and the next pass sends its edit.
// Otherwise the pod could keep new resources under the old revision. A later move back to that
// revision, or to a third one with the same resources, would find no difference.
//
// The live pod is compared with the target, for all differences of the revisions and all unwritten
// parts of an earlier update. So a third revision in a grace period or between two batches loses no
// change. Containers without proof of their restart stay part of Check. If an annotation of the
// earlier update is not readable, all containers are compared.
//
// The error is about a move beyond edits, or a pod on its way to deletion.
func (m Move) Begin() (edit.Edit, error) {
	pod, from, to, difference, grace, o, now := m.Pod, m.From, m.To, m.Difference, m.Grace, m.Options, m.Now
	if !difference.InPlace {
		return edit.Edit{}, fmt.Errorf("pod %s cannot move to revision %s in place: %s", pod.Name, to.Name, difference.Reason)
	}
	if lifecycle.StateOf(pod) == shared.StatePreparingDelete {
		return edit.Edit{}, fmt.Errorf("pod %s cannot move to revision %s in place: it waits at its preDelete hook", pod.Name, to.Name)
	}
	earlier := readLeftover(pod, now)
	wanted, err := changeTo(pod, from.Template, to.Template, difference, earlier, o)
	if err != nil {
		return edit.Edit{}, fmt.Errorf("moving pod %s to revision %s in place: %w", pod.Name, to.Name, err)
	}
	update := newRun(to, earlier, len(difference.Resources) > 0, o, now)
	var e edit.Edit
	dropGrace(&e, pod)
	e.SetLabel(shared.LabelControllerRevisionHash, update.Revision)
	if _, ok := pod.Labels[shared.LabelPodTemplateHash]; ok {
		e.SetLabel(shared.LabelPodTemplateHash, to.Hash())
	}
	// An earlier try may have sent resources and died: nothing to write, but still to wait for.
	touches := !wanted.isZero() || earlier.unproven() || len(difference.Resources) > 0
	state := lifecycle.StateOf(pod)
	serves := lifecycle.IsNormal(state) || state == shared.StatePreparingNormal // no hook waits for a change of metadata
	if m.MarkUpdating && (touches || !serves) {
		e.Merge(lifecycle.To(pod, shared.StateUpdating, now))
	}
	restarts := wanted.restarts(pod)
	if restarts {
		e.Merge(outOfService(pod, now))
	}
	if !restarts {
		grace = 0
	}
	metadata := mergeMetadata(pod, from.Template, to.Template, earlier.metadata)
	wanted.leaveToBatches(metadata)
	if grace > 0 || len(wanted.resources) > 0 {
		update.putOff(&e, wanted, metadata, grace, now)
	} else {
		e.Merge(metadata)
		e.Merge(update.start(pod, wanted, now))
	}
	update.write(&e, pod)
	return e, nil
}

// newRun is the record of an update from now on, with the unproven rest of an earlier one.
func newRun(to revision.Revision, earlier leftover, resources bool, o Options, now time.Time) run {
	update := run{
		InPlaceUpdateState: shared.InPlaceUpdateState{
			Revision:              to.Name,
			UpdateTimestamp:       podstate.Time(now),
			LastContainerStatuses: earlier.statuses,
			UpdateEnvFromMetadata: earlier.env,
			UpdateResources:       earlier.resources || resources,
			UpdateImages:          len(earlier.statuses) > 0,
		},
		evidence: earlier.evidence,
	}
	if o.ShortHash {
		update.Revision = to.Hash()
	}
	return update
}

// leaveToBatches leaves metadata to the batches of its readers.
func (c change) leaveToBatches(metadata edit.Edit) {
	for _, meta := range c.refs {
		maps.DeleteFunc(metadata.Labels, func(key string, _ *string) bool { _, ok := meta.Labels[key]; return ok })
		maps.DeleteFunc(metadata.Annotations, func(key string, _ *string) bool { _, ok := meta.Annotations[key]; return ok })
	}
}

// putOff records the edits for the end of the grace period; without one, for the next pass.
func (r *run) putOff(e *edit.Edit, wanted change, metadata edit.Edit, grace time.Duration, now time.Time) {
	if grace > 0 {
		// The server keeps whole seconds. Rounding up makes the period too long by a part of one, never too short.
		r.UpdateTimestamp = podstate.Time(now.Add(time.Second - time.Nanosecond))
	}
	value, _ := json.Marshal(shared.InPlaceUpdateGrace{ // it always marshals
		Revision:              r.Revision,
		ContainerImages:       wanted.images,
		ContainerRefMetadata:  wanted.refs,
		ContainerResources:    wanted.resources,
		MetaDataPatch:         encodeMetadata(metadata),
		UpdateEnvFromMetadata: len(wanted.refs) > 0,
		GraceSeconds:          int32(grace.Round(time.Second).Seconds()),
	})
	e.SetAnnotation(shared.AnnotationInPlaceGrace, string(value))
}

// outOfService makes InPlaceUpdateReady False, and Ready with it. It is written even if the pod
// seems to have it: the view may be older than the last update's True.
func outOfService(pod *corev1.Pod, now time.Time) edit.Edit {
	var e edit.Edit
	if !podstate.HasGate(pod, shared.GateInPlaceUpdateReady) {
		return e
	}
	condition := gate(pod, corev1.ConditionFalse, now)
	condition.Reason = shared.ReasonStartInPlaceUpdate
	e.SetCondition(condition)
	if ready := podstate.OutOfService(pod, e.Conditions, now); ready != nil {
		e.SetCondition(*ready)
	}
	return e
}

// gate is the condition of the readiness gate with a status, since when it has that.
func gate(pod *corev1.Pod, status corev1.ConditionStatus, now time.Time) corev1.PodCondition {
	condition := corev1.PodCondition{Type: shared.GateInPlaceUpdateReady, Status: status, LastTransitionTime: podstate.Time(now)}
	if old := podstate.Condition(pod, condition.Type); old != nil && old.Status == status && !old.LastTransitionTime.IsZero() {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	return condition
}

// leftover is the unfinished part of an earlier update.
type leftover struct {
	// pending and metadata were decided and not written yet.
	pending  change
	metadata edit.Edit
	// unknown: an annotation is not readable, so anything may be pending.
	unknown bool
	// statuses and evidence are of containers without proof of a restart.
	statuses map[string]shared.InPlaceContainerStatus
	evidence shared.InPlaceEvidence
	// env and resources: changed variables or resources are not proven.
	env, resources bool
}

func (l leftover) unproven() bool {
	return len(l.statuses) > 0 || l.env || l.resources
}

func readLeftover(pod *corev1.Pod, now time.Time) leftover {
	var l leftover
	if atRest(pod) {
		return l
	}
	earlier, _, err := readRun(pod)
	l.unknown = err != nil
	l.pending = earlier.pending()
	if grace, _, err := readGrace(pod); err != nil {
		l.unknown = true
	} else if grace != nil {
		l.pending, l.metadata = grace.change(), grace.metadata
	}
	l.metadata.Merge(change{refs: l.pending.refs}.edit())

	l.evidence.Generation = earlier.evidence.Generation
	report := readReport(pod)
	earlier.copyUnproven(pod, report, now, &l.statuses, &l.evidence)
	l.env = earlier.UpdateEnvFromMetadata && len(earlier.staleEnvironment(pod, report, now)) > 0
	l.resources = earlier.UpdateResources && (!earlier.observed(pod) || !resized(pod))
	return l
}

// changeTo turns the pod's containers into the target's.
func changeTo(pod *corev1.Pod, from, to *corev1.PodTemplateSpec, difference Difference, earlier leftover, o Options) (change, error) {
	var c change
	for i := range to.Spec.Containers {
		after, before := &to.Spec.Containers[i], &from.Spec.Containers[i]
		if containerOf(pod.Spec.Containers, after.Name) == nil {
			return change{}, fmt.Errorf("the pod has no container %s", after.Name)
		}
		if _, waits := earlier.pending.images[after.Name]; waits || earlier.unknown || before.Image != after.Image {
			lazy.Put(&c.images, after.Name, after.Image)
		}
		waiting, waits := earlier.pending.resources[after.Name]
		if _, differ := difference.Resources[after.Name]; !differ && !waits && !earlier.unknown {
			continue
		}
		was, is := withRequests(before.Resources), withRequests(after.Resources)
		quantities := corev1.ResourceRequirements{
			Limits:   changedQuantities(was.Limits, is.Limits, waiting.Limits, earlier.unknown && o.Resources),
			Requests: changedQuantities(was.Requests, is.Requests, waiting.Requests, earlier.unknown && o.Resources),
		}
		if len(quantities.Limits)+len(quantities.Requests) > 0 {
			lazy.Put(&c.resources, after.Name, quantities)
		}
	}
	if o.EnvFromMetadata {
		keys := changedKeys(from, to)
		for _, meta := range earlier.pending.refs {
			keepKeys(keys.labels, to.Labels, meta.Labels)
			keepKeys(keys.annotations, to.Annotations, meta.Annotations)
		}
		for name, reads := range referencesOf(pod.Spec.Containers, keys) {
			lazy.Put(&c.refs, name, reads.meta())
		}
	}
	return c.against(pod), nil
}

// changedQuantities are cpu and memory of the target with a difference or a pending write, or, with
// all, all.
func changedQuantities(before, after, waiting corev1.ResourceList, all bool) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, quantity := range after {
		was := before[name]
		if _, waits := waiting[name]; resizable(name) && (all || waits || was.Cmp(quantity) != 0) {
			out[name] = quantity.DeepCopy()
		}
	}
	return out
}

func keepKeys(into, wanted, pending map[string]string) {
	for key := range pending {
		if value, ok := wanted[key]; ok {
			into[key] = value
		}
	}
}
