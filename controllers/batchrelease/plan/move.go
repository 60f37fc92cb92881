// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
)

// move is the next write towards so many pods of the new version. Nothing is done when they are there.
func (p *pass) move(desired int) Act {
	w := p.Workload
	switch {
	case p.Canary != nil:
		return p.Canary.move(desired)
	case w.Rolling != nil && p.beside():
		return beside(*w.Rolling, desired)
	case p.beside():
		return w.twins(desired)
	case w.Rolling != nil:
		return p.deployment(*w.Rolling, desired)
	case w.Partition != nil:
		return partition(w, desired)
	default:
		return daemonSet(w, desired)
	}
}

// hold is how long the end of a batch waits for the order of the next one, which has use for its surge.
const hold = 2 * time.Second

// deployment moves pods by package rolling. A paused Deployment that has what it should is left alone.
func (p *pass) deployment(v rolling.View, desired int) Act {
	status, batches := p.Status.CanaryStatus, p.release.Spec.ReleasePlan.Batches
	size, percent, err := rollable.Size(batches[status.CurrentBatch].CanaryReplicas)
	more := int(status.CurrentBatch) < len(batches)-1
	if at := status.BatchReadyTime; more && v.Moving && at != nil {
		if left := hold - p.Now.Sub(at.Time); left > 0 {
			p.After = left
			return Act{}
		}
	}
	v.Limit, v.Patient = desired, status.CurrentBatchState != v1beta1.BatchStateReady
	v.Last = !more && err == nil && percent && size >= 100
	step := rolling.Next(v)
	if step.Verb == rolling.Wait || step.Verb == rolling.Reached && !v.Moving && !v.Uncounting {
		return Act{}
	}
	return Act{Rolling: &step}
}

// partition lowers a partition, and never raises it. That of a workload without pods is for when there are pods again.
func partition(w *Workload, desired int) Act {
	next := max(0, w.Replicas-desired)
	if next >= w.Kept || w.Replicas == 0 {
		return Act{}
	}
	return Act{Partition: &next}
}

// Pod is a pod of a DaemonSet.
type Pod struct {
	Name string
	// Updated: it has the new version. Gone: it is being deleted.
	Updated, Gone bool
	// Pending: it has no node, or its containers have not started. Soon: it is ready, and not for long enough.
	Pending, Ready, Soon bool
	// Cost is its deletion cost, Created its age in any unit; a higher number is newer.
	Cost, Created int64
}

// daemonSet deletes old pods: the DaemonSet makes new ones. Pods that are not ready go besides the user's limit. Those that soon are count as
// unavailable, and wait while more pods than the limit are: otherwise all that have just become ready would go together.
func daemonSet(w *Workload, desired int) Act {
	var old []Pod
	updated, ready := 0, 0
	for _, pod := range w.Pods {
		switch {
		case pod.Gone:
		case pod.Updated:
			updated++
			ready += boolean(pod.Ready)
		default:
			old = append(old, pod)
			ready += boolean(pod.Ready)
		}
	}
	// A node without a pod gets a new one.
	missing := max(0, w.Replicas-updated-len(old))
	left, may := desired-updated-missing, ready-(w.Replicas-w.MaxUnavailable)
	slices.SortFunc(old, earlier)
	var act Act
	for _, pod := range old {
		if len(act.Delete) >= left || pod.Ready && may <= 0 || pod.Soon && may < 0 {
			break
		}
		may -= boolean(pod.Ready)
		act.Delete = append(act.Delete, pod.Name)
	}
	return act
}

// earlier: pending pods go first, then those that are not ready, those that soon are, those with a lower cost, the newer ones.
func earlier(a, b Pod) int {
	return cmp.Or(
		-cmp.Compare(boolean(a.Pending), boolean(b.Pending)), cmp.Compare(boolean(a.Ready), boolean(b.Ready)), cmp.Compare(boolean(a.Soon), boolean(b.Soon)),
		cmp.Compare(a.Cost, b.Cost), -cmp.Compare(a.Created, b.Created), cmp.Compare(a.Name, b.Name),
	)
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
