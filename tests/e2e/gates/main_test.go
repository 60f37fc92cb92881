// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package gates_test has the flows behind feature gates.
package gates_test

import (
	"testing"
	"time"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

var env *environment.Environment // TestMain has no other way to hand something to the tests

func TestMain(m *testing.M) {
	environment.Main(m, environment.Options{
		Nodes: &simnode.Options{Provisioner: true},
		Operator: operator.Options{Args: []string{
			"--feature-gates=StatefulSetStartOrdinal=true,StatefulSetAutoResizePVCGate=true,InPlaceWorkloadVerticalScaling=true," +
				"PreDownloadImageForInPlaceUpdate=true,RecreatePodWhenChangeVCTInCloneSetGate=true,SidecarTerminator=true,ContainerLaunchPriority=true,AppendPodSelector=true",
		}},
	}, func(e *environment.Environment) { env = e })
}

// half is how long a test looks on to see nothing happen.
const half = 2 * time.Second
