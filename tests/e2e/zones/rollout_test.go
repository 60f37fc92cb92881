// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package zones_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/united"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

func intOrString(text string) *intstr.IntOrString { return ptr.To(intstr.Parse(text)) }

func templates() []string {
	var all []string
	for _, adapter := range united.Adapters() {
		all = append(all, adapter.Field)
	}
	return all
}

// TestEveryKindOfWorkload brings three zones up, updates them, takes a field out of the template, scales, takes a zone out and puts it back,
// with each kind of workload.
func TestEveryKindOfWorkload(t *testing.T) {
	for _, template := range templates() {
		t.Run(template, func(t *testing.T) {
			t.Parallel()
			a := start(t, template, 4)
			a.runs("a1 b1 c2", "app:1")
			set := a.settled(v1beta1.ReasonComplete)
			first := set.Status.UpdatedRevision
			if set.Status.CurrentRevision != first || set.Status.ReadyReplicas != 4 || set.Status.UpdatedReadyReplicas != 4 || set.Status.LabelSelector != "app=app" {
				t.Errorf("the status is %+v", set.Status)
			}
			a.rests()

			a.change(func(set *v1beta1.UnitedDeployment) {
				template := a.kind.Template(&set.Spec.Template)
				template.Spec.Raw = []byte(strings.Replace(imageIn(string(template.Spec.Raw), "app:2"),
					`"containers"`, `"nodeSelector":{"kubernetes.io/os":"linux"},"containers"`, 1))
				template.Metadata.Labels["team"], template.Metadata.Annotations = "x", map[string]string{"example.com/note": "y"}
			})
			a.runs("a1 b1 c2", "app:2")
			a.settled(v1beta1.ReasonComplete)
			if all, err := a.workloads(t.Context()); err != nil || all["a"].GetLabels()["team"] != "x" || all["a"].GetAnnotations()["example.com/note"] != "y" {
				t.Fatalf("the workload of zone a lacks labels or annotations of the template: %v", err)
			}
			a.change(func(set *v1beta1.UnitedDeployment) {
				template := a.kind.Template(&set.Spec.Template)
				template.Spec.Raw = []byte(strings.Replace(string(template.Spec.Raw), `"nodeSelector":{"kubernetes.io/os":"linux"},`, "", 1))
				delete(template.Metadata.Labels, "team")
				template.Metadata.Annotations = nil
			})
			a.settled(v1beta1.ReasonComplete)
			all, err := a.workloads(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for zone, w := range all {
				if selector, found, _ := unstructured.NestedMap(w.Object, "spec", "template", "spec", "nodeSelector"); found {
					t.Errorf("the workload of zone %s still has the node selector %v", zone, selector)
				}
				if w.GetLabels()["team"] != "" || w.GetAnnotations()["example.com/note"] != "" {
					t.Errorf("the workload of zone %s still has the labels %v and annotations %v", zone, w.GetLabels(), w.GetAnnotations())
				}
				if w.GetName() != "app-"+zone {
					t.Errorf("the workload of zone %s is called %s", zone, w.GetName())
				}
			}

			if out, err := a.Kubectl("scale", "ud", "app", "--replicas=7"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			a.runs("a2 b2 c3", "app:2")
			a.change(func(set *v1beta1.UnitedDeployment) { set.Spec.Topology.Subsets = set.Spec.Topology.Subsets[:2] })
			a.runs("a3 b4 c0", "app:2")
			a.change(func(set *v1beta1.UnitedDeployment) {
				set.Spec.Topology.Subsets = append(set.Spec.Topology.Subsets, v1beta1.Subset{Name: "c", NodeSelectorTerm: zoneTerm("c")})
			})
			a.runs("a2 b3 c2", "app:2")
			a.change(func(set *v1beta1.UnitedDeployment) {
				template := a.kind.Template(&set.Spec.Template)
				template.Spec.Raw = []byte(workloadSpec(a.kind.Field))
			})
			a.runs("a2 b3 c2", "app:1")
			if set := a.settled(v1beta1.ReasonComplete); set.Status.UpdatedRevision != first || set.Status.CurrentRevision != first {
				t.Errorf("after a rollback the revision is %s, was %s at first", set.Status.UpdatedRevision, first)
			}
			a.rests()
		})
	}
}

// TestStagedRollout moves an image zone by zone, with the kinds with a partition.
func TestStagedRollout(t *testing.T) {
	for _, template := range templates() {
		if template == "deploymentTemplate" {
			continue
		}
		t.Run(template, func(t *testing.T) {
			t.Parallel()
			a := start(t, template, 6)
			a.settled(v1beta1.ReasonComplete)
			for _, step := range []struct {
				partitions    map[string]int32
				image, reason string
				updated       string
			}{
				{map[string]int32{"a": 1, "b": 2, "c": 9}, "app:2", v1beta1.ReasonPartitionReached, "a1 b0 c0"},
				{map[string]int32{"a": 0, "b": 2, "c": 2}, "", v1beta1.ReasonPartitionReached, "a2 b0 c0"},
				{map[string]int32{"b": 1, "c": 2}, "", v1beta1.ReasonPartitionReached, "a2 b1 c0"},
				{nil, "", v1beta1.ReasonComplete, "a2 b2 c2"},
			} {
				a.change(partitions(step.partitions))
				if step.image != "" {
					a.image(step.image)
				}
				a.runs(step.updated, "app:2")
				set := a.settled(step.reason)
				if done := set.Status.CurrentRevision == set.Status.UpdatedRevision; done != (step.reason == v1beta1.ReasonComplete) {
					t.Errorf("with partitions %v the current revision is %s of %s", step.partitions, set.Status.CurrentRevision, set.Status.UpdatedRevision)
				}
				updated := ""
				for _, s := range set.Status.SubsetStatuses {
					updated += fmt.Sprintf(" %s%d", s.Name, s.UpdatedReplicas)
				}
				if updated[1:] != step.updated {
					t.Errorf("the status says %s, want %s", updated, step.updated)
				}
			}
		})
	}
}

// TestPatchOfASubset adds, changes and removes the patch of one subset: its pods follow, and no others.
func TestPatchOfASubset(t *testing.T) {
	t.Parallel()
	a := start(t, "cloneSetTemplate", 3)
	a.settled(v1beta1.ReasonComplete)
	others := [2]types.UID{a.podOf("a").UID, a.podOf("c").UID}
	for _, image := range []string{"app:patched", "app:again"} {
		a.change(func(set *v1beta1.UnitedDeployment) {
			set.Spec.Topology.Subsets[1].Patch = raw(`{"spec":{"containers":[{"name":"main","image":"` + image + `"}]}}`)
		})
		a.runs("a0 b1 c0", image)
		if set := a.settled(v1beta1.ReasonComplete); set.Status.UpdatedReplicas != 3 {
			t.Errorf("%d pods are updated", set.Status.UpdatedReplicas)
		}
		a.runs("a1 b0 c1", "app:1")
	}
	// A pod kept from the patch by the partition is not updated, though the template is the
	// same.
	a.change(func(set *v1beta1.UnitedDeployment) {
		partitions(map[string]int32{"b": 1})(set)
		set.Spec.Topology.Subsets[1].Patch = raw(`{"spec":{"containers":[{"name":"main","image":"app:kept"}]}}`)
	})
	if set := a.settled(v1beta1.ReasonPartitionReached); set.Status.UpdatedReplicas != 2 ||
		condition(set, v1beta1.UnitedDeploymentUpdated, corev1.ConditionFalse, "") != nil {
		t.Errorf("while the partition keeps a pod from its patch, the status is %+v", set.Status)
	}
	a.runs("a0 b1 c0", "app:again")
	a.change(func(set *v1beta1.UnitedDeployment) {
		partitions(nil)(set)
		set.Spec.Topology.Subsets[1].Patch = nil
	})
	a.runs("a1 b1 c1", "app:1")
	a.settled(v1beta1.ReasonComplete)
	if now := [2]types.UID{a.podOf("a").UID, a.podOf("c").UID}; now != others {
		t.Error("pods of other subsets were replaced")
	}
	a.rests()
}

// TestSubsetsComeAndGo adds, removes and renames subsets: at once by default, and after their replacements by annotation.
func TestSubsetsComeAndGo(t *testing.T) {
	t.Parallel()
	a := start(t, "cloneSetTemplate", 4)
	a.settled(v1beta1.ReasonComplete)
	a.change(func(set *v1beta1.UnitedDeployment) { set.Spec.Topology.Subsets = set.Spec.Topology.Subsets[:2] })
	a.runs("a2 b2 c0", "")
	if set := a.settled(v1beta1.ReasonComplete); len(set.Status.SubsetStatuses) != 2 || set.Status.SubsetReplicas["a"] != 2 {
		t.Errorf("the status is %+v", set.Status)
	}

	a.change(func(set *v1beta1.UnitedDeployment) {
		set.Annotations = map[string]string{shared.AnnotationSubsetRemoval: shared.SubsetRemovalAfterReplacement}
		set.Spec.Topology.Subsets = []v1beta1.Subset{{Name: "c", NodeSelectorTerm: zoneTerm("c")}}
		template := a.kind.Template(&set.Spec.Template)
		template.Spec.Raw = []byte(strings.Replace(string(template.Spec.Raw), `"metadata":{`, `"metadata":{"annotations":{"sim.kruise.io/ready-delay":"1s"},`, 1))
	})
	a.EventuallyWithin(limit, "the others go when four pods are ready in c", func(ctx context.Context) error {
		got, err := a.running(ctx, "")
		if err != nil {
			return err
		}
		if !strings.HasPrefix(got, "a2 b2") && !strings.HasSuffix(got, "c4") {
			t.Fatalf("ready pods are %s", got)
		}
		if got != "a0 b0 c4" {
			return fmt.Errorf("ready pods are %s", got)
		}
		return nil
	})
	a.settled(v1beta1.ReasonComplete)
}

// TestAnotherKindOfWorkload replaces the workloads by the next kind's, until they are of
// the first kind again.
func TestAnotherKindOfWorkload(t *testing.T) {
	t.Parallel()
	all := templates()
	a := start(t, all[0], 3)
	a.settled(v1beta1.ReasonComplete)
	for _, next := range append(all[1:], all[0]) {
		a.change(func(set *v1beta1.UnitedDeployment) { setTemplate(set, next, workloadSpec(next)) })
		a.settled(v1beta1.ReasonComplete)
		if left, err := a.workloads(t.Context()); err != nil || len(left) != 0 {
			t.Errorf("%d workloads of %s are left: %v", len(left), a.kind.Field, err)
		}
		set, err := a.get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a.kind = united.Given(&set.Spec.Template)[0]
		if made, err := a.workloads(t.Context()); err != nil || len(made) != 3 {
			t.Errorf("%d workloads of %s: %v", len(made), next, err)
		}
		a.runs("a1 b1 c1", "")
	}
}

// TestLongNames: a UnitedDeployment and a subset with names as long as they may be, with dots, have pods of every kind.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("s", 63)
	for _, template := range templates() {
		t.Run(template, func(t *testing.T) {
			t.Parallel()
			a := start(t, template, 2, func(set *v1beta1.UnitedDeployment) {
				set.Name = strings.Repeat("n", 60) + ".example." + strings.Repeat("m", 40)
				set.Spec.Topology.Subsets = []v1beta1.Subset{{Name: long}, {Name: "b"}}
			})
			if set := a.settled(v1beta1.ReasonComplete); set.Status.ReadyReplicas != 2 {
				t.Errorf("%d pods are ready", set.Status.ReadyReplicas)
			}
			a.image("app:2")
			set := a.settled(v1beta1.ReasonComplete)
			all, err := a.workloads(t.Context())
			if err != nil || len(all) != 2 || all[long] == nil || set.Status.UpdatedReadyReplicas != 2 || set.Status.CurrentRevision != set.Status.UpdatedRevision {
				t.Errorf("%d workloads, status %+v: %v", len(all), set.Status, err)
			}
		})
	}
}

// podOf is the pod of a subset with one.
func (a *app) podOf(subset string) *corev1.Pod {
	a.t.Helper()
	pods := a.Pods("app=app", shared.LabelSubsetName+"="+subset)
	if len(pods) != 1 {
		a.t.Fatalf("subset %s has %d pods", subset, len(pods))
	}
	return &pods[0]
}

// TestFaultsOfOneSubset deletes, edits and refuses workloads: the others go on, and the
// status names the faulty one.
func TestFaultsOfOneSubset(t *testing.T) {
	t.Parallel()
	a := start(t, "cloneSetTemplate", 3)
	a.settled(v1beta1.ReasonComplete)
	all, err := a.workloads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), all["a"], client.PropagationPolicy("Background")); err != nil {
		t.Fatal(err)
	}
	edit := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3,"minReadySeconds":1},"metadata":{"labels":{"mine":"x"}}}`))
	if err := env.Client.Patch(t.Context(), all["b"], edit); err != nil {
		t.Fatal(err)
	}
	a.Eventually("a is there again, and b has its size", func(ctx context.Context) error {
		now, err := a.workloads(ctx)
		if err != nil {
			return err
		}
		if now["a"] == nil || now["a"].GetUID() == all["a"].GetUID() {
			return fmt.Errorf("a is not there")
		}
		size, _, _ := unstructured.NestedInt64(now["b"].Object, "spec", "replicas")
		ready, _, _ := unstructured.NestedInt64(now["b"].Object, "spec", "minReadySeconds")
		if size != 1 || ready != 1 || now["b"].GetLabels()["mine"] != "x" {
			return fmt.Errorf("b has %d replicas, minReadySeconds %d and the labels %v: what others added should stay", size, ready, now["b"].GetLabels())
		}
		return nil
	})
	a.settled(v1beta1.ReasonComplete)
	a.rests()

	quota := &unstructured.Unstructured{}
	quota.SetAPIVersion("v1")
	quota.SetKind("ResourceQuota")
	quota.SetNamespace(a.Name)
	quota.SetName("three")
	quota.Object["spec"] = map[string]any{"hard": map[string]any{"count/clonesets.apps.kruise.io": "3"}}
	if err := env.Client.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	// A young cluster learns late of CloneSets to count, and counts again when a quota
	// changes, or minutes later.
	var asked time.Time
	a.EventuallyWithin(2*time.Minute, "the quota is counted", func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		used, _, _ := unstructured.NestedString(quota.Object, "status", "used", "count/clonesets.apps.kruise.io")
		if used == "3" {
			return nil
		}
		if time.Since(asked) > 5*time.Second {
			asked = time.Now()
			again := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"hard":{"count/secrets":"%d"}}}`, 1000+asked.Second()))
			if err := env.Client.Patch(ctx, quota, again); err != nil {
				return err
			}
		}
		return fmt.Errorf("used: %s", used)
	})
	a.change(func(set *v1beta1.UnitedDeployment) {
		set.Spec.Replicas = ptr.To[int32](8)
		set.Spec.Topology.Subsets = append(set.Spec.Topology.Subsets, v1beta1.Subset{Name: "d"})
	})
	a.runs("a2 b2 c2", "")
	set := a.until("the status names the refused subset", func(set *v1beta1.UnitedDeployment) error {
		return condition(set, v1beta1.UnitedDeploymentSubsetProvisioned, corev1.ConditionFalse, v1beta1.ReasonUnitedDeploymentError)
	})
	names := func(set *v1beta1.UnitedDeployment, kind v1beta1.UnitedDeploymentConditionType) {
		t.Helper()
		if text := message(set, kind); !strings.Contains(text, "subset d") || !strings.Contains(text, "exceeded quota") || strings.Contains(text, "subset a") {
			t.Errorf("%s says %q", kind, text)
		}
	}
	names(set, v1beta1.UnitedDeploymentSubsetFailure)
	if err := condition(set, v1beta1.UnitedDeploymentStalled, corev1.ConditionTrue, v1beta1.ReasonRequestFailed); err == nil {
		t.Error("it is stalled by the first refusal")
	}
	names(a.until("half a minute of refusals have stalled it", func(set *v1beta1.UnitedDeployment) error {
		return condition(set, v1beta1.UnitedDeploymentStalled, corev1.ConditionTrue, v1beta1.ReasonRequestFailed)
	}), v1beta1.UnitedDeploymentStalled)
	if err := env.Client.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	a.settled(v1beta1.ReasonComplete)
}

// TestUpdateOutOfAFailedOne: a hopeless update is followed by a good one. A StatefulSet of
// apps/v1 by itself waits for its failed pod for ever; a subset's goes on, and pods kept by
// the partition stay.
func TestUpdateOutOfAFailedOne(t *testing.T) {
	t.Parallel()
	spec := strings.Replace(workloadSpec("statefulSetTemplate"), `"Parallel"`, `"OrderedReady"`, 1)
	failing := strings.Replace(imageIn(spec, "app:2"), `"metadata":{`, `"metadata":{"annotations":{"sim.kruise.io/ready-delay":"never"},`, 1)
	a := start(t, "statefulSetTemplate", 6, partitions(map[string]int32{"c": 1}), func(set *v1beta1.UnitedDeployment) {
		setTemplate(set, "statefulSetTemplate", spec)
	})
	alone := a.aloneAs(spec)
	a.settled(v1beta1.ReasonComplete)
	kept := a.Pod("app-c-0")
	a.change(func(set *v1beta1.UnitedDeployment) { setTemplate(set, "statefulSetTemplate", failing) })
	alone(failing)
	a.until("it says which pods are not ready", func(set *v1beta1.UnitedDeployment) error {
		for _, zone := range []string{"a", "b", "c"} {
			if want := "ubset " + zone + ": 1 of 2 pods are ready"; !strings.Contains(message(set, v1beta1.UnitedDeploymentReconciling), want) {
				return fmt.Errorf("Reconciling says %q", message(set, v1beta1.UnitedDeploymentReconciling))
			}
		}
		return nil
	})
	a.change(func(set *v1beta1.UnitedDeployment) { setTemplate(set, "statefulSetTemplate", imageIn(spec, "app:3")) })
	alone(imageIn(spec, "app:3"))
	a.runs("a2 b2 c1", "app:3")
	a.settled(v1beta1.ReasonPartitionReached)
	if now := a.Pod("app-c-0"); now == nil || now.UID != kept.UID {
		t.Error("the pod that the partition keeps is another one")
	}
	if pod := a.Pod("alone-1"); pod == nil || pod.Spec.Containers[0].Image != "app:2" {
		t.Errorf("the StatefulSet that stands alone does not wait for its failed pod: this test shows nothing; the pod is %+v", pod)
	}
	a.rests()
}

// aloneAs creates a StatefulSet of apps/v1 without a UnitedDeployment, and returns the
// change of its spec.
func (a *app) aloneAs(spec string) (change func(spec string)) {
	a.t.Helper()
	apply := func(spec string) {
		a.t.Helper()
		set := &unstructured.Unstructured{Object: map[string]any{}}
		if err := json.Unmarshal([]byte(strings.ReplaceAll(spec, `"app":"app"`, `"app":"alone"`)), &set.Object); err != nil {
			a.t.Fatal(err)
		}
		set.Object = map[string]any{"spec": set.Object}
		set.SetAPIVersion("apps/v1")
		set.SetKind("StatefulSet")
		set.SetNamespace(a.Name)
		set.SetName("alone")
		if err := unstructured.SetNestedStringMap(set.Object, map[string]string{"app": "alone"}, "spec", "selector", "matchLabels"); err != nil {
			a.t.Fatal(err)
		}
		if err := unstructured.SetNestedField(set.Object, int64(2), "spec", "replicas"); err != nil {
			a.t.Fatal(err)
		}
		err := env.Client.Apply(a.t.Context(), client.ApplyConfigurationFromUnstructured(set), client.FieldOwner("test"), client.ForceOwnership)
		if err != nil {
			a.t.Fatal(err)
		}
	}
	apply(spec)
	a.Eventually("the StatefulSet that stands alone has two ready pods", func(ctx context.Context) error {
		pods, err := a.ListPods(ctx, "app=alone")
		if err != nil {
			return err
		}
		for i := range pods {
			if !environment.IsReady(&pods[i]) {
				return fmt.Errorf("pod %s is not ready", pods[i].Name)
			}
		}
		if len(pods) != 2 {
			return fmt.Errorf("there are %d pods", len(pods))
		}
		return nil
	})
	return apply
}

// TestUpdatesThatDoNotGoOn pauses updates, and has them wait for deletions: the status says so, and nothing is under way.
func TestUpdatesThatDoNotGoOn(t *testing.T) {
	for template, strategy := range map[string]struct{ paused, onDelete string }{
		"cloneSetTemplate":            {paused: `"updateStrategy":{"rollingUpdate":{"paused":true}},`},
		"deploymentTemplate":          {paused: `"paused":true,`},
		"advancedStatefulSetTemplate": {paused: `"updateStrategy":{"rollingUpdate":{"paused":true}},`, onDelete: `"updateStrategy":{"type":"OnDelete"},`},
		"statefulSetTemplate":         {onDelete: `"updateStrategy":{"type":"OnDelete"},`},
	} {
		t.Run(template, func(t *testing.T) {
			t.Parallel()
			a := start(t, template, 3)
			a.settled(v1beta1.ReasonComplete)
			pods := workloadSpec(template)
			pods = pods[strings.Index(pods, `"template"`):]
			service := ""
			if strings.HasPrefix(workloadSpec(template), `{"serviceName"`) {
				service = `"serviceName":"app","podManagementPolicy":"Parallel",`
			}
			image := 1
			for reason, field := range map[string]string{v1beta1.ReasonPaused: strategy.paused, v1beta1.ReasonOnDelete: strategy.onDelete} {
				if field == "" {
					continue
				}
				image++
				spec := imageIn("{"+service+field+pods, fmt.Sprintf("app:%d", image))
				a.change(func(set *v1beta1.UnitedDeployment) { setTemplate(set, template, spec) })
				set := a.settled(reason)
				if text := message(set, v1beta1.UnitedDeploymentReconciling); !strings.HasPrefix(text, "Subset a: 0 of 1 pod is updated: ") {
					t.Errorf("%s says %q", reason, text)
				}
				if err := condition(set, v1beta1.UnitedDeploymentUpdated, corev1.ConditionFalse, ""); err != nil {
					t.Error(err)
				}
			}
			a.change(func(set *v1beta1.UnitedDeployment) {
				setTemplate(set, template, imageIn("{"+service+pods, fmt.Sprintf("app:%d", image)))
			})
			a.runs("a1 b1 c1", fmt.Sprintf("app:%d", image))
			a.settled(v1beta1.ReasonComplete)
		})
	}
}

// TestScaleOutAndIn scales from 3 to 300 pods and back by the scale subresource, past fixed sizes.
func TestScaleOutAndIn(t *testing.T) {
	t.Parallel()
	a := start(t, "cloneSetTemplate", 3, func(set *v1beta1.UnitedDeployment) { set.Spec.Topology.Subsets[0].Replicas = intOrString("2") })
	a.runs("a2 b0 c1", "")
	for _, step := range []struct{ replicas, pods string }{{"300", "a2 b149 c149"}, {"1", "a1 b0 c0"}, {"0", "a0 b0 c0"}, {"3", "a2 b0 c1"}} {
		if out, err := a.Kubectl("scale", "ud", "app", "--replicas="+step.replicas); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		a.runs(step.pods, "")
		a.settled(v1beta1.ReasonComplete)
	}
	a.rests()
}
