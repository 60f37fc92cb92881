// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package deletionprotection

import (
	_ "embed" // policy.yaml
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
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
	objects, err := hooks.Decode(policyText)
	if err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedSlice(objects[0].Object, rules(c.Table.Where(func(k kinds.Kind) bool { return k.Protected && c.Enabled(k.Name) })), "spec", "matchConstraints", "resourceRules"); err != nil {
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

// rules match the deletion of objects: one for each group and scope.
func rules(protected []kinds.Kind) []any {
	type place struct {
		group string
		scope kinds.Scope
	}
	order := []place{{"", kinds.Cluster}, {"", kinds.Namespaced}, {"apiextensions.k8s.io", kinds.Cluster}, {"apps", kinds.Namespaced}, {"networking.k8s.io", kinds.Namespaced}}
	resources := map[place][]any{
		order[0]: {"namespaces"}, order[1]: {"services"}, order[2]: {"customresourcedefinitions"}, order[3]: {"deployments", "replicasets", "statefulsets"},
		order[4]: {"ingresses"},
	}
	for _, kind := range protected {
		at := place{kind.Group, kind.Scope}
		if resources[at] == nil {
			order = append(order, at)
		}
		resources[at] = append(resources[at], kind.Plural)
	}
	all := make([]any, len(order))
	for i, at := range order {
		all[i] = map[string]any{
			"apiGroups": []any{at.group}, "apiVersions": []any{"*"}, "operations": []any{"DELETE"}, "resources": resources[at], "scope": string(at.scope),
		}
	}
	return all
}
