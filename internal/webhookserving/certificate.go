// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// Lifetime is how long a serving certificate is valid.
	Lifetime = 90 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced.
	renewBefore = Lifetime / 3
	// authorityLifetime is how long an authority is valid.
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// backdate allows for clocks that differ.
	backdate = 5 * time.Minute
)

// Bundle is an authority and a certificate it issued, all in PEM.
type Bundle struct {
	// CA is the authority's certificate, for the caBundle of webhook configurations.
	CA []byte
	// CAKey is the authority's private key.
	CAKey []byte
	// Cert is the serving certificate.
	Cert []byte
	// Key is its private key.
	Key []byte
}

// Pair returns the serving certificate as a TLS server takes it.
func (b Bundle) Pair() (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(b.Cert, b.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("decoding the serving certificate: %w", err)
	}
	return pair, nil
}

// Issue returns a bundle that serves the hosts (names or addresses) at the given time. Usable parts of previous are kept: the authority if it
// is valid already and outlives a new certificate, and the certificate if it serves the hosts and is not due for renewal. An authority that was made
// while a clock was ahead is not valid yet: no certificate of it would be.
func Issue(previous Bundle, hosts []string, now time.Time) (Bundle, error) {
	authority, key, err := previous.authority()
	if err != nil || authority.NotBefore.After(now) || authority.NotAfter.Before(now.Add(Lifetime)) {
		if previous, err = newAuthority(now); err != nil {
			return Bundle{}, err
		}
		if authority, key, err = previous.authority(); err != nil {
			return Bundle{}, err
		}
	}
	if previous.serves(authority, hosts, now) {
		return previous, nil
	}
	return previous.sign(authority, key, hosts, now)
}

// newAuthority returns a bundle with an authority and no certificate.
func newAuthority(now time.Time) (Bundle, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Bundle{}, fmt.Errorf("making the authority's key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return Bundle{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "kruise-operator webhooks"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Bundle{}, fmt.Errorf("making the authority: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return Bundle{}, fmt.Errorf("encoding the authority's key: %w", err)
	}
	encoded, err := cert.EncodeCertificates(&x509.Certificate{Raw: der})
	if err != nil {
		return Bundle{}, fmt.Errorf("encoding the authority: %w", err)
	}
	return Bundle{CA: encoded, CAKey: keyPEM}, nil
}

func (b Bundle) authority() (*x509.Certificate, crypto.Signer, error) {
	pair, err := tls.X509KeyPair(b.CA, b.CAKey)
	if err != nil {
		return nil, nil, fmt.Errorf("decoding the authority: %w", err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, nil, errors.New("the authority's key cannot sign")
	}
	return pair.Leaf, signer, nil
}

// serves says whether the certificate is the authority's, fits all hosts and lasts.
func (b Bundle) serves(authority *x509.Certificate, hosts []string, now time.Time) bool {
	if _, err := b.Pair(); err != nil {
		return false
	}
	certs, err := cert.ParseCertsPEM(b.Cert)
	if err != nil || certs[0].NotAfter.Before(now.Add(renewBefore)) {
		return false
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	for _, host := range hosts {
		if _, err := certs[0].Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now}); err != nil {
			return false
		}
	}
	return true
}

func (b Bundle) sign(authority *x509.Certificate, authorityKey crypto.Signer, hosts []string, now time.Time) (Bundle, error) {
	if len(hosts) == 0 {
		return Bundle{}, errors.New("issuing a serving certificate: no host is named")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Bundle{}, fmt.Errorf("making a key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return Bundle{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "kruise-operator-manager"},
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(Lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), authorityKey)
	if err != nil {
		return Bundle{}, fmt.Errorf("issuing a serving certificate: %w", err)
	}
	if b.Key, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return Bundle{}, fmt.Errorf("encoding a key: %w", err)
	}
	if b.Cert, err = cert.EncodeCertificates(&x509.Certificate{Raw: der}); err != nil {
		return Bundle{}, fmt.Errorf("encoding a serving certificate: %w", err)
	}
	return b, nil
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}
