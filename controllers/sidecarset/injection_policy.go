// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/sidecar"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies,verbs=create;patch,resourceNames=kruise-operator-sidecars
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicybindings,verbs=create;delete;list;patch

// afterFault is when the policy is tried again after the server has refused it.
const afterFault = time.Minute

func policyKind() schema.GroupVersionKind {
	return admissionv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy")
}

// policyState is what is known of the policy.
type policyState struct {
	// fault is why it could not be written, at that time.
	fault string
	at    time.Time
}

// policyServed says whether the API server knows policies that change objects.
func (i *Injection) policyServed() bool {
	_, err := i.options.Client.RESTMapper().RESTMapping(policyKind().GroupKind(), policyKind().Version)
	return err == nil
}

// policyAvailable says why policies cannot be used; empty when they can.
func (i *Injection) policyAvailable() string {
	switch {
	case !i.options.PreferPolicy:
		return "admission.mode is Webhook"
	case !i.policyServed():
		return "the API server does not serve MutatingAdmissionPolicy v1"
	case i.policy.fault != "" && i.options.Clock.Now().Sub(i.policy.at) < afterFault:
		return "the policy could not be written: " + i.policy.fault
	}
	return ""
}

// load reads, once in the life of the process, what another one has registered: a way that is open stays so until another is proven.
func (i *Injection) load(ctx context.Context) error {
	if i.loaded {
		return nil
	}
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	if err := i.options.Live.Get(ctx, client.ObjectKey{Name: sidecar.WebhookConfiguration}, configuration); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the webhook configuration on pods: %w", err)
	}
	registered := map[string]string{}
	for at := range configuration.Webhooks {
		entry := &configuration.Webhooks[at]
		registered[entry.Name] = "of another process"
		if slices.ContainsFunc(entry.MatchConditions, func(c admissionv1.MatchCondition) bool { return c.Name == sidecar.BeyondPolicy }) {
			registered[entry.Name] = narrowEntry + registered[entry.Name]
		}
	}
	bindings, err := i.readBindings(ctx)
	if err != nil {
		return err
	}
	sets, err := i.options.Sets(ctx)
	if err != nil {
		return fmt.Errorf("reading the SidecarSets: %w", err)
	}
	for at := range sets {
		name := sets[at].GetName()
		if entry := registered[sidecar.EntryName(name)]; entry != "" {
			i.entries[name] = entry
		}
		if bindings[sidecar.EntryName(name)] {
			i.bindings[name] = "of another process"
		}
	}
	i.loaded = true
	return nil
}

// readBindings are the names of the bindings of the policy.
func (i *Injection) readBindings(ctx context.Context) (map[string]bool, error) {
	names := map[string]bool{}
	if !i.policyServed() {
		return names, nil
	}
	list := &admissionv1.MutatingAdmissionPolicyBindingList{}
	if err := i.options.Live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("reading the bindings of the policy: %w", err)
	}
	for at := range list.Items {
		if list.Items[at].Spec.PolicyName == sidecar.PolicyName {
			names[list.Items[at].Name] = true
		}
	}
	return names, nil
}

// registerPolicy makes the policy have one binding for every set that wants one. What it cannot do, the webhook does meanwhile.
func (i *Injection) registerPolicy(ctx context.Context, seen *injectionState, owner metav1.OwnerReference) error {
	err := i.writeBindings(ctx, seen, owner)
	if err == nil {
		i.policy = policyState{}
		return i.removeBindings(ctx, seen)
	}
	if ctx.Err() != nil {
		return err
	}
	i.policy = policyState{fault: strings.TrimSpace(err.Error()), at: i.options.Clock.Now()}
	i.plan(seen)
	return nil
}

func (i *Injection) writeBindings(ctx context.Context, seen *injectionState, owner metav1.OwnerReference) error {
	written := !i.verified.IsZero() && len(i.bindings) > 0
	for _, one := range seen.sets {
		if !one.wantBinding || !i.verified.IsZero() && i.bindings[one.name] == one.binding() {
			continue
		}
		if !written {
			if err := i.writePolicy(ctx, owner); err != nil {
				return err
			}
			written = true
		}
		binding := sidecar.Binding(sidecar.Registration{Set: one.name, Match: one.set.Match, Revision: one.revision}, i.options.Namespace, one.owner)
		if err := i.apply(ctx, binding); err != nil {
			return one.errorf(err)
		}
		i.bindings[one.name] = one.binding()
	}
	return nil
}

// writePolicy writes the policy and its anchor, which both stay: an API server that has seen the last binding go would not notice the
// revisions of the next one.
func (i *Injection) writePolicy(ctx context.Context, owner metav1.OwnerReference) error {
	anchor := &injected{name: sidecar.AnchorName, revision: sidecar.AnchorName, data: []byte("{}")}
	if err := i.writeRevision(ctx, anchor, owner); err != nil {
		return err
	}
	policy, err := sidecar.Policy(i.options.Namespace)
	if err != nil {
		return err
	}
	policy.OwnerReferences = []metav1.OwnerReference{owner}
	if err := i.apply(ctx, policy); err != nil {
		return fmt.Errorf("writing the policy that injects: %w", err)
	}
	if err := i.apply(ctx, sidecar.Anchor(i.options.Namespace, owner)); err != nil {
		return fmt.Errorf("writing the anchor of the policy that injects: %w", err)
	}
	return nil
}

// removeBindings deletes bindings that no set wants any more.
func (i *Injection) removeBindings(ctx context.Context, seen *injectionState) error {
	wanted := map[string]bool{sidecar.AnchorName: true}
	for _, one := range seen.sets {
		if one.wantBinding {
			wanted[sidecar.EntryName(one.name)] = true
		}
	}
	there := map[string]bool{}
	for name := range i.bindings {
		there[sidecar.EntryName(name)] = true
	}
	if i.verified.IsZero() {
		var err error
		if there, err = i.readBindings(ctx); err != nil {
			return err
		}
	}
	for name := range there {
		if wanted[name] {
			continue
		}
		binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := i.options.Client.Delete(ctx, binding); err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return fmt.Errorf("deleting binding %s: %w", name, err)
		}
	}
	for name := range i.bindings {
		if one := seen.sets[name]; one == nil || !one.wantBinding {
			delete(i.bindings, name)
		}
	}
	return nil
}

// apply writes an object as it should be, whoever changed it.
func (i *Injection) apply(ctx context.Context, object runtime.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	applied := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(applied.Object, "metadata", "creationTimestamp")
	return i.options.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(shared.FieldManager), client.ForceOwnership)
}
