// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// authorityAfter is the certificate of an authority that was made so many days after the start.
func authorityAfter(t *testing.T, days int) []byte {
	t.Helper()
	bundle, err := Issue(Bundle{}, []string{"operator.example"}, start().AddDate(0, 0, days))
	if err != nil {
		t.Fatal(err)
	}
	return bundle.CA
}

func TestAuthoritiesOf(t *testing.T) {
	first, second, third := authorityAfter(t, 0), authorityAfter(t, 10), authorityAfter(t, 20)
	decade := start().AddDate(11, 0, 0)
	for name, tc := range map[string]struct {
		present, wanted, want []byte
		now                   time.Time
	}{
		"the first authority":                              {wanted: first, want: first},
		"the same authority again":                         {present: first, wanted: first, want: first},
		"none is known: what is there stays":               {present: first, want: first},
		"none is known and none is there":                  {},
		"what is wanted cannot be parsed":                  {present: first, wanted: []byte("no certificate"), want: first},
		"what is there cannot be parsed":                   {present: []byte("Cg=="), wanted: first, want: first},
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
			got := authoritiesOf(tc.present, tc.wanted, tc.now)
			if diff := cmp.Diff(string(tc.want), string(got)); diff != "" {
				t.Errorf("bundle (-want +got):\n%s", diff)
			}
			if again := authoritiesOf(got, tc.wanted, tc.now); !slices.Equal(again, got) {
				t.Errorf("asked again, it becomes\n%s", again)
			}
		})
	}
}

func TestConversionOf(t *testing.T) {
	first, second := authorityAfter(t, 0), authorityAfter(t, 10)
	service := func(ca []byte) apiextensionsv1.WebhookClientConfig {
		return apiextensionsv1.WebhookClientConfig{CABundle: ca, Service: &apiextensionsv1.ServiceReference{
			Namespace: "kruise-system", Name: "kruise-operator-manager-service", Path: ptr.To("/convert"),
		}}
	}
	url := func(ca []byte) apiextensionsv1.WebhookClientConfig {
		return apiextensionsv1.WebhookClientConfig{CABundle: ca, URL: ptr.To("https://192.0.2.7:9443/convert")}
	}
	conversion := func(client apiextensionsv1.WebhookClientConfig) *apiextensionsv1.CustomResourceConversion {
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
		"no conversion":                        {want: service(first), becomes: conversion(service(first))},
		"strategy None":                        {present: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}, want: service(first), becomes: conversion(service(first))},
		"an upgrade that took the authority":   {present: conversion(service(nil)), want: service(first), becomes: conversion(service(first))},
		"right already":                        {present: conversion(service(first)), want: service(first), becomes: conversion(service(first))},
		"right already, authority not known":   {present: conversion(service(first)), want: service(nil), becomes: conversion(service(first))},
		"another authority":                    {present: conversion(service(first)), want: service(second), becomes: conversion(service(slices.Concat(second, first)))},
		"from the cluster to a local operator": {present: conversion(service(first)), want: url(second), becomes: conversion(url(slices.Concat(second, first)))},
		"from a local operator to the cluster": {present: conversion(url(first)), want: service(second), becomes: conversion(service(slices.Concat(second, first)))},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.present.DeepCopy()
			got := conversionOf(tc.present, tc.want, start())
			if diff := cmp.Diff(tc.becomes, got); diff != "" {
				t.Errorf("conversion (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.present); diff != "" {
				t.Errorf("the present conversion was changed (-before +after):\n%s", diff)
			}
		})
	}
}
