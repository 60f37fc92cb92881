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

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/faultproxy"
)

// hangingWebhook registers a silent admission webhook for a namespace's new pods, and
// counts its calls.
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
	a := env.Namespace(t)
	var asked *atomic.Int64
	delaysNoOther(t, a, func() { asked = hangingWebhook(t, a) }, func() bool { return asked.Load() > 0 })
	if got := len(a.Pods()); got != 0 {
		t.Errorf("%d pods were let in by a webhook that hangs", got)
	}
}

// Here not only pods hang, but whatever the operator writes there: statuses, revisions, events.
func TestHangingWritesOfOneNamespaceDelayNoOther(t *testing.T) {
	a := env.Namespace(t)
	hung := 0
	delaysNoOther(t, a, func() { faulty(t, faultproxy.Faults{Hang: a.Name}) }, func() bool {
		hung += proxy.Counts().Hung
		return hung > 0
	})
	proxy.Set(faultproxy.Faults{})
	for i := range hangingSets {
		kindOf(a, i).settled(setName(i))
	}
}

// hangingSets is how many sets the namespace in trouble has.
const hangingSets = 20

func setName(i int) string { return fmt.Sprintf("web-%c", 'a'+i) }

// delaysNoOther gives one namespace many sets whose pods are made in the trouble, and shows
// another namespace's sets made and updated as usual.
func delaysNoOther(t *testing.T, troubled *environment.Namespace, trouble func(), began func() bool) {
	t.Helper()
	for i := range hangingSets {
		kindOf(troubled, i).apply(setName(i), 0, "1")
	}
	for i := range hangingSets {
		kindOf(troubled, i).settled(setName(i))
	}
	trouble()
	for i := range hangingSets {
		kindOf(troubled, i).scale(setName(i), 3)
	}
	troubled.Eventually("writes hang", func(context.Context) error {
		if !began() {
			return errors.New("none does yet")
		}
		return nil
	})

	other := env.Namespace(t)
	for i, set := range []string{"first", "second"} {
		of := kindOf(other, i)
		start := time.Now()
		of.apply(set, 10, "25%")
		of.settled(set)
		made := time.Since(start)
		start = time.Now()
		of.setImage(set, "example/web:v2")
		of.settled(set)
		updated := time.Since(start)
		t.Logf("measured: while another namespace hangs, the 10 pods of the %s set are available after %s and updated in place after %s",
			set, made.Round(10*time.Millisecond), updated.Round(10*time.Millisecond))
		if made > 5*time.Second || updated > 8*time.Second {
			t.Errorf("the %s set took %s and %s, want at most 5s and 8s", set, made, updated)
		}
	}
}
