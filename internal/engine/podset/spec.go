// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podset

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
)

// Spec is the common part of all workloads' specs, parsed: defaults are filled in, and percentages are pods. A
// kind parses it once in a pass, embeds it in a Spec of its own, and passes it on. Comments name the fields of
// the API.
type Spec struct {
	// Namespace is the place of the workload and its pods, Owner the controller reference of pods.
	Namespace string
	Owner     metav1.OwnerReference
	// Deleting workloads have a deletion timestamp.
	Deleting bool
	// Invalid names the first unreadable field; nil without one. With it only Replicas, MinReady, Lifecycle and
	// metadata are of use.
	Invalid error
	// Ignored are the user's settings without effect: fields with their feature gate off, and unreadable
	// settings.
	Ignored conditions.Ignored

	// LabelSelector is spec.selector as it is written, Selector the same parsed. It is nil when it cannot be parsed or is empty: then no
	// object is adopted or released.
	LabelSelector *metav1.LabelSelector
	Selector      labels.Selector
	// Replicas is spec.replicas, 1 when omitted.
	Replicas int
	// MinReady is minReadySeconds: for how long a pod has to be ready to count as available.
	MinReady time.Duration
	// Lifecycle is spec.lifecycle.
	Lifecycle shared.Lifecycle

	// OnDelete is updateStrategy.type: pods move to the update revision only when their user deletes them.
	OnDelete bool
	// Paused is updateStrategy.rollingUpdate.paused: no pod begins to move.
	Paused bool
	// Partition is updateStrategy.rollingUpdate.partition: how many pods stay at the current revision.
	Partition int
	// KeepsOld: the partition asks for pods at the current revision, even if Partition is 0 for want of
	// replicas.
	KeepsOld bool
	// MaxUnavailable is updateStrategy.rollingUpdate.maxUnavailable.
	MaxUnavailable int
	// ScaleMaxUnavailable is scaleStrategy.maxUnavailable: how many unavailable pods stop the creation of more.
	ScaleMaxUnavailable int
	// PodUpdatePolicy is updateStrategy.rollingUpdate.podUpdatePolicy, ReCreate when omitted.
	PodUpdatePolicy shared.PodUpdatePolicy
	// PolicyField is the name of its field; empty: podUpdatePolicy.
	PolicyField string
	// NeedsGate replaces a pod without the readiness gate for updates in place: it is not to serve during its
	// change.
	NeedsGate bool
	// GracePeriod is updateStrategy.rollingUpdate.inPlaceUpdateStrategy.gracePeriodSeconds: for how long a pod stays out of service before
	// its containers change.
	GracePeriod time.Duration

	// InPlace are the allowed changes in place, by feature gates.
	InPlace inplace.Options

	// containers are the new pods', by the name of their revision.
	containers map[string][]corev1.Container
}

// ParseSelector sets both forms of the selector. It has to match the labels of the template: the workload would
// release each of its pods and create another one, for ever. The selector is set all the same, since existing
// pods may match.
func (s *Spec) ParseSelector(selector *metav1.LabelSelector, template *corev1.PodTemplateSpec) (err error) {
	s.LabelSelector = selector
	if s.Selector, err = Selector(selector); err != nil {
		return err
	}
	if !s.Selector.Matches(labels.Set(podtemplate.Labels(template))) {
		return fmt.Errorf("spec.template.metadata.labels: must match spec.selector, which is %s", s.Selector)
	}
	return nil
}

// SelectorText is the selector as the scale subresource says it; empty when it cannot be parsed.
func (s *Spec) SelectorText() string {
	if s.Selector == nil {
		return ""
	}
	return s.Selector.String()
}

// NewDraft returns an empty draft for the pods of a snapshot.
func (s *Spec) NewDraft(snapshot *Snapshot) *Draft { return &Draft{Snapshot: snapshot, spec: s} }

// FactRules are the rules for facts about the workload's pods.
func (s *Spec) FactRules(now time.Time) FactRules {
	return FactRules{Now: now, MinReady: s.MinReady, InPlace: s.InPlace}
}

// NewPod is a pod of the workload at a revision, ready but for the kind's own additions: named, owned, with the
// revision's name as its label, and with both of our readiness gates at the end of the template's. Labels and
// annotations are not nil. Pods of a revision share parts, see podtemplate.ForPod.
func (s *Spec) NewPod(name string, rev revision.Revision) *corev1.Pod {
	pod := podtemplate.ForPod(rev.Template)
	if _, known := s.containers[rev.Name]; !known {
		lazy.Put(&s.containers, rev.Name, podtemplate.AlwaysPulled(rev.Template.Spec.Containers))
	}
	pod.Spec.Containers = s.containers[rev.Name]
	SetIdentity(pod, s.Namespace, name, s.Owner, UpdateGates()...)
	pod.Labels[shared.LabelControllerRevisionHash] = rev.Name
	return pod
}
