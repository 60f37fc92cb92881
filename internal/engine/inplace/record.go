// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// run is one update of one pod, as its annotations tell it.
type run struct {
	shared.InPlaceUpdateState
	// evidence is our note beside the state; empty for another manager's update.
	evidence shared.InPlaceEvidence
}

// readRun returns the update in the pod's annotations; found: there was one. Unreadable evidence,
// or another revision's, counts as absent: the update is then judged like another manager's.
func readRun(pod *corev1.Pod) (r run, found bool, err error) {
	raw, found := lookup(pod, shared.AnnotationInPlaceState, shared.AnnotationInPlaceStateLegacy)
	if !found {
		return run{}, false, nil
	}
	r, err = decodeRun([]byte(raw), []byte(pod.Annotations[shared.AnnotationInPlaceEvidence]))
	if err != nil {
		return run{}, true, fmt.Errorf("decoding annotation %s: %w", shared.AnnotationInPlaceState, err)
	}
	return r, true, nil
}

// decodeRun decodes an update from its state and its evidence.
func decodeRun(state, evidence []byte) (r run, err error) {
	if err := quantity.Unmarshal(state, &r.InPlaceUpdateState); err != nil {
		return run{}, err
	}
	var noted shared.InPlaceEvidence
	if json.Unmarshal(evidence, &noted) == nil && noted.Revision == r.Revision {
		r.evidence = noted
	}
	return r, nil
}

// write adds the annotations to the first Edit of a batch. The evidence holds the generation of
// this very Edit.
func (r run) write(e *edit.Edit, pod *corev1.Pod) {
	state, evidence := r.encode(pod.Generation, e.Generation(pod))
	e.SetAnnotation(shared.AnnotationInPlaceState, string(state))
	remove(e, pod, shared.AnnotationInPlaceStateLegacy)
	if evidence == nil {
		remove(e, pod, shared.AnnotationInPlaceEvidence)
		return
	}
	e.SetAnnotation(shared.AnnotationInPlaceEvidence, string(evidence))
}

// encode returns the update as its state and its evidence, given the pod's generations before and
// after the batch's first edit. Without anything to prove there is no evidence. Both always marshal.
func (r run) encode(before, after int64) (state, evidence []byte) {
	state, _ = json.Marshal(r.InPlaceUpdateState)
	if after == before && len(r.evidence.Containers) == 0 {
		return state, nil
	}
	r.evidence.Revision, r.evidence.Generation = r.Revision, after
	evidence, _ = json.Marshal(r.evidence)
	return state, evidence
}

// pending is the change for later batches.
func (r run) pending() change {
	return change{images: r.NextContainerImages, refs: r.NextContainerRefMetadata, resources: r.NextContainerResources}
}

// graceEdit is an edit in its grace period.
type graceEdit struct {
	shared.InPlaceUpdateGrace
	metadata edit.Edit
}

func (g *graceEdit) change() change {
	return change{images: g.ContainerImages, refs: g.ContainerRefMetadata, resources: g.ContainerResources}
}

// readGrace returns the edit in its grace period; found: there is one. An empty value is a reverted
// edit: found, and nil.
func readGrace(pod *corev1.Pod) (grace *graceEdit, found bool, err error) {
	raw, found := lookup(pod, shared.AnnotationInPlaceGrace, shared.AnnotationInPlaceGraceLegacy)
	if !found || raw == "" {
		return nil, found, nil
	}
	grace = &graceEdit{}
	if err := quantity.Unmarshal([]byte(raw), &grace.InPlaceUpdateGrace); err != nil {
		return nil, true, fmt.Errorf("reading annotation %s: %w", shared.AnnotationInPlaceGrace, err)
	}
	if grace.metadata, err = decodeMetadata(grace.MetaDataPatch); err != nil {
		return nil, true, fmt.Errorf("reading the metadata in annotation %s: %w", shared.AnnotationInPlaceGrace, err)
	}
	return grace, true, nil
}

// dropGrace removes the edit in its grace period. Presence alone makes an update incomplete, so an
// empty value goes too.
func dropGrace(e *edit.Edit, pod *corev1.Pod) {
	remove(e, pod, shared.AnnotationInPlaceGrace)
	remove(e, pod, shared.AnnotationInPlaceGraceLegacy)
}

// longestDrain is how much longer than asked a grace period may last.
const longestDrain = 10 * time.Second

// graceLeft is the rest of the grace period: the time asked for and, if the pod is Ready in spite
// of its gate, up to longestDrain more. The kubelet may write Ready=True back with a status of its
// own, under way as ours arrived. Until it notices, in a second or two, the pod still gets
// requests, and its containers should not change under them. Any event of the pod ends the wait;
// the recheck is there for the limit. Without a grace period nothing waits.
func graceLeft(pod *corev1.Pod, grace *graceEdit, now time.Time) time.Duration {
	r, _, _ := readRun(pod)
	begun := r.UpdateTimestamp.Time
	if condition := podstate.Condition(pod, shared.GateInPlaceUpdateReady); begun.IsZero() && condition != nil {
		begun = condition.LastTransitionTime.Time
	}
	over := begun.Add(time.Duration(grace.GraceSeconds) * time.Second)
	gate := podstate.Condition(pod, shared.GateInPlaceUpdateReady)
	if grace.GraceSeconds > 0 && podstate.HasGate(pod, shared.GateInPlaceUpdateReady) && gate != nil && gate.Status == corev1.ConditionFalse && podstate.Ready(pod) {
		over = over.Add(longestDrain)
	}
	return max(over.Sub(now), 0)
}

// atRest says that no update can be under way, from labels, conditions and the text of annotations
// alone: a pass over thousands of pods must not parse JSON.
//
// An update out of service is over once InPlaceUpdateReady is True. One in service (no gate, or a
// resize without restart) is over once the lifecycle label says so; a pod with neither needs a
// look.
func atRest(pod *corev1.Pod) bool {
	state, found := lookup(pod, shared.AnnotationInPlaceState, shared.AnnotationInPlaceStateLegacy)
	if _, waits := lookup(pod, shared.AnnotationInPlaceGrace, shared.AnnotationInPlaceGraceLegacy); waits {
		return false
	}
	label := lifecycle.StateOf(pod)
	condition := podstate.Condition(pod, shared.GateInPlaceUpdateReady)
	switch {
	case label == shared.StateUpdating, condition != nil && condition.Status != corev1.ConditionTrue:
		return false
	case !found:
		return true
	case strings.Contains(state, `"nextContainer`):
		return false
	case condition != nil && !strings.Contains(state, `"updateResources":true`):
		return true
	}
	return label != ""
}

func lookup(pod *corev1.Pod, keys ...string) (value string, found bool) {
	for _, key := range keys {
		if value, found = pod.Annotations[key]; found {
			return value, true
		}
	}
	return "", false
}

func remove(e *edit.Edit, pod *corev1.Pod, annotation string) {
	if _, ok := pod.Annotations[annotation]; ok {
		e.RemoveAnnotation(annotation)
	}
}
