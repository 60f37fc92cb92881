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

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	if _, err := New(&rest.Config{}, Options{MaxPulls: 1}, &critest.Runtime{}); !errors.Is(err, errNoNode) {
		t.Errorf("without a node: %v", err)
	}
	if _, err := New(&rest.Config{}, Options{Node: "n"}, &critest.Runtime{}); err == nil || !strings.Contains(err.Error(), "at least 1") {
		t.Errorf("without pulls: %v", err)
	}
}

func TestReadiness(t *testing.T) {
	runtime := &critest.Runtime{}
	r := &readiness{runtime: runtime}
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
