// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	nameLabel    = "app.kubernetes.io/name"
	operatorName = "kruise-operator"
)

// key names an object.
type key struct {
	kind      schema.GroupVersionKind
	namespace string
	name      string
}

func keyOf(object *unstructured.Unstructured) key {
	return key{object.GroupVersionKind(), object.GetNamespace(), object.GetName()}
}

// formerConfiguration is a further one of version 0.4.0.
const formerConfiguration = MutatingConfiguration + "-launch-priority"

func bindingKind() schema.GroupVersionKind {
	return admissionv1.SchemeGroupVersion.WithKind("MutatingAdmissionPolicyBinding")
}

func revisionKind() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
}

// find reads everything possibly registered, except the two configurations.
func (p *pass) find(ctx context.Context) error {
	for _, policy := range p.options.Policies {
		for _, object := range policy.Objects {
			if object.GroupVersionKind() == revisionKind() {
				continue // It is listed.
			}
			if err := p.get(ctx, object.GroupVersionKind(), object.GetName()); err != nil {
				return err
			}
		}
	}
	if err := p.get(ctx, mutatingKind(), formerConfiguration); err != nil {
		return err
	}
	if p.serves(bindingKind()) {
		bindings := &unstructured.UnstructuredList{}
		bindings.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind(bindingKind().Kind + "List"))
		if err := p.options.Live.List(ctx, bindings, client.MatchingLabels{nameLabel: operatorName}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("listing bindings: %w", err)
		}
		for i := range bindings.Items {
			name, _, _ := unstructured.NestedString(bindings.Items[i].Object, "spec", "policyName")
			if p.policy(name) != nil {
				p.there[keyOf(&bindings.Items[i])] = &bindings.Items[i]
			}
		}
	}
	return p.findRevisions(ctx)
}

// findRevisions reads only metadata: names are hashes of the data, possibly large.
func (p *pass) findRevisions(ctx context.Context) error {
	revisions := &metav1.PartialObjectMetadataList{}
	revisions.SetGroupVersionKind(revisionKind().GroupVersion().WithKind("ControllerRevisionList"))
	if err := p.options.Live.List(ctx, revisions, client.InNamespace(p.options.Namespace), client.HasLabels{OwnLabel}); err != nil {
		return fmt.Errorf("listing revisions: %w", err)
	}
	for i := range revisions.Items {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&revisions.Items[i])
		if err != nil {
			return err
		}
		of := &unstructured.Unstructured{Object: content}
		of.SetGroupVersionKind(revisionKind())
		p.there[keyOf(of)] = of
	}
	return nil
}

// get reads an object of the cluster, if there is one.
func (p *pass) get(ctx context.Context, kind schema.GroupVersionKind, name string) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err := p.options.Live.Get(ctx, client.ObjectKey{Name: name}, object)
	switch {
	case err == nil:
		p.there[keyOf(object)] = object
	case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
		return fmt.Errorf("reading %s %s: %w", kind.Kind, name, err)
	}
	return nil
}

// removeUnwanted deletes the rest: bindings before policies, and revisions
// once API servers know of no user. It does not wait on refusals.
func (p *pass) removeUnwanted(ctx context.Context) error {
	rank := func(k key) int {
		switch {
		case k.kind == revisionKind():
			return 2
		case strings.HasSuffix(k.kind.Kind, "Policy"):
			return 1
		}
		return 0
	}
	keys := slices.SortedFunc(maps.Keys(p.there), func(a, b key) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.name, b.name)) })
	for _, k := range keys {
		if p.keep[k] || k.kind == revisionKind() && p.waits(k) {
			continue
		}
		uid := p.there[k].GetUID()
		err := p.options.Client.Delete(ctx, p.there[k], client.Preconditions{UID: &uid})
		if refuses(err) {
			p.sooner(afterRefusal)
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s %s: %w", k.kind.Kind, k.name, err)
		}
		delete(p.unused, k)
	}
	return nil
}

// waits reports whether an unused object may still be named somewhere.
func (p *pass) waits(k key) bool {
	since, known := p.unused[k]
	if !known {
		since = p.now
		p.unused[k] = since
	}
	left := keepUnused - p.now.Sub(since)
	if left > 0 {
		p.sooner(left)
	}
	return left > 0
}
