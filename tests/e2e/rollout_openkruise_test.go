// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsshared "github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// leftRollout and leftRelease are those of OpenKruise in the middle of a blue-green release. This operator leaves them alone at first.
const (
	leftRollout = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: shop, annotations: {` + appsshared.AnnotationPaused + `: "true"}}
spec:
  workloadRef: {apiVersion: VERSION, kind: KIND, name: shop}
  strategy: {blueGreen: {steps: [{replicas: "100%"}, {replicas: "100%"}]}}
`
	leftRelease = `
apiVersion: rollouts.kruise.io/v1beta1
kind: BatchRelease
metadata:
  name: shop
  annotations: {` + appsshared.AnnotationPaused + `: "true"}
  finalizers: [rollouts.kruise.io/batch-release-finalizer]
  ownerReferences: [{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, name: shop, uid: OWNER, controller: true, blockOwnerDeletion: true}]
spec:
  workloadRef: {apiVersion: VERSION, kind: KIND, name: shop}
  releasePlan: {batches: [{canaryReplicas: "100%"}, {canaryReplicas: "100%"}], batchPartition: 0, rollingStyle: BlueGreen}
`
	leftNumbers = `{"maxUnavailable":1,"maxSurge":"50%","minReadySeconds":1,"progressDeadlineSeconds":600}`
)

// leave has a workload with pods of both versions, as OpenKruise leaves it in the first step, and says how that names the new one.
func (r *rolled) leave(manifest string) (updated string) {
	r.t.Helper()
	replaced := strings.NewReplacer("VERSION", r.kind.GroupVersion().String(), "KIND", r.kind.Kind)
	r.Apply(replaced.Replace(leftRollout)) // before its workload, so that this one stays without label
	r.Apply(manifest)
	r.has("v1", 6, 6)
	r.own = r.spec()
	if r.kind.Kind == "Deployment" {
		r.surges()
	} else {
		r.twins()
	}
	r.has("v2", 6, 12)
	rollout, err := r.stored(r.t.Context(), v1beta1.GroupVersion().WithKind("Rollout"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.Apply(strings.ReplaceAll(replaced.Replace(leftRelease), "OWNER", string(rollout.GetUID())))
	release, err := r.stored(r.t.Context(), v1beta1.GroupVersion().WithKind("BatchRelease"))
	if err != nil {
		r.t.Fatal(err)
	}
	control := fmt.Sprintf(`{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"BatchRelease","name":"shop","uid":"%s","controller":true,"blockOwnerDeletion":true}`, release.GetUID())
	spec := `{}`
	if r.kind.Kind == "CloneSet" {
		spec = `{"minReadySeconds":2147483646,"updateStrategy":{"rollingUpdate":{"maxSurge":6,"maxUnavailable":0,"partition":0}}}`
	}
	r.merge(fmt.Sprintf(`{"metadata":{"labels":{"rollouts.kruise.io/workload-type":%q},"annotations":{"rollouts.kruise.io/in-progressing":%q,"batchrelease.rollouts.kruise.io/control-info":%q,"rollouts.kruise.io/original-deployment-strategy":%q}},"spec":%s}`,
		strings.ToLower(r.kind.Kind), `{"rolloutName":"shop"}`, control, leftNumbers, spec))
	stable, updated := r.hashes()
	for object, status := range map[*unstructured.Unstructured]string{
		release: `"phase":"Progressing","stableRevision":"OLD","updateRevision":"NEW","observedWorkloadReplicas":6,"canaryStatus":{"batchState":"Ready","currentBatch":0,"updatedReplicas":6,"updatedReadyReplicas":6}`,
		rollout: `"phase":"Progressing","currentStepIndex":1,"currentStepState":"StepPaused","conditions":[{"type":"Progressing","status":"True","reason":"InRolling","message":"Rollout is in step(1/2)"}],` +
			`"blueGreenStatus":{"stableRevision":"OLD","updatedRevision":"NEW","podTemplateHash":"NEW","currentStepIndex":1,"nextStepIndex":2,"currentStepState":"StepPaused","updatedReplicas":6,"updatedReadyReplicas":6,"message":""}`,
	} {
		body := []byte(`{"status":{` + strings.NewReplacer("OLD", stable, "NEW", updated).Replace(status) + `}}`)
		if err := r.Client.Status().Patch(r.t.Context(), object, client.RawPatch(types.MergePatchType, body)); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, object := range []*unstructured.Unstructured{release, rollout} {
		if err := r.Client.Patch(r.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`))); err != nil {
			r.t.Fatal(err)
		}
	}
	return updated
}

// surges has a Deployment with new pods beside old ones.
func (r *rolled) surges() {
	r.t.Helper()
	sets := &appsv1.ReplicaSetList{}
	if err := r.Client.List(r.t.Context(), sets, client.InNamespace(r.Name)); err != nil || len(sets.Items) != 1 {
		r.t.Fatal(err, len(sets.Items))
	}
	if err := r.Client.Patch(r.t.Context(), &sets.Items[0], client.RawPatch(types.MergePatchType, []byte(`{"spec":{"minReadySeconds":2147483646}}`))); err != nil {
		r.t.Fatal(err)
	}
	r.merge(`{"spec":{"minReadySeconds":2147483646,"progressDeadlineSeconds":2147483647,"strategy":{"rollingUpdate":{"maxSurge":6,"maxUnavailable":0}}}}`)
	r.image("v2")
}

// twins is the same for a CloneSet. In this operator a note has new pods come.
func (r *rolled) twins() {
	r.t.Helper()
	r.merge(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":"100%"}}}}`)
	before, _, _ := unstructured.NestedString(r.workload().Object, "status", "updateRevision")
	r.image("v2")
	r.Eventually("there is a new revision", func(context.Context) error {
		if now, _, _ := unstructured.NestedString(r.workload().Object, "status", "updateRevision"); now != before {
			r.merge(fmt.Sprintf(`{"metadata":{"annotations":{"rollouts.kruise.io/original-deployment-strategy":%q}}}`, rollable.Twin{Revision: now, Pods: 6}.Encode()))
			return nil
		}
		return fmt.Errorf("it is %s", before)
	})
}

// hashes name versions as OpenKruise does.
func (r *rolled) hashes() (stable, updated string) {
	r.t.Helper()
	pods, err := r.ListPods(r.t.Context(), "app=shop")
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range pods {
		hash := pods[i].Labels["pod-template-hash"]
		if pods[i].Spec.Containers[0].Image == "example/shop:v1" {
			stable = hash
		} else if updated = hash; r.kind.Kind == "Deployment" {
			updated = "7d4f6c9b5" // a hash of its own
		}
	}
	return stable, updated
}

// TestTwoSetsOfPodsOfOpenKruise: a blue-green release of OpenKruise goes on. Its autoscaler has its target again, and takes no pods until the end.
func TestTwoSetsOfPodsOfOpenKruise(t *testing.T) {
	t.Parallel()
	for _, kind := range twinKinds() {
		t.Run(kind[1], func(t *testing.T) {
			t.Parallel()
			r := unrolled(t, env, kind[0], kind[1], "")
			strategy := "  strategy: {rollingUpdate: {maxUnavailable: 1, maxSurge: 50%}}\n"
			if kind[1] == "CloneSet" {
				strategy = "  updateStrategy: {rollingUpdate: {maxUnavailable: 1, maxSurge: 50%}}\n"
			}
			r.status = "blueGreenStatus"
			p := &pair{routed: &routed{rolled: r}}
			target := strings.ReplaceAll(environment.Edited(scaledShop, "apps/v1", kind[0]), "Deployment", kind[1])
			p.Apply(target)
			p.scaler = p.autoscaler().Spec
			p.Apply(strings.ReplaceAll(target, "name: shop}\n  minReplicas", "name: shop-DisableByRollout}\n  minReplicas"))
			p.Apply(strings.ReplaceAll(strings.ReplaceAll(target, "{name: shop}", "{name: other}"), "name: shop}\n  minReplicas", "name: other-DisableByRollout}\n  minReplicas"))
			others := p.autoscalerOf("other")
			left := r.leave(environment.Edited(shopOf(kind[0], kind[1]), "  replicas: 6\n", "  replicas: 6\n  minReadySeconds: 1\n"+strategy))
			p.old = p.uids(t.Context(), "v1")
			r.until("the steps begin again", func(o *v1beta1.Rollout) bool {
				return condition(o, v1beta1.RolloutConditionGuarded).Status == "True" && o.Status.BlueGreenStatus.UpdatedRevision != left
			})
			p.Eventually("the autoscaler has its target", func(context.Context) error {
				if a := p.autoscaler(); a.Spec.ScaleTargetRef.Name != "shop" || a.Annotations["rollouts.kruise.io/original-scale-in"] == "" {
					return fmt.Errorf("it has %+v", a.Spec)
				}
				return nil
			})
			r.waits(1)
			p.held()
			p.twoSets("v2", 6)
			p.kept()
			r.approve()
			r.waits(2)
			p.twoSets("v2", 6)
			p.kept()
			r.approve()
			r.ends("True")
			r.has("v2", 6, 6)
			r.clean()
			p.free()
			if now := p.autoscalerOf("other"); len(now.Annotations) > 0 || !cmp.Equal(now.Spec, others.Spec) {
				t.Errorf("the autoscaler of another workload has changed: %+v", now)
			}
		})
	}
}
