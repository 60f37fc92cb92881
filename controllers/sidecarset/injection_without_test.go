// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

func TestPodsWithoutSidecarsAreNamed(t *testing.T) {
	pod := func(name string, labels map[string]string, annotations ...string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Namespace, p.Name, p.UID, p.Labels = "shop", name, types.UID("uid-of-"+name), map[string]string{"app": "shop"}
		p.Spec.Containers = []corev1.Container{{Name: "web"}}
		maps.Copy(p.Labels, labels)
		if len(annotations) > 0 {
			p.Annotations = map[string]string{annotations[0]: annotations[1]}
		}
		return p
	}
	with := func(container string, p *corev1.Pod) *corev1.Pod {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: container})
		return p
	}
	earlier := with("agent-of-an-earlier-revision", pod("injected-earlier", nil, shared.AnnotationSidecarSetInjectedList, "log"))
	earlier.Annotations[shared.AnnotationSidecarSetHash] = `{"log":{"sidecarList":["agent-of-an-earlier-revision"]}}`
	copied := pod("copied", nil, shared.AnnotationSidecarSetInjectedList, "log") // by hand, from a pod with sidecars, but without these
	copied.Annotations[shared.AnnotationSidecarSetHash] = `{"log":{"sidecarList":["agent"]}}`
	objects := []client.Object{
		earlier, copied, with("agent", pod("injected", nil, shared.AnnotationSidecarSetInjectedList, "a,log")), pod("by-others", nil, shared.AnnotationSidecarSetInjectedList, "logs"),
		pod("bypass", map[string]string{podentry.BypassLabel: podentry.BypassValue}), pod("other", map[string]string{"app": "other"}),
	}
	for n := range 6 {
		objects = append(objects, pod(fmt.Sprintf("old-%d", n), nil))
	}
	ended := pod("ended", nil)
	ended.Status.Phase = corev1.PodSucceeded
	objects = append(objects, ended)
	outside := pod("outside", nil)
	outside.Namespace = "kube-system"
	r := newRig(t, true, append(objects, outside)...)
	r.set(plain)
	state := r.pass("log", time.Minute)
	want := "get them when they are re-created: 8: shop/by-others, shop/copied, shop/old-0, shop/old-1, shop/old-2 and 3 more"
	if state.Without.Type == "" || !strings.HasSuffix(state.Without.Message, want) {
		t.Errorf("%+v", state.Without)
	}
	if state.RecheckAfter > countEvery {
		t.Errorf("they are looked for again in %s", state.RecheckAfter)
	}
}

// unphased reads pods without their phases.
type unphased struct{ client.Reader }

func (u unphased) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := u.Reader.List(ctx, list, options...)
	if pods, is := list.(*corev1.PodList); is {
		for at := range pods.Items {
			pods.Items[at].Status = corev1.PodStatus{}
		}
	}
	return err
}

// The API server is asked about few pods, only where needed, and without delaying other sets.
func TestLookingForPodsWithoutSidecarsIsBounded(t *testing.T) {
	pod := func(namespace, name string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Namespace, p.Name, p.UID, p.Labels = namespace, name, types.UID(namespace+"/"+name), map[string]string{"app": "shop"}
		return p
	}
	ended := func(namespace, name string) *corev1.Pod {
		p := pod(namespace, name)
		p.Status.Phase = corev1.PodFailed
		return p
	}
	t.Run("nothing is asked about pods of other namespaces", func(t *testing.T) {
		r := newRig(t, true, pod("kube-system", "old"))
		r.set(plain)
		if state := r.pass("log", time.Minute); state.Without.Type != "" || len(r.singly) > 0 {
			t.Errorf("%+v, asked for %v", state.Without, r.singly)
		}
	})
	t.Run("pods that have ended are left out, and only so many are asked for", func(t *testing.T) {
		var objects []client.Object
		for i := range 2 * maxAsked {
			objects = append(objects, ended("shop", fmt.Sprintf("p%03d", i)))
		}
		objects[7] = pod("shop", "p007")
		r := newRig(t, true, objects...)
		r.options.Pods = unphased{r.client} // as the cache has them
		r.set(plain)
		if state := r.pass("log", time.Second); state.Without.Type == "" || !strings.HasSuffix(state.Without.Message, "at least 1: shop/p007") || len(r.singly) != maxAsked {
			t.Errorf("%+v, asked for %d", state.Without, len(r.singly))
		}
	})
	t.Run("what was found stays while the server does not answer", func(t *testing.T) {
		r := newRig(t, true, pod("shop", "old"))
		r.set(plain)
		found := r.pass("log", time.Second).Without
		r.clock.SetTime(r.clock.Now().Add(countEvery))
		r.unread = apierrors.NewTooManyRequests("later", 1)
		if state, err := r.Reconcile(t.Context(), "log", Latest{}); err == nil || found.Type == "" || state.Without != found {
			t.Errorf("%+v, %v", state.Without, err)
		}
	})
	t.Run("another set does not wait for it", func(t *testing.T) {
		r := newRig(t, true, pod("shop", "old"))
		asked, answer := make(chan struct{}), make(chan struct{})
		r.slow = func() { close(asked); <-answer; r.slow = nil }
		r.set(plain, strings.Replace(strings.Replace(plain, "name: log", "name: mesh", 1), "app: shop", "app: other", 1))
		done := make(chan error, 1)
		go func() {
			_, err := r.Reconcile(t.Context(), "log", Latest{})
			done <- err
		}()
		<-asked
		if _, err := r.Reconcile(t.Context(), "mesh", Latest{}); err != nil {
			t.Error(err)
		}
		close(answer)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
