// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package controller_test shows the reconcilers against a real API server and a cluster's
// other controllers: the status, ownership, deletion, and how a set in trouble is reported
// and contained.
package controller_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// env is shared by all tests of this package; every test has its own namespace.
var env *environment.Environment

func TestMain(m *testing.M) {
	environment.Main(m, environment.Options{
		Cluster: cluster.Options{Audit: &cluster.Audit{}},
		Nodes:   &simnode.Options{Provisioner: true},
	}, func(e *environment.Environment) { env = e })
}

// onDelete keeps the set from moving pods by itself.
func onDelete() []string {
	return []string{"    type: RollingUpdate\n    rollingUpdate:\n      podUpdatePolicy: InPlaceIfPossible\n      maxUnavailable: 1\n", "    type: OnDelete\n"}
}

// condition returns a condition of the set; nil if it has none of the type.
func condition(set *v1beta1.StatefulSet, kind appsv1.StatefulSetConditionType) *appsv1.StatefulSetCondition {
	for i := range set.Status.Conditions {
		if set.Status.Conditions[i].Type == kind {
			return &set.Status.Conditions[i]
		}
	}
	return nil
}

// is is true if the set has the condition with this status.
func is(set *v1beta1.StatefulSet, kind appsv1.StatefulSetConditionType, status corev1.ConditionStatus) bool {
	c := condition(set, kind)
	return c != nil && c.Status == status
}

// uids returns the UIDs of pods by name.
func uids(pods []corev1.Pod) map[string]types.UID {
	byName := map[string]types.UID{}
	for i := range pods {
		byName[pods[i].Name] = pods[i].UID
	}
	return byName
}

// controllerOf names who controls an object; empty when nobody does.
func controllerOf(object metav1.Object) types.UID {
	if owner := metav1.GetControllerOf(object); owner != nil {
		return owner.UID
	}
	return ""
}

// revisions lists the revisions of the namespace, oldest first.
func revisions(t *testing.T, n *environment.Namespace) []appsv1.ControllerRevision {
	t.Helper()
	list := &appsv1.ControllerRevisionList{}
	if err := n.Client.List(t.Context(), list, client.InNamespace(n.Name)); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

// events lists the events about a set with a reason.
func events(t *testing.T, n *environment.Namespace, set, reason string) []eventsv1.Event {
	t.Helper()
	list := &eventsv1.EventList{}
	if err := n.Client.List(t.Context(), list, client.InNamespace(n.Name)); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool {
		return e.Regarding.Kind != "StatefulSet" || e.Regarding.Name != set || e.Reason != reason
	})
}

// openLog opens the audit log at its end.
func openLog(t *testing.T) *audit.Log {
	t.Helper()
	log, err := audit.Open(env.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	return log
}
