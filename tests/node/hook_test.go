// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// TestUpdateHook holds a pod at its inPlaceUpdate hook. The kubelet, computing Ready from
// the conditions, agrees with the operator.
func TestUpdateHook(t *testing.T) {
	const hook = "example.io/drain"
	n := onNode(t)
	set := guestbook(1)
	// So the kubelet has nothing left to write about the start: it would write the earlier
	// Ready.
	set.Spec.UpdateStrategy.RollingUpdate.MinReadySeconds = new(int32(2))
	set.Spec.Lifecycle = &shared.Lifecycle{InPlaceUpdate: &shared.LifecycleHook{FinalizersHandler: []string{hook}, MarkPodNotReady: true}}
	set.Spec.Template.Finalizers = []string{hook}
	was := start(t, n, set)[0]
	release := func() {
		t.Helper()
		n.PatchPod("web-0", fmt.Sprintf(`{"metadata":{"$deleteFromPrimitiveList/finalizers":[%q]}}`, hook))
	}
	inState := func(want shared.LifecycleState, ready bool) func(context.Context) error {
		return func(context.Context) error {
			pod := n.Pod("web-0")
			if state := pod.Labels[shared.LabelLifecycleState]; state != string(want) || environment.IsReady(pod) != ready {
				return fmt.Errorf("the state is %s, the conditions are %+v", state, pod.Status.Conditions)
			}
			return nil
		}
	}

	n.SetImage("web", repository+":v2")
	// A kubelet's status under way can write Ready=True once more; its next one takes it
	// back.
	n.Eventually("the pod waits at the hook and stays out of service", lasting(2*time.Second, inState(shared.StatePreparingUpdate, false)))
	held := n.Pod("web-0")
	const holders = `[{"userAgent":"Lifecycle","key":"preUpdateHook"}]`
	if c := condition(held, shared.GateKruisePodReady); c.Status != corev1.ConditionFalse || c.Message != holders {
		t.Errorf("the condition is %+v, want False and %s", c, holders)
	}
	if c := condition(held, corev1.PodReady); c.Reason != shared.ReasonReadinessGatesNotReady {
		t.Errorf("the pod is not ready for the reason %s", c.Reason)
	}
	if held.Spec.Containers[0].Image != repository+":v1" {
		t.Errorf("the pod has the image %s before the hook is released", held.Spec.Containers[0].Image)
	}
	assertSameContainer(t, &was, held, "web")
	assertVersion(t, held, "v1")

	release()
	n.Eventually("the pod is updated and ready, and waits for its hook", inState(shared.StateUpdated, true))
	updated := n.Pod("web-0")
	assertSamePod(t, &was, updated)
	assertReplacedOnce(t, &was, updated, "web")
	assertVersion(t, updated, "v2")
	if c := condition(updated, shared.GateKruisePodReady); c.Status != corev1.ConditionTrue || c.Message != "[]" {
		t.Errorf("after the update the condition is %+v", c)
	}
	if status := n.StatefulSet("web").Status; status.UpdatedAvailableReplicas != 0 {
		t.Errorf("a pod without its hook counts as available: %+v", status)
	}

	n.PatchPod("web-0", fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, hook))
	n.Settled("web")
	n.Eventually("the pod is normal", inState(shared.StateNormal, true))
	release() // or the namespace could not be deleted
}

// lasting is a check for another one to hold at every look for the given time.
func lasting(period time.Duration, check func(context.Context) error) func(context.Context) error {
	since := time.Now()
	return func(ctx context.Context) error {
		if err := check(ctx); err != nil {
			since = time.Now()
			return err
		}
		if held := time.Since(since); held < period {
			return fmt.Errorf("it has held for %s, of %s", held, period)
		}
		return nil
	}
}
