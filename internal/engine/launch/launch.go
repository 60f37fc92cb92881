// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

const (
	// Highest is the highest priority; the lowest one is -Highest.
	Highest = 1<<31 - 1
	// Released is the value of every key of a barrier.
	Released = "true"
	// BadPriority is in what a pod is refused with whose priority cannot be read, by whichever way.
	BadPriority = shared.EnvContainerPriority + " must be a decimal integer from -2147483647 to 2147483647, written as a literal value"

	// LengthOfSuffix is how many random characters end a name that the API server would generate.
	LengthOfSuffix = 5

	// longestPrefix is how much of generateName is kept, as the API server does.
	longestPrefix = 63 - LengthOfSuffix
	barrierSuffix = "-barrier"
	keyPrefix     = "p_"
	markSeparator = "_"
	// tokenVolume begins the name of the volume with a pod's token, which the API server adds. Five random characters follow.
	tokenVolume = "kube-api-access-"
)

// GeneratedName is the name of a pod that says only how its name begins.
func GeneratedName(prefix, suffix string) string {
	return prefix[:min(len(prefix), longestPrefix)] + suffix
}

// BarrierName is the name of the barrier of a pod.
func BarrierName(pod string) string { return pod + barrierSuffix }

// Key is the key of the barrier that lets containers of a priority start. The mark sets it apart from that of an earlier pod of the same name: what
// is left of the barrier of that one says nothing to the kubelet. Without a mark it is the key that OpenKruise has.
func Key(priority int, mark string) string {
	key := keyPrefix + strconv.Itoa(priority)
	if mark != "" {
		key += markSeparator + mark
	}
	return key
}

// PriorityOfKey is the priority of a key of a barrier, whatever its mark; false for what is no such key.
func PriorityOfKey(key string) (int, bool) {
	digits, found := strings.CutPrefix(key, keyPrefix)
	digits, _, _ = strings.Cut(digits, markSeparator)
	n, err := strconv.Atoi(digits)
	return n, found && err == nil
}

// Mark is the mark of a pod that is being created: the random characters of the volume with its token; empty when it has none. The policy makes it in
// the same way.
func Mark(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		mark, found := strings.CutPrefix(pod.Spec.Volumes[i].Name, tokenVolume)
		if found && len(mark) == LengthOfSuffix && strings.Trim(mark, "bcdfghjklmnpqrstvwxz2456789") == "" {
			return mark
		}
	}
	return ""
}

// OrderRequested says that somebody has asked for an order, whether or not the containers need one.
func OrderRequested(annotations map[string]string, containers []corev1.Container) bool {
	if annotations[shared.AnnotationLaunchPriority] == shared.LaunchInOrder {
		return true
	}
	return slices.ContainsFunc(containers, func(c corev1.Container) bool { return variable(c.Env, shared.EnvContainerPriority) != nil })
}

// Priorities are the priorities of containers, in their order; nil when all may start together. If one container has several variables of that
// name, the first counts. The field error names the first priority that cannot be read, below path.
func Priorities(annotations map[string]string, containers []corev1.Container, path *field.Path) ([]int, *field.Error) {
	if len(containers) < 2 {
		return nil, nil
	}
	priorities := make([]int, len(containers))
	if annotations[shared.AnnotationLaunchPriority] == shared.LaunchInOrder {
		for i := range priorities {
			priorities[i] = -i
		}
		return priorities, nil
	}
	differ := false
	for i := range containers {
		asked := variable(containers[i].Env, shared.EnvContainerPriority)
		if asked == nil {
			continue
		}
		n, err := strconv.ParseInt(asked.Value, 10, 64)
		if err != nil || n < -Highest || n > Highest || asked.ValueFrom != nil {
			at := slices.IndexFunc(containers[i].Env, func(e corev1.EnvVar) bool { return e.Name == shared.EnvContainerPriority })
			return nil, field.Invalid(path.Index(i).Child("env").Index(at).Child("value"), asked.Value, BadPriority)
		}
		priorities[i] = int(n)
	}
	for _, n := range priorities {
		differ = differ || n != priorities[0]
	}
	if !differ {
		return nil, nil
	}
	return priorities, nil
}

// Order makes the containers of a pod that is about to be created wait at its barrier, and says whether they do. The pod has its name. In a
// copied pod, a variable that names another barrier is replaced, and the annotation that marks the order as completed is removed.
func Order(pod *corev1.Pod) (ordered bool, fault *field.Error) {
	path := field.NewPath("spec", "containers")
	priorities, fault := Priorities(pod.Annotations, pod.Spec.Containers, path)
	if priorities == nil {
		return false, fault
	}
	if fault := NameFault(pod.Name); fault != nil {
		return false, fault
	}
	delete(pod.Annotations, shared.AnnotationLaunchPriorityCompleted)
	mark := Mark(pod)
	for i := range pod.Spec.Containers {
		waits := Variable(pod.Name, priorities[i], mark)
		// A new list: that of the pod may be its template's.
		env := slices.DeleteFunc(slices.Clone(pod.Spec.Containers[i].Env), func(e corev1.EnvVar) bool { return e.Name == shared.EnvLaunchPriority })
		pod.Spec.Containers[i].Env = append(env, waits)
	}
	return true, nil
}

// NameFault says why a pod of that name cannot have a barrier; nil when it can.
func NameFault(pod string) *field.Error {
	const longest = validation.DNS1123SubdomainMaxLength - len(barrierSuffix)
	if len(pod) <= longest {
		return nil
	}
	return field.TooLong(field.NewPath("metadata", "name"), pod, longest)
}

// Variable is what makes a container of a pod wait until its priority is released.
func Variable(pod string, priority int, mark string) corev1.EnvVar {
	return corev1.EnvVar{Name: shared.EnvLaunchPriority, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: BarrierName(pod)}, Key: Key(priority, mark),
	}}}
}

// Priority is the priority at which a container starts; false when it waits at no barrier. Whose barrier it is does not matter.
func Priority(container *corev1.Container) (priority int, ok bool) {
	if container == nil {
		return 0, false
	}
	for i := range container.Env {
		if _, key, ok := barrier(&container.Env[i]); ok {
			return PriorityOfKey(key)
		}
	}
	return 0, false
}

// At is the priority at which a container waits at the barrier of its own pod; false when it does not wait there.
func At(pod string, container *corev1.Container) (priority int, ok bool) {
	return PriorityOfKey(keyAt(pod, container))
}

// keyAt is the key of the barrier of its own pod that a container reads; empty when it does not wait there.
func keyAt(pod string, container *corev1.Container) string {
	for i := range container.Env {
		if name, key, ok := barrier(&container.Env[i]); ok && name == BarrierName(pod) {
			return key
		}
	}
	return ""
}

// Waits says that a container of the pod waits, or has waited, at the barrier of the pod.
func Waits(pod *corev1.Pod) bool {
	for i := range pod.Spec.Containers {
		if _, ok := At(pod.Name, &pod.Spec.Containers[i]); ok {
			return true
		}
	}
	return false
}

// Completed says that the operator has released all containers of the pod.
func Completed(pod *corev1.Pod) bool {
	return pod.Annotations[shared.AnnotationLaunchPriorityCompleted] == Released
}

// barrier is the barrier that a variable refers to, and the key of it.
func barrier(env *corev1.EnvVar) (name, key string, ok bool) {
	if env.Name != shared.EnvLaunchPriority || env.ValueFrom == nil || env.ValueFrom.ConfigMapKeyRef == nil {
		return "", "", false
	}
	ref := env.ValueFrom.ConfigMapKeyRef
	_, ok = PriorityOfKey(ref.Key)
	return ref.Name, ref.Key, ok
}

func variable(env []corev1.EnvVar, name string) *corev1.EnvVar {
	for i := range env {
		if env[i].Name == name {
			return &env[i]
		}
	}
	return nil
}
