// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"testing"
)

func TestClientCarriesUserAndGroups(t *testing.T) {
	authority := newAuthority(t)
	pair, err := authority.Client("system:node:node-1", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	certificate := verify(t, authority, pair, x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if got := certificate.Subject.CommonName; got != "system:node:node-1" {
		t.Errorf("user is %q", got)
	}
	if got := certificate.Subject.Organization; !slices.Equal(got, []string{"system:nodes"}) {
		t.Errorf("groups are %q", got)
	}
}

func TestServerIsValidForItsHostsOnly(t *testing.T) {
	authority := newAuthority(t)
	pair, err := authority.Server("kubelet", "node-1", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"node-1", "127.0.0.1"} {
		verify(t, authority, pair, x509.VerifyOptions{DNSName: host})
	}
	certificate := verify(t, authority, pair, x509.VerifyOptions{})
	if err := certificate.VerifyHostname("node-2"); err == nil {
		t.Error("the certificate is valid for a host it was not issued for")
	}
}

func TestAuthoritiesDoNotTrustEachOther(t *testing.T) {
	pair, err := newAuthority(t).Client("somebody")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(newAuthority(t).Cert())
	if _, err := parse(t, pair).Verify(x509.VerifyOptions{Roots: roots}); err == nil {
		t.Error("a certificate of one authority is accepted by another")
	}
}

func newAuthority(t *testing.T) *Authority {
	t.Helper()
	authority, err := NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func verify(t *testing.T, authority *Authority, pair Pair, options x509.VerifyOptions) *x509.Certificate {
	t.Helper()
	options.Roots = x509.NewCertPool()
	options.Roots.AppendCertsFromPEM(authority.Cert())
	certificate := parse(t, pair)
	if _, err := certificate.Verify(options); err != nil {
		t.Fatal(err)
	}
	return certificate
}

// parse also checks the key against the certificate.
func parse(t *testing.T, pair Pair) *x509.Certificate {
	t.Helper()
	loaded, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Leaf
}
