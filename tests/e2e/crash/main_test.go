// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package crash_test kills the operator at any moment and looks for traces.
package crash_test

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

var env *environment.Environment // TestMain has no other way to hand something to the tests

func TestMain(m *testing.M) {
	environment.Main(m, environment.Options{
		Nodes: &simnode.Options{},
		// The next leader soon replaces a killed one. But an operator late for its lease
		// ends, and nobody restarts it here: a busy machine may take seconds to answer.
		Operator: operator.Options{LeaderElect: true, Args: []string{
			"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3500ms", "--leader-elect-retry-period=500ms",
		}},
	}, func(e *environment.Environment) { env = e })
}

// moved counts the pods with the new image in their spec.
func moved(pods []corev1.Pod) int {
	n := 0
	for i := range pods {
		if pods[i].Spec.Containers[0].Image == scenario.V2 {
			n++
		}
	}
	return n
}

// killAt kills and restarts the operator at each of the points: numbers of moved pods. It
// returns the operator's time away.
func killAt(t *testing.T, n *environment.Namespace, random *rand.Rand, points []int, moved func(context.Context) (int, error)) (down time.Duration) {
	t.Helper()
	slices.Sort(points)
	for _, point := range points {
		n.EventuallyWithin(2*time.Minute, fmt.Sprintf("%d pods are moved", point), func(ctx context.Context) error {
			are, err := moved(ctx)
			if err == nil && are < point {
				err = fmt.Errorf("%d are", are)
			}
			return err
		})
		// Somewhere within the few writes of one step of the rollout.
		<-time.After(time.Duration(random.Intn(20)) * time.Millisecond)
		killed := time.Now()
		if err := env.Operator.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := env.Operator.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		down += time.Since(killed)
	}
	return down
}
