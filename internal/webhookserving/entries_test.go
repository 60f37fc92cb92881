// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhookserving

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
)

// A kind that is off costs the API server no call. Entries of somebody else stay.
func TestEntriesAreThoseOfKindsThatAreOn(t *testing.T) {
	var full []*unstructured.Unstructured
	for _, object := range rendered(t, "webhook") {
		if strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
			full = append(full, object)
		}
	}
	for name, endpoint := range map[string]Endpoint{"inside of the cluster": {Namespace: own}, "outside of it": {Namespace: own, URL: "https://192.0.2.7:9443"}} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder()
			for _, object := range full {
				installed := &unstructured.Unstructured{Object: map[string]any{"webhooks": []any{
					map[string]any{"name": "other.example.com", "clientConfig": map[string]any{"url": "https://other.example.com/x"}},
				}}}
				installed.SetGroupVersionKind(object.GroupVersionKind())
				installed.SetName(object.GetName())
				builder.WithObjects(installed)
			}
			c := builder.Build()
			ca := authority(t, time.Now())
			var off []string
			replica := func() *Serving {
				s := &Serving{options: Options{
					Client: c, Endpoint: endpoint, Kinds: controllers.Table(), Clock: testingclock.NewFakeClock(time.Now()),
					Enabled:   func(kind string) bool { return !slices.Contains(off, kind) },
					Manifests: func() ([]*unstructured.Unstructured, error) { return full, nil },
				}}
				s.authority.Store(&ca)
				return s
			}
			read := func() (names, calls []string) {
				t.Helper()
				for _, object := range full {
					got := object.DeepCopy()
					if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), got); err != nil {
						t.Fatal(err)
					}
					webhooks, err := webhooksOf(got)
					if err != nil {
						t.Fatal(err)
					}
					for _, webhook := range webhooks {
						call, _ := fieldOf(webhook, "clientConfig").(map[string]any)
						url, service := nested(call, "url"), nested(call, "service", "path")
						if (url == "") != (endpoint.URL == "") && fieldOf(webhook, "name") != "other.example.com" || len(url+service) == 0 {
							t.Errorf("it calls %v", call)
						}
						name, _ := fieldOf(webhook, "name").(string)
						names, calls = append(names, name), append(calls, service+strings.TrimPrefix(url, endpoint.URL))
					}
				}
				return names, calls
			}
			lead := func(kinds ...string) {
				t.Helper()
				off = kinds
				if err := replica().Lead(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			lead()
			all, calls := read()
			if len(all) < 25 || slices.Contains(calls, "") {
				t.Fatalf("all kinds are on: %v call %v", all, calls)
			}
			lead("CloneSet")
			without, _ := read()
			if diff := cmp.Diff(slices.DeleteFunc(slices.Clone(all), func(name string) bool { return strings.Contains(name, "clonesets") }), without); diff != "" {
				t.Errorf("CloneSet is off (-want +got):\n%s", diff)
			}
			off = nil
			if _, err := replica().publish(t.Context(), ca); err != nil {
				t.Fatal(err)
			}
			if got, _ := read(); len(got) != len(without) {
				t.Errorf("a replica that does not lead made them %v", got)
			}
			lead(controllers.Table().Where(func(kinds.Kind) bool { return true }).Names()...)
			if got, _ := read(); !slices.Contains(got, "other.example.com") || len(got) != 3 {
				t.Errorf("all kinds are off: %v", got)
			}
			lead()
			again, calledAgain := read()
			slices.Sort(all)
			slices.Sort(again)
			slices.Sort(calls)
			slices.Sort(calledAgain)
			if diff := cmp.Diff([][]string{all, calls}, [][]string{again, calledAgain}); diff != "" {
				t.Errorf("all of them are back (-want +got):\n%s", diff)
			}
		})
	}
}
