// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	patchPod = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","verb":"patch",` +
		`"requestURI":"/api/v1/namespaces/default/pods/web/status","user":{"username":"alice"},` +
		`"objectRef":{"resource":"pods","namespace":"default","name":"web","apiVersion":"v1","subresource":"status"}}`
	listSets = `{"stage":"ResponseComplete","verb":"list","requestURI":"/apis/apps.kruise.io/v1beta1/clonesets?limit=500",` +
		`"user":{"username":"admin"},"impersonatedUser":{"username":"bob"},` +
		`"objectRef":{"resource":"clonesets","apiGroup":"apps.kruise.io","apiVersion":"v1beta1"}}`
	received = `{"stage":"RequestReceived","verb":"get","requestURI":"/healthz","user":{"username":"alice"}}`
	probe    = `{"stage":"ResponseComplete","verb":"get","requestURI":"/healthz?verbose","user":{"username":"alice"}}`
)

func TestLogCountsWhatIsNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	appendTo(t, path, patchPod+"\n")
	all := OpenAtStart(path)
	late, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, path, listSets+"\n"+received+"\n"+probe+"\n"+patchPod[:40])

	patched := Request{User: "alice", Verb: "patch", Resource: "pods/status"}
	listed := Request{User: "bob", Verb: "list", Resource: "clonesets.apps.kruise.io"}
	probed := Request{User: "alice", Verb: "get", Resource: "/healthz"}
	assertNext(t, all, map[Request]int{patched: 1, listed: 1, probed: 1})
	assertNext(t, late, map[Request]int{listed: 1, probed: 1})

	// The rest of the event that was only begun.
	appendTo(t, path, patchPod[40:]+"\n")
	assertNext(t, late, map[Request]int{patched: 1})
	assertNext(t, late, map[Request]int{})
}

func assertNext(t *testing.T, log *Log, want map[Request]int) {
	t.Helper()
	events, err := log.Next()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, Count(events)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}
