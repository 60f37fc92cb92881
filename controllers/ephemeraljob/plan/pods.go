// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
)

// Snapshot is all a planner may look at, beside the job itself.
type Snapshot struct {
	// Now is when it was taken.
	Now time.Time
	// Pods are those that the selector matches. Read-only.
	Pods []*corev1.Pod
	// Refused says to which pods the server has refused to add the containers.
	Refused map[types.UID]Refusal
}

// Refusal is that the server has refused to add the containers to a pod.
type Refusal struct {
	// Tries is how often it has, Message what it said last.
	Tries   int
	Message string
}

// State is how far a target has come.
type State string

const (
	// Bare says that the containers have not been added.
	Bare State = "Bare"
	// Waiting says that they were added, and none runs.
	Waiting State = "Waiting"
	// Running says that one runs.
	Running State = "Running"
	// Succeeded says that all have ended with exit code 0.
	Succeeded State = "Succeeded"
	// Failed says that one has failed, or that the server has refused them too often.
	Failed State = "Failed"
)

// maxTries is how often the server may refuse to add the containers to a pod before the pod counts as failed.
const maxTries = 3

// target is a pod that the job is for.
type target struct {
	pod   *corev1.Pod
	state State
	// tries is how often the server has refused the containers.
	tries int
	// cause is why it has failed, or why a container does not start; empty when there is nothing to say.
	cause string
}

// view is what the pods come to.
type view struct {
	// targets are in the order in which they are served.
	targets []target
	// matched is how many pods the selector matches that have not ended, taken how many of them have a container of one of the names that
	// another made.
	matched, taken int
	// counts are how many targets are in each state.
	counts map[State]int
	// inProgress is in how many pods containers of the job are at work, those that are no targets any more included.
	inProgress int
}

// look finds the targets:
//
//  1. pods that have ended or are terminating are none;
//  2. nor are those with an ephemeral container of one of the names that another made;
//  3. of the others, those come first that have the containers or were given up, then those that run, then the rest; in each part the oldest
//     first. So a pod that was served stays a target, and no more than Replicas pods are ever served at a time.
func look(spec *Spec, s Snapshot) view {
	v := view{counts: map[State]int{}}
	var all []target
	for _, pod := range s.Pods {
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		v.matched++
		own, foreign := containersOf(spec, pod)
		if foreign {
			v.taken++
			continue
		}
		t := target{pod: pod, state: Bare}
		switch refusal := s.Refused[pod.UID]; {
		case len(own) > 0:
			t.state, t.cause = stateOf(pod, own)
		case refusal.Tries >= maxTries:
			t.state, t.tries, t.cause = Failed, refusal.Tries, "refused: "+refusal.Message
		default:
			t.tries, t.cause = refusal.Tries, refusal.Message
		}
		if t.state == Waiting || t.state == Running {
			v.inProgress++
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b target) int {
		return cmp.Or(cmp.Compare(class(&a), class(&b)), a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time), strings.Compare(a.pod.Name, b.pod.Name))
	})
	v.targets = all[:min(len(all), spec.Replicas)]
	for i := range v.targets {
		v.counts[v.targets[i].state]++
	}
	return v
}

// class is the part of the order that a pod belongs to.
func class(t *target) int {
	switch {
	case t.state != Bare:
		return 0
	case t.pod.Status.Phase == corev1.PodRunning:
		return 1
	default:
		return 2
	}
}

// containersOf are the names of the job's containers that a pod has. foreign says that it has one of these names from another.
func containersOf(spec *Spec, pod *corev1.Pod) (own []string, foreign bool) {
	for i := range pod.Spec.EphemeralContainers {
		container := &pod.Spec.EphemeralContainers[i]
		if !slices.Contains(spec.Names, container.Name) {
			continue
		}
		mark := corev1.EnvVar{Name: shared.EnvEphemeralJob, Value: string(spec.Job.UID)}
		if !slices.Contains(container.Env, mark) {
			return nil, true
		}
		own = append(own, container.Name)
	}
	return own, false
}

// stateOf is how far the containers of a pod have come, the first that holds: one has failed; all have succeeded; one runs; they wait.
func stateOf(pod *corev1.Pod, names []string) (state State, cause string) {
	counts := map[State]int{}
	for _, name := range names {
		i := slices.IndexFunc(pod.Status.EphemeralContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == name })
		if i < 0 {
			counts[Waiting]++
			continue
		}
		is, why := containerState(&pod.Status.EphemeralContainerStatuses[i])
		counts[is]++
		// Of a pod that has failed, why it has failed; else why a container waits.
		if why != "" && (cause == "" || is == Failed && counts[Failed] == 1) {
			cause = fmt.Sprintf("container %s %s", name, why)
		}
	}
	switch {
	case counts[Failed] > 0:
		return Failed, cause
	case counts[Succeeded] == len(names):
		return Succeeded, ""
	case counts[Running] > 0:
		return Running, cause
	default:
		return Waiting, cause
	}
}

// containerState is how far one container has come, and why it has failed or does not start.
func containerState(status *corev1.ContainerStatus) (state State, why string) {
	switch s := &status.State; {
	case s.Terminated != nil && s.Terminated.ExitCode != 0:
		return Failed, fmt.Sprintf("ended with exit code %d", s.Terminated.ExitCode)
	case s.Terminated != nil && !s.Terminated.FinishedAt.IsZero():
		return Succeeded, ""
	case s.Running != nil:
		return Running, ""
	case s.Waiting != nil && s.Waiting.Reason == "RunContainerError":
		return Failed, "cannot run: " + s.Waiting.Message
	case s.Waiting != nil && !slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, s.Waiting.Reason):
		return Waiting, strings.TrimSuffix("waits: "+s.Waiting.Reason+": "+s.Waiting.Message, ": ")
	default:
		return Waiting, ""
	}
}

// describe names the first few targets in a state, with what is to be said of each.
func (v *view) describe(state State, caused bool) string {
	const most = 3
	var parts []string
	for i := range v.targets {
		if t := &v.targets[i]; t.state == state && (!caused || t.cause != "") {
			parts = append(parts, strings.TrimSuffix("pod "+t.pod.Name+": "+t.cause, ": "))
		}
	}
	return conditions.First(parts, most, "; ")
}
