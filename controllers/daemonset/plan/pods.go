// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/nodefit"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
)

// schedulerName is the scheduler of pods bound by the operator: none of that name exists.
const schedulerName = "kubernetes.io/daemonset-controller"

// Pods derives the facts about the pods of the set, in the order of their names. known is the last
// pass's knowledge; nil is none.
func Pods(spec *Spec, objects []*corev1.Pod, known *podset.AtRest, now time.Time) []podset.Pod {
	return known.Observe(spec.Set.Generation, podset.ByName(objects), spec.FactRules(now), spec.identityOf)
}

func (s *Spec) identityOf(pod *corev1.Pod) podset.Identity {
	id := podset.Identity{Slot: planning.Slot(nodefit.NodeOf(pod)), Revision: podset.RevisionOf(s.Set.Name, pod)}
	if podstate.Finished(pod) && s.Invalid == nil {
		id.Unwanted = podset.UnwantedFinished
	}
	return id
}

// newPod is a pod of the update revision for a node, ready to send. The template is taken as
// written: the server fills in the rest. Pods of the plan share parts, see podtemplate.ForPod, and
// tolerations.
func (p *planner) newPod(node string) *corev1.Pod {
	pod := podtemplate.ForPod(p.s.Update.Template)
	gates := []corev1.PodConditionType{shared.GateKruisePodReady}
	if p.PodUpdatePolicy == shared.InPlaceIfPossible {
		gates = podset.UpdateGates()
	}
	name := p.s.PodName(node)
	podset.SetIdentity(pod, p.Namespace, name, p.Owner, gates...)
	pod.GenerateName = NamePrefix(p.Set.Name)
	pod.Labels[shared.LabelControllerRevisionHash] = p.s.Update.Hash()
	if p.tolerations == nil {
		p.tolerations = nodefit.Tolerations(pod.Spec.Tolerations, nodefit.DaemonTolerations(pod.Spec.HostNetwork)...)
	}
	pod.Spec.Tolerations = p.tolerations
	nodefit.Pin(&pod.Spec, node)
	if p.Options.AssignNodes {
		pod.Spec.NodeName, pod.Spec.SchedulerName = node, schedulerName
	}
	return pod
}

// LengthOfSuffix is how many characters of a pod's name are random.
const LengthOfSuffix = 5

// NamePrefix is how the names of a set's pods begin. With the random characters they have at most 63, as a host name may have.
func NamePrefix(set string) string {
	const longest = 63 - LengthOfSuffix
	prefix := set + "-"
	return prefix[:min(len(prefix), longest)]
}
