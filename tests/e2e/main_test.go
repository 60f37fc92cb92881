// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package e2e_test has whole flows on a real control plane with simulated nodes: a user's
// actions and the pods' fate.
package e2e_test

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

var env *environment.Environment // TestMain has no other way to hand something to the tests

func TestMain(m *testing.M) {
	environment.Main(m, environment.Options{
		Cluster: cluster.Options{Audit: &cluster.Audit{}},
		// As installed, but that PodUnavailableBudgets check updates, too.
		Operator: operator.Options{Args: []string{"--metrics-secure", "--feature-gates=PodUnavailableBudgetUpdateGate=true"}},
		Nodes:    &simnode.Options{Nodes: 6, Provisioner: true},
		After:    rightsAreNeeded,
	}, func(e *environment.Environment) { env = e })
}

// storageClass makes the class of this suite.
func storageClass(t *testing.T) string {
	t.Helper()
	if err := env.Nodes.CreateStorageClass(t.Context(), "fast", storagev1.VolumeBindingWaitForFirstConsumer, true); err != nil {
		t.Fatal(err)
	}
	return "fast"
}

// defaultStorageClass makes the class for claims without one, as clusters have.
func defaultStorageClass(t *testing.T) {
	t.Helper()
	class := simnode.StorageClass("standard", storagev1.VolumeBindingWaitForFirstConsumer, true)
	class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	if err := client.IgnoreAlreadyExists(env.Client.Create(t.Context(), class)); err != nil {
		t.Fatal(err)
	}
}
