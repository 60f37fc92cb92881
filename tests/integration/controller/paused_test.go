// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controller_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// The annotation keeps the operator away from one object; the object says so, and is as it should be once the annotation is gone.
func TestPausedByAnnotation(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 3))
	n.Settled("web")
	n.Change("web", func(set *v1beta1.StatefulSet) {
		set.Annotations = map[string]string{"operator.kruise.io/paused": "true"}
		set.Spec.Replicas = ptr.To[int32](5)
	})
	n.Eventually("the set says that it is paused", func(context.Context) error {
		set := n.StatefulSet("web")
		c := condition(set, v1beta1.StatefulSetStalled)
		if c == nil || c.Status != corev1.ConditionTrue || c.Reason != "ReconciliationPaused" || !is(set, v1beta1.StatefulSetReconciling, corev1.ConditionFalse) {
			return fmt.Errorf("the conditions are %+v", set.Status.Conditions)
		}
		return nil
	})
	if err := n.Client.Delete(t.Context(), n.Pod("web-1")); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the pod is gone", func(ctx context.Context) error {
		if pods := environment.Names(n.Pods()); len(pods) != 2 {
			return fmt.Errorf("the pods are %v", pods)
		}
		return nil
	})
	n.Consistently(time.Second, "nothing is created", func(context.Context) error {
		if pods := environment.Names(n.Pods()); len(pods) != 2 {
			return fmt.Errorf("the pods are %v", pods)
		}
		return nil
	})
	n.Change("web", func(set *v1beta1.StatefulSet) { delete(set.Annotations, "operator.kruise.io/paused") })
	set := n.Settled("web")
	if len(n.Pods()) != 5 || !is(set, v1beta1.StatefulSetStalled, corev1.ConditionFalse) {
		t.Errorf("%d pods, conditions %+v", len(n.Pods()), set.Status.Conditions)
	}
}
