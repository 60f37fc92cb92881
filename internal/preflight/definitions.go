// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/internal/manifests"
	"github.com/kruise-operator/kruise-operator/internal/takeover"
)

// CRD is a custom resource definition of one of OpenKruise's groups.
type CRD struct {
	Name string
	schema.GroupKind
	Resource string
	Versions []string
	Storage  string
	// Stored are the versions in which objects may be stored.
	Stored []string
	// ConvertedBy is OpenKruise's Service, when conversion leads to it; of a URL (WEBHOOK_HOST) it has only the name.
	ConvertedBy types.NamespacedName
	// Ours says that this operator installs the CRD; OursVersions and OursConverts are what it then looks like.
	Ours         bool
	OursVersions []string
	OursConverts bool
}

func (r Reading) readCRDs(ctx context.Context, c *Cluster) error {
	ours, err := ourCRDs()
	if err != nil {
		return err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	if err := r.Client.List(ctx, list); err != nil {
		return err
	}
	for _, item := range list.Items {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &crd); err != nil {
			return fmt.Errorf("decoding %s: %w", item.GetName(), err)
		}
		if !slices.Contains(takeover.Groups(), crd.Spec.Group) {
			continue
		}
		found := describe(&crd)
		our, ok := ours[crd.Name]
		// A URL tells nothing of who answers: on a CRD of ours it is this operator.
		if url := conversionURL(&crd); url != "" && (!ok || !converts(our) || !labeledAs(&crd, our)) {
			found.ConvertedBy.Name = url
		}
		if ok {
			found.Ours, found.OursVersions, found.OursConverts = true, describe(our).Versions, converts(our)
		}
		c.CRDs = append(c.CRDs, found)
	}
	return nil
}

func describe(crd *apiextensionsv1.CustomResourceDefinition) CRD {
	found := CRD{
		Name:      crd.Name,
		GroupKind: schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind},
		Resource:  crd.Spec.Names.Plural,
		Stored:    crd.Status.StoredVersions,
	}
	for _, version := range crd.Spec.Versions {
		found.Versions = append(found.Versions, version.Name)
		if version.Storage {
			found.Storage = version.Name
		}
	}
	if converts(crd) {
		if hook := crd.Spec.Conversion.Webhook; hook != nil && hook.ClientConfig != nil && hook.ClientConfig.Service != nil {
			if service := hook.ClientConfig.Service; service.Name == serviceName {
				found.ConvertedBy = types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
			}
		}
	}
	return found
}

// conversionURL is where the conversion is asked for, when that is a URL.
func conversionURL(crd *apiextensionsv1.CustomResourceDefinition) string {
	if !converts(crd) || crd.Spec.Conversion.Webhook == nil || crd.Spec.Conversion.Webhook.ClientConfig == nil {
		return ""
	}
	return ptr.Deref(crd.Spec.Conversion.Webhook.ClientConfig.URL, "")
}

// labeledAs says that a CRD has all labels of ours, of which there are some.
func labeledAs(crd, our *apiextensionsv1.CustomResourceDefinition) bool {
	for key, value := range our.Labels {
		if crd.Labels[key] != value {
			return false
		}
	}
	return len(our.Labels) > 0
}

func converts(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter
}

// ourCRDs are those that this operator installs, by name.
func ourCRDs() (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	objects, err := manifests.CRDs()
	if err != nil {
		return nil, err
	}
	all := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, object := range objects {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
			return nil, fmt.Errorf("decoding our %s: %w", object.GetName(), err)
		}
		all[crd.Name] = crd
	}
	return all, nil
}
