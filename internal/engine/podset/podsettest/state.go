// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podsettest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Now is what the clock shows, always.
func Now() time.Time { return time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC) }

// Long is a time so long before Now that every wait has passed since.
func Long() time.Time { return Now().Add(-24 * time.Hour) }

// State is a workload with its pods and claims. W is what is special to the workload: its spec and status as far as they
// matter, as a small comparable value.
type State[W any] struct {
	Set W
	// Pods are sorted by name. Read-only: a change puts another object in the place.
	Pods []*corev1.Pod
	// Claims are sorted by name. Read-only like Pods.
	Claims []*corev1.PersistentVolumeClaim
	// Nodes are sorted by name. Read-only like Pods. Empty where nodes play no role.
	Nodes []*corev1.Node
	// departed are the nodes that were there and are gone, so that one that comes back gets another UID.
	departed []*corev1.Node
}

// Step is one pass of the controller under test: it plans, and returns the workload with the status that is written at the end
// of the pass. It must not change the state.
type Step[W any] func(w *State[W]) (planning.Plan, W)

// Pod is the pod with this name, or nil.
func (w *State[W]) Pod(name string) *corev1.Pod {
	if i, found := w.find(name); found {
		return w.Pods[i]
	}
	return nil
}

// Claim is the claim with this name, or nil.
func (w *State[W]) Claim(name string) *corev1.PersistentVolumeClaim {
	i := slices.IndexFunc(w.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return w.Claims[i]
}

// ClaimsByName is what a Snapshot wants.
func (w *State[W]) ClaimsByName() map[string]*corev1.PersistentVolumeClaim {
	claims := make(map[string]*corev1.PersistentVolumeClaim, len(w.Claims))
	for _, c := range w.Claims {
		claims[c.Name] = c
	}
	return claims
}

func (w *State[W]) find(name string) (int, bool) {
	return slices.BinarySearchFunc(w.Pods, name, func(p *corev1.Pod, name string) int { return strings.Compare(p.Name, name) })
}

// clone is a state whose lists can be changed.
func (w *State[W]) clone() *State[W] {
	return &State[W]{
		Set: w.Set, Pods: slices.Clone(w.Pods), Claims: slices.Clone(w.Claims), Nodes: slices.Clone(w.Nodes), departed: slices.Clone(w.departed),
	}
}

// put stores a pod, in the place of the one with its name or as a new one.
func (w *State[W]) put(pod *corev1.Pod) {
	if i, found := w.find(pod.Name); found {
		w.Pods[i] = pod
	} else {
		w.Pods = slices.Insert(w.Pods, i, pod)
	}
}

// remove takes a pod away. Claims that it owned belong to an earlier pod from now on.
func (w *State[W]) remove(name string) {
	i, found := w.find(name)
	if !found {
		return
	}
	uid := w.Pods[i].UID
	w.Pods = slices.Delete(w.Pods, i, i+1)
	for c, claim := range w.Claims {
		if slices.ContainsFunc(claim.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == uid }) {
			claim = claim.DeepCopy()
			for r := range claim.OwnerReferences {
				if claim.OwnerReferences[r].UID == uid {
					claim.OwnerReferences[r].UID += "-gone"
				}
			}
			w.Claims[c] = claim
		}
	}
}

func (w *State[W]) putClaim(claim *corev1.PersistentVolumeClaim) {
	i, found := slices.BinarySearchFunc(w.Claims, claim.Name, func(c *corev1.PersistentVolumeClaim, name string) int {
		return strings.Compare(c.Name, name)
	})
	if found {
		w.Claims[i] = claim
	} else {
		w.Claims = slices.Insert(w.Claims, i, claim)
	}
}

// String shows the state in one line for each pod.
func (w *State[W]) String() string {
	var lines []string
	for _, p := range w.Pods {
		lines = append(lines, Describe(p))
	}
	for _, c := range w.Claims {
		line := "claim " + c.Name
		for _, o := range c.OwnerReferences {
			line += " owned by " + o.Kind + " " + string(o.UID)
		}
		lines = append(lines, line)
	}
	for _, n := range w.Nodes {
		lines = append(lines, describeNode(n))
	}
	return strings.Join(append(lines, fmt.Sprintf("%+v", w.Set)), "\n")
}

// describeNode says in one line how a node is doing.
func describeNode(node *corev1.Node) string {
	words := []string{"node", node.Name, string(node.UID)}
	if !NodeReady(node) {
		words = append(words, "NotReady")
	}
	if node.Spec.Unschedulable {
		words = append(words, "Unschedulable")
	}
	return strings.Join(words, " ")
}

// Describe says in one line how a pod is doing.
func Describe(pod *corev1.Pod) string {
	words := []string{pod.Name}
	revision := pod.Labels[shared.LabelControllerRevisionHash]
	words = append(words, revision[strings.LastIndex(revision, "-")+1:], string(pod.Status.Phase))
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			words = append(words, "Ready")
		case c.Status != corev1.ConditionTrue && (c.Type == shared.GateInPlaceUpdateReady || c.Type == shared.GateKruisePodReady):
			words = append(words, fmt.Sprintf("%s=%s", c.Type, c.Status))
		}
	}
	if node := pod.Spec.NodeName; node != "" && node != anyNode {
		words = append(words, "on "+node)
	}
	if state := pod.Labels[shared.LabelLifecycleState]; state != "" && state != string(shared.StateNormal) {
		words = append(words, state)
	}
	if pod.DeletionTimestamp != nil {
		words = append(words, "Terminating")
	}
	if _, marked := pod.Labels[shared.LabelSpecifiedDelete]; marked {
		words = append(words, "specified-delete")
	}
	if _, waits := pod.Annotations[shared.AnnotationInPlaceGrace]; waits {
		words = append(words, "grace")
	}
	for i := range pod.Spec.Containers {
		want := pod.Spec.Containers[i].Image
		words = append(words, want)
		for _, s := range pod.Status.ContainerStatuses {
			if s.Name == pod.Spec.Containers[i].Name && s.Image != want {
				words = append(words, "(runs "+s.Image+")")
			}
		}
	}
	if pod.Status.ObservedGeneration != pod.Generation {
		words = append(words, "(not observed)")
	}
	return strings.Join(words, " ")
}
