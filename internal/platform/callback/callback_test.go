// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package callback_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/internal/platform/callback"
	"github.com/kruise-operator/kruise-operator/internal/platform/certs"
)

func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// authority is the certificate of an authority that was made so many days after the start.
func authority(t *testing.T, days int) []byte {
	t.Helper()
	bundle, err := certs.Issue(certs.Bundle{}, []string{"operator.example"}, start().AddDate(0, 0, days))
	if err != nil {
		t.Fatal(err)
	}
	return bundle.CA
}

func TestAuthorities(t *testing.T) {
	first, second, third := authority(t, 0), authority(t, 10), authority(t, 20)
	decade := start().AddDate(11, 0, 0)
	for name, tc := range map[string]struct {
		present, wanted, want []byte
		now                   time.Time
	}{
		"the first authority":                              {wanted: first, want: first},
		"the same authority again":                         {present: first, wanted: first, want: first},
		"none is known: what is there stays":               {present: first, want: first},
		"none is known and none is there":                  {},
		"what is wanted cannot be read":                    {present: first, wanted: []byte("no certificate"), want: first},
		"what is there cannot be read":                     {present: []byte("Cg=="), wanted: first, want: first},
		"another one: both are trusted":                    {present: first, wanted: second, want: slices.Concat(second, first)},
		"a replica that still knows the old one":           {present: slices.Concat(second, first), wanted: first, want: slices.Concat(second, first)},
		"the third one: the oldest is dropped":             {present: slices.Concat(second, first), wanted: third, want: slices.Concat(third, second)},
		"the third one, after the others were swapped":     {present: slices.Concat(first, second), wanted: third, want: slices.Concat(third, second)},
		"two are wanted and one is there":                  {present: first, wanted: slices.Concat(second, third), want: slices.Concat(second, third, first)},
		"two are wanted, one of which is there":            {present: first, wanted: slices.Concat(second, first), want: slices.Concat(second, first)},
		"an authority that has expired is trusted no more": {present: first, wanted: second, now: decade, want: second},
		"the wanted one has expired and is all there is":   {wanted: second, now: decade, want: second},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.now.IsZero() {
				tc.now = start().AddDate(0, 1, 0)
			}
			got := callback.Authorities(tc.present, tc.wanted, tc.now)
			if diff := cmp.Diff(string(tc.want), string(got)); diff != "" {
				t.Errorf("bundle (-want +got):\n%s", diff)
			}
			if again := callback.Authorities(got, tc.wanted, tc.now); !slices.Equal(again, got) {
				t.Errorf("asked again, it becomes\n%s", again)
			}
		})
	}
}

func TestConversion(t *testing.T) {
	first, second := authority(t, 0), authority(t, 10)
	service := func(ca []byte) apiextensionsv1.WebhookClientConfig {
		return apiextensionsv1.WebhookClientConfig{CABundle: ca, Service: &apiextensionsv1.ServiceReference{
			Namespace: "kruise-system", Name: "kruise-operator-manager-service", Path: ptr.To("/convert"),
		}}
	}
	url := func(ca []byte) apiextensionsv1.WebhookClientConfig {
		return apiextensionsv1.WebhookClientConfig{CABundle: ca, URL: ptr.To("https://192.0.2.7:9443/convert")}
	}
	stanza := func(client apiextensionsv1.WebhookClientConfig) *apiextensionsv1.CustomResourceConversion {
		if client.Service != nil {
			client.Service.Port = ptr.To[int32](443)
		}
		return &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &client, ConversionReviewVersions: []string{"v1"},
		}}
	}
	for name, tc := range map[string]struct {
		present *apiextensionsv1.CustomResourceConversion
		want    apiextensionsv1.WebhookClientConfig
		becomes *apiextensionsv1.CustomResourceConversion
	}{
		"no stanza":                            {want: service(first), becomes: stanza(service(first))},
		"strategy None":                        {present: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}, want: service(first), becomes: stanza(service(first))},
		"an upgrade that took the authority":   {present: stanza(service(nil)), want: service(first), becomes: stanza(service(first))},
		"right already":                        {present: stanza(service(first)), want: service(first), becomes: stanza(service(first))},
		"right already, authority not known":   {present: stanza(service(first)), want: service(nil), becomes: stanza(service(first))},
		"another authority":                    {present: stanza(service(first)), want: service(second), becomes: stanza(service(slices.Concat(second, first)))},
		"from the cluster to a local operator": {present: stanza(service(first)), want: url(second), becomes: stanza(url(slices.Concat(second, first)))},
		"from a local operator to the cluster": {present: stanza(url(first)), want: service(second), becomes: stanza(service(slices.Concat(second, first)))},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.present.DeepCopy()
			got := callback.Conversion(tc.present, tc.want, start())
			if diff := cmp.Diff(tc.becomes, got); diff != "" {
				t.Errorf("stanza (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.present); diff != "" {
				t.Errorf("the present stanza was changed (-before +after):\n%s", diff)
			}
		})
	}
}
