// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/cert"
)

func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// authorityAfter is the certificate of an authority made so many days after the start.
func authorityAfter(t *testing.T, days int) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "authority", NotBefore: start().AddDate(0, 0, days)}, key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := cert.EncodeCertificates(ca)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestAuthoritiesOf(t *testing.T) {
	first, second, third := authorityAfter(t, 0), authorityAfter(t, 10), authorityAfter(t, 20)
	decade := time.Now().AddDate(11, 0, 0)
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
