// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestDelete: the request says what the options say, and its answer, which is no object here, is not read.
func TestDelete(t *testing.T) {
	type request struct {
		method, path string
		options      metav1.DeleteOptions
	}
	var got request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = request{method: r.Method, path: r.URL.Path}
		if err := json.Unmarshal(body, &got.options); err != nil {
			t.Errorf("the body is %q: %v", body, err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "no object")
	}))
	defer server.Close()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	c, err := NewClient(&rest.Config{Host: server.URL}, client.Options{Scheme: scheme.Scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"Pod": "/api/v1/namespaces/ns/pods/a", "Node": "/api/v1/nodes/a"} {
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		if kind == "Pod" {
			object.Namespace = "ns"
		}
		exactly := client.Preconditions{UID: ptr.To(types.UID("uid")), ResourceVersion: ptr.To("7")}
		if err := c.Delete(t.Context(), object, exactly, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
			t.Fatal(err)
		}
		if got.method != http.MethodDelete || got.path != want {
			t.Errorf("%s %s", got.method, got.path)
		}
		o := got.options
		if p := o.Preconditions; p == nil || *p.UID != "uid" || *p.ResourceVersion != "7" || *o.PropagationPolicy != metav1.DeletePropagationOrphan {
			t.Errorf("the options are %+v", o)
		}
	}
	unknown := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	unknown.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Unknown"})
	if err := c.Delete(t.Context(), unknown); !meta.IsNoMatchError(err) {
		t.Errorf("the error is %v", err)
	}
}
