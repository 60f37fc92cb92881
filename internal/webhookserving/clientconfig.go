// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// How the API server should be configured to call the operator, as pure functions. A wrong conversion makes objects unreadable, so two things
// hold: a caBundle that is there is never replaced by none, and while authorities change, the old one is trusted beside the new one, because
// replicas change their certificates one after the other.

const (
	// reviewVersion is the version of ConversionReview that the operator answers.
	reviewVersion = "v1"
	// servicePort is the port that the API server fills in.
	servicePort = 443
)

// conversionOf is what the conversion of a CRD with webhook conversion should be. present is what it is, or nil; want is as for clientConfigOf.
//
// The result has what the API server fills in, so that it equals a conversion that is right already.
func conversionOf(
	present *apiextensionsv1.CustomResourceConversion, want apiextensionsv1.WebhookClientConfig, now time.Time,
) *apiextensionsv1.CustomResourceConversion {
	var was *apiextensionsv1.WebhookClientConfig
	if present != nil && present.Webhook != nil {
		was = present.Webhook.ClientConfig
	}
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: clientConfigOf(was, want, now), ConversionReviewVersions: []string{reviewVersion}},
	}
}

// clientConfigOf is what one call should be configured with, of a conversion or of an admission webhook. present is what it is
// configured with, or nil. want names a Service or a URL, and the authority of the operator's certificate; when that is not known, it
// is empty, and the present ones are kept.
func clientConfigOf(
	present *apiextensionsv1.WebhookClientConfig, want apiextensionsv1.WebhookClientConfig, now time.Time,
) *apiextensionsv1.WebhookClientConfig {
	config := want.DeepCopy()
	if config.Service != nil && config.Service.Port == nil {
		config.Service.Port = ptr.To[int32](servicePort)
	}
	if present != nil {
		config.CABundle = authoritiesOf(present.CABundle, want.CABundle, now)
	}
	return config
}

// authoritiesOf is the caBundle that should replace the present one when wanted is the authority of the operator's certificate. Both are
// in PEM and may be empty.
//
// A bundle that holds everything wanted, or when nothing is wanted, stays as it is, byte for byte; so replicas that know different authorities
// do not overwrite each other. Otherwise it becomes the wanted authorities and the newest present one that is still valid.
func authoritiesOf(present, wanted []byte, now time.Time) []byte {
	trusted, added := certificatesIn(present), certificatesIn(wanted)
	if !slices.ContainsFunc(added, func(a *x509.Certificate) bool { return !slices.ContainsFunc(trusted, a.Equal) }) {
		return present
	}
	previous := slices.DeleteFunc(trusted, func(c *x509.Certificate) bool {
		return now.After(c.NotAfter) || slices.ContainsFunc(added, c.Equal)
	})
	if len(previous) > 0 {
		added = append(added, slices.MaxFunc(previous, func(a, b *x509.Certificate) int { return a.NotBefore.Compare(b.NotBefore) }))
	}
	var bundle []byte
	for _, authority := range added {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw})...)
	}
	return bundle
}

// certificatesIn returns the certificates in a bundle. What cannot be parsed is left out.
func certificatesIn(bundle []byte) []*x509.Certificate {
	var found []*x509.Certificate
	for len(bundle) > 0 {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			break
		}
		if authority, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, authority)
		}
	}
	return found
}
