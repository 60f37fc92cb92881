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
	"k8s.io/utils/ptr"

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
	label := s.label()
	version := writtenVersion{CustomVersion: ptr.Deref(label, "")}
	if stashed != nil && equality.Semantic.DeepEqual(stashed.Shown, writtenVersion{Label: label}) {
		version = stashed.Fields
	}
	s.setLabel(version.Label)
	setSpec(s, customVersionField, version.CustomVersion)
	return nil
}

func (s sidecarSet) toV1alpha1() error {
	stashed := conversion.Take[writtenNamespaces, *metav1.LabelSelector](s.Object, v1alpha1.GroupVersion())
	// A longer selector was not made from a namespace.
	if stashed != nil && len(s.Spec[namespaceSelectorField]) <= conversion.MaxDecoded {
		var selector *metav1.LabelSelector
		if err := s.readSpec(namespaceSelectorField, &selector); err != nil {
			return err
		}
		if written := stashed.Fields; equality.Semantic.DeepEqual(stashed.Shown, selector) {
			setSpec(s, namespaceField, written.Namespace)
			setSpec(s, namespaceSelectorField, written.NamespaceSelector)
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
	setSpec(s, namespaceSelectorField, selector)
	return conversion.Keep(s.Object, v1alpha1.GroupVersion(), written, selector)
}

// versionToLabel makes customVersion a label. It keeps invalid label values, and another label beside it.
func (s sidecarSet) versionToLabel() error {
	version := writtenVersion{Label: s.label()}
	if err := s.readSpec(customVersionField, &version.CustomVersion); err != nil {
		return err
	}
	delete(s.Spec, customVersionField)
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

// selectNamespace selects a namespace, and also by another selector, unless that is just an earlier namespace.
func selectNamespace(namespace string, other *metav1.LabelSelector) *metav1.LabelSelector {
	both := other.DeepCopy()
	if both == nil {
		both = &metav1.LabelSelector{}
	}
	if _, named := both.MatchLabels[corev1.LabelMetadataName]; named && len(both.MatchLabels)+len(both.MatchExpressions) > 1 {
		both.MatchExpressions = append(both.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{namespace},
		})
		return both
	}
	return metav1.AddLabelToSelector(both, corev1.LabelMetadataName, namespace)
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

// setSpec sets a field of the spec; without a value it removes the field.
func setSpec[T comparable](s sidecarSet, name string, value T) {
	var none T
	if value == none {
		delete(s.Spec, name)
		return
	}
	text, _ := json.Marshal(value) // texts and selectors can be encoded
	s.SetSpec(name, text)
}

// label is the label; nil: there is none.
func (s sidecarSet) label() *string {
	if label, labeled := s.Meta.Labels[shared.LabelSidecarSetCustomVersion]; labeled {
		return &label
	}
	return nil
}

// setLabel sets the label, or removes it.
func (s sidecarSet) setLabel(value *string) {
	if value == nil {
		delete(s.Meta.Labels, shared.LabelSidecarSetCustomVersion)
		return
	}
	metav1.SetMetaDataLabel(&s.Meta, shared.LabelSidecarSetCustomVersion, *value)
}
