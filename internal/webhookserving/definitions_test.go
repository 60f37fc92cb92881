// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
)

// written is the conversion stored when somebody writes a CRD; nil when the CRD passes unchanged.
func written(t *testing.T, serving *Serving, crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceConversion {
	t.Helper()
	crd.TypeMeta = metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"}
	raw, err := json.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	response := serving.inFlight(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Name: crd.Name, Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: raw},
	}})
	mutated := admissiontest.Mutated(t, string(raw), response)
	if len(response.Patches) == 0 {
		return nil
	}
	stored := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal([]byte(mutated), stored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(crd.ObjectMeta, stored.ObjectMeta); diff != "" {
		t.Errorf("more than the conversion changed (-written +stored):\n%s", diff)
	}
	return stored.Spec.Conversion
}

func TestConversionIsRightWhileItIsWritten(t *testing.T) {
	ca := authority(t, time.Now())
	trusting := crd(func(c *apiextensionsv1.CustomResourceConversion) { c.Webhook.ClientConfig.CABundle = ca }).Spec.Conversion
	for name, tc := range map[string]struct {
		written *apiextensionsv1.CustomResourceDefinition
		want    *apiextensionsv1.CustomResourceConversion // nil: as it is
	}{
		"without an authority": {written: crd(nil), want: trusting},
		"to another Service": {
			written: crd(func(c *apiextensionsv1.CustomResourceConversion) {
				c.Webhook.ClientConfig.Service.Name = "webhook-service"
			}),
			want: trusting,
		},
		"right already": {written: crd(func(c *apiextensionsv1.CustomResourceConversion) { c.Webhook.ClientConfig.CABundle = ca })},
		"an uninstall begins": {written: crd(func(c *apiextensionsv1.CustomResourceConversion) {
			*c = apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
		})},
		"somebody develops": {written: crd(func(c *apiextensionsv1.CustomResourceConversion) {
			c.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:9443/convert")}
		})},
		"of somebody else": {written: func() *apiextensionsv1.CustomResourceDefinition {
			other := crd(nil)
			other.Name = "others.example.com"
			return other
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			serving := newCluster(t, secret("olmCAKey", ca)).mounted(t)
			if got := written(t, serving, tc.written); got != nil {
				t.Errorf("before an authority is known, it becomes %+v", got)
			}
			reconciled(t, serving)
			if diff := cmp.Diff(tc.want, written(t, serving, tc.written)); diff != "" {
				t.Errorf("the conversion (-want +got):\n%s", diff)
			}
		})
	}
}

// The sources of the Operator Lifecycle Manager's bundle must lead here for every converted CRD.
func TestManifestsAskAboutConvertedDefinitions(t *testing.T) {
	var asks []map[string]any
	converted := map[string]map[string]string{}
	for _, object := range rendered(t, "manifests") {
		switch object.GetKind() {
		case "MutatingWebhookConfiguration":
			webhooks, _ := object.Object["webhooks"].([]any)
			for _, webhook := range webhooks {
				if webhook, ok := webhook.(map[string]any); ok && nested(webhook, "clientConfig", "service", "path") == definitionPath {
					asks = append(asks, webhook)
				}
			}
		case "CustomResourceDefinition":
			if nested(object.Object, "spec", "conversion", "strategy") == "Webhook" {
				converted[object.GetName()] = object.GetLabels()
			}
		}
	}
	if len(asks) != 1 || len(converted) == 0 {
		t.Fatalf("%d webhooks ask about %d converted CRDs", len(asks), len(converted))
	}
	if policy := nested(asks[0], "failurePolicy"); policy != "Ignore" {
		t.Errorf("the policy is %s: a CRD could not be written while the operator is away", policy)
	}
	text, err := json.Marshal(asks[0]["objectSelector"])
	if err != nil {
		t.Fatal(err)
	}
	chosen := &metav1.LabelSelector{}
	if err := json.Unmarshal(text, chosen); err != nil {
		t.Fatal(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(chosen)
	if err != nil || selector.Empty() {
		t.Fatalf("the selector is %s: it is asked about every CRD of the cluster (%v)", text, err)
	}
	for name, has := range converted {
		if !selector.Matches(labels.Set(has)) {
			t.Errorf("it is not asked about %s, which has the labels %v", name, has)
		}
	}
}
