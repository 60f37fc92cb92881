// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// withoutOperator is what a user does while the operator is dead.
type withoutOperator struct {
	name, kind string
	// edits are of the workload.
	edits []string
	// before leads to where it dies; nil: at rest.
	before func(*rolled)
	// dead ends with what Kubernetes made of it, back with what the Rollout says when the operator is there again.
	dead, back func(*rolled)
}

// unready gives new pods an annotation by which they never become ready, together with the image.
func (r *rolled) unready(version string) {
	r.t.Helper()
	r.patch(r.kind, "", `[{"op":"add","path":"/spec/template/metadata/annotations","value":{"`+simnode.NotReady+`":"true"}},
		{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example/shop:`+version+`"}]`)
}

// newPods are how many living pods v2 has.
func (r *rolled) newPods(ctx context.Context) (int, error) {
	pods, err := r.ListPods(ctx, "app=shop")
	all, _ := of(pods, "v2")
	return all, err
}

// reachesPods waits until so many pods have v2, and stay the only ones.
func (r *rolled) reachesPods(want int) {
	r.t.Helper()
	exactly := func(ctx context.Context) error {
		if all, err := r.newPods(ctx); err != nil || all != want {
			return fmt.Errorf("%d pods have v2: %w", all, err)
		}
		return nil
	}
	r.Eventually(fmt.Sprintf("%d pods have v2", want), exactly)
	r.Consistently(time.Second, "no other pod gets v2", exactly)
}

// mended makes unready pods ready until all have v2.
func (r *rolled) mended() {
	r.t.Helper()
	r.EventuallyWithin(2*time.Minute, "all pods are mended", func(ctx context.Context) error {
		pods, err := r.mend(ctx)
		if err != nil {
			return err
		}
		if all, ready := of(pods, "v2"); ready != 6 || len(pods) != 6 {
			return fmt.Errorf("%d pods have v2, %d of them are ready, of %d", all, ready, len(pods))
		}
		return nil
	})
}

// mend makes the unready pods that there are ready.
func (r *rolled) mend(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := r.ListPods(ctx, "app=shop")
	for i := range pods {
		if _, unready := pods[i].Annotations[simnode.NotReady]; unready && pods[i].DeletionTimestamp == nil {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+simnode.NotReady+`":null}}}`))
			err = errors.Join(err, client.IgnoreNotFound(r.Client.Patch(ctx, &pods[i], patch)))
		}
	}
	return pods, err
}

// isFree checks that a Deployment rolls by the numbers of its user.
func (r *rolled) isFree(ctx context.Context) error {
	w, err := r.stored(ctx, r.kind)
	if err != nil {
		return err
	}
	paused, _, _ := unstructured.NestedBool(w.Object, "spec", "paused")
	if seconds, _, _ := unstructured.NestedInt64(w.Object, "spec", "minReadySeconds"); paused || seconds == rolling.MinReadySeconds {
		return fmt.Errorf("paused %t, minReadySeconds %d", paused, seconds)
	}
	return nil
}

// unlabel is where each edit without the operator begins.
func (r *rolled) unlabel() {
	r.t.Helper()
	r.kubectl("label", strings.ToLower(r.kind.Kind), "shop", typeLabel+"-")
}

func (r *rolled) resume() {
	r.t.Helper()
	r.unlabel()
	r.kubectl("rollout", "resume", "deployment/shop")
}

// merge is a patch by kubectl.
func (r *rolled) merge(patch string) {
	r.t.Helper()
	r.kubectl("patch", strings.ToLower(r.kind.Kind), "shop", "--type=merge", "-p", patch)
}

// first waits at step 1.
func first(r *rolled) {
	r.image("v2")
	r.waits(1)
	r.has("v2", 1, 6)
	if r.kind.Kind == "Deployment" {
		r.parked()
	}
}

// broken is a batch whose pod does not become ready.
func broken(r *rolled) {
	r.unready("v2")
	r.reachesPods(1)
}

func tookOver(r *rolled) {
	r.takenOver()
	r.labeled()
	r.clean()
}

// late checks that a change is caught late: no other pod gets v2, and the step waits for those that have it.
func late(step int32, pods int) func(*rolled) {
	return func(r *rolled) {
		r.labeled()
		r.until("it goes on by steps", func(o *v1beta1.Rollout) bool {
			return o.Status.Phase == v1beta1.RolloutPhaseProgressing && o.Status.CurrentStepIndex == step && o.Status.CurrentStepState == v1beta1.CanaryStepStateUpgrade
		})
		r.reachesPods(pods)
		if len(r.lateEvents(r.t.Context())) != 1 {
			r.t.Errorf("the events are %v", r.lateEvents(r.t.Context()))
		}
	}
}

// rowsWithoutOperator are those of docs/kinds/rollout.md, and changes that went through.
func rowsWithoutOperator() []withoutOperator {
	return []withoutOperator{
		{name: "a held change is resumed", kind: "Deployment", dead: func(r *rolled) {
			r.image("v2")
			r.reachesPods(0)
			r.resume()
			r.has("v2", 6, 6)
		}, back: tookOver},
		{name: "a held StatefulSet", kind: "StatefulSet", dead: func(r *rolled) {
			r.image("v2")
			r.reachesPods(0)
			r.unlabel()
			r.merge(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
			r.has("v2", 6, 6)
		}, back: tookOver},
		{name: "a waiting Deployment is resumed", kind: "Deployment", before: first, dead: func(r *rolled) {
			r.reachesPods(1)
			r.resume()
			r.has("v2", 6, 6)
		}, back: tookOver},
		{name: "a moving Deployment gets its numbers", kind: "Deployment", edits: []string{
			"replicas: 6", "replicas: 6\n  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}",
		}, before: func(r *rolled) {
			broken(r)
			if seconds, _, _ := unstructured.NestedInt64(r.workload().Object, "spec", "minReadySeconds"); seconds != rolling.MinReadySeconds {
				r.t.Errorf("minReadySeconds is %d: it does not move", seconds)
			}
		}, dead: func(r *rolled) {
			r.reachesPods(1)
			r.unlabel()
			r.merge(`{"spec":{"paused":false,"minReadySeconds":0,"progressDeadlineSeconds":600,"strategy":{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0}}}}`)
			r.mended()
		}, back: tookOver},
		{name: "a Deployment in its last step", kind: "Deployment", before: func(r *rolled) {
			r.steps(`[{"replicas":1},{"replicas":"100%"}]`)
			broken(r)
			r.Eventually("its first pod is mended", func(ctx context.Context) error {
				_, err := r.mend(ctx)
				return err
			})
			r.waits(1)
			r.approve()
			r.Eventually("Kubernetes has it", r.isFree)
		}, dead: (*rolled).mended, back: func(r *rolled) {
			r.ends("True")
			r.clean()
		}},
		{name: "a canary Deployment is deleted", kind: "Deployment", before: func(r *rolled) {
			r.patch(v1beta1.GroupVersion().WithKind("Rollout"), "", `[{"op":"add","path":"/spec/strategy/canary/enableExtraWorkloadForCanary","value":true}]`)
			r.image("v2")
			r.waits(1)
			r.has("v2", 1, 7)
		}, dead: func(r *rolled) {
			r.resume()
			r.kubectl("delete", "deployment", "-l", shared.LabelCanary+"=shop")
			r.has("v2", 6, 6)
		}, back: tookOver},
		{name: "the template is set back", kind: "Deployment", before: first, dead: func(r *rolled) {
			r.image("v1")
			r.reachesPods(1)
			r.resume()
			r.has("v1", 6, 6)
		}, back: tookOver},
		{name: "a release that was canceled", kind: "Deployment", before: func(r *rolled) {
			first(r)
			r.image("v1")
			r.until("it is canceled", func(o *v1beta1.Rollout) bool {
				return condition(o, v1beta1.RolloutConditionProgressing).Reason != v1beta1.ReasonInRolling
			})
			r.Eventually("Kubernetes has it", r.isFree)
		}, dead: func(r *rolled) { r.has("v1", 6, 6) }, back: func(r *rolled) {
			r.ends("False")
			r.clean()
		}},
		{name: "a StatefulSet without partition", kind: "StatefulSet", before: first, dead: func(r *rolled) {
			r.reachesPods(1)
			r.unlabel()
			r.merge(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
			r.has("v2", 6, 6)
		}, back: tookOver},
		{name: "a DaemonSet with RollingUpdate", kind: "DaemonSet", before: first, dead: func(r *rolled) {
			r.reachesPods(1)
			r.unlabel()
			r.merge(`{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}`)
			r.has("v2", 6, 6)
		}, back: tookOver},
		{name: "a Deployment that waits goes on with the operator", kind: "Deployment", before: first, dead: func(r *rolled) { r.reachesPods(1) }, back: func(r *rolled) {
			r.approve()
			r.ends("True")
			r.has("v2", 6, 6)
			r.clean()
		}},
		{name: "a Deployment changes without its label", kind: "Deployment", dead: func(r *rolled) {
			r.unlabel()
			r.unready("v2")
			r.reachesPods(3) // by its surge of two, and one that may be unavailable
		}, back: func(r *rolled) {
			late(2, 3)(r)
			r.mended()
			r.ends("True")
			r.clean()
		}},
		{name: "a StatefulSet changes without its label", kind: "StatefulSet", dead: func(r *rolled) {
			r.unlabel()
			r.unready("v2")
			r.reachesPods(1)
		}, back: late(1, 1)},
		{name: "a DaemonSet changes without its label", kind: "DaemonSet", dead: func(r *rolled) {
			r.unlabel()
			r.unready("v2")
			r.reachesPods(1)
		}, back: late(1, 1)},
	}
}

// While the operator is dead, Kubernetes holds each change of a guarded workload, and finishes what a person lets go. The operator says so later.
func TestRolloutsWithoutTheOperator(t *testing.T) {
	t.Parallel()
	e, err := environment.Start(t.Context(), environment.Options{Nodes: &simnode.Options{Nodes: 6}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	rows := rowsWithoutOperator()
	var all []*rolled
	for _, row := range rows {
		apiVersion := "apps/v1"
		all = append(all, unrolled(t, e, apiVersion, row.kind, environment.Edited(shopOf(apiVersion, row.kind), row.edits...)))
	}
	each := func(when string, do func(withoutOperator) func(*rolled)) {
		t.Run(when, func(t *testing.T) {
			for i, row := range rows {
				t.Run(row.name, func(t *testing.T) {
					t.Parallel()
					if act := do(row); act != nil {
						act(all[i].during(t))
					}
				})
			}
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	each("at rest", func(withoutOperator) func(*rolled) { return (*rolled).starts })
	for i := range all {
		all[i].own = all[i].during(t).spec()
	}
	each("before", func(row withoutOperator) func(*rolled) { return row.before })
	if err := e.Operator.Stop(); err != nil {
		t.Fatal(err)
	}
	each("dead", func(row withoutOperator) func(*rolled) { return row.dead })
	if err := e.Operator.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	each("back", func(row withoutOperator) func(*rolled) { return row.back })
	if err := e.Operator.Stop(); err != nil {
		t.Fatal(err)
	}
	e.Operator.SetArgs("--kinds=CloneSet")
	if err := e.Operator.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	each("without the kind", func(row withoutOperator) func(*rolled) {
		if row.kind == "DaemonSet" {
			return nil
		}
		return (*rolled).isUnbraked
	})
	shop := all[0].during(t)
	shop.Apply(environment.Edited(rolloutOfShop, "metadata: {name: shop}", "metadata: {name: other}")) // nobody refuses it now
	if err := e.Operator.Stop(); err != nil {
		t.Fatal(err)
	}
	mayNotRegister(t, e)
	e.Operator.SetArgs()
	if err := e.Operator.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, reason := range map[string]string{"shop": v1beta1.ReasonNotRegistered, "other": v1beta1.ReasonOtherRollout} {
		shop.Eventually(name+" says "+reason, func(ctx context.Context) error {
			o := &v1beta1.Rollout{}
			if err := e.Client.Get(ctx, client.ObjectKey{Namespace: shop.Name, Name: name}, o); err != nil {
				return err
			}
			if c := condition(o, v1beta1.RolloutConditionGuarded); c.Status != "False" || c.Reason != reason {
				return fmt.Errorf("it says %+v", c)
			}
			return nil
		})
	}
}

// mayNotRegister takes the right to tell the API server of hooks from the operator.
func mayNotRegister(t *testing.T, e *environment.Environment) {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := e.Client.Get(t.Context(), client.ObjectKey{Name: "kruise-operator-manager"}, role); err != nil {
		t.Fatal(err)
	}
	for i := range role.Rules {
		if slices.Contains(role.Rules[i].APIGroups, admissionv1.GroupName) {
			role.Rules[i].Verbs = []string{"get", "list", "watch"}
		}
	}
	if err := e.Client.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
}

// isUnbraked checks that a workload at rest is not held once the kind is off, although it has its label.
func (r *rolled) isUnbraked() {
	r.t.Helper()
	if _, held := r.workload().GetAnnotations()["rollouts.kruise.io/in-progressing"]; held {
		return
	}
	r.Eventually("the brake is gone", func(ctx context.Context) error {
		brake := &admissionv1.MutatingAdmissionPolicy{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: "kruise-operator-release-brake"}, brake); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	r.Eventually("a change is not held", func(ctx context.Context) error { // an API server may learn a moment later
		w, err := r.stored(ctx, r.kind)
		if err != nil {
			return err
		}
		change := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"metadata":{"annotations":{"try":"dry-run"}}}}}`))
		err = r.Client.Patch(ctx, w, change, client.DryRunAll)
		if _, held := w.GetAnnotations()["rollouts.kruise.io/in-progressing"]; err != nil || held {
			return fmt.Errorf("it is held: %w", err)
		}
		return nil
	})
	r.patch(r.kind, "", `[{"op":"add","path":"/spec/template/metadata/annotations","value":{}},
		{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example/shop:v5"}]`)
	r.has("v5", 6, 6)
}

// during is the same for a part of the test.
func (r *rolled) during(t *testing.T) *rolled {
	t.Helper()
	part := *r
	part.t, part.Namespace = t, r.For(t)
	return &part
}
