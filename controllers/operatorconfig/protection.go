// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/kube/installowner"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies,verbs=get;create;patch;delete,resourceNames=kruise-operator-deletion-protection
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicybindings,verbs=get;create;patch;delete,resourceNames=kruise-operator-deletion-protection
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,verbs=get;create;patch;delete,resourceNames=kruise-operator-deletion-protection
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=get,resourceNames=kruise-operator-manager;"kruise-operator-manager-service-system:auth-delegator"

// Protection maintains the policy that refuses the deletion of objects with the label policy.kruise.io/delete-protection, and the webhook for
// cases that a policy cannot decide. They exist only while that is asked for, and go with the installation:
// docs/adr/0017-deletion-protection.md.
type Protection struct {
	// Client reads past the cache and writes.
	Client client.Client
	// Manifests are the policy, whose rules are filled in from the table of kinds, its binding, and the webhook.
	Manifests []byte
	// Kinds are all kinds.
	Kinds kinds.Table
	// On says whether anything is protected.
	On bool
	// Call is how the API server calls the operator at a path. Nil: it does not, so there is no webhook.
	Call func(path string) (map[string]any, error)
	// Path is where the webhook is served.
	Path string
}

// Apply applies the policy for the kinds that are not disabled, or deletes it when there is nothing to protect.
func (p *Protection) Apply(ctx context.Context, disabled sets.Set[string]) error {
	objects, err := documents(p.Manifests)
	if err != nil {
		return fmt.Errorf("decoding the manifests of deletion protection: %w", err)
	}
	for _, object := range objects {
		if _, found, _ := unstructured.NestedSlice(object.Object, "spec", "matchConstraints", "resourceRules"); found {
			rules := slices.Concat(nativeRules(), protectedRules(p.Kinds, disabled))
			if err := unstructured.SetNestedSlice(object.Object, rules, "spec", "matchConstraints", "resourceRules"); err != nil {
				return fmt.Errorf("writing the rules of %s: %w", object.GetName(), err)
			}
		}
	}
	if !p.On {
		return p.remove(ctx, objects)
	}
	if objects, err = p.withCalls(ctx, objects); err != nil {
		return fmt.Errorf("protecting objects from deletion: %w", err)
	}
	owner, err := installowner.Find(ctx, p.Client)
	if err != nil {
		return fmt.Errorf("protecting objects from deletion: %w", err)
	}
	for _, object := range objects {
		object.SetOwnerReferences([]metav1.OwnerReference{owner})
		if err := p.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(shared.FieldManager), client.ForceOwnership); err != nil {
			return fmt.Errorf("protecting objects from deletion: applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// withCalls fills in how the API server calls the webhook. Where it does not call the operator at all, there is no webhook.
func (p *Protection) withCalls(ctx context.Context, objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, object := range objects {
		webhooks, found, _ := unstructured.NestedSlice(object.Object, "webhooks")
		switch {
		case !found:
			all = append(all, object)
			continue
		case p.Call == nil:
			if err := p.remove(ctx, []*unstructured.Unstructured{object}); err != nil {
				return nil, err
			}
			continue
		}
		call, err := p.Call(p.Path)
		if err != nil {
			return nil, err
		}
		for _, entry := range webhooks {
			if webhook, is := entry.(map[string]any); is {
				webhook["clientConfig"] = runtime.DeepCopyJSON(call)
			}
		}
		if err := unstructured.SetNestedSlice(object.Object, webhooks, "webhooks"); err != nil {
			return nil, fmt.Errorf("writing the webhooks of %s: %w", object.GetName(), err)
		}
		all = append(all, object)
	}
	return all, nil
}

// remove deletes what is there from another time: the binding first, since without it the policy does nothing.
func (p *Protection) remove(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range slices.Backward(objects) {
		// Mostly there is none: asking is no write.
		err := p.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil {
			err = p.Client.Delete(ctx, object)
		}
		if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("ending the protection from deletion: deleting %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// nativeRules match the deletion of objects of the native kinds that are protected.
func nativeRules() []any {
	rule := func(group string, scope kinds.Scope, resources ...any) any {
		return map[string]any{
			"apiGroups": []any{group}, "apiVersions": []any{"*"}, "operations": []any{"DELETE"}, "resources": resources, "scope": string(scope),
		}
	}
	return []any{
		rule("", kinds.Cluster, "namespaces"),
		rule("", kinds.Namespaced, "services"),
		rule("apiextensions.k8s.io", kinds.Cluster, "customresourcedefinitions"),
		rule("apps", kinds.Namespaced, "deployments", "replicasets", "statefulsets"),
		rule("networking.k8s.io", kinds.Namespaced, "ingresses"),
	}
}

// protectedRules match the deletion of objects of the protected kinds that are not disabled: one rule for each group and scope.
func protectedRules(table kinds.Table, disabled sets.Set[string]) []any {
	type place struct {
		group string
		scope kinds.Scope
	}
	var order []place
	resources := map[place][]any{}
	for _, kind := range table.Where(func(k kinds.Kind) bool { return k.Protected && !disabled.Has(k.Name) }) {
		at := place{kind.Group, kind.Scope}
		if resources[at] == nil {
			order = append(order, at)
		}
		resources[at] = append(resources[at], kind.Plural)
	}
	rules := make([]any, len(order))
	for i, at := range order {
		rules[i] = map[string]any{
			"apiGroups": []any{at.group}, "apiVersions": []any{"*"}, "operations": []any{"DELETE"}, "resources": resources[at], "scope": string(at.scope),
		}
	}
	return rules
}

// documents are the objects of manifests.
func documents(manifests []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}

// resourcesOf are the resources that the kinds are served as.
func resourcesOf(table kinds.Table, names sets.Set[string]) sets.Set[string] {
	resources := sets.New[string]()
	for _, kind := range table.Where(func(k kinds.Kind) bool { return names.Has(k.Name) }) {
		resources.Insert(kind.Plural)
	}
	return resources
}
