// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	if _, err := New(&rest.Config{}, Options{MaxPulls: 1}, &critest.Runtime{}, nil); !errors.Is(err, errNoNode) {
		t.Errorf("without a node: %v", err)
	}
	if _, err := New(&rest.Config{}, Options{Node: "n"}, &critest.Runtime{}, nil); err == nil || !strings.Contains(err.Error(), "at least 1") {
		t.Errorf("without pulls: %v", err)
	}
}

// A node's name may be no valid label. A list by such a label is refused, and nothing would
// begin.
func TestTheDaemonOfANodeWithALongNameWatchesNoRequests(t *testing.T) {
	for node, want := range map[string]int{"node-a": 4, strings.Repeat("n", 60) + ".example": 3} {
		watched, requests := byNode(node), 0
		for object := range watched {
			if _, is := object.(*appsv1beta1.ContainerRecreateRequest); is {
				requests++
			}
		}
		if added := len(workers(Options{Node: node})); len(watched) != want || requests != want-3 || added != want {
			t.Errorf("node %s: %d kinds, %d of them requests, and %d features, want %d, %d and %d", node, len(watched), requests, added, want, want-3, want)
		}
	}
}

func TestReadiness(t *testing.T) {
	runtime := &critest.Runtime{}
	r := &readiness{runtime: func(context.Context) cri.Runtime { return runtime }}
	ask := func(path string) int {
		answer := httptest.NewRecorder()
		r.handlers()[path].ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return answer.Code
	}
	if got := ask("/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("before its objects are read: %d", got)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := r.started(ended); err != nil {
		t.Fatal(err)
	}
	if got := ask("/readyz"); got != http.StatusOK {
		t.Errorf("when all is well: %d", got)
	}
	runtime.SetDown(true)
	if got := ask("/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("without a runtime: %d", got)
	}
	if got := ask("/healthz"); got != http.StatusOK {
		t.Errorf("alive without a runtime: %d", got)
	}
}
