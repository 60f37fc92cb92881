// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/limits"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// statefulSets are scenarios of a StatefulSet of few pods.
func statefulSets() []chaos.Scenario {
	settled := func(ctx context.Context, w *chaos.World) error {
		set := &v1beta1.StatefulSet{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Name, Name: scenario.Name}, set); err != nil {
			return err
		}
		s, want := set.Status, *set.Spec.Replicas
		if s.ObservedGeneration != set.Generation || s.Replicas != want || s.UpdatedAvailableReplicas != want || s.CurrentRevision != s.UpdateRevision {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	}
	create := func(replicas int32, changes ...scenario.Change) chaos.Step {
		return chaos.Step{Settled: settled, Do: func(w *chaos.World) {
			w.T.Helper()
			set := scenario.Set(replicas, append(changes, grace)...)
			set.Namespace = w.Name
			if err := w.Client.Create(w.T.Context(), set); err != nil {
				w.T.Fatal(err)
			}
		}}
	}
	change := func(changes ...scenario.Change) chaos.Step {
		return chaos.Step{Settled: settled, Do: func(w *chaos.World) {
			w.T.Helper()
			w.Change(scenario.Name, func(set *v1beta1.StatefulSet) {
				for _, c := range changes {
					c(set)
				}
			})
		}}
	}
	observe := func(w *chaos.World) {
		watcher := limits.Watch(w.T, w.Client, w.Name, scenario.Name, limits.Rules{Foreign: w.Plan.Disturbs()})
		w.Foreign = watcher.Foreign
	}
	all := []chaos.Scenario{
		{Name: "scale", Steps: []chaos.Step{create(3), change(scenario.Replicas(5)), change(scenario.Replicas(2), scenario.Reserve("0"))}},
		{Name: "ordered", Steps: []chaos.Step{create(3, scenario.OrderedReady), change(scenario.Replicas(1))}},
		{Name: "in-place", Steps: []chaos.Step{create(3), change(scenario.Image(scenario.V2))}},
		{Name: "recreate-and-roll-back", Steps: []chaos.Step{
			create(3, scenario.Policy(shared.RecreatePods), scenario.MaxUnavailable("2")), change(scenario.Image(scenario.V2)), change(scenario.Image(scenario.V1)),
		}},
		{Name: "claims", Leftovers: []string{"persistentvolumeclaims"}, Steps: []chaos.Step{
			{Settled: settled, Do: func(w *chaos.World) {
				storageClass(w)
				create(2, scenario.Claims("chaos", "1Gi")).Do(w)
			}},
			change(scenario.Replicas(3)), change(scenario.Image(scenario.V2)),
		}},
		{Name: "paused", Steps: []chaos.Step{
			create(3),
			{Do: change(scenario.Image(scenario.V2), paused(true)).Do, Settled: observed},
			change(paused(false)),
		}},
		{Name: "hooks", Steps: []chaos.Step{
			create(2, hooks),
			{Do: change(scenario.Image(scenario.V2)).Do, Settled: letting(settled)},
			{Do: change(scenario.Replicas(1)).Do, Settled: letting(settled)},
		}},
	}
	for i := range all {
		all[i].Kind, all[i].Observe = "StatefulSet", observe
	}
	return all
}

func grace(set *v1beta1.StatefulSet) {
	set.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
}

func paused(is bool) scenario.Change {
	return func(set *v1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Paused = is }
}

// observed returns nil when the status has seen the spec.
func observed(ctx context.Context, w *chaos.World) error {
	set := &v1beta1.StatefulSet{}
	if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Name, Name: scenario.Name}, set); err != nil {
		return err
	}
	if set.Status.ObservedGeneration != set.Generation || set.Status.UpdateRevision == set.Status.CurrentRevision {
		return fmt.Errorf("the status is %+v", set.Status)
	}
	return nil
}

// hook is a finalizer of pods in service. The test keeps it, and lets a pod go on request
// at once.
const hook = "test.example.io/unready-blocker"

func lifecycle() *shared.Lifecycle {
	return &shared.Lifecycle{
		InPlaceUpdate: &shared.LifecycleHook{FinalizersHandler: []string{hook}},
		PreDelete:     &shared.LifecycleHook{FinalizersHandler: []string{hook}},
	}
}

func hooks(set *v1beta1.StatefulSet) {
	set.Spec.Lifecycle = lifecycle()
	set.Spec.Template.Finalizers = []string{hook}
}

// letting plays the hook's keeper: a waiting pod loses the finalizer, one in service gets
// it back.
func letting(settled func(context.Context, *chaos.World) error) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		pods, err := w.ListPods(ctx)
		if err != nil {
			return err
		}
		for i := range pods {
			pod := &pods[i]
			state := shared.LifecycleState(pod.Labels[shared.LabelLifecycleState])
			waits := state == shared.StatePreparingUpdate || state == shared.StatePreparingDelete
			has := len(pod.Finalizers) > 0
			before := pod.DeepCopy()
			switch {
			case waits && has:
				pod.Finalizers = nil
			case state == shared.StateUpdated && !has:
				pod.Finalizers = []string{hook}
			default:
				continue
			}
			if err := w.Client.Patch(ctx, pod, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		return settled(ctx, w)
	}
}

// claimsOf says how many claims there are.
func claimsOf(count int) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		all := &corev1.PersistentVolumeClaimList{}
		if err := w.Client.List(ctx, all, client.InNamespace(w.Name)); err != nil {
			return err
		}
		if len(all.Items) != count {
			return fmt.Errorf("there are %d claims, want %d", len(all.Items), count)
		}
		return nil
	}
}

// cloneSets are scenarios of a CloneSet of few pods.
func cloneSets() []chaos.Scenario {
	settled := func(ctx context.Context, w *chaos.World) error {
		set := &v1beta1.CloneSet{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Name, Name: scenario.Name}, set); err != nil {
			return err
		}
		s, want := set.Status, *set.Spec.Replicas
		if s.ObservedGeneration != set.Generation || s.Replicas != want || s.UpdatedAvailableReplicas != want || s.CurrentRevision != s.UpdateRevision {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	}
	type changes = func(*v1beta1.CloneSet)
	create := func(replicas int32, change ...changes) chaos.Step {
		return chaos.Step{Settled: settled, Do: func(w *chaos.World) {
			w.T.Helper()
			labels := map[string]string{"app": scenario.Name}
			set := &v1beta1.CloneSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: w.Name, Name: scenario.Name},
				Spec: v1beta1.CloneSetSpec{
					Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
						TerminationGracePeriodSeconds: ptr.To[int64](1),
						Containers:                    []corev1.Container{{Name: "main", Image: scenario.V1}},
					}},
					UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateCloneSetStrategy{
						PodUpdatePolicy: shared.InPlaceIfPossible, MaxUnavailable: ptr.To(intstr.FromInt32(1)),
					}},
				},
			}
			for _, c := range change {
				c(set)
			}
			if err := w.Client.Create(w.T.Context(), set); err != nil {
				w.T.Fatal(err)
			}
		}}
	}
	change := func(change ...changes) chaos.Step {
		return chaos.Step{Settled: settled, Do: func(w *chaos.World) {
			w.T.Helper()
			w.ChangeCloneSet(scenario.Name, func(set *v1beta1.CloneSet) {
				for _, c := range change {
					c(set)
				}
			})
		}}
	}
	image := func(image string) changes {
		return func(set *v1beta1.CloneSet) { set.Spec.Template.Spec.Containers[0].Image = image }
	}
	replicas := func(n int32) changes { return func(set *v1beta1.CloneSet) { set.Spec.Replicas = &n } }
	surge := func(set *v1beta1.CloneSet) {
		set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = shared.RecreatePods
		set.Spec.UpdateStrategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt32(1))
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt32(0))
	}
	pause := func(is bool) changes {
		return func(set *v1beta1.CloneSet) { set.Spec.UpdateStrategy.RollingUpdate.Paused = is }
	}
	observe := func(w *chaos.World) {
		watcher := limits.WatchCloneSetFlow(w.T, w.Client, w.Name, scenario.Name, limits.Rules{Foreign: w.Plan.Disturbs()})
		w.Foreign = watcher.Foreign
	}
	pausedNow := func(ctx context.Context, w *chaos.World) error {
		set := &v1beta1.CloneSet{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Name, Name: scenario.Name}, set); err != nil {
			return err
		}
		if set.Status.ObservedGeneration != set.Generation || set.Status.UpdateRevision == set.Status.CurrentRevision {
			return fmt.Errorf("the status is %+v", set.Status)
		}
		return nil
	}
	withHooks := func(set *v1beta1.CloneSet) {
		set.Spec.Lifecycle = lifecycle()
		set.Spec.Template.Finalizers = []string{hook}
	}
	all := []chaos.Scenario{
		{Name: "scale", Steps: []chaos.Step{create(3), change(replicas(5)), change(replicas(2))}},
		{Name: "claims", Leftovers: []string{"persistentvolumeclaims"}, Steps: []chaos.Step{
			{Settled: settled, Do: func(w *chaos.World) {
				storageClass(w)
				create(2, scenario.CloneClaims("chaos", "1Gi")).Do(w)
			}},
			change(replicas(3)), change(image(scenario.V2)), {Do: change(replicas(1)).Do, Settled: both(settled, claimsOf(1))},
		}},
		{Name: "in-place", Steps: []chaos.Step{create(3), change(image(scenario.V2))}},
		{Name: "surge-and-roll-back", Steps: []chaos.Step{create(3, surge), change(image(scenario.V2)), change(image(scenario.V1))}},
		{Name: "paused", Steps: []chaos.Step{
			create(3), {Do: change(image(scenario.V2), pause(true)).Do, Settled: pausedNow}, change(pause(false)),
		}},
		{Name: "hooks", Steps: []chaos.Step{
			create(2, withHooks),
			{Do: change(image(scenario.V2)).Do, Settled: letting(settled)},
			{Do: change(replicas(1)).Do, Settled: letting(settled)},
		}},
	}
	for i := range all {
		all[i].Kind, all[i].Observe, all[i].RandomNames = "CloneSet", observe, true
	}
	return all
}
