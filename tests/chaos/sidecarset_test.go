// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/faultproxy"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

const (
	agentV1 = "example/agent:v1"
	agentV2 = "example/agent:v2"
	// agentIdle runs in the idle container of a pair.
	agentIdle = "example/idle:v1"
)

// createAgents creates the set with the given way of upgrading its container.
func createAgents(upgrade v1beta1.SidecarUpgradeStrategy) chaos.Step {
	return chaos.Step{Settled: injecting, Do: func(w *chaos.World) {
		w.T.Helper()
		set := &v1beta1.SidecarSet{
			ObjectMeta: metav1.ObjectMeta{Name: "agents", Labels: map[string]string{faultproxy.LaneLabel: w.Name}},
			Spec: v1beta1.SidecarSetSpec{
				Selector:          &metav1.LabelSelector{MatchLabels: map[string]string{"app": scenario.Name}},
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.Name}},
				Containers:        []v1beta1.SidecarContainer{{Container: corev1.Container{Name: "agent", Image: agentV1}, UpgradeStrategy: upgrade}},
				UpdateStrategy:    v1beta1.SidecarSetUpdateStrategy{MaxUnavailable: ptr.To(intstr.FromInt32(1))},
			},
		}
		if err := w.Client.Create(w.T.Context(), set); err != nil {
			w.T.Fatal(err)
		}
	}}
}

// deployApp creates a Deployment of three pods for the set.
func deployApp(settled func(context.Context, *chaos.World) error) chaos.Step {
	return chaos.Step{Settled: settled, Do: func(w *chaos.World) {
		w.T.Helper()
		labels := map[string]string{"app": scenario.Name}
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Name, Name: scenario.Name},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](3), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](0), Containers: []corev1.Container{{Name: "main", Image: scenario.V1}},
				}},
			},
		}
		if err := w.Client.Create(w.T.Context(), deployment); err != nil {
			w.T.Fatal(err)
		}
	}}
}

// sidecarSets are scenarios of a SidecarSet: the API server injects by its policy, or asks
// an operator, and the operator updates in place.
func sidecarSets() []chaos.Scenario {
	create, deploy := createAgents(v1beta1.SidecarUpgradeStrategy{}), deployApp(agents(3, agentV1, v1beta1.ReasonComplete))
	hot := createAgents(v1beta1.SidecarUpgradeStrategy{UpgradeType: v1beta1.HotUpgrade, HotUpgradeEmptyImage: agentIdle})
	change := func(settled func(context.Context, *chaos.World) error, change func(*v1beta1.SidecarSet)) chaos.Step {
		return chaos.Step{Settled: settled, Do: func(w *chaos.World) {
			w.T.Helper()
			w.Eventually("the SidecarSet is changed", func(ctx context.Context) error {
				set := &v1beta1.SidecarSet{}
				if err := w.Client.Get(ctx, client.ObjectKey{Name: "agents"}, set); err != nil {
					return err
				}
				change(set)
				return w.Client.Update(ctx, set)
			})
		}}
	}
	image := func(to string) func(*v1beta1.SidecarSet) {
		return func(set *v1beta1.SidecarSet) { set.Spec.Containers[0].Image = to }
	}
	pause := func(is bool) func(*v1beta1.SidecarSet) {
		return func(set *v1beta1.SidecarSet) { set.Spec.UpdateStrategy.Paused = is }
	}
	// Pods created during the change have the sidecar of before or of after.
	grow := change(agents(4, agentV2, v1beta1.ReasonComplete), image(agentV2))
	also := chaos.Step{Settled: grow.Settled, Do: func(w *chaos.World) {
		w.T.Helper()
		grow.Do(w)
		scaleTo4(w)
	}}
	clones := apply(injectedSet, both(agents(3, agentV1, v1beta1.ReasonComplete), clonesMoved), "IMAGE", scenario.V1)
	twoOwners := change(both(agents(3, agentV2, v1beta1.ReasonComplete), clonesMoved), image(agentV2))
	together := chaos.Step{Settled: twoOwners.Settled, Do: func(w *chaos.World) {
		w.T.Helper()
		twoOwners.Do(w)
		w.Apply(strings.ReplaceAll(injectedSet, "IMAGE", scenario.V2))
	}}
	deleted := chaos.Step{Settled: registeredAgain, Do: deleteRegistration}
	another := chaos.Step{Settled: agents(4, agentV1, v1beta1.ReasonComplete), Do: scaleTo4}
	all := []chaos.Scenario{
		{Name: "policy-deleted-by-a-user", Steps: []chaos.Step{create, deploy, deleted, another}},
		{Name: "pods-come-while-it-is-changed", Steps: []chaos.Step{create, deploy, also}},
		{Name: "updated-beside-a-cloneset", Steps: []chaos.Step{create, clones, together}},
		{Name: "inject-and-upgrade", Steps: []chaos.Step{create, deploy, change(agents(3, agentV2, v1beta1.ReasonComplete), image(agentV2))}},
		{Name: "injected-by-webhook", Args: []string{"--admission-mode=Webhook"}, Steps: []chaos.Step{
			create, deploy, change(agents(3, agentV2, v1beta1.ReasonComplete), image(agentV2)),
			{Settled: agents(4, agentV2, v1beta1.ReasonComplete), Do: scaleTo4},
		}},
		{Name: "upgraded-hot", Observe: pairsServe, Steps: []chaos.Step{
			hot, deployApp(sidecars(3, v1beta1.ReasonComplete, pair(agentV1, agentIdle))),
			change(sidecars(3, v1beta1.ReasonComplete, pair(agentIdle, agentV2)), image(agentV2)),
		}},
		{Name: "paused", Steps: []chaos.Step{
			create, deploy,
			change(agents(3, agentV1, v1beta1.ReasonPaused), func(set *v1beta1.SidecarSet) { image(agentV2)(set); pause(true)(set) }),
			change(agents(3, agentV2, v1beta1.ReasonComplete), pause(false)),
		}},
	}
	for i := range all {
		all[i].Kind, all[i].RandomNames, all[i].Everywhere = "SidecarSet", true, true
		if all[i].Observe == nil {
			all[i].Observe = agentsWithin
		}
		all[i].Kinds = []string{"SidecarSet"}
		all[i].Made = []string{"deployments.apps"}
		if all[i].Name == "updated-beside-a-cloneset" {
			all[i].Kinds, all[i].Made = []string{"SidecarSet", "CloneSet"}, []string{"clonesets.apps.kruise.io"}
		}
		all[i].Trailing = 11 * time.Second // revisions that nothing registers any more go after ten
	}
	return all
}

// injectedSet is a CloneSet whose pods get the sidecar. Both owners update containers of
// the same pods in place.
const injectedSet = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly, maxUnavailable: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "IMAGE"}]
`

// clonesMoved: all pods of the CloneSet have its newest revision.
func clonesMoved(ctx context.Context, w *chaos.World) error {
	set := &v1beta1.CloneSet{}
	if err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Name, Name: "web"}, set); err != nil {
		return err
	}
	if s := set.Status; s.ObservedGeneration != set.Generation || s.UpdatedAvailableReplicas != 3 || s.CurrentRevision != s.UpdateRevision {
		return fmt.Errorf("the status is %+v", s)
	}
	return nil
}

func scaleTo4(w *chaos.World) {
	w.T.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Name, Name: scenario.Name}}
	if err := w.Client.Patch(w.T.Context(), deployment, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":4}}`))); err != nil {
		w.T.Fatal(err)
	}
}

// registration is the set's binding, and its policy; nil without them.
func registration(ctx context.Context, w *chaos.World) (*admissionv1.MutatingAdmissionPolicyBinding, *admissionv1.MutatingAdmissionPolicy, error) {
	bindings := &admissionv1.MutatingAdmissionPolicyBindingList{}
	if err := w.Client.List(ctx, bindings); err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(bindings.Items, func(b admissionv1.MutatingAdmissionPolicyBinding) bool {
		return slices.ContainsFunc(b.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "SidecarSet" && o.Name == "agents" })
	})
	if i < 0 {
		return nil, nil, nil
	}
	policy := &admissionv1.MutatingAdmissionPolicy{}
	err := w.Client.Get(ctx, client.ObjectKey{Name: bindings.Items[i].Spec.PolicyName}, policy)
	if apierrors.IsNotFound(err) {
		return &bindings.Items[i], nil, nil
	}
	return &bindings.Items[i], policy, err
}

// deleteRegistration plays a user deleting the injecting policy and the set's binding.
func deleteRegistration(w *chaos.World) {
	w.T.Helper()
	ctx := w.T.Context()
	binding, policy, err := registration(ctx, w)
	if err != nil || binding == nil || policy == nil {
		w.T.Fatalf("the set is bound by %v to %v: %v", binding, policy, err)
	}
	for _, object := range []client.Object{policy, binding} {
		if err := w.Client.Delete(ctx, object); err != nil {
			w.T.Fatal(err)
		}
	}
}

// registeredAgain: the set's policy and binding exist, and the API server injects by them;
// the status may be an old one.
func registeredAgain(ctx context.Context, w *chaos.World) error {
	binding, policy, err := registration(ctx, w)
	if err != nil {
		return err
	}
	if binding == nil || policy == nil {
		return fmt.Errorf("the set is bound by %v to %v", binding, policy)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Name, Name: "asked", Labels: map[string]string{"app": scenario.Name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: scenario.V1}}},
	}
	if err := w.Client.Create(ctx, pod, client.DryRunAll); err != nil {
		return err
	}
	if len(pod.Spec.Containers) != 2 {
		return fmt.Errorf("a pod has the containers %v", pod.Spec.Containers)
	}
	return agents(3, agentV1, v1beta1.ReasonComplete)(ctx, w)
}

// injecting: the API server injects in the scenario's way, proven.
func injecting(ctx context.Context, w *chaos.World) error {
	set := &v1beta1.SidecarSet{}
	if err := w.Client.Get(ctx, client.ObjectKey{Name: "agents"}, set); err != nil {
		return err
	}
	path := v1beta1.ReasonInjectedByPolicy
	if len(w.Lane.Args) > 0 {
		path = v1beta1.ReasonInjectedByWebhook
	}
	c := meta.FindStatusCondition(set.Status.Conditions, string(v1beta1.SidecarSetInjectionPath))
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason != path || set.Status.ObservedGeneration != set.Generation {
		return fmt.Errorf("the condition is %+v", c)
	}
	return nil
}

// agents: all pods are ready and have the sidecar with an image, and the set rests for a
// reason.
func agents(count int, image, reason string) func(context.Context, *chaos.World) error {
	return sidecars(count, reason, map[string]string{"agent": image})
}

// pair are the images of a pair.
func pair(first, second string) map[string]string {
	return map[string]string{"agent-1": first, "agent-2": second}
}

// sidecars: all pods are ready and have sidecars with these images, by name, and the set
// rests for a reason.
func sidecars(count int, reason string, images map[string]string) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		if err := injecting(ctx, w); err != nil {
			return err
		}
		set := &v1beta1.SidecarSet{}
		if err := w.Client.Get(ctx, client.ObjectKey{Name: "agents"}, set); err != nil {
			return err
		}
		c := meta.FindStatusCondition(set.Status.Conditions, string(v1beta1.SidecarSetReconciling))
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason || set.Status.ReadyPods != int32(count) {
			return fmt.Errorf("the status is %+v", set.Status)
		}
		all, err := w.ListPods(ctx)
		if err != nil {
			return err
		}
		ready := 0
		for i := range all {
			have := map[string]string{}
			for _, c := range all[i].Spec.Containers {
				if c.Name != "main" {
					have[c.Name] = c.Image
				}
			}
			if environment.IsReady(&all[i]) && maps.Equal(have, images) {
				ready++
			}
		}
		if ready != count || len(all) != count {
			return fmt.Errorf("of %d pods %d are ready with %v", len(all), ready, images)
		}
		return nil
	}
}

// agentsWithin judges that each new pod has the sidecar, and at most one is out of service
// for a changed one. A pod unready anyhow, such as one its CloneSet just took out of
// service, may be changed beside it for free.
func agentsWithin(w *chaos.World) {
	images, taken := map[types.UID]string{}, map[types.UID]bool{}
	chaos.Follow(w, &corev1.PodList{}, func(object client.Object, deleted bool) error {
		pod, _ := object.(*corev1.Pod)
		i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "agent" })
		if i < 0 {
			return fmt.Errorf("pod %s has no sidecar", pod.Name)
		}
		before, known := images[pod.UID]
		images[pod.UID] = pod.Spec.Containers[i].Image
		switch {
		case deleted || pod.DeletionTimestamp != nil:
			delete(taken, pod.UID)
		case known && before != images[pod.UID] && environment.IsReady(pod):
			taken[pod.UID] = true
		case taken[pod.UID] && environment.IsReady(pod) && runs(pod, "agent", images[pod.UID]):
			delete(taken, pod.UID)
		}
		if len(taken) > 1 {
			return fmt.Errorf("%d pods get another sidecar at a time, allowed is 1", len(taken))
		}
		return nil
	})
}

// runs: a pod's sidecar runs the image.
func runs(pod *corev1.Pod, name, image string) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == name && c.Ready && (c.Image == image || c.Image == "docker.io/"+image)
	})
}

// pairsServe judges that, once a pod has served, one container of its pair always runs a
// wanted, busy image, and at most one pod has two busy ones.
func pairsServe(w *chaos.World) {
	served, both := map[types.UID]bool{}, map[types.UID]bool{}
	chaos.Follow(w, &corev1.PodList{}, func(object client.Object, deleted bool) error {
		pod, _ := object.(*corev1.Pod)
		if deleted || pod.DeletionTimestamp != nil {
			delete(served, pod.UID)
			delete(both, pod.UID)
			return nil
		}
		serving, working := false, 0
		for _, c := range pod.Spec.Containers {
			if c.Name != "main" && c.Image != agentIdle {
				working++
				serving = serving || runs(pod, c.Name, c.Image)
			}
		}
		if served[pod.UID] = served[pod.UID] || serving; served[pod.UID] && !serving {
			return fmt.Errorf("no container of the pair of pod %s serves", pod.Name)
		}
		if delete(both, pod.UID); working > 1 {
			both[pod.UID] = true
		}
		if len(both) > 1 {
			return fmt.Errorf("%d pods are upgraded at a time, allowed is 1", len(both))
		}
		return nil
	})
}
