// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package pki issues the certificates of a test cluster.
//
// Keys are ECDSA P-256, made in memory and valid from one day ago for a year, for tests
// only.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	backdate = 24 * time.Hour
	lifetime = 365 * 24 * time.Hour
)

// Authority is a certificate authority. It may be used from several goroutines.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pair        Pair
}

// Pair is a certificate and its private key in PEM.
type Pair struct {
	Cert []byte
	Key  []byte
}

// NewAuthority makes a self-signed authority with the given common name.
func NewAuthority(commonName string) (*Authority, error) {
	template, err := newTemplate(pkix.Name{CommonName: commonName})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.KeyUsage |= x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of %s: %w", commonName, err)
	}
	pair, err := sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(pair.Cert)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the certificate of %s: %w", commonName, err)
	}
	return &Authority{certificate: certificate, key: key, pair: pair}, nil
}

// Cert returns the authority's certificate in PEM, for others to trust.
func (a *Authority) Cert() []byte {
	return a.pair.Cert
}

// Pair returns the authority's certificate and key, for a component with its own signer.
func (a *Authority) Pair() Pair {
	return a.pair
}

// Client issues a client certificate. Kubernetes takes its common name as the user and its organizations as the groups.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	template, err := newTemplate(pkix.Name{CommonName: user, Organization: groups})
	if err != nil {
		return Pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// Server issues a serving certificate for the given DNS names and IP addresses.
func (a *Authority) Server(commonName string, hosts ...string) (Pair, error) {
	template, err := newTemplate(pkix.Name{CommonName: commonName})
	if err != nil {
		return Pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issue(template)
}

// NewKey returns a private key and its public half in PEM, such as service account tokens are signed with.
func NewKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a key: %w", err)
	}
	private, err = encodeKey(key)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a public key: %w", err)
	}
	return private, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

func (a *Authority) issue(template *x509.Certificate) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generating the key of %s: %w", template.Subject.CommonName, err)
	}
	return sign(template, a.certificate, key, a.key)
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               subject,
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}, nil
}

func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Key: keyPEM}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
