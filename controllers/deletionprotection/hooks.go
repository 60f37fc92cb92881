// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package deletionprotection

import (
	_ "embed" // policy.yaml
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/manifests"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies,verbs=get;list;watch;create;patch;delete,resourceNames=kruise-operator-deletion-protection
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicybindings,verbs=get;list;watch;create;patch;delete,resourceNames=kruise-operator-deletion-protection

//go:embed policy.yaml
var policyText string

const policyName = "kruise-operator-deletion-protection"

// policies refuse to delete labeled objects of native kinds and of the operator's enabled ones. The label is the
// user's own request, so nothing is exempt.
func policies(c *config.Config) ([]*hooks.Policy, error) {
	objects, err := manifests.Decode([]byte(policyText))
	if err != nil {
		return nil, err
	}
	place := []string{"spec", "matchConstraints", "resourceRules"}
	rules, _, err := unstructured.NestedSlice(objects[0].Object, place...)
	for _, kind := range c.Table.Where(func(k kinds.Kind) bool { return k.Protected && c.Enabled(k.Name) }) {
		rules = append(rules, map[string]any{
			"apiGroups": []any{kind.Group}, "apiVersions": []any{"*"}, "operations": []any{"DELETE"}, "resources": []any{kind.Plural}, "scope": string(kind.Scope),
		})
	}
	if err := errors.Join(err, unstructured.SetNestedSlice(objects[0].Object, rules, place...)); err != nil {
		return nil, fmt.Errorf("writing the rules of %s: %w", policyName, err)
	}
	return []*hooks.Policy{{Name: policyName, Objects: objects, Unexempted: true}}, nil
}

// registered are the policy, and calls for facts in other objects: a Namespace's pods or volume claims, and a
// CustomResourceDefinition's objects.
func registered(c *config.Config) []*hooks.Hook {
	if !c.Features.Enabled(features.ResourcesDeletionProtection) {
		return nil
	}
	return []*hooks.Hook{
		{Name: "policy.deletion-protection.kruise.io", Policy: policyName},
		call(corev1.SchemeGroupVersion.WithResource("namespaces")),
		call(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}),
	}
}

func call(resource schema.GroupVersionResource) *hooks.Hook {
	return &hooks.Hook{
		Name: resource.Resource + ".deletion-protection.kruise.io", Order: hooks.Guard,
		Resource: resource, Cluster: true, Verbs: []admissionv1.OperationType{admissionv1.Delete}, Path: Path,
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{shared.LabelDeleteProtection: shared.DeleteProtectionCascading}},
		Conditions: []admissionv1.MatchCondition{
			{Name: "not-being-deleted", Expression: "!has(oldObject.metadata.deletionTimestamp)"},
			// As in the policy: dependents of a deleted owner go with it.
			{Name: "not-collected", Expression: "!(request.userInfo.username in ['system:serviceaccount:kube-system:generic-garbage-collector', " +
				"'system:serviceaccount:kube-system:namespace-controller', 'system:kube-controller-manager'])"},
		},
	}
}
