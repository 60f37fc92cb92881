// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/edit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/probing"
)

// provide notes how far the pods of a virtual node are, and gives them the marks of what their provider says. before are the markers that come before
// this one.
func (d *Decision) provide(spec *Spec, node *Node, before probing.Before, s Snapshot) {
	for i := range node.Pods {
		pod := node.Pods[i].Object
		if !s.Providers {
			d.virtual = append(d.virtual, pod.Name)
			continue
		}
		is := spec.Marker.Provided(pod, before)
		for _, fault := range is.Faults {
			d.faults = append(d.faults, fmt.Sprintf("pod %s, %s", pod.Name, fault))
		}
		if len(is.Unasked) > 0 {
			d.virtual = append(d.virtual, pod.Name)
		}
		d.await(pod, is.Waiting, s)
		d.mark(pod, probing.Changes(pod, is.Results, s.Now))
	}
}

// await notes probes of a pod of which its provider has said nothing yet.
func (d *Decision) await(pod *corev1.Pod, waiting []*corev1.Probe, s Snapshot) {
	silent := false
	for _, probe := range waiting {
		probe = probe.DeepCopy()
		probing.Default(probe)
		left := limit(probe) - s.Now.Sub(since(pod, s.Since))
		if left > 0 {
			d.Recheck(left)
		}
		silent = silent || left <= 0
		d.waiting++
	}
	if silent {
		d.silent = append(d.silent, pod.Name)
	}
}

// leave takes the marks of the marker off pods that it does not choose any more. Pods that are over keep theirs.
func (d *Decision) leave(spec *Spec, s Snapshot) {
	for _, pod := range s.Leaving {
		d.mark(pod, spec.Marker.Leaving(pod, s.Others))
	}
}

// mark writes to a pod, as far as one plan may.
func (d *Decision) mark(pod *corev1.Pod, change edit.Edit) {
	if change.IsZero() {
		return
	}
	d.marking = append(d.marking, pod.Name)
	d.Recheck(marking)
	if len(d.Actions) >= maxAsked {
		return
	}
	action := podset.EditPod(planning.Slot(pod.Name), pod, change, "ProbeResult")
	action.Step = StepMark
	action.Failure = planning.Event{Warning: true, Reason: "FailedUpdate", Message: "Marking pod " + pod.Name}
	d.Actions = append(d.Actions, action)
}
