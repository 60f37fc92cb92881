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
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// twinSteps have all pods from the first one on, and then their requests.
const twinSteps = `[{"replicas":"100%","traffic":"0%"},{"replicas":"100%","traffic":"50%"},{"replicas":"100%","traffic":"100%"}]`

// scaledShop scales the workload by load that nobody measures, so its own numbers stay.
const scaledShop = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  minReplicas: 1
  maxReplicas: 20
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
`

// pair is a workload whose release has two sets of pods.
type pair struct {
	*routed
	// old are the pods from before the release.
	old []types.UID
	// scaler is the autoscaler of the user.
	scaler autoscalingv2.HorizontalPodAutoscalerSpec
}

func newPair(t *testing.T, apiVersion, kind, steps string) *pair {
	t.Helper()
	p := &pair{routed: newRoutedBy(t, apiVersion, kind, "blueGreen", byGateway)}
	p.status = "blueGreenStatus"
	p.configure("strategy/blueGreen/steps", steps)
	p.Apply(strings.ReplaceAll(environment.Edited(scaledShop, "apps/v1", apiVersion), "Deployment", kind))
	p.scaler = p.autoscaler().Spec
	p.old = p.uids(t.Context(), "v1")
	return p
}

func (p *pair) autoscaler() *autoscalingv2.HorizontalPodAutoscaler {
	p.t.Helper()
	return p.autoscalerOf("shop")
}

func (p *pair) autoscalerOf(name string) *autoscalingv2.HorizontalPodAutoscaler {
	p.t.Helper()
	a := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := p.Client.Get(p.t.Context(), types.NamespacedName{Namespace: p.Name, Name: name}, a); err != nil {
		p.t.Fatal(err)
	}
	return a
}

// held checks that the autoscaler may take no pods, and has its target.
func (p *pair) held() {
	p.t.Helper()
	a := p.autoscaler()
	if b := a.Spec.Behavior; b == nil || b.ScaleDown == nil || *b.ScaleDown.SelectPolicy != autoscalingv2.DisabledPolicySelect {
		p.t.Errorf("the autoscaler may take pods: %+v", b)
	}
	if a.Spec.ScaleTargetRef != p.scaler.ScaleTargetRef {
		p.t.Errorf("the autoscaler has another target: %+v", a.Spec.ScaleTargetRef)
	}
}

// free checks that the autoscaler is as before.
func (p *pair) free() {
	p.t.Helper()
	a := p.autoscaler()
	if diff := cmp.Diff(p.scaler, a.Spec); diff != "" || a.Annotations["rollouts.kruise.io/original-scale-in"] != "" {
		p.t.Errorf("the autoscaler is another one: %s %v", diff, a.Annotations)
	}
}

// uids are those of ready pods of a version.
func (p *pair) uids(ctx context.Context, version string) (all []types.UID) {
	pods, err := p.ListPods(ctx, "app=shop")
	if err != nil {
		return nil
	}
	for i := range pods {
		if pods[i].DeletionTimestamp == nil && environment.IsReady(&pods[i]) && pods[i].Spec.Containers[0].Image == "example/shop:"+version {
			all = append(all, pods[i].UID)
		}
	}
	slices.Sort(all)
	return all
}

// kept checks that no old pod has gone.
func (p *pair) kept() {
	p.t.Helper()
	if diff := cmp.Diff(p.old, p.uids(p.t.Context(), "v1")); diff != "" {
		p.t.Errorf("old pods have gone: %s", diff)
	}
}

// guard looks at the pods until requests have left their version: while the gateway leads requests there, they stay.
func (p *pair) guard(version string) {
	go func() {
		most := 0
		for p.t.Context().Err() == nil {
			seen := weights(p.gate.Seen("shop"))
			ready := len(p.uids(p.t.Context(), version))
			if !strings.Contains(seen, "shop-canary") {
				return
			}
			if after := weights(p.gate.Seen("shop")); p.t.Context().Err() == nil && ready < most && seen == after && !strings.HasSuffix(seen, "shop-canary 0") {
				p.t.Errorf("%d of %d pods of %s are ready while requests are led to %q", ready, most, version, seen)
				return
			}
			most = max(most, ready)
			select {
			case <-time.After(20 * time.Millisecond):
			case <-p.t.Context().Done():
			}
		}
	}()
}

// reaches goes from step 1 to another one: one approval, or a jump.
func (p *pair) reaches(step int) {
	p.t.Helper()
	switch step {
	case 1:
		return
	case 2:
		p.approve()
	default:
		p.jump(step)
	}
	p.waits(int32(step))
}

// twoSets waits until both versions have all their pods.
func (p *pair) twoSets(version string, count int) {
	p.t.Helper()
	p.has("v1", count, 2*count)
	p.has(version, count, 2*count)
}

func (p *pair) scale(replicas int32) {
	p.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.Name, Name: "shop"}}
	size := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	if err := p.Client.SubResource("scale").Update(p.t.Context(), d, client.WithSubResourceBody(size)); err != nil {
		p.t.Fatal(err)
	}
}

// Example E7 of the specification: old pods go when the new version has all requests, and somebody has approved that.
func TestTwoSetsOfPods(t *testing.T) {
	t.Parallel()
	for _, kind := range twinKinds() {
		t.Run(kind[1], func(t *testing.T) {
			t.Parallel()
			twoSetsOfPods(t, newPair(t, kind[0], kind[1], twinSteps))
		})
	}
}

// twinKinds are the kinds of workloads with blue-green releases.
func twinKinds() [][2]string {
	return [][2]string{{"apps/v1", "Deployment"}, {"apps.kruise.io/v1beta1", "CloneSet"}}
}

func twoSetsOfPods(t *testing.T, p *pair) {
	t.Helper()
	p.image("v2")
	for i, want := range []string{"shop 100, shop-canary 0", "shop 50, shop-canary 50", "shop 0, shop-canary 100"} {
		p.waits(int32(i) + 1)
		p.twoSets("v2", 6)
		p.kept()
		p.held()
		p.leads(want)
		p.pinned("shop", true)
		p.approve()
	}
	p.ends("True")
	p.has("v2", 6, 6)
	p.asBefore()
	p.free()
	p.until("its status is that of the strategy", func(o *v1beta1.Rollout) bool {
		s := o.Status.BlueGreenStatus
		return o.Status.CanaryStatus == nil && s != nil && s.CurrentStepState == v1beta1.CanaryStepStateCompleted && o.Status.CurrentStepIndex == 3 && s.UpdatedReplicas == 6
	})
}

// Requests go back to a full set of old pods, in each step, also when the new version has all of them.
func TestTwoSetsOfPodsGoBack(t *testing.T) {
	t.Parallel()
	for i := 1; i <= 4; i++ {
		step, kind := i, twinKinds()[i/4]
		if kind[1] == "CloneSet" {
			step = 3
		}
		t.Run(fmt.Sprintf("a %s from step %d", kind[1], step), func(t *testing.T) {
			t.Parallel()
			p := newPair(t, kind[0], kind[1], twinSteps)
			p.image("v2")
			p.waits(1)
			p.reaches(step)
			p.twoSets("v2", 6)
			p.guard("v2")
			p.image("v1")
			p.ends("False")
			p.has("v1", 6, 6)
			p.kept()
			p.asBefore()
			p.free()
		})
	}
}

// A change of replicas changes numbers of pods, and neither step nor state.
func TestTwoSetsOfPodsAreScaled(t *testing.T) {
	t.Parallel()
	p := newPair(t, "apps/v1", "Deployment", `[{"replicas":"50%","traffic":"20%"},{"replicas":"100%","traffic":"100%"}]`)
	p.image("v2")
	p.waits(1)
	p.has("v2", 3, 9)
	for _, size := range []int{8, 3} {
		p.scale(int32(size))
		p.Eventually(fmt.Sprintf("%d old pods are ready", size), func(ctx context.Context) error {
			if n := len(p.uids(ctx, "v1")); n != size {
				return fmt.Errorf("%d are", n)
			}
			return nil
		})
		p.waits(1)
	}
	p.approve()
	p.waits(2)
	p.twoSets("v2", 3)
	p.approve()
	p.ends("True")
	p.has("v2", 3, 3)
	p.asBefore()
	p.free()
}

// A third version in the middle: requests go to old pods, those of the second go, and the steps begin again.
func TestAThirdVersionBesideTwoSets(t *testing.T) {
	t.Parallel()
	for _, kind := range twinKinds() {
		t.Run(kind[1], func(t *testing.T) {
			t.Parallel()
			thirdVersion(t, newPair(t, kind[0], kind[1], twinSteps))
		})
	}
}

func thirdVersion(t *testing.T, p *pair) {
	t.Helper()
	p.image("v2")
	p.waits(1)
	p.reaches(2)
	p.twoSets("v2", 6)
	p.guard("v2")
	p.image("v3")
	p.until("step 1 begins", func(o *v1beta1.Rollout) bool { return o.Status.CurrentStepIndex == 1 })
	p.waits(1)
	p.twoSets("v3", 6)
	p.kept()
	p.held()
	p.reaches(3)
	p.leads("shop 0, shop-canary 100")
	p.approve()
	p.ends("True")
	p.has("v3", 6, 6)
	p.asBefore()
	p.free()
}

// Without its Rollout, or when that is disabled, the workload goes on to the new version by itself.
func TestWhoEndsTwoSetsOfPods(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*pair){
		"disabled": func(p *pair) {
			p.configure("disabled", "true")
			p.until("it is disabled", func(o *v1beta1.Rollout) bool { return o.Status.Phase == v1beta1.RolloutPhaseDisabled })
		},
		"deleted": func(p *pair) {
			rollout, err := p.rollout(p.t.Context())
			if err != nil {
				p.t.Fatal(err)
			}
			if err := p.Client.Delete(p.t.Context(), rollout); err != nil {
				p.t.Fatal(err)
			}
			p.gone(rollout)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, kind := range twinKinds() {
				t.Run(kind[1], func(t *testing.T) {
					t.Parallel()
					p := newPair(t, kind[0], kind[1], twinSteps)
					p.image("v2")
					p.waits(1)
					p.reaches(2)
					p.twoSets("v2", 6)
					end(p)
					p.has("v2", 6, 6)
					p.asBefore()
					p.free()
				})
			}
		})
	}
}

// The autoscaler is as before when its workload is gone, too.
func TestTheWorkloadOfTwoSetsGoes(t *testing.T) {
	t.Parallel()
	p := newPair(t, "apps/v1", "Deployment", twinSteps)
	p.image("v2")
	p.waits(1)
	if err := p.Client.Delete(t.Context(), p.workload()); err != nil {
		t.Fatal(err)
	}
	p.until("it waits for its workload", func(o *v1beta1.Rollout) bool { return o.Status.Phase == v1beta1.RolloutPhaseInitial })
	p.Eventually("the autoscaler is as before", func(context.Context) error {
		if diff := cmp.Diff(p.scaler, p.autoscaler().Spec); diff != "" {
			return fmt.Errorf("it is not: %s", diff)
		}
		return nil
	})
}

// scaledObjects are KEDA's, without KEDA.
const scaledObjects = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: scaledobjects.keda.sh}
spec:
  group: keda.sh
  names: {kind: ScaledObject, plural: scaledobjects}
  scope: Namespaced
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// keda has the workload scaled by a ScaledObject, which owns the autoscaler.
func (r *rolled) keda() (get func() *unstructured.Unstructured) {
	r.t.Helper()
	definition, scaled := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(scaledObjects), &definition.Object); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Client.Create(r.t.Context(), definition); client.IgnoreAlreadyExists(err) != nil {
		r.t.Fatal(err)
	}
	scaled.SetAPIVersion("keda.sh/v1alpha1")
	scaled.SetKind("ScaledObject")
	scaled.SetName("shop")
	scaled.SetNamespace(r.Name)
	r.Eventually("ScaledObjects are served", func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(r.Client.Create(ctx, scaled.DeepCopy()))
	})
	get = func() *unstructured.Unstructured {
		r.t.Helper()
		if err := r.Client.Get(r.t.Context(), client.ObjectKeyFromObject(scaled), scaled); err != nil {
			r.t.Fatal(err)
		}
		return scaled
	}
	owner := fmt.Sprintf("metadata: {name: keda, ownerReferences: [{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, name: shop, uid: %s, controller: true}]}", get().GetUID())
	r.Apply(environment.Edited(scaledShop, "metadata: {name: shop}", owner))
	return get
}

// Without routes all pods share requests, and old ones go when somebody has approved the last step. KEDA takes no pods until then.
func TestTwoSetsOfPodsWithoutRoutes(t *testing.T) {
	t.Parallel()
	r := unrolled(t, env, "apps/v1", "Deployment", deployed)
	r.status = "blueGreenStatus"
	r.manifest = environment.Edited(r.manifest, "    canary:\n", "    blueGreen:\n")
	r.starts()
	scaled := r.keda()
	r.image("v2")
	r.waits(1)
	r.has("v2", 1, 7)
	if all := scaled().GetAnnotations(); all["autoscaling.keda.sh/paused-scale-in"] != "true" {
		t.Errorf("KEDA may take pods: %v", all)
	}
	r.approve()
	r.waits(3)
	r.has("v2", 6, 12)
	r.has("v1", 6, 12)
	r.approve()
	r.ends("True")
	r.has("v2", 6, 6)
	r.clean()
	if all := scaled().GetAnnotations(); len(all) > 0 {
		t.Errorf("the ScaledObject has %v", all)
	}
}
