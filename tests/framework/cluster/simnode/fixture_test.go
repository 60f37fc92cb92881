// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package simnode_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster/simnode"
)

const waitTimeout = 30 * time.Second

// fixture is a namespace with simulated nodes of its own, one unless the options say otherwise. Its pods are bound to the
// first of them.
type fixture struct {
	testing.TB
	cfg       *rest.Config
	client    kubernetes.Interface
	namespace string
	node      string
	nodes     *simnode.Nodes
}

// newFixture makes a fixture in a cluster with a full control plane.
func newFixture(tb testing.TB, cfg *rest.Config, options simnode.Options) *fixture {
	tb.Helper()
	w := newBareFixture(tb, cfg, options)
	w.until(func() (bool, string) {
		_, err := w.client.CoreV1().ServiceAccounts(w.namespace).Get(w.Context(), "default", metav1.GetOptions{})
		return err == nil, fmt.Sprintf("the namespace has the service account that its pods need (%v)", err)
	})
	return w
}

// newBareFixture makes a fixture in a cluster without controllers, where pods need no service account.
func newBareFixture(tb testing.TB, cfg *rest.Config, options simnode.Options) *fixture {
	tb.Helper()
	client := clientFor(tb, cfg)
	namespace, err := client.CoreV1().Namespaces().Create(tb.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fixture-"}}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("creating a namespace: %v", err)
	}
	w := &fixture{TB: tb, cfg: cfg, client: client, namespace: namespace.Name, node: namespace.Name + "-0"}
	if options.Nodes == 0 {
		options.Nodes = 1
	}
	options.NodeName = func(i int) string { return fmt.Sprintf("%s-%d", w.namespace, i) }
	w.nodes = simnode.StartForTest(tb, cfg, options)
	return w
}

func clientFor(tb testing.TB, cfg *rest.Config) kubernetes.Interface {
	tb.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		tb.Fatalf("making a client: %v", err)
	}
	return client
}

// podOption changes a pod before it is created.
type podOption func(*corev1.Pod)

func annotated(pairs ...string) podOption {
	return func(pod *corev1.Pod) {
		for i := 0; i < len(pairs); i += 2 {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, pairs[i], pairs[i+1])
		}
	}
}

func gated(gates ...string) podOption {
	return func(pod *corev1.Pod) {
		for _, gate := range gates {
			pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: corev1.PodConditionType(gate)})
		}
	}
}

func withContainer(name, image string) podOption {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: image})
	}
}

func restartPolicy(policy corev1.RestartPolicy) podOption {
	return func(pod *corev1.Pod) { pod.Spec.RestartPolicy = policy }
}

// create makes a pod with a container "main" of image web:1 on the fixture's node.
func (w *fixture) create(name string, options ...podOption) {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace},
		Spec:       corev1.PodSpec{NodeName: w.node, Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
	for _, option := range options {
		option(pod)
	}
	if _, err := w.client.CoreV1().Pods(w.namespace).Create(w.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.Fatalf("creating pod %s: %v", name, err)
	}
}

func (w *fixture) get(name string) *corev1.Pod {
	w.Helper()
	pod, err := w.client.CoreV1().Pods(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatalf("reading pod %s: %v", name, err)
	}
	return pod
}

// await waits until the pod is as described and returns it.
func (w *fixture) await(name, what string, holds func(*corev1.Pod) bool) *corev1.Pod {
	w.Helper()
	var pod *corev1.Pod
	w.until(func() (bool, string) {
		pod = w.get(name)
		return holds(pod), fmt.Sprintf("pod %s: %s\n%s", name, what, describe(pod))
	})
	return pod
}

func (w *fixture) awaitReady(name string) *corev1.Pod {
	w.Helper()
	return w.await(name, "is ready", isReady)
}

func (w *fixture) awaitGone(name string) {
	w.Helper()
	w.until(func() (bool, string) {
		pod, err := w.client.CoreV1().Pods(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprintf("pod %s: is gone (%v)\n%s", name, err, describe(pod))
	})
}

// until polls a condition; its text names the goal and the present state.
func (w *fixture) until(check func() (bool, string)) {
	w.Helper()
	deadline := time.Now().Add(waitTimeout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, state := check()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("gave up after %s: %s", waitTimeout, state)
		}
		<-tick.C
	}
}

func describe(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	status, err := yaml.Marshal(pod.Status)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("generation %d, annotations %v\n%s", pod.Generation, pod.Annotations, status)
}

// patch changes a pod with a strategic merge patch, as a controller would.
func (w *fixture) patch(name string, body any, subresources ...string) *corev1.Pod {
	w.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		w.Fatalf("encoding a patch: %v", err)
	}
	pod, err := w.client.CoreV1().Pods(w.namespace).Patch(w.Context(), name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, subresources...)
	if err != nil {
		w.Fatalf("patching pod %s: %v", name, err)
	}
	return pod
}

type object = map[string]any

// annotate sets an annotation of a living pod; an empty value removes it.
func (w *fixture) annotate(name, key, value string) {
	w.Helper()
	var v any = value
	if value == "" {
		v = nil
	}
	w.patch(name, object{"metadata": object{"annotations": object{key: v}}})
}

func (w *fixture) setImage(name, container, image string) *corev1.Pod {
	w.Helper()
	return w.patch(name, object{"spec": object{"containers": []object{{"name": container, "image": image}}}})
}

func (w *fixture) setCondition(name, kind string, status corev1.ConditionStatus) {
	w.Helper()
	w.patch(name, object{"status": object{"conditions": []object{{
		"type": kind, "status": status, "lastTransitionTime": metav1.Now(),
	}}}}, "status")
}

func (w *fixture) delete(name string, graceSeconds int64) {
	w.Helper()
	err := w.client.CoreV1().Pods(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &graceSeconds})
	if err != nil {
		w.Fatalf("deleting pod %s: %v", name, err)
	}
}

// history records every version of a pod from now on. The returned function waits for a
// version, ends the recording there, and returns all.
func (w *fixture) history(name string) func(last *corev1.Pod) []*corev1.Pod {
	w.Helper()
	from := w.get(name)
	ctx, stop := context.WithTimeout(w.Context(), waitTimeout)
	events, err := w.client.CoreV1().Pods(w.namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + name, ResourceVersion: from.ResourceVersion,
	})
	if err != nil {
		stop()
		w.Fatalf("watching pod %s: %v", name, err)
	}
	return func(last *corev1.Pod) []*corev1.Pod {
		defer stop()
		seen := []*corev1.Pod{from}
		for event := range events.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || event.Type == watch.Bookmark {
				continue
			}
			seen = append(seen, pod)
			if pod.ResourceVersion == last.ResourceVersion {
				return seen
			}
		}
		w.Fatalf("the watch of pod %s ended before version %s", name, last.ResourceVersion)
		return nil
	}
}

func isReady(pod *corev1.Pod) bool {
	return hasCondition(pod, corev1.PodReady, corev1.ConditionTrue, "")
}

func hasCondition(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) bool {
	c := getCondition(pod, kind)
	return c != nil && c.Status == status && c.Reason == reason
}

func getCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func status(pod *corev1.Pod, container string) corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for _, c := range list {
			if c.Name == container {
				return c
			}
		}
	}
	return corev1.ContainerStatus{}
}

func waitsFor(pod *corev1.Pod, container, reason string) bool {
	waiting := status(pod, container).State.Waiting
	return waiting != nil && waiting.Reason == reason
}

func contains(t testing.TB, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: got %q, want it to contain %q", what, text, part)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
