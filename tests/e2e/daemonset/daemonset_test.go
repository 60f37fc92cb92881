// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package daemonset_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/scenario"
)

func everyPod(*corev1.Pod) bool { return true }

// TestStartAndUpdateInPlace starts a pod on every node and changes its image: the pods stay, and restart once.
func TestStartAndUpdateInPlace(t *testing.T) {
	d := start(t, inPlace)
	d.settled(nodes)
	out, err := d.Kubectl("get", "ads", name)
	if err != nil || strings.Join(strings.Fields(out)[:14], " ") != "NAME DESIRED CURRENT READY UP-TO-DATE AVAILABLE AGE STALLED agent 4 4 4 4 4" {
		t.Errorf("kubectl get: %v\n%s", err, out)
	}
	before := d.identities()
	d.update(image(scenario.V2))
	set := d.settled(nodes)
	if after := d.identities(); !maps.Equal(before, after) {
		t.Errorf("the pods were %v, are %v", before, after)
	}
	for _, pod := range d.Pods() {
		if pod.Labels[revisionLabel] != set.Status.UpdateRevision || pod.Status.ContainerStatuses[0].RestartCount != 1 || pod.Spec.Containers[0].Image != scenario.V2 {
			t.Errorf("pod %s: %v, %+v", pod.Name, pod.Labels, pod.Status.ContainerStatuses)
		}
	}
	d.awaitCondition(v1beta1.DaemonSetReconciling, corev1.ConditionFalse, v1beta1.ReasonComplete)
	if out, err := d.Kubectl("wait", "--for=condition=Available", "--timeout=5s", "ads/"+name); err != nil {
		t.Errorf("kubectl wait: %v\n%s", err, out)
	}
}

// imagePullPolicy Always written into the template had no effect: pods counted as having
// it. They have the server's default for the tag, like a native DaemonSet's.
func TestAPullPolicyThatIsWrittenIntoTheTemplateReachesThePods(t *testing.T) {
	d := start(t, inPlace)
	d.settled(nodes)
	const all = "node-0 node-1 node-2 node-3"
	pulls := func(policy corev1.PullPolicy) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool { return p.Spec.Containers[0].ImagePullPolicy == policy }
	}
	write := func(policy corev1.PullPolicy) change {
		return func(set *v1beta1.DaemonSet) { set.Spec.Template.Spec.Containers[0].ImagePullPolicy = policy }
	}
	d.await("the server fills it in by the tag", all, pulls(corev1.PullIfNotPresent))
	before := d.identities()
	for _, policy := range []corev1.PullPolicy{corev1.PullIfNotPresent, ""} {
		d.update(write(policy))
		d.settled(nodes)
		if after := d.identities(); !maps.Equal(before, after) {
			t.Errorf("policy %q, which the pods have, replaced them: they were %v, are %v", policy, before, after)
		}
	}
	d.update(write(corev1.PullAlways))
	d.await("it reaches the pods", all, pulls(corev1.PullAlways))
	d.settled(nodes)
}

// TestPartitionAndSelector keeps nodes at the old revision by number, then by label.
func TestPartitionAndSelector(t *testing.T) {
	changeNode(t, "node-1", `{"metadata":{"labels":{"lane":"canary"}}}`, `{"metadata":{"labels":{"lane":null}}}`)
	d := start(t, inPlace, partition(3))
	d.settled(nodes)
	d.update(image(scenario.V2))
	d.rests("one node is updated", "node-3", withImage(scenario.V2))
	d.awaitCondition(v1beta1.DaemonSetReconciling, corev1.ConditionFalse, v1beta1.ReasonPartitionReached)
	canary := &metav1.LabelSelector{MatchLabels: map[string]string{"lane": "canary"}}
	d.update(partition(0), func(set *v1beta1.DaemonSet) { set.Spec.UpdateStrategy.RollingUpdate.Selector = canary })
	d.rests("the lane is updated", "node-1 node-3", withImage(scenario.V2))
	changeNode(t, "node-0", `{"metadata":{"labels":{"lane":"canary"}}}`, `{"metadata":{"labels":{"lane":null}}}`)
	d.await("a node that gets into the lane is updated", "node-0 node-1 node-3", withImage(scenario.V2))
	d.update(func(set *v1beta1.DaemonSet) { set.Spec.UpdateStrategy.RollingUpdate.Selector = nil })
	d.settled(nodes)
}

// TestSurge runs the new pod of a node beside the old one, on as many nodes as maxSurge says.
func TestSurge(t *testing.T) {
	d := start(t, surge(2))
	d.settled(nodes)
	d.update(image(scenario.V2), sim(simnode.ReadyDelay, "never"))
	d.rests("two nodes have a new pod", "node-2 node-3", withImage(scenario.V2))
	d.rests("all old pods serve", "node-0 node-1 node-2 node-3", func(p *corev1.Pod) bool { return withImage(scenario.V1)(p) && environment.IsReady(p) })
	d.update(sim(simnode.ReadyDelay, "0s"))
	d.settled(nodes)
}

// TestNodesComeAndGo adds, cordons, taints, loses and removes a node.
func TestNodesComeAndGo(t *testing.T) {
	d := start(t, inPlace)
	d.settled(nodes)
	_, add := addNode(t)
	d.settled(nodes + 1)

	changeNode(t, "node-4", `{"spec":{"unschedulable":true}}`, `{"spec":{"unschedulable":null}}`)
	d.update(image(scenario.V2))
	d.settled(nodes + 1)

	d.Delete(t, "node-4")
	d.settled(nodes + 1) // also on a cordoned node

	changeNode(t, "node-4", `{"spec":{"taints":[{"key":"gone","effect":"NoExecute"}]}}`, `{"spec":{"taints":null}}`)
	d.settled(nodes)
	changeNode(t, "node-4", `{"spec":{"taints":null,"unschedulable":null}}`, `{"spec":{"taints":null}}`)
	d.settled(nodes + 1)

	if err := env.Nodes.Remove(t.Context(), "node-4"); err != nil {
		t.Fatal(err)
	}
	d.awaitDesired(nodes)
	add() // under its name, before its pod is collected
	d.settled(nodes + 1)

	d.empty()
}

// Delete deletes the pods of a node.
func (d *daemons) Delete(t *testing.T, node string) {
	t.Helper()
	for _, pod := range d.Pods() {
		if pod.Spec.NodeName == node {
			if err := d.Client.Delete(t.Context(), &pod, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (d *daemons) awaitDesired(n int32) {
	d.t.Helper()
	d.Eventually(fmt.Sprintf("%d nodes are desired", n), func(ctx context.Context) error {
		set := &v1beta1.DaemonSet{}
		if err := d.Client.Get(ctx, d.key(), set); err != nil {
			return err
		}
		if set.Status.DesiredNumberScheduled != n {
			return fmt.Errorf("the status is %+v", set.Status)
		}
		return nil
	})
}

// TestDrain evicts a node's pods as any other workload's, and they are created again; a
// selector leaves them out. It drains only its own pods: kubectl asks again while a pod's
// namespace is terminating, as other tests' may be, even when the pod is gone.
func TestDrain(t *testing.T) {
	own := func(set *v1beta1.DaemonSet) { set.Spec.Template.Labels["drain"] = "me" }
	d := start(t, own)
	d.settled(nodes)
	const schedulable = `{"spec":{"unschedulable":null}}`
	changeNode(t, "node-3", schedulable, schedulable)
	before := d.identities()
	if out, err := d.Kubectl("drain", "node-3", "--pod-selector=app!=agent", "--timeout=30s"); err != nil {
		t.Errorf("drain without the pods: %v\n%s", err, out)
	}
	if after := d.identities(); !maps.Equal(before, after) {
		t.Errorf("the pods were %v, are %v", before, after)
	}
	if out, err := d.Kubectl("drain", "node-3", "--ignore-daemonsets", "--pod-selector=drain=me", "--timeout=60s"); err != nil {
		t.Errorf("drain: %v\n%s", err, out)
	}
	d.settled(nodes) // a daemon runs on a cordoned node
	if after := d.identities(); before["node-3"] == after["node-3"] || before["node-0"] != after["node-0"] {
		t.Errorf("the pods were %v, are %v", before, after)
	}
}

// TestRollback goes back to the template before: its revision is used again.
func TestRollback(t *testing.T) {
	d := start(t, inPlace)
	first := d.settled(nodes).Status.UpdateRevision
	before := d.identities()
	d.update(image(scenario.V2))
	if second := d.settled(nodes).Status.UpdateRevision; second == first {
		t.Errorf("both revisions are %s", first)
	}
	d.update(image(scenario.V1))
	if back := d.settled(nodes).Status.UpdateRevision; back != first {
		t.Errorf("the revision is %s, was %s", back, first)
	}
	if after := d.identities(); !maps.Equal(before, after) {
		t.Errorf("the pods were %v, are %v", before, after)
	}
}

// TestAdoption deletes a set without its pods and creates it again: the pods are adopted and stay.
func TestAdoption(t *testing.T) {
	d := start(t, inPlace)
	set := d.settled(nodes)
	before := d.identities()
	if err := d.Client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	d.Eventually("the set is gone", func(ctx context.Context) error {
		return d.Client.Create(ctx, &v1beta1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.Name, Name: name}, Spec: *set.Spec.DeepCopy()})
	})
	d.settled(nodes)
	if after := d.identities(); !maps.Equal(before, after) {
		t.Errorf("the pods were %v, are %v", before, after)
	}
}

// TestHookBeforeDeletion holds a pod at its preDelete hook, and the rollout with it.
func TestHookBeforeDeletion(t *testing.T) {
	d := start(t, func(set *v1beta1.DaemonSet) {
		set.Spec.Template.Labels["drain"] = "wait"
		set.Spec.Lifecycle = &shared.Lifecycle{PreDelete: &shared.LifecycleHook{LabelsHandler: map[string]string{"drain": "wait"}}}
	})
	d.settled(nodes)
	before := d.identities()
	d.update(image(scenario.V2))
	waiting := func(p *corev1.Pod) bool {
		return p.Labels[shared.LabelLifecycleState] == string(shared.StatePreparingDelete)
	}
	d.rests("one pod waits at its hook", "node-3", waiting)
	if after := d.identities(); !maps.Equal(before, after) {
		t.Errorf("the pods were %v, are %v", before, after)
	}
	for range nodes {
		d.Eventually("the next pod waits at its hook, and is released", func(ctx context.Context) error {
			pods, err := d.ListPods(ctx)
			if err != nil {
				return err
			}
			for i := range pods {
				if waiting(&pods[i]) && pods[i].Labels["drain"] == "wait" && pods[i].DeletionTimestamp == nil {
					return d.Client.Patch(ctx, &pods[i], client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"drain":null}}}`)))
				}
			}
			return fmt.Errorf("none of %s waits", environment.Names(pods))
		})
	}
	d.settled(nodes)
}

// TestProtection refuses to delete a set with the label of deletion protection.
func TestProtection(t *testing.T) {
	d := start(t, func(set *v1beta1.DaemonSet) {
		set.Labels = map[string]string{"policy.kruise.io/delete-protection": "Cascading"}
	})
	set := d.settled(nodes)
	if out, err := d.Kubectl("delete", "ads", name, "--wait=false"); err == nil || !strings.Contains(out, "delete-protection=Cascading") {
		t.Errorf("delete: %v\n%s", err, out)
	}
	if d.set().UID != set.UID {
		t.Error("it is another one")
	}
	d.update(func(set *v1beta1.DaemonSet) { set.Spec.Template.Spec.NodeSelector = map[string]string{"none": "such"} })
	d.settled(0)
	d.awaitCondition(v1beta1.DaemonSetReconciling, corev1.ConditionFalse, v1beta1.ReasonNoNode)
	if out, err := d.Kubectl("delete", "ads", name); err != nil {
		t.Errorf("delete without pods: %v\n%s", err, out)
	}
}

// TestOlderVersion writes and reads through v1alpha1.
func TestOlderVersion(t *testing.T) {
	d := &daemons{env.Namespace(t), t}
	d.Apply(`apiVersion: apps.kruise.io/v1alpha1
kind: DaemonSet
metadata:
  name: agent
  annotations: {daemonset.kruise.io/progressive-create-pod: "true"}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: main, image: "` + scenario.V1 + `"}]}
  updateStrategy: {rollingUpdate: {rollingUpdateType: Surging, partition: 1}}
`)
	d.rests("pods are created step by step", "node-0 node-1 node-2", everyPod)
	set := d.set()
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if set.Spec.ScaleStrategy == nil || !set.Spec.ScaleStrategy.PartitionedScaling || len(set.Annotations) != 0 || rolling.MaxSurge.IntValue() != 1 ||
		rolling.MaxUnavailable.IntValue() != 0 || rolling.Type != v1beta1.StandardRollingUpdateType {
		t.Errorf("v1beta1: %v, %+v, %+v", set.Annotations, set.Spec.ScaleStrategy, rolling)
	}
	out, err := d.Kubectl("get", "daemonsets.v1alpha1.apps.kruise.io", name, "-o", `jsonpath={.metadata.annotations.daemonset\.kruise\.io/progressive-create-pod} {.status.daemonSetHash}`)
	if err != nil || out != "true "+set.Status.UpdateRevision {
		t.Errorf("v1alpha1: %v, %s", err, out)
	}
	d.update(func(set *v1beta1.DaemonSet) { set.Spec.ScaleStrategy.PartitionedScaling = false })
	d.await("every node has a pod", "node-0 node-1 node-2 node-3", everyPod)
}

// TestRefusals asks the API server for changes admission refuses.
func TestRefusals(t *testing.T) {
	d := start(t)
	for name, tc := range map[string]struct {
		change change
		want   string
	}{
		"both limits": {func(set *v1beta1.DaemonSet) {
			surge(1)(set)
			set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = set.Spec.UpdateStrategy.RollingUpdate.MaxSurge
		}, "maxSurge: Invalid value: 1: must be 0 while maxUnavailable is not"},
		"surge in place":    {func(set *v1beta1.DaemonSet) { surge(1)(set); inPlace(set) }, "maxSurge: Invalid value: 1: must be 0 when rollingUpdateType is InPlaceIfPossible"},
		"another selector":  {func(set *v1beta1.DaemonSet) { set.Spec.Selector.MatchLabels["x"] = "y" }, "spec.selector"},
		"negative limits":   {partition(-1), "partition: Invalid value: -1"},
		"a faulty template": {image(""), "spec.template.spec.containers[0].image"},
		"a short-lived pod": {func(set *v1beta1.DaemonSet) { set.Spec.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](5) }, "activeDeadlineSeconds"},
	} {
		d.Eventually(name+" is refused", func(ctx context.Context) error {
			set := d.set()
			tc.change(set)
			err := d.Client.Update(ctx, set)
			if err == nil {
				t.Fatalf("%s was let in", name)
			}
			if !strings.Contains(err.Error(), tc.want) {
				return err
			}
			return nil
		})
	}
}
