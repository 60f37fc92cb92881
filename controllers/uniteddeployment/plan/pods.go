// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/subset"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
)

// Pod is a pod of a subset, as it was observed. Read-only.
type Pod struct {
	*corev1.Pod
	// Unscheduled: it cannot be scheduled.
	Unscheduled bool
	Ready       bool
}

// subset is the name of its subset.
func (p *Pod) subset() string { return p.Labels[shared.LabelSubsetName] }

// Pods are the read pods, without finished ones.
func Pods(read []corev1.Pod) []Pod {
	var all []Pod
	for i := range read {
		if pod := &read[i]; !podstate.Finished(pod) {
			unscheduled := pod.Status.Phase == corev1.PodPending && podstate.Unschedulable(pod)
			all = append(all, Pod{Pod: pod, Unscheduled: unscheduled, Ready: podstate.RunningAndReady(pod)})
		}
	}
	return all
}

// ownPods says whether a pod belongs to one of the workloads: pods of another UnitedDeployment may
// have the same labels. A pod of a Deployment belongs to a ReplicaSet with the Deployment's name
// and a hash.
func ownPods(children []Child) func(*corev1.Pod) bool {
	uids, names := map[types.UID]bool{}, map[string]bool{}
	for i := range children {
		uids[children[i].Object.GetUID()] = true
		if children[i].Adapter.Kind.Kind == "Deployment" {
			names[children[i].Object.GetName()] = true
		}
	}
	return func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil {
			return true // It has lost its owner, and counts until the workload has another one in its place.
		}
		if owner.Kind == "ReplicaSet" {
			dash := strings.LastIndex(owner.Name, "-")
			return dash > 0 && names[owner.Name[:dash]]
		}
		return uids[owner.UID]
	}
}

// troubleOf is why pods of a silent workload will hardly get ready by themselves; empty when
// unknown. noRoom: they find no node.
func (r *report) troubleOf(child *Child) (trouble string, noRoom bool) {
	if !child.Lacks {
		return "", false
	}
	never := func() time.Time { return time.Time{} } // these kinds change no containers in place
	var first podstate.Trouble
	var names []string
	for _, pod := range r.d.pods[child.Subset] {
		if pod.Ready {
			continue
		}
		t := podstate.TroubleOf(pod.Pod, never, r.s.Now)
		if !t.Lasting || len(names) > 0 && t.Message != first.Message {
			continue
		}
		first, names = t, append(names, pod.Name)
	}
	if len(names) == 0 {
		return "", false
	}
	slices.Sort(names)
	return podset.List(names) + ": " + first.Message, first.Reason == appsv1beta1.ReasonUnschedulable
}

// Needed is the part of pods for a plan.
type Needed string

const (
	// NoPods are needed: the workloads' status is enough.
	NoPods Needed = "None"
	// PendingPods are needed: some may find no node.
	PendingPods Needed = "Pending"
	// AllPods are needed.
	AllPods Needed = "All"
)

// PodsNeeded says which pods the plan needs, from the workloads' status.
func PodsNeeded(spec *united.Spec, children []Child) Needed {
	if spec.Deleting || spec.Invalid != nil {
		return NoPods
	}
	if spec.Mode == subset.Reserve {
		return AllPods
	}
	needed := NoPods
	for i := range children {
		c := &children[i]
		switch {
		case c.Terminating:
		case mayBeStuck(c), c.Lacks:
			return AllPods
		case spec.Mode == subset.Reschedule && c.Ready < c.Size:
			needed = PendingPods
		}
	}
	return needed
}

// mayBeStuck: an update of a workload waits for pods, perhaps for unready ones of the earlier
// revision. A workload with updates on deletion waits for its user.
func mayBeStuck(c *Child) bool {
	return c.Adapter.Stuck && c.Observed && c.Ready < c.Replicas && c.Updated < c.Size-c.Adapter.PartitionOf(c.Object) &&
		!c.Adapter.UpdatesOnDelete(c.spec())
}
