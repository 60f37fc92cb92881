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
	"sync"
	"sync/atomic"
	"time"

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
	// ServiceName is the Service of the webhooks: what the Operator Lifecycle Manager makes, and every other install the same.
	ServiceName = "kruise-operator-manager-service"
	// MountedSecret is the Secret behind a mounted certificate: what the Operator Lifecycle Manager makes. With cert-manager, a
	// Certificate must name it.
	MountedSecret = "kruise-operator-manager-service-cert"
	// OwnSecret keeps a certificate of our own.
	OwnSecret = "kruise-operator-webhook-certificate"

	// keyOLM and keyCertManager are where the authority is in MountedSecret.
	keyOLM         = "olmCAKey"
	keyCertManager = "ca.crt"

	// settle is how long a process that serves already waits between making the API server trust a new authority and serving a
	// certificate of it. API servers learn of a changed configuration by a watch, each for itself.
	settle = 3 * time.Second
	// overlap is how long an authority that was replaced is still put beside the new one where the API server trusts neither.
	// A kubelet takes up to about two minutes to bring a changed Secret to a mounted file.
	overlap = 10 * time.Minute
	// firstTimeout is how long the first certificate may take: the rights to read it may be applied after the process was started.
	firstTimeout = 30 * time.Second
	askEvery     = time.Second
)

// Options say where the operator runs and how it is called.
type Options struct {
	// Client reads and writes directly, without a cache.
	Client client.Client
	// Endpoint is where the API server calls. Its namespace is also that of the Secrets.
	Endpoint Endpoint
	// Port is where this process listens, on all addresses.
	Port int
	// CertDir has tls.crt and tls.key. When empty, it is the default of controller-runtime's webhook server, and without files there the
	// operator makes a certificate of its own. It is not used with a URL: that certificate is always our own.
	CertDir string
	// Kinds are all kinds.
	Kinds kinds.Table
	// Configurations are our webhook configurations with the entries of all kinds, as they are installed, for KeepEntries.
	Configurations []*unstructured.Unstructured
	// Clock is the time.
	Clock clock.Clock
}

// Serving keeps the API server able to call the operator.
type Serving struct {
	options Options
	hosts   []string
	// own is the certificate when it is ours; nil when it is mounted.
	own *ownCertificate
	// fresh is a mounted certificate that is served before its files are there.
	fresh atomic.Pointer[tls.Certificate]

	mutex sync.Mutex
	// authority is the last one that was seen, previous the one before it, until it is forgotten.
	authority, previous []byte
	forget              time.Time
}

// Open finds out where the certificate comes from, makes or loads it when it is our own, and has the API server trust it before it is
// served: a replica that is ready is called.
func Open(ctx context.Context, options Options) (*Serving, error) {
	hosts, err := options.Endpoint.hosts()
	if err != nil {
		return nil, err
	}
	s := &Serving{options: options, hosts: hosts}
	if options.mounted() {
		return s, s.openMounted(ctx)
	}
	s.own = &ownCertificate{
		Client: options.Client, Secret: s.name(OwnSecret), Hosts: hosts, Clock: options.Clock,
		Trust: s.publish, Settle: settle,
	}
	err = s.try(ctx, func(ctx context.Context) error {
		_, err := s.own.Load(ctx)
		return err
	})
	if apierrors.IsNotFound(err) { // the namespace
		return nil, fmt.Errorf("the operator is not installed in this cluster; run `make install` first: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for the webhook certificate: %w", err)
	}
	return s, nil
}

// openMounted has the API server trust a mounted certificate. When that cannot be, the operator starts all the same and goes on trying:
// whoever mounts the certificate may have seen to it.
func (s *Serving) openMounted(ctx context.Context) error {
	changed := false
	err := s.try(ctx, func(ctx context.Context) error {
		bundle, err := s.find(ctx)
		if err != nil {
			return err
		}
		wrote, err := s.publishAll(ctx, bundle.CA)
		changed = changed || wrote
		return errors.Join(err, s.keep(ctx))
	})
	if ctx.Err() != nil {
		return fmt.Errorf("having the webhook certificate trusted: %w", ctx.Err())
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "The API server may not trust the webhook certificate")
	}
	if !changed {
		return nil
	}
	// Other replicas serve meanwhile, whose certificate is trusted already.
	timer := s.options.Clock.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("having the webhook certificate trusted: %w", ctx.Err())
	case <-timer.C():
		return nil
	}
}

// try tries until it succeeds, something does not exist, or firstTimeout is over, and returns the last error.
func (s *Serving) try(ctx context.Context, what func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, askEvery, firstTimeout, true, func(ctx context.Context) (bool, error) {
		last = what(ctx)
		if apierrors.IsNotFound(last) && s.own != nil {
			return false, last
		}
		if last != nil {
			ctrl.LoggerFrom(ctx).Info("The webhook certificate is not there yet", "reason", last.Error())
		}
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(last, ctx.Err())
	}
	return nil
}

// mounted says whether somebody else brings the certificate. A folder that was named must get files, now or later.
func (o Options) mounted() bool {
	if o.Endpoint.URL != "" {
		return false
	}
	if o.CertDir != "" {
		return true
	}
	_, err := os.Stat(filepath.Join(defaultCertDir(), corev1.TLSCertKey))
	return err == nil
}

// defaultCertDir is the default of the webhook server.
func defaultCertDir() string {
	return filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs")
}

func (s *Serving) name(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.options.Endpoint.Namespace, Name: name}
}

// secret is the one that holds the authority.
func (s *Serving) secret() types.NamespacedName {
	if s.own != nil {
		return s.name(OwnSecret)
	}
	return s.name(MountedSecret)
}

// find returns what is served and its authority, which is never empty. Our own certificate is renewed on the way when it is due, or when
// its Secret was deleted. The certificate of a mounted Secret is returned only when the Operator Lifecycle Manager mounted it at the default
// place. Otherwise the files are served: in a folder that somebody named they may have another certificate, and other issuers keep the authority
// when they renew.
func (s *Serving) find(ctx context.Context) (Bundle, error) {
	if s.own != nil {
		return s.own.Load(ctx)
	}
	secret := &corev1.Secret{}
	if err := s.options.Client.Get(ctx, s.secret(), secret); err != nil {
		return Bundle{}, fmt.Errorf("reading the authority of the webhook certificate: %w", err)
	}
	if ca := secret.Data[keyOLM]; len(ca) > 0 {
		bundle := Bundle{CA: ca}
		if s.options.CertDir == "" {
			bundle.Cert, bundle.Key = secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
		}
		return bundle, nil
	}
	if ca := secret.Data[keyCertManager]; len(ca) > 0 {
		return Bundle{CA: ca}, nil
	}
	return Bundle{}, fmt.Errorf("secret %s has neither %s nor %s: nobody knows which authority the API server should trust", s.secret(), keyOLM, keyCertManager)
}
