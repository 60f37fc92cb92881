// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const day = 24 * time.Hour

func TestIssue(t *testing.T) {
	now := time.Now()
	first := issue(t, Bundle{}, now, "127.0.0.1", "webhooks.example")
	dial(t, first, now, "127.0.0.1")
	dial(t, first, now, "webhooks.example")

	other := issue(t, Bundle{}, now, "127.0.0.1")
	cases := map[string]struct {
		previous Bundle
		at       time.Time
		host     string
		same     bool
	}{
		"nothing is due":                 {previous: first, at: now.Add(Lifetime / 2), host: "127.0.0.1", same: true},
		"less than a third of its time":  {previous: first, at: now.Add(2*Lifetime/3 + day), host: "127.0.0.1"},
		"it is over":                     {previous: first, at: now.Add(2 * Lifetime), host: "127.0.0.1"},
		"another host":                   {previous: first, at: now, host: "192.0.2.7"},
		"a damaged key":                  {previous: Bundle{CA: first.CA, Cert: first.Cert, Key: []byte("x")}, at: now, host: "127.0.0.1"},
		"a damaged authority":            {previous: Bundle{CA: []byte("x"), Cert: first.Cert, Key: first.Key}, at: now, host: "127.0.0.1"},
		"another's certificate":          {previous: Bundle{CA: first.CA, Cert: other.Cert, Key: other.Key}, at: now, host: "127.0.0.1"},
		"made while the clock was ahead": {previous: first, at: now.Add(-day), host: "127.0.0.1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := issue(t, tc.previous, tc.at, tc.host)
			if same := bytes.Equal(got.Cert, first.Cert) && bytes.Equal(got.CA, first.CA); same != tc.same {
				t.Errorf("the same certificate: %v, want %v", same, tc.same)
			}
			dial(t, got, now, tc.host)
		})
	}
}

// local is an operator outside of the cluster, with a certificate of its own.
func local(c client.Client, clock *testingclock.FakeClock, host string) *Serving {
	return &Serving{options: Options{Client: c, Endpoint: Endpoint{Namespace: own, URL: "https://" + host}, Clock: clock}, hosts: []string{host}}
}

func found(t *testing.T, s *Serving) Bundle {
	t.Helper()
	bundle, err := s.find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func TestReplicasShareOneCertificate(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Now())
	c := newClient(t, interceptor.Funcs{})
	first := found(t, local(c, clock, "127.0.0.1"))
	if again := found(t, local(c, clock, "127.0.0.1")); !bytes.Equal(first.Cert, again.Cert) || !bytes.Equal(first.Key, again.Key) {
		t.Error("a second process does not get the first one's certificate")
	}
	// A process with another address joins; the first one's address stays.
	both := found(t, local(c, clock, "192.0.2.7"))
	dial(t, both, clock.Now(), "127.0.0.1")
	dial(t, both, clock.Now(), "192.0.2.7")
	if again := found(t, local(c, clock, "127.0.0.1")); !bytes.Equal(both.Cert, again.Cert) {
		t.Error("two processes take the certificate from each other")
	}
}

func TestAReplicaYieldsToAFasterOne(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Now())
	var winner Bundle
	overtaken := false
	c := newClient(t, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if !overtaken {
				overtaken = true
				winner = found(t, local(c, clock, "127.0.0.1"))
			}
			return c.Update(ctx, object, options...)
		},
	})
	if got := found(t, local(c, clock, "127.0.0.1")); !bytes.Equal(got.Cert, winner.Cert) {
		t.Error("the slower replica does not use what the faster one stored")
	}
}

func issue(t *testing.T, previous Bundle, now time.Time, hosts ...string) Bundle {
	t.Helper()
	bundle, err := Issue(previous, hosts, now)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// dial makes a TLS connection as the API server does: it knows the authority and the host only.
func dial(t *testing.T, bundle Bundle, now time.Time, host string) {
	t.Helper()
	pair, err := tls.X509KeyPair(bundle.Cert, bundle.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle.CA) {
		t.Fatal("the authority cannot be parsed")
	}
	near, far := net.Pipe()
	if err := near.SetDeadline(time.Now().Add(10 * time.Second)); err != nil { // a client that refuses would wait for ever to say so
		t.Fatal(err)
	}
	defer near.Close() //nolint:errcheck // a pipe
	defer far.Close()  //nolint:errcheck // a pipe
	server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	go func() { _ = server.HandshakeContext(t.Context()) }()
	conn := tls.Client(near, &tls.Config{RootCAs: roots, ServerName: host, Time: func() time.Time { return now }, MinVersion: tls.VersionTLS12})
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Errorf("calling %s: %v", host, err)
	}
}

func newClient(t *testing.T, funcs interceptor.Funcs) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(funcs).Build()
}

// A new authority is trusted, and has settled, before its first certificate is served.
func TestOnlyWhatIsTrustedIsServed(t *testing.T) {
	w := newCluster(t, configuration())
	refused := true
	refusing := interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if _, is := object.(*corev1.Secret); !is && refused {
				return errors.New("no")
			}
			return c.Update(ctx, object, options...)
		},
	})
	endpoint := Endpoint{Namespace: own}
	hosts, _ := endpoint.hosts()
	s := &Serving{options: Options{Client: refusing, Endpoint: endpoint, Clock: w.clock}, hosts: hosts}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	s.TLS(config)
	served := func() *tls.Certificate {
		pair, err := config.GetCertificate(nil)
		if err != nil {
			t.Error(err)
		}
		return pair
	}
	if err := s.refresh(t.Context()); err == nil || served() != nil {
		t.Errorf("a certificate that nobody trusts is served: %v", err)
	}
	refused = false
	if err := s.refresh(t.Context()); err != nil || served() == nil { // nothing is served yet, so there is nothing to wait for
		t.Fatalf("the first certificate is not served: %v", err)
	}
	before := served()
	if err := w.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: OwnSecret}}); err != nil {
		t.Fatal(err)
	}
	loaded := make(chan error)
	go func() { loaded <- s.refresh(t.Context()) }()
	for deadline := time.Now().Add(30 * time.Second); !w.clock.HasWaiters(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not wait")
		}
	}
	if served() != before {
		t.Error("the new certificate is served before API servers know its authority")
	}
	if got := certificatesIn(w.admission(t)[0].CABundle); len(got) != 2 {
		t.Errorf("%d authorities are trusted meanwhile, want both", len(got))
	}
	w.clock.Step(settle)
	if err := <-loaded; err != nil || served() == before {
		t.Errorf("the old certificate is still served: %v", err)
	}
}
