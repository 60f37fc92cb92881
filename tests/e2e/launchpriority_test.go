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

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/launch"
	"github.com/kruise-operator/kruise-operator/internal/engine/restart"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// orderedSet is a StatefulSet of one pod whose containers start in sequence.
const orderedSet = `
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: web
  replicas: 1
  selector: {matchLabels: {app: web}}
  updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}
  template:
    metadata:
      labels: {app: web}
      annotations: {apps.kruise.io/container-launch-priority: Ordered, sim.kruise.io/not-ready: db}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: db, image: "example/db:v1"}
      - {name: app, image: "example/app:v1"}
      - {name: log, image: "example/log:v1"}
`

// looking is how long a test looks on to see nothing happen.
const looking = 2 * time.Second

// begun are a pod's containers that have been there, in the spec's order.
func begun(pod *corev1.Pod) string {
	var names []string
	for _, c := range pod.Spec.Containers {
		if s := restart.StatusOf(pod, c.Name); s != nil && s.ContainerID != "" {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, " ")
}

func podHasBegun(n *environment.Namespace, name, want string) {
	n.Eventually("of pod "+name+" have begun: "+want, func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, pod); err != nil {
			return err
		}
		if got := begun(pod); got != want {
			return fmt.Errorf("%q, the status is %+v", got, pod.Status.ContainerStatuses)
		}
		return nil
	})
}

// keys are the keys of a pod's barrier, and its owner's UID.
func keys(ctx context.Context, n *environment.Namespace, pod string) (list []string, owner string, err error) {
	barrier := &corev1.ConfigMap{}
	if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: launch.BarrierName(pod)}, barrier); err != nil {
		return nil, "", err
	}
	for key := range barrier.Data {
		list = append(list, key)
	}
	slices.Sort(list)
	for _, o := range barrier.OwnerReferences {
		owner = string(o.UID)
	}
	return list, owner, nil
}

func barrierHas(n *environment.Namespace, pod string, want ...string) {
	n.Eventually(fmt.Sprintf("the barrier of pod %s has %v", pod, want), func(ctx context.Context) error {
		list, owner, err := keys(ctx, n, pod)
		if err == nil && (!slices.Equal(list, want) || owner != string(n.Pod(pod).UID)) {
			err = fmt.Errorf("it has %v and is of %s", list, owner)
		}
		return err
	})
}

func told(n *environment.Namespace, pod, reason, words string) {
	n.Eventually("event "+reason+" of pod "+pod, func(ctx context.Context) error {
		list := &eventsv1.EventList{}
		if err := n.Client.List(ctx, list, client.InNamespace(n.Name)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.Name == pod && e.Reason == reason && strings.Contains(e.Note, words) {
				return nil
			}
		}
		return errors.New("there is none")
	})
}

// Without any webhook or policy, the containers of a workload's pod start one after the other, change in place in the same order, and start again
// when the barrier was deleted meanwhile.
func TestContainersStartInOrder(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(orderedSet)
	podHasBegun(n, "web-0", "db")
	barrierHas(n, "web-0", "p_0")
	n.Consistently(looking, "the others wait", func(context.Context) error {
		if got := begun(n.Pod("web-0")); got != "db" {
			return fmt.Errorf("have begun: %s", got)
		}
		return nil
	})
	n.Eventually("the set says why", func(context.Context) error {
		for _, c := range n.StatefulSet("web").Status.Conditions {
			if c.Status == corev1.ConditionTrue && strings.Contains(c.Message, "starts when db is ready, by its launch priority") {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", n.StatefulSet("web").Status.Conditions)
	})
	n.PatchPod("web-0", `{"metadata":{"annotations":{"`+simnode.NotReady+`":null}}}`)
	podHasBegun(n, "web-0", "db app log")
	barrierHas(n, "web-0", "p_-1", "p_-2", "p_0")
	n.Eventually("the pod is marked", func(context.Context) error {
		if pod := n.Pod("web-0"); !launch.Completed(pod) || !environment.IsReady(pod) {
			return fmt.Errorf("the annotations are %v", pod.Annotations)
		}
		return nil
	})
	told(n, "web-0", "LaunchPriorityReleased", "Launch priority -1 may start: app; ready before: db")
	pod := n.Pod("web-0")
	for i, c := range pod.Spec.Containers {
		if priority, ok := launch.At("web-0", &c); !ok || priority != -i || c.Env[len(c.Env)-1] != launch.Variable("web-0", -i, "") && len(c.Env) != 1 {
			t.Errorf("container %s: %d, %v", c.Name, priority, ok)
		}
	}

	// A restarting container finds its released key, even after the barrier was deleted.
	if err := n.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "web-0-barrier"}}); err != nil {
		t.Fatal(err)
	}
	if err := env.Nodes.KillContainer(n.Name, "web-0", "app", 1); err != nil {
		t.Fatal(err)
	}
	n.Eventually("app runs again", func(context.Context) error {
		s := restart.StatusOf(n.Pod("web-0"), "app")
		if s.RestartCount != 1 || s.State.Running == nil {
			return fmt.Errorf("its status is %+v", s)
		}
		return nil
	})
	barrierHas(n, "web-0", "p_-1", "p_-2", "p_0")

	// An update in place goes in the same order.
	n.PatchPod("web-0", `{"metadata":{"annotations":{"`+simnode.RestartDelay+`":"db=never,app=0s"}}}`)
	n.Change("web", func(set *v1beta1.StatefulSet) {
		set.Spec.Template.Spec.Containers[0].Image = "example/db:v2"
		set.Spec.Template.Spec.Containers[1].Image = "example/app:v2"
	})
	images := func(want string) func(context.Context) error {
		return func(context.Context) error {
			pod := n.Pod("web-0")
			if got := pod.Spec.Containers[0].Image + " " + pod.Spec.Containers[1].Image; got != want {
				return fmt.Errorf("the images are %s", got)
			}
			return nil
		}
	}
	n.Eventually("db goes first", images("example/db:v2 example/app:v1"))
	n.Consistently(looking, "app waits for db", images("example/db:v2 example/app:v1"))
	n.PatchPod("web-0", `{"metadata":{"annotations":{"`+simnode.RestartDelay+`":null}}}`)
	n.Eventually("app follows", images("example/db:v2 example/app:v2"))
	if after := n.Pod("web-0"); after.UID != pod.UID {
		t.Error("the pod was replaced")
	}
}

// The example of the page starts in its order.
func TestTheExampleOfLaunchPriorities(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	for _, block := range environment.ManifestsOfPage(t, "../../docs/tasks/launch-priority.md") {
		n.Apply(block)
	}
	n.SettledCloneSet("shop")
	for _, pod := range n.Pods("app=shop") {
		barrierHas(n, pod.Name, "p_0", "p_1")
		told(n, pod.Name, "LaunchPriorityReleased", "Launch priority 0 may start: main; ready before: mesh")
	}
}

// While the feature gate is off, pods of others start as if they had not asked, and say so.
func TestPodsOfOthersAreToldThatTheirOrderIsNotKept(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	n.Apply(`
apiVersion: v1
kind: Pod
metadata: {name: bare, annotations: {apps.kruise.io/container-launch-priority: Ordered}}
spec: {containers: [{name: db, image: example/db}, {name: app, image: example/app}]}
`)
	podHasBegun(n, "bare", "db app")
	told(n, "bare", "LaunchPriorityNotKept", "feature gate ContainerLaunchPriority was off")
}

// A pod's barrier goes with it, and an earlier pod's barrier of the name is not believed.
func TestABarrierOfAnEarlierPodIsNotBelieved(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	left := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: n.Name, Name: "web-0-barrier", Finalizers: nil,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "00000000-aaaa-bbbb-cccc-000000000000"}},
		},
		Data: map[string]string{"p_0": "true", "p_-1": "true", "p_-2": "true"},
	}
	if err := n.Client.Create(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	n.Apply(orderedSet)
	podHasBegun(n, "web-0", "db")
	barrierHas(n, "web-0", "p_0")
	n.Consistently(looking, "the others wait", func(context.Context) error {
		if got := begun(n.Pod("web-0")); got != "db" {
			return fmt.Errorf("have begun: %s", got)
		}
		return nil
	})
	if err := n.Client.Delete(t.Context(), n.Pod("web-0")); err != nil {
		t.Fatal(err)
	}
	podHasBegun(n, "web-0", "db")
	barrierHas(n, "web-0", "p_0")
	n.Change("web", func(set *v1beta1.StatefulSet) { set.Spec.Replicas = new(int32) })
	n.Eventually("the barrier goes with its pod", func(ctx context.Context) error {
		_, _, err := keys(ctx, n, "web-0")
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

// A ConfigMap of somebody else is neither read nor changed, and the pod says so.
func TestAConfigMapInTheWayOfABarrier(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, Name: "web-0-barrier"}, Data: map[string]string{"any": "thing"}}
	if err := n.Client.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	n.Apply(orderedSet)
	told(n, "web-0", "LaunchPriorityBlocked", "exists and is not of this pod")
	found := &corev1.ConfigMap{}
	if err := n.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), found); err != nil || found.UID != theirs.UID || len(found.Data) != 1 {
		t.Errorf("%v, it is %+v", err, found)
	}
	if err := n.Client.Delete(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the pod gets its barrier", func(ctx context.Context) error {
		_, owner, err := keys(ctx, n, "web-0")
		if err == nil && owner != string(n.Pod("web-0").UID) {
			err = fmt.Errorf("it is of %q", owner)
		}
		return err
	})
}
