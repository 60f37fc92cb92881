// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri/critest"
	"github.com/kruise-operator/kruise-operator/internal/daemon/host"
	"github.com/kruise-operator/kruise-operator/internal/testutil/metricstest"
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

func TestEveryMetricIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := metricstest.Documented(t, string(page), func(r prometheus.Registerer) error {
		_, ofHost := host.NewMetrics(r)
		_, ofRuntimes := cri.New(nil, r)
		return errors.Join(ofHost, ofRuntimes)
	})
	// No feature has metrics of its own beside these.
	if rows := strings.Count(string(page), "| `kruise_daemon_"); len(names) != rows {
		t.Errorf("the page has %d metrics of the daemon, and it registers %d", rows, len(names))
	}
}
