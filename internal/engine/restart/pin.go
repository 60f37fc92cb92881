// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package restart

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/lazy"
)

// LabelPin is on an unfilled request. It ties the request to the pod and its containers' instances
// at the creation, without telling them: anybody can ask a webhook, and the fields would tell. The
// controller fills them in for the same pod.
const LabelPin = "operator.kruise.io/pod-pin"

// Pin is the value of LabelPin: a hash, keyed by each request's own salt.
func Pin(salt []byte, r *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod) string {
	hash := hmac.New(sha256.New, salt)
	_, _ = fmt.Fprintf(hash, "%s\n", pod.UID)
	for i := range r.Spec.Containers {
		if status := StatusOf(pod, r.Spec.Containers[i].Name); status != nil {
			_, _ = fmt.Fprintf(hash, "%s %s\n", status.Name, status.ContainerID)
		}
	}
	return hex.EncodeToString(salt) + "." + hex.EncodeToString(hash.Sum(nil)[:20]) // a label has 63 characters
}

// Pinned says that the request is about this pod with its present instances.
func Pinned(r *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod) bool {
	pin := r.Labels[LabelPin]
	salt, _, _ := strings.Cut(pin, ".")
	key, err := hex.DecodeString(salt)
	return err == nil && hmac.Equal([]byte(pin), []byte(Pin(key, r, pod)))
}

// HookOf is the hook of a container before it stops; nil without one.
func HookOf(container *corev1.Container) *appsv1beta1.ProbeHandler {
	if container.Lifecycle == nil || container.Lifecycle.PreStop == nil {
		return nil
	}
	hook := container.Lifecycle.PreStop
	return &appsv1beta1.ProbeHandler{Exec: hook.Exec, HTTPGet: hook.HTTPGet, TCPSocket: hook.TCPSocket, Sleep: hook.Sleep}
}

// Fill replaces the pin by the pod's data.
func Fill(r *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod, virtual bool) {
	for i := range r.Spec.Containers {
		c := &r.Spec.Containers[i]
		of, _ := Find(pod, c.Name)
		status := StatusOf(pod, c.Name)
		if of == nil || status == nil {
			continue // Pinned has found them
		}
		c.StatusContext = &appsv1beta1.ContainerRecreateRequestContainerContext{ContainerID: status.ContainerID, RestartCount: status.RestartCount}
		if c.PreStop = HookOf(of); c.PreStop != nil && c.PreStop.HTTPGet != nil {
			c.Ports = of.Ports
		}
	}
	if r.Spec.Strategy == nil {
		r.Spec.Strategy = &appsv1beta1.ContainerRecreateRequestStrategy{FailurePolicy: appsv1beta1.RecreateFail}
	}
	if r.Spec.Strategy.TerminationGracePeriodSeconds == nil {
		r.Spec.Strategy.TerminationGracePeriodSeconds = pod.Spec.TerminationGracePeriodSeconds
	}
	delete(r.Labels, LabelPin)
	lazy.Put(&r.Labels, appsv1beta1.LabelRequestPodUID, string(pod.UID))
	r.Labels[appsv1beta1.LabelRequestNode] = pod.Spec.NodeName
	r.Labels[appsv1beta1.LabelRequestActive] = "true"
	if virtual {
		r.Labels[appsv1beta1.LabelNodeType] = appsv1beta1.NodeTypeVirtual
	}
}
