// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
)

const (
	// managerAnnotation remembers, on the operator's Deployment, what was there before spec.manager changed it.
	managerAnnotation = "operator.kruise.io/manager-settings"
	// managerContainer is the container that spec.manager.resources is about.
	managerContainer = "manager"
)

// placement is the part of the pod template that spec.manager can change.
type placement struct {
	Resources         corev1.ResourceRequirements `json:"resources"`
	NodeSelector      map[string]string           `json:"nodeSelector,omitempty"`
	Tolerations       []corev1.Toleration         `json:"tolerations,omitempty"`
	Affinity          *corev1.Affinity            `json:"affinity,omitempty"`
	PriorityClassName string                      `json:"priorityClassName,omitempty"`
}

// managerNote is what managerAnnotation holds.
type managerNote struct {
	// Before is what the Deployment had; Set is what it was changed to.
	Before placement `json:"before"`
	Set    placement `json:"set"`
}

// before is what the Deployment would have without the settings: of what it was changed to, what was there before; of what somebody has changed
// since, that.
func (n managerNote) before(have placement) placement {
	same := equality.Semantic.DeepEqual
	if same(n.Set.Resources, have.Resources) {
		have.Resources = n.Before.Resources
	}
	if same(n.Set.Tolerations, have.Tolerations) {
		have.Tolerations = n.Before.Tolerations
	}
	if same(n.Set.Affinity, have.Affinity) {
		have.Affinity = n.Before.Affinity
	}
	if n.Set.PriorityClassName == have.PriorityClassName {
		have.PriorityClassName = n.Before.PriorityClassName
	}
	var selector map[string]string // which others may change key by key
	for key, value := range have.NodeSelector {
		if set, is := n.Set.NodeSelector[key]; is && set == value {
			if value, is = n.Before.NodeSelector[key]; !is {
				continue
			}
		}
		if selector == nil {
			selector = map[string]string{}
		}
		selector[key] = value
	}
	have.NodeSelector = selector
	return have
}

// settleManager makes the Deployment have what the settings say, and what it had before where they say nothing. Nil settings put
// everything back. What somebody changed since, by an upgrade for example, is what it has had before.
func settleManager(deployment *appsv1.Deployment, settings *operatorv1alpha1.ManagerSettings) (changed bool, err error) {
	template := &deployment.Spec.Template.Spec
	at := slices.IndexFunc(template.Containers, func(c corev1.Container) bool { return c.Name == managerContainer })
	if at < 0 {
		return false, fmt.Errorf("the Deployment %s has no container %s", deployment.Name, managerContainer)
	}
	have := placement{
		Resources: template.Containers[at].Resources, NodeSelector: template.NodeSelector, Tolerations: template.Tolerations,
		Affinity: template.Affinity, PriorityClassName: template.PriorityClassName,
	}
	before := have
	text, noted := deployment.Annotations[managerAnnotation]
	if noted {
		note := managerNote{}
		if err := json.Unmarshal([]byte(text), &note); err != nil {
			return false, fmt.Errorf("reading the annotation %s of the Deployment %s: %w", managerAnnotation, deployment.Name, err)
		}
		before = note.before(have)
	} else if settings == nil {
		return false, nil
	}
	want := overlay(before, settings)
	template.Containers[at].Resources, template.NodeSelector, template.Tolerations = want.Resources, want.NodeSelector, want.Tolerations
	template.Affinity, template.PriorityClassName = want.Affinity, want.PriorityClassName
	if settings == nil {
		delete(deployment.Annotations, managerAnnotation)
		return true, nil
	}
	next, err := json.Marshal(managerNote{Before: before, Set: want})
	if err != nil {
		return false, fmt.Errorf("noting what the Deployment had: %w", err)
	}
	if deployment.Annotations == nil {
		deployment.Annotations = map[string]string{}
	}
	deployment.Annotations[managerAnnotation] = string(next)
	return text != string(next) || !equality.Semantic.DeepEqual(have, want), nil
}

func overlay(p placement, settings *operatorv1alpha1.ManagerSettings) placement {
	if settings == nil {
		return p
	}
	if settings.Resources != nil {
		p.Resources = *settings.Resources
	}
	if len(settings.NodeSelector) > 0 {
		p.NodeSelector = maps.Clone(p.NodeSelector)
		if p.NodeSelector == nil {
			p.NodeSelector = map[string]string{}
		}
		maps.Copy(p.NodeSelector, settings.NodeSelector)
	}
	if settings.Tolerations != nil {
		p.Tolerations = settings.Tolerations
	}
	if settings.Affinity != nil {
		p.Affinity = settings.Affinity
	}
	if settings.PriorityClassName != "" {
		p.PriorityClassName = settings.PriorityClassName
	}
	return p
}

// settle writes the settings to the operator's Deployment. Its pods are then replaced, one after the other, as at an upgrade.
func (o *Operands) settle(ctx context.Context, deployment *appsv1.Deployment, settings *operatorv1alpha1.ManagerSettings) error {
	next := deployment.DeepCopy()
	changed, err := settleManager(next, settings)
	if err != nil || !changed {
		return err
	}
	patch := client.StrategicMergeFrom(deployment, client.MergeFromWithOptimisticLock{})
	if err := o.Client.Patch(ctx, next, patch, client.FieldOwner(shared.FieldManager)); err != nil {
		return fmt.Errorf("changing the operator's own Deployment: %w", err)
	}
	return nil
}
