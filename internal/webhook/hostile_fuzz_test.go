// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/kruise-operator/kruise-operator/controllers"
	"github.com/kruise-operator/kruise-operator/controllers/deletionprotection"
	"github.com/kruise-operator/kruise-operator/internal/kinds"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// fuzzed is a version of a kind: its richest sample, and where something else can be put.
type fuzzed struct {
	kind    kinds.Kind
	version string
	base    map[string]any
	stored  string
	places  []place
}

// longestSeed is how many bytes a body may have with which a fuzzer begins: it changes short ones faster.
const longestSeed = 16 << 10

// FuzzHandlers puts what nobody thought of at the fields of all kinds, and of pods, and asks every handler. None may panic, or cost more than the bounds.
func FuzzHandlers(f *testing.F) {
	s, c := servePods(f)
	var of []fuzzed
	for _, kind := range controllers.Table().Where(func(k kinds.Kind) bool { return k.Admission }) {
		for _, version := range kind.Versions {
			base := full(f, kind, version)
			of = append(of, fuzzed{
				kind: kind, version: version, base: base, places: typed(f, kind, version),
				stored: placed(f, full(f, kind, kind.Storage), []string{"spec", "was"}, "1"),
			})
		}
	}
	for i, about := range of {
		// Every shape once for each version of a kind, at one of the places where it goes: a quarter each day.
		seen := map[string]bool{}
		for j := range about.places {
			at := (j*7 + i) % len(about.places)
			shapes := shapesOf(about.places[at].of, 1<<18)
			for _, name := range slices.Sorted(maps.Keys(shapes)) {
				if seen[name] {
					continue
				}
				seen[name] = true
				if what := shapes[name](); len(what) < longestSeed && sample.Has(i+len(seen), 4) {
					f.Add(uint8(i), uint16(at), len(seen)%2 == 0, what)
				}
			}
		}
	}
	// Beyond the kinds there are pods and what is protected from deletion.
	for name, request := range hostilePods() {
		if text := string(request.Object.Raw); len(text) < longestSeed {
			f.Add(uint8(len(of)), uint16(0), len(name)%2 == 0, text)
		}
	}
	f.Add(uint8(len(of)), uint16(0), false, fillPod(map[string]string{"CONTAINERS": `,{"name":"c1","env":[{"name":"A","value":7}]}`}))
	f.Add(uint8(len(of)), uint16(1), false, fillDefinition(nil))
	f.Add(uint8(len(of)), uint16(2), false, fillDefinition(nil))

	f.Fuzz(func(t *testing.T, which uint8, at uint16, update bool, what string) {
		if int(which) >= len(of) {
			request := newPod(what)
			if resource := at % 3; resource > 0 {
				request = deletion([]string{"", "customresourcedefinitions", "namespaces"}[resource], what)
			}
			body := reviewOf(t, request)
			for path := range others() {
				if (path == deletionprotection.Path) != (at%3 > 0) {
					continue
				}
				post := httptest.NewRequest(http.MethodPost, path+"revision", bytes.NewReader(body))
				post.Header.Set("Content-Type", "application/json")
				within(t, c.apiServer, path, func() { s.handlers[path].ServeHTTP(&discarded{}, post) })
			}
			return
		}
		about := of[which]
		object, stored := placed(t, about.base, about.places[int(at)%len(about.places)].at, what), ""
		if update {
			stored = about.stored
		}
		for at, handler := range s.handlers {
			if asksAbout(at, about.kind) {
				within(t, c.apiServer, at, func() { answer(t, at, "what nobody thought of", handler, about.kind, about.version, object, stored) })
			}
		}
	})
}

// within runs what may cost no more than the bounds.
func within(t *testing.T, c *apiServer, at string, run func()) {
	t.Helper()
	c.asked = 0
	memory, spent := cost(run)
	if memory > maxMemory || spent > maxTime || c.asked > maxQuestions {
		t.Errorf("%s: %d MiB, %v, %d questions to the API server", path.Base(at), memory>>20, spent.Round(time.Millisecond), c.asked)
	}
}
