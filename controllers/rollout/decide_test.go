// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/rollout/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
)

// A step that is done leads to the next order in one pass, unless it waits.
func TestStatesThatWaitForNothingAreOnePass(t *testing.T) {
	for name, tc := range map[string]struct {
		pause *int32
		state v1beta1.CanaryStepState
		step  int32
		batch int32
	}{
		"no pause":    {ptr.To[int32](0), v1beta1.CanaryStepStateUpgrade, 2, 1},
		"a minute":    {ptr.To[int32](60), v1beta1.CanaryStepStatePaused, 1, 0},
		"an approval": {nil, v1beta1.CanaryStepStatePaused, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			row, _ := rollable.Of("apps/v1", "Deployment")
			rollout := progressing(func(o *v1beta1.Rollout) {
				for i, size := range []intstr.IntOrString{intstr.FromInt32(1), intstr.FromInt32(2)} {
					o.Spec.Strategy.Canary.Steps[i].Replicas = &size
				}
				o.Spec.Strategy.Canary.Steps[0].Pause.Duration = tc.pause
				sub := o.Status.CanaryStatus
				sub.CurrentStepState, sub.NextStepIndex, sub.CanaryRevision, sub.StableRevision, sub.RolloutHash = v1beta1.CanaryStepStateUpgrade, 2, "v2", "v1", plan.Hash(o)
			})
			s := &seen{row: row, Snapshot: plan.Snapshot{
				Now:      time.Unix(100, 0),
				Workload: &plan.Workload{Workload: row, Facts: rollable.Facts{Settled: true, Replicas: 3, InRelease: true, Guarded: true, Revision: "v2", Stable: "v1"}},
			}}
			ordering := rollout.DeepCopy()
			release := &v1beta1.BatchRelease{Spec: *plan.Plan(ordering, s.Snapshot).Order}
			release.Status = v1beta1.BatchReleaseStatus{UpdateRevision: "v2", ObservedWorkloadReplicas: 3}
			release.Status.CanaryStatus.CurrentBatchState = v1beta1.BatchStateReady
			s.Release = release
			before := rollout.Status.DeepCopy()

			got := decide(rollout, s)
			if sub := got.Status.CanaryStatus; sub.CurrentStepState != tc.state || sub.CurrentStepIndex != tc.step || len(got.Events) != 1 {
				t.Errorf("step %d, %s, events %v", sub.CurrentStepIndex, sub.CurrentStepState, got.Events)
			}
			if got.Order == nil || *got.Order.ReleasePlan.BatchPartition != tc.batch {
				t.Errorf("the order is %+v", got.Order)
			}
			if rollout.Status.CanaryStatus.CurrentStepState != before.CanaryStatus.CurrentStepState {
				t.Error("the Rollout itself changed")
			}
		})
	}
}

func TestWhatHasAWorkloadPlanned(t *testing.T) {
	at := func(change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 1, ResourceVersion: "1", Labels: map[string]string{"a": "b"}}}
		change(o)
		return o
	}
	same := at(func(*metav1.PartialObjectMetadata) {})
	for name, tc := range map[string]struct {
		after *metav1.PartialObjectMetadata
		want  bool
	}{
		"its status":     {at(func(o *metav1.PartialObjectMetadata) { o.ResourceVersion = "2" }), false},
		"its spec":       {at(func(o *metav1.PartialObjectMetadata) { o.Generation = 2 }), true},
		"a label":        {at(func(o *metav1.PartialObjectMetadata) { o.Labels = nil }), true},
		"an annotation":  {at(func(o *metav1.PartialObjectMetadata) { o.Annotations = map[string]string{"a": ""} }), true},
		"its deletion":   {at(func(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp = ptr.To(metav1.Unix(1, 0)) }), true},
		"another object": {at(func(o *metav1.PartialObjectMetadata) { o.UID = "2" }), true},
	} {
		if got := tells(same, tc.after); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// What was read of requests is for the stored state. States that follow in the pass read anew.
func TestRequestsAreReadForEachState(t *testing.T) {
	row, _ := rollable.Of("apps/v1", "Deployment")
	rollout := progressing(func(o *v1beta1.Rollout) {
		o.Spec.Strategy.Canary.TrafficRoutings = []v1beta1.TrafficRoutingRef{{Service: "web"}}
		for i, size := range []intstr.IntOrString{intstr.FromInt32(1), intstr.FromInt32(2)} {
			o.Spec.Strategy.Canary.Steps[i].Replicas, o.Spec.Strategy.Canary.Steps[i].Traffic = &size, ptr.To("20%")
		}
		o.Spec.Strategy.Canary.Steps[0].Pause.Duration = ptr.To[int32](0)
		sub := o.Status.CanaryStatus
		sub.CurrentStepState, sub.NextStepIndex, sub.CanaryRevision, sub.StableRevision, sub.RolloutHash = v1beta1.CanaryStepStateTrafficRouting, 2, "v2", "v1", plan.Hash(o)
	})
	s := &seen{row: row, Snapshot: plan.Snapshot{
		Now: time.Unix(100, 0), World: &traffic.World{Goal: traffic.Route, OneService: true},
		Workload: &plan.Workload{Workload: row, Facts: rollable.Facts{Settled: true, Replicas: 3, InRelease: true, Guarded: true, Revision: "v2", Stable: "v1"}},
	}}
	release := &v1beta1.BatchRelease{Spec: *plan.Plan(rollout.DeepCopy(), s.Snapshot).Order}
	release.Status = v1beta1.BatchReleaseStatus{UpdateRevision: "v2", ObservedWorkloadReplicas: 3}
	release.Status.CanaryStatus.CurrentBatchState = v1beta1.BatchStateReady
	s.Release = release
	if sub := decide(rollout, s).Status.CanaryStatus; sub.CurrentStepState != v1beta1.CanaryStepStateInit || sub.CurrentStepIndex != 2 {
		t.Errorf("step %d, %s", sub.CurrentStepIndex, sub.CurrentStepState)
	}
}
