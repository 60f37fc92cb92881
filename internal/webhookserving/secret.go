// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"bytes"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

const (
	// keyOLM and keyCA are where the authority is in a Secret: by the Operator Lifecycle Manager, and by everybody else.
	keyOLM = "olmCAKey"
	keyCA  = "ca.crt"
)

// find returns the certificate. It makes and renews our own; all replicas get the first one stored.
func (s *Serving) find(ctx context.Context) (bundle Bundle, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if bundle, err = s.stored(ctx); err == nil && !s.mounted {
			bundle, err = s.renewed(ctx, bundle)
		}
		return err
	})
	if err != nil {
		return Bundle{}, fmt.Errorf("keeping the webhook certificate in Secret %s: %w", s.secret(), err)
	}
	return bundle, nil
}

// stored reads the Secret. Our own may be missing.
func (s *Serving) stored(ctx context.Context) (Bundle, error) {
	secret := &corev1.Secret{}
	err := s.options.Client.Get(ctx, s.secret(), secret)
	if err != nil && (s.mounted || !apierrors.IsNotFound(err)) {
		return Bundle{}, err
	}
	bundle := Bundle{CA: secret.Data[keyOLM], Cert: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]}
	if len(bundle.CA) == 0 {
		bundle.CA = secret.Data[keyCA]
	}
	if s.mounted && len(bundle.CA) == 0 {
		return Bundle{}, fmt.Errorf("it has neither %s nor %s: nobody knows which authority the API server should trust", keyOLM, keyCA)
	}
	return bundle, nil
}

// renewed stores another certificate when one is due.
func (s *Serving) renewed(ctx context.Context, stored Bundle) (Bundle, error) {
	bundle, err := Issue(stored, s.hosts, s.options.Clock.Now())
	if err != nil || bytes.Equal(bundle.Cert, stored.Cert) {
		return bundle, err
	}
	secret := &corev1.Secret{}
	// Applied, not created: only apply can be allowed for one name. It sets no content, so replicas do not overwrite
	// each other; the update below decides between them.
	empty := applycorev1.Secret(OwnSecret, s.options.Endpoint.Namespace).WithType(corev1.SecretTypeOpaque).
		WithLabels(map[string]string{"app.kubernetes.io/name": "kruise-operator"})
	if err := s.options.Client.Apply(ctx, empty, client.FieldOwner(shared.FieldManager), client.ForceOwnership); err != nil {
		return Bundle{}, err
	}
	if err := s.options.Client.Get(ctx, s.secret(), secret); err != nil {
		return Bundle{}, err
	}
	if !bytes.Equal(secret.Data[corev1.TLSCertKey], stored.Cert) {
		return Bundle{}, apierrors.NewConflict(corev1.Resource("secrets"), OwnSecret, nil)
	}
	secret.Data = map[string][]byte{keyCA: bundle.CA, corev1.TLSCertKey: bundle.Cert, corev1.TLSPrivateKeyKey: bundle.Key}
	return bundle, s.options.Client.Update(ctx, secret)
}
