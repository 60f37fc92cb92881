// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// hangingWebhook registers somebody's admission webhook for new pods of a namespace that never answers. It returns how often it was
// asked.
func hangingWebhook(t *testing.T, n *environment.Namespace) *atomic.Int64 {
	t.Helper()
	pair, err := n.Cluster.PKI().Server("hanging-webhook", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	over, release := context.WithCancel(context.Background())
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		select {
		case <-r.Context().Done():
		case <-over.Done():
		}
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(func() {
		release()
		server.CloseClientConnections()
		server.Close()
	})
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hangs-" + n.Name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "hangs.example.io",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: ptr.To(server.URL), CABundle: n.Cluster.CA()},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": n.Name}},
			TimeoutSeconds:          ptr.To[int32](30),
			FailurePolicy:           ptr.To(admissionregistrationv1.Fail),
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}
	if err := n.Client.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := n.Client.Delete(ctx, config); err != nil {
			t.Errorf("deleting the hanging webhook: %v", err)
		}
	})
	return &asked
}

func TestHangingWebhookOfOneNamespaceDelaysNoOther(t *testing.T) {
	const sets = 20
	a, b := env.Namespace(t), env.Namespace(t)
	name := func(i int) string { return fmt.Sprintf("web-%c", 'a'+i) }
	for i := range sets {
		a.Apply(manifest(name(i), 0, "1"))
	}
	for i := range sets {
		a.Settled(name(i))
	}
	asked := hangingWebhook(t, a)
	for i := range sets {
		a.Change(name(i), func(set *v1beta1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](3) })
	}
	a.Eventually("creations of pods hang", func(context.Context) error {
		if asked.Load() == 0 {
			return errors.New("the webhook was not asked yet")
		}
		return nil
	})

	for _, moment := range []string{"when the webhook begins to hang", "a little later"} {
		set := map[string]string{"when the webhook begins to hang": "first", "a little later": "second"}[moment]
		began := time.Now()
		b.Apply(manifest(set, 10, "25%"))
		b.Settled(set)
		took := time.Since(began)
		t.Logf("measured: 10 pods of another namespace are available after %s, %s", took.Round(10*time.Millisecond), moment)
		if took > 5*time.Second {
			t.Errorf("%s: 10 pods took %s, want at most 5s", moment, took)
		}
		began = time.Now()
		b.SetImage(set, "example/web:v2")
		b.Settled(set)
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("%s: updating 10 pods in place took %s, want at most 8s", moment, took)
		}
	}
	if got := len(a.Pods()); got != 0 {
		t.Errorf("%d pods were let in by a webhook that hangs", got)
	}
}
