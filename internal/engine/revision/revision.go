// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package revision decides about recorded pod templates: what is stored, whether two are the same, what they are called,
// which number they get and which old ones go.
//
// Equality is semantic: both templates are decoded and filled with the server's defaults first. Bytes that another
// manager wrote, or that an older library printed differently, therefore never make a new revision. Stored data is never
// rewritten, so a field this program does not know survives in it and counts as no difference.
package revision

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
)

// maxOwnerPart is how much of the owner's name fits before the dash and the hash.
const maxOwnerPart = 223

// Revision is one recorded template, decoded.
type Revision struct {
	// Name is the name of the ControllerRevision, and what pods carry as their label.
	Name string
	// Number is its place in history.
	Number int64
	// Template is the recorded template. Read-only; nil for the zero Revision.
	Template *corev1.PodTemplateSpec
	// Object is the stored object; nil while the revision has yet to be created. Read-only.
	Object *appsv1.ControllerRevision
}

// Encode returns the data of a ControllerRevision for the template: a patch that replaces spec.template, as JSON with sorted
// keys. These are the bytes that OpenKruise 1.9 writes for the same template, the null creationTimestamp included, so that a
// fleet can go back to it without a rollout.
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
	template["$patch"] = "replace"
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	if err := encoder.Encode(map[string]any{"spec": map[string]any{"template": template}}); err != nil {
		return nil, fmt.Errorf("encoding the pod template: %w", err)
	}
	return bytes.TrimRight(data.Bytes(), "\n"), nil
}

// Decode reads a stored revision. Fields of the template that this program does not know are left in Object alone.
func Decode(cr *appsv1.ControllerRevision) (Revision, error) {
	var data struct {
		Spec struct {
			Template *corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(cr.Data.Raw, &data); err != nil {
		return Revision{}, fmt.Errorf("decoding revision %s: %w", cr.Name, err)
	}
	if data.Spec.Template == nil {
		return Revision{}, fmt.Errorf("decoding revision %s: %w", cr.Name, errNoTemplate)
	}
	return Revision{Name: cr.Name, Number: cr.Revision, Template: data.Spec.Template, Object: cr}, nil
}

var errNoTemplate = errors.New("its data has no spec.template")

// Hash is the short name of revision data: 32-bit FNV over the data and the decimal collision count (nil: 0), in an alphabet
// that cannot spell words.
func Hash(data []byte, collisionCount *int32) string {
	var collisions int64
	if collisionCount != nil {
		collisions = int64(*collisionCount)
	}
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

// Same says whether pods made from the two templates are the same: both are filled with defaults, and absent and empty lists
// and maps are equal.
func Same(a, b *corev1.PodTemplateSpec) bool {
	if a == nil || b == nil {
		return a == b
	}
	return same(podtemplate.Defaulted(a), podtemplate.Defaulted(b))
}

// same compares templates with defaults. When a template was created is not part of it.
func same(a, b *corev1.PodTemplateSpec) bool {
	a.CreationTimestamp, b.CreationTimestamp = metav1.Time{}, metav1.Time{}
	return equality.Semantic.DeepEqual(a, b)
}

// Owner is the workload whose revisions are decided about.
type Owner struct {
	Namespace, Name string
	// Annotations are those of the workload; a new revision copies them.
	Annotations map[string]string
	// Reference is the controller reference that a new revision gets.
	Reference metav1.OwnerReference
	// HashLabel is the key of the label that holds a revision's hash. When empty, it is controller.kubernetes.io/hash; DaemonSet
	// uses controller-revision-hash.
	HashLabel string
}

// Decision is what becomes of the present template. At most one of Create and Bump is set.
type Decision struct {
	// Update is the revision of the present template, with its number after the decision was carried out.
	Update Revision
	// Create is the revision to create. When the server says that the name is taken by a different object, decide again with
	// CollisionCount plus one.
	Create *appsv1.ControllerRevision
	// Bump is a stored revision that becomes the newest again, a copy with its new number; nothing else of it changes.
	Bump *appsv1.ControllerRevision
	// CollisionCount is what status.collisionCount should be: as given, or higher when a name was taken.
	CollisionCount *int32
}

// Decide finds the revision of the template among the stored ones:
//
//  1. the newest one is the same: it is used as it is;
//  2. an older one is the same: the template was rolled back, and that revision becomes the newest;
//  3. otherwise a new one is created, with a name that no stored one has.
//
// A new or renumbered revision gets the highest number plus one.
func Decide(owner Owner, template *corev1.PodTemplateSpec, stored []Revision, collisionCount *int32) (Decision, error) {
	history := slices.SortedFunc(slices.Values(stored), ByAge)
	var next int64 = 1
	if len(history) > 0 {
		next = history[len(history)-1].Number + 1
	}
	decision := Decision{CollisionCount: collisionCount}

	wanted := podtemplate.Defaulted(template)
	for i, candidate := range slices.Backward(history) {
		if candidate.Template == nil || !same(wanted, podtemplate.Defaulted(candidate.Template)) {
			continue
		}
		decision.Update = candidate
		if i < len(history)-1 && candidate.Object != nil {
			decision.Bump = candidate.Object.DeepCopy()
			decision.Bump.Revision = next
			decision.Update.Number = next
			decision.Update.Object = decision.Bump
		}
		return decision, nil
	}

	data, err := Encode(template)
	if err != nil {
		return Decision{}, err
	}
	names := sets.New[string]()
	for _, r := range history {
		names.Insert(r.Name)
	}
	hash := Hash(data, decision.CollisionCount)
	for names.Has(Name(owner.Name, hash)) {
		var bumped int32 = 1
		if decision.CollisionCount != nil {
			bumped = *decision.CollisionCount + 1
		}
		decision.CollisionCount = &bumped
		hash = Hash(data, &bumped)
	}
	decision.Update = Revision{Name: Name(owner.Name, hash), Number: next, Template: template}
	decision.Create = create(owner, template, decision.Update, hash, data)
	return decision, nil
}

func create(owner Owner, template *corev1.PodTemplateSpec, r Revision, hash string, data []byte) *appsv1.ControllerRevision {
	labels := map[string]string{}
	maps.Copy(labels, template.Labels)
	labels[cmp.Or(owner.HashLabel, shared.LabelRevisionHash)] = hash
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:            r.Name,
			Namespace:       owner.Namespace,
			Labels:          labels,
			Annotations:     maps.Clone(owner.Annotations),
			OwnerReferences: []metav1.OwnerReference{owner.Reference},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: r.Number,
	}
}

// ByAge orders revisions from old to new: by number; equal numbers by creation time, then by name.
func ByAge(a, b Revision) int {
	return cmp.Or(cmp.Compare(a.Number, b.Number), created(a).Compare(created(b).Time), cmp.Compare(a.Name, b.Name))
}

func created(r Revision) metav1.Time {
	if r.Object == nil {
		return metav1.Time{}
	}
	return r.Object.CreationTimestamp
}

// Surplus returns the revisions to delete, oldest first: of those whose name is not in live, all but the newest limit. live names
// the current and the update revision and every revision that a pod carries.
func Surplus(stored []Revision, live sets.Set[string], limit int) []Revision {
	unused := slices.DeleteFunc(slices.SortedFunc(slices.Values(stored), ByAge), func(r Revision) bool { return live.Has(r.Name) })
	return unused[:max(len(unused)-max(limit, 0), 0)]
}

// Current is the revision a fleet was last completely on: the named one if it is still stored, else update.
func Current(name string, update Revision, stored map[string]Revision) Revision {
	if current, ok := stored[name]; ok {
		return current
	}
	return update
}
