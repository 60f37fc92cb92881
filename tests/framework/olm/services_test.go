// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package olm

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestServicesAreReachedByTheirNames(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) }))
	defer server.Close()
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := func(service string, ready bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "olm", Name: service + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{address.Hostname()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(ready)}},
			},
		}
	}
	s, err := serveServices(fake.NewClientBuilder().WithObjects(endpoint("catalog", true), endpoint("starting", false)).Build())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	proxy, err := url.Parse(s.url())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy)}
	defer transport.CloseIdleConnections()
	for name, reached := range map[string]bool{"catalog.olm.svc": true, "starting.olm.svc": false, "nobody.olm.svc": false, "example.com": false} {
		response, err := (&http.Client{Transport: transport}).Get("http://" + name + ":" + address.Port())
		if (err == nil) != reached {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || string(body) != name+":"+address.Port() {
			t.Errorf("%s answered %q (%v)", name, body, err)
		}
		_ = response.Body.Close()
	}
}
