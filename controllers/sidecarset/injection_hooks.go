// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

// hookOf registers a set by webhook, and by policy alone once that is in force.
func (i *Injection) hookOf(set *injectedSet) *hooks.Hook {
	hook, binding := i.webhookOf(set), objectOf(sidecar.Binding(set.name, set.parsed.Match, set.revision, i.options.Namespace, set.owner))
	switch {
	case set.held:
		hook.Hold, hook.Bindings = true, []*unstructured.Unstructured{binding}
	case i.byPolicy(set):
		hook.Policy, hook.Bindings, hook.Beside = sidecar.PolicyName, []*unstructured.Unstructured{binding}, !i.knownOf(set).byPolicy
	}
	return hook
}

// webhookOf is how a set is registered by its webhook.
func (i *Injection) webhookOf(set *injectedSet) *hooks.Hook {
	match := set.parsed.Match
	return &hooks.Hook{
		Name: sidecar.EntryName(set.name), UID: set.owner.UID, Version: set.shown, Order: hooks.Inject, Mutates: true, Again: true,
		Resource: corev1.SchemeGroupVersion.WithResource("pods"), Verbs: []admissionv1.OperationType{admissionv1.Create},
		NamespaceSelector: podentry.Selector(match.Namespace), ObjectSelector: podentry.Selector(match.Labels),
		Also: []admissionv1.RuleWithOperations{sidecar.ProbeRule()}, Conditions: []admissionv1.MatchCondition{sidecar.PodsAndProbes()},
		Path: sidecar.InjectPath + set.revision, OnFailure: set.onFailure, Params: []*unstructured.Unstructured{revisionOf(set, i.options.Namespace)},
	}
}

// revisionOf is the revision with the set's injection.
func revisionOf(set *injectedSet, namespace string) *unstructured.Unstructured {
	object := objectOf(&appsv1.ControllerRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set.revision, Labels: map[string]string{hooks.OwnLabel: set.name}},
	})
	data := map[string]any{}
	if json.Unmarshal(set.data, &data) == nil { // It was encoded here.
		object.Object["data"] = data
	}
	return object
}

// objectOf is a typed object without its type.
func objectOf(typed any) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return &unstructured.Unstructured{Object: map[string]any{}} // Not possible for these kinds.
	}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	return &unstructured.Unstructured{Object: content}
}

// Policy is the injecting policy with its anchor. It outlives
// the last set: API servers need a binding to notice the next.
func Policy(namespace string) (*hooks.Policy, error) {
	policy, err := sidecar.Policy(namespace)
	if err != nil {
		return nil, err
	}
	anchor := revisionOf(&injectedSet{name: sidecar.AnchorName, revision: sidecar.AnchorName, data: []byte("{}")}, namespace)
	return &hooks.Policy{
		Name: sidecar.PolicyName, Stays: true, Unexempted: true, Objects: []*unstructured.Unstructured{anchor, objectOf(policy), objectOf(sidecar.Anchor(namespace))},
	}, nil
}

const (
	// announceTimeout bounds how long a creation waits for injection. announceAgain is
	// the pause before registering again: another replica may have written meanwhile.
	announceTimeout = 3 * time.Second
	announceAgain   = time.Second
)

// Announcer registers a hook at once.
type Announcer interface {
	Announce(ctx context.Context, hook *hooks.Hook) error
}

// Announce registers a set before it is stored, and waits for all API servers.
// It returns the reason for doubt; nil: in force, or nothing to inject.
func (i *Injection) Announce(ctx context.Context, announcer Announcer, object *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	set, err := i.announced(ctx, object)
	if err != nil || set == nil {
		return err
	}
	hook := i.webhookOf(set)
	hook.Params[0].SetLabels(map[string]string{hooks.OwnLabel: sidecar.AnnouncedLabel})
	hook.Params[0].SetAnnotations(map[string]string{sidecar.AnnouncedAnnotation: string(object.GetUID())})
	for {
		if err := announcer.Announce(ctx, hook); err != nil {
			return err
		}
		turn, done := context.WithTimeout(ctx, announceAgain)
		err := i.options.Servers.Until(turn, set.calledBy)
		done()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("not every API server shows it yet: %w", err)
		}
	}
}

// announced returns the injection of a new set; nil: none, or the set exists and cannot be created.
func (i *Injection) announced(ctx context.Context, object *unstructured.Unstructured) (*injectedSet, error) {
	stored := &unstructured.UnstructuredList{}
	stored.SetGroupVersionKind(Kind().GroupVersion().WithKind(Kind().Kind + "List"))
	if err := i.options.Live.List(ctx, stored); err != nil {
		return nil, err
	}
	exists := slices.ContainsFunc(stored.Items, func(s unstructured.Unstructured) bool { return s.GetName() == object.GetName() })
	if exists || workload.Paused(object) {
		return nil, nil
	}
	sets, _, err := i.compile(ctx, append(stored.Items, *object))
	switch set := sets[object.GetName()]; {
	case err != nil || set == nil:
		return nil, err
	case set.injects():
		return set, nil
	default:
		return nil, set.fault
	}
}
