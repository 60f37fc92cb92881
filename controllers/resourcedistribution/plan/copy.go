// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// Copy is an object with the name of the copies, in some namespace.
type Copy struct {
	// Object is its metadata. Read-only.
	Object *metav1.PartialObjectMetadata
	// Terminating: it is being deleted, perhaps by us and not yet in the view.
	Terminating bool
	// State is what is to be done about it.
	State State
	// extra are the keys others added, by field.
	extra map[string][]string
}

// State is what is to be done about a copy.
type State string

const (
	// Current copies need nothing.
	Current State = "Current"
	// Outdated copies are to be applied again: the resource has changed, or somebody changed what was copied.
	Outdated State = "Outdated"
	// Widened copies have further keys. Applying leaves them alone, so they are taken out.
	Widened State = "Widened"
	// Foreign objects belong to somebody else.
	Foreign State = "Foreign"
)

// Observe judges an object by its metadata alone. Its managed fields say who wrote what: a field that is not ours was changed, and keys of others
// were added. Ours were written from the resource with the hash of the annotation.
func Observe(spec *Spec, object *metav1.PartialObjectMetadata) Copy {
	c := Copy{Object: object, Terminating: object.DeletionTimestamp != nil, State: Foreign}
	if !metav1.IsControlledBy(object, spec.Object) {
		return c
	}
	ours, others := written(object)
	c.State = Current
	if object.Annotations[shared.AnnotationDistributedHash] != spec.Hash || object.Labels[shared.LabelDistributed] == "" || !spec.covered(ours) {
		c.State = Outdated
		return c
	}
	if c.extra = spec.beyond(others); len(c.extra) > 0 {
		c.State = Widened
	}
	return c
}

// covered is true if all of the resource's content is ours.
func (s *Spec) covered(ours fields) bool {
	for field, keys := range s.keys {
		if has, found := ours[field]; !found || !has.IsSuperset(keys) {
			return false
		}
	}
	return true
}

// beyond are the keys of others that the resource lacks, sorted.
func (s *Spec) beyond(others fields) map[string][]string {
	extra := map[string][]string{}
	for _, field := range []string{fieldData, fieldBinaryData} {
		if keys := sets.List(others[field].Difference(s.keys[field])); len(keys) > 0 {
			extra[field] = keys
		}
	}
	return extra
}

// fields are fields and the keys below them.
type fields map[string]sets.Set[string]

// written reads who wrote an object's content: us by applying, and anybody else.
func written(object *metav1.PartialObjectMetadata) (ours, others fields) {
	ours, others = fields{}, fields{}
	for i := range object.ManagedFields {
		entry := &object.ManagedFields[i]
		into := others
		if entry.Manager == shared.FieldManagerDistribution && entry.Operation == metav1.ManagedFieldsOperationApply {
			into = ours
		}
		into.add(entry.FieldsV1)
	}
	return ours, others
}

// add reads the two upper levels of an entry. Below f:data, for example, f:key stands for the key.
func (f fields) add(entry *metav1.FieldsV1) {
	if entry == nil {
		return
	}
	var levels map[string]map[string]json.RawMessage
	if json.Unmarshal(entry.GetRawBytes(), &levels) != nil {
		return // The server writes them, and nobody else can.
	}
	for name, below := range levels {
		field := strings.TrimPrefix(name, "f:")
		if f[field] == nil {
			f[field] = sets.New[string]()
		}
		for key := range below {
			if trimmed, isKey := strings.CutPrefix(key, "f:"); isKey {
				f[field].Insert(trimmed)
			}
		}
	}
}
