// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsshared "github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// threeApprovals are steps of which each but the last waits for somebody.
const threeApprovals = `[{"replicas":1},{"replicas":"50%"},{"replicas":"100%"}]`

// configure changes the spec of the Rollout.
func (r *rolled) configure(path, value string) {
	r.t.Helper()
	r.patch(v1beta1.GroupVersion().WithKind("Rollout"), "", `[{"op":"add","path":"/spec/`+path+`","value":`+value+`}]`)
}

func (r *rolled) steps(all string) {
	r.t.Helper()
	r.configure("strategy/canary/steps", all)
}

// jump is what a person does who wants another step.
func (r *rolled) jump(step int) {
	r.t.Helper()
	r.patch(v1beta1.GroupVersion().WithKind("Rollout"), "status", fmt.Sprintf(`[{"op":"replace","path":"/status/%s/nextStepIndex","value":%d}]`, r.status, step))
}

// pauses sets strategy.paused, and waits until that is seen.
func (r *rolled) pauses() {
	r.t.Helper()
	r.configure("strategy/paused", "true")
	r.until("it is paused", func(o *v1beta1.Rollout) bool {
		return condition(o, v1beta1.RolloutConditionProgressing).Reason == v1beta1.ReasonPaused
	})
}

// stays checks that a step gets no more pods of v2.
func (r *rolled) stays(step int32, pods int) {
	r.t.Helper()
	r.Consistently(2*time.Second, "nothing moves", func(ctx context.Context) error {
		o, err := r.rollout(ctx)
		if err != nil {
			return err
		}
		all, err := r.ListPods(ctx, "app=shop")
		if err != nil {
			return err
		}
		if n, _ := of(all, "v2"); n != pods || o.Status.CurrentStepIndex != step {
			return fmt.Errorf("%d pods have v2, in step %d", n, o.Status.CurrentStepIndex)
		}
		return nil
	})
}

// reaches approves, and waits until step 2 waits.
func (r *rolled) reaches2() {
	r.t.Helper()
	r.approve()
	r.waits(2)
	r.has("v2", 3, 6)
}

// gone waits until an object is.
func (r *rolled) gone(object client.Object) {
	r.t.Helper()
	r.Eventually("it is gone", func(ctx context.Context) error {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
}

// forgotten checks that the workload has nothing of a Rollout.
func (r *rolled) forgotten() {
	r.t.Helper()
	r.clean()
	for key := range r.workload().GetAnnotations() {
		if strings.Contains(key, "rollouts.kruise.io") {
			r.t.Errorf("the annotation %s is left", key)
		}
	}
	if _, found := r.workload().GetLabels()["rollouts.kruise.io/workload-type"]; found {
		r.t.Error("the label is left")
	}
}

// Whatever a user does while step 1 waits, the release ends with all pods of v2.
func TestARolloutIsSteered(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(*rolled){
		"paused between steps": func(r *rolled) {
			r.pauses()
			r.approve()
			r.stays(1, 1)
			r.configure("strategy/paused", "false")
			r.waits(2)
			r.has("v2", 3, 6)
			r.approve()
		},
		"paused in a batch": func(r *rolled) {
			r.approve()
			r.Eventually("the batch has begun", func(ctx context.Context) error {
				pods, err := r.ListPods(ctx, "app=shop")
				if all, _ := of(pods, "v2"); err != nil || all < 2 {
					return fmt.Errorf("%d pods have v2: %w", all, err)
				}
				return nil
			})
			r.pauses()
			r.has("v2", 3, 6) // what is being replaced goes on
			r.stays(2, 3)
			r.configure("strategy/paused", "false")
			r.waits(2)
			r.approve()
		},
		"back and forward": func(r *rolled) {
			r.reaches2()
			r.jump(1)
			r.waits(1)
			r.stays(1, 3)
			r.jump(3)
		},
		"another plan": func(r *rolled) {
			r.steps(`[{"replicas":1},{"replicas":4},{"replicas":"100%"}]`)
			r.stays(1, 1)
			r.approve()
			r.waits(2)
			r.has("v2", 4, 6)
			r.steps(`[{"replicas":1},{"replicas":5},{"replicas":"100%"}]`)
			r.has("v2", 5, 6)
			r.waits(2)
			r.steps(`[{"replicas":1},{"replicas":5,"pause":{"duration":1}},{"replicas":"100%"}]`)
		},
		"a change of mind": func(r *rolled) {
			r.image("v1")
			r.until("the release is canceled", func(o *v1beta1.Rollout) bool {
				return condition(o, v1beta1.RolloutConditionProgressing).Reason != v1beta1.ReasonInRolling
			})
			r.image("v2")
			r.waits(1)
			r.has("v2", 1, 6)
			r.jump(3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slow := environment.Edited(deployed, "    metadata: {labels: {app: shop}}", "    metadata: {labels: {app: shop}, annotations: {"+simnode.ReadyDelay+": 500ms}}")
			r := newRolled(t, "apps/v1", "Deployment", slow)
			r.steps(threeApprovals)
			r.image("v2")
			r.waits(1)
			r.has("v2", 1, 6)
			act(r)
			r.ends("True")
			r.has("v2", 6, 6)
			r.clean()
		})
	}
}

// A third version begins at step 1. Pods of the second go before those of the first.
func TestARolloutOfAThirdVersion(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRolled(t, "apps/v1", kind, shopOf("apps/v1", kind))
			r.steps(threeApprovals)
			r.image("v2")
			r.waits(1)
			r.reaches2()
			r.image("v3")
			r.until("step 1 begins", func(o *v1beta1.Rollout) bool { return o.Status.CurrentStepIndex == 1 })
			r.waits(1)
			r.has("v3", 1, 6)
			r.has("v2", 2, 6)
			r.approve()
			r.waits(2)
			r.has("v3", 3, 6)
			r.has("v1", 3, 6)
			// The version before the release is still v1: it cancels.
			r.image("v1")
			r.ends("False")
			r.has("v1", 6, 6)
			r.clean()
		})
	}
}

// While the operator does nothing for a Rollout, conditions say so, and no longer.
func TestTheOperatorPausesForARollout(t *testing.T) {
	t.Parallel()
	r := newRolled(t, "apps/v1", "Deployment", deployed)
	kind := v1beta1.GroupVersion().WithKind("Rollout")
	r.patch(kind, "", `[{"op":"add","path":"/metadata/annotations","value":{"`+appsshared.AnnotationPaused+`":"true"}}]`)
	r.until("it says so", func(o *v1beta1.Rollout) bool {
		return condition(o, v1beta1.RolloutConditionStalled).Reason == "ReconciliationPaused" && condition(o, "Reconciling").Status == "False"
	})
	r.patch(kind, "", `[{"op":"remove","path":"/metadata/annotations"}]`)
	r.until("it goes on", func(o *v1beta1.Rollout) bool {
		return condition(o, v1beta1.RolloutConditionStalled).Status != "True" && condition(o, "Reconciling").Status == ""
	})
}

// A version whose pods do not become ready gives way to the next one, which begins at step 1. Pods from before stay.
func TestARolloutAfterABrokenVersion(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRolled(t, "apps/v1", kind, shopOf("apps/v1", kind))
			r.steps(threeApprovals)
			r.unready("v2")
			r.reachesPods(1)
			r.patch(r.kind, "", `[{"op":"remove","path":"/spec/template/metadata/annotations"},
				{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example/shop:v3"}]`)
			r.waits(1)
			r.has("v3", 1, 6)
			r.has("v1", 5, 6)
			r.approve()
			r.waits(2)
			r.has("v3", 3, 6)
			r.approve()
			r.ends("True")
			r.has("v3", 6, 6)
			r.clean()
		})
	}
}

// Numbers that a user writes into a Deployment in a release hold after it.
func TestNumbersThatAreWrittenInARelease(t *testing.T) {
	t.Parallel()
	r := newRolled(t, "apps/v1", "Deployment", deployed)
	r.image("v2")
	r.waits(1)
	r.parked()
	before := r.spec()
	r.merge(`{"spec":{"minReadySeconds":1,"progressDeadlineSeconds":300,"strategy":{"rollingUpdate":{"maxSurge":1,"maxUnavailable":"50%"}}}}`)
	if diff := cmp.Diff(before, r.spec()); diff != "" {
		t.Errorf("those of the release are others: %s", diff)
	}
	r.approve()
	r.ends("True")
	r.has("v2", 6, 6)
	r.own["minReadySeconds"], r.own["progressDeadlineSeconds"] = int64(1), int64(300)
	r.own["strategy"] = map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": int64(1), "maxUnavailable": "50%"}}
	r.clean()
}

// A paused release is canceled by the template from before, too.
func TestAPausedRolloutGoesBack(t *testing.T) {
	t.Parallel()
	r := newRolled(t, "apps/v1", "Deployment", deployed)
	r.image("v2")
	r.waits(1)
	r.pauses()
	r.image("v1")
	r.ends("False")
	r.has("v1", 6, 6)
	r.clean()
}

// The step moves with the size, whoever changes that.
func TestARolloutIsScaled(t *testing.T) {
	t.Parallel()
	r := newRolled(t, "apps/v1", "Deployment", deployed)
	r.steps(threeApprovals)
	r.image("v2")
	r.waits(1)
	r.reaches2()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.Name, Name: "shop"}}
	// While it still has the surge of a batch, its controller shares the new pods in other proportions.
	r.Eventually("the Deployment is paused", func(ctx context.Context) error {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil || !d.Spec.Paused {
			return errors.Join(err, errors.New("it is not"))
		}
		return nil
	})
	size := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 8}}
	if err := r.Client.SubResource("scale").Update(t.Context(), d, client.WithSubResourceBody(size)); err != nil {
		t.Fatal(err)
	}
	r.has("v2", 4, 8)
	r.waits(2)
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: r.Name, Name: "shop"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "shop"}, MaxReplicas: 4,
	}}
	if err := r.Client.Create(t.Context(), scaler); err != nil {
		t.Fatal(err)
	}
	r.has("v2", 2, 4)
	r.waits(2)
	r.approve()
	r.ends("True")
	r.has("v2", 4, 4)
	r.clean()
}

// A disabled Rollout lets the workload go on to the new version, and leaves nothing. Enabled again, it catches the next one.
func TestADisabledRolloutLetsGo(t *testing.T) {
	t.Parallel()
	r := newRolled(t, "apps/v1", "Deployment", deployed)
	r.image("v2")
	r.waits(1)
	r.configure("disabled", "true")
	r.until("it is disabled", func(o *v1beta1.Rollout) bool { return o.Status.Phase == v1beta1.RolloutPhaseDisabled })
	r.has("v2", 6, 6)
	r.Eventually("the label is gone", func(ctx context.Context) error {
		w, err := r.stored(ctx, r.kind)
		if err != nil || len(w.GetLabels()) > 0 {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	r.forgotten()
	r.image("v3")
	r.has("v3", 6, 6)
	r.configure("disabled", "false")
	r.isGuarded()
	r.until("it is at rest", func(o *v1beta1.Rollout) bool {
		return o.Status.Phase == v1beta1.RolloutPhaseHealthy && o.Status.CurrentStepState == v1beta1.CanaryStepStateCompleted
	})
	if late := r.lateEvents(t.Context()); len(late) > 0 {
		t.Errorf("a change that was over is held: %v", late)
	}
	r.image("v4")
	r.waits(1)
	r.has("v4", 1, 6)
}

// A workload that is deleted in a release, and made again, is guarded again.
func TestTheWorkloadOfARolloutIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := newRolled(t, "apps/v1", "Deployment", deployed)
	r.image("v2")
	r.waits(1)
	w := r.workload()
	if err := r.Client.Delete(t.Context(), w, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	r.gone(w)
	r.until("it waits for its workload", func(o *v1beta1.Rollout) bool {
		return o.Status.Phase == v1beta1.RolloutPhaseInitial && condition(o, v1beta1.RolloutConditionGuarded).Reason == v1beta1.ReasonWorkloadNotFound
	})
	release := &unstructured.Unstructured{}
	release.SetGroupVersionKind(v1beta1.GroupVersion().WithKind("BatchRelease"))
	release.SetNamespace(r.Name)
	release.SetName("shop")
	r.gone(release)
	r.Apply(deployed)
	r.has("v1", 6, 6)
	r.isGuarded()
	r.image("v2")
	r.waits(1)
	r.approve()
	r.ends("True")
	r.has("v2", 6, 6)
	r.clean()
}
