// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package zones_test

import (
	"context"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/sample"
)

// TestKilledBetweenWorkloads kills the operator while it creates, changes and deletes the
// workloads of twelve subsets. In the end there is one workload per subset, under its usual
// name.
func TestKilledBetweenWorkloads(t *testing.T) {
	const subsets = 12
	seed := int64(sample.Day())
	t.Logf("%s=%d", sample.DayVariable, seed)
	random := rand.New(rand.NewSource(seed))
	kill := func() {
		t.Helper()
		<-time.After(time.Duration(random.Intn(150)) * time.Millisecond) // anywhere within the writes of a step
		if err := env.Operator.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := env.Operator.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	many := func(n int) func(*v1beta1.UnitedDeployment) {
		return func(set *v1beta1.UnitedDeployment) {
			set.Spec.Topology.Subsets = nil
			for i := range n {
				set.Spec.Topology.Subsets = append(set.Spec.Topology.Subsets, v1beta1.Subset{Name: fmt.Sprintf("s%02d", i)})
			}
		}
	}
	a := start(t, "cloneSetTemplate", subsets, many(subsets))
	kill()
	a.settled(v1beta1.ReasonComplete)
	a.image("app:2")
	kill()
	a.settled(v1beta1.ReasonComplete)
	a.change(many(subsets / 2))
	kill()
	a.settled(v1beta1.ReasonComplete)
	a.change(many(subsets))
	kill()
	a.settled(v1beta1.ReasonComplete)

	a.Eventually("there is one workload for each subset", func(ctx context.Context) error {
		all, err := a.workloads(ctx)
		if err != nil {
			return err
		}
		pods, err := a.ListPods(ctx, "app=app")
		if err != nil {
			return err
		}
		if len(all) != subsets || len(pods) != subsets {
			return fmt.Errorf("there are %d workloads and %d pods", len(all), len(pods))
		}
		for name, w := range all {
			if w.GetName() != "app-"+name {
				return fmt.Errorf("the workload of %s is called %s", name, w.GetName())
			}
		}
		for i := range pods {
			if image := pods[i].Spec.Containers[0].Image; image != "app:2" {
				return fmt.Errorf("pod %s has the image %s", pods[i].Name, image)
			}
		}
		return nil
	})
}
