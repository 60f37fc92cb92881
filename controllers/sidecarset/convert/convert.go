// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts SidecarSets between their versions.
package convert

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// Fields of only one version.
const (
	namespaceField         = "namespace"
	namespaceSelectorField = "namespaceSelector"
	customVersionField     = "customVersion"
)

// Converter converts SidecarSets.
//
// The versions differ in three fields and one label. The rest
// passes through as JSON: containers and volumes have no schema.
//
//   - namespace of v1alpha1 is part of namespaceSelector in v1beta1. OpenKruise drops a namespaceSelector beside it; here both
//     hold, unless the selector is just an earlier namespace, converted.
//   - the label apps.kruise.io/sidecarset-custom-version of v1alpha1 is customVersion in v1beta1.
func Converter() conversion.Converter {
	changing := func(change func(sidecarSet) error) func(*conversion.Object) error {
		return func(object *conversion.Object) error { return change(sidecarSet{object}) }
	}
	return conversion.Converter{
		GroupKind:  v1beta1.GroupVersion().WithKind("SidecarSet").GroupKind(),
		ToV1alpha1: changing(sidecarSet.toV1alpha1), FromV1alpha1: changing(sidecarSet.toV1beta1),
	}
}

// sidecarSet is a SidecarSet, converted in place.
type sidecarSet struct{ *conversion.Object }

// writtenNamespaces keeps the v1alpha1 form of the namespaces.
type writtenNamespaces struct {
	Namespace         string                `json:"namespace,omitempty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// writtenVersion keeps the v1beta1 form of a version. Clients can also set the label, without meaning there.
type writtenVersion struct {
	CustomVersion string  `json:"customVersion,omitempty"`
	Label         *string `json:"label,omitempty"`
}

func (s sidecarSet) toV1beta1() error {
	stashed := conversion.Take[writtenVersion, writtenVersion](s.Object, v1beta1.GroupVersion())
	if err := s.namespaceToSelector(); err != nil {
		return err
	}
	label, labeled := s.Meta.Labels[shared.LabelSidecarSetCustomVersion]
	version := writtenVersion{CustomVersion: label}
	if stashed != nil && equality.Semantic.DeepEqual(stashed.Shown, labelOnly(label, labeled)) {
		version = stashed.Fields
	}
	s.setLabel(version.Label)
	return s.setSpec(customVersionField, version.CustomVersion, version.CustomVersion != "")
}

func (s sidecarSet) toV1alpha1() error {
	stashed := conversion.Take[writtenNamespaces, *metav1.LabelSelector](s.Object, v1alpha1.GroupVersion())
	// A longer selector was not made from a namespace.
	if stashed != nil && len(s.Spec[namespaceSelectorField]) <= conversion.MaxDecoded {
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
func (s sidecarSet) namespaceToSelector() error {
	var written writtenNamespaces
	length := len(s.Spec[namespaceField])
	if length > len(`""`) {
		length += len(s.Spec[namespaceSelectorField])
	}
	if length > conversion.MaxDecoded { // passing it on would drop the namespace, and the set would select the pods of all
		return fmt.Errorf("spec.namespace and spec.namespaceSelector: together they have %d bytes, and may have %d", length, conversion.MaxDecoded)
	}
	if err := s.readSpec(namespaceField, &written.Namespace); err != nil {
		return err
	}
	delete(s.Spec, namespaceField)
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
	return conversion.Keep(s.Object, v1alpha1.GroupVersion(), written, selector)
}

// versionToLabel makes customVersion a label. It keeps invalid label values, and another label beside it.
func (s sidecarSet) versionToLabel() error {
	var version writtenVersion
	if err := s.readSpec(customVersionField, &version.CustomVersion); err != nil {
		return err
	}
	delete(s.Spec, customVersionField)
	if label, labeled := s.Meta.Labels[shared.LabelSidecarSetCustomVersion]; labeled {
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
	return conversion.Keep(s.Object, v1beta1.GroupVersion(), version, writtenVersion{Label: label})
}

// labelOnly is the v1alpha1 form of a version.
func labelOnly(label string, labeled bool) writtenVersion {
	if !labeled {
		return writtenVersion{}
	}
	return writtenVersion{Label: &label}
}

// selectNamespace selects a namespace, and also by another selector.
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

// readSpec decodes a field of the spec, if it is there.
func (s sidecarSet) readSpec(name string, into any) error {
	text, found := s.Spec[name]
	if !found {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("spec.%s: %w", name, err)
	}
	return nil
}

// setSpec sets a field of the spec, or removes it.
func (s sidecarSet) setSpec(name string, value any, is bool) error {
	if !is {
		delete(s.Spec, name)
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("spec.%s: %w", name, err)
	}
	if s.Spec == nil {
		s.Spec = conversion.Members{}
	}
	s.Spec[name] = text
	return nil
}

// setLabel sets the label, or removes it.
func (s sidecarSet) setLabel(value *string) {
	delete(s.Meta.Labels, shared.LabelSidecarSetCustomVersion)
	if value == nil {
		return
	}
	if s.Meta.Labels == nil {
		s.Meta.Labels = map[string]string{}
	}
	s.Meta.Labels[shared.LabelSidecarSetCustomVersion] = *value
}
