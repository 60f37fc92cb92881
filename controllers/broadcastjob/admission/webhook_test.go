// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"
	"testing"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
)

// TestMarksOfSidecarsWithoutEffect: whoever marks a sidecar learns when the mark does nothing.
func TestMarksOfSidecarsWithoutEffect(t *testing.T) {
	job := admissiontest.Parse[appsv1beta1.BroadcastJob](t, `{spec: {template: {spec: {restartPolicy: Never, containers: [
		{name: s, image: log, env: [{name: KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT, value: "true"}]}]}}}}`)
	got := Kind().Warnings(&job, nil)
	if len(got) != 1 || !strings.HasPrefix(got[0], "spec.template.spec.containers: all of them are marked as sidecars") {
		t.Errorf("%q", got)
	}
}
