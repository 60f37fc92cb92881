// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/kube/registration"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies,verbs=get;create;patch,resourceNames=kruise-operator-sidecars
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicybindings,verbs=create;delete;list;patch

// afterFault is when the policy, or the binding of a set, is tried again after it could not be written; the pause doubles each time, up to lastAfterFault.
const (
	afterFault     = 5 * time.Second
	lastAfterFault = time.Minute
	// askServedAgain is when an API server that does not know such policies is asked again: it may have been upgraded.
	askServedAgain = time.Minute
)

func policyKind() schema.GroupVersionKind {
	return admissionv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicy")
}

// failedWrites are tries to write the policy, or the binding of one set, that have failed one after the other.
type failedWrites struct {
	// fault is why the last one failed, at that time, and count how many have; empty: none has.
	fault string
	at    time.Time
	count int
}

// failed adds a try.
func (f *failedWrites) failed(err error, now time.Time) {
	*f = failedWrites{fault: strings.TrimSpace(err.Error()), at: now, count: f.count + 1}
}

// left is how long there is no further try.
func (f *failedWrites) left(now time.Time) time.Duration {
	if f.fault == "" {
		return 0
	}
	return max(0, min(afterFault<<min(f.count-1, 10), lastAfterFault)-now.Sub(f.at))
}

// policyServed says whether the API server knows policies that change objects. Where it does not, to ask takes a request each time, and passes come with every
// change of a pod: the answer is believed for a while, unless the API server is another one.
func (i *Injection) policyServed() bool {
	now, epoch := i.options.Clock.Now(), i.registry.epoch()
	if !i.unserved.at.IsZero() && i.unserved.epoch == epoch && now.Sub(i.unserved.at) < askServedAgain {
		return false
	}
	if _, err := i.options.Client.RESTMapper().RESTMapping(policyKind().GroupKind(), policyKind().Version); err != nil {
		i.unserved = unserved{at: now, epoch: epoch}
		return false
	}
	i.unserved = unserved{}
	return true
}

// unserved is when an API server has said that it does not know such policies, and of which epoch it was; zero: it knows them.
type unserved struct {
	at    time.Time
	epoch int
}

// policyAvailable says why policies cannot be used; empty when they can.
func (i *Injection) policyAvailable() string {
	switch {
	case !i.options.PreferPolicy:
		return "admission.mode is Webhook"
	case !i.policyServed():
		return "the API server does not serve MutatingAdmissionPolicy v1"
	case i.policy.left(i.options.Clock.Now()) > 0:
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
		if bindings[sidecar.EntryName(name)] != nil {
			i.bindings[name] = "of another process"
		}
	}
	if anchor := bindings[sidecar.AnchorName]; anchor != nil {
		i.registry.note(watchedBinding, anchor.Name, anchor.ResourceVersion)
	}
	i.loaded = true
	return nil
}

// readBindings are the bindings of the policy, by name.
func (i *Injection) readBindings(ctx context.Context) (map[string]*admissionv1.MutatingAdmissionPolicyBinding, error) {
	there := map[string]*admissionv1.MutatingAdmissionPolicyBinding{}
	if !i.policyServed() {
		return there, nil
	}
	list := &admissionv1.MutatingAdmissionPolicyBindingList{}
	err := i.options.Live.List(ctx, list)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return there, nil // The API server was replaced by one that does not serve them.
	}
	if err != nil {
		return nil, fmt.Errorf("reading the bindings of the policy: %w", err)
	}
	for at := range list.Items {
		if binding := &list.Items[at]; binding.Spec.PolicyName == sidecar.PolicyName {
			there[binding.Name] = binding
		}
	}
	return there, nil
}

// registerPolicy makes the policy have one binding for every set that wants one. What it cannot do, the webhook does meanwhile, for all sets or for those whose
// binding the server refuses: then it is not done, and planned anew.
func (i *Injection) registerPolicy(ctx context.Context, desired *injectionState, owner metav1.OwnerReference) (done bool, err error) {
	there, err := i.readBindings(ctx)
	if err == nil {
		desired.standingBindings(there)
		done, err = i.writeBindings(ctx, desired, owner, there)
	}
	if err == nil {
		i.policy = failedWrites{}
		if !done {
			i.plan(desired)
		}
		return done, i.removeBindings(ctx, desired, there)
	}
	if ctx.Err() != nil {
		return false, err
	}
	i.policy.failed(err, i.options.Clock.Now())
	i.plan(desired)
	return false, nil
}

// standingBindings notes which revisions the bindings name that stay as they are, because the server refuses what they would name.
func (s injectionState) standingBindings(there map[string]*admissionv1.MutatingAdmissionPolicyBinding) {
	for _, set := range s.sets {
		if binding := there[sidecar.EntryName(set.name)]; set.stands() && binding != nil && binding.Spec.ParamRef != nil {
			set.standing = append(set.standing, binding.Spec.ParamRef.Name)
		}
	}
}

// writeBindings writes the bindings that sets want. It is not done when the server refuses one, which concerns that set alone; an error concerns all sets.
func (i *Injection) writeBindings(
	ctx context.Context, desired *injectionState, owner metav1.OwnerReference, there map[string]*admissionv1.MutatingAdmissionPolicyBinding,
) (done bool, err error) {
	done = true
	written := !i.verified.IsZero() && len(i.bindings) > 0
	for _, set := range desired.sets {
		if !set.wantBinding || set.refused != nil || !i.verified.IsZero() && i.bindings[set.name] == set.binding() {
			continue
		}
		known := i.proofsOf(set.name)
		if known.binding.left(i.options.Clock.Now()) > 0 {
			continue
		}
		if !written {
			if err := i.writePolicy(ctx, desired, owner, there); err != nil {
				return false, err
			}
			written = true
		}
		binding := sidecar.Binding(sidecar.Registration{Set: set.name, Match: set.parsed.Match, Revision: set.revision}, i.options.Namespace, set.owner)
		kept, err := i.writeBinding(ctx, binding, there)
		if answered(err) && !apierrors.IsNotFound(err) { // That there are no bindings concerns all sets.
			known.binding.failed(err, i.options.Clock.Now())
			done = false
			continue
		}
		if err != nil {
			return false, set.errorf(err)
		}
		known.binding = failedWrites{}
		if (kept.Created || kept.Changed) && i.bindings[set.name] == set.binding() {
			i.restored(set, &known.policy, "its binding to the policy "+sidecar.PolicyName, kept.Created)
		}
		i.bindings[set.name] = set.binding()
	}
	if !written && i.touched && owner.UID != "" && i.registry.knows(watchedBinding, sidecar.AnchorName) {
		return done, i.writePolicy(ctx, desired, owner, there)
	}
	return done, nil
}

// writeBinding writes a binding, unless it is there as it should be.
func (i *Injection) writeBinding(
	ctx context.Context, binding *admissionv1.MutatingAdmissionPolicyBinding, there map[string]*admissionv1.MutatingAdmissionPolicyBinding,
) (registration.Kept, error) {
	var have runtime.Object // A nil pointer would not be nil there.
	if found := there[binding.Name]; found != nil {
		have = found
	}
	kept, err := registration.KeepListed(ctx, i.options.Client, binding, have)
	if err == nil {
		i.registry.note(watchedBinding, binding.Name, kept.Version)
	}
	return kept, err
}

// writePolicy writes the policy and its anchor, which both stay: an API server that has seen the last binding go would not notice the
// revisions of the next one.
func (i *Injection) writePolicy(
	ctx context.Context, desired *injectionState, owner metav1.OwnerReference, there map[string]*admissionv1.MutatingAdmissionPolicyBinding,
) error {
	again := i.policyOwner == owner.UID
	anchor := &injectedSet{name: sidecar.AnchorName, revision: sidecar.AnchorName, data: []byte("{}")}
	recreated, err := i.writeRevision(ctx, anchor, anchor.revision, anchor.data, owner)
	if err != nil {
		return err
	}
	if recreated {
		i.policyRestored(desired, "the revision of the policy's anchor", true)
	}
	policy, err := sidecar.Policy(i.options.Namespace)
	if err != nil {
		return err
	}
	policy.OwnerReferences = []metav1.OwnerReference{owner}
	kept, err := registration.Keep(ctx, i.options.Live, i.options.Client, policy)
	if err != nil {
		return fmt.Errorf("writing the policy that injects: %w", err)
	}
	i.registry.note(watchedPolicy, policy.Name, kept.Version)
	if again && (kept.Created || kept.Changed) {
		i.policyRestored(desired, "the policy "+policy.Name, kept.Created)
	}
	if kept, err = i.writeBinding(ctx, sidecar.Anchor(i.options.Namespace, owner), there); err != nil {
		return fmt.Errorf("writing the anchor of the policy that injects: %w", err)
	}
	if again && (kept.Created || kept.Changed) {
		i.policyRestored(desired, "the binding "+sidecar.AnchorName+", the anchor of the policy", kept.Created)
	}
	i.policyOwner = owner.UID
	return nil
}

// removeBindings deletes bindings that no set wants any more. Nobody waits for one that the server refuses to delete: what it names is deleted all the same, so
// that it injects nothing. It is logged, and tried again later.
func (i *Injection) removeBindings(ctx context.Context, desired *injectionState, there map[string]*admissionv1.MutatingAdmissionPolicyBinding) error {
	wanted := map[string]bool{sidecar.AnchorName: true}
	for _, set := range desired.sets {
		name := sidecar.EntryName(set.name)
		wanted[name] = set.wantBinding && set.refused == nil || set.stands()
	}
	maps.DeleteFunc(i.undeleted, func(name string, _ failedWrites) bool { return wanted[name] || there[name] == nil })
	now := i.options.Clock.Now()
	for name := range there {
		failed := i.undeleted[name]
		if wanted[name] || failed.left(now) > 0 {
			continue
		}
		i.registry.forget(watchedBinding, name)
		binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
		err := i.options.Client.Delete(ctx, binding)
		switch {
		case err == nil || apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
			delete(i.undeleted, name)
		case answered(err):
			ctrl.LoggerFrom(ctx).Info("Cannot delete yet a binding to the policy that no set needs any more", "binding", name, "reason", err.Error())
			failed.failed(err, now)
			i.undeleted[name] = failed
		default:
			return fmt.Errorf("deleting binding %s: %w", name, err)
		}
	}
	for name := range i.bindings {
		if set := desired.sets[name]; set == nil || !wanted[sidecar.EntryName(name)] {
			delete(i.bindings, name)
		}
	}
	return nil
}

// deletionDue is when bindings are tried again that the server has refused to delete, from now on; false: there are none.
func (i *Injection) deletionDue() (wait time.Duration, refused bool) {
	now := i.options.Clock.Now()
	for _, failed := range i.undeleted {
		if left := max(failed.left(now), i.policy.left(now)); !refused || left < wait {
			wait, refused = left, true
		}
	}
	return wait, refused
}
