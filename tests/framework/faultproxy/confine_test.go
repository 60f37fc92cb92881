// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faultproxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTargetOf(t *testing.T) {
	for path, want := range map[string]Target{
		"/api/v1/pods":                       {Resource: "pods"},
		"/api/v1/namespaces":                 {Resource: "namespaces"},
		"/api/v1/namespaces/a":               {Resource: "namespaces", Name: "a"},
		"/api/v1/namespaces/a/pods/b/status": {Resource: "pods", Namespace: "a", Name: "b", Subresource: "status"},
		"/apis/apps.kruise.io/v1beta1/namespaces/a/statefulsets/b":               {Resource: "statefulsets.apps.kruise.io", Namespace: "a", Name: "b"},
		"/apis/apps.kruise.io/v1beta1/sidecarsets/b/status":                      {Resource: "sidecarsets.apps.kruise.io", Name: "b", Subresource: "status"},
		"/apis/coordination.k8s.io/v1/namespaces/kruise-system/leases/the-lease": {Resource: "leases.coordination.k8s.io", Namespace: "kruise-system", Name: "the-lease"},
	} {
		got, ok := TargetOf(httptest.NewRequest(http.MethodGet, path, nil))
		if !ok || got != want {
			t.Errorf("%s: got %+v %t, want %+v", path, got, ok, want)
		}
	}
	for _, path := range []string{"/version", "/apis", "/apis/apps/v1", "/openapi/v3/apis/apps"} {
		if got, ok := TargetOf(httptest.NewRequest(http.MethodGet, path, nil)); ok {
			t.Errorf("%s: got %+v, want none", path, got)
		}
	}
}

func TestConfine(t *testing.T) {
	for asked, want := range map[string]string{
		"GET /api/v1/pods?watch=1":                             "/api/v1/namespaces/a/pods?watch=1",
		"GET /apis/apps/v1/controllerrevisions":                "/apis/apps/v1/namespaces/a/controllerrevisions",
		"GET /api/v1/namespaces/b/pods":                        "/api/v1/namespaces/b/pods",
		"GET /api/v1/nodes?watch=1":                            "/api/v1/nodes?watch=1",
		"GET /apis/apps.kruise.io/v1beta1/sidecarsets?watch=1": "/apis/apps.kruise.io/v1beta1/sidecarsets?labelSelector=chaos.kruise.io%2Flane%3Da&watch=1",
		"POST /api/v1/namespaces/b/pods":                       "/api/v1/namespaces/b/pods",
		"GET /apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings" +
			"?labelSelector=chaos.kruise.io%2Flane%3Da",
		"GET /apis/apps/v1/namespaces/b/controllerrevisions?labelSelector=operator.kruise.io%2Finjection": "/apis/apps/v1/namespaces/b/controllerrevisions" +
			"?labelSelector=operator.kruise.io%2Finjection%2Cchaos.kruise.io%2Flane%3Da",
		"GET /apis/apps/v1/namespaces/b/controllerrevisions": "/apis/apps/v1/namespaces/b/controllerrevisions",
	} {
		var method, path string
		for i := range asked {
			if asked[i] == ' ' {
				method, path = asked[:i], asked[i+1:]
				break
			}
		}
		r := httptest.NewRequest(method, path, nil)
		confine(r, "a", "")
		if got := r.URL.RequestURI(); got != want {
			t.Errorf("%s: got %s, want %s", asked, got, want)
		}
	}
}

func TestConfineNodes(t *testing.T) {
	for asked, want := range map[string]string{
		"/api/v1/nodes?watch=1":                               "/api/v1/nodes?labelSelector=chaos%3Dlane&watch=1",
		"/apis/apps.kruise.io/v1beta1/nodeimages":             "/apis/apps.kruise.io/v1beta1/nodeimages?labelSelector=chaos%3Dlane",
		"/apis/apps.kruise.io/v1alpha1/nodepodprobes?watch=1": "/apis/apps.kruise.io/v1alpha1/nodepodprobes?fieldSelector=metadata.name%3Da-a&watch=1",
		"/apis/apps.kruise.io/v1alpha1/nodepodprobes/another": "/apis/apps.kruise.io/v1alpha1/nodepodprobes/another",
	} {
		r := httptest.NewRequest(http.MethodGet, asked, nil)
		confine(r, "a", "chaos=lane")
		if got := r.URL.RequestURI(); got != want {
			t.Errorf("%s: got %s, want %s", asked, got, want)
		}
	}
}

// OpenKruise's lease, read by the operator before it acts, must not be taken for its own.
func TestTheOperatorsLeaseAloneIsRenamed(t *testing.T) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kruise-system/leases"
	for asked, want := range map[string]string{
		leases + "/kruise-operator-manager": leases + "/lane", leases + "/lane": leases + "/lane", leases + "/kruise-manager": leases + "/kruise-manager",
		"/api/v1/namespaces/a/pods/kruise-operator-manager": "/api/v1/namespaces/a/pods/kruise-operator-manager",
	} {
		r := httptest.NewRequest(http.MethodGet, asked, nil)
		r.Header.Set("Authorization", "Bearer token")
		if err := rename(r, "lane"); err != nil || r.URL.Path != want || (r.Header.Get("Authorization") == "") != (want == leases+"/lane") {
			t.Errorf("%s: got %s with %v, want %s: %v", asked, r.URL.Path, r.Header, want, err)
		}
	}
	body := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"kruise-operator-manager","namespace":"kruise-system"},"spec":{"holderIdentity":"a"}}`
	r := httptest.NewRequest(http.MethodPost, leases, strings.NewReader(body))
	if err := rename(r, "lane"); err != nil {
		t.Fatal(err)
	}
	sent, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(string(sent), `"name":"lane"`) || !strings.Contains(string(sent), `"holderIdentity":"a"`) || int64(len(sent)) != r.ContentLength {
		t.Errorf("sent is %s, %d bytes, %v", sent, r.ContentLength, err)
	}
}
