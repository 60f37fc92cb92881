// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

const (
	// The keys of the Secret. The certificate's are those of the type kubernetes.io/tls.
	keyCACert = "ca.crt"
	keyCAKey  = "ca.key"

	// conflicts is how often the Secret is read again because another replica wrote it first.
	conflicts = 5
)

// ensureSecret returns the bundle of a Secret, after creating or renewing it where that is due. Hosts that the stored certificate
// serves already are kept, so that processes with different hosts do not take the certificate from each other. Several replicas
// may call it at the same time; all get what was stored first.
func ensureSecret(ctx context.Context, c client.Client, name types.NamespacedName, hosts []string, now time.Time) (Bundle, error) {
	var err error
	for range conflicts {
		var bundle Bundle
		if bundle, err = ensureOnce(ctx, c, name, hosts, now); err == nil {
			return bundle, nil
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return Bundle{}, fmt.Errorf("keeping the webhook certificate in Secret %s: %w", name, err)
}

func ensureOnce(ctx context.Context, c client.Client, name types.NamespacedName, hosts []string, now time.Time) (Bundle, error) {
	secret := &corev1.Secret{}
	err := c.Get(ctx, name, secret)
	if apierrors.IsNotFound(err) {
		// Applied, not created: only the former can be allowed for one name. It says nothing about the content, so replicas do
		// not overwrite each other: the update below is the one that the others must yield to.
		empty := applycorev1.Secret(name.Name, name.Namespace).WithType(corev1.SecretTypeOpaque).
			WithLabels(map[string]string{"app.kubernetes.io/name": "kruise-operator"})
		if err := c.Apply(ctx, empty, client.FieldOwner(shared.FieldManager), client.ForceOwnership); err != nil {
			return Bundle{}, err
		}
		err = c.Get(ctx, name, secret)
	}
	if err != nil {
		return Bundle{}, err
	}
	stored := Bundle{
		CA: secret.Data[keyCACert], CAKey: secret.Data[keyCAKey],
		Cert: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey],
	}
	bundle, issueErr := Issue(stored, append(slices.Clone(hosts), stored.otherHosts(hosts)...), now)
	if issueErr != nil {
		return Bundle{}, issueErr
	}
	if bytes.Equal(bundle.Cert, stored.Cert) && bytes.Equal(bundle.CA, stored.CA) {
		return bundle, nil
	}
	secret.Data = map[string][]byte{
		keyCACert: bundle.CA, keyCAKey: bundle.CAKey, corev1.TLSCertKey: bundle.Cert, corev1.TLSPrivateKeyKey: bundle.Key,
	}
	return bundle, c.Update(ctx, secret)
}

// otherHosts are the hosts of the present certificate that the given ones do not name.
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
