// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	rolloutsv1beta1 "github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

// rolledOut is a workload with its Rollout.
const rolledOut = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: shop}
spec:
  workloadRef: {apiVersion: VERSION, kind: KIND, name: shop}
  strategy: {canary: {SHAREDsteps: [{replicas: 1}, {replicas: "100%"}]}}
---
apiVersion: VERSION
kind: KIND
metadata: {name: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "` + scenario.V1 + `"}]
`

// rolled is a workload in scenarios.
type rolled struct {
	kind schema.GroupVersionKind
	// allowed is how many pods may have the second version.
	allowed atomic.Int32
}

func (r *rolled) object(w *chaos.World) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(r.kind)
	o.SetNamespace(w.Name)
	o.SetName("shop")
	return o
}

// labeled: the workload is under the brake.
func (r *rolled) labeled(ctx context.Context, w *chaos.World) error {
	o := r.object(w)
	if err := w.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil || len(o.GetLabels()) == 0 {
		return fmt.Errorf("it has no label: %w", err)
	}
	return nil
}

// image is a change of the template, held as by the brake: the API server does not call operators of lanes.
func (r *rolled) image(version string, allowed int32, settled func(context.Context, *chaos.World) error) chaos.Step {
	return chaos.Step{Settled: settled, Do: func(w *chaos.World) {
		w.T.Helper()
		r.allowed.Store(allowed)
		held := `"paused":true`
		if r.kind.Kind != "Deployment" {
			held = `"updateStrategy":{"rollingUpdate":{"partition":"100%"}}`
		}
		patch := `{"metadata":{"annotations":{"rollouts.kruise.io/in-progressing":"{}"}},"spec":{` + held +
			`,"template":{"spec":{"containers":[{"name":"main","image":"` + version + `"}]}}}}`
		if err := w.Client.Patch(w.T.Context(), r.object(w), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			w.T.Fatal(err)
		}
	}}
}

// approve lets the second step begin.
func (r *rolled) approve(settled func(context.Context, *chaos.World) error) chaos.Step {
	return chaos.Step{Settled: settled, Do: func(w *chaos.World) {
		w.T.Helper()
		r.allowed.Store(3)
		rollout := &rolloutsv1beta1.Rollout{}
		rollout.Namespace, rollout.Name = w.Name, "shop"
		approved := client.RawPatch(types.MergePatchType, []byte(`{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`))
		if err := w.Client.Status().Patch(w.T.Context(), rollout, approved); err != nil {
			w.T.Fatal(err)
		}
	}}
}

// remove deletes the Rollout: the workload goes on.
func (r *rolled) remove(settled func(context.Context, *chaos.World) error) chaos.Step {
	return chaos.Step{
		Do: func(w *chaos.World) {
			w.T.Helper()
			r.allowed.Store(3)
			rollout := &rolloutsv1beta1.Rollout{}
			rollout.Namespace, rollout.Name = w.Name, "shop"
			if err := w.Client.Delete(w.T.Context(), rollout); err != nil {
				w.T.Fatal(err)
			}
		},
		Settled: both(settled, func(ctx context.Context, w *chaos.World) error {
			if _, err := read(ctx, w, "Rollout", "shop"); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the Rollout is there: %w", err)
			}
			o := r.object(w)
			if err := w.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil || len(o.GetLabels()) > 0 {
				return fmt.Errorf("its labels are %v: %w", o.GetLabels(), err)
			}
			return nil
		}),
	}
}

// has: so many pods have the second version, and all are ready.
func has(count int) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		all, err := w.ListPods(ctx)
		if err != nil {
			return err
		}
		second, ready := 0, 0
		for i := range all {
			if all[i].Spec.Containers[0].Image == scenario.V2 {
				second++
			}
			if environment.IsReady(&all[i]) {
				ready++
			}
		}
		if second != count || ready != 3 || len(all) != 3 {
			return fmt.Errorf("of %d pods %d have the second version, and %d are ready", len(all), second, ready)
		}
		return nil
	}
}

// is: the Rollout is so.
func is(what func(s *rolloutsv1beta1.RolloutStatus, succeeded string) bool) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		stored, err := read(ctx, w, "Rollout", "shop")
		if err != nil {
			return err
		}
		rollout := &rolloutsv1beta1.Rollout{}
		if err := quantity.FromUnstructured(stored.Object, rollout); err != nil {
			return err
		}
		succeeded := ""
		for _, c := range rollout.Status.Conditions {
			if c.Type == rolloutsv1beta1.RolloutConditionSucceeded {
				succeeded = string(c.Status)
			}
		}
		if !what(&rollout.Status, succeeded) {
			return fmt.Errorf("the status is %+v", rollout.Status)
		}
		return nil
	}
}

// ends: a release is over, and the next one will be caught. Operators of other lanes take the policy away while they have no Rollout.
func ends(succeeded string) func(context.Context, *chaos.World) error {
	return is(func(s *rolloutsv1beta1.RolloutStatus, how string) bool {
		guarded := slices.ContainsFunc(s.Conditions, func(c rolloutsv1beta1.RolloutCondition) bool {
			return c.Type == rolloutsv1beta1.RolloutConditionGuarded && c.Status == metav1.ConditionTrue
		})
		return s.Phase == rolloutsv1beta1.RolloutPhaseHealthy && how == succeeded && guarded
	})
}

// rollouts are scenarios of a Rollout.
func rollouts() []chaos.Scenario {
	var all []chaos.Scenario
	for _, kind := range []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("Deployment"), v1beta1.GroupVersion().WithKind("CloneSet")} {
		waits := is(func(s *rolloutsv1beta1.RolloutStatus, _ string) bool {
			return s.Phase == rolloutsv1beta1.RolloutPhaseProgressing && s.CurrentStepState == rolloutsv1beta1.CanaryStepStatePaused
		})
		for _, name := range []string{"approved", "set-back", "deleted"} {
			r := &rolled{kind: kind}
			version, of := kind.ToAPIVersionAndKind()
			steps := []chaos.Step{
				apply(rolledOut, both(both(has(0), r.labeled), is(func(s *rolloutsv1beta1.RolloutStatus, _ string) bool {
					return s.CurrentStepState == rolloutsv1beta1.CanaryStepStateCompleted
				})), "VERSION", version, "KIND", of, "SHARED", ""),
				r.image(scenario.V2, 1, both(has(1), waits)),
			}
			switch name {
			case "approved":
				steps = append(steps, r.approve(both(has(3), ends("True"))))
			case "set-back":
				steps = append(steps, r.image(scenario.V1, 1, both(has(0), ends("False"))))
			case "deleted":
				steps = append(steps, r.remove(has(3)))
			}
			all = append(all, chaos.Scenario{
				Kind: "Rollout", Name: strings.ToLower(of) + "-" + name, Kinds: []string{"Rollout", "BatchRelease", "CloneSet"}, Steps: steps, RandomNames: true,
				Made:    []string{"rollouts.rollouts.kruise.io", "deployments.apps", "clonesets.apps.kruise.io"},
				Observe: r.within, Trailing: 11 * time.Second, // the brake is proven again ten seconds after the start
			})
		}
	}
	return all
}

// within judges that no more pods get the second version than the step allows.
func (r *rolled) within(w *chaos.World) {
	r.allowed.Store(0)
	second := map[types.UID]bool{}
	chaos.Follow(w, &corev1.PodList{}, func(object client.Object, deleted bool) error {
		pod, is := object.(*corev1.Pod)
		if !is || pod.Spec.Containers[0].Image != scenario.V2 {
			return nil
		}
		if second[pod.UID] = true; deleted || pod.DeletionTimestamp != nil {
			delete(second, pod.UID)
		}
		if allowed := r.allowed.Load(); len(second) > int(allowed) {
			return fmt.Errorf("%d pods have the second version, allowed are %d", len(second), allowed)
		}
		return nil
	})
}
