// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/image"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/rights"
)

// rightsAreNeeded fails the suite for missing rights of the operator, and for rights no
// flow needed. Only all flows together prove the latter.
func rightsAreNeeded(_ context.Context, e *environment.Environment) error {
	given, err := rights.Of("../../config/rbac")
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
	// A sample has pull secrets, and Secrets are distributed. Their namespaces say who may read them; the right to copy them comes with the node daemon, which is not deployed here.
	events = slices.DeleteFunc(events, func(e auditv1.Event) bool {
		return e.ObjectRef != nil && e.ObjectRef.Resource == "secrets" &&
			(e.ObjectRef.Namespace == image.SecretNamespace || e.ObjectRef.Name == "registry" || e.ObjectRef.Name == "hub" || e.Verb == "get" && !strings.HasPrefix(e.ObjectRef.Namespace, "kruise-"))
	})
	if some := flag.Lookup("test.run").Value.String() + flag.Lookup("test.skip").Value.String(); some != "" {
		fmt.Println("only some flows ran: not checked that each right is needed")
		given = nil
		return rights.Check(given, events, "kruise-system")
	}
	fmt.Printf("measured: %d requests of the operator needed %d of its %d rights\n",
		len(events), len(given)-len(rights.Unused(given, events, "kruise-system")), len(given))
	return rights.Check(given, events, "kruise-system", neededElsewhere()...)
}

// neededElsewhere are rights not needed by these flows, and their users.
func neededElsewhere() []rights.Excuse {
	return []rights.Excuse{
		{
			Why: "only an operator inside of the cluster keeps its certificate and what leads to it; tests/node/incluster checks them",
			Covers: rights.With("secrets", "customresourcedefinitions",
				"mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
		},
		{
			Why:    "how the operator itself runs, and what it deploys for itself, is changed in tests/integration/operatorconfig",
			Covers: rights.With("kruises", "kruises/status", "deployments", "networkpolicies", "services", "servicemonitors", "podmonitors", "prometheusrules"),
		},
		{
			Why: "the node daemon is deployed by an operator inside of a cluster alone; tests/integration/operatorconfig deploys it",
			Covers: func(r rights.Right) bool {
				return slices.Contains([]string{
					"kruise-daemon", "kruise-daemon-config", "kruise-daemon-own-node", "kruise-daemon-secrets", "kruise-operator-pull-secrets",
					"kruise-operator-read-pull-secrets", "kruise-operator-distribute-secrets", "kruise-operator-route-istio",
				}, r.Name)
			},
		},
		{
			Why:    "what is protected from deletion, which a gate turns on; tests/integration/operatorconfig has some",
			Covers: rights.With("validatingadmissionpolicies", "validatingadmissionpolicybindings", "clusterrolebindings"),
		},
		{
			Why:    "only one of several replicas elects a leader, and says so in an older event; tests/node/incluster checks them",
			Covers: func(r rights.Right) bool { return r.Namespaced && (r.Resource == "leases" || r.Resource == "events") },
		},
		{
			Why: "a server streams lists since 1.34 where it can; a list is asked for when it cannot, as with WatchList off",
			Covers: rights.To("list", "pods", "persistentvolumeclaims", "controllerrevisions", "statefulsets", "clonesets",
				"nodes", "storageclasses", "jobs", "configmaps"),
		},
		{
			Why: "the server is asked past the cache after a conflict, a name that exists and a write that stays unseen; tests/integration/faults makes them",
			Covers: rights.To("get", "pods", "persistentvolumeclaims", "controllerrevisions", "jobs", "statefulsets", "advancedcronjobs", "broadcastjobs",
				"batchreleases", "clonesets", "containerrecreaterequests", "daemonsets", "ephemeraljobs", "imagelistpulljobs", "podprobemarkers", "resourcedistributions", "sidecarsets", "trafficroutings", "uniteddeployments"),
		},
		{
			Why:    "workloads of UnitedDeployments; tests/e2e/zones has all kinds of them",
			Covers: rights.To("create delete patch", "statefulsets"),
		},
		{
			Why:    "feature gates that are off here; tests/e2e/gates turns them on",
			Covers: rights.To("get list watch patch", "pods/resize", "storageclasses"),
		},
		{
			Why:    "requests that stop sidecars of finished jobs, which a gate turns on; tests/e2e/gates has some",
			Covers: rights.To("create", "containerrecreaterequests"),
		},
		{
			Why:    "what SidecarSets register at the API server, and how they prove it; tests/e2e/crash and tests/integration/injection have some",
			Covers: rights.With("mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "namespaces"),
		},
		{
			Why:    "a history that has become too long; tests/integration/controller has one",
			Covers: rights.To("delete", "controllerrevisions"),
		},
		{
			Why:    "a CloneSet's claims without a pod, pods spread over nodes, and pods that its spec names; tests/integration/controller has them",
			Covers: rights.To("delete list watch patch", "persistentvolumeclaims", "nodes", "clonesets"),
		},
		{
			Why: "a node that says nothing for ten minutes, and lists whose node goes before its list does; controllers/nodeimage/plan and " +
				"controllers/nodepodprobe/plan have them",
			Covers: rights.To("get list delete patch", "nodeimages", "nodeimages/status", "nodepodprobes"),
		},
		{
			Why:    "images pulled ahead of an update, which a gate turns on; tests/e2e/gates has some",
			Covers: rights.With("imagepulljobs"),
		},
		{
			Why: "where OpenKruise has run, its lapsed lease is deleted, and objects of kinds without a controller are counted; tests/e2e/takeover has them",
			Covers: func(r rights.Right) bool {
				return r.Name == "kruise-manager" || r.Verb == "list" && (r.Group == "apps.kruise.io" || r.Group == "policy.kruise.io")
			},
		},
		{
			Why: "objects of our kinds that are stored in another version; tests/integration/operatorconfig has one",
			Covers: func(r rights.Right) bool {
				return r.Resource == "customresourcedefinitions/status" || (r.Group == "apps.kruise.io" || r.Group == "policy.kruise.io") && r.Verb == "patch" && !strings.Contains(r.Resource, "/")
			},
		},
		{
			Why: "an owner that blocks its deletion must be writable by the same account where the admission plugin OwnerReferencesPermissionEnforcement is on; no request shows it",
			Covers: rights.To("update", "advancedcronjobs/finalizers", "batchreleases/finalizers", "broadcastjobs/finalizers", "clonesets/finalizers", "daemonsets/finalizers",
				"imagelistpulljobs/finalizers", "resourcedistributions/finalizers", "rollouts/finalizers", "sidecarsets/finalizers", "statefulsets/finalizers", "trafficroutings/finalizers", "uniteddeployments/finalizers"),
		},
	}
}
