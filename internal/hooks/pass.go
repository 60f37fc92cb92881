// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// pass is one comparison of everything.
type pass struct {
	*Registrar
	hooks []*Hook
	// owner has an empty name when the installation has none.
	owner metav1.OwnerReference
	now   time.Time
	// again is when the next pass is due without an event.
	again time.Duration

	there         map[key]*unstructured.Unstructured
	keep          map[key]bool
	registrations []registration
	// held are the hooks with an unchanged registration.
	held   map[string]bool
	states map[string]State
}

// registration is how a hook is registered.
type registration struct {
	hook *Hook
	// policy: it is written. proven: it is in force as far as known.
	policy, proven bool
	// fault does not keep it from being registered.
	fault string
}

// newPass returns an empty pass.
func newPass(r *Registrar, owner metav1.OwnerReference, hooks ...*Hook) *pass {
	return &pass{
		Registrar: r, hooks: hooks, owner: owner, now: r.options.Clock.Now(), again: verifyEvery,
		there: map[key]*unstructured.Unstructured{}, keep: map[key]bool{}, held: map[string]bool{}, states: map[string]State{},
	}
}

// run writes revisions, policies, bindings and webhooks in this order, and removes in the reverse.
func (p *pass) run(ctx context.Context) error {
	if err := p.find(ctx); err != nil {
		return err
	}
	for _, hook := range p.hooks {
		if err := p.register(ctx, hook); err != nil {
			return err
		}
	}
	if err := p.keepPolicies(ctx); err != nil {
		return err
	}
	for at := range p.registrations {
		p.prove(ctx, &p.registrations[at])
	}
	if err := p.call(ctx); err != nil {
		return err
	}
	return p.removeUnwanted(ctx)
}

// sooner has the next pass made earlier.
func (p *pass) sooner(in time.Duration) { p.again = min(p.again, max(in, time.Millisecond)) }

// say notes the state of a hook.
func (p *pass) say(hook *Hook, state State) {
	state.Version = hook.Version
	p.states[hook.Name] = state
}

// register writes everything of a hook but its webhook.
func (p *pass) register(ctx context.Context, hook *Hook) error {
	if hook.Hold {
		p.hold(hook)
		p.say(hook, State{Reason: InForce})
		return nil
	}
	if p.owner.Name == "" && (hook.Path == "" || hook.OnFailure != admissionv1.Ignore || len(hook.Params) > 0) {
		p.say(hook, State{Reason: Ownerless, Message: "the installation has no object that goes with it, so that this would stay when the operator is removed"})
		return nil
	}
	before, known := p.refused[hook.Name]
	if left := afterRefusal - p.now.Sub(before.at); known && left > 0 && equality.Semantic.DeepEqual(before.hook, hook) {
		p.sooner(left)
		p.hold(hook)
		p.say(hook, State{Reason: Refused, Message: before.message})
		return nil
	}
	r, err := p.write(ctx, hook)
	switch {
	case refuses(err):
		p.refuse(hook, err)
	case err != nil:
		return err
	case r.policy || hook.Path != "" && p.options.Call != nil:
		p.registrations = append(p.registrations, r)
	case r.fault != "":
		p.say(hook, State{Reason: Refused, Message: r.fault})
	default:
		p.say(hook, State{Reason: Unserved, Message: "the API server cannot call the operator, and there is no policy for this"})
	}
	return nil
}

func (p *pass) refuse(hook *Hook, why error) {
	message := strings.TrimSpace(why.Error())
	p.refused[hook.Name] = refusal{hook: hook, message: message, at: p.now}
	p.sooner(afterRefusal)
	p.hold(hook)
	p.say(hook, State{Reason: Refused, Message: message})
}

// hold keeps a hook's registration.
func (p *pass) hold(hook *Hook) {
	p.held[hook.Name] = true
	objects := hook.Bindings
	if policy := p.policy(hook.Policy); policy != nil {
		objects = slices.Concat(objects, policy.Objects)
	}
	for _, object := range objects {
		if have := p.there[keyOf(object)]; have != nil {
			p.keep[keyOf(object)] = true
			param, _, _ := unstructured.NestedString(have.Object, "spec", "paramRef", "name")
			p.keepParam(param)
		}
	}
}

// keepParam keeps a registered hook's revision.
func (p *pass) keepParam(name string) {
	k := key{revisionKind(), p.options.Namespace, name}
	p.keep[k] = true
	delete(p.unused, k)
}

// write writes a hook's references, policy and bindings. If the policy fails, the webhook serves the hook, if any.
func (p *pass) write(ctx context.Context, hook *Hook) (registration, error) {
	r := registration{hook: hook}
	if err := p.apply(ctx, hook.Params...); err != nil {
		return r, err
	}
	policy := p.policy(hook.Policy)
	if policy == nil || p.owner.Name == "" || policy.mutates() && hook.Path != "" && !p.options.PreferPolicy || !p.served(policy) {
		return r, nil
	}
	err := p.applyPolicy(ctx, policy)
	if err == nil {
		err = p.apply(ctx, hook.Bindings...)
	}
	if refuses(err) {
		r.fault = "the policy " + policy.Name + " cannot be written: " + strings.TrimSpace(err.Error())
		p.sooner(afterRefusal)
		return r, nil
	}
	r.policy = err == nil
	return r, err
}

// served reports whether the API server knows the policy's kinds.
func (p *pass) served(policy *Policy) bool {
	return !slices.ContainsFunc(policy.Objects, func(o *unstructured.Unstructured) bool { return !p.serves(o.GroupVersionKind()) })
}

// applyPolicy writes a policy.
func (p *pass) applyPolicy(ctx context.Context, policy *Policy) error {
	for _, object := range policy.Objects {
		if _, constrains, _ := unstructured.NestedMap(object.Object, "spec", "matchConstraints"); constrains && !policy.Unexempted {
			var err error
			if object, err = exempting(object, p.options.Namespace); err != nil {
				return err
			}
		}
		if err := p.apply(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// keepPolicies keeps existing policies with Stays.
func (p *pass) keepPolicies(ctx context.Context) error {
	for _, policy := range p.options.Policies {
		for _, object := range policy.Objects {
			if policy.Stays && p.there[keyOf(object)] != nil {
				if err := p.applyPolicy(ctx, policy); err != nil && !refuses(err) {
					return err
				}
			}
		}
	}
	return nil
}

// apply writes missing or different objects.
func (p *pass) apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		k := keyOf(object)
		if p.keep[k] {
			continue
		}
		want := object.DeepCopy()
		if len(want.GetOwnerReferences()) == 0 {
			want.SetOwnerReferences([]metav1.OwnerReference{p.owner})
		}
		have := p.there[k]
		if have == nil || !holds(want, have) {
			err := p.options.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), client.FieldOwner(shared.FieldManager), client.ForceOwnership)
			if err != nil {
				return fmt.Errorf("applying %s %s: %w", want.GetKind(), want.GetName(), err)
			}
			p.doubt(object)
		}
		if err := p.follow(k); err != nil {
			return err
		}
		p.keep[k] = true
		delete(p.unused, k)
	}
	return nil
}

// doubt renews the proofs of policies with a written object.
func (p *pass) doubt(object *unstructured.Unstructured) {
	for _, policy := range p.options.Policies {
		if slices.ContainsFunc(policy.Objects, func(o *unstructured.Unstructured) bool { return keyOf(o) == keyOf(object) }) {
			delete(p.proofs, policy.Name)
		}
	}
}

func (p *pass) prove(ctx context.Context, r *registration) {
	policy := p.policy(r.hook.Policy)
	if !r.policy || policy == nil {
		return
	}
	if policy.Prove == nil {
		r.proven = true
		return
	}
	known := p.proofs[policy.Name]
	if known == nil || p.now.Sub(known.at) >= known.pause() {
		known = &proof{at: p.now}
		p.proofs[policy.Name] = known
		if err := policy.Prove(ctx, p.options.Live, client.NewDryRunClient(p.options.Client)); err != nil {
			known.message = strings.TrimSpace(err.Error())
		}
	}
	p.sooner(known.pause() - p.now.Sub(known.at))
	if r.proven = known.message == ""; !r.proven {
		r.fault = "the policy " + policy.Name + " is not known to be in force: " + known.message
	}
}

// pause is how long a proof is believed.
func (f *proof) pause() time.Duration {
	if f.message != "" {
		return proofRetry
	}
	return verifyEvery
}

// call registers the webhooks.
func (p *pass) call(ctx context.Context) error {
	for _, c := range []*configuration{{pass: p, name: MutatingConfiguration, kind: mutatingKind()}, {pass: p, name: ValidatingConfiguration, kind: validatingKind()}} {
		for _, r := range p.registrations {
			if r.hook.Mutates != (c.kind == mutatingKind()) {
				continue
			}
			if r.hook.Path == "" || p.options.Call == nil || r.proven && len(r.hook.Beyond) == 0 && !r.hook.Beside {
				p.sayRegistered(r, false)
				continue
			}
			c.wanted = append(c.wanted, r)
		}
		if err := c.write(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sayRegistered notes a registered hook, unless it has another state.
func (p *pass) sayRegistered(r registration, byCall bool) {
	if _, said := p.states[r.hook.Name]; said {
		return
	}
	state := State{Reason: InForce, Message: r.fault, ByPolicy: r.policy && r.proven, ByCall: byCall}
	if !state.ByPolicy && !state.ByCall {
		state.Reason = Pending
	}
	p.say(r.hook, state)
}

// refuses reports whether the server refused, rather than failed to answer.
func refuses(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsMethodNotSupported(err) || meta.IsNoMatchError(err)
}
