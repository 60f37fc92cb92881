// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package zones_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

const limit = 2 * time.Minute

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

func adaptive(critical, duration int32, reserve bool) func(*v1beta1.UnitedDeployment) {
	return func(set *v1beta1.UnitedDeployment) {
		set.Spec.Topology.ScheduleStrategy = v1beta1.ScheduleStrategy{
			Type: v1beta1.AdaptiveScheduleStrategy,
			Adaptive: &v1beta1.AdaptiveSchedule{
				RescheduleCriticalSeconds: &critical, UnschedulableDuration: ptr.To(duration), ReserveUnschedulablePods: reserve,
			},
		}
	}
}

// schedulable is a statement about the condition of a subset.
func schedulable(name string, status corev1.ConditionStatus) func(*v1beta1.UnitedDeployment) error {
	return func(set *v1beta1.UnitedDeployment) error {
		for _, s := range set.Status.SubsetStatuses {
			for _, c := range s.Conditions {
				if s.Name == name && c.Status == status {
					return nil
				}
			}
		}
		return fmt.Errorf("the subsets are %+v", set.Status.SubsetStatuses)
	}
}

// TestZoneDownDuringARollout takes a zone down while an image is rolled out. The other zones go on. By default the zone follows when it is
// back; with Adaptive, its pods run elsewhere meanwhile, at the new image, and stay there.
func TestZoneDownDuringARollout(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		a := start(t, "cloneSetTemplate", 6)
		a.settled(v1beta1.ReasonComplete)
		a.zone("b", false)
		a.image("app:2")
		a.runs("a2 b0 c2", "app:2")
		set := a.until("the status says what is missing", func(set *v1beta1.UnitedDeployment) error {
			if set.Status.ReadyReplicas != 4 {
				return fmt.Errorf("%d pods are ready", set.Status.ReadyReplicas)
			}
			return condition(set, v1beta1.UnitedDeploymentUpdated, corev1.ConditionFalse, "")
		})
		if got := sizes(set); got != "a2 b2 c2" {
			t.Errorf("the sizes are %s", got)
		}
		a.zone("b", true)
		a.runs("a2 b2 c2", "app:2")
		a.settled(v1beta1.ReasonComplete)
	})
	t.Run("adaptive", func(t *testing.T) {
		a := start(t, "cloneSetTemplate", 6, bounds("4"), adaptive(1, 5, false))
		a.runs("a4 b2 c0", "app:1")
		a.settled(v1beta1.ReasonComplete)
		a.image("app:2")
		a.zone("b", false)
		a.runs("a4 b0 c2", "app:2")
		if set := a.settled(v1beta1.ReasonComplete); set.Status.CurrentRevision != set.Status.UpdatedRevision {
			t.Errorf("the status is %+v", set.Status)
		}
		a.zone("b", true)
		a.until("the subset is tried again", schedulable("b", corev1.ConditionTrue))
		a.runs("a4 b0 c2", "app:2")
		a.settled(v1beta1.ReasonComplete)
		a.rests()
	})
}

// TestAdaptiveZoneDown takes a zone down and puts it back: its pods run elsewhere
// meanwhile, and stay there.
func TestAdaptiveZoneDown(t *testing.T) {
	for _, template := range []string{"cloneSetTemplate", "deploymentTemplate", "advancedStatefulSetTemplate"} {
		t.Run(template, func(t *testing.T) {
			a := start(t, template, 6, bounds("4"), adaptive(1, 5, false))
			a.runs("a4 b2 c0", "")
			a.settled(v1beta1.ReasonComplete)
			a.zone("b", false)
			a.runs("a4 b0 c2", "")
			a.until("the subset has no room", schedulable("b", corev1.ConditionFalse))
			if out, err := a.Kubectl("scale", "ud", "app", "--replicas=8"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			a.runs("a4 b0 c4", "")
			a.zone("b", true)
			set := a.until("the subset is tried again", schedulable("b", corev1.ConditionTrue))
			if got := sizes(set); got != "a4 b0 c4" {
				t.Errorf("the sizes are %s: pods that run have moved", got)
			}
			if out, err := a.Kubectl("scale", "ud", "app", "--replicas=10"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			a.runs("a4 b2 c4", "")
			a.settled(v1beta1.ReasonComplete)
		})
	}
}

// TestNoZoneHasRoom: pods without room in any zone are created all the same, and run when
// there is room.
func TestNoZoneHasRoom(t *testing.T) {
	a := start(t, "cloneSetTemplate", 2, bounds("1"), adaptive(1, 2, false))
	a.runs("a1 b1 c0", "")
	for _, zone := range []string{"a", "b", "c"} {
		a.zone(zone, false)
	}
	a.until("the first zone has no room", schedulable("a", corev1.ConditionFalse))
	a.Eventually("two pods wait", func(ctx context.Context) error {
		pods, err := a.ListPods(ctx, "app=app")
		if err == nil && len(pods) != 2 {
			err = fmt.Errorf("there are %d pods", len(pods))
		}
		return err
	})
	for _, zone := range []string{"a", "b", "c"} {
		a.zone(zone, true)
	}
	a.until("two pods run", func(set *v1beta1.UnitedDeployment) error {
		if set.Status.ReadyReplicas != 2 {
			return fmt.Errorf("%d pods are ready", set.Status.ReadyReplicas)
		}
		return condition(set, v1beta1.UnitedDeploymentReconciling, corev1.ConditionFalse, v1beta1.ReasonComplete)
	})
}

// TestReservedPods: three pods of a zone that is down stay and wait, three others stand in
// for them until they run.
func TestReservedPods(t *testing.T) {
	for _, template := range []string{"cloneSetTemplate", "deploymentTemplate"} {
		t.Run(template, func(t *testing.T) {
			a := start(t, template, 6, bounds("3"), adaptive(1, 2, true))
			a.runs("a3 b3 c0", "")
			a.settled(v1beta1.ReasonComplete)
			a.zone("a", false)
			a.runs("a0 b3 c3", "")
			set := a.until("three pods are reserved", func(set *v1beta1.UnitedDeployment) error {
				if s := set.Status; s.ReservedPods != 3 || s.Replicas != 6 || s.ReadyReplicas != 6 || s.UpdatedReplicas != 6 {
					return fmt.Errorf("the status is %+v", s)
				}
				return schedulable("a", corev1.ConditionFalse)(set)
			})
			if got := sizes(set); got != "a3 b3 c3" {
				t.Errorf("the sizes are %s", got)
			}
			if want := "app=app," + shared.LabelReservedPod + "=false"; set.Status.LabelSelector != want {
				t.Errorf("the selector is %s, want %s", set.Status.LabelSelector, want)
			}
			scale, err := a.Kubectl("get", "ud", "app", "--subresource=scale", "-o", "jsonpath={.spec.replicas} {.status.replicas} {.status.selector}")
			if want := "6 6 " + set.Status.LabelSelector; err != nil || strings.TrimSpace(scale) != want {
				t.Errorf("the scale subresource says %q, want %q: %v", scale, want, err)
			}
			a.image("app:2")
			a.runs("a0 b3 c3", "app:2")
			a.zone("a", true)
			a.runs("a3 b3 c0", "app:2")
			a.until("no pod is reserved", func(set *v1beta1.UnitedDeployment) error {
				if set.Status.ReservedPods != 0 {
					return errors.New("pods are reserved")
				}
				return condition(set, v1beta1.UnitedDeploymentReconciling, corev1.ConditionFalse, v1beta1.ReasonComplete)
			})
			a.rests()
		})
	}
}
