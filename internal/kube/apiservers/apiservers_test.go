// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package apiservers_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kruise-operator/kruise-operator/internal/kube/apiservers"
)

// server counts its requests and says nothing is there, until it shows a ConfigMap.
type server struct {
	asked atomic.Int64
	shows atomic.Bool
	port  int32
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	listening := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if !s.shows.Load() {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
			return
		}
		_, _ = w.Write([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"b"}}`))
	}))
	t.Cleanup(listening.Close)
	_, port, err := net.SplitHostPort(listening.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	s.port = int32(number)
	return s
}

// serversOf are a cluster's, by ports.
func serversOf(t *testing.T, ports ...int32) *apiservers.Servers {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, AddressType: discoveryv1.AddressTypeIPv4}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}}
	for _, port := range ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Port: ptr.To(port)})
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	live := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(slice).Build()
	return apiservers.New(live, &rest.Config{Host: "http://kubernetes.example"}, client.Options{Scheme: scheme.Scheme, Mapper: mapper})
}

func shows(ctx context.Context, c client.Client) error {
	return c.Get(ctx, client.ObjectKey{Namespace: "b", Name: "a"}, &corev1.ConfigMap{})
}

// Each API server answers for itself. An unreachable one is left out.
func TestEveryServerThatIsReachedHasToShowIt(t *testing.T) {
	one, other, gone := newServer(t), newServer(t), int32(1)
	servers := serversOf(t, one.port, other.port, gone)
	one.shows.Store(true)
	if err := servers.Each(t.Context(), shows); err == nil {
		t.Error("one of two servers does not show it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	asked := other.asked.Load()
	if err := servers.Until(ctx, func(ctx context.Context, c client.Client) error {
		err := shows(ctx, c)
		if other.asked.Load() > asked+2 {
			other.shows.Store(true)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := servers.Each(t.Context(), shows); err != nil || one.asked.Load() < 3 {
		t.Errorf("%v after %d requests", err, one.asked.Load())
	}
}

func TestWithoutAServerNothingIsShown(t *testing.T) {
	if err := serversOf(t, 1).Each(t.Context(), func(ctx context.Context, c client.Client) error { return shows(ctx, c) }); err == nil {
		t.Error("nobody was asked")
	}
	failing := errors.New("not yet")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := serversOf(t, newServer(t).port).Until(ctx, func(context.Context, client.Client) error { return failing }); !errors.Is(err, failing) {
		t.Errorf("got %v", err)
	}
}
