// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/installowner"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=kruise-operator-pods,verbs=create;delete;get;list;patch;update;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=get,resourceNames=kruise-operator-manager;"kruise-operator-manager-service-system:auth-delegator"
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=create
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list

const (
	// verifyEvery is how often what is registered is compared with what should be, without a change of a set.
	verifyEvery = 5 * time.Minute
	// proveEvery is how often a proof is made again: an API server may have been restarted without the policy, or replaced.
	proveEvery = 10 * time.Minute
	// keepUnused is how long a revision is kept that nothing registers any more: API servers learn of that each for itself, within a second
	// or so.
	keepUnused = 10 * time.Second
	// maxFieldCheckRounds is how often a pass begins again because sets have changed while the fields of others were checked.
	maxFieldCheckRounds = 10
	// fieldChecksAtOnce is how many sets are checked at a time: a webhook of others that hangs takes seconds for each.
	fieldChecksAtOnce = 10
)

// InjectionOptions are what injection needs.
type InjectionOptions struct {
	// Kinds are all kinds.
	Kinds kinds.Table
	// Client writes. Live reads past the cache.
	Client client.Client
	Live   client.Reader
	// Sets are all SidecarSets as they are stored, from the cache. Read-only.
	Sets func(context.Context) ([]unstructured.Unstructured, error)
	// Pods are read from the cache; nil: pods without sidecars are not looked for.
	Pods client.Reader
	// Namespace is the operator's.
	Namespace string
	// PreferPolicy uses policies of the API server where they can do it.
	PreferPolicy bool
	// SortByName orders the ordinary sidecars of all sets by name.
	SortByName bool
	Clock      clock.PassiveClock
	// Metadata watches what is registered; nil: it is compared with what it should be every few minutes only.
	Metadata metadata.Interface
	// ReadError is called when it cannot be watched; nil: that is logged.
	ReadError cache.WatchErrorHandlerWithContext
}

// Injection registers at the API server what SidecarSets inject, and says whether it does. All sets are registered together, since what
// one injects depends on the others. It is for the leader alone.
type Injection struct {
	options InjectionOptions

	mutex sync.Mutex
	// registered is what was registered last, and when.
	registered injectionState
	verified   time.Time
	// written are the names of revisions that were written or seen, unused those that nothing registers any more, since when.
	written map[string]bool
	unused  map[string]time.Time
	// entries are the webhook entries that were written last, by set.
	entries map[string]string
	// callSize is how much of each entry says how the operator is called.
	callSize int
	// bindings are the revisions of the bindings that were written last, by set.
	bindings map[string]string
	// undeleted are the tries to delete bindings, by name, that the server has refused.
	undeleted map[string]failedWrites
	proofs    map[string]*proofs
	latest    map[string]Latest
	compiled  compiled
	policy    failedWrites
	unserved  unserved
	// searched says that revisions of another process were looked for.
	searched bool
	// loaded says that what another process has registered was read.
	loaded bool
	// policyOwner is the owner of the policy that was written or read last.
	policyOwner types.UID
	// registry hears of what others do to what is registered. touched says that they changed something, repaired that it was restored.
	registry          *registry
	repairs           repairs
	touched, repaired bool
}

// NewInjection returns an Injection that has registered nothing yet.
func NewInjection(options InjectionOptions) *Injection {
	return &Injection{
		options: options, written: map[string]bool{}, unused: map[string]time.Time{}, entries: map[string]string{}, bindings: map[string]string{},
		undeleted: map[string]failedWrites{}, proofs: map[string]*proofs{}, latest: map[string]Latest{}, registry: newRegistry(),
	}
}

// Latest is the revision of the present spec in a set's history.
type Latest struct {
	// Generation is that of the spec.
	Generation int64
	// Revision is the name of the ControllerRevision, Made when it was created.
	Revision string
	Made     time.Time
	// Hash and HashWithoutImage are those of the revision.
	Hash, HashWithoutImage string
}

// of says that it is the revision of the spec of a generation.
func (l Latest) of(generation int64) bool { return l.Generation == generation && l.Revision != "" }

// Reconcile makes the API server inject what the SidecarSets say, and returns how it does so for the set of this name. latest is what the
// set's own pass has just found out. Without a name it is for no set in particular.
func (i *Injection) Reconcile(ctx context.Context, name string, latest Latest) (InjectionState, error) {
	now := about{name: name, latest: &latest}
	state, set, err := i.register(ctx, now)
	if err == nil && set != nil && i.prove(ctx, set) {
		// A proof may have ended the time in which both ways are open.
		told := state.Events
		state, set, err = i.register(ctx, now)
		state.Events = append(told, state.Events...)
	}
	if err != nil {
		return state.withPods(i.lastFound(name)), err
	}
	if set == nil {
		return state, nil
	}
	// Looking for pods takes requests, for which the passes over other sets do not wait.
	found, err := i.without(ctx, set)
	state = state.withPods(found)
	if i.options.Pods != nil && state.Path != PathNone && (state.RecheckAfter == 0 || state.RecheckAfter > countEvery) {
		state.RecheckAfter = countEvery
	}
	return state, err
}

// about is for whose pass all sets are registered.
type about struct {
	// name is the set whose pass it is. Empty: none in particular.
	name string
	// latest is what its pass has found out; nil: the set is gone, unless another one of its name has come since.
	latest *Latest
}

// register makes sure that what all sets inject is registered. It returns a copy of what the set of this name injects; nil: it injects nothing.
//
// What all sets share is locked while requests are made that the API server answers by itself. Dry runs are answered by the webhooks of others as
// well, and may take seconds: they are made in between.
func (i *Injection) register(ctx context.Context, of about) (InjectionState, *injectedSet, error) {
	for range maxFieldCheckRounds {
		asked, err := i.unchecked(ctx, of)
		if err != nil {
			return InjectionState{}, nil, err
		}
		var checks errgroup.Group
		checks.SetLimit(fieldChecksAtOnce)
		for _, set := range asked {
			checks.Go(func() error { i.checkFields(ctx, set); return nil })
		}
		_ = checks.Wait() // None fails: what could not be asked is noted.
		state, set, complete, err := i.registerKnown(ctx, of)
		if complete || err != nil {
			return state, set, err
		}
	}
	return InjectionState{}, nil, errors.New("SidecarSets change faster than the API server says what it takes of them")
}

// unchecked are copies of the sets whose fields have to be checked before all are registered: those that never were at their revision, and that of the
// pass while nothing is known of it or the API server is another one.
func (i *Injection) unchecked(ctx context.Context, of about) ([]*injectedSet, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if of.latest != nil {
		i.latest[of.name] = *of.latest
	}
	desired, err := i.observe(ctx)
	if err != nil {
		return nil, err
	}
	var asked []*injectedSet
	for _, set := range desired.sets {
		known := i.proofsOf(set.name).fieldCheck
		again := set.name == of.name && i.byPolicy(set) && known.due(i.options.Clock.Now(), i.registry.epoch())
		if again || i.neverChecked(set) {
			copied := *set
			asked = append(asked, &copied)
		}
	}
	return asked, nil
}

// byPolicy says that the set may be injected by the policy.
func (i *Injection) byPolicy(set *injectedSet) bool {
	return i.options.PreferPolicy && set.revision != "" && !set.held
}

// neverChecked says that the set may be injected by the policy, and that the fields of its revision were never checked.
func (i *Injection) neverChecked(set *injectedSet) bool {
	return i.byPolicy(set) && i.proofsOf(set.name).fieldCheck.revision != set.revision
}

// registerKnown is register, where the fields of all sets were checked; it is not complete when one has changed since.
func (i *Injection) registerKnown(ctx context.Context, of about) (state InjectionState, known *injectedSet, complete bool, err error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	desired, err := i.observe(ctx)
	if err != nil {
		return InjectionState{}, nil, false, err
	}
	if of.latest == nil {
		if desired.sets[of.name] != nil {
			return InjectionState{}, nil, true, nil // Another one of its name has come, whose own pass sees to it.
		}
		i.latest[of.name] = Latest{}
	}
	for _, set := range desired.sets {
		if i.neverChecked(set) {
			return InjectionState{}, nil, false, nil
		}
	}
	state, err = i.reconcile(ctx, of.name, desired)
	if set := i.registered.sets[of.name]; set != nil && !set.held {
		copied := *set
		known = &copied
	}
	return state, known, true, err
}

// Gone removes the injection of a set that was deleted. When another one of its name has come since, that is left to its own pass.
func (i *Injection) Gone(ctx context.Context, name string) (InjectionState, error) {
	state, _, err := i.register(ctx, about{name: name})
	return state, err
}

// Succeeds says that what is registered under a name is of an earlier set than that with the UID.
func (i *Injection) Succeeds(name string, uid types.UID) bool {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.succeeds(name, uid)
}

func (i *Injection) succeeds(name string, uid types.UID) bool {
	before := i.registered.sets[name]
	return before != nil && before.owner.UID != uid
}

func (i *Injection) reconcile(ctx context.Context, name string, desired injectionState) (InjectionState, error) {
	if err := i.load(ctx); err != nil {
		return InjectionState{}, err
	}
	if name == "" && len(desired.sets) > 0 {
		return InjectionState{}, nil // Their own passes see to it: a new set has no revision before its own.
	}
	if !desired.same(i.registered) || i.options.Clock.Since(i.verified) >= verifyEvery {
		i.verified = time.Time{}
	}
	later := i.touch()
	if err := i.settle(ctx, name, &desired); err != nil {
		return InjectionState{}, err
	}
	i.registered = desired
	wait := i.collect(ctx)
	if due, refused := i.deletionDue(); refused && (later == 0 || due < later) {
		later = due
	}
	if later > 0 && (wait == 0 || later < wait) {
		wait = later
	}
	set := desired.sets[name]
	if set == nil {
		return InjectionState{Path: PathNone, RecheckAfter: wait}, nil
	}
	if set.held {
		return InjectionState{RecheckAfter: wait}, nil
	}
	if set.refused != nil {
		return InjectionState{RecheckAfter: wait}, set.refused
	}
	state := i.state(set)
	state.Events = i.proofsOf(name).events(set)
	if wait > 0 && (state.RecheckAfter == 0 || wait < state.RecheckAfter) {
		state.RecheckAfter = wait
	}
	return state, nil
}

// settle registers what should be, when it is not known to be so already. of is the set whose pass it is.
func (i *Injection) settle(ctx context.Context, of string, desired *injectionState) error {
	i.plan(desired)
	due, refused := i.deletionDue()
	changed := i.verified.IsZero() || refused && due == 0
	for _, set := range desired.sets {
		before := i.registered.sets[set.name]
		if set.held && before != nil && before.held {
			continue
		}
		changed = changed || before != nil && before.refused != nil || i.entries[set.name] != set.entry() ||
			i.bindings[set.name] != set.binding() && (!set.wantBinding || i.proofsOf(set.name).binding.left(i.options.Clock.Now()) == 0)
	}
	if !changed && len(i.entries)+len(i.bindings) <= 2*len(desired.sets) {
		return nil
	}
	before := i.standing()
	for name, set := range desired.sets {
		set.refused, set.standing, set.succeeds = nil, nil, i.succeeds(name, set.owner.UID)
	}
	owner, err := installowner.Find(ctx, i.options.Live)
	if err != nil && !errors.Is(err, installowner.ErrNone) {
		return err
	}
	desired.ownerless = err != nil
	if i.measureCall(ctx, desired) || desired.ownerless {
		i.plan(desired)
	}
	// What a registration names is there before it, and goes after it.
	if err := i.writeAllRevisions(ctx, of, desired, owner); err != nil {
		return err
	}
	done, err := i.registerPolicy(ctx, desired, owner)
	if err != nil {
		return err
	}
	if !done {
		// Sets that the webhook injects instead may name other revisions.
		if err := i.writeAllRevisions(ctx, of, desired, owner); err != nil {
			return err
		}
	}
	desired.keepStanding(before)
	if err := i.registerWebhooks(ctx, desired, owner); err != nil {
		return err
	}
	i.settled()
	return nil
}

// standing are, by set, the revisions that what is registered may name: of a set whose revisions the server refuses those of before.
func (i *Injection) standing() map[string][]string {
	all := map[string][]string{}
	for name, set := range i.registered.sets {
		if all[name] = set.standing; set.refused == nil {
			all[name] = []string{set.revision, set.call}
		}
	}
	return all
}

// keepStanding notes what was registered for sets whose revision the server refuses, whether or not it could be read just now: it may still be named.
func (s injectionState) keepStanding(before map[string][]string) {
	for name, set := range s.sets {
		for _, revision := range before[name] {
			if set.stands() && revision != "" && !slices.Contains(set.standing, revision) {
				set.standing = append(set.standing, revision)
			}
		}
	}
}

// errorf names the set of an error.
func (set *injectedSet) errorf(err error) error {
	return fmt.Errorf("injecting SidecarSet %s: %w", set.name, err)
}
