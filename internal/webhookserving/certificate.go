// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
)

const (
	// Lifetime is how long a certificate and its authority are valid.
	Lifetime = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced.
	renewBefore = Lifetime / 3
)

// Bundle is a certificate and its authority, all in PEM.
type Bundle struct {
	// CA is for the caBundle of webhook configurations.
	CA        []byte
	Cert, Key []byte
}

// Issue returns a bundle for the hosts, names or addresses. It keeps a previous one that serves them and is not
// due for renewal. Former hosts stay, so processes with different hosts do not fight over the certificate.
func Issue(previous Bundle, hosts []string, now time.Time) (Bundle, error) {
	_, early := previous.verify(hosts, now)
	_, late := previous.verify(hosts, now.Add(renewBefore))
	if early == nil && late == nil {
		return previous, nil
	}
	options := cert.SelfSignedCertKeyOptions{Host: hosts[0], MaxAge: Lifetime}
	for _, host := range append(slices.Clone(hosts[1:]), previous.otherHosts(hosts)...) {
		if ip := net.ParseIP(host); ip != nil {
			options.AlternateIPs = append(options.AlternateIPs, ip)
		} else {
			options.AlternateDNS = append(options.AlternateDNS, host)
		}
	}
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(options)
	if err != nil {
		return Bundle{}, fmt.Errorf("issuing a serving certificate: %w", err)
	}
	certs, err := cert.ParseCertsPEM(chain)
	if err != nil {
		return Bundle{}, fmt.Errorf("decoding a serving certificate: %w", err)
	}
	ca, err := cert.EncodeCertificates(certs[len(certs)-1])
	if err != nil {
		return Bundle{}, fmt.Errorf("encoding the authority: %w", err)
	}
	return Bundle{CA: ca, Cert: chain, Key: key}, nil
}

// verify returns the certificate for a TLS server, if clients trusting the authority accept it for all hosts.
func (b Bundle) verify(hosts []string, at time.Time) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(b.Cert, b.Key)
	if err != nil {
		return pair, fmt.Errorf("decoding the serving certificate: %w", err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM(b.CA) {
		return pair, errors.New("decoding the authority: it holds no certificate")
	}
	between.AppendCertsFromPEM(b.Cert)
	for _, host := range hosts {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: between, CurrentTime: at}); err != nil {
			return pair, fmt.Errorf("the serving certificate does not fit: %w", err)
		}
	}
	return pair, nil
}

// otherHosts are the certificate's hosts not given.
func (b Bundle) otherHosts(hosts []string) []string {
	certs, err := cert.ParseCertsPEM(b.Cert)
	if err != nil {
		return nil
	}
	all := slices.Clone(certs[0].DNSNames)
	for _, ip := range certs[0].IPAddresses {
		all = append(all, ip.String())
	}
	return slices.DeleteFunc(all, func(host string) bool { return slices.Contains(hosts, host) })
}
