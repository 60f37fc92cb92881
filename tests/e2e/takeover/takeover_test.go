// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package takeover_test starts the operator on objects that OpenKruise left, and finds them untouched.
package takeover_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// quiet is how long the operator runs after it has seen every set.
const quiet = 5 * time.Second

// persistentPodStates is a kind of which only the name matters here.
const persistentPodStates = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: persistentpodstates.apps.kruise.io
spec:
  group: apps.kruise.io
  names: {kind: PersistentPodState, plural: persistentpodstates, singular: persistentpodstate, listKind: PersistentPodStateList}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// world is what the operator must leave as it is.
type world struct {
	pods      map[types.NamespacedName]corev1.Pod
	claims    map[types.NamespacedName]corev1.PersistentVolumeClaim
	revisions map[types.NamespacedName]appsv1.ControllerRevision
	sets      map[types.NamespacedName]v1beta1.StatefulSet
}

func read(t *testing.T, c client.Client) world {
	t.Helper()
	pods, claims, revisions, sets := &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &appsv1.ControllerRevisionList{}, &v1beta1.StatefulSetList{}
	for _, list := range []client.ObjectList{pods, claims, revisions, sets} {
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	return world{byName(pods.Items), byName(claims.Items), byName(revisions.Items), byName(sets.Items)}
}

func byName[T any, P interface {
	*T
	client.Object
}](items []T) map[types.NamespacedName]T {
	all := map[types.NamespacedName]T{}
	for i := range items {
		all[client.ObjectKeyFromObject(P(&items[i]))] = items[i]
	}
	return all
}

// TestTakeover restores sets in the middle of their lives into a cluster in which nothing else runs, and starts the operator.
func TestTakeover(t *testing.T) {
	c := cluster.StartForTest(t, cluster.Options{ControlPlane: cluster.APIServerOnly, Audit: &cluster.Audit{}})
	crds, err := filepath.Glob("../../../config/crd/bases/*.yaml")
	if err != nil || len(crds) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	// OpenKruise's own kinds stay in the cluster, also those that nobody looks after any more.
	foreign := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(foreign, []byte(persistentPodStates), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.InstallCRDs(t.Context(), append(crds, foreign)...); err != nil {
		t.Fatal(err)
	}
	direct, err := client.New(c.Config(), client.Options{Scheme: environment.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	fixtures.Restore(t.Context(), t, direct, "cluster/state.yaml", "statefulset-v1alpha1/state.yaml", "statefulset-midway/state.yaml",
		"statefulset-pvc-policy/state.yaml", "persistentpodstate/state.yaml")
	before := read(t, direct)
	if len(before.sets) < 5 || len(before.pods) < 17 || len(before.claims) < 8 || len(before.revisions) < 5 {
		t.Fatalf("restored are %d sets, %d pods, %d claims and %d revisions", len(before.sets), len(before.pods), len(before.claims), len(before.revisions))
	}
	log, err := audit.Open(c.AuditLog())
	if err != nil {
		t.Fatal(err)
	}

	o, err := operator.Start(t.Context(), c, operator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := namespaceOf(t, c, direct)
	n.Eventually("every set is observed, with conditions of this operator", func(context.Context) error {
		for name, set := range read(t, direct).sets {
			if set.Status.ObservedGeneration != set.Generation || !hasCondition(&set, v1beta1.StatefulSetProgressing) {
				return fmt.Errorf("%s has the status %+v", name, set.Status)
			}
		}
		return nil
	})
	n.Consistently(quiet, "the operator runs", func(context.Context) error {
		select {
		case <-o.Done():
			return fmt.Errorf("it ended")
		default:
			return nil
		}
	})

	after := read(t, direct)
	for what, diff := range map[string]string{
		"pods":      cmp.Diff(before.pods, after.pods),
		"claims":    cmp.Diff(before.claims, after.claims),
		"revisions": cmp.Diff(before.revisions, after.revisions),
	} {
		if diff != "" {
			t.Errorf("%s changed (-before +after):\n%s", what, diff)
		}
	}
	for name, was := range before.sets {
		is := after.sets[name]
		if was.Status.CurrentRevision != is.Status.CurrentRevision || was.Status.UpdateRevision != is.Status.UpdateRevision ||
			was.Status.Replicas != is.Status.Replicas || was.Status.ReadyReplicas != is.Status.ReadyReplicas || was.Status.UpdatedReplicas != is.Status.UpdatedReplicas {
			t.Errorf("the status of %s was %+v and is %+v", name, was.Status, is.Status)
		}
		if diff := cmp.Diff(was.Spec, is.Spec); diff != "" {
			t.Errorf("the spec of %s changed:\n%s", name, diff)
		}
	}
	checkWrites(t, log, len(before.sets))
}

// checkWrites finds in the audit log no write to anything but the statuses of the sets.
func checkWrites(t *testing.T, log *audit.Log, sets int) {
	t.Helper()
	events, err := log.Next(func(e *auditv1.Event) bool {
		return audit.ByUser(operator.ServiceAccountUser)(e) && slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
	})
	if err != nil {
		t.Fatal(err)
	}
	counts := audit.Count(events)
	statuses := 0
	for request, n := range counts {
		switch {
		case request.Resource == "statefulsets/status":
			statuses += n
		case slices.Contains([]string{"events", "leases", "serviceaccounts/token"}, request.Resource):
		default:
			t.Errorf("%d times %s %s (%d)", n, request.Verb, request.Resource, request.Code)
		}
	}
	if statuses < sets {
		t.Errorf("%d statuses were written, %d sets exist; all writes:\n%s", statuses, sets, counts)
	}
	t.Logf("measured: %d status writes for %d sets, nothing else", statuses, sets)
}

func hasCondition(set *v1beta1.StatefulSet, kind appsv1.StatefulSetConditionType) bool {
	return slices.ContainsFunc(set.Status.Conditions, func(c appsv1.StatefulSetCondition) bool { return c.Type == kind })
}

// namespaceOf gives the verbs that wait.
func namespaceOf(t *testing.T, c *cluster.Cluster, direct client.Client) *environment.Namespace {
	t.Helper()
	watching, err := client.NewWithWatch(c.Config(), client.Options{Scheme: direct.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return (&environment.Environment{Cluster: c, Client: watching}).Namespace(t)
}
