// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
)

type injectedSet struct {
	name  string
	owner metav1.OwnerReference
	// parsed is the set as it is stored.
	parsed    *sidecar.Set
	onFailure admissionv1.FailurePolicyType
	fault     error
	compiled  sidecar.Injection
	// features are those the policy lacks, in words.
	features []string
	// revision is the ControllerRevision's name, data its content.
	revision string
	data     []byte
	// clash lists, in words, containers other sets also give these pods; empty: none.
	clash string
	// shown is the expected result of a check: selected pods get the revision.
	shown string
	// held: the user has paused work on the set before its present spec was taken up.
	held bool
	// byPolicyBefore: the status shows injection by policy.
	byPolicyBefore bool
}

func (set *injectedSet) injects() bool {
	return set != nil && set.fault == nil && !set.parsed.Paused && !set.held
}

// isHeld reports whether the user has paused work before the present spec
// was taken up. With an old spec, its injection still follows other sets.
func isHeld(object *unstructured.Unstructured) bool {
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	return workload.Paused(object) && observed != object.GetGeneration()
}

// maxInjected limits a revision's data, in bytes: etcd stores 1.5 MiB of
// an object. One oversized set would block the registration of all others.
const maxInjected = 1_400_000

// maxClashes limits the shared containers named.
const maxClashes = 5

// pinnedFor is how long a pinned revision, or its absence, is cached.
const pinnedFor = 10 * time.Second

// compiled caches the injection until a set changes.
type compiled struct {
	// of are the versions of the sets, and of the revisions of their specs.
	of string
	at time.Time
	// pins: a set pins a historic revision, so its injection may change without it.
	pins bool
	sets map[string]*injectedSet
}

// observe reads all sets, and compiles them only after a change: passes come with every change of a pod.
func (i *Injection) observe(ctx context.Context) (map[string]*injectedSet, error) {
	list, err := i.options.Sets(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the SidecarSets: %w", err)
	}
	of, now := i.versions(list), i.options.Clock.Now()
	if of != i.compiled.of || i.compiled.pins && now.Sub(i.compiled.at) >= pinnedFor {
		made := compiled{of: of, at: now}
		made.sets, made.pins, err = i.compile(ctx, list)
		if err != nil {
			return nil, err
		}
		i.compiled = made
	}
	return i.compiled.sets, nil
}

// versions identifies all input of compiling. A status counts only until the
// set's own pass reports the latest revision: each pass of a rollout writes one.
func (i *Injection) versions(list []unstructured.Unstructured) string {
	all := make([]string, len(list))
	for at := range list {
		object := &list[at]
		latest, annotations := i.latest[object.GetName()], object.GetAnnotations()
		version := []any{
			object.GetName(), object.GetUID(), object.GetGeneration(), object.GetDeletionTimestamp() != nil, isHeld(object),
			annotations[shared.AnnotationInjectionFailurePolicy], annotations[shared.AnnotationSidecarSetCanary], annotations[shared.AnnotationSidecarSetBase],
		}
		if latest.of(object.GetGeneration()) {
			version = append(version, latest.Revision, latest.Hashes)
		} else {
			observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
			revision, _, _ := unstructured.NestedString(object.Object, "status", "latestRevision")
			version = append(version, observed == object.GetGeneration(), revision, annotations[shared.AnnotationSidecarSetHash], annotations[shared.AnnotationSidecarSetHashWithoutImage])
		}
		all[at] = fmt.Sprintf("%#v", version)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// compile compiles all sets; pins: one pins a historic revision.
func (i *Injection) compile(ctx context.Context, list []unstructured.Unstructured) (map[string]*injectedSet, bool, error) {
	sets, pins := map[string]*injectedSet{}, false
	var all []*sidecar.Set
	for at := range list {
		if list[at].GetDeletionTimestamp() != nil {
			continue
		}
		object := list[at].DeepCopy()
		set := &injectedSet{
			name: object.GetName(), held: isHeld(object), onFailure: sidecar.FailurePolicy(object.GetAnnotations()),
			owner: metav1.OwnerReference{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: object.GetName(), UID: object.GetUID()},
		}
		sets[set.name] = set
		if set.parsed, set.fault = sidecar.ParseSet(object.Object); set.fault == nil {
			set.fault = i.complete(set.parsed, object)
		}
		if set.fault != nil {
			set.parsed = &sidecar.Set{Name: set.name, Paused: true}
			continue
		}
		if set.parsed.Revision != nil && !set.parsed.Paused {
			pins = true
			revision, err := i.pinned(ctx, set.parsed, set.owner.UID)
			if err != nil {
				return nil, false, fmt.Errorf("injecting SidecarSet %s: %w", set.name, err)
			}
			if revision != nil {
				set.parsed.Pinned, set.fault = payloadOf(revision)
			}
		}
		path := meta.FindStatusCondition(set.parsed.Stored.Status.Conditions, ConditionInjectionPath)
		set.byPolicyBefore = path != nil && path.Status == metav1.ConditionTrue && path.Reason == string(PathPolicy)
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
		set.features = set.compiled.Webhooked()
	}
	return sets, pins, nil
}

// complete adds facts the stored object lacks: the hashes depend
// on defaults, and the status may not name the revision yet.
func (i *Injection) complete(set *sidecar.Set, object *unstructured.Unstructured) error {
	typed := set.Stored
	set.SortByName = i.options.SortByName
	latest := i.latest[set.Name]
	switch {
	case latest.of(typed.Generation):
		set.Latest.Revision, set.Latest.Hashes = latest.Revision, latest.Hashes
	case typed.Status.ObservedGeneration == typed.Generation && latest.Generation == typed.Generation && latest.Hash != "":
		set.Latest.Hashes = latest.Hashes // The server refuses the revision, and may have refused the annotations.
	case typed.Status.ObservedGeneration != typed.Generation || set.Latest.Hash == "":
		return foresee(&set.Latest, typed, object, i.options.Namespace)
	}
	return nil
}

// pinned reads the pinned revision. If it is absent, compiling says
// so. The operator's namespace wins: only the operator writes there.
func (i *Injection) pinned(ctx context.Context, set *sidecar.Set, uid types.UID) (*appsv1.ControllerRevision, error) {
	for _, namespace := range sidecarspec.RevisionNamespaces(i.options.Namespace) {
		found, err := i.history(ctx, namespace, set)
		if err != nil {
			return nil, fmt.Errorf("reading its history: %w", err)
		}
		found = slices.DeleteFunc(found, func(r appsv1.ControllerRevision) bool {
			owner := metav1.GetControllerOfNoCopy(&r)
			return r.Labels[shared.LabelSidecarSetName] != set.Name || namespace != i.options.Namespace && (owner == nil || owner.UID != uid)
		})
		if len(found) > 0 {
			newest := slices.MaxFunc(found, func(a, b appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
			return &newest, nil
		}
	}
	return nil, nil
}

// history reads a set's candidates in a namespace: one by name, or those of a version.
func (i *Injection) history(ctx context.Context, namespace string, set *sidecar.Set) ([]appsv1.ControllerRevision, error) {
	name := ptr.Deref(set.Revision.RevisionName, "")
	if name == "" {
		list := &appsv1.ControllerRevisionList{}
		err := i.options.Live.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{
			shared.LabelSidecarSetName: set.Name, shared.LabelSidecarSetCustomVersion: ptr.Deref(set.Revision.CustomVersion, ""),
		})
		return list.Items, err
	}
	named := appsv1.ControllerRevision{}
	err := i.options.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &named)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return []appsv1.ControllerRevision{named}, err
}

// payloadOf decodes a historic revision. A failure affects its set alone.
func payloadOf(revision *appsv1.ControllerRevision) (*sidecar.Payload, error) {
	data := map[string]any{}
	if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("decoding revision %s: %w", revision.Name, err)
	}
	payload, err := sidecar.ParseRevision(data)
	if err != nil {
		return nil, fmt.Errorf("revision %s: %w", revision.Name, err)
	}
	if payload.Hashes, err = sidecarspec.HashesRecorded(revision); err != nil {
		return nil, fmt.Errorf("revision %s: %w", revision.Name, err)
	}
	payload.Revision, payload.Time = revision.Name, revision.CreationTimestamp
	return payload, nil
}

// foresee fills in the hashes and the future name of the spec's revision.
func foresee(p *sidecar.Payload, set *appsv1beta1.SidecarSet, object *unstructured.Unstructured, namespace string) error {
	raw, _, _ := unstructured.NestedMap(object.Object, "spec")
	payload := sidecarspec.PayloadOf(&set.Spec, raw)
	hashes, err := sidecarspec.HashesOf(payload)
	if err != nil {
		return err
	}
	decision, err := revision.DecideOf(sidecarspec.Codec(), ownerOfRevisions(set, namespace, hashes), payload, nil, set.Status.CollisionCount)
	p.Hashes, p.Revision = hashes, decision.Update.Name
	return err
}
