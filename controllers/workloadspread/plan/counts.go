// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
)

const (
	// createTimeout is how long an admitted pod counts before it is seen.
	createTimeout = 30 * time.Second
	// recoverAfter is how long a subset without room on nodes gets no pods.
	recoverAfter = 5 * time.Minute
)

// count is step 2.
func (d *Decision) count(s *spread.Spread, before *appsv1beta1.WorkloadSpreadStatus, seen Snapshot) {
	d.versions = map[string][]appsv1beta1.WorkloadSpreadSubsetStatus{}
	known := map[string]bool{}
	all, creating := s.Statuses(nil), make([]int, len(s.Subsets))
	for i := range d.pods {
		p := &d.pods[i]
		known[p.Name] = true
		if mark, found := spread.MarkOf(p.Annotations); found && mark.UID != "" {
			known[mark.UID] = true
		}
		if !p.active {
			continue
		}
		subsets := s.Version(d.versions, p.version)
		if p.subset != spread.None {
			subsets[p.subset].Replicas++
			all[p.subset].Replicas++
		}
	}
	for version, stored := range before.VersionedSubsetStatuses {
		for _, status := range stored {
			i := s.Index(status.Name)
			for key, at := range status.CreatingPods {
				switch left := createTimeout - seen.Now.Sub(at.Time); {
				case i == spread.None || known[key]:
				case left <= 0:
					d.Events = append(d.Events, planning.Event{Warning: true, Reason: reasonCreate, Message: fmt.Sprintf(
						"Pod %s was admitted to subset %s, and was not created within %v", key, status.Name, createTimeout)})
				default:
					d.Recheck(left)
					lazy.Put(&s.Version(d.versions, version)[i].CreatingPods, key, at)
					creating[i]++
				}
			}
		}
	}
	for i := range all {
		all[i].MissingReplicas = s.Missing(i, seen.Replicas, int(all[i].Replicas)+creating[i])
	}
	for _, subsets := range d.versions {
		for i := range subsets {
			subsets[i].MissingReplicas = s.Missing(i, seen.Replicas, int(subsets[i].Replicas)+len(subsets[i].CreatingPods))
		}
	}
	d.subsets = all
}

// reschedule is step 3. It returns the pods to delete: their subset is shut already.
func (d *Decision) reschedule(s *spread.Spread, before *appsv1beta1.WorkloadSpreadStatus, seen Snapshot) map[string]bool {
	if s.Critical == 0 {
		return nil
	}
	wasShut := s.Shut(before.SubsetStatuses)
	pending := d.pendingTooLong(s, seen)
	leaving := map[string]bool{}
	for i := range s.Subsets {
		condition := schedulable(before, s.Subsets[i].Name, seen.Now)
		switch {
		case len(pending[i]) > 0 && !wasShut[i]:
			condition = turned(seen.Now, false)
		case len(pending[i]) > 0:
			for _, name := range pending[i] {
				leaving[name] = true
			}
		}
		if condition.Status == metav1.ConditionFalse {
			left := recoverAfter - seen.Now.Sub(condition.LastTransitionTime.Time)
			if left <= 0 && len(pending[i]) == 0 {
				condition = turned(seen.Now, true)
				d.Events = append(d.Events, planning.Event{Reason: reasonRecover, Message: "Subset " + s.Subsets[i].Name + " gets pods again"})
			}
			d.Recheck(left)
		}
		d.subsets[i].Conditions = []metav1.Condition{condition}
		for _, subsets := range d.versions {
			subsets[i].Conditions = []metav1.Condition{condition}
		}
	}
	return leaving
}

// pendingTooLong are the pods of each subset but the last that have found no node for too long.
func (d *Decision) pendingTooLong(s *spread.Spread, seen Snapshot) map[int][]string {
	pending := map[int][]string{}
	for i := range d.pods {
		p := &d.pods[i]
		if !p.active || p.subset == spread.None || p.subset == len(s.Subsets)-1 || p.Status.Phase != corev1.PodPending || !podstate.Unschedulable(p.Pod) {
			continue
		}
		if left := s.Critical - seen.Now.Sub(p.CreationTimestamp.Time); left > 0 {
			d.Recheck(left)
			continue
		}
		pending[p.subset] = append(pending[p.subset], p.Name)
	}
	return pending
}

// schedulable is a subset's stored condition, else a new one.
func schedulable(before *appsv1beta1.WorkloadSpreadStatus, subset string, now time.Time) metav1.Condition {
	for _, status := range before.SubsetStatuses {
		for _, c := range status.Conditions {
			if status.Name == subset && c.Type == appsv1beta1.SpreadSubsetSchedulable {
				return c
			}
		}
	}
	return turned(now, true)
}

func turned(now time.Time, is bool) metav1.Condition {
	c := metav1.Condition{
		Type: appsv1beta1.SpreadSubsetSchedulable, Status: metav1.ConditionTrue, Reason: appsv1beta1.ReasonSubsetSufficient, LastTransitionTime: podstate.Time(now),
	}
	if !is {
		c.Status, c.Reason = metav1.ConditionFalse, appsv1beta1.ReasonSubsetUnschedulable
	}
	return c
}
