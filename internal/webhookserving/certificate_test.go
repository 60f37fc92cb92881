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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
		previous          Bundle
		at                time.Time
		hosts             []string
		sameCA, sameCerts bool
	}{
		"nothing is due":                 {previous: first, at: now.Add(Lifetime/2 - day), hosts: []string{"127.0.0.1"}, sameCA: true, sameCerts: true},
		"a third of its time left":       {previous: first, at: now.Add(2*Lifetime/3 + day), hosts: []string{"127.0.0.1"}, sameCA: true},
		"it is over":                     {previous: first, at: now.Add(2 * Lifetime), hosts: []string{"127.0.0.1"}, sameCA: true},
		"another host":                   {previous: first, at: now, hosts: []string{"192.0.2.7"}, sameCA: true},
		"the authority nearly over":      {previous: first, at: now.Add(10*365*day - Lifetime/2), hosts: []string{"127.0.0.1"}},
		"a damaged key":                  {previous: Bundle{CA: first.CA, CAKey: first.CAKey, Cert: first.Cert, Key: []byte("x")}, at: now, hosts: []string{"127.0.0.1"}, sameCA: true},
		"a damaged authority":            {previous: Bundle{CA: []byte("x"), CAKey: first.CAKey, Cert: first.Cert, Key: first.Key}, at: now, hosts: []string{"127.0.0.1"}},
		"another's certificate":          {previous: Bundle{CA: first.CA, CAKey: first.CAKey, Cert: other.Cert, Key: other.Key}, at: now, hosts: []string{"127.0.0.1"}, sameCA: true},
		"made while the clock was ahead": {previous: issue(t, Bundle{}, now.Add(day), "127.0.0.1"), at: now, hosts: []string{"127.0.0.1"}},
		"another's authority key":        {previous: Bundle{CA: first.CA, CAKey: other.CAKey, Cert: first.Cert, Key: first.Key}, at: now, hosts: []string{"127.0.0.1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := issue(t, tc.previous, tc.at, tc.hosts...)
			if same := bytes.Equal(got.CA, first.CA); same != tc.sameCA {
				t.Errorf("the same authority: %v, want %v", same, tc.sameCA)
			}
			if same := bytes.Equal(got.Cert, first.Cert); same != tc.sameCerts {
				t.Errorf("the same certificate: %v, want %v", same, tc.sameCerts)
			}
			for _, host := range tc.hosts {
				dial(t, got, tc.at, host)
			}
		})
	}

	if _, err := Issue(Bundle{}, nil, now); err == nil {
		t.Error("a certificate for no host was issued")
	}
}

func TestReplicasShareOneCertificate(t *testing.T) {
	name := types.NamespacedName{Namespace: "system", Name: "certificate"}
	now := time.Now()
	c := newClient(t, interceptor.Funcs{})

	first, err := ensureSecret(t.Context(), c, name, []string{"127.0.0.1"}, now)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ensureSecret(t.Context(), c, name, []string{"127.0.0.1"}, now.Add(day))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Cert, again.Cert) || !bytes.Equal(first.Key, again.Key) {
		t.Error("a second process does not get the first one's certificate")
	}

	// A process with another address joins; the first one's address stays.
	both, err := ensureSecret(t.Context(), c, name, []string{"192.0.2.7"}, now)
	if err != nil {
		t.Fatal(err)
	}
	dial(t, both, now, "127.0.0.1")
	dial(t, both, now, "192.0.2.7")
	if !bytes.Equal(first.CA, both.CA) {
		t.Error("another address changes the authority")
	}
}

func TestAReplicaYieldsToAFasterOne(t *testing.T) {
	name := types.NamespacedName{Namespace: "system", Name: "certificate"}
	now := time.Now()
	var winner Bundle
	overtaken := false
	c := newClient(t, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if !overtaken {
				overtaken = true
				var err error
				if winner, err = ensureSecret(ctx, c, name, []string{"127.0.0.1"}, now); err != nil {
					return err
				}
			}
			return c.Update(ctx, object, options...)
		},
	})
	got, err := ensureSecret(t.Context(), c, name, []string{"127.0.0.1"}, now)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Cert, winner.Cert) {
		t.Error("the slower replica does not use what the faster one stored")
	}
}

func TestSourceRenewsWhileServing(t *testing.T) {
	name := types.NamespacedName{Namespace: "system", Name: "certificate"}
	now := time.Now()
	clock := testingclock.NewFakeClock(now)
	kept := &ownCertificate{Client: newClient(t, interceptor.Funcs{}), Secret: name, Hosts: []string{"127.0.0.1"}, Clock: clock}

	config := &tls.Config{MinVersion: tls.VersionTLS12}
	kept.TLS(config)
	if _, err := config.GetCertificate(nil); err == nil {
		t.Error("there is a certificate before one is loaded")
	}
	bundle, err := kept.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	served := func() []byte {
		pair, err := config.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Certificate[0]
	}
	first := served()
	dial(t, bundle, now, "127.0.0.1")

	for bytes.Equal(served(), first) {
		if clock.Since(now) > Lifetime {
			t.Fatal("the certificate was not renewed")
		}
		clock.Step(day)
		if _, err := kept.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if elapsed := clock.Since(now); elapsed < Lifetime/2 {
		t.Errorf("renewed after %v already", elapsed)
	}
}

// A certificate of another authority is served only once the API server trusts that authority.
func TestSourceIsTrustedBeforeItServes(t *testing.T) {
	name := types.NamespacedName{Namespace: "system", Name: "certificate"}
	c := newClient(t, interceptor.Funcs{})
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	served := func() []byte {
		pair, err := config.GetCertificate(nil)
		if err != nil {
			return nil
		}
		return pair.Certificate[0]
	}
	var published [][]byte
	var servedThen []byte
	var refusal error
	kept := &ownCertificate{
		Client: c, Secret: name, Hosts: []string{"127.0.0.1"}, Clock: testingclock.NewFakeClock(time.Now()),
		Trust: func(_ context.Context, ca []byte) error {
			published, servedThen = append(published, ca), served()
			return refusal
		},
	}
	kept.TLS(config)
	first, err := kept.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(published) != 1 || !bytes.Equal(published[0], first.CA) || servedThen != nil {
		t.Errorf("published %d authorities, and a certificate was served before: %v", len(published), servedThen != nil)
	}
	if _, err := kept.Load(t.Context()); err != nil || len(published) != 1 {
		t.Errorf("published %d authorities after another look: %v", len(published), err)
	}

	before := served()
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = name.Namespace, name.Name
	if err := c.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	refusal = errors.New("the API server is away")
	if _, err := kept.Load(t.Context()); !errors.Is(err, refusal) {
		t.Errorf("loading while it cannot be published: %v", err)
	}
	if !bytes.Equal(served(), before) {
		t.Error("a certificate is served that nobody trusts")
	}
	refusal = nil
	next, err := kept.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(next.CA, first.CA) || bytes.Equal(served(), before) || !bytes.Equal(servedThen, before) {
		t.Error("the next certificate is not served, or was before it was trusted")
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
	pair, err := bundle.Pair()
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

// A new authority is trusted, and that has settled, before the first certificate of it is served.
func TestSourceServesOnlyWhatIsTrusted(t *testing.T) {
	name := types.NamespacedName{Namespace: "system", Name: "certificate"}
	clock := testingclock.NewFakeClock(time.Now())
	c := newClient(t, interceptor.Funcs{})
	trusted := make(chan []byte, 2)
	kept := &ownCertificate{
		Client: c, Secret: name, Hosts: []string{"127.0.0.1"}, Clock: clock, Settle: 3 * time.Second,
		Trust: func(_ context.Context, ca []byte) error { trusted <- ca; return nil },
	}
	first, err := kept.Load(t.Context()) // nothing is served yet, so there is nothing to wait for
	if err != nil || !bytes.Equal(<-trusted, first.CA) {
		t.Fatalf("the first authority: %v", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	kept.TLS(config)
	before, err := config.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}

	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = name.Namespace, name.Name
	if err := c.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	loaded := make(chan error)
	go func() {
		_, err := kept.Load(t.Context())
		loaded <- err
	}()
	if bytes.Equal(<-trusted, first.CA) {
		t.Error("the old authority is trusted again, want the new one")
	}
	if is, err := config.GetCertificate(nil); err != nil || is != before {
		t.Errorf("the new certificate is served before API servers know its authority (%v)", err)
	}
	for deadline := time.Now().Add(30 * time.Second); !clock.HasWaiters(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not wait")
		}
	}
	clock.Step(3 * time.Second)
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	if is, err := config.GetCertificate(nil); err != nil || is == before {
		t.Errorf("the old certificate is still served (%v)", err)
	}
}
