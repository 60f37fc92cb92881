// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
)

// authoritiesOf is the next caBundle for wanted, the authority of the operator's certificate. Both are in PEM and may be empty.
//
// A bundle with the wanted one stays, as it does when nothing is wanted: replicas with different authorities do
// not overwrite each other. Otherwise it becomes the wanted one and the newest still valid present one: replicas
// change certificates one by one. It never becomes empty: a wrong conversion makes objects unreadable.
func authoritiesOf(present, wanted []byte, now time.Time) []byte {
	trusted, added := certificatesIn(present), certificatesIn(wanted)
	if !slices.ContainsFunc(added, func(a *x509.Certificate) bool { return !slices.ContainsFunc(trusted, a.Equal) }) {
		return present
	}
	previous := slices.DeleteFunc(trusted, func(c *x509.Certificate) bool {
		return now.After(c.NotAfter) || slices.ContainsFunc(added, c.Equal)
	})
	if len(previous) > 0 {
		added = append(added, slices.MaxFunc(previous, func(a, b *x509.Certificate) int { return a.NotBefore.Compare(b.NotBefore) }))
	}
	var bundle []byte
	for _, authority := range added {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: authority.Raw})...)
	}
	return bundle
}

// certificatesIn returns a bundle's certificates, without unparsable ones.
func certificatesIn(bundle []byte) []*x509.Certificate {
	var found []*x509.Certificate
	for len(bundle) > 0 {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			break
		}
		if authority, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, authority)
		}
	}
	return found
}
