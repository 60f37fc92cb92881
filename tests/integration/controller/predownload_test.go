// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controller_test

import (
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// Without the gate nothing of pulling ahead happens: no job, no label, and no request about jobs in the namespace of the set.
func TestWithoutItsGateNothingIsPulledAhead(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 5))
	n.Settled("web")
	n.SetImage("web", "example/web:v2")
	set := n.Settled("web")
	if c := condition(set, v1beta1.StatefulSetImagePreDownload); c != nil {
		t.Errorf("the set says %+v", c)
	}
	jobs := &v1beta1.ImagePullJobList{}
	if err := n.Client.List(t.Context(), jobs, client.InNamespace(n.Name)); err != nil || len(jobs.Items) > 0 {
		t.Errorf("the jobs are %v: %v", jobs.Items, err)
	}
	for _, revision := range revisions(t, n) {
		for _, label := range []string{shared.LabelPreDownloadCreated, shared.LabelPreDownloadIgnored} {
			if value, ok := revision.Labels[label]; ok {
				t.Errorf("revision %s has %s=%s", revision.Name, label, value)
			}
		}
	}
	seen := 0
	requests, err := audit.Begin(env.Cluster.AuditLog()).Next(func(e *auditv1.Event) bool {
		if e.User.Username != operator.ServiceAccountUser || e.ObjectRef == nil {
			return false
		}
		seen++
		return e.ObjectRef.Resource == "imagepulljobs" && e.ObjectRef.Namespace == n.Name
	})
	if err != nil || seen == 0 {
		t.Fatalf("of %d requests of the operator: %v", seen, err)
	}
	for _, request := range requests {
		t.Errorf("the operator asked to %s %s: %s", request.Verb, request.ObjectRef.Resource, request.RequestURI)
	}
}
