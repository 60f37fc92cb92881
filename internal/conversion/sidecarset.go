// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// Fields of a SidecarSet that the versions do not share.
const (
	namespaceField         = "namespace"
	namespaceSelectorField = "namespaceSelector"
	customVersionField     = "customVersion"
)

// SidecarSet converts a stored SidecarSet to the version apiVersion ("apps.kruise.io/v1alpha1").
//
// The versions differ in three fields and one label. Everything else passes through as JSON: containers and volumes have no schema.
//
//   - namespace of v1alpha1 is a part of namespaceSelector in v1beta1. OpenKruise drops a namespaceSelector that is given beside it; here
//     both hold, unless the selector is nothing but what conversion made of an earlier namespace.
//   - the label apps.kruise.io/sidecarset-custom-version of v1alpha1 is customVersion in v1beta1.
func SidecarSet(ctx context.Context, raw []byte, apiVersion string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	source, err := open(raw)
	if err != nil {
		return nil, fmt.Errorf("converting a SidecarSet: %w", err)
	}
	hub, spoke := v1beta1.GroupVersion().String(), v1alpha1.GroupVersion().String()
	set := &sidecarSet{opened: source}
	switch {
	case source.apiVersion == apiVersion:
		return raw, nil
	case source.apiVersion == hub && apiVersion == spoke:
		err = set.toV1alpha1()
	case source.apiVersion == spoke && apiVersion == hub:
		err = set.toV1beta1()
	default:
		err = fmt.Errorf("%s cannot become %s", source.apiVersion, apiVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("converting a SidecarSet: %w", err)
	}
	result, err := set.restore(apiVersion)
	if err != nil {
		return nil, fmt.Errorf("converting a SidecarSet: %w", err)
	}
	return result, nil
}

// sidecarSet is a SidecarSet whose parts are changed where they are.
type sidecarSet struct {
	*opened
	// object has the annotations and labels.
	object metav1.ObjectMeta
}

// writtenNamespaces is how a client of v1alpha1 wrote which namespaces it means.
type writtenNamespaces struct {
	Namespace         string                `json:"namespace,omitempty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// writtenVersion is how a client of v1beta1 wrote the name of a version: it can set the label, too, which has no meaning there.
type writtenVersion struct {
	CustomVersion string  `json:"customVersion,omitempty"`
	Label         *string `json:"label,omitempty"`
}

func (s *sidecarSet) toV1beta1() error {
	if err := s.decode(); err != nil {
		return err
	}
	stashed := take[writtenVersion, writtenVersion](&s.object, v1beta1.GroupVersion())
	if err := s.namespaceToSelector(); err != nil {
		return err
	}
	label, labeled := s.object.Labels[shared.LabelSidecarSetCustomVersion]
	version := writtenVersion{CustomVersion: label}
	if stashed != nil && equality.Semantic.DeepEqual(stashed.Shown, labelOnly(label, labeled)) {
		version = stashed.Fields
	}
	s.setLabel(version.Label)
	return s.setSpec(customVersionField, version.CustomVersion, version.CustomVersion != "")
}

func (s *sidecarSet) toV1alpha1() error {
	if err := s.decode(); err != nil {
		return err
	}
	stashed := take[writtenNamespaces, *metav1.LabelSelector](&s.object, v1alpha1.GroupVersion())
	// A longer selector was not made from a namespace.
	if stashed != nil && len(s.spec[namespaceSelectorField]) <= maxDecoded {
		var selector *metav1.LabelSelector
		if err := s.readSpec(namespaceSelectorField, &selector); err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(stashed.Shown, selector) {
			if err := s.setSpec(namespaceField, stashed.Fields.Namespace, stashed.Fields.Namespace != ""); err != nil {
				return err
			}
			if err := s.setSpec(namespaceSelectorField, stashed.Fields.NamespaceSelector, stashed.Fields.NamespaceSelector != nil); err != nil {
				return err
			}
		}
	}
	return s.versionToLabel()
}

// namespaceToSelector makes namespace a part of namespaceSelector, and keeps how both were written.
func (s *sidecarSet) namespaceToSelector() error {
	var written writtenNamespaces
	length := len(s.spec[namespaceField])
	if length > len(`""`) {
		length += len(s.spec[namespaceSelectorField])
	}
	if length > maxDecoded { // passing it on would drop the namespace, and the set would select the pods of all
		return fmt.Errorf("spec.namespace and spec.namespaceSelector: together they have %d bytes, and may have %d", length, maxDecoded)
	}
	if err := s.readSpec(namespaceField, &written.Namespace); err != nil {
		return err
	}
	delete(s.spec, namespaceField)
	if written.Namespace == "" {
		return nil
	}
	if err := s.readSpec(namespaceSelectorField, &written.NamespaceSelector); err != nil {
		return err
	}
	selector := selectNamespace(written.Namespace, written.NamespaceSelector)
	if err := s.setSpec(namespaceSelectorField, selector, true); err != nil {
		return err
	}
	return put(&s.object, v1alpha1.GroupVersion(), written, selector)
}

// versionToLabel makes customVersion a label. What a label cannot hold, and a label that is there besides, is kept.
func (s *sidecarSet) versionToLabel() error {
	var version writtenVersion
	if err := s.readSpec(customVersionField, &version.CustomVersion); err != nil {
		return err
	}
	delete(s.spec, customVersionField)
	if label, labeled := s.object.Labels[shared.LabelSidecarSetCustomVersion]; labeled {
		version.Label = &label
	}
	var label *string
	if version.CustomVersion != "" && len(validation.IsValidLabelValue(version.CustomVersion)) == 0 {
		label = &version.CustomVersion
	}
	s.setLabel(label)
	lost := version.Label != nil || version.CustomVersion != "" && label == nil
	if !lost {
		return nil
	}
	return put(&s.object, v1beta1.GroupVersion(), version, writtenVersion{Label: label})
}

// labelOnly is what v1alpha1 shows of a version.
func labelOnly(label string, labeled bool) writtenVersion {
	if !labeled {
		return writtenVersion{}
	}
	return writtenVersion{Label: &label}
}

// selectNamespace is the selector of a namespace that an other selector matches, too.
func selectNamespace(namespace string, other *metav1.LabelSelector) *metav1.LabelSelector {
	only := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	if other == nil {
		return only
	}
	_, named := other.MatchLabels[corev1.LabelMetadataName]
	if named && len(other.MatchLabels) == 1 && len(other.MatchExpressions) == 0 {
		return only
	}
	both := other.DeepCopy()
	if !named {
		if both.MatchLabels == nil {
			both.MatchLabels = map[string]string{}
		}
		both.MatchLabels[corev1.LabelMetadataName] = namespace
		return both
	}
	both.MatchExpressions = append(both.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{namespace},
	})
	return both
}

func (s *sidecarSet) decode() error {
	for name, into := range map[string]*map[string]string{annotationsField: &s.object.Annotations, labelsField: &s.object.Labels} {
		if text, found := s.metadata[name]; found {
			if err := json.Unmarshal(text, into); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// readSpec decodes a field of the spec, if it is there.
func (s *sidecarSet) readSpec(name string, into any) error {
	text, found := s.spec[name]
	if !found {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("spec.%s: %w", name, err)
	}
	return nil
}

// setSpec sets a field of the spec, or removes it.
func (s *sidecarSet) setSpec(name string, value any, is bool) error {
	if !is {
		delete(s.spec, name)
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("spec.%s: %w", name, err)
	}
	if s.spec == nil {
		s.spec = members{}
	}
	s.spec[name] = text
	return nil
}

// setLabel sets the label, or removes it.
func (s *sidecarSet) setLabel(value *string) {
	labels := maps.Clone(s.object.Labels)
	delete(labels, shared.LabelSidecarSetCustomVersion)
	if value != nil {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[shared.LabelSidecarSetCustomVersion] = *value
	}
	s.object.Labels = labels
}

// restore puts the parts together again.
func (s *sidecarSet) restore(apiVersion string) ([]byte, error) {
	result := map[string]any{}
	for name, value := range s.top {
		result[name] = value
	}
	result["apiVersion"] = apiVersion
	if s.spec != nil {
		result[specField] = s.spec
	}
	metadata := map[string]any{}
	for name, value := range s.metadata {
		metadata[name] = value
	}
	for name, values := range map[string]map[string]string{annotationsField: s.object.Annotations, labelsField: s.object.Labels} {
		delete(metadata, name)
		if len(values) > 0 {
			metadata[name] = values
		}
	}
	if s.metadata != nil || len(metadata) > 0 {
		result[metadataField] = metadata
	}
	return json.Marshal(result)
}
