// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies,verbs=get;create;patch;list;watch;delete,resourceNames=kruise-operator-sidecars
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=get,resourceNames=kruise-operator-manager;"kruise-operator-manager-service-system:auth-delegator"
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodepodprobes,verbs=create
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list

// InjectionOptions configure an Injection.
type InjectionOptions struct {
	// Live reads past the cache.
	Live client.Reader
	// Sets are all SidecarSets as they are stored, from the cache. Read-only.
	Sets func(context.Context) ([]unstructured.Unstructured, error)
	// Pods are read from the cache; nil: pods without sidecars are not looked for.
	Pods client.Reader
	// Hooks registers the injection; Servers asks each API server for proof.
	Hooks   Hooks
	Servers Servers
	// Namespace is the operator's.
	Namespace string
	// PreferPolicy uses policies of the API server where they can do it.
	PreferPolicy bool
	// SortByName orders the ordinary sidecars of all sets by name.
	SortByName bool
	Clock      clock.PassiveClock
}

// Hooks registers webhooks and policies for SidecarSets.
type Hooks interface {
	Want(hooks ...*hooks.Hook)
	State(hook string) hooks.State
}

// Servers are the API servers of the cluster.
type Servers interface {
	Each(ctx context.Context, ask func(context.Context, client.Client) error) error
	Until(ctx context.Context, ask func(context.Context, client.Client) error) error
}

// Injection registers the injection of SidecarSets and checks it is in force. It compiles
// all sets together, since they depend on each other. Leader only, except for Announce.
type Injection struct {
	options InjectionOptions

	mutex    sync.Mutex
	compiled compiled
	latest   map[string]Latest
	states   map[string]*setState
	// wanted is the last registration, as text; empty: none yet.
	wanted string
}

// NewInjection returns an empty Injection.
func NewInjection(options InjectionOptions) *Injection {
	return &Injection{options: options, latest: map[string]Latest{}, states: map[string]*setState{}}
}

// Latest is the revision of the present spec in a set's history.
type Latest struct {
	// Generation is metadata.generation of the spec.
	Generation int64
	// Revision is the name of the ControllerRevision; empty: the server refuses it.
	Revision string
	// Hashes are those of the revision.
	sidecarspec.Hashes
}

// of reports whether the revision belongs to this generation.
func (l Latest) of(generation int64) bool { return l.Generation == generation && l.Revision != "" }

// setState is what one set's checks found.
type setState struct {
	// uid of the set: a recreated one is another set.
	uid   types.UID
	check check
	// byPolicy: the policy injects alone. policySince: first proof
	// of the wanted revision in it; zero: the last check failed.
	byPolicy    bool
	policySince time.Time
	// clash is the last report on names shared with other sets.
	clash string
	// found is the last search for pods without sidecars.
	found search
}

// Reconcile registers all sets and returns the state of the named one. latest comes from the set's own pass.
func (i *Injection) Reconcile(ctx context.Context, name string, latest Latest) (InjectionState, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.latest[name] = latest
	set, err := i.want(ctx, name)
	if err == nil && set.injects() && i.nextCheck(set) == 0 {
		var found check
		i.unlocked(func() { found = i.look(ctx, set) })
		i.checked(set, found)
		set, err = i.want(ctx, name) // The webhook may not be needed any more.
	}
	if err != nil || set == nil {
		state := InjectionState{Path: PathNone}
		state.Without = ptr.Deref(i.states[name], setState{}).found.condition
		return state, err
	}
	state := i.state(set)
	state.Without, err = i.without(ctx, set)
	if i.options.Pods != nil && state.Path != PathNone && (state.RecheckAfter == 0 || state.RecheckAfter > countEvery) {
		state.RecheckAfter = countEvery
	}
	return state, err
}

// unlocked lets other sets in meanwhile.
func (i *Injection) unlocked(ask func()) {
	i.mutex.Unlock()
	defer i.mutex.Lock()
	ask()
}

// Refresh registers all sets, even none.
func (i *Injection) Refresh(ctx context.Context) error {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	_, err := i.want(ctx, "")
	return err
}

// want registers all sets, and returns the named one; nil: gone, or held.
func (i *Injection) want(ctx context.Context, name string) (*injectedSet, error) {
	sets, err := i.observe(ctx)
	if err != nil {
		return nil, err
	}
	i.forget(sets)
	var registered []*injectedSet
	text := "wanted"
	for _, at := range slices.Sorted(maps.Keys(sets)) {
		if set := sets[at]; set.injects() || set.held {
			if k := i.knownOf(set); !i.byPolicy(set) {
				k.byPolicy, k.policySince = false, time.Time{}
			}
			registered = append(registered, set)
			text += fmt.Sprint(" ", set.shown, set.owner.UID, set.onFailure, set.held, i.knownOf(set).byPolicy)
		}
	}
	if text != i.wanted {
		wanted := make([]*hooks.Hook, len(registered))
		for at, set := range registered {
			wanted[at] = i.hookOf(set)
		}
		i.options.Hooks.Want(wanted...)
		i.wanted = text
	}
	if set := sets[name]; set != nil && !set.held {
		return set, nil
	}
	return nil, nil
}

// forget drops state of deleted sets.
func (i *Injection) forget(sets map[string]*injectedSet) {
	maps.DeleteFunc(i.states, func(name string, _ *setState) bool { return sets[name] == nil })
	maps.DeleteFunc(i.latest, func(name string, _ Latest) bool { return sets[name] == nil })
}

// knownOf returns the state of a set. After a start byPolicy comes from the status; the first check corrects it.
func (i *Injection) knownOf(set *injectedSet) *setState {
	if k := i.states[set.name]; k == nil || k.uid != set.owner.UID {
		i.states[set.name] = &setState{uid: set.owner.UID, byPolicy: set.byPolicyBefore}
	}
	return i.states[set.name]
}

func (i *Injection) byPolicy(set *injectedSet) bool { return i.whyNotByPolicy(set) == "" }

// whyNotByPolicy says why a set is not injected by the policy; empty when it is.
func (i *Injection) whyNotByPolicy(set *injectedSet) string {
	switch {
	case !i.options.PreferPolicy:
		return "admission.mode is Webhook"
	case len(set.features) > 0:
		return "the policy does not do " + strings.Join(set.features, " and ")
	}
	return ""
}
