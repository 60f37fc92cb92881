// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kube/installowner"
)

const (
	// MutatingConfiguration and ValidatingConfiguration hold all entries. Version 0.4.0 uses the names
	// for part of them, and rewrites or deletes both: after going back, no unanswerable entry stays.
	MutatingConfiguration = "kruise-operator-pods"
	// ValidatingConfiguration is the other one.
	ValidatingConfiguration = "kruise-operator-deletion-protection"
	// OwnLabel with any value is on hooks' objects, such as revisions. Version 0.4.0 finds its own by it.
	OwnLabel = "operator.kruise.io/injection"

	// verifyEvery is how often everything is compared without an event.
	verifyEvery = 10 * time.Minute
	// proofRetry is the pause after a failed proof.
	proofRetry = 10 * time.Second
	// afterRefusal is the pause after a refused write.
	afterRefusal = time.Minute
	// keepUnused keeps former references: API servers learn of changes one by one, within a second or so.
	keepUnused = 10 * time.Second
)

// Options configure a Registrar.
type Options struct {
	// Client writes; Live reads past the cache.
	Client client.Client
	Live   client.Reader
	// Namespace is the operator's.
	Namespace string
	// Call is how the API server calls the operator at a path; nil: it does not.
	Call func(path string) (admissionv1.WebhookClientConfig, error)
	// PreferPolicy uses mutating policies where they work, else webhooks.
	PreferPolicy bool
	// Policies of all kinds, on or off.
	Policies []*Policy
	Clock    clock.PassiveClock
}

// Registrar registers the owners' hooks at the API server: nothing without any.
//
// Its objects belong to the installation owner (docs/adr/0008-installation-owner.md) unless they have another.
// It writes only differences, and reverts others' changes. It waits until every owner has spoken, then removes
// the rest, such as leftovers of kinds now off. One hook refused or without room leaves the others current.
type Registrar struct {
	options Options

	mutex  sync.Mutex
	owners map[string]*Owner
	// look has a pass made; nil before there are any.
	look func()

	// The rest is for one pass at a time.
	refused map[string]refusal
	proofs  map[string]*proof
	unused  map[key]time.Time
	// watch triggers a pass on changes of some objects; nil: none. watched are those so far.
	watch   func(kind schema.GroupVersionKind, namespace string, only func(*metav1.ListOptions)) error
	watched map[key]bool
}

// refusal is the server's answer to a hook.
type refusal struct {
	hook    *Hook
	message string
	at      time.Time
}

// proof is why a policy is not known to be in force; empty: it is.
type proof struct {
	message string
	at      time.Time
}

// New returns a Registrar.
func New(o Options) *Registrar {
	return &Registrar{
		options: o, owners: map[string]*Owner{}, refused: map[string]refusal{}, proofs: map[string]*proof{},
		unused: map[key]time.Time{}, watched: map[key]bool{},
	}
}

// Owner is one kind with hooks.
type Owner struct {
	registrar *Registrar
	told      func(hooks []string)

	// The mutex of the registrar guards these.
	said   bool
	hooks  []*Hook
	states map[string]State
}

// Owner returns the owner of a name. All must exist before the first pass. told
// gets the names of hooks with a changed state; it must not block and may be nil.
func (r *Registrar) Owner(name string, told func(hooks []string)) *Owner {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	o := &Owner{registrar: r, told: told, states: map[string]State{}}
	r.owners[name] = o
	return o
}

// Want replaces all hooks of the owner.
func (o *Owner) Want(hooks ...*Hook) {
	o.registrar.mutex.Lock()
	defer o.registrar.mutex.Unlock()
	o.said, o.hooks = true, hooks
	if o.registrar.look != nil {
		o.registrar.look()
	}
}

// State is how it is with one of its hooks.
func (o *Owner) State(hook string) State {
	o.registrar.mutex.Lock()
	defer o.registrar.mutex.Unlock()
	if state, known := o.states[hook]; known {
		return state
	}
	return State{Reason: Pending}
}

// Faults explain unregistered hooks of owners not told, sorted.
func (r *Registrar) Faults() []string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var faults []string
	for _, owner := range r.owners {
		for name, state := range owner.states {
			if owner.told == nil && state.Reason != InForce && state.Reason != Pending {
				faults = append(faults, fmt.Sprintf("hook %s is not registered (%s): %s", name, state.Reason, state.Message))
			}
		}
	}
	slices.Sort(faults)
	return faults
}

// wanted returns all owners' hooks in calling order; false: an owner has not spoken yet.
func (r *Registrar) wanted() ([]*Hook, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	var all []*Hook
	for _, owner := range r.owners {
		if !owner.said {
			return nil, false
		}
		all = append(all, owner.hooks...)
	}
	inOrder(all)
	return all, true
}

// tell notes all states, and tells owners about changes.
func (r *Registrar) tell(states map[string]State) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, owner := range r.owners {
		before := owner.states
		owner.states = map[string]State{}
		var changed []string
		for _, hook := range owner.hooks {
			state, known := states[hook.Name]
			if !known { // It was wanted after this pass began.
				if state, known = before[hook.Name]; !known {
					continue
				}
			}
			owner.states[hook.Name] = state
			if before[hook.Name] != state {
				changed = append(changed, hook.Name)
			}
		}
		if len(changed) > 0 && owner.told != nil {
			owner.told(changed)
		}
	}
}

// Reconcile implements reconcile.Reconciler: it compares everything and writes differences.
func (r *Registrar) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	hooks, all := r.wanted()
	if !all {
		return ctrl.Result{}, nil
	}
	owner, err := installowner.Find(ctx, r.options.Live)
	if err != nil && !errors.Is(err, installowner.ErrNone) {
		return ctrl.Result{}, err
	}
	p := newPass(r, owner, hooks...)
	if err := p.run(ctx); err != nil {
		return ctrl.Result{}, fmt.Errorf("registering hooks: %w", err)
	}
	maps.DeleteFunc(r.refused, func(name string, _ refusal) bool {
		return !slices.ContainsFunc(hooks, func(h *Hook) bool { return h.Name == name })
	})
	r.tell(p.states)
	return ctrl.Result{RequeueAfter: p.again}, nil
}

// serves reports whether the API server knows mutating policies.
func (r *Registrar) serves(kind schema.GroupVersionKind) bool {
	_, err := r.options.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	return err == nil
}

// policy is the declared one of a name; nil: there is none.
func (r *Registrar) policy(name string) *Policy {
	i := slices.IndexFunc(r.options.Policies, func(p *Policy) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return r.options.Policies[i]
}
