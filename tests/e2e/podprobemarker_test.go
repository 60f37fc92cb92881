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
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/daemon/cri"
	"github.com/kruise-operator/kruise-operator/internal/engine/podstate"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/simdaemon"
)

const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// game is a CloneSet of servers on its own node, and a marker for the idle ones.
const game = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: game}
spec:
  replicas: 3
  selector: {matchLabels: {app: game}}
  template:
    metadata: {labels: {app: game}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {e2e: NODES}
      tolerations: [{key: e2e, operator: Exists}]
      containers:
      - {name: game, image: "example/game:v1"}
---
apiVersion: apps.kruise.io/v1alpha1
kind: PodProbeMarker
metadata: {name: game}
spec:
  selector: {matchLabels: {app: game}}
  probes:
  - name: idle
    containerName: game
    podConditionType: game.example/idle
    probe: {exec: {command: [/idle.sh]}, periodSeconds: 1, failureThreshold: 1}
    markerPolicy:
    - {state: Succeeded, labels: {idle: "true"}, annotations: {controller.kubernetes.io/pod-deletion-cost: "-10"}}
    - {state: Failed, annotations: {controller.kubernetes.io/pod-deletion-cost: "10"}}
`

// servers is a node's runtime: a command succeeds in the idle pods.
type servers struct {
	simdaemon.Runtime
	mu   sync.Mutex
	idle map[string]bool
}

func (s *servers) set(pod string, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle[pod] = idle
}

func (s *servers) answer(pod string, _ []string) (cri.ExecResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle[pod] {
		return cri.ExecResult{Stdout: []byte("idle")}, nil
	}
	return cri.ExecResult{ExitCode: 1, Stderr: []byte("busy")}, nil
}

func marker(ctx context.Context, n *environment.Namespace, name string) (*v1alpha1.PodProbeMarker, error) {
	m := &v1alpha1.PodProbeMarker{}
	return m, n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, m)
}

// markerSays waits until a marker says why it is as it is.
func markerSays(n *environment.Namespace, name string, stalled metav1.ConditionStatus, reason string) {
	n.Eventually("marker "+name+" says "+reason, func(ctx context.Context) error {
		m, err := marker(ctx, n, name)
		if err != nil {
			return err
		}
		is := func(kind string, status metav1.ConditionStatus) bool {
			return slices.ContainsFunc(m.Status.Conditions, func(c metav1.Condition) bool {
				return c.Type == kind && c.Status == status && (c.Reason == reason || c.Reason == v1beta1.ReasonNotStalled)
			})
		}
		if m.Status.ObservedGeneration != m.Generation || !is(v1alpha1.PodProbeMarkerStalled, stalled) ||
			!slices.ContainsFunc(m.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == reason }) {
			return fmt.Errorf("its status is %+v", m.Status)
		}
		return nil
	})
}

// marksOf is a pod's report of the probe.
func marksOf(pod *corev1.Pod) string {
	c := podstate.Condition(pod, "game.example/idle")
	if c == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s idle=%s cost=%s", c.Status, c.Message, pod.Labels["idle"], pod.Annotations[deletionCost])
}

func podTells(n *environment.Namespace, name, want string) {
	n.Eventually("pod "+name+" tells "+want, func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := n.Client.Get(ctx, client.ObjectKey{Namespace: n.Name, Name: name}, pod); err != nil {
			return err
		}
		if got := marksOf(pod); got != want {
			return fmt.Errorf("it tells %q", got)
		}
		return nil
	})
}

// TestIdleServersAreDeletedFirst is the kind's purpose: a probe marks idle servers, and a
// CloneSet scaling in deletes them first.
func TestIdleServersAreDeletedFirst(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	node := ownNodes(t, n, 1)[0]
	n.Apply(strings.ReplaceAll(game, "NODES", n.Name))
	n.SettledCloneSet("game")
	runtime := &servers{idle: map[string]bool{}}
	runtime.Pods, runtime.Nodes, runtime.Answer = env.Client, env.Nodes, runtime.answer
	pods := n.Pods("app=game")
	for i, pod := range pods {
		runtime.set(pod.Name, i == 1)
	}
	simdaemon.RunWith(t, env, node, &runtime.Runtime)
	const busy, idle = "False busy idle= cost=10", "True idle idle=true cost=-10"
	for i, pod := range pods {
		if i == 1 {
			podTells(n, pod.Name, idle)
		} else {
			podTells(n, pod.Name, busy)
		}
	}
	markerSays(n, "game", metav1.ConditionFalse, v1alpha1.ReasonProbing)
	if m, err := marker(t.Context(), n, "game"); err != nil || m.Status.MatchedPods != 3 {
		t.Errorf("it says %+v: %v", m.Status, err)
	}

	// The node reports the containers' environments, once for each pod.
	for _, pod := range pods {
		n.Eventually("the containers of pod "+pod.Name+" are reported", func(context.Context) error {
			if n.Pod(pod.Name).Annotations[shared.AnnotationRuntimeContainersMeta] == "" {
				return errors.New("they are not")
			}
			return nil
		})
	}

	// At rest nothing is written, although each server is asked every second.
	list := func(ctx context.Context) (*v1alpha1.NodePodProbe, error) {
		l := &v1alpha1.NodePodProbe{}
		return l, n.Client.Get(ctx, client.ObjectKey{Name: node}, l)
	}
	before, err := list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	was := n.Pod(pods[0].Name).ResourceVersion
	n.Consistently(5*time.Second, "nothing is written at rest", func(ctx context.Context) error {
		now, err := list(ctx)
		if err != nil {
			return err
		}
		if is := n.Pod(pods[0].Name).ResourceVersion; now.ResourceVersion != before.ResourceVersion || is != was {
			return fmt.Errorf("the list has version %s and the pod %s, and they had %s and %s", now.ResourceVersion, is, before.ResourceVersion, was)
		}
		return nil
	})

	// Players come and go.
	runtime.set(pods[1].Name, false)
	podTells(n, pods[1].Name, busy)
	runtime.set(pods[2].Name, true)
	podTells(n, pods[2].Name, idle)
	n.ChangeCloneSet("game", func(set *v1beta1.CloneSet) { set.Spec.Replicas = ptr.To[int32](2) })
	n.SettledCloneSet("game")
	for i, pod := range pods {
		err := n.Client.Get(t.Context(), client.ObjectKeyFromObject(&pod), &corev1.Pod{})
		if gone := apierrors.IsNotFound(err); gone != (i == 2) {
			t.Errorf("server %d is gone: %v (%v)", i, gone, err)
		}
	}

	// Without the marker nobody is probed, and no mark stays for a CloneSet to believe.
	m, err := marker(t.Context(), n, "game")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Client.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the marker is gone, and the node probes nothing", func(ctx context.Context) error {
		if _, err := marker(ctx, n, "game"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		l, err := list(ctx)
		if err == nil && len(l.Spec.PodProbes)+len(l.Status.PodProbeStatuses) > 0 {
			err = fmt.Errorf("the list is %+v, %+v", l.Spec, l.Status)
		}
		return err
	})
	podTells(n, pods[0].Name, "False busy idle= cost=")
}

// TestMarkersSayWhyNothingMoves has markers of pods without the container or the port, and of none at all.
func TestMarkersSayWhyNothingMoves(t *testing.T) {
	t.Parallel()
	n := env.Namespace(t)
	ownNodes(t, n, 1)
	n.Apply(strings.ReplaceAll(strings.Replace(game, "replicas: 3", "replicas: 1", 1), "NODES", n.Name))
	n.Apply(`
apiVersion: apps.kruise.io/v1alpha1
kind: PodProbeMarker
metadata: {name: none}
spec:
  selector: {matchLabels: {app: nobody}}
  probes:
  - {name: idle, containerName: game, podConditionType: c/none, probe: {tcpSocket: {port: 80}}}
---
apiVersion: apps.kruise.io/v1alpha1
kind: PodProbeMarker
metadata: {name: impossible}
spec:
  selector: {matchLabels: {app: game}}
  probes:
  - {name: container, containerName: other, podConditionType: c/a, probe: {tcpSocket: {port: 80}}}
  - {name: port, containerName: game, podConditionType: c/b, probe: {tcpSocket: {port: web}}}
`)
	n.SettledCloneSet("game")
	markerSays(n, "none", metav1.ConditionFalse, v1alpha1.ReasonNoMatchingPod)
	markerSays(n, "impossible", metav1.ConditionTrue, v1alpha1.ReasonProbeNotPossible)
}

// markersTakenUp waits until a namespace's PodProbeMarkers report their state, and counts
// them.
func markersTakenUp(t *testing.T, n *environment.Namespace) int {
	t.Helper()
	all := &v1alpha1.PodProbeMarkerList{}
	if err := n.Client.List(t.Context(), all, client.InNamespace(n.Name)); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		n.Eventually("PodProbeMarker "+all.Items[i].Name+" is taken up", func(ctx context.Context) error {
			m, err := marker(ctx, n, all.Items[i].Name)
			if err == nil && (len(m.Finalizers) == 0 || len(m.Status.Conditions) == 0 || m.Status.ObservedGeneration != m.Generation) {
				err = fmt.Errorf("its finalizers are %v, its status is %+v", m.Finalizers, m.Status)
			}
			return err
		})
	}
	return len(all.Items)
}
