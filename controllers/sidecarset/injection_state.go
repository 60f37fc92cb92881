// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

const (
	// nameLabel and versionLabel are on the revisions of a set's history.
	nameLabel    = "kruise.io/sidecarset-name"
	versionLabel = "apps.kruise.io/sidecarset-custom-version"
)

// injectionState is what all sets inject.
type injectionState struct {
	sets map[string]*injectedSet
	// ownerless says that there is no installation owner, so nothing may be written that can refuse pods.
	ownerless bool
}

// injectedSet is what one set injects, and how.
type injectedSet struct {
	name  string
	owner metav1.OwnerReference
	// parsed is the set as it is stored.
	parsed   *sidecar.Set
	ignore   bool
	fault    error
	compiled sidecar.Injection
	// revision is the name of the ControllerRevision, data what is in it.
	revision string
	data     []byte
	// call is the name of the ControllerRevision that the entry of the webhook names, callData what is in it: revision, unless the set may meet others.
	call     string
	callData []byte
	// meets are the revisions of the sets by webhook that it may meet on a pod.
	meets []string
	// clash says, in words, which containers other sets give to the same pods, too; empty: none.
	clash string
	// shown is what a proof shows: that pods which the set selects get the revision.
	shown string
	// reasons are why the policy cannot do it; without any it can.
	reasons []string
	// wantEntry and wantBinding are what should be registered.
	wantEntry, wantBinding bool
	// narrow says that the entry is for the pods alone that the policy leaves.
	narrow bool
	// entrySize is how much room its entry takes, without how the operator is called. crowdedOut says that there is no room for it.
	entrySize  int
	crowdedOut bool
	// held says that the user wants nothing to be done for the set, and that its present spec was not taken up before: passes over other sets leave alone what
	// is registered for it.
	held bool
	// refused is why its revisions are not written: the server refuses them, by a quota for example, or the set is held. What is registered for it stays as
	// it is meanwhile; standing are the revisions that this names.
	refused  error
	standing []string
	// succeeds says that what is registered under its name is of an earlier set, which is gone.
	succeeds bool
}

// stands says that what is registered for the set stays as it is.
func (set *injectedSet) stands() bool { return set.refused != nil && !set.succeeds }

// isHeld says that the user wants nothing to be done for a set whose present spec nothing was done about yet. Where it is the spec of before, what the set
// injects follows other sets all the same: which of them inject into its pods, too, and by which way the API server can.
func isHeld(object *unstructured.Unstructured) bool {
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	return workload.Paused(object) && observed != object.GetGeneration()
}

// narrowEntry begins what is noted of an entry for the pods alone that the policy leaves.
const narrowEntry = "beyond the policy: "

// entry and binding say what should be registered, for comparison with what is.
func (set *injectedSet) entry() string {
	if !set.wantEntry {
		return ""
	}
	text := fmt.Sprint(set.call, set.ignore, set.parsed.Match)
	if set.narrow {
		return narrowEntry + text
	}
	return text
}

func (set *injectedSet) binding() string {
	if !set.wantBinding {
		return ""
	}
	return fmt.Sprint(set.revision, set.owner.UID, set.parsed.Match)
}

// same says whether two states inject the same.
func (s injectionState) same(other injectionState) bool {
	return maps.EqualFunc(s.sets, other.sets, func(a, b *injectedSet) bool {
		return a.revision == b.revision && a.ignore == b.ignore && a.owner.UID == b.owner.UID && a.parsed.Paused == b.parsed.Paused && a.held == b.held && (a.fault == nil) == (b.fault == nil)
	})
}

// maxInjected is how many bytes the data of a revision may have: the etcd of a cluster stores 1.5 MiB of an object. One set that cannot be stored would
// keep all others from being registered.
const maxInjected = 1_400_000

// maxClashes is how many containers are named that other sets have, too.
const maxClashes = 5

// pinnedFor is how long a historic revision that a set asks for is taken to be what it was, or not to be there.
const pinnedFor = 10 * time.Second

// compiled is what sets inject, until one of them changes.
type compiled struct {
	// of are the versions of the sets, and of the revisions of their specs.
	of string
	at time.Time
	// pins says that a set asks for a historic revision, which may change without the set.
	pins bool
	sets map[string]*injectedSet
}

// observe reads all sets, and compiles them if one has changed: passes come with every change of a pod.
func (i *Injection) observe(ctx context.Context) (injectionState, error) {
	list, err := i.options.Sets(ctx)
	if err != nil {
		return injectionState{}, fmt.Errorf("reading the SidecarSets: %w", err)
	}
	desired := injectionState{ownerless: i.registered.ownerless}
	if err := i.recall(ctx, list); err != nil {
		return injectionState{}, err
	}
	of, now := i.versions(list), i.options.Clock.Now()
	if of != i.compiled.of || i.compiled.pins && now.Sub(i.compiled.at) >= pinnedFor {
		made := compiled{of: of, at: now}
		made.sets, made.pins, err = i.compile(ctx, list)
		if err != nil {
			return injectionState{}, err
		}
		i.compiled = made
	}
	desired.sets = i.compiled.sets
	return desired, nil
}

// versions say which sets there are, and all that may change what they inject. A status does not, once the latest revision is known from the set's own
// pass: each pass of a rollout writes one.
func (i *Injection) versions(list []unstructured.Unstructured) string {
	all := make([]string, len(list))
	for at := range list {
		object := &list[at]
		latest, annotations := i.latest[object.GetName()], object.GetAnnotations()
		version := []any{
			object.GetName(), object.GetUID(), object.GetGeneration(), object.GetDeletionTimestamp() != nil, isHeld(object),
			annotations[sidecar.FailurePolicyAnnotation], annotations[sidecar.CanaryAnnotation], annotations[sidecar.BaseAnnotation],
		}
		if latest.of(object.GetGeneration()) {
			version = append(version, latest.Revision, latest.Made.UnixNano(), latest.Hash, latest.HashWithoutImage)
		} else {
			observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
			revision, _, _ := unstructured.NestedString(object.Object, "status", "latestRevision")
			version = append(version, observed == object.GetGeneration(), revision, annotations[sidecar.HashAnnotation], annotations[sidecar.HashWithoutImageAnnotation])
		}
		all[at] = fmt.Sprintf("%#v", version)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// recall finds, once in the life of the process, when the revisions of sets were made whose own passes are yet to come. What a set injects says so:
// without, the first pass over another set would register it again.
func (i *Injection) recall(ctx context.Context, list []unstructured.Unstructured) error {
	for at := range list {
		object := &list[at]
		observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		name, _, _ := unstructured.NestedString(object.Object, "status", "latestRevision")
		if _, known := i.latest[object.GetName()]; known || name == "" || observed != object.GetGeneration() {
			continue
		}
		revision, err := i.recorded(ctx, object, name)
		if err != nil {
			return fmt.Errorf("reading the history of SidecarSet %s: %w", object.GetName(), err)
		}
		i.latest[object.GetName()] = Latest{} // Nobody knows, unless it is found.
		if revision == nil {
			continue
		}
		annotations := revision.Annotations // Those of the set may be of an earlier revision.
		if annotations[sidecar.HashAnnotation] == "" || annotations[sidecar.HashWithoutImageAnnotation] == "" {
			annotations = object.GetAnnotations()
		}
		i.latest[object.GetName()] = Latest{
			Generation: observed, Revision: name, Made: revision.CreationTimestamp.Time,
			Hash: annotations[sidecar.HashAnnotation], HashWithoutImage: annotations[sidecar.HashWithoutImageAnnotation],
		}
	}
	return nil
}

// recorded reads the metadata of a revision of a set by its name; nil: there is none.
func (i *Injection) recorded(ctx context.Context, object *unstructured.Unstructured, name string) (*metav1.PartialObjectMetadata, error) {
	for _, namespace := range sidecarspec.RevisionNamespaces(i.options.Namespace) {
		revision := &metav1.PartialObjectMetadata{}
		revision.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
		err := i.options.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, revision)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if owner := metav1.GetControllerOfNoCopy(revision); err == nil && owner != nil && owner.UID == object.GetUID() {
			return revision, nil
		}
	}
	return nil, nil
}

// compile compiles all sets, and says whether one asks for a historic revision.
func (i *Injection) compile(ctx context.Context, list []unstructured.Unstructured) (map[string]*injectedSet, bool, error) {
	sets, pins := map[string]*injectedSet{}, false
	var all []*sidecar.Set
	for at := range list {
		if list[at].GetDeletionTimestamp() != nil {
			continue
		}
		object := list[at].DeepCopy()
		set := &injectedSet{
			name: object.GetName(), held: isHeld(object), ignore: sidecar.FailurePolicy(object.GetAnnotations()) == admissionv1.Ignore,
			owner: metav1.OwnerReference{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: object.GetName(), UID: object.GetUID()},
		}
		sets[set.name] = set
		if set.parsed, set.fault = sidecar.ParseSet(object.Object); set.fault != nil {
			set.parsed = &sidecar.Set{Name: set.name, Paused: true}
			continue
		}
		if set.fault = i.complete(set.parsed, object); set.fault != nil {
			set.parsed.Paused = true
			continue
		}
		if set.parsed.Revision != nil && !set.parsed.Paused {
			pins = true
			revision, err := i.pinned(ctx, set.parsed, set.owner.UID)
			if err != nil {
				return nil, false, set.errorf(err)
			}
			if revision != nil {
				set.parsed.Pinned, set.fault = payloadOf(revision)
			}
		}
		all = append(all, set.parsed)
	}
	for _, set := range sets {
		if set.fault != nil || set.parsed.Paused {
			continue
		}
		if set.compiled, set.fault = sidecar.Compile(set.parsed, all); set.fault == nil {
			set.revision, set.data, set.fault = set.compiled.Encode()
		}
		if size := len(set.data); size > maxInjected {
			set.revision, set.data = "", nil
			set.fault = fmt.Errorf("what it injects has %d bytes, and at most %d can be stored", size, maxInjected)
		}
		if clashes := set.compiled.Clashes(); len(clashes) > 0 {
			set.clash = "pods that other sets select, too, have one container of each name, from this set or from the other one: " + conditions.First(clashes, maxClashes, ", ")
		}
		set.shown = set.revision + " " + fmt.Sprint(set.parsed.Match)
		set.entrySize = i.entrySize(set)
	}
	return sets, pins, nil
}

// complete fills in what the stored object does not say: the hashes, which depend on defaults, and the revision of its spec, which its status
// may not know yet.
func (i *Injection) complete(set *sidecar.Set, object *unstructured.Unstructured) error {
	typed := &appsv1beta1.SidecarSet{}
	if err := quantity.FromUnstructured(object.Object, typed); err != nil {
		return fmt.Errorf("decoding the SidecarSet: %w", err)
	}
	raw, _, _ := unstructured.NestedMap(object.Object, "spec")
	set.SortByName = i.options.SortByName
	latest := i.latest[set.Name]
	switch {
	case latest.of(typed.Generation):
		set.Latest.Revision, set.Latest.Hash, set.Latest.HashWithoutImage = latest.Revision, latest.Hash, latest.HashWithoutImage
		if !latest.Made.IsZero() {
			set.Latest.Time = latest.Made.UTC().Format(time.RFC3339)
		}
	case typed.Status.ObservedGeneration != typed.Generation:
		set.Latest.Revision, set.Latest.Hash = "", ""
	case latest.Generation == typed.Generation && latest.Hash != "": // The server refuses the revision, and may have refused the annotations.
		set.Latest.Hash, set.Latest.HashWithoutImage = latest.Hash, latest.HashWithoutImage
	}
	if set.Latest.Hash != "" {
		return nil
	}
	hashes, err := sidecarspec.HashesOf(sidecarspec.PayloadOf(&typed.Spec, raw))
	set.Latest.Hash, set.Latest.HashWithoutImage = hashes.Hash, hashes.WithoutImage
	return err
}

// pinned reads the historic revision that a set asks for. When there is none, compiling says so. Nobody but the operator writes to its own namespace, so what
// is there goes first.
func (i *Injection) pinned(ctx context.Context, set *sidecar.Set, uid types.UID) (*appsv1.ControllerRevision, error) {
	for _, namespace := range sidecarspec.RevisionNamespaces(i.options.Namespace) {
		found, err := i.history(ctx, namespace, set)
		if err != nil {
			return nil, fmt.Errorf("reading its history: %w", err)
		}
		found = slices.DeleteFunc(found, func(r appsv1.ControllerRevision) bool {
			owner := metav1.GetControllerOfNoCopy(&r)
			return r.Labels[nameLabel] != set.Name || namespace != i.options.Namespace && (owner == nil || owner.UID != uid)
		})
		if len(found) > 0 {
			newest := slices.MaxFunc(found, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
			return &newest, nil
		}
	}
	return nil, nil
}

// history reads the revisions in a namespace that a set may mean: one by its name, or those of a version.
func (i *Injection) history(ctx context.Context, namespace string, set *sidecar.Set) ([]appsv1.ControllerRevision, error) {
	if set.Revision.Name == "" {
		list := &appsv1.ControllerRevisionList{}
		err := i.options.Live.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{nameLabel: set.Name, versionLabel: set.Revision.CustomVersion})
		return list.Items, err
	}
	named := appsv1.ControllerRevision{}
	err := i.options.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: set.Revision.Name}, &named)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return []appsv1.ControllerRevision{named}, err
}

// payloadOf is what a historic revision injects. One that cannot be decoded is a fault of its set alone.
func payloadOf(revision *appsv1.ControllerRevision) (*sidecar.Payload, error) {
	data := map[string]any{}
	if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("decoding revision %s: %w", revision.Name, err)
	}
	payload, err := sidecar.ParseRevision(data)
	if err != nil {
		return nil, fmt.Errorf("revision %s: %w", revision.Name, err)
	}
	hashes, err := sidecarspec.HashesRecorded(revision)
	if err != nil {
		return nil, fmt.Errorf("revision %s: %w", revision.Name, err)
	}
	payload.Hash, payload.HashWithoutImage = hashes.Hash, hashes.WithoutImage
	payload.Revision, payload.Time = revision.Name, revision.CreationTimestamp.UTC().Format(time.RFC3339)
	return payload, nil
}

// whyNotByPolicy says why a set is not injected by a policy; nothing when it is. available is why none is.
func whyNotByPolicy(set *injectedSet, known *proofs, available string, now time.Time) []string {
	var reasons []string
	if available != "" {
		reasons = append(reasons, available)
	}
	if features := set.compiled.Webhooked(); len(features) > 0 {
		reasons = append(reasons, "the policy does not do "+strings.Join(features, " and "))
	}
	if refused := known.fieldCheck.refused; refused != "" {
		reasons = append(reasons, "a policy may not set what the API server does not know: "+refused)
	}
	if known.policyBackoff.left(now) > 0 {
		reasons = append(reasons, known.policyBackoff.ineffective())
	}
	if known.binding.left(now) > 0 {
		reasons = append(reasons, "its binding to the policy could not be written: "+known.binding.fault)
	}
	return reasons
}

// planWays decides by which ways one set is to be open.
func (i *Injection) planWays(set *injectedSet, known *proofs, ownerless bool) {
	byPolicy := len(set.reasons) == 0 && !ownerless
	if i.bindings[set.name] == "" {
		known.policy = unproven() // What was seen of an earlier binding says nothing about the next one.
	}
	if byPolicy && known.policyBackoff.count > 0 && !known.policy.holds(set.shown) {
		set.reasons = append(set.reasons, known.policyBackoff.ineffective()) // It is being tried again.
	}
	set.wantBinding = byPolicy || i.bindings[set.name] != "" && !ownerless && !known.webhook.holds(set.shown)
	set.wantEntry = !byPolicy || i.entries[set.name] != "" && !known.policy.holds(set.shown)
	if byPolicy && set.compiled.Guard != nil {
		// What the policy leaves is the webhook's. An entry that is open for all pods stays so until the policy is proven.
		entry := i.entries[set.name]
		set.wantEntry, set.narrow = true, entry == "" || strings.HasPrefix(entry, narrowEntry) || known.policy.holds(set.shown)
	}
	if ownerless && !set.ignore {
		set.wantEntry = false
	}
}

// plan decides by which ways each set is to be open. While one takes the place of the other, both are, until the new one is proven.
func (i *Injection) plan(desired *injectionState) {
	available := i.policyAvailable()
	now := i.options.Clock.Now()
	for _, set := range desired.sets {
		set.wantEntry, set.wantBinding, set.narrow, set.crowdedOut, set.reasons = false, false, false, false, nil
		if set.fault != nil || set.parsed.Paused {
			continue
		}
		if i.proofs[set.name] == nil {
			i.proofs[set.name] = &proofs{}
		}
		set.reasons = whyNotByPolicy(set, i.proofs[set.name], available, now)
		i.planWays(set, i.proofs[set.name], desired.ownerless)
	}
	i.makeRoom(desired)
	i.meet(desired)
	for name := range i.proofs {
		if desired.sets[name] == nil {
			delete(i.proofs, name)
			delete(i.latest, name)
		}
	}
}
