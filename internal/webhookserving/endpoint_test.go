// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers"
)

func TestHosts(t *testing.T) {
	for url, want := range map[string]string{
		"https://127.0.0.1:9443":     "127.0.0.1",
		"https://[2001:db8::1]:9443": "2001:db8::1",
		"https://dev.example/":       "dev.example",
		"http://127.0.0.1:9443":      "",
		"127.0.0.1:9443":             "",
		"https://":                   "",
		"https://h:1/path":           "",
		"https://user@h:1":           "",
	} {
		hosts, err := Endpoint{URL: url}.hosts()
		if want == "" {
			if err == nil {
				t.Errorf("%q is taken: %v", url, hosts)
			}
			continue
		}
		if err != nil || !cmp.Equal(hosts, []string{want}) {
			t.Errorf("%q: hosts %v, %v", url, hosts, err)
		}
	}
}

// A process outside of the cluster adds its authority to the calls to itself, beside the old one, and publishes
// nothing elsewhere.
func TestAuthorityReachesWhereverAURLIsCalled(t *testing.T) {
	now := time.Now()
	first, second := authority(t, now), authority(t, now.Add(time.Hour))
	byURL := func(base, path string) *apiextensionsv1.WebhookClientConfig {
		return &apiextensionsv1.WebhookClientConfig{URL: ptr.To(base + path), CABundle: first}
	}
	elsewhere := configuration()
	elsewhere.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://192.0.2.8:9443/a"), CABundle: first}
	w := newCluster(t, elsewhere, crd(func(c *apiextensionsv1.CustomResourceConversion) {
		c.Webhook.ClientConfig = byURL("https://192.0.2.7:9443", "/convert")
	}))
	serving := &Serving{options: Options{Client: w, Kinds: controllers.Table(), Endpoint: Endpoint{Namespace: own, URL: "https://192.0.2.7:9443/"}, Clock: w.clock}}
	for range 2 {
		if _, err := serving.publish(t.Context(), second); err != nil {
			t.Fatal(err)
		}
	}
	want := byURL("https://192.0.2.7:9443", "/convert")
	want.CABundle = append(append([]byte{}, second...), first...)
	if diff := cmp.Diff(want, w.conversion(t).Webhook.ClientConfig); diff != "" {
		t.Errorf("conversion (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{crdName}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}

	// A called Service is not ours to change from here.
	service := crd(nil)
	w = newCluster(t, service)
	serving.options.Client = w
	if _, err := serving.publish(t.Context(), second); err != nil || len(w.writes) > 0 {
		t.Errorf("wrote %v, %v", w.writes, err)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(service), service); err != nil || service.Spec.Conversion.Webhook.ClientConfig.Service == nil {
		t.Errorf("the conversion became %+v: %v", service.Spec.Conversion, err)
	}
}
