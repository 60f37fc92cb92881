// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/webhookserving"
)

const (
	// settleTimeout is how long the API server may take to serve, or to stop serving, a kind.
	settleTimeout = 30 * time.Second
	settleEvery   = 100 * time.Millisecond
	// named is how many objects an error names.
	named = 5
)

// Namespace is where the operator keeps its lease and its certificate.
const Namespace = "kruise-system"

// CertificateSecret is where the certificate of an operator outside of the cluster is kept.
func CertificateSecret() types.NamespacedName {
	return types.NamespacedName{Namespace: Namespace, Name: webhookserving.OwnSecret}
}

// Options choose the parts to install.
type Options struct {
	// WebhookURL is where the API server reaches the operator, such as https://192.0.2.7:9443. It must be https and have no path.
	WebhookURL string
	// Report is called for every object once it is applied or deleted, with a line such as "customresourcedefinition x applied". It may be nil.
	Report func(string)
}

// Install applies everything and returns when the API server serves our kinds. It may be repeated, also with another URL. From
// then on writes of our kinds fail until an operator listens at the URL.
func Install(ctx context.Context, c client.Client, o Options) error {
	if err := (webhookserving.Endpoint{URL: o.WebhookURL}).Validate(); err != nil || o.WebhookURL == "" {
		return errors.Join(errors.New("a webhook URL is needed"), err)
	}
	all, err := objects(o.WebhookURL)
	if err != nil {
		return err
	}
	if err := refuseForeign(ctx, c, all); err != nil {
		return err
	}
	for _, object := range all {
		if object.GetKind() == kindCRD {
			if err := replaceForeign(ctx, c, object); err != nil {
				return fmt.Errorf("replacing %s: %w", title(object), err)
			}
		}
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(shared.FieldManager), client.ForceOwnership); err != nil {
			return fmt.Errorf("applying %s: %w", title(object), err)
		}
		o.report(object, "applied")
		if object.GetKind() == kindCRD {
			if err := waitServed(ctx, c, object.GetName()); err != nil {
				return err
			}
		}
	}
	return nil
}

// replaceForeign makes the spec of somebody else's CRD, such as OpenKruise's, wholly ours.
// An apply alone would keep their fields: the Service of a conversion beside our URL,
// refused by the API server, or a short name.
func replaceForeign(ctx context.Context, c client.Client, ours *unstructured.Unstructured) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(ours.GroupVersionKind())
		err := c.Get(ctx, client.ObjectKeyFromObject(ours), live)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(live.GetManagedFields(), foreign) {
			return nil
		}
		live.Object["spec"] = ours.DeepCopy().Object["spec"]
		return c.Update(ctx, live, client.FieldOwner(shared.FieldManager))
	})
}

// refuseForeign fails, before any change, when a CRD has a conversion ours does without:
// its server may still need it. preflight is to decide.
func refuseForeign(ctx context.Context, c client.Client, all []*unstructured.Unstructured) error {
	for _, ours := range all {
		if ours.GetKind() != kindCRD || converts(ours) {
			continue
		}
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(ours.GroupVersionKind())
		if err := c.Get(ctx, client.ObjectKeyFromObject(ours), live); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return fmt.Errorf("reading %s: %w", title(ours), err)
		}
		if converts(live) && slices.ContainsFunc(live.GetManagedFields(), foreign) {
			return fmt.Errorf("%s carries the conversion of another operator, such as OpenKruise: run `kruise-preflight`, which says what to do", title(ours))
		}
	}
	return nil
}

// foreign is true if somebody else manages fields of the spec.
func foreign(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager != shared.FieldManager && entry.Subresource == "" && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`)
}

// converts is true if a webhook converts a CRD.
func converts(crd *unstructured.Unstructured) bool {
	strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	return strategy == string(apiextensionsv1.WebhookConverter)
}

// Uninstall deletes the objects of Install, the kinds first, while the webhooks still guard
// them. It refuses while objects of our kinds exist: deleting a kind deletes its objects,
// and with them their pods.
func Uninstall(ctx context.Context, c client.Client, o Options) error {
	all, err := objects("")
	if err != nil {
		return err
	}
	var remaining []error
	for _, object := range all {
		if object.GetKind() == kindCRD {
			remaining = append(remaining, inUse(ctx, c, object))
		}
	}
	if err := errors.Join(remaining...); err != nil {
		return fmt.Errorf("not uninstalling: %w; delete these objects first, their pods go with them (add --cascade=orphan to keep the pods)", err)
	}
	certificate := &unstructured.Unstructured{}
	certificate.SetAPIVersion("v1")
	certificate.SetKind("Secret")
	certificate.SetNamespace(CertificateSecret().Namespace)
	certificate.SetName(CertificateSecret().Name)
	all = append(all, certificate)

	// Kinds, then webhooks, then rights; the namespace stays, since others may have put something there.
	for _, kinds := range [][]string{{kindCRD}, {kindMutating, kindValidating}, nil} {
		for _, object := range all {
			if !chosen(object.GetKind(), kinds) {
				continue
			}
			if err := remove(ctx, c, object); err != nil {
				return err
			}
			o.report(object, "deleted")
		}
	}
	return nil
}

// chosen is true if a kind is one of these; none means every kind without its own step.
func chosen(kind string, kinds []string) bool {
	if kinds == nil {
		return kind != kindCRD && kind != kindMutating && kind != kindValidating && kind != "Namespace"
	}
	return slices.Contains(kinds, kind)
}

func remove(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	if err := client.IgnoreNotFound(c.Delete(ctx, object.DeepCopy())); err != nil {
		return fmt.Errorf("deleting %s: %w", title(object), err)
	}
	if object.GetKind() != kindCRD {
		return nil
	}
	err := wait.PollUntilContextTimeout(ctx, settleEvery, settleTimeout, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopy())
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting until %s is gone: %w", title(object), err)
	}
	return nil
}

// inUse returns an error naming objects of a CRD's kind, or nil if there are none.
func inUse(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
		return fmt.Errorf("decoding %s: %w", title(object), err)
	}
	list := &unstructured.UnstructuredList{}
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind})
		}
	}
	err := c.List(ctx, list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // the kind is not served: nothing of it can exist
	}
	if err != nil {
		return fmt.Errorf("looking for objects of %s: %w", crd.Name, err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	var names []string
	for i, item := range list.Items {
		if i == named {
			names = append(names, "...")
			break
		}
		names = append(names, client.ObjectKeyFromObject(&item).String())
	}
	return fmt.Errorf("%d %s exist (%s)", len(list.Items), crd.Name, strings.Join(names, ", "))
}

// waitServed returns when the API server accepts objects of a CRD.
func waitServed(ctx context.Context, c client.Client, name string) error {
	err := wait.PollUntilContextTimeout(ctx, settleEvery, settleTimeout, true, func(ctx context.Context) (bool, error) {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind(kindCRD))
		if err := c.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
			return false, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
			return false, err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s is served: %w", name, err)
	}
	return nil
}

func (o Options) report(object *unstructured.Unstructured, what string) {
	if o.Report != nil {
		o.Report(title(object) + " " + what)
	}
}

func title(object *unstructured.Unstructured) string {
	name := object.GetName()
	if ns := object.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return strings.ToLower(object.GetKind()) + " " + name
}
