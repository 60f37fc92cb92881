// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// identified changes the version and the rollout-id in one request.
func (r *rolled) identified(version, id string) {
	r.t.Helper()
	r.patch(r.kind, "", `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example/shop:`+version+`"},
		{"op":"add","path":"/metadata/labels/rollouts.kruise.io~1rollout-id","value":"`+id+`"}]`)
}

// batches waits until so many pods have the number of each batch.
func (r *rolled) batches(id string, want ...int) {
	r.t.Helper()
	r.Eventually(fmt.Sprintf("pods by batch are %v", want), func(ctx context.Context) error {
		got := make([]int, len(want))
		for i := range got {
			pods, err := r.ListPods(ctx, "rollouts.kruise.io/rollout-id="+id, fmt.Sprintf("rollouts.kruise.io/rollout-batch-id=%d", i+1))
			if err != nil {
				return err
			}
			got[i] = len(pods)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}

// Example E8 of the specification: with an annotation a template that is set back goes by steps, too. Pods that never had another one are told apart.
func TestARolloutGoesBackInBatches(t *testing.T) {
	t.Parallel()
	for _, tc := range [][]string{{"apps.kruise.io/v1beta1", "CloneSet"}, {"apps/v1", "StatefulSet"}, {"apps.kruise.io/v1beta1", "StatefulSet"}} {
		t.Run(strings.Map(letters, strings.ToLower(tc[1]+"-"+tc[0])), func(t *testing.T) {
			t.Parallel()
			r := newRolled(t, tc[0], tc[1], shopOf(tc[0], tc[1]))
			r.steps(threeApprovals)
			r.patch(v1beta1.GroupVersion().WithKind("Rollout"), "", `[{"op":"add","path":"/metadata/annotations","value":{"rollouts.kruise.io/rollback-in-batch":"true"}}]`)
			r.identified("v2", "forth")
			r.waits(1)
			r.reaches2()
			r.batches("forth", 1, 2, 0)
			r.identified("v1", "back")
			r.until("step 1 begins", func(o *v1beta1.Rollout) bool { return o.Status.CanaryStatus.ObservedRolloutID == "back" })
			r.waits(1)
			r.has("v1", 4, 6)
			if pods := r.Pods("rollouts.kruise.io/no-need-update=back"); len(pods) != 3 {
				t.Errorf("%d pods need no update", len(pods))
			}
			r.batches("back", 1, 0, 0)
			r.approve()
			r.waits(2)
			r.has("v1", 5, 6)
			r.batches("back", 1, 2, 0)
			r.approve()
			r.until("the release is over", func(o *v1beta1.Rollout) bool {
				return o.Status.Phase == v1beta1.RolloutPhaseHealthy && condition(o, v1beta1.RolloutConditionProgressing).Reason == v1beta1.ReasonCompleted
			})
			r.has("v1", 6, 6)
			r.batches("back", 1, 2, 3)
			r.clean()
		})
	}
}

// Example E9 of the specification: another rollout-id alone is a release that replaces no pod.
func TestARolloutOfAnIDAlone(t *testing.T) {
	t.Parallel()
	for _, tc := range [][]string{{"apps.kruise.io/v1beta1", "CloneSet"}, {"apps/v1", "StatefulSet"}, {"apps/v1", "Deployment"}, {"apps/v1", "DaemonSet"}} {
		t.Run(tc[1], func(t *testing.T) {
			t.Parallel()
			r := newRolled(t, tc[0], tc[1], shopOf(tc[0], tc[1]))
			r.steps(threeApprovals)
			before := map[types.UID]bool{}
			for _, pod := range r.Pods("app=shop") {
				before[pod.UID] = true
			}
			r.identified("v1", "another")
			r.waits(1)
			r.batches("another", 1, 0, 0)
			r.approve()
			r.waits(2)
			r.batches("another", 1, 2, 0)
			r.approve()
			r.ends("True")
			r.batches("another", 1, 2, 3)
			for _, pod := range r.Pods("app=shop") {
				if !before[pod.UID] {
					t.Errorf("pod %s was replaced", pod.Name)
				}
			}
			r.clean()
		})
	}
}

// Another rollout-id in the middle: the release goes on at its step, and pods get the new id.
func TestARolloutGetsAnotherID(t *testing.T) {
	t.Parallel()
	for _, tc := range [][]string{{"apps/v1", "Deployment"}, {"apps/v1", "StatefulSet"}, {"apps.kruise.io/v1beta1", "CloneSet"}} {
		t.Run(tc[1], func(t *testing.T) {
			t.Parallel()
			r := newRolled(t, tc[0], tc[1], shopOf(tc[0], tc[1]))
			r.steps(threeApprovals)
			r.identified("v2", "first")
			r.waits(1)
			r.reaches2()
			r.batches("first", 1, 2, 0)
			r.identified("v2", "second")
			r.batches("second", 1, 2, 0)
			r.waits(2)
			r.has("v2", 3, 6)
			r.approve()
			r.ends("True")
			r.batches("second", 1, 2, 3)
			r.isOver()
			r.clean()
		})
	}
}

// isOver waits until clients see by the usual rule that a release is over.
func (r *rolled) isOver() {
	r.t.Helper()
	r.until("it is over", func(o *v1beta1.Rollout) bool {
		w := r.workload()
		return o.Status.Phase == v1beta1.RolloutPhaseHealthy && o.Status.CurrentStepState == v1beta1.CanaryStepStateCompleted &&
			o.Status.CanaryStatus.ObservedWorkloadGeneration >= w.GetGeneration() && o.Status.CanaryStatus.ObservedRolloutID == w.GetLabels()["rollouts.kruise.io/rollout-id"]
	})
}

// Another template is a release under the same label. As an annotation, the rollout-id stands for the template.
func TestARolloutUnderTheSameID(t *testing.T) {
	t.Parallel()
	for where, controlled := range map[string]bool{"labels": true, "annotations": false} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			r := newRolled(t, "apps/v1", "Deployment", environment.Edited(deployed, "metadata: {name: shop", "metadata: {name: shop, "+where+": {rollouts.kruise.io/rollout-id: same}"))
			r.image("v2")
			if controlled {
				r.waits(1)
				r.has("v2", 1, 6)
				r.batches("same", 1, 0, 0)
				return
			}
			r.has("v2", 6, 6)
			r.Eventually("an event tells", func(ctx context.Context) error { return r.tells(ctx, v1beta1.ReasonUncontrolled) })
			r.clean()
		})
	}
}

// tells: there is an event with this reason.
func (r *rolled) tells(ctx context.Context, reason string) error {
	events := &eventsv1.EventList{}
	if err := r.Client.List(ctx, events, client.InNamespace(r.Name)); err != nil {
		return err
	}
	if !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Reason == reason }) {
		return fmt.Errorf("there is no event %s", reason)
	}
	return nil
}

// Case Q13 of users: a release has succeeded when all pods are new and ready. The old ones of a StatefulSet are gone then.
func TestARolloutEndsWhenItsPodsAreReady(t *testing.T) {
	t.Parallel()
	for _, tc := range [][]string{{"apps.kruise.io/v1beta1", "StatefulSet"}, {"apps.kruise.io/v1beta1", "CloneSet"}, {"apps/v1", "Deployment"}} {
		t.Run(tc[1], func(t *testing.T) {
			t.Parallel()
			slow := environment.Edited(shopOf(tc[0], tc[1]), "    metadata: {labels: {app: shop}}", "    metadata: {labels: {app: shop}, annotations: {"+simnode.ReadyDelay+": 2s, "+simnode.TerminateDelay+": 3s}}",
				"terminationGracePeriodSeconds: 0", "terminationGracePeriodSeconds: 5")
			r := newRolled(t, tc[0], tc[1], slow)
			r.steps(`[{"replicas":"50%","pause":{"duration":0}},{"replicas":"100%"}]`)
			r.image("v2")
			r.ends("True")
			pods := r.Pods("app=shop")
			if all, ready := of(pods, "v2"); all != 6 || ready != 6 || tc[1] == "StatefulSet" && len(pods) != 6 {
				t.Errorf("%d pods have v2, %d of them are ready, of %d", all, ready, len(pods))
			}
		})
	}
}
