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

	there  map[key]*unstructured.Unstructured
	keep   map[key]bool
	ways   []way
	states map[string]State
}

// way is in what ways a hook is registered.
type way struct {
	hook *Hook
	// policy says that its policy is written, proven that it is in force as far as anybody knows.
	policy, proven bool
	// why is a fault that does not keep it from being registered.
	why string
}

// run writes what hooks refer to first, then policies, their bindings and the webhooks, and removes in the other order.
func (p *pass) run(ctx context.Context) error {
	p.keep = map[key]bool{}
	var err error
	if p.there, err = p.find(ctx); err != nil {
		return err
	}
	for _, hook := range p.hooks {
		if err := p.register(ctx, hook); err != nil {
			return err
		}
	}
	if err := p.standing(ctx); err != nil {
		return err
	}
	for at := range p.ways {
		p.prove(ctx, &p.ways[at])
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

// register writes everything of a hook but its webhook. What the server refused stays as it was last taken.
func (p *pass) register(ctx context.Context, hook *Hook) error {
	if hook.Hold {
		p.hold(hook)
		return nil
	}
	if p.owner.Name == "" && (hook.Path == "" || hook.OnFailure != admissionv1.Ignore || len(hook.Params) > 0) {
		p.say(hook, State{Reason: Ownerless, Message: "the installation has no object that goes with it, so that this would stay when the operator is removed"})
		return nil
	}
	before, known := p.refused[hook.Name]
	if known && equality.Semantic.DeepEqual(before.hook, hook) && p.now.Sub(before.at) < afterRefusal {
		p.sooner(afterRefusal - p.now.Sub(before.at))
		return p.also(p.stand(ctx, hook, before.message))
	}
	w, err := p.write(ctx, hook)
	switch {
	case refuses(err):
		return p.also(p.refuse(ctx, hook, err))
	case err != nil:
		return err
	case w.policy || hook.Path != "" && p.options.Call != nil:
		p.ways = append(p.ways, w)
	case w.why != "":
		p.say(hook, State{Reason: Refused, Message: w.why})
	default:
		p.say(hook, State{Reason: Unserved, Message: "the API server cannot call the operator, and there is no policy for this"})
	}
	return nil
}

// also adds a way, if there is one.
func (p *pass) also(w *way, err error) error {
	if w != nil {
		p.ways = append(p.ways, *w)
	}
	return err
}

// refuse notes that the server does not take a hook. It returns what stays in its place.
func (p *pass) refuse(ctx context.Context, hook *Hook, why error) (*way, error) {
	message := strings.TrimSpace(why.Error())
	p.refused[hook.Name] = refusal{hook: hook, message: message, at: p.now}
	p.sooner(afterRefusal)
	return p.stand(ctx, hook, message)
}

// stand keeps the last version of a hook that the server took.
func (p *pass) stand(ctx context.Context, hook *Hook, message string) (*way, error) {
	p.say(hook, State{Reason: Refused, Message: message})
	last := p.taken[hook.Name]
	if last == nil || last == hook {
		return nil, nil
	}
	w, err := p.write(ctx, last)
	if err != nil {
		if refuses(err) {
			err = nil
		}
		return nil, err
	}
	return &w, nil
}

// write writes what a hook refers to, its policy and its bindings. A policy that cannot be written leaves the hook to the webhook, if it has one.
func (p *pass) write(ctx context.Context, hook *Hook) (way, error) {
	w := way{hook: hook}
	if err := p.apply(ctx, hook.Params...); err != nil {
		return w, err
	}
	policy := p.policy(hook.Policy)
	if policy == nil || p.owner.Name == "" || policy.mutates() && hook.Path != "" && !p.options.PreferPolicy || !p.served(policy) {
		return w, nil
	}
	err := p.applyPolicy(ctx, policy)
	if err == nil {
		err = p.apply(ctx, hook.Bindings...)
	}
	if refuses(err) {
		w.why = "the policy " + policy.Name + " cannot be written: " + strings.TrimSpace(err.Error())
		p.sooner(afterRefusal)
		return w, nil
	}
	w.policy = err == nil
	return w, err
}

// served says whether the API server knows the kinds of a policy.
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

// standing keeps policies that stay, if they are there.
func (p *pass) standing(ctx context.Context) error {
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

// apply writes objects that are not there as they should be.
func (p *pass) apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		k := keyOf(object)
		if p.keep[k] {
			continue
		}
		want := object.DeepCopy()
		if !owned(want) {
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

// doubt has the proofs of policies made again of which an object was written.
func (p *pass) doubt(object *unstructured.Unstructured) {
	for _, policy := range p.options.Policies {
		if slices.ContainsFunc(policy.Objects, func(o *unstructured.Unstructured) bool { return keyOf(o) == keyOf(object) }) {
			delete(p.proofs, policy.Name)
		}
	}
}

// prove finds out whether the policy of a hook is in force.
func (p *pass) prove(ctx context.Context, w *way) {
	policy := p.policy(w.hook.Policy)
	if !w.policy || policy == nil {
		return
	}
	if policy.Prove == nil {
		w.proven = true
		return
	}
	known := p.proofs[policy.Name]
	if known == nil {
		known = &proof{since: p.now}
		p.proofs[policy.Name] = known
	}
	if known.at.IsZero() || p.now.Sub(known.at) >= known.pause(p.now) {
		err := policy.Prove(ctx, client.NewDryRunClient(p.options.Client))
		known.at, known.holds, known.message = p.now, err == nil, ""
		if err != nil {
			known.message = strings.TrimSpace(err.Error())
		}
	}
	p.sooner(known.pause(p.now) - p.now.Sub(known.at))
	if w.proven = known.holds; !w.proven {
		w.why = "the policy " + policy.Name + " is not known to be in force: " + known.message
	}
}

// pause is how long a proof is believed.
func (f *proof) pause(now time.Time) time.Duration {
	if !f.holds && now.Sub(f.since) < proofPatience {
		return proofRetry
	}
	return verifyEvery
}

// call registers the hooks that the operator is called for.
func (p *pass) call(ctx context.Context) error {
	for _, c := range []*configuration{{pass: p, name: MutatingConfiguration, kind: mutatingKind()}, {pass: p, name: ValidatingConfiguration, kind: validatingKind()}} {
		for _, w := range p.ways {
			if w.hook.Mutates != (c.kind == mutatingKind()) {
				continue
			}
			if w.hook.Path == "" || p.options.Call == nil || w.proven && len(w.hook.Beyond) == 0 {
				p.stateOf(w, false)
				continue
			}
			c.ways = append(c.ways, w)
		}
		if err := c.write(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stateOf notes the state of a hook that is registered.
func (p *pass) stateOf(w way, byCall bool) {
	if state, said := p.states[w.hook.Name]; said && state.Reason == Refused {
		state.ByPolicy, state.ByCall = w.policy && w.proven, byCall
		p.states[w.hook.Name] = state
		return
	}
	p.taken[w.hook.Name] = w.hook
	state := State{Reason: InForce, Message: w.why, ByPolicy: w.policy && w.proven, ByCall: byCall}
	if !state.ByPolicy && !state.ByCall {
		state.Reason = Pending
	}
	p.say(w.hook, state)
}

// refuses says whether the server does not take something, as opposed to not answering.
func refuses(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsMethodNotSupported(err) || meta.IsNoMatchError(err)
}
