// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

const (
	// ServiceName is the webhooks' Service: the Operator Lifecycle Manager's name, used by every install.
	ServiceName = "kruise-operator-manager-service"
	// MountedSecret has somebody else's certificate: the Operator Lifecycle Manager's, or cert-manager's.
	MountedSecret = "kruise-operator-manager-service-cert"
	// OwnSecret keeps a certificate of our own.
	OwnSecret = "kruise-operator-webhook-certificate"

	// settle is how long a new authority is trusted before a certificate of it is served: each API server learns of it by a watch.
	settle = 3 * time.Second
	// firstTimeout is how long the first certificate may take: the rights to read it may be applied after the process was started.
	firstTimeout = 30 * time.Second
	askEvery     = time.Second
)

// Options say where the operator runs and how it is called.
type Options struct {
	// Client reads and writes directly, without a cache.
	Client client.Client
	// Endpoint is called by the API server. Its namespace also holds the Secrets.
	Endpoint Endpoint
	// CertDir is where a certificate was mounted. When empty, it is the default of controller-runtime; without files there, the operator makes its own.
	CertDir string
	// Kinds are all kinds; Enabled tells which are on.
	Kinds   kinds.Table
	Enabled func(kind string) bool
	// Manifests have the webhook configurations with all entries.
	Manifests func() ([]*unstructured.Unstructured, error)
	Clock     clock.Clock
}

// Serving keeps the API server able to call the operator.
type Serving struct {
	options Options
	hosts   []string
	// mounted: somebody else brings the certificate.
	mounted bool
	// current is served, authority is the newest for the API server to trust.
	current   atomic.Pointer[tls.Certificate]
	authority atomic.Pointer[[]byte]
	// entries are those of the manifests, by configuration; nil until this replica leads.
	entries atomic.Pointer[map[string][]any]
}

// Open finds the certificate's source, makes our own if need be, and has the API server trust it: a ready replica is called.
func Open(ctx context.Context, options Options) (*Serving, error) {
	hosts, err := options.Endpoint.hosts()
	if err != nil {
		return nil, err
	}
	s := &Serving{options: options, hosts: hosts, mounted: options.mounted()}
	var last error
	err = wait.PollUntilContextTimeout(ctx, askEvery, firstTimeout, true, func(ctx context.Context) (bool, error) {
		last = errors.Join(s.refresh(ctx), s.keep(ctx))
		if apierrors.IsNotFound(last) && !s.mounted {
			return false, last
		}
		if last != nil {
			ctrl.LoggerFrom(ctx).Info("The webhook certificate is not there yet", "reason", last.Error())
		}
		return last == nil, nil
	})
	switch {
	case apierrors.IsNotFound(err): // the namespace
		return nil, fmt.Errorf("the operator is not installed in this cluster; run `make install` first: %w", err)
	case err != nil:
		return nil, fmt.Errorf("waiting for the webhook certificate: %w", errors.Join(last, ctx.Err()))
	}
	return s, nil
}

// refresh has the API server trust the present certificate, and then serves it.
func (s *Serving) refresh(ctx context.Context) error {
	bundle, err := s.find(ctx)
	if err != nil {
		return err
	}
	pair := tls.Certificate{}
	if !s.files() {
		if pair, err = bundle.verify(s.hosts[:1], s.options.Clock.Now()); err != nil {
			return fmt.Errorf("the certificate in Secret %s cannot be served: %w", s.secret(), err)
		}
	}
	s.authority.Store(&bundle.CA)
	changed, err := s.publish(ctx, bundle.CA)
	if err != nil {
		return err
	}
	// A replica serving our own certificate, or none yet, loses nothing by waiting. When the Operator Lifecycle
	// Manager replaces one, it already trusts the new authority alone.
	if first := s.current.Load() == nil; changed && first == s.mounted {
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
	s.current.Store(&pair)
	return nil
}

// wait gives API servers time to learn whom to trust.
func (s *Serving) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("having the webhook certificate trusted: %w", ctx.Err())
	case <-s.options.Clock.After(settle):
		return nil
	}
}

// files: the server reads served files itself; a folder given by the user may differ from the Secret.
func (s *Serving) files() bool { return s.mounted && s.options.CertDir != "" }

// TLS makes a server present the right certificate. Each path decides on client certificates: conversion gets none.
func (s *Serving) TLS(config *tls.Config) {
	config.NextProtos, config.ClientAuth = []string{"h2"}, tls.RequestClientCert
	if s.files() {
		return
	}
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.current.Load(), nil }
}

// Call is how the API server is to call the operator at a path, as a webhook configuration has it.
func (s *Serving) Call(path string) (admissionv1.WebhookClientConfig, error) {
	call := s.options.Endpoint.Call(path)
	return admissionv1.WebhookClientConfig{URL: call.URL, Service: (*admissionv1.ServiceReference)(call.Service), CABundle: *s.authority.Load()}, nil
}

// mounted: somebody else brings the certificate. A named folder must get files, now or later.
func (o Options) mounted() bool {
	if o.Endpoint.URL != "" || o.CertDir != "" {
		return o.Endpoint.URL == ""
	}
	_, err := os.Stat(filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs", corev1.TLSCertKey))
	return err == nil
}

// secret holds the certificate.
func (s *Serving) secret() types.NamespacedName {
	if s.mounted {
		return s.name(MountedSecret)
	}
	return s.name(OwnSecret)
}

func (s *Serving) name(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.options.Endpoint.Namespace, Name: name}
}
