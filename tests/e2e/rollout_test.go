// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/rollable"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// rolloutOfShop comes before its workload in the file.
const rolloutOfShop = `
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: shop}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: shop}
  strategy:
    canary:
      steps:
      - {replicas: 1}
      - {replicas: "50%", pause: {duration: 1}}
      - {replicas: "100%"}
---
`

// shopOf is a workload of any kind. Those of DaemonSets have nodes of their own.
func shopOf(apiVersion, kind string) string {
	edits := []string{"apps/v1", apiVersion, "kind: Deployment", "kind: " + kind}
	switch kind {
	case "StatefulSet":
		edits = append(edits, "replicas: 6", "replicas: 6\n  serviceName: shop")
	case "DaemonSet":
		edits = append(edits, "  replicas: 6\n", "", "    spec:\n", "    spec:\n      nodeSelector: {"+environment.Own+": NODES}\n      tolerations: [{key: "+environment.Own+", operator: Exists}]\n")
	}
	return environment.Edited(deployed, edits...)
}

// rolled is a workload with a Rollout, both named shop.
type rolled struct {
	*environment.Namespace
	t        testing.TB
	manifest string
	kind     schema.GroupVersionKind
	// status is the sub-status of its strategy.
	status string
	// own is the spec of its user, without the template.
	own map[string]any
}

func newRolled(t *testing.T, apiVersion, kind, workload string) *rolled {
	t.Helper()
	return newRolledIn(t, env, apiVersion, kind, workload)
}

func newRolledIn(t *testing.T, e *environment.Environment, apiVersion, kind, workload string) *rolled {
	t.Helper()
	r := unrolled(t, e, apiVersion, kind, workload)
	r.starts()
	return r
}

// unrolled is a namespace for them.
func unrolled(t *testing.T, e *environment.Environment, apiVersion, kind, workload string) *rolled {
	t.Helper()
	r := &rolled{
		Namespace: e.Namespace(t), t: t, status: "canaryStatus", kind: schema.FromAPIVersionAndKind(apiVersion, kind),
		manifest: environment.Edited(rolloutOfShop, "apps/v1", apiVersion, "Deployment", kind) + workload,
	}
	if kind == "DaemonSet" {
		r.manifest = strings.ReplaceAll(r.manifest, "NODES", r.Name)
		for i := range 6 {
			r.OwnNode(fmt.Sprintf("%s-%d", r.Name, i), nil)
		}
	}
	return r
}

// starts applies both, and waits until they are at rest.
func (r *rolled) starts() {
	r.t.Helper()
	r.Apply(r.manifest)
	r.has("v1", 6, 6)
	r.isGuarded()
}

// isGuarded waits until the next change will be caught. Nothing of a release is in the spec then.
func (r *rolled) isGuarded() {
	r.t.Helper()
	r.until("it is guarded", func(o *v1beta1.Rollout) bool { return condition(o, v1beta1.RolloutConditionGuarded).Status == "True" })
	r.own = r.spec()
}

// spec is that of the workload, without what a release is about.
func (r *rolled) spec() map[string]any {
	r.t.Helper()
	spec, _, _ := unstructured.NestedMap(r.workload().Object, "spec")
	delete(spec, "template")
	delete(spec, "replicas")
	return spec
}

func condition(o *v1beta1.Rollout, kind string) v1beta1.RolloutCondition {
	for _, c := range o.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1beta1.RolloutCondition{}
}

func (r *rolled) stored(ctx context.Context, kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, r.Client.Get(ctx, types.NamespacedName{Namespace: r.Name, Name: "shop"}, object)
}

func (r *rolled) workload() *unstructured.Unstructured {
	r.t.Helper()
	object, err := r.stored(r.t.Context(), r.kind)
	if err != nil {
		r.t.Fatal(err)
	}
	return object
}

func (r *rolled) rollout(ctx context.Context) (*v1beta1.Rollout, error) {
	object, err := r.stored(ctx, v1beta1.GroupVersion().WithKind("Rollout"))
	if err != nil {
		return nil, err
	}
	rollout := &v1beta1.Rollout{}
	return rollout, quantity.FromUnstructured(object.Object, rollout)
}

// until waits for a state of the Rollout.
func (r *rolled) until(what string, is func(*v1beta1.Rollout) bool) {
	r.t.Helper()
	r.Eventually("the Rollout: "+what, func(ctx context.Context) error {
		o, err := r.rollout(ctx)
		if err != nil {
			return err
		}
		if !is(o) {
			return fmt.Errorf("its status is %+v %+v", o.Status, o.Status.CanaryStatus)
		}
		return nil
	})
}

// waits until a step waits for somebody.
func (r *rolled) waits(step int32) {
	r.t.Helper()
	r.until(fmt.Sprintf("step %d waits", step), func(o *v1beta1.Rollout) bool {
		return o.Status.CurrentStepIndex == step && o.Status.CurrentStepState == v1beta1.CanaryStepStatePaused &&
			condition(o, v1beta1.RolloutConditionProgressing).Reason == v1beta1.ReasonInRolling
	})
}

func (r *rolled) ends(succeeded string) {
	r.t.Helper()
	r.until("the release is over", func(o *v1beta1.Rollout) bool {
		return o.Status.Phase == v1beta1.RolloutPhaseHealthy && string(condition(o, v1beta1.RolloutConditionSucceeded).Status) == succeeded &&
			condition(o, v1beta1.RolloutConditionProgressing).Reason == v1beta1.ReasonCompleted
	})
}

// image sets that of the template.
func (r *rolled) image(version string) {
	r.t.Helper()
	r.patch(r.kind, "", `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example/shop:`+version+`"}]`)
}

// approve is what a person does when a step waits.
func (r *rolled) approve() {
	r.t.Helper()
	r.patch(v1beta1.GroupVersion().WithKind("Rollout"), "status", `[{"op":"replace","path":"/status/`+r.status+`/currentStepState","value":"StepReady"}]`)
}

func (r *rolled) patch(kind schema.GroupVersionKind, subresource, patch string) {
	r.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(r.Name)
	object.SetName("shop")
	var err error
	if raw := client.RawPatch(types.JSONPatchType, []byte(patch)); subresource == "" {
		err = r.Client.Patch(r.t.Context(), object, raw)
	} else {
		err = r.Client.SubResource(subresource).Patch(r.t.Context(), object, raw)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// of are the living pods with an image, and how many of them are ready.
func of(pods []corev1.Pod, version string) (all, ready int) {
	for i := range pods {
		if pods[i].DeletionTimestamp == nil && pods[i].Spec.Containers[0].Image == "example/shop:"+version {
			all++
			if environment.IsReady(&pods[i]) {
				ready++
			}
		}
	}
	return all, ready
}

// has waits for so many ready pods of a version, among so many.
func (r *rolled) has(version string, count, total int) {
	r.t.Helper()
	r.Eventually(fmt.Sprintf("%d of %d pods have %s", count, total, version), func(ctx context.Context) error {
		pods, err := r.ListPods(ctx, "app=shop")
		if err != nil {
			return err
		}
		if all, ready := of(pods, version); all != count || ready != count || len(pods) != total {
			return fmt.Errorf("%d pods have it, %d of them are ready, of %d", all, ready, len(pods))
		}
		return nil
	})
}

// clean checks that nothing of a release is left on the workload.
func (r *rolled) clean() {
	r.t.Helper()
	w := r.workload()
	for _, key := range []string{
		"rollouts.kruise.io/in-progressing", "batchrelease.rollouts.kruise.io/control-info", "rollouts.kruise.io/original-deployment-strategy",
	} {
		if _, found := w.GetAnnotations()[key]; found {
			r.t.Errorf("the annotation %s is left", key)
		}
	}
	if paused, _, _ := unstructured.NestedBool(w.Object, "spec", "paused"); paused {
		r.t.Error("it is paused")
	}
	if diff := cmp.Diff(r.own, r.spec()); r.own != nil && diff != "" {
		r.t.Errorf("the spec is another one than before: %s", diff)
	}
}

// A release of each kind: caught, step by step, approved by a patch of the status. The next one is canceled by the template from before.
func TestARolloutReleasesInSteps(t *testing.T) {
	t.Parallel()
	for _, row := range rollable.All() {
		apiVersion, kind := row.Kind.ToAPIVersionAndKind()
		t.Run(strings.ToLower(kind)+"-"+strings.Map(letters, row.Kind.Group), func(t *testing.T) {
			t.Parallel()
			r := newRolled(t, apiVersion, kind, shopOf(apiVersion, kind))
			r.image("v2")
			r.waits(1)
			r.has("v2", 1, 6)
			r.approve()
			r.ends("True") // the second step waits a second, the last one does not
			r.has("v2", 6, 6)
			r.clean()
			r.image("v3")
			r.waits(1)
			r.has("v3", 1, 6)
			r.image("v2")
			r.ends("False")
			r.has("v2", 6, 6)
			r.clean()
		})
	}
}

// A template that is set back in the middle cancels the release: all pods are as before.
func TestARolloutGoesBack(t *testing.T) {
	t.Parallel()
	r := newRolled(t, "apps/v1", "Deployment", deployed)
	r.identified("v2", "forth")
	r.waits(1)
	r.identified("v1", "back")
	r.ends("False")
	r.isOver()
	r.has("v1", 6, 6)
	r.clean()
	// The next release begins as ever.
	r.image("v3")
	r.waits(1)
	r.has("v3", 1, 6)
}

// A deleted Rollout lets the workload go on to the new version, and leaves nothing.
func TestADeletedRolloutLetsGo(t *testing.T) {
	t.Parallel()
	for _, row := range rollable.All() {
		apiVersion, kind := row.Kind.ToAPIVersionAndKind()
		if kind == "StatefulSet" {
			continue // as CloneSets, but for their order
		}
		t.Run(strings.ToLower(kind)+"-"+strings.Map(letters, row.Kind.Group), func(t *testing.T) {
			t.Parallel()
			r := newRolled(t, apiVersion, kind, shopOf(apiVersion, kind))
			r.image("v2")
			r.waits(1)
			o := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: r.Name, Name: "shop"}}
			if err := r.Client.Delete(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			r.has("v2", 6, 6)
			r.gone(o)
			r.forgotten()
		})
	}
}

// A Deployment of type Recreate has no batches: the Rollout says so, and holds nothing once it is deleted.
func TestADeletedRolloutLetsGoOfAWorkloadWithoutBatches(t *testing.T) {
	t.Parallel()
	r := newRolled(t, "apps/v1", "Deployment", environment.Edited(deployed, "  replicas: 6\n", "  replicas: 6\n  strategy: {type: Recreate}\n"))
	r.image("v2")
	r.until("it says that it has no batches", func(o *v1beta1.Rollout) bool {
		return condition(o, v1beta1.RolloutConditionStalled).Reason == v1beta1.ReasonUnsupported
	})
	o := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: r.Name, Name: "shop"}}
	if err := r.Client.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r.has("v2", 6, 6)
	r.gone(o)
	r.forgotten()
}

// A label whose Rollout is not stored goes again, and what it held goes on.
func TestALabelWithoutARolloutGoes(t *testing.T) {
	t.Parallel()
	r := unrolled(t, env, "apps/v1", "Deployment", deployed)
	r.Apply(environment.Edited(deployed, "metadata: {name: shop}", `metadata: {name: shop, labels: {rollouts.kruise.io/workload-type: deployment}, annotations: {rollouts.kruise.io/rollout: shop,
  rollouts.kruise.io/in-progressing: "{}"}}`, "replicas: 6", "replicas: 6\n  paused: true"))
	r.Eventually("the label is gone", func(ctx context.Context) error {
		w, err := r.stored(ctx, r.kind)
		if err != nil || len(w.GetLabels()) > 0 {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	r.has("v1", 6, 6)
	r.clean()
}

// parked waits until a Deployment is paused between steps, which is a moment after its step waits.
func (r *rolled) parked() {
	r.t.Helper()
	r.Eventually("it is parked", func(ctx context.Context) error {
		w, err := r.stored(ctx, r.kind)
		if paused, _, _ := unstructured.NestedBool(w.Object, "spec", "paused"); err != nil || !paused {
			return fmt.Errorf("it is not paused: %w", err)
		}
		return nil
	})
}

// A client that applies the manifest every few seconds changes nothing, and the release ends.
func TestARolloutAndGitOps(t *testing.T) {
	for _, way := range [][]string{{"apply"}, {"apply", "--server-side", "--force-conflicts"}, {"replace"}} {
		t.Run(strings.Join(way[:min(2, len(way))], ""), func(t *testing.T) {
			t.Parallel()
			r := newRolled(t, "apps/v1", "Deployment", deployed)
			next := environment.Edited(deployed, "shop:v1", "shop:v2")
			file := filepath.Join(t.TempDir(), "shop.yaml")
			if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
				t.Fatal(err)
			}
			again := func() {
				// A replace may meet another write; the client tries again.
				if out, err := r.Kubectl(append(way, "-f", file)...); err != nil && !strings.Contains(out, "(Conflict)") {
					t.Fatalf("%v: %s", err, out)
				}
			}
			again()
			r.waits(1)
			r.has("v2", 1, 6)
			r.parked()
			before := r.workload()
			for range 3 {
				again()
			}
			// A replace drops the annotation of the Deployment controller, which counts as a generation.
			after := r.workload()
			if diff := cmp.Diff(before.Object["spec"], after.Object["spec"]); diff != "" || way[0] == "apply" && after.GetGeneration() != before.GetGeneration() {
				t.Errorf("generation %d became %d while nothing was asked for: %s", before.GetGeneration(), after.GetGeneration(), diff)
			}
			r.has("v2", 1, 6)
			r.approve()
			r.Eventually("the release is over, whatever is applied", func(ctx context.Context) error {
				again()
				o, err := r.rollout(ctx)
				if err != nil || o.Status.Phase != v1beta1.RolloutPhaseHealthy || condition(o, v1beta1.RolloutConditionSucceeded).Status != "True" {
					return fmt.Errorf("its status is %+v: %w", o.Status, err)
				}
				return nil
			})
			r.has("v2", 6, 6)
			r.clean()
		})
	}
}
