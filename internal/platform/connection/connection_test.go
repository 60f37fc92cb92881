// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package connection

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
)

// An API server allowed to would compress each event of a watch.
func TestNoAnswerIsAskedForCompressed(t *testing.T) {
	asked := make(chan http.Header, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"major": "1", "minor": "37"}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}],
		clusters: [{name: a, cluster: {server: %q, insecure-skip-tls-verify: true}}]}`, server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	config, err := Config("some-operator/v1")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		t.Fatal(err)
	}
	header := <-asked
	if got := header.Get("Accept-Encoding"); got != "" && got != "identity" {
		t.Errorf("Accept-Encoding: %s", got)
	}
	if got := header.Get("User-Agent"); got != "some-operator/v1" {
		t.Errorf("User-Agent: %s", got)
	}
}
