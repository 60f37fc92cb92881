// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies,verbs=list;watch,resourceNames=kruise-operator-sidecars
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicybindings,verbs=watch

// watchedKind is a kind of objects that are registered.
type watchedKind string

// The kinds.
const (
	watchedPolicy   watchedKind = "policy"
	watchedBinding  watchedKind = "binding"
	watchedRevision watchedKind = "revision"
	watchedWebhooks watchedKind = "webhooks"
)

const (
	// repairPause is how long a second repair waits after a first one; the pause doubles with each that follows soon, up to the last one: somebody
	// who takes away again and again what is registered gets no race.
	repairPause     = time.Second
	lastRepairPause = time.Minute
	// earlyEnd is how much earlier than asked for a watch may end without being taken for a lost connection.
	earlyEnd = 5 * time.Second
	// effectDelay is when what was written again is tried: API servers look at policies once a second, each for itself.
	effectDelay = 2 * time.Second
)

// registry knows the objects that are registered as they were read or written last, and hears by watches when they become something else.
// Nothing is watched before there is something to watch. It is safe for concurrent use.
type registry struct {
	mutex sync.Mutex
	// versions are the resource versions of the registered objects, others different versions that watches have shown, empty for deleted
	// objects. Both are by kind and name.
	versions, others map[string]string
	// losses is how often the connection to the API server was lost.
	losses int

	// enqueue enqueues the sets that a registered object concerns.
	enqueue func(concerns func(set string) bool)

	// some is closed when something is registered, policies when something of policies is.
	some, policies         chan struct{}
	someOnce, policiesOnce sync.Once
}

func newRegistry() *registry {
	return &registry{versions: map[string]string{}, others: map[string]string{}, some: make(chan struct{}), policies: make(chan struct{})}
}

func (k watchedKind) key(name string) string { return string(k) + "/" + name }

// note keeps the version of an object as it should be.
func (r *registry) note(kind watchedKind, name, version string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.versions[kind.key(name)] = version
	r.someOnce.Do(func() { close(r.some) })
	if kind == watchedPolicy || kind == watchedBinding {
		r.policiesOnce.Do(func() { close(r.policies) })
	}
}

// knows says whether an object is registered, or was when it was last looked at.
func (r *registry) knows(kind watchedKind, name string) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	_, known := r.versions[kind.key(name)]
	return known
}

// forget is for objects that are to go.
func (r *registry) forget(kind watchedKind, name string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.versions, kind.key(name))
}

// shown records the version of an object that a watch has shown, and says whether it differs from the one that was written. A write may be shown
// before it is noted.
func (r *registry) shown(kind watchedKind, name, version string) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	key := kind.key(name)
	delete(r.others, key)
	if r.versions[key] == version {
		return false
	}
	r.others[key] = version
	return true
}

// touched says whether something was shown that was not written.
func (r *registry) touched() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	maps.DeleteFunc(r.others, func(key, version string) bool { return r.versions[key] == version })
	return len(r.others) > 0
}

// take forgets what was shown: all is about to be looked at.
func (r *registry) take() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	clear(r.others)
}

// epoch counts the restarts of the API server, as far as they were noticed.
func (r *registry) epoch() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.losses
}

// lost notes that the API server, or the way to it, was away, and is back.
func (r *registry) lost() {
	r.mutex.Lock()
	r.losses++
	r.mutex.Unlock()
	r.enqueue(everySet)
}

func everySet(string) bool { return true }

// sees handles what a watch shows of one object.
func (r *registry) sees(kind watchedKind, object any, gone bool) {
	if last, is := object.(cache.DeletedFinalStateUnknown); is {
		object = last.Obj
	}
	of, is := object.(*metav1.PartialObjectMetadata)
	if !is || kind == watchedBinding && of.Name != sidecar.AnchorName && !sidecar.IsEntryName(of.Name) {
		return // Other bindings of the operator have the same label.
	}
	version := of.ResourceVersion
	if gone {
		version = ""
	}
	if !r.shown(kind, of.Name, version) {
		return
	}
	switch {
	case of.Name == sidecar.AnchorName:
		r.enqueue(everySet)
	case kind == watchedRevision:
		r.enqueue(func(set string) bool { return set == of.Labels[injectionLabel] })
	case kind == watchedBinding:
		r.enqueue(func(set string) bool { return sidecar.EntryName(set) == of.Name })
	default:
		r.enqueue(everySet)
	}
}

// Watch watches, from the time on when something is registered, all that is: metadata only, the policy and the webhook configuration by
// name, bindings and revisions by label. It returns at once; the watches end with ctx. enqueue is asked for a pass over a set, or, without a name, for
// one over what stays when there is no set.
func (i *Injection) Watch(ctx context.Context, enqueue func(types.NamespacedName)) error {
	r := i.registry
	r.enqueue = func(concerns func(set string) bool) {
		enqueue(types.NamespacedName{}) // for what stays when there is no set
		sets, err := i.options.Sets(ctx)
		if err != nil {
			return // The sets come with passes of their own.
		}
		for at := range sets {
			if name := sets[at].GetName(); concerns(name) {
				enqueue(types.NamespacedName{Name: name})
			}
		}
	}
	group := admissionv1.SchemeGroupVersion
	labeled := func(selector string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) { o.LabelSelector = selector }
	}
	named := func(name string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
	}
	return errors.Join(
		// Every API server serves webhook configurations: this watch also tells when one was restarted.
		i.watch(ctx, watchedWebhooks, r.some, group.WithResource("mutatingwebhookconfigurations"), "", named(sidecar.WebhookConfiguration), r.lost),
		i.watch(ctx, watchedRevision, r.some, appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), i.options.Namespace, labeled(injectionLabel), nil),
		i.watch(ctx, watchedPolicy, r.policies, group.WithResource("mutatingadmissionpolicies"), "", named(sidecar.PolicyName), nil),
		i.watch(ctx, watchedBinding, r.policies, group.WithResource("mutatingadmissionpolicybindings"), "", labeled(sidecar.BindingLabels), nil),
	)
}

// watch watches objects of one kind from the time on when begin is closed.
func (i *Injection) watch(
	ctx context.Context, kind watchedKind, begin <-chan struct{}, resource schema.GroupVersionResource, namespace string, only func(*metav1.ListOptions), lost func(),
) error {
	objects := metadata.ResourceInterface(i.options.Metadata.Resource(resource))
	if namespace != "" {
		objects = i.options.Metadata.Resource(resource).Namespace(namespace)
	}
	line := &line{clock: i.options.Clock, lost: lost}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			only(&options)
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			only(&options)
			events, err := objects.Watch(ctx, options)
			line.began(options.TimeoutSeconds, err)
			return events, err
		},
	}, i.options.Metadata), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { i.registry.sees(kind, object, false) },
		UpdateFunc: func(_, object any) { i.registry.sees(kind, object, false) },
		DeleteFunc: func(object any) { i.registry.sees(kind, object, true) },
	})
	if err == nil && i.options.ReadError != nil {
		err = informer.SetWatchErrorHandlerWithContext(i.options.ReadError)
	}
	if err != nil {
		return fmt.Errorf("watching %s: %w", resource.Resource, err)
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-begin:
			informer.RunWithContext(ctx)
		}
	}()
	return nil
}

// line tells from how watches end whether the API server was away: one that was asked to last some minutes does, unless the connection breaks.
// It is used by one watch after the other.
type line struct {
	clock clock.PassiveClock
	lost  func()

	since, until time.Time
	broken       bool
}

// began notes that a watch began, or failed to.
func (l *line) began(timeout *int64, err error) {
	now := l.clock.Now()
	if err != nil {
		l.broken = !l.since.IsZero()
		return
	}
	early := now.Before(l.until.Add(-earlyEnd))
	if l.lost != nil && !l.since.IsZero() && (l.broken || early) {
		l.lost()
	}
	l.since, l.until, l.broken = now, now, false
	if timeout != nil {
		l.until = now.Add(time.Duration(*timeout) * time.Second)
	}
}

// repairs limits how often what somebody else takes away is put back.
type repairs struct {
	count int
	last  time.Time
}

// wait is how long the next repair has to wait.
func (r *repairs) wait(now time.Time) time.Duration {
	if r.count == 0 {
		return 0
	}
	return max(0, r.pause()-now.Sub(r.last))
}

func (r *repairs) pause() time.Duration { return min(repairPause<<min(r.count-1, 10), lastRepairPause) }

// made notes a repair. When there was none for some time, the first one comes at once again.
func (r *repairs) made(now time.Time) {
	if now.Sub(r.last) >= verifyEvery {
		r.count = 0
	}
	r.count++
	r.last = now
}

// touch has everything compared with what it should be when somebody else has changed something, and says when to come back if that has to
// wait.
func (i *Injection) touch() time.Duration {
	if !i.registry.touched() {
		return 0
	}
	if wait := i.repairs.wait(i.options.Clock.Now()); wait > 0 {
		return wait
	}
	i.registry.take()
	i.verified, i.touched = time.Time{}, true
	return 0
}

// settled ends what touch began.
func (i *Injection) settled() {
	now := i.options.Clock.Now()
	if i.repaired {
		i.repairs.made(now)
	}
	i.verified, i.touched, i.repaired = now, false, false
}

// restored records for a set that something was restored after somebody else had changed or deleted it. Whether it acts again has to be shown.
func (i *Injection) restored(set *injectedSet, way *proof, what string, deleted bool) {
	done := map[bool]string{true: "deleted", false: "changed"}[deleted]
	known := i.proofsOf(set.name)
	known.restored = append(known.restored, fmt.Sprintf("somebody %s %s; it is as it should be again", done, what))
	*way = proof{
		shows: set.shown, notBefore: i.options.Clock.Now().Add(effectDelay), epoch: i.registry.epoch(),
		message: fmt.Sprintf("somebody %s %s, which is written again", done, what),
	}
	i.repaired = true
}

// revisionRestored is restored for the revision of what a set injects, by whichever way.
func (i *Injection) revisionRestored(set *injectedSet) {
	way := &i.proofsOf(set.name).webhook
	if set.wantBinding {
		way = &i.proofsOf(set.name).policy
	}
	i.restored(set, way, "the revision of what it injects", true)
}

// policyRestored is restored for all sets that the policy injected.
func (i *Injection) policyRestored(desired *injectionState, what string, deleted bool) {
	i.repaired = true
	for _, set := range desired.sets {
		if set.wantBinding && i.bindings[set.name] == set.binding() {
			i.restored(set, &i.proofsOf(set.name).policy, what, deleted)
		}
	}
}

// entriesRestored compares the entries that were written last with those that are there, but for how the operator is called: that others
// change, too.
func (i *Injection) entriesRestored(desired *injectionState, have, want []admissionv1.MutatingWebhook) {
	for _, set := range desired.sets {
		if !set.wantEntry || i.entries[set.name] != set.entry() {
			continue
		}
		named := func(entry admissionv1.MutatingWebhook) bool { return entry.Name == sidecar.EntryName(set.name) }
		right, there := slices.IndexFunc(want, named), slices.IndexFunc(have, named)
		if there >= 0 && right >= 0 {
			found := have[there]
			found.ClientConfig = want[right].ClientConfig
			if equality.Semantic.DeepEqual(found, want[right]) {
				continue
			}
		}
		what := "its entry in the webhook configuration " + sidecar.WebhookConfiguration
		i.restored(set, &i.proofsOf(set.name).webhook, what, there < 0)
	}
}

// events are the events about what was restored for a set since the last pass over it, and about what it shares with other sets since then.
func (p *proofs) events(set *injectedSet) []planning.Event {
	var events []planning.Event
	if set.clash != "" && set.clash != p.clash {
		events = append(events, planning.Event{Warning: true, Reason: "ContainerNameTaken", Message: set.clash})
	}
	p.clash = set.clash
	for _, message := range p.restored {
		events = append(events, planning.Event{Warning: true, Reason: "InjectionRestored", Message: message})
	}
	p.restored = nil
	return events
}
