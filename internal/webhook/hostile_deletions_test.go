// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/controllers/deletionprotection"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// TestDeletingANamespaceOfLargeObjectsDoesNotOccupyTheOperator: no object refuses the
// deletion, so all have to be read. Unread ones refuse it.
func TestDeletingANamespaceOfLargeObjectsDoesNotOccupyTheOperator(t *testing.T) {
	const size = maxStored - 8<<10
	marker, pod, claim, thing := listed()
	going := func(name string) string {
		return strings.Replace(`{"metadata":`+metadataOf(name, size)+`}`, `"uid"`, `"deletionTimestamp":"2026-11-25T00:00:00Z","uid"`, 1)
	}
	pending := func(name string) string {
		return `{"metadata":` + metadataOf(name, size) + `,"status":{"phase":"Pending"}}`
	}
	cases := map[string]struct {
		resource string
		kind     schema.GroupVersionKind
		of       func(string) string
	}{
		"pods that are going":              {"namespaces", pod, going},
		"volume claims that are not bound": {"namespaces", claim, pending},
		"objects of a definition":          {"customresourcedefinitions", thing, going},
	}
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		tc := cases[name]
		t.Run(name, func(t *testing.T) {
			if !sample.Has(i, len(cases)) {
				t.Skip("left to another day")
			}
			s, c := servePods(t)
			lists := map[schema.GroupVersionKind][][]byte{marker: nil, pod: nil, claim: nil, thing: nil}
			lists[tc.kind] = named("o", 600, tc.of)
			server := c.holds(t, lists)
			request := deletion(tc.resource, fillDefinition(nil))
			body := reviewOf(t, request)
			post := httptest.NewRequest("POST", deletionprotection.Path, bytes.NewReader(body))
			post.Header.Set("Content-Type", "application/json")
			c.asked = 0
			memory, spent := cost(func() { s.handlers[deletionprotection.Path].ServeHTTP(&discarded{}, post) })
			t.Logf("%d KiB read with %d questions, %d MiB, %v", server.Sent>>10, c.asked, memory>>20, spent.Round(time.Millisecond))
			// Who may delete these is an administrator, and no page is kept.
			if memory > 3*maxMemory || spent > 2*maxTime || c.asked > maxQuestions {
				t.Errorf("%d MiB, %v, %d questions to the API server", memory>>20, spent.Round(time.Millisecond), c.asked)
			}
			answer, _ := send(t, deletionprotection.Path, s.handlers[deletionprotection.Path], request)
			if answer.Response == nil || answer.Response.Allowed || !strings.Contains(answer.Response.Result.Message, "it is not known whether it is in use") {
				t.Errorf("%+v", answer.Response)
			}
		})
	}
}
