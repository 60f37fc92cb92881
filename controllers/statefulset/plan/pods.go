// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/lifecycle"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Pods derives the facts about the pods of the set, in the order of their ordinals. Other names are
// left out. With an unreadable spec, no pod is unwanted. known is the last pass's knowledge; nil is
// none.
func Pods(spec *Spec, objects []*corev1.Pod, known *podset.AtRest, now time.Time) []podset.Pod {
	type member struct {
		ordinal int
		object  *corev1.Pod
	}
	members := make([]member, 0, len(objects))
	for _, object := range objects {
		if n, ok := ordinal.OfPod(spec.Set.Name, object.Name); ok {
			members = append(members, member{n, object})
		}
	}
	slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.ordinal, b.ordinal) })

	ordered := make([]*corev1.Pod, len(members))
	for i, m := range members {
		ordered[i] = m.object
	}
	return known.Observe(spec.Set.Generation, ordered, spec.FactRules(now), func(pod *corev1.Pod) podset.Identity {
		o, _ := ordinal.OfPod(spec.Set.Name, pod.Name)
		return podset.Identity{
			Slot: slotOf(o), Revision: pod.Labels[shared.LabelControllerRevisionHash], Unwanted: deletionReason(spec, o, pod),
		}
	})
}

func deletionReason(spec *Spec, o int, pod *corev1.Pod) podset.Unwanted {
	_, specified := pod.Labels[shared.LabelSpecifiedDelete]
	switch {
	case spec.Invalid != nil:
		return ""
	case !spec.Ordinals.Contains(o):
		return podset.UnwantedSurplus
	case podstate.Finished(pod):
		return podset.UnwantedFinished
	case specified:
		return podset.UnwantedSpecified
	}
	return ""
}

func slotOf(o int) planning.Slot { return planning.Slot(strconv.Itoa(o)) }

// slotOrdinal is the ordinal of a slot; -1 for a foreign one.
func slotOrdinal(slot planning.Slot) int {
	n, err := strconv.Atoi(string(slot))
	if err != nil {
		return -1
	}
	return n
}

// newPod is the pod of an ordinal as it is sent to the server.
func (p *planner) newPod(o int, rev revision.Revision) *corev1.Pod {
	pod := p.NewPod(ordinal.PodName(p.Set.Name, o), rev)
	pod.Spec.Hostname = pod.Name
	pod.Spec.Subdomain = p.Set.Spec.ServiceName
	p.draft.ClaimsAt(p.Claims, rev.Name).Mount(&pod.Spec, pod.Name)
	pod.Labels[shared.LabelPodName] = pod.Name
	if p.Options.PodIndexLabel {
		pod.Labels[shared.LabelPodIndex] = strconv.Itoa(o)
	}
	if p.s.Return != nil {
		p.s.Return(pod)
	}
	lifecycle.Begin(pod, lifecycle.PreNormalDone(&p.Lifecycle, pod), p.s.Now)
	if p.s.Spread != nil {
		p.s.Spread.PutOrdinal(pod, o, p.Selector)
	}
	return pod
}

// MissingPods yields the names of pods for a plan to create: the lowest ordinals without one.
// Claims of no others are read.
func MissingPods(spec *Spec, pods []*corev1.Pod) iter.Seq[string] {
	return func(yield func(string) bool) {
		exist := make(map[string]bool, len(pods))
		for _, pod := range pods {
			exist[pod.Name] = true
		}
		yielded, most := 0, spec.creations()
		for o := range spec.Ordinals.Iterate() {
			name := ordinal.PodName(spec.Set.Name, o)
			if exist[name] {
				continue
			}
			if yielded == most || !yield(name) {
				return
			}
			yielded++
		}
	}
}
