// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// checkEvery is how often a Source looks at its Secret. It is far shorter than renewBefore, so that even an API server that is
// away for weeks does not make the certificate run out.
const checkEvery = time.Hour

// Source keeps the certificate of a running webhook server current, without a restart and without files. Load it before the
// server starts, give its TLS to the server, and add it to the manager, which runs it on every replica.
type Source struct {
	// Client reads and writes the Secret. It must not be cached.
	Client client.Client
	// Secret is where authority and certificate are kept.
	Secret types.NamespacedName
	// Hosts are the names and addresses under which the API server calls.
	Hosts []string
	// Clock tells the time.
	Clock clock.WithTicker
	// Trust is told the authority before the first certificate of it is used, so that the API server trusts the certificate from its
	// first use. When it fails, the certificate stays what it was. Nil: nobody is told.
	Trust func(ctx context.Context, ca []byte) error
	// Settle is how long a source that has a certificate waits after Trust before it uses one of the new authority: API servers
	// learn by a watch whom to trust.
	Settle time.Duration

	current atomic.Pointer[tls.Certificate]
	trusted atomic.Pointer[[]byte]
}

// Load makes sure that there is a good certificate and uses it from now on. The bundle's CA is what webhook configurations need.
func (s *Source) Load(ctx context.Context) (Bundle, error) {
	bundle, err := Ensure(ctx, s.Client, s.Secret, s.Hosts, s.Clock.Now())
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
func (s *Source) settle(ctx context.Context) error {
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

// TLS makes a server ask the source for its certificate. It is an option of the webhook server.
func (s *Source) TLS(config *tls.Config) {
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if pair := s.current.Load(); pair != nil {
			return pair, nil
		}
		return nil, errors.New("the webhook certificate is not loaded yet")
	}
}

// Start renews the certificate when it is due, until the context ends.
func (s *Source) Start(ctx context.Context) error {
	ticker := s.Clock.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			if _, err := s.Load(ctx); err != nil && ctx.Err() == nil {
				ctrl.LoggerFrom(ctx).Error(err, "Checking the webhook certificate failed; it is tried again", "in", checkEvery)
			}
		}
	}
}

// NeedLeaderElection is false: every replica serves webhooks.
func (s *Source) NeedLeaderElection() bool { return false }
