// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package incluster_test

import (
	"slices"
	"testing"

	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/rights"
)

// rights checks the ones only an operator inside of the cluster needs; tests/e2e checks the
// others.
func rightsAreNeeded(t *testing.T, _ *environment.Namespace) {
	given, err := rights.Of(root + "/config/rbac")
	if err != nil {
		t.Fatal(err)
	}
	inside := []string{"secrets", "leases", "events", "customresourcedefinitions", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
	given = slices.DeleteFunc(given, func(r rights.Right) bool { return !slices.Contains(inside, r.Resource) })
	events, err := audit.Begin(env.Cluster.AuditLog()).Next(audit.ByUser(operator.ServiceAccountUser))
	if err != nil {
		t.Fatal(err)
	}
	err = rights.Check(given, events, namespace,
		rights.Excuse{
			Why:    "a server streams lists since 1.34 where it can; a list is asked for when it cannot",
			Covers: func(r rights.Right) bool { return r.Verb == "list" },
		},
		rights.Excuse{
			Why:    "an event that repeats; tests/e2e has one. Webhooks of kinds that are switched off; tests/integration/operatorconfig has some",
			Covers: rights.To("patch", "events", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
		},
		rights.Excuse{
			Why:    "a lapsed lease of OpenKruise is deleted; tests/e2e/takeover has one",
			Covers: func(r rights.Right) bool { return r.Name == "kruise-manager" && r.Verb == "delete" },
		},
		rights.Excuse{
			Why:    "the webhook of a SidecarSet that no policy can serve; tests/integration/injection has some",
			Covers: func(r rights.Right) bool { return r.Name == "kruise-operator-pods" },
		},
		rights.Excuse{
			Why:    "version 0.4.0 had a webhook of launch priorities, which is deleted; tests/integration/injection has one",
			Covers: func(r rights.Right) bool { return r.Name == "kruise-operator-pods-launch-priority" },
		},
		rights.Excuse{
			Why: "the webhook of deletion protection is there only where its gate is on; tests/integration/operatorconfig turns it on",
			Covers: func(r rights.Right) bool {
				return r.Name == "kruise-operator-deletion-protection" && slices.Contains([]string{"create", "update", "delete"}, r.Verb)
			},
		},
		rights.Excuse{
			Why: "owners are added to a Secret of the Operator Lifecycle Manager, in tests/olm and tests/node/olm; where the admission plugin " +
				"OwnerReferencesPermissionEnforcement is on, that takes the right to delete it",
			Covers: func(r rights.Right) bool {
				return r.Name == "kruise-operator-manager-service-cert" && (r.Verb == "patch" || r.Verb == "delete")
			},
		},
	)
	if err != nil {
		t.Error(err)
	}
	t.Logf("measured: %d requests of the operator, %d rights that only an operator inside of the cluster needs", len(events), len(given))
}
