// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// TLS has a server present the right certificate. It is an option of webhook servers. Where files are served, it leaves it to the server
// to read them from the folder of the options.
func (s *Serving) TLS(config *tls.Config) {
	if s.own != nil {
		s.own.TLS(config)
		return
	}
	s.serveFresh(config)
}

// serveFresh has a server that serves mounted files serve the certificate of the Secret instead while that is another one.
func (s *Serving) serveFresh(config *tls.Config) {
	base := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pair := s.fresh.Load()
		if pair == nil {
			return nil, nil // the configuration with the files
		}
		fresh := base.Clone()
		fresh.Certificates = []tls.Certificate{*pair}
		return fresh, nil
	}
}

// refresh serves the certificate in the Secret of the Operator Lifecycle Manager from now on, until the files are the same.
//
// When a certificate runs out or its Secret is deleted, the Operator Lifecycle Manager makes a new authority, has its webhook
// configurations trust that one alone, and replaces the replicas. A kubelet brings the Secret to the files up to two minutes later, and
// the last replica is replaced after some ten seconds. What is left by serving at once is the time between its writes. Connections that the
// API server has already are not affected.
func (s *Serving) refresh(ctx context.Context, bundle Bundle) error {
	if s.own != nil || len(bundle.Cert) == 0 {
		return nil
	}
	files, err := os.ReadFile(filepath.Join(defaultCertDir(), corev1.TLSCertKey))
	if err == nil && bytes.Equal(files, bundle.Cert) {
		s.fresh.Store(nil)
		return nil
	}
	pair, err := bundle.Pair()
	if err != nil {
		return fmt.Errorf("decoding the certificate in Secret %s: %w", s.secret(), err)
	}
	if err := s.verify(pair, bundle.CA); err != nil {
		return fmt.Errorf("the certificate in Secret %s cannot be served: %w", s.secret(), err)
	}
	if was := s.fresh.Swap(&pair); was == nil || !bytes.Equal(was.Certificate[0], pair.Certificate[0]) {
		ctrl.LoggerFrom(ctx).Info("Serving the certificate of the Secret, which the files do not have yet")
	}
	return nil
}

// verify says whether an API server that trusts the authority accepts the certificate.
func (s *Serving) verify(pair tls.Certificate, authority []byte) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return errors.New("its authority cannot be parsed")
	}
	_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: s.hosts[0], CurrentTime: s.options.Clock.Now()})
	return err
}
