// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"flag"
	"fmt"

	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/takeover"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/rights"
)

// rightsAreNeeded fails the suite when the flows needed a right that the operator does not have, and when it has one that no flow
// needed. Only all flows together can say the latter.
func rightsAreNeeded(_ context.Context, e *environment.Environment) error {
	given, err := rights.Of("../../config/rbac/manager/role.yaml", "../../config/rbac/leader_election.yaml")
	if err != nil {
		return err
	}
	// A watch is in the log when it has ended.
	if err := e.Operator.Stop(); err != nil {
		return err
	}
	events, err := audit.Begin(e.Cluster.AuditLog()).Next(audit.ByUser(operator.ServiceAccountUser))
	if err != nil {
		return err
	}
	if some := flag.Lookup("test.run").Value.String() + flag.Lookup("test.skip").Value.String(); some != "" {
		fmt.Println("only some flows ran: not checked that each right is needed")
		given = nil
		return rights.Check(given, events, "kruise-system", nil)
	}
	fmt.Printf("measured: %d requests of the operator needed %d of its %d rights\n",
		len(events), len(given)-len(rights.Unused(given, events, "kruise-system")), len(given))
	return rights.Check(given, events, "kruise-system", neededElsewhere())
}

// neededElsewhere are the rights that these flows cannot need, and who does.
func neededElsewhere() map[string]string {
	excuses := map[string]string{}
	for _, kind := range takeover.Unserved(config.KnownKinds()) {
		excuses[fmt.Sprintf("list %s %s", kind.Group, kind.Resource)] = "tests/e2e/takeover: objects that a takeover would orphan are counted"
	}
	return excuses
}
