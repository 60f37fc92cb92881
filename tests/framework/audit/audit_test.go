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
		`"requestURI":"/api/v1/namespaces/default/pods/web/status","user":{"username":"alice"},"responseStatus":{"code":409},` +
		`"objectRef":{"resource":"pods","namespace":"default","name":"web","apiVersion":"v1","subresource":"status"}}`
	tryPod = `{"stage":"ResponseComplete","verb":"create","requestURI":"/api/v1/namespaces/default/pods?dryRun=All",` +
		`"user":{"username":"alice"},"objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"code":201}}`
	listPods = `{"stage":"ResponseComplete","verb":"list","requestURI":"/api/v1/pods?limit=500",` +
		`"user":{"username":"alice"},"objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"code":200}}`
	listBegun = `{"stage":"RequestReceived","verb":"list","user":{"username":"alice"},"objectRef":{"resource":"pods"}}`
	listOther = `{"stage":"ResponseComplete","verb":"list","user":{"username":"bob"},"objectRef":{"resource":"pods"}}`
)

func TestLogCountsWhatIsNewForOneUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	appendTo(t, path, patchPod+"\n")
	log, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, path, listBegun+"\n"+listPods+"\n"+listOther+"\n"+patchPod[:40])
	patched := Request{Verb: "patch", Resource: "pods/status", Code: 409}
	listed := Request{Verb: "list", Resource: "pods", Code: 200}
	assertNext(t, log, Counts{listed: 1})

	// The rest of the begun event.
	appendTo(t, path, patchPod[40:]+"\n"+listPods+"\n")
	assertNext(t, log, Counts{patched: 1, listed: 1})
	appendTo(t, path, tryPod+"\n")
	assertNext(t, log, Counts{{Verb: "create (dry run)", Resource: "pods", Code: 201}: 1})
	assertNext(t, log, Counts{})
}

// TestALogOpenedInTheMiddleOfALine begins with the next one: the API server was writing when the log was opened.
func TestALogOpenedInTheMiddleOfALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	appendTo(t, path, patchPod[:40])
	log, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, path, patchPod[40:60])
	assertNext(t, log, Counts{})
	appendTo(t, path, patchPod[60:]+"\n"+listPods+"\n")
	assertNext(t, log, Counts{{Verb: "list", Resource: "pods", Code: 200}: 1})
}

func TestCountsTellWritesAndConflicts(t *testing.T) {
	counts := Counts{
		{Verb: "list", Resource: "pods", Code: 200}:           100,
		{Verb: "create", Resource: "pods", Code: 201}:         5,
		{Verb: "create (dry run)", Resource: "pods", Code: 1}: 5,
		{Verb: "patch", Resource: "pods/status", Code: 409}:   2,
		{Verb: "patch", Resource: "pods", Code: 422}:          1,
		{Verb: "create", Resource: "pods", Code: 422}:         1,
		{Verb: "update", Resource: "leases", Code: 409}:       50,
		{Verb: "create", Resource: "events", Code: 201}:       50,
		{Verb: "create", Resource: "tokenreviews", Code: 201}: 50,
	}
	if got := counts.Writes(); got != 9 {
		t.Errorf("writes: want 9, got %d", got)
	}
	if got := counts.Conflicts(); got != 3 {
		t.Errorf("conflicts: want 3, got %d", got)
	}
}

func assertNext(t *testing.T, log *Log, want Counts) {
	t.Helper()
	events, err := log.Next(ByUser("alice"))
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
