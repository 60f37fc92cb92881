// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package incluster keeps the API server able to call an operator that runs inside of the cluster: it finds or makes the serving
// certificate, and keeps the webhook configurations and the conversion stanzas of our kinds pointing to the operator's Service and
// trusting its certificate.
//
// The certificate is mounted by somebody else, or our own. Mounted, as the Operator Lifecycle Manager and cert-manager do it, it is
// read from files, and its authority from the Secret behind them, whose content is never written. Otherwise it is made, renewed and
// shared by all replicas in a Secret of our own. From there on all installs are alike.
//
// Every replica does this, leader or not. A stanza that is wrong makes objects unreadable, for the leader's own watches too, and an
// upgrade under the Operator Lifecycle Manager breaks all of them at once, just when the leader changes; waiting for a lease would
// add its whole duration. Replicas agree on what is right and write under optimistic locking, so the second one finds nothing to do.
//
// Three things are left alone: a webhook or a stanza that calls a URL, since somebody develops there; a CRD that is told to
// convert nothing, which is how an uninstall begins; and anything that does not exist.
package incluster

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/platform/certs"
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
	// patience is how long the first certificate may take: the rights to read it may be applied after the process was started.
	patience = 30 * time.Second
	askEvery = time.Second
)

// Options say where the operator runs.
type Options struct {
	// Client reads and writes directly, without a cache.
	Client client.Client
	// Namespace is that of the operator, its Service and its Secrets.
	Namespace string
	// CertDir has tls.crt and tls.key. When empty, the default of the webhook server is looked at, and without files there the
	// operator makes a certificate of its own.
	CertDir string
	// Clock tells the time.
	Clock clock.WithTicker
}

// Calls keeps the API server's calls to the operator working.
type Calls struct {
	options Options
	// own is the certificate when it is ours; nil when it is mounted.
	own *certs.Source
	// fresh is a mounted certificate that is served before its files are there.
	fresh atomic.Pointer[tls.Certificate]

	mutex sync.Mutex
	// authority is the last one that was seen, previous the one before it, until it is forgotten.
	authority, previous []byte
	forget              time.Time
}

// Open finds out where the certificate comes from, makes or loads it when it is our own, and has the API server trust it before it is
// served: a replica that is ready is called.
func Open(ctx context.Context, options Options) (*Calls, error) {
	c := &Calls{options: options}
	if options.mounted() {
		return c, c.openMounted(ctx)
	}
	c.own = &certs.Source{
		Client: options.Client, Secret: c.name(OwnSecret), Hosts: options.hosts(), Clock: options.Clock,
		Trust: c.tell, Settle: settle,
	}
	err := c.try(ctx, func(ctx context.Context) error {
		_, err := c.own.Load(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for the webhook certificate: %w", err)
	}
	return c, nil
}

// openMounted has the API server trust a mounted certificate. When that cannot be, the operator starts all the same and goes on trying:
// whoever mounts the certificate may have seen to it.
func (c *Calls) openMounted(ctx context.Context) error {
	changed := false
	err := c.try(ctx, func(ctx context.Context) error {
		bundle, err := c.find(ctx)
		if err != nil {
			return err
		}
		wrote, err := c.tellAll(ctx, bundle.CA)
		changed = changed || wrote
		return errors.Join(err, c.keep(ctx))
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
	timer := c.options.Clock.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("having the webhook certificate trusted: %w", ctx.Err())
	case <-timer.C():
		return nil
	}
}

// try tries until it succeeds or patience ends, and returns the last error.
func (c *Calls) try(ctx context.Context, what func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, askEvery, patience, true, func(ctx context.Context) (bool, error) {
		last = what(ctx)
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

// hosts are the names under which the API server calls a Service.
func (o Options) hosts() []string {
	name := ServiceName + "." + o.Namespace + ".svc"
	return []string{name, name + ".cluster.local"}
}

func (c *Calls) name(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.options.Namespace, Name: name}
}

// secret is the one that tells the authority.
func (c *Calls) secret() types.NamespacedName {
	if c.own != nil {
		return c.name(OwnSecret)
	}
	return c.name(MountedSecret)
}

// find returns what is served and its authority, which is never empty. Our own certificate is renewed on the way when it is due, or when
// its Secret was deleted. Of a mounted one the certificate is left out where it is not for us to serve it past the files: where
// somebody named a folder, the files may have another one, and other ways of mounting a Secret keep its authority.
func (c *Calls) find(ctx context.Context) (certs.Bundle, error) {
	if c.own != nil {
		return c.own.Load(ctx)
	}
	secret := &corev1.Secret{}
	if err := c.options.Client.Get(ctx, c.secret(), secret); err != nil {
		return certs.Bundle{}, fmt.Errorf("reading the authority of the webhook certificate: %w", err)
	}
	if ca := secret.Data[keyOLM]; len(ca) > 0 {
		bundle := certs.Bundle{CA: ca}
		if c.options.CertDir == "" {
			bundle.Cert, bundle.Key = secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
		}
		return bundle, nil
	}
	if ca := secret.Data[keyCertManager]; len(ca) > 0 {
		return certs.Bundle{CA: ca}, nil
	}
	return certs.Bundle{}, fmt.Errorf("secret %s has neither %s nor %s: the API server cannot be told to trust the webhook certificate", c.secret(), keyOLM, keyCertManager)
}
