// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// Kind is the kind of the objects planned here.
func Kind() schema.GroupVersionKind {
	return appsv1beta1.GroupVersion().WithKind("ResourceDistribution")
}

// KindConfigMap and KindSecret are the kinds of copies.
func KindConfigMap() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("ConfigMap") }

// KindSecret is the other kind of copies.
func KindSecret() schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind("Secret") }

// The fields of a copy besides its metadata. stringData is written as data, as the server stores it.
const (
	fieldData       = "data"
	fieldBinaryData = "binaryData"
	fieldStringData = "stringData"
	fieldImmutable  = "immutable"
	fieldType       = "type"
)

// Exempt are the namespaces without copies, even when they are named.
func Exempt() []string { return []string{metav1.NamespacePublic, metav1.NamespaceSystem} }

// Spec is a ResourceDistribution as read at the beginning of a pass.
type Spec struct {
	Object *appsv1beta1.ResourceDistribution
	// Deleting: its copies go with it.
	Deleting bool
	// Invalid says why it cannot be carried out; nil: it can.
	Invalid error
	// Kind and Name are those of the copies.
	Kind schema.GroupVersionKind
	Name string
	// Hash identifies the resource, in an annotation of each copy.
	Hash    string
	Targets Targets

	// metadata is the resource's, as far as it is copied, content its other fields.
	metadata metav1.ObjectMeta
	content  map[string]any
	// keys are the content's fields and, of maps, their keys.
	keys map[string]sets.Set[string]
}

// Resource is the part of spec.resource that has rules.
type Resource struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Type            corev1.SecretType `json:"type"`
}

// Parse reads a ResourceDistribution.
func Parse(object *appsv1beta1.ResourceDistribution) *Spec {
	spec := &Spec{Object: object, Deleting: object.DeletionTimestamp != nil}
	spec.Targets, spec.Invalid = ParseTargets(&object.Spec.Targets)
	if err := spec.readResource(object.Spec.Resource.Raw); err != nil {
		spec.Invalid = fmt.Errorf("spec.resource: %w", err)
	}
	return spec
}

// readResource takes the resource apart.
func (s *Spec) readResource(raw []byte) error {
	sum := sha256.Sum256(raw)
	s.Hash = hex.EncodeToString(sum[:])
	var resource Resource
	if err := json.Unmarshal(raw, &resource); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &s.content); err != nil {
		return err
	}
	s.Kind, s.Name = resource.GroupVersionKind(), resource.Metadata.Name
	if s.Kind != KindConfigMap() && s.Kind != KindSecret() {
		return fmt.Errorf("has kind %s of %s; copied are kinds ConfigMap and Secret of v1", resource.Kind, resource.APIVersion)
	}
	s.metadata = resource.Metadata
	metav1.SetMetaDataLabel(&s.metadata, shared.LabelDistributed, "true")
	metav1.SetMetaDataAnnotation(&s.metadata, shared.AnnotationDistributedFrom, s.Object.Name)
	metav1.SetMetaDataAnnotation(&s.metadata, shared.AnnotationDistributedHash, s.Hash)
	maps.DeleteFunc(s.content, func(field string, value any) bool {
		return value == nil || !slices.Contains([]string{fieldData, fieldBinaryData, fieldStringData, fieldImmutable, fieldType}, field)
	})
	if err := s.encodeStrings(); err != nil {
		return err
	}
	s.keys = map[string]sets.Set[string]{}
	for field, value := range s.content {
		keys, _ := value.(map[string]any)
		s.keys[field] = sets.KeySet(keys)
	}
	return nil
}

// encodeStrings moves stringData into data: the server does the same, and the copy would differ from the resource for ever.
func (s *Spec) encodeStrings() error {
	texts, found := s.content[fieldStringData].(map[string]any)
	delete(s.content, fieldStringData)
	if !found || s.Kind != KindSecret() {
		return nil
	}
	data := map[string]any{}
	given, _ := s.content[fieldData].(map[string]any)
	maps.Copy(data, given)
	for key, value := range texts {
		text, isText := value.(string)
		if !isText {
			return errors.New("stringData." + key + " is no text")
		}
		data[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	s.content[fieldData] = data
	return nil
}

// Targets tell which namespaces get a copy.
type Targets struct {
	all                bool
	included, excluded sets.Set[string]
	selector           labels.Selector
}

// ParseTargets reads spec.targets.
func ParseTargets(from *appsv1beta1.ResourceDistributionTargets) (Targets, error) {
	t := Targets{all: from.AllNamespaces, included: sets.New[string](), excluded: sets.New(Exempt()...), selector: labels.Nothing()}
	for _, namespace := range from.ExcludedNamespaces.List {
		t.excluded.Insert(namespace.Name)
	}
	for _, namespace := range from.IncludedNamespaces.List {
		t.included.Insert(namespace.Name)
	}
	if len(from.NamespaceSelector.MatchLabels)+len(from.NamespaceSelector.MatchExpressions) == 0 {
		return t, nil // For the rest of Kubernetes an empty selector matches everything.
	}
	selector, err := metav1.LabelSelectorAsSelector(&from.NamespaceSelector)
	if err != nil {
		return t, fmt.Errorf("spec.targets.namespaceSelector: %w", err)
	}
	t.selector = selector
	return t, nil
}

// Names is true for a namespace that is named, and so is a target even while it does not exist.
func (t Targets) Names(namespace string) bool {
	return !t.all && t.included.Has(namespace) && !t.excluded.Has(namespace)
}

// Chooses is true for an existing namespace that gets a copy.
func (t Targets) Chooses(namespace string, has map[string]string) bool {
	return !t.excluded.Has(namespace) && (t.all || t.included.Has(namespace) || t.selector.Matches(labels.Set(has)))
}

// Skipped are the named namespaces that never get a copy.
func (t Targets) Skipped() []string {
	return slices.DeleteFunc(Exempt(), func(name string) bool { return !t.included.Has(name) })
}

// copyIn is the copy in a namespace. Its content is shared: the writer never changes what it is given.
func (s *Spec) copyIn(namespace string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: maps.Clone(s.content)}
	object.SetGroupVersionKind(s.Kind)
	object.SetNamespace(namespace)
	object.SetName(s.Name)
	object.SetLabels(s.metadata.Labels)
	object.SetAnnotations(s.metadata.Annotations)
	object.SetFinalizers(s.metadata.Finalizers)
	object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(s.Object, Kind())})
	return object
}
