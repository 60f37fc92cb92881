// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// onNodes are a DaemonSet and a BroadcastJob on the nodes of a label. The job waits for further nodes.
const onNodes = `
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      nodeSelector: {wake: LABEL}
      containers: [{name: main, image: "example/web:v1"}]
---
apiVersion: apps.kruise.io/v1beta1
kind: BroadcastJob
metadata: {name: NAME}
spec:
  completionPolicy: {type: Never}
  template:
    metadata: {annotations: {AFTER: 20ms}}
    spec:
      restartPolicy: Never
      nodeSelector: {wake: LABEL}
      containers: [{name: main, image: "example/web:v1"}]
`

// A node's heartbeat makes nobody reconcile. A taint makes only the owners of pods there
// reconcile, none of the many others.
func TestNodesTriggerPassesOnlyOverWhatTheyConcern(t *testing.T) {
	const others, changes = 20, 6
	n := env.Namespace(t)
	node := func(suffix, label string) string {
		t.Helper()
		name := n.Name + suffix
		if err := env.Nodes.Add(t.Context(), name, map[string]string{"wake": label}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := env.Nodes.Remove(context.WithoutCancel(t.Context()), name); err != nil {
				t.Log(err)
			}
		})
		return name
	}
	flapping, quiet := n.Name+"-a", n.Name+"-b"
	nodes := []string{node("-a1", flapping), node("-a2", flapping), node("-b", quiet)}
	apply := func(name, label string) {
		n.Apply(strings.NewReplacer("NAME", name, "LABEL", label, "AFTER", simnode.CompleteAfter).Replace(onNodes))
	}
	apply("concerned", flapping)
	onEach(n, "concerned", 2)
	for i := range others {
		apply(fmt.Sprintf("other-%d", i), quiet)
	}
	for i := range others {
		onEach(n, fmt.Sprintf("other-%d", i), 1)
	}
	controllers := []string{"daemonset-controller", "broadcastjob-controller"}
	before := atRest(t, n, controllers)

	for i, name := range append(nodes, nodes...) {
		beat := time.Now().Add(time.Duration(i) * time.Second).UTC().Format(time.RFC3339)
		patchNode(t, name, `{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":"`+beat+`"}]}}`, true)
	}
	n.Consistently(3*time.Second, "nobody reconciles for a heartbeat", func(ctx context.Context) error {
		now, err := passes(ctx, controllers)
		if err == nil && now != before {
			err = fmt.Errorf("the controllers %v reconciled %v times, before %v times", controllers, now, before)
		}
		return err
	})

	for i := range changes {
		taints, want := `[{"key":"flap","effect":"NoSchedule"}]`, int32(1)
		if i%2 == 1 {
			taints, want = "null", 2
		}
		patchNode(t, nodes[0], `{"spec":{"taints":`+taints+`}}`, false)
		n.Eventually("the DaemonSet has noticed", func(ctx context.Context) error {
			set := &v1beta1.DaemonSet{}
			if err := env.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: "concerned"}, set); err != nil {
				return err
			}
			if set.Status.DesiredNumberScheduled != want {
				return fmt.Errorf("the status is %+v, want %d desired", set.Status, want)
			}
			return nil
		})
	}
	after := atRest(t, n, controllers)
	for i, controller := range controllers {
		// One object of each kind is concerned. With a pass for each of the others, too, there would be more than 20 for a change.
		if made := after[i] - before[i]; made < 1 || made > changes*others/2 {
			t.Errorf("%s reconciled %d times for %d changes of a node that concerns one of %d objects", controller, made, changes, others+1)
		} else {
			t.Logf("measured: %s reconciled %d times for %d changes of a node that concerns one of %d objects", controller, made, changes, others+1)
		}
	}
}

// onEach waits until the DaemonSet is available, and the BroadcastJob has succeeded, on as
// many nodes, and both are at rest.
func onEach(n *environment.Namespace, name string, nodes int32) {
	n.Eventually(name+" is on its nodes", func(ctx context.Context) error {
		set, job := &v1beta1.DaemonSet{}, &v1beta1.BroadcastJob{}
		at := client.ObjectKey{Namespace: n.Name, Name: name}
		if err := errors.Join(n.Client.Get(ctx, at, set), n.Client.Get(ctx, at, job)); err != nil {
			return err
		}
		if set.Status.NumberAvailable != nodes || job.Status.Succeeded != nodes {
			return fmt.Errorf("the statuses are %+v and %+v", set.Status, job.Status)
		}
		return nil
	})
}

// passes is how often each controller has reconciled.
func passes(ctx context.Context, controllers []string) (made [2]int, err error) {
	for i, controller := range controllers {
		if made[i], err = env.Operator.Reconciles(ctx, controller); err != nil {
			return made, err
		}
	}
	return made, nil
}

// atRest waits until the controllers have not reconciled for two seconds, and returns how often they have.
func atRest(t *testing.T, n *environment.Namespace, controllers []string) (made [2]int) {
	t.Helper()
	since := time.Now()
	n.Eventually("the controllers rest", func(ctx context.Context) error {
		now, err := passes(ctx, controllers)
		if err != nil {
			return err
		}
		if now != made {
			made, since = now, time.Now()
		}
		if rested := time.Since(since); rested < 2*time.Second {
			return fmt.Errorf("%v reconciled %v times, last %s ago", controllers, made, rested)
		}
		return nil
	})
	return made
}

// patchNode sends a strategic merge patch to a node, or to its status.
func patchNode(t *testing.T, name, patch string, status bool) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	body := client.RawPatch(types.StrategicMergePatchType, []byte(patch))
	err := error(nil)
	if status {
		err = env.Client.Status().Patch(t.Context(), node, body)
	} else {
		err = env.Client.Patch(t.Context(), node, body)
	}
	if err != nil {
		t.Fatal(err)
	}
}
