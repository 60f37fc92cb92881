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
	// Pods match the selector. Read-only.
	Pods []*corev1.Pod
	// Refused are pods the server refused to give the containers.
	Refused map[types.UID]Refusal
}

// Refusal records the server's refusals to add the containers to a pod.
type Refusal struct {
	// Tries counts them, Message is the last one.
	Tries   int
	Message string
}

// State is how far a target has come.
type State string

const (
	// Bare means the containers have not been added.
	Bare State = "Bare"
	// Waiting means they were added, and none runs.
	Waiting State = "Waiting"
	// Running means one runs.
	Running State = "Running"
	// Succeeded means all have ended with exit code 0.
	Succeeded State = "Succeeded"
	// Failed means one has failed, or the server has refused them too often.
	Failed State = "Failed"
)

// maxTries is how often the server may refuse to add the containers to a pod before the pod counts as failed.
const maxTries = 3

// target is a pod to get the containers.
type target struct {
	pod   *corev1.Pod
	state State
	// tries is how often the server has refused the containers.
	tries int
	// cause is why it has failed, or why a container does not start; empty when there is nothing to say.
	cause string
}

// view sums up the pods.
type view struct {
	// targets are in serving order.
	targets []target
	// taken counts the selected pods, still running, with another's container under one of the names.
	taken int
	// counts are how many targets are in each state.
	counts map[State]int
	// inProgress counts the pods with containers of the job at work, former targets included.
	inProgress int
}

// look finds the targets:
//
//  1. ended or terminating pods are none;
//  2. nor are pods with another's ephemeral container under one of the names;
//  3. first come pods with the containers or given up, then running ones, then the rest, each part oldest first.
//     So a served pod stays a target, and no more than Replicas pods are ever served at a time.
func look(spec *Spec, s Snapshot) view {
	v := view{counts: map[State]int{}}
	var all []target
	for _, pod := range s.Pods {
		if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
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

// class is a pod's part of the order.
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

// containersOf names the job's containers in a pod. foreign: one of the names is another's.
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

// stateOf is the state of a pod's containers, the first true one: one failed; all succeeded; one runs; they wait.
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
		// Prefer the cause of a failure to the cause of a wait.
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

// describe names the first few targets in a state, with their causes.
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
