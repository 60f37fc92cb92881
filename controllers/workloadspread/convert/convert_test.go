// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"strings"
	"testing"

	"github.com/kruise-operator/kruise-operator/internal/testutil"
)

const (
	hub   = "apps.kruise.io/v1beta1"
	spoke = "apps.kruise.io/v1alpha1"
	old   = `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"WorkloadSpread","metadata":{"name":"ws"},"spec":{"targetRef":{"kind":"CloneSet"},"subsets":[
		{"name":"a","requiredNodeSelectorTerm":{"matchExpressions":[]},"maxReplicas":"30%","patch":{"x":1.50}},
		{"name":"b","preferredNodeSelectorTerms":[{"weight":3}],"future":{"y":[]}}],"future":1},
		"status":{"subsetStatuses":[{"name":"a","conditions":[{"type":"Schedulable","reason":"Sufficient"}]}],"versionedSubsetStatuses":{"v":[{"name":"a","replicas":1}]}}}`
)

func converted(t *testing.T, object, to string) string {
	t.Helper()
	result, err := Converter().Convert(t.Context(), []byte(object), to)
	if err != nil {
		t.Fatal(err)
	}
	return string(result)
}

func TestVersionsAreConvertedWithoutLoss(t *testing.T) {
	renamed := strings.NewReplacer("v1alpha1", "v1beta1", "requiredNodeSelectorTerm", "requiredNodeSelector", "preferredNodeSelectorTerms", "preferredNodeSelector")
	now := converted(t, old, hub)
	testutil.SameJSON(t, "in the newer version", now, renamed.Replace(old))
	testutil.SameJSON(t, "and back", converted(t, now, spoke), old)
}

func TestAnEmptyReasonIsUnknown(t *testing.T) {
	empty := strings.ReplaceAll(strings.ReplaceAll(old, `,"reason":"Sufficient"`, `,"reason":""`), `"replicas":1`, `"conditions":[{"type":"Schedulable"}]`)
	if got := converted(t, empty, hub); strings.Count(got, `"reason":"Unknown"`) != 2 {
		t.Errorf("got %s", got)
	}
}

func TestOddObjectsAreConverted(t *testing.T) {
	for _, object := range []string{
		`{"apiVersion":"` + spoke + `"}`, `{"apiVersion":"` + spoke + `","spec":{"subsets":null},"status":null}`,
		`{"apiVersion":"` + spoke + `","spec":{"subsets":[1,null]},"status":{"subsetStatuses":"x","versionedSubsetStatuses":{"v":3}}}`,
	} {
		testutil.SameJSON(t, "there and back", converted(t, converted(t, object, hub), spoke), object)
	}
}
