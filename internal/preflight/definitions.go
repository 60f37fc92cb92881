// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/takeover"
)

// CRD is a custom resource definition of one of OpenKruise's groups.
type CRD struct {
	Name string
	schema.GroupKind
	Versions []string
	Storage  string
	// Stored are the versions of stored objects.
	Stored []string
	// ConvertedBy is OpenKruise's Service, when conversion leads to it; of a URL (WEBHOOK_HOST) it has only the name.
	ConvertedBy types.NamespacedName
	// Ours is the kind of this operator; nil: it has none.
	Ours *kinds.Kind
	// Objects are the names of all objects; Unread says why the list failed.
	Objects []string
	Unread  string
}

func (r Reading) readCRDs(ctx context.Context, c *Cluster) error {
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := r.Client.List(ctx, list); err != nil {
		return err
	}
	c.CRDs = nil
	for i := range list.Items {
		if crd := &list.Items[i]; slices.Contains(takeover.Groups(), crd.Spec.Group) {
			c.CRDs = append(c.CRDs, describe(crd, r.Table))
		}
	}
	return nil
}

// ownLabel is on CRDs with a conversion of this operator.
const ownLabel = "operator.kruise.io/conversion"

func describe(crd *apiextensionsv1.CustomResourceDefinition, table kinds.Table) CRD {
	found := CRD{Name: crd.Name, GroupKind: schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}, Stored: crd.Status.StoredVersions}
	for _, version := range crd.Spec.Versions {
		found.Versions = append(found.Versions, version.Name)
		if version.Storage {
			found.Storage = version.Name
		}
	}
	if i := slices.IndexFunc(table, func(k kinds.Kind) bool { return k.Definition() == crd.Name }); i >= 0 {
		found.Ours = &table[i]
	}
	if call := calledBy(crd); call != nil {
		if call.Service != nil && call.Service.Name == serviceName {
			found.ConvertedBy = types.NamespacedName{Namespace: call.Service.Namespace, Name: call.Service.Name}
		}
		if call.URL != nil && crd.Labels[ownLabel] == "" { // A URL tells nothing of who answers.
			found.ConvertedBy.Name = *call.URL
		}
	}
	return found
}

// calledBy is how the server has objects converted; nil: it does not.
func calledBy(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.WebhookClientConfig {
	if crd.Spec.Conversion == nil || crd.Spec.Conversion.Strategy != apiextensionsv1.WebhookConverter || crd.Spec.Conversion.Webhook == nil {
		return nil
	}
	return crd.Spec.Conversion.Webhook.ClientConfig
}

var errRuns = errors.New("OpenKruise still renews its Lease, or its Deployment wants replicas: it needs this, and would put it back. Scale its manager down first")

// ClearConversion makes the conversion None if this operator needs none. An apply would
// keep the webhook's settings beside None, and the API server refuses both together.
func ClearConversion(ctx context.Context, c client.Client, found *Cluster, report func(string)) error {
	none := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/conversion","value":{"strategy":"None"}}]`))
	for i := range found.CRDs {
		crd := &found.CRDs[i]
		if !crd.clears() {
			continue
		}
		if found.mayRun() {
			return fmt.Errorf("not clearing conversions: %w", errRuns)
		}
		object := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}}
		if err := client.IgnoreNotFound(c.Patch(ctx, object, none)); err != nil {
			return fmt.Errorf("clearing the conversion of %s: %w", crd.Name, err)
		}
		crd.ConvertedBy = types.NamespacedName{}
		report("customresourcedefinition " + crd.Name + " is no longer converted by OpenKruise")
	}
	return nil
}
