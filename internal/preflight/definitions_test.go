// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kruise-operator/kruise-operator/controllers"
)

// OpenKruise with WEBHOOK_HOST converts its CRDs by a URL. This was missed, and our CRDs
// could not be applied.
func TestConversionByAURL(t *testing.T) {
	const url = "https://10.0.0.1:9876/convert"
	for name, tc := range map[string]struct {
		crd      string
		labeled  bool
		by       string
		isClears bool
	}{
		"of a kind that needs none":             {crd: "statefulsets.apps.kruise.io", by: url, isClears: true},
		"of a kind that this operator converts": {crd: "clonesets.apps.kruise.io", by: url},
		"by this operator":                      {crd: "clonesets.apps.kruise.io", labeled: true},
	} {
		t.Run(name, func(t *testing.T) {
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: tc.crd}}
			crd.Spec.Group = "apps.kruise.io"
			if tc.labeled {
				crd.Labels = map[string]string{ownLabel: "webhook"}
			}
			crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: ptr.To(url)}, ConversionReviewVersions: []string{"v1"}},
			}
			scheme := runtime.NewScheme()
			if err := apiextensionsv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			r := Reading{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(crd).Build(), Table: controllers.Table()}
			var found Cluster
			if err := r.readCRDs(t.Context(), &found); err != nil || len(found.CRDs) != 1 {
				t.Fatalf("read %d CRDs: %v", len(found.CRDs), err)
			}
			if got := found.CRDs[0]; got.ConvertedBy.Name != tc.by || got.clears() != tc.isClears {
				t.Fatalf("converted by %q, to be cleared: %v", got.ConvertedBy.Name, got.clears())
			}
			if err := ClearConversion(t.Context(), r.Client, &found, func(string) {}); err != nil {
				t.Fatal(err)
			}
			found = Cluster{}
			if err := r.readCRDs(t.Context(), &found); err != nil || tc.isClears && found.CRDs[0].ConvertedBy.Name != "" {
				t.Errorf("it is still converted by %q: %v", found.CRDs[0].ConvertedBy.Name, err)
			}
		})
	}
}

// An open request lost its daemon with OpenKruise, without a warning.
func TestOpenRequestsAreFound(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "ContainerRecreateRequest"}
	var stored []client.Object
	for name, status := range map[string]map[string]any{"open": {"phase": "Recreating"}, "new": {}, "ended": {"completionTime": "2026-11-20T20:52:36Z"}} {
		request := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		request.SetGroupVersionKind(kind)
		request.SetNamespace("shop")
		request.SetName(name)
		stored = append(stored, request)
	}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"), &unstructured.UnstructuredList{})
	r := Reading{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(stored...).Build()}
	found := Cluster{CRDs: []CRD{{GroupKind: kind.GroupKind(), Storage: kind.Version}}}
	if err := r.readObjects(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	want := []types.NamespacedName{{Namespace: "shop", Name: "new"}, {Namespace: "shop", Name: "open"}}
	if diff := cmp.Diff(want, found.OpenRequests); diff != "" || len(found.CRDs[0].Objects) != 3 {
		t.Errorf("%d requests, open (-want +got):\n%s", len(found.CRDs[0].Objects), diff)
	}
}
