// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// authority is a new one, and a certificate of it for a client.
func authority(t *testing.T) (ca, client *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(template, parent *x509.Certificate) *x509.Certificate {
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := x509.ParseCertificate(raw)
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	root := &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	ca = issue(root, root)
	client = issue(&x509.Certificate{Subject: pkix.Name{CommonName: "apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, ca)
	return ca, client
}

// paths is a webhook server keeping its handlers.
type paths struct {
	ctrlwebhook.Server
	handlers map[string]http.Handler
}

// Register implements ctrlwebhook.Server.
func (p paths) Register(path string, handler http.Handler) { p.handlers[path] = handler }

// With an authority for clients, webhooks for admission answer nobody else. An API server shows no certificate for conversion.
func TestOnlyTheClientsOfTheAuthorityMayAskForAdmission(t *testing.T) {
	ca, client := authority(t)
	_, stranger := authority(t)
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	server := paths{handlers: map[string]http.Handler{}}
	limited := limiting(server, pool)
	for _, path := range []string{"/validate", conversion.Path} {
		limited.Register(path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	}
	for name, tc := range map[string]struct {
		path   string
		chain  []*x509.Certificate
		answer int
	}{
		"nobody":             {"/validate", nil, http.StatusForbidden},
		"a stranger":         {"/validate", []*x509.Certificate{stranger}, http.StatusForbidden},
		"the API server":     {"/validate", []*x509.Certificate{client}, http.StatusOK},
		"nobody, to convert": {conversion.Path, nil, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequest(http.MethodPost, tc.path, http.NoBody)
			request.TLS = &tls.ConnectionState{PeerCertificates: tc.chain}
			recorder := httptest.NewRecorder()
			server.handlers[tc.path].ServeHTTP(recorder, request)
			if recorder.Code != tc.answer {
				t.Errorf("HTTP %d, want %d: %s", recorder.Code, tc.answer, recorder.Body)
			}
		})
	}
}
