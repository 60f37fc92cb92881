// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ownCertificate keeps a certificate of our own current while it is served, without a restart and without files. It is loaded before the server
// starts, and from time to time after that.
type ownCertificate struct {
	// Client reads and writes the Secret. It must not be cached.
	Client client.Client
	// Secret is where authority and certificate are kept.
	Secret types.NamespacedName
	// Hosts are the names and addresses under which the API server calls.
	Hosts []string
	// Clock is the source of the time.
	Clock clock.Clock
	// Trust publishes the authority before the first certificate of it is used, so that the API server trusts the certificate from its
	// first use. When it fails, the certificate stays what it was. Nil: the authority is not published.
	Trust func(ctx context.Context, ca []byte) error
	// Settle is how long an ownCertificate that is served waits after Trust before it uses one of the new authority: API servers
	// learn by a watch whom to trust.
	Settle time.Duration

	current atomic.Pointer[tls.Certificate]
	trusted atomic.Pointer[[]byte]
}

// Load makes sure that there is a good certificate and uses it from now on. The bundle's CA is what webhook configurations need.
func (s *ownCertificate) Load(ctx context.Context) (Bundle, error) {
	bundle, err := ensureSecret(ctx, s.Client, s.Secret, s.Hosts, s.Clock.Now())
	if err != nil {
		return Bundle{}, err
	}
	pair, err := bundle.Pair()
	if err != nil {
		return Bundle{}, err
	}
	if last := s.trusted.Load(); s.Trust != nil && (last == nil || !bytes.Equal(*last, bundle.CA)) {
		if err := s.Trust(ctx, bundle.CA); err != nil {
			return Bundle{}, err
		}
		if err := s.settle(ctx); err != nil {
			return Bundle{}, err
		}
		s.trusted.Store(&bundle.CA)
	}
	s.current.Store(&pair)
	return bundle, nil
}

// settle waits until API servers know whom to trust, unless nothing is served yet.
func (s *ownCertificate) settle(ctx context.Context) error {
	if s.current.Load() == nil || s.Settle <= 0 {
		return nil
	}
	timer := s.Clock.NewTimer(s.Settle)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}

// TLS makes a server ask for the present certificate. It is an option of the webhook server.
func (s *ownCertificate) TLS(config *tls.Config) {
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if pair := s.current.Load(); pair != nil {
			return pair, nil
		}
		return nil, errors.New("the webhook certificate is not loaded yet")
	}
}
