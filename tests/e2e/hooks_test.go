// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

const hook = "example.io/hook"

// handler is a way a hook finds its pods.
type handler struct {
	name string
	hook func() *shared.LifecycleHook
	// template puts the hook on new pods.
	template func(*corev1.PodTemplateSpec)
	// set and clear put the hook on a pod and take it away.
	set, clear func(*corev1.Pod)
}

func handlers() []handler { return []handler{finalizer(), label()} }

func finalizer() handler {
	return handler{
		name: "finalizer",
		hook: func() *shared.LifecycleHook {
			return &shared.LifecycleHook{FinalizersHandler: []string{hook}, MarkPodNotReady: true}
		},
		template: func(t *corev1.PodTemplateSpec) { t.Finalizers = []string{hook} },
		set: func(p *corev1.Pod) {
			if !slices.Contains(p.Finalizers, hook) {
				p.Finalizers = append(p.Finalizers, hook)
			}
		},
		clear: func(p *corev1.Pod) {
			p.Finalizers = slices.DeleteFunc(p.Finalizers, func(f string) bool { return f == hook })
		},
	}
}

func label() handler {
	return handler{
		name: "label",
		hook: func() *shared.LifecycleHook {
			return &shared.LifecycleHook{LabelsHandler: map[string]string{hook: "true"}}
		},
		template: func(t *corev1.PodTemplateSpec) { metav1.SetMetaDataLabel(&t.ObjectMeta, hook, "true") },
		set:      func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, hook, "true") },
		clear:    func(p *corev1.Pod) { delete(p.Labels, hook) },
	}
}

// forHandlers runs a test for both kinds of handlers.
func forHandlers(t *testing.T, test func(*testing.T, handler)) {
	for _, h := range handlers() {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			test(t, h)
		})
	}
}

// editPod changes a pod, again after a conflict. It skips a missing one.
func editPod(t *testing.T, n *environment.Namespace, change func(*corev1.Pod), name string) {
	t.Helper()
	for {
		p := n.Pod(name)
		if p == nil {
			return
		}
		change(p)
		err := n.Client.Update(t.Context(), p)
		if err == nil || apierrors.IsNotFound(err) {
			return
		}
		if !apierrors.IsConflict(err) {
			t.Fatalf("changing pod %s: %v", name, err)
		}
	}
}
