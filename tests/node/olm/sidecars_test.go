// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package olm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// failClosed creates two SidecarSets that refuse pods without their sidecar, and waits
// until pods get both. The API server injects one by itself, and asks the operator about
// the other, for a field it does not know.
func (s *lifecycle) failClosed() {
	for set, field := range map[string]string{"logs": "", "proxy": ", futureField: 1"} {
		if err := s.OLM.Apply(s.t.Context(), fmt.Sprintf(`{apiVersion: apps.kruise.io/v1beta1, kind: SidecarSet, metadata: {name: %[2]s-%[1]s}, spec: {
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}, selector: {matchLabels: {%[2]s: "true"}}, updateStrategy: {type: NotUpdate},
  containers: [{name: %[2]s, image: "openkruise/guestbook:v1"%[3]s}]}}`, s.Name, set, field)); err != nil {
			s.t.Fatal(err)
		}
		s.until("pods of SidecarSet "+set+" are injected", s.hasContainers(set, 2))
	}
	// A webhook stays for two seconds beside the policy that replaces it.
	s.until("the API server injects SidecarSet logs without a webhook", func(ctx context.Context) error {
		list := &admissionv1.MutatingWebhookConfigurationList{}
		if err := env.Client.List(ctx, list); err != nil {
			return err
		}
		for i := range list.Items {
			for _, webhook := range list.Items[i].Webhooks {
				if strings.HasPrefix(webhook.Name, "sidecarset-logs-") {
					return fmt.Errorf("%s is there", webhook.Name)
				}
			}
		}
		return nil
	})
}

// failsClosed is the rule while the operator is dead and still installed: the API server
// injects its own part, and refuses the other pods.
func (s *lifecycle) failsClosed() {
	s.t.Helper()
	s.until("with the operator dead, the API server injects by itself", s.hasContainers("logs", 2))
	s.until("with the operator dead, it refuses pods about which it would ask", func(ctx context.Context) error {
		if err := s.hasContainers("proxy", 2)(ctx); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return errors.New(fmt.Sprint("the answer is ", err))
		}
		return nil
	})
}

// opens waits until pods of both sets come up without sidecars, as is to be once the operator is removed.
func (s *lifecycle) opens() {
	s.t.Helper()
	for _, set := range []string{"logs", "proxy"} {
		s.until("pods of SidecarSet "+set+" come up without it", s.hasContainers(set, 1))
	}
}

// hasContainers asks, in a dry run, for a set's pod with so many containers.
func (s *lifecycle) hasContainers(set string, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "probe-", Labels: map[string]string{set: "true"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "openkruise/guestbook:v1"}}},
		}
		if err := env.Client.Create(ctx, pod, client.DryRunAll); err != nil {
			return err
		}
		if got := len(pod.Spec.Containers); got != want {
			return fmt.Errorf("the pod has %d containers", got)
		}
		return nil
	}
}
