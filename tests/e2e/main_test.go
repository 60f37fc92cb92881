// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package e2e_test tells whole flows on a real control plane with simulated nodes: what a user does, and what becomes of the pods.
package e2e_test

import (
	"testing"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

var env *environment.Environment // TestMain has no other way to hand something to the tests

func TestMain(m *testing.M) {
	environment.Main(m, environment.Options{
		Cluster: cluster.Options{Audit: &cluster.Audit{}},
		Nodes:   &simnode.Options{Nodes: 6, Provisioner: true},
		After:   rightsAreNeeded,
	}, func(e *environment.Environment) { env = e })
}
