// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package revision decides about recorded templates: their storage, equality, names and numbers,
// and the deletion of old ones.
//
// Most kinds record a pod template: Revision, PodTemplates, Encode and Decode are for those. Of and Codec
// are the same for any other payload, such as the spec of a SidecarSet or the template of a subset.
//
// Equality is semantic: both pod templates are decoded and filled with the server's defaults first.
// So another manager's bytes, or an older library's, never make a new revision. Stored data is
// never rewritten, so an unknown field survives in it and counts as no difference.
package revision

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// maxOwnerPart is how much of the owner's name fits before the dash and the hash.
const maxOwnerPart = 223

// Revision is one recorded pod template, decoded.
type Revision = Of[corev1.PodTemplateSpec]

// Of is one recorded payload, decoded.
type Of[T any] struct {
	// Name is the name of the ControllerRevision, and the pods' label.
	Name string
	// Number is its place in history.
	Number int64
	// Template is the recorded payload of this revision's objects. Read-only; nil for the zero
	// revision.
	Template *T
	// Object is the stored object; nil while the revision has yet to be created. Read-only.
	Object *appsv1.ControllerRevision
}

// Codec says how payloads of a type are recorded.
type Codec[T any] struct {
	// Encode returns the data of a ControllerRevision. The name of a new revision follows from it, so it must not change between releases.
	Encode func(*T) ([]byte, error)
	// Decode is the reverse.
	Decode func(data []byte) (*T, error)
	// Same says whether two payloads, not nil, make the same objects.
	Same func(a, b *T) bool
	// Labels are the payload's for a new revision. May be nil.
	Labels func(*T) map[string]string
}

// PodTemplates is the Codec of pod templates. asWritten: pods are made from the template as written, and an unwritten imagePullPolicy
// follows the tag, and is not Always (DaemonSet).
func PodTemplates(asWritten bool) Codec[corev1.PodTemplateSpec] {
	defaulted := podtemplate.Defaulted
	if asWritten {
		defaulted = podtemplate.DefaultedAsWritten
	}
	return Codec[corev1.PodTemplateSpec]{
		Encode: Encode, Decode: decodeTemplate,
		Same:   func(a, b *corev1.PodTemplateSpec) bool { return same(defaulted(a), defaulted(b)) },
		Labels: func(t *corev1.PodTemplateSpec) map[string]string { return t.Labels },
	}
}

// Replacement is the data of a ControllerRevision with a payload in place of the owner's field at
// this path: a patch in JSON with sorted keys. The payload is a JSON object.
func Replacement(payload map[string]any, path ...string) ([]byte, error) {
	var patch any = payload
	payload["$patch"] = "replace"
	for _, field := range slices.Backward(path) {
		patch = map[string]any{field: patch}
	}
	return json.Marshal(patch)
}

// Encode returns the data of a ControllerRevision for the template: a patch of spec.template, as
// JSON with sorted keys. These are OpenKruise 1.9's bytes for the same template, the null
// creationTimestamp included, so a workload can go back to it without a rollout.
func Encode(t *corev1.PodTemplateSpec) ([]byte, error) {
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(t)
	if err != nil {
		return nil, fmt.Errorf("encoding the pod template: %w", err)
	}
	metadata, ok := template["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		template["metadata"] = metadata
	}
	if t.CreationTimestamp.IsZero() {
		metadata["creationTimestamp"] = nil
	}
	return Replacement(template, "spec", "template")
}

// Decode decodes a stored revision of a pod template.
func Decode(cr *appsv1.ControllerRevision) (Revision, error) {
	return DecodeOf(PodTemplates(false), cr)
}

// DecodeOf decodes a stored revision. Unknown fields of the payload are left in Object alone.
func DecodeOf[T any](codec Codec[T], cr *appsv1.ControllerRevision) (Of[T], error) {
	payload, err := codec.Decode(cr.Data.Raw)
	if err != nil {
		return Of[T]{}, fmt.Errorf("decoding revision %s: %w", cr.Name, err)
	}
	return Of[T]{Name: cr.Name, Number: cr.Revision, Template: payload, Object: cr}, nil
}

func decodeTemplate(raw []byte) (*corev1.PodTemplateSpec, error) {
	var data struct {
		Spec struct {
			Template *corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := quantity.Unmarshal(raw, &data); err != nil {
		return nil, err
	}
	if data.Spec.Template == nil {
		return nil, errors.New("its data has no spec.template")
	}
	return data.Spec.Template, nil
}

// Hash is the short name of revision data: 32-bit FNV over the data and the decimal collision count
// (nil: 0), in an alphabet without words.
func Hash(data []byte, collisionCount *int32) string {
	collisions := int64(ptr.Deref(collisionCount, 0))
	sum := fnv.New32()
	// Writing to a hash never fails.
	_, _ = sum.Write(data)
	_, _ = sum.Write([]byte(strconv.FormatInt(collisions, 10)))
	return rand.SafeEncodeString(strconv.FormatUint(uint64(sum.Sum32()), 10))
}

// Name is the name of the owner's revision with this hash.
func Name(owner, hash string) string {
	return owner[:min(len(owner), maxOwnerPart)] + "-" + hash
}

// same says whether pods from the two templates with defaults are the same: absent and empty lists and maps are equal, and
// when a template was created is not part of it.
func same(a, b *corev1.PodTemplateSpec) bool {
	a.CreationTimestamp, b.CreationTimestamp = metav1.Time{}, metav1.Time{}
	return equality.Semantic.DeepEqual(a, b)
}

// Owner is the object of the revisions.
type Owner struct {
	// Namespace is the revisions' place: the owner's, or any other for a cluster-scoped owner.
	Namespace string
	// Name is the owner's name. The names of its revisions begin with it, so owners of one kind in
	// one namespace need different names.
	Name string
	// Labels are given to a new revision beside the payload's. May be nil.
	Labels map[string]string
	// Annotations are the owner's; a new revision copies them.
	Annotations map[string]string
	// Reference is the controller reference of a new revision. An empty UID means none: an owner in
	// a namespace cannot own objects of another one.
	Reference metav1.OwnerReference
	// HashLabel is the label of a revision's hash. When empty, it is controller.kubernetes.io/hash;
	// DaemonSet uses controller-revision-hash.
	HashLabel string
}

// DecisionOf is the fate of the present payload. At most one of Create and Bump is set.
type DecisionOf[T any] struct {
	// Update is the revision of the present payload, with its number after the decision was carried out.
	Update Of[T]
	// Create is the revision to create. If a different object has the name, decide again with
	// CollisionCount plus one.
	Create *appsv1.ControllerRevision
	// Bump is a stored revision to become the newest again, a copy with its new number, or with the
	// present claim templates; nothing else of it changes.
	Bump *appsv1.ControllerRevision
	// CollisionCount is the new status.collisionCount: as given, or higher for a taken name.
	CollisionCount *int32
}

// DecideOf finds the revision of the payload among the stored ones:
//
//  1. the newest one is the same: it is used as it is;
//  2. an older one is the same: the template was rolled back, and that revision becomes the newest;
//  3. otherwise a new one is created, with an unused name.
//
// A new or renumbered revision gets the highest number plus one.
func DecideOf[T any](codec Codec[T], owner Owner, payload *T, stored []Of[T], collisionCount *int32) (DecisionOf[T], error) {
	history := slices.SortedFunc(slices.Values(stored), ByAge[T])
	var next int64 = 1
	if len(history) > 0 {
		next = history[len(history)-1].Number + 1
	}
	decision := DecisionOf[T]{CollisionCount: collisionCount}

	for i, candidate := range slices.Backward(history) {
		if candidate.Template == nil || !codec.Same(payload, candidate.Template) {
			continue
		}
		decision.Update = candidate
		if candidate.Object == nil {
			return decision, nil
		}
		older, claims := i < len(history)-1, owner.otherClaims(candidate.Object)
		if older || claims {
			decision.Bump = candidate.Object.DeepCopy()
			decision.Update.Object = decision.Bump
		}
		if older {
			decision.Bump.Revision = next
			decision.Update.Number = next
		}
		if claims {
			metav1.SetMetaDataAnnotation(&decision.Bump.ObjectMeta, shared.AnnotationRecordedClaims, owner.Annotations[shared.AnnotationRecordedClaims])
		}
		return decision, nil
	}

	data, err := codec.Encode(payload)
	if err != nil {
		return DecisionOf[T]{}, err
	}
	names := sets.New[string]()
	for _, r := range history {
		names.Insert(r.Name)
	}
	hash := Hash(data, decision.CollisionCount)
	for names.Has(Name(owner.Name, hash)) {
		decision.CollisionCount = ptr.To(ptr.Deref(decision.CollisionCount, 0) + 1)
		hash = Hash(data, decision.CollisionCount)
	}
	decision.Update = Of[T]{Name: Name(owner.Name, hash), Number: next, Template: payload}
	labels := map[string]string{}
	if codec.Labels != nil {
		maps.Copy(labels, codec.Labels(payload))
	}
	decision.Create = create(owner, labels, decision.Update.Name, next, hash, data)
	return decision, nil
}

func create(owner Owner, labels map[string]string, name string, number int64, hash string, data []byte) *appsv1.ControllerRevision {
	maps.Copy(labels, owner.Labels)
	labels[cmp.Or(owner.HashLabel, shared.LabelRevisionHash)] = hash
	created := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: owner.Namespace, Labels: labels, Annotations: maps.Clone(owner.Annotations)},
		Data:       runtime.RawExtension{Raw: data},
		Revision:   number,
	}
	if owner.Reference.UID != "" {
		created.OwnerReferences = []metav1.OwnerReference{owner.Reference}
	}
	return created
}

// ByAge orders revisions from old to new: by number; equal numbers by creation time, then by name.
func ByAge[T any](a, b Of[T]) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), created(a).Compare(created(b).Time), cmp.Compare(a.Name, b.Name))
}

func created[T any](r Of[T]) metav1.Time {
	if r.Object == nil {
		return metav1.Time{}
	}
	return r.Object.CreationTimestamp
}

// Surplus returns the revisions to delete, oldest first: all but the newest limit of those outside
// of live. live names the current and the update revision and every pod's revision.
func Surplus[T any](stored []Of[T], live sets.Set[string], limit int) []Of[T] {
	unused := slices.DeleteFunc(slices.SortedFunc(slices.Values(stored), ByAge[T]), func(r Of[T]) bool { return live.Has(r.Name) })
	return unused[:max(len(unused)-max(limit, 0), 0)]
}

// Current is the revision a workload was last completely on: the named one if it is still stored, else update.
func Current[T any](name string, update Of[T], stored map[string]Of[T]) Of[T] {
	if current, ok := stored[name]; ok {
		return current
	}
	return update
}

// HashOf is the hash in the name of a revision. It takes the hash alone, too: pods carry either as their label.
func HashOf(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

// Hash is the hash of the revision, as its object says it, else as its name ends.
func (r Of[T]) Hash() string {
	if r.Object == nil {
		return HashOf(r.Name)
	}
	return cmp.Or(r.Object.Labels[shared.LabelRevisionHash], r.Object.Labels[shared.LabelControllerRevisionHash], HashOf(r.Name))
}
