// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package statefulset

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/podset"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// create plans the pod of an ordinal, with those of its claims that do not exist.
func (p *planner) create(o int) {
	rev := p.revisionFor(o)
	if rev.Name != p.s.Update.Name {
		p.old++
	}
	pod := p.newPod(o, rev)
	p.fixOwnersOf(slotOf(o), pod, false)
	p.pass.Create(slotOf(o), pod, p.missingClaims(pod.Name), reasonScaleOut)
}

// revisionFor is the revision at which a missing pod is created. The partition keeps the lowest ordinals at the current one;
// for an unordered update it keeps any pods, so a new one is needed at it only while there are too few.
func (p *planner) revisionFor(o int) revision.Revision {
	var old bool
	switch {
	case p.onDelete:
	case p.unordered:
		old = p.old < p.partition
	default:
		old = p.staysOld(o)
	}
	if old {
		return p.s.Current
	}
	return p.s.Update
}

// newPod is the pod of an ordinal as it is sent to the server.
func (p *planner) newPod(o int, rev revision.Revision) *corev1.Pod {
	pod := podtemplate.ForPod(rev.Template)
	podset.Equip(pod, p.set.Namespace, ordinal.PodName(p.set.Name, o), p.owner())
	pod.Spec.Hostname = pod.Name
	pod.Spec.Subdomain = p.set.Spec.ServiceName
	p.claims.Mount(&pod.Spec, pod.Name)

	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[shared.LabelControllerRevisionHash] = rev.Name
	pod.Labels[shared.LabelPodName] = pod.Name
	if p.o.PodIndexLabel {
		pod.Labels[shared.LabelPodIndex] = strconv.Itoa(o)
	}
	state := shared.StatePreparingNormal
	if p.normalAtOnce(pod) {
		state = shared.StateNormal
	}
	pod.Labels[shared.LabelLifecycleState] = string(state)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[shared.AnnotationLifecycleTimestamp] = p.s.Now.UTC().Format(time.RFC3339)
	return pod
}

// owner is the controller reference that pods carry.
func (p *planner) owner() metav1.OwnerReference {
	return *metav1.NewControllerRef(p.set, appsv1beta1.GroupVersion().WithKind("StatefulSet"))
}
