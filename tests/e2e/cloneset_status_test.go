// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// TestCloneSetTellsHowItIs has the view of kubectl and of waiting tools.
func TestCloneSetTellsHowItIs(t *testing.T) {
	t.Parallel()
	s := scenario.StartClones(t, env, 3, limits.Rules{}, waitToServe, held)
	s.AwaitCondition(v1beta1.CloneSetReconciling, corev1.ConditionTrue, "")
	s.AwaitCondition(v1beta1.CloneSetAvailable, corev1.ConditionFalse, "")
	started(s, 3)
	for _, condition := range []string{"Available", "Reconciling=false", "Stalled=false"} {
		if out, err := s.Kubectl("wait", "--for=condition="+condition, "--timeout=10s", "clone/web"); err != nil {
			t.Errorf("kubectl wait: %v\n%s", err, out)
		}
	}
	s.Update(scenario.CloneImage(scenario.V2))
	s.AwaitCondition(v1beta1.CloneSetReconciling, corev1.ConditionTrue, v1beta1.ReasonRollingOut)
	s.Await("one is edited", scenario.Number(1, "being edited", scenario.Edited(scenario.V2)))
	s.AwaitCondition(v1beta1.CloneSetAvailable, corev1.ConditionTrue, "")
	s.Eventually("kubectl get shows the columns", func(context.Context) error {
		out, err := s.Kubectl("get", "clone", "web")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if header := strings.Join(strings.Fields(lines[0]), " "); header != "NAME DESIRED UPDATED UPDATED_READY UPDATED_AVAILABLE READY TOTAL AGE STALLED" {
			t.Fatalf("the columns are %s", header)
		}
		if row := strings.Join(strings.Fields(lines[1])[:7], " "); row != "web 3 1 0 0 2 3" {
			return fmt.Errorf("the row is %s", row)
		}
		return nil
	})
	s.Release(scenario.Staying)
	s.Done()
	s.AwaitCondition(v1beta1.CloneSetReconciling, corev1.ConditionFalse, "")
	for _, reason := range []string{"SuccessfulCreate", "SuccessfulUpdatePodInPlace"} {
		s.Eventually("there is an event "+reason, func(ctx context.Context) error { return eventOf(ctx, s, reason) })
	}
}

// TestCloneSetIsLeftAlone has the pausing annotation in the middle of a rollout.
func TestCloneSetIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := scenario.StartClones(t, env, 4, limits.Rules{}, held)
	s.Done()
	s.Update(scenario.CloneImage(scenario.V2))
	s.Await("one is edited", scenario.Number(1, "being edited", scenario.Edited(scenario.V2)))
	s.Update(func(set *v1beta1.CloneSet) {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, shared.AnnotationPaused, "true")
	})
	s.Eventually("the set says that it is left alone", func(context.Context) error {
		for _, c := range s.Set().Status.Conditions {
			if c.Type == v1beta1.CloneSetStalled && c.Status == corev1.ConditionTrue && c.Reason == v1beta1.ReasonReconciliationPaused {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", s.Set().Status.Conditions)
	})
	s.Delete(scenario.Named(s.Names(scenario.WithImage(scenario.V1))[0]))
	s.Release(scenario.Staying)
	s.Rests("nobody takes the place of a pod that is gone, and no other one is edited", both(2, 1), scenario.Number(3, "left", func(*corev1.Pod) bool { return true }))
	s.Update(func(set *v1beta1.CloneSet) { delete(set.Annotations, shared.AnnotationPaused) })
	s.Release(scenario.Staying)
	s.Done()
	s.Await("all are updated", both(0, 4))
	s.AwaitCondition(v1beta1.CloneSetStalled, corev1.ConditionFalse, "")
}
