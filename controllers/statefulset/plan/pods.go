// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
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

// Pods derives the facts about the pods of the set, in the order of their names. Other names are
// left out. With an unreadable spec, no pod is unwanted. known is the last pass's knowledge; nil is
// none.
func Pods(spec *Spec, objects []*corev1.Pod, known *podset.AtRest, now time.Time) []podset.Pod {
	own := slices.DeleteFunc(podset.ByName(objects), func(pod *corev1.Pod) bool {
		_, is := ordinal.OfPod(spec.Set.Name, pod.Name)
		return !is
	})
	return known.Observe(spec.Set.Generation, own, spec.FactRules(now), spec.identityOf)
}

func (s *Spec) identityOf(pod *corev1.Pod) podset.Identity {
	o, _ := ordinal.OfPod(s.Set.Name, pod.Name)
	return podset.Identity{Slot: slotOf(o), Revision: pod.Labels[shared.LabelControllerRevisionHash], Unwanted: deletionReason(s, o, pod)}
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

// podOrdinal is the ordinal of a pod of Pods.
func podOrdinal(pod *podset.Pod) int {
	n, _ := strconv.Atoi(string(pod.Slot))
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

// MissingPods are the names of pods for a plan to create: the lowest ordinals without one.
// Claims of no others are read.
func MissingPods(spec *Spec, pods []*corev1.Pod) (missing []string) {
	exist := make(map[string]bool, len(pods))
	for _, pod := range pods {
		exist[pod.Name] = true
	}
	most := spec.creations()
	for o := range spec.Ordinals.Iterate() {
		if len(missing) == most {
			break
		}
		if name := ordinal.PodName(spec.Set.Name, o); !exist[name] {
			missing = append(missing, name)
		}
	}
	return missing
}
