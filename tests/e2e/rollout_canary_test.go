// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsshared "github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// besideShop releases in a Deployment beside that of shop.
const besideShop = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: shop}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  strategy:
    canary:
      enableExtraWorkloadForCanary: true
      patchPodTemplateMetadata: {labels: {gray: "yes"}}
      steps: [{replicas: 1}, {replicas: "50%"}, {replicas: "100%"}]
---
`

// olderShop has the style of v1alpha1: it is that one when nothing is said.
const olderShop = `
apiVersion: rollouts.kruise.io/v1alpha1
kind: Rollout
metadata: {name: shop}
spec:
  objectRef: {workloadRef: {apiVersion: apps/v1, kind: Deployment, name: shop}}
  strategy: {canary: {steps: [{weight: 10}, {weight: 100}]}}
---
`

// twin is a Deployment with a canary Deployment, and the UIDs of its pods before.
type twin struct {
	*rolled
	before []types.UID
}

// newTwin has a Deployment of v1, and gives it v2 until a step waits.
func newTwin(t *testing.T, rollout string) *twin {
	t.Helper()
	t.Parallel()
	w := &twin{rolled: &rolled{Namespace: env.Namespace(t), t: t, status: "canaryStatus", kind: appsv1.SchemeGroupVersion.WithKind("Deployment")}}
	w.Apply(rollout + deployed)
	w.has("v1", 6, 6)
	w.until("it is guarded", func(o *v1beta1.Rollout) bool {
		return condition(o, v1beta1.RolloutConditionGuarded).Status == metav1.ConditionTrue
	})
	w.before = w.stable()
	w.patch(w.kind, "", `[{"op":"add","path":"/metadata/labels/rollouts.kruise.io~1rollout-id","value":"r2"},
		{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example/shop:v2"}]`)
	w.waits(1)
	w.is("v2", 1)
	return w
}

// stable are the UIDs of ready pods of v1.
func (w *twin) stable() (uids []types.UID) {
	w.t.Helper()
	pods, err := w.ListPods(w.t.Context(), "app=shop")
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range pods {
		if environment.IsReady(&pods[i]) && pods[i].DeletionTimestamp == nil && pods[i].Spec.Containers[0].Image == "example/shop:v1" {
			uids = append(uids, pods[i].UID)
		}
	}
	slices.Sort(uids)
	return uids
}

// untouched: all pods of v1 are those from before.
func (w *twin) untouched() {
	w.t.Helper()
	if now := w.stable(); !slices.Equal(now, w.before) {
		w.t.Errorf("the ready pods of v1 are %v, and were %v", now, w.before)
	}
}

func (w *twin) canaries(ctx context.Context) ([]appsv1.Deployment, error) {
	var list appsv1.DeploymentList
	err := w.Client.List(ctx, &list, client.InNamespace(w.Name), client.HasLabels{shared.LabelCanary})
	return list.Items, err
}

// is waits until so many pods of a version are beside the untouched ones of v1.
func (w *twin) is(version string, count int) {
	w.t.Helper()
	w.has(version, count, 6+count)
	w.untouched()
	canaries, err := w.canaries(w.t.Context())
	if err != nil || len(canaries) != 1 {
		w.t.Fatalf("%d canary Deployments: %v", len(canaries), err)
	}
	owner := metav1.GetControllerOf(&canaries[0])
	if *canaries[0].Spec.Replicas != int32(count) || owner == nil || owner.Kind != "Rollout" {
		w.t.Errorf("the canary Deployment is %+v of %v", canaries[0].Spec, owner)
	}
	d := &appsv1.Deployment{}
	if err := w.Client.Get(w.t.Context(), types.NamespacedName{Namespace: w.Name, Name: "shop"}, d); err != nil || !d.Spec.Paused {
		w.t.Errorf("the Deployment is not paused: %v", err)
	}
}

// alone waits until there is no canary Deployment, and all pods have a version.
func (w *twin) alone(version string) {
	w.t.Helper()
	w.Eventually("the canary Deployment is gone", func(ctx context.Context) error {
		canaries, err := w.canaries(ctx)
		if err != nil || len(canaries) > 0 {
			return errors.Join(err, fmt.Errorf("%d are there", len(canaries)))
		}
		return nil
	})
	w.has(version, 6, 6)
}

// A release in a canary Deployment: the pods from before stay until its end, and all of them are replaced then.
func TestACanaryDeploymentReleasesInSteps(t *testing.T) {
	w := newTwin(t, besideShop)
	pods, err := w.ListPods(t.Context(), "gray=yes")
	if err != nil || len(pods) != 1 || pods[0].Labels[shared.RolloutID] != "r2" || pods[0].Labels[shared.LabelBatchID] != "1" {
		t.Fatalf("the pods with the label of the Rollout are %+v: %v", pods, err)
	}
	w.until("it counts the canary's pods", func(o *v1beta1.Rollout) bool {
		sub := o.Status.CanaryStatus
		return sub.CanaryReplicas == 1 && sub.CanaryReadyReplicas == 1 && sub.PodTemplateHash == pods[0].Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	})
	w.patch(w.kind, "", `[{"op":"replace","path":"/spec/paused","value":false}]`)
	w.is("v2", 1) // the brake keeps it paused
	w.approve()
	w.waits(2)
	w.is("v2", 3)
	w.approve()
	w.alone("v2")
	w.ends("True")
	w.clean()
	if pods, err := w.ListPods(t.Context(), "gray=yes"); err != nil || len(pods) > 0 {
		t.Errorf("pods of the canary Deployment are left: %d, %v", len(pods), err)
	}
}

// A canary Deployment keeps its pods when the Deployment is scaled down. The later steps count by the new size.
func TestACanaryDeploymentOfADeploymentThatIsScaled(t *testing.T) {
	w := newTwin(t, besideShop)
	w.approve()
	w.waits(2)
	w.is("v2", 3)
	w.kubectl("scale", "deployment", "shop", "--replicas=4")
	w.has("v1", 4, 7)
	w.waits(2)
	w.has("v2", 3, 7)
	w.approve()
	w.ends("True")
	w.has("v2", 4, 4)
	w.clean()
}

// The canary Deployment goes however a release ends, and its pods before those of the Deployment only on the way back.
func TestACanaryDeploymentGoes(t *testing.T) {
	remove := func(w *twin, o client.Object) {
		o.SetNamespace(w.Name)
		o.SetName("shop")
		if err := w.Client.Delete(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
	for name, end := range map[string]func(*twin){
		"when the template is set back": func(w *twin) {
			w.image("v1")
			w.alone("v1")
			w.ends("False")
			w.untouched()
			w.clean()
		},
		"when the Rollout is deleted": func(w *twin) {
			remove(w, &v1beta1.Rollout{})
			w.alone("v2")
			w.Eventually("the Rollout is gone", func(ctx context.Context) error {
				if _, err := w.rollout(ctx); !apierrors.IsNotFound(err) {
					return fmt.Errorf("it is there: %w", err)
				}
				return nil
			})
			w.clean()
		},
		"when the Rollout is disabled": func(w *twin) {
			w.patch(v1beta1.GroupVersion().WithKind("Rollout"), "", `[{"op":"add","path":"/spec/disabled","value":true}]`)
			w.alone("v2")
			w.clean()
		},
		"when somebody takes over": func(w *twin) {
			w.patch(w.kind, "", `[{"op":"remove","path":"/metadata/labels/rollouts.kruise.io~1workload-type"}]`)
			w.ends("False")
			w.alone("v2")
		},
		"when its Deployment is deleted": func(w *twin) {
			remove(w, &appsv1.Deployment{})
			w.Eventually("nothing is left", func(ctx context.Context) error {
				canaries, err := w.canaries(ctx)
				pods, errPods := w.ListPods(ctx, "app=shop")
				if err = errors.Join(err, errPods); err != nil || len(canaries)+len(pods) > 0 {
					return errors.Join(err, fmt.Errorf("%d canary Deployments and %d pods are", len(canaries), len(pods)))
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) { end(newTwin(t, besideShop)) })
	}
}

// A third version gets a canary Deployment of its own, from the first step on.
func TestACanaryDeploymentGivesWayToAnother(t *testing.T) {
	w := newTwin(t, besideShop)
	w.approve()
	w.waits(2)
	w.is("v2", 3)
	w.patch(w.kind, "", `[{"op":"replace","path":"/metadata/labels/rollouts.kruise.io~1rollout-id","value":"r3"}]`)
	w.image("v3")
	w.waits(1)
	w.is("v3", 1)
}

// A Rollout of v1alpha1 without a style makes one, too.
func TestAnOlderRolloutHasACanaryDeployment(t *testing.T) {
	w := newTwin(t, olderShop)
	w.approve()
	w.alone("v2")
	w.ends("True")
	w.clean()
}

// A canary Deployment of OpenKruise's has another name, owner and finalizer. The release goes on with it.
func TestACanaryDeploymentOfOpenKruise(t *testing.T) {
	t.Parallel()
	row, _ := rollable.Of("apps/v1", "Deployment")
	r := newRelease(t, row)
	d := &appsv1.Deployment{}
	if err := r.Client.Get(t.Context(), types.NamespacedName{Namespace: r.Name, Name: "web"}, d); err != nil {
		t.Fatal(err)
	}
	b := &v1beta1.BatchRelease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Name, Name: "web", Annotations: map[string]string{appsshared.AnnotationPaused: "true"}}}
	b.Spec.WorkloadRef = v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	b.Spec.ReleasePlan = v1beta1.ReleasePlan{
		BatchPartition: new(int32), Batches: []v1beta1.ReleaseBatch{{CanaryReplicas: intstr.FromString("50%")}}, RollingStyle: v1beta1.CanaryRollingStyle, EnableExtraWorkloadForCanary: true,
	}
	if err := r.Client.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	owner := *metav1.NewControllerRef(b, v1beta1.GroupVersion().WithKind("BatchRelease"))
	c := rolling.Canary(d, v1beta1.PatchPodTemplateMetadata{})
	c.Name, c.Finalizers, c.OwnerReferences, c.Spec.Replicas = "web-x7k2p", []string{shared.FinalizerCanary}, []metav1.OwnerReference{owner}, ptr.To[int32](1)
	if err := r.Client.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	control := fmt.Sprintf(`{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"BatchRelease","name":"web","uid":"%s","controller":true}`, b.UID)
	if err := r.Client.Patch(t.Context(), d, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, shared.AnnotationControl, control))); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Patch(t.Context(), b, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`))); err != nil {
		t.Fatal(err)
	}
	r.until("the batch is ready", func(s *v1beta1.BatchReleaseStatus) bool {
		return s.CanaryStatus.CurrentBatchState == v1beta1.BatchStateReady && s.CanaryStatus.UpdatedReadyReplicas == releasedPods/2
	})
	w := &twin{rolled: &rolled{Namespace: r.Namespace, t: t}}
	if all, err := w.canaries(t.Context()); err != nil || len(all) != 1 || all[0].Name != c.Name {
		t.Errorf("canary Deployments: %+v, %v", all, err)
	}
	r.plan(`"batchPartition":null,"finalizingPolicy":"WaitResume"`)
	r.over()
	r.has(releasedPods)
	if all, err := w.canaries(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("canary Deployments are left: %+v, %v", all, err)
	}
}

// A release that is ended before its first step is not held for ever.
func TestAReleaseThatEndsBeforeItBegins(t *testing.T) {
	t.Parallel()
	r := newRolled(t, "apps/v1", "Deployment", deployed)
	r.image("v2")
	r.patch(v1beta1.GroupVersion().WithKind("Rollout"), "", `[{"op":"add","path":"/spec/disabled","value":true}]`)
	r.has("v2", 6, 6)
	r.clean()
}
