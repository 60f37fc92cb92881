// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

// Findable says whether there can be requests for pods of a node: a label with its name finds them,
// and a label has 63 characters. The API server refuses to list by a longer one, and the daemon
// would wait for that list for ever.
func Findable(node string) bool { return len(validation.IsValidLabelValue(node)) == 0 }

// Find returns a container for a request, and its restart policy: a regular one, or an init
// container with Always. Nil for others.
func Find(pod *corev1.Pod, name string) (c *corev1.Container, policy corev1.RestartPolicy) {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == name {
			if c.RestartPolicy != nil {
				return c, corev1.RestartPolicy(*c.RestartPolicy)
			}
			return c, pod.Spec.RestartPolicy
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			return c, corev1.RestartPolicyAlways
		}
	}
	return nil, ""
}

// StatusOf is the kubelet's status of such a container, or nil.
func StatusOf(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == name {
				return &statuses[i]
			}
		}
	}
	return nil
}

func overdue(r *appsv1beta1.ContainerRecreateRequest, s Snapshot) bool {
	limit := r.Spec.ActiveDeadlineSeconds
	return limit != nil && s.left(planning.Seconds(*limit), r.CreationTimestamp.Time, s.Known) <= 0
}

// clocksDiffer is the tolerance between a node's clock and the one of a request's times.
const clocksDiffer = 10 * time.Minute

// left is the rest of a period with its begin by another clock, known to the daemon since a time of
// its own. Its own clock measures it. A daemon with many restarts would measure for ever, so the
// other clock counts, too, once the period is over by it beyond any difference.
func (s *Snapshot) left(period time.Duration, began, known time.Time) time.Duration {
	return min(known.Add(period).Sub(s.Now), began.Add(period+clocksDiffer).Sub(s.Now))
}

// isAbout says that the request is about this living pod.
func isAbout(r *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod) bool {
	return pod != nil && pod.DeletionTimestamp == nil && string(pod.UID) == r.Labels[appsv1beta1.LabelRequestPodUID]
}

// foreignID is a container ID of another runtime in the request.
func foreignID(r *appsv1beta1.ContainerRecreateRequest, runtime string) string {
	for i := range r.Spec.Containers {
		context := r.Spec.Containers[i].StatusContext
		if context != nil && !strings.HasPrefix(context.ContainerID, runtime+"://") {
			return context.ContainerID
		}
	}
	return ""
}

func strategy(r *appsv1beta1.ContainerRecreateRequest) appsv1beta1.ContainerRecreateRequestStrategy {
	return ptr.Deref(r.Spec.Strategy, appsv1beta1.ContainerRecreateRequestStrategy{})
}

func grace(r *appsv1beta1.ContainerRecreateRequest) time.Duration {
	asked := strategy(r).TerminationGracePeriodSeconds
	if asked == nil {
		return defaultGrace
	}
	return max(minGrace, planning.Seconds(*asked))
}

// HeldSince is when the operator wrote that the pod of a request is out of service, or stays in it
// all the same; zero before.
func HeldSince(r *appsv1beta1.ContainerRecreateRequest) time.Time {
	if c := meta.FindStatusCondition(r.Status.Conditions, appsv1beta1.RecreatePreRecreateGrace); c != nil && c.Status == metav1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// stateOf is how far a container was; a new state when nothing is known.
func stateOf(r *appsv1beta1.ContainerRecreateRequest, name string) appsv1beta1.ContainerRecreateRequestContainerRecreateState {
	for _, state := range r.Status.ContainerRecreateStates {
		if state.Name == name {
			return state
		}
	}
	return appsv1beta1.ContainerRecreateRequestContainerRecreateState{Name: name}
}

// ready says whether the kubelet calls this very instance ready.
func ready(pod *corev1.Pod, name, id string) bool {
	status := StatusOf(pod, name)
	return status != nil && status.ContainerID == id && status.Ready
}

// staysDown is the restart policy behind an instance without successor; empty when it gets one, or
// has not ended. The rules of its container come before the policy.
func staysDown(pod *corev1.Pod, name string, instance Instance) corev1.RestartPolicy {
	container, policy := Find(pod, name)
	if !instance.Exited || container != nil && restartedByRule(container, instance.ExitCode) {
		return ""
	}
	if policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && instance.ExitCode == 0 {
		return policy
	}
	return ""
}

// EndedForGood says that a container of the pod has ended without a successor, as in a pod of a
// Job, whatever its image: the pod will not be ready again.
func EndedForGood(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool { return IsOver(pod, &status) })
}

// IsOver says that a container has ended without a successor.
func IsOver(pod *corev1.Pod, status *corev1.ContainerStatus) bool {
	ended := status.State.Terminated
	return ended != nil && staysDown(pod, status.Name, Instance{Exited: true, ExitCode: ended.ExitCode}) != ""
}

// restartedByRule says whether the kubelet restarts a container after this exit code, by its first
// fitting rule.
func restartedByRule(container *corev1.Container, code int32) bool {
	for i := range container.RestartPolicyRules {
		rule := &container.RestartPolicyRules[i]
		if rule.ExitCodes == nil {
			continue
		}
		listed := slices.Contains(rule.ExitCodes.Values, code)
		switch rule.ExitCodes.Operator {
		case corev1.ContainerRestartRuleOnExitCodesOpIn:
		case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
			listed = !listed
		default:
			continue
		}
		if listed {
			return rule.Action == corev1.ContainerRestartRuleActionRestart || rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		}
	}
	return false
}

// newInstances is the kubelet's view of the successors; the former view when it says nothing.
func newInstances(r *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod) []appsv1beta1.ContainerRecreateRequestSyncContainerStatus {
	var all []appsv1beta1.ContainerRecreateRequestSyncContainerStatus
	for i := range r.Spec.Containers {
		c := &r.Spec.Containers[i]
		status := StatusOf(pod, c.Name)
		if status == nil || status.State.Running == nil || c.StatusContext != nil && status.ContainerID == c.StatusContext.ContainerID {
			continue
		}
		all = append(all, appsv1beta1.ContainerRecreateRequestSyncContainerStatus{
			Name: c.Name, Ready: status.Ready, RestartCount: status.RestartCount, ContainerID: status.ContainerID,
		})
	}
	if len(all) == 0 {
		return r.Status.ContainerStatusSnapshot
	}
	return all
}
