// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// statusBecomes waits until the status has these counters, whatever its conditions say.
func statusBecomes(n *environment.Namespace, name, what string, want v1beta1.StatefulSetStatus) *v1beta1.StatefulSet {
	set := &v1beta1.StatefulSet{}
	n.Eventually(what, func(ctx context.Context) error {
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, set); err != nil {
			return err
		}
		want.ObservedGeneration = set.Generation
		diff := cmp.Diff(want, set.Status, cmpopts.IgnoreFields(v1beta1.StatefulSetStatus{}, "Conditions"))
		if diff != "" {
			return fmt.Errorf("the status (-want +got):\n%s", diff)
		}
		return nil
	})
	return set
}

// verdict is kstatus's of the object: Failed, InProgress, Current or Terminating.
func verdict(set *v1beta1.StatefulSet) string {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
	if err != nil {
		return err.Error()
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(v1beta1.GroupVersion().WithKind("StatefulSet"))
	result, err := kstatus.Compute(u)
	if err != nil {
		return err.Error()
	}
	return result.Status.String()
}

func TestStatusCountsEveryPod(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 6))
	first := n.Settled("web")
	current := first.Status.UpdateRevision
	statusBecomes(n, "web", "everything is done", v1beta1.StatefulSetStatus{
		Replicas: 6, ReadyReplicas: 6, AvailableReplicas: 6, CurrentReplicas: 6, UpdatedReplicas: 6, UpdatedReadyReplicas: 6,
		UpdatedAvailableReplicas: 6, CurrentRevision: current, UpdateRevision: current, LabelSelector: "app=web",
		CollisionCount: ptr.To[int32](0),
	})

	n.Change("web", func(set *v1beta1.StatefulSet) {
		set.Spec.Template.Spec.Containers[0].Image = "example/web:v2"
		set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To[int32](2)
	})
	n.Eventually("four pods are updated", func(context.Context) error {
		if s := n.StatefulSet("web").Status; s.UpdatedAvailableReplicas != 4 || s.UpdateRevision == current {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
	update := n.StatefulSet("web").Status.UpdateRevision
	counted := v1beta1.StatefulSetStatus{
		Replicas: 6, ReadyReplicas: 6, AvailableReplicas: 6, CurrentReplicas: 2, UpdatedReplicas: 4, UpdatedReadyReplicas: 4,
		UpdatedAvailableReplicas: 4, CurrentRevision: current, UpdateRevision: update, LabelSelector: "app=web",
		CollisionCount: ptr.To[int32](0),
	}
	set := statusBecomes(n, "web", "the partition is reached", counted)
	if got := condition(set, v1beta1.StatefulSetProgressing); got == nil || got.Status != corev1.ConditionFalse || got.Reason != v1beta1.ReasonPartitionReached {
		t.Errorf("Progressing is %+v, want False for %s", got, v1beta1.ReasonPartitionReached)
	}
	if got := verdict(set); got != "Current" {
		t.Errorf("with the partition reached kstatus says %s, want Current", got)
	}

	// One pod of each revision is not ready.
	for _, pod := range []string{"web-0", "web-5"} {
		n.PatchPod(pod, `{"metadata":{"annotations":{"`+simnode.NotReady+`":"true"}}}`)
	}
	counted.ReadyReplicas, counted.AvailableReplicas, counted.UpdatedReadyReplicas, counted.UpdatedAvailableReplicas = 4, 4, 3, 3
	set = statusBecomes(n, "web", "two pods are not ready", counted)
	n.Eventually("two are unavailable and one may be", func(context.Context) error {
		set = n.StatefulSet("web")
		if !is(set, v1beta1.StatefulSetAvailable, corev1.ConditionFalse) || verdict(set) != "InProgress" {
			return fmt.Errorf("the conditions are %+v", set.Status.Conditions)
		}
		return nil
	})

	// Ready is not available before its time.
	n.Change("web", func(set *v1beta1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.MinReadySeconds = ptr.To[int32](300)
	})
	counted.AvailableReplicas, counted.UpdatedAvailableReplicas = 0, 0
	statusBecomes(n, "web", "no pod has been ready for five minutes", counted)

	// A terminating pod exists, but is not one of its revision.
	n.PatchPod("web-0", `{"metadata":{"annotations":{"`+simnode.HangTerminate+`":"true"}}}`)
	if err := n.Client.Delete(t.Context(), n.Pod("web-0")); err != nil {
		t.Fatal(err)
	}
	counted.CurrentReplicas = 1
	statusBecomes(n, "web", "one pod is terminating", counted)
}

func TestConditionsFollowTheSet(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 3, "image: example/web:v1", "image: example/unpullable:v1"))
	n.Eventually("the pods do not become available", func(context.Context) error {
		set := n.StatefulSet("web")
		if set.Status.Replicas != 3 || verdict(set) != "InProgress" || !is(set, v1beta1.StatefulSetAvailable, corev1.ConditionFalse) ||
			!is(set, v1beta1.StatefulSetProgressing, corev1.ConditionTrue) || !is(set, v1beta1.StatefulSetStalled, corev1.ConditionFalse) {
			return fmt.Errorf("the status is %+v", set.Status)
		}
		return nil
	})
	n.SetImage("web", "example/web:v1")
	for _, wait := range []string{"condition=Available", "condition=Reconciling=False", "condition=Progressing=False", "condition=Stalled=False", "jsonpath={.status.readyReplicas}=3"} {
		if out, err := n.Kubectl("wait", "--for="+wait, "--timeout=60s", "asts/web"); err != nil {
			t.Errorf("kubectl wait for %s: %v: %s", wait, err, out)
		}
	}
	set := n.Settled("web")
	if got := verdict(set); got != "Current" {
		t.Errorf("kstatus says %s of a set at rest, want Current", got)
	}
	if got := condition(set, v1beta1.StatefulSetProgressing); got == nil || got.Reason != v1beta1.ReasonComplete {
		t.Errorf("Progressing is %+v, want the reason %s", got, v1beta1.ReasonComplete)
	}

	// A blocked rollout is reported with the limit and the pods using it up.
	n.SetImage("web", "example/unpullable:v2")
	n.Eventually("the set says which limit holds it back", func(context.Context) error {
		for _, c := range n.StatefulSet("web").Status.Conditions {
			if c.Type == v1beta1.StatefulSetReconciling && strings.Contains(c.Message, "2 pods wait: maxUnavailable 1 is used up by web-2") {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", n.StatefulSet("web").Status.Conditions)
	})
	n.SetImage("web", "example/web:v1")
	n.Settled("web")

	// A change impossible in place needs the user. Admission refuses it under the policy
	// InPlaceOnly, but not before.
	n.Change("web", func(set *v1beta1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.Paused = true
		set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NEW", Value: "yes"}}
	})
	n.Change("web", func(set *v1beta1.StatefulSet) {
		set.Spec.UpdateStrategy.RollingUpdate.Paused = false
		set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = "InPlaceOnly"
	})
	n.Eventually("the set is stalled", func(context.Context) error {
		if set = n.StatefulSet("web"); verdict(set) != "Failed" {
			return fmt.Errorf("the conditions are %+v", set.Status.Conditions)
		}
		return nil
	})
	if is(set, v1beta1.StatefulSetReconciling, corev1.ConditionTrue) {
		t.Error("Reconciling and Stalled are both True")
	}
	if !is(set, v1beta1.StatefulSetFailedUpdatePod, corev1.ConditionTrue) {
		t.Errorf("FailedUpdatePod is not True: %+v", set.Status.Conditions)
	}
}

func TestScaleSubresource(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 2))
	set := n.Settled("web")
	scale := &autoscalingv1.Scale{}
	if err := n.Client.SubResource("scale").Get(t.Context(), set, scale); err != nil {
		t.Fatal(err)
	}
	if scale.Spec.Replicas != 2 || scale.Status.Replicas != 2 || scale.Status.Selector != "app=web" {
		t.Errorf("the scale is %+v %+v", scale.Spec, scale.Status)
	}
	scale.Spec.Replicas = 4
	if err := n.Client.SubResource("scale").Update(t.Context(), set, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	n.Settled("web")
	if out, err := n.Kubectl("scale", "--replicas=1", "--current-replicas=4", "statefulsets.v1alpha1.apps.kruise.io/web"); err != nil {
		t.Fatalf("kubectl scale: %v: %s", err, out)
	}
	n.Settled("web")
	if got := environment.Names(n.Pods()); !slices.Equal(got, []string{"web-0"}) {
		t.Errorf("the pods are %v, want web-0", got)
	}
}

func TestPrinterColumns(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 2))
	n.Settled("web")
	for _, kind := range []string{"statefulsets.v1beta1.apps.kruise.io", "statefulsets.v1alpha1.apps.kruise.io", "asts", "sts.apps.kruise.io"} {
		for _, tc := range []struct {
			args         []string
			header, line string
		}{
			{nil, "NAME DESIRED CURRENT UPDATED READY AGE STALLED", "web 2 2 2 2"},
			{[]string{"-o", "wide"}, "NAME DESIRED CURRENT UPDATED READY AGE CONTAINERS IMAGES STALLED", "web 2 2 2 2"},
		} {
			out, err := n.Kubectl(append([]string{"get", kind, "web"}, tc.args...)...)
			if err != nil {
				t.Fatalf("kubectl get %s: %v: %s", kind, err, out)
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			header := strings.Join(strings.Fields(lines[0]), " ")
			row := strings.Join(strings.Fields(lines[len(lines)-1]), " ")
			if header != tc.header || !strings.HasPrefix(row, tc.line+" ") {
				t.Errorf("kubectl get %s %v prints\n%s\nwant %q and %q", kind, tc.args, out, tc.header, tc.line)
			}
			if tc.args != nil && !strings.HasSuffix(row, " main example/web:v1 False") {
				t.Errorf("kubectl get %s -o wide does not end with container, image and what stalls it: %q", kind, row)
			}
		}
	}
}

func TestEventsTellWhatHappened(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(environment.StatefulSetManifest("web", 2))
	n.Settled("web")
	n.SetImage("web", "example/web:v2")
	n.Settled("web")
	n.Change("web", func(set *v1beta1.StatefulSet) {
		set.Spec.Replicas = ptr.To[int32](1)
		set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	})
	n.Settled("web")
	for reason, pods := range map[string][]string{
		"SuccessfulCreate":           {"web-0", "web-1"},
		"SuccessfulUpdatePodInPlace": {"web-0", "web-1"},
		"SuccessfulDelete":           {"web-1"},
	} {
		n.Eventually(fmt.Sprintf("there is an event %s about %v", reason, pods), func(context.Context) error {
			var related []string
			for _, e := range events(t, n, "web", reason) {
				if e.ReportingController != "statefulset-controller" || e.Type != corev1.EventTypeNormal || e.Action == "" {
					t.Errorf("an event is reported by %q with type %s and action %q: %s", e.ReportingController, e.Type, e.Action, e.Note)
				}
				if e.Related == nil || e.Related.Kind != "Pod" || !strings.Contains(e.Note, e.Related.Name) {
					t.Errorf("the event %q relates to %+v, want its pod", e.Note, e.Related)
					continue
				}
				related = append(related, e.Related.Name)
			}
			slices.Sort(related)
			if !slices.Equal(related, pods) {
				return fmt.Errorf("the events relate to %v", related)
			}
			return nil
		})
	}
}
