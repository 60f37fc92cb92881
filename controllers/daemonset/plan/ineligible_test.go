// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/engine/podset/podsettest"
)

// notReady is what the control plane does to a node whose kubelet does not answer.
func notReady(node string) func(*simulation) {
	return func(w *simulation) {
		w.do(happens(node, podsettest.LoseNode), taint(node, corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule))
	}
}

func TestNodesThatAreNotReadyHoldARolloutUnlessTheyArePruned(t *testing.T) {
	for prune, want := range map[bool]string{false: "", true: "n0 n1"} {
		w := newSimulation(t, nodeNames(3), func(w *simulation) { w.o.PruneIneligibleNodes = prune }, maxUnavailable(1))
		w.rest(notReady("n2"), image("2"))
		w.expect("updated", w.at("2"), want)
		if !prune {
			w.expect("message", w.message(), "2 pods wait: maxUnavailable 1 is used up by agent-n2a")
			continue
		}
		w.expectPods("n0b:2, n1b:2, n2a:1")
		w.expect("reason", w.reason(), "Complete")
		w.expect("message", w.message(), "1 pod is at an earlier revision on nodes that should not run a pod now, which the update leaves alone")
		w.rest(happens("n2", podsettest.RecoverNode), untaint("n2"))
		w.expectPods("n0b:2, n1b:2, n2b:2")
		w.expect("message", w.message(), "Every pod is at the update revision and available.")
	}
}

func TestASurgeSaysThatPodsOfNodesThatAreNotReadyStay(t *testing.T) {
	w := newSimulation(t, nodeNames(2), maxSurge(1))
	w.rest(notReady("n1"), image("2"))
	w.expectPods("n0b:2, n1a:1")
	w.expect("message", w.message(), "1 pod is at an earlier revision on nodes that should not run a pod now, which the update leaves alone")
}

func TestAPodThatDoesNotEndIsNamed(t *testing.T) {
	w := newSimulation(t, nodeNames(2))
	w.rest(notReady("n1"), taint("n1", "gone", corev1.TaintEffectNoExecute))
	w.expect("reason", w.reason(), "Scaling")
	w.expect("message", w.message(), "Pods are on their way out: agent-n1a.")
}

func TestOneNodeOutsideTheSelectorIsOnePod(t *testing.T) {
	w := newSimulation(t, nodeNames(2), label("n1", "lane", "canary"))
	w.rest(image("2"), updateSelector(map[string]string{"lane": "canary"}))
	w.expect("message", w.message(), "updateStrategy.rollingUpdate.selector does not match the nodes of 1 pod at an earlier revision")
}
