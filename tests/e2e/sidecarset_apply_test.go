// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// setIn is a SidecarSet for pods of one namespace, and a pod for it.
func setIn(n *environment.Namespace, name string, byWebhook bool) (*v1beta1.SidecarSet, *corev1.Pod) {
	labels := map[string]string{"app": name}
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: n.Name}}
	agent := v1beta1.SidecarContainer{Container: corev1.Container{Name: "agent", Image: agentV1}}
	if byWebhook {
		agent.ResourcesPolicy = &v1beta1.SidecarResourcesPolicy{
			TargetContainersMode: v1beta1.TargetContainersSum, TargetContainersNameRegex: ".*",
			ResourcesExpr: v1beta1.SidecarResourcesExpr{Requests: &v1beta1.SidecarResourceExpressions{CPU: "cpu*10%"}},
		}
	}
	set.Spec.Containers = []v1beta1.SidecarContainer{agent}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Name, GenerateName: name + "-", Labels: labels}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "example/main:v1"}}
	return set, pod
}

// tooSlow counts the warnings of a set perhaps not in force yet: the machine was too slow.
type tooSlow struct{ atomic.Int64 }

// HandleWarningHeader implements rest.WarningHandler.
func (w *tooSlow) HandleWarningHeader(_ int, _, text string) {
	if strings.Contains(text, "may not get the sidecars") {
		w.Add(1)
	}
}

// mostTold is for how many of twenty sets such a warning may be the answer. Two suites share the machine a day: busy, it may be slow, and must say so.
func mostTold(busy bool) int64 {
	if busy {
		return 15
	}
	return 5
}

// TestPodsOfTheSameApplyHaveTheirSidecars creates sets, and at once after each of them pods for it, as one does who applies a set and its workload in one file.
// With a hundred pods for the first and for the twentieth set, while the machine is busy, all had to have the sidecar: injection began a second after the answer.
func TestPodsOfTheSameApplyHaveTheirSidecars(t *testing.T) {
	n := env.Namespace(t)
	warnings, config := &tooSlow{}, rest.CopyConfig(env.Cluster.Config())
	config.WarningHandler, config.WarningHandlerWithContext = warnings, nil
	author, err := client.New(config, client.Options{Scheme: environment.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	var busy atomic.Bool
	for range 2 * runtime.NumCPU() {
		go func() {
			for t.Context().Err() == nil {
				if !busy.Load() {
					time.Sleep(time.Millisecond)
				}
			}
		}()
	}
	for way, byWebhook := range map[string]bool{"policy": false, "webhook": true} {
		for load, on := range map[string]bool{"idle": false, "busy": true} {
			busy.Store(on)
			var took []time.Duration
			before := warnings.Load()
			for at := range 20 {
				pods := 5
				if at == 0 || at == 19 {
					pods = 100
				}
				set, pod := setIn(n, fmt.Sprintf("%s-%s-%s-%d", n.Name, way, load, at), byWebhook)
				began, known := time.Now(), warnings.Load()
				if err := author.Create(t.Context(), set); err != nil {
					t.Fatal(err)
				}
				took = append(took, time.Since(began))
				t.Cleanup(func() { _ = client.IgnoreNotFound(n.Client.Delete(context.WithoutCancel(t.Context()), set)) })
				if without := createdWithout(t, n, pod, pods); len(without) > 0 && warnings.Load() == known {
					t.Errorf("by %s, %s, set %d: %d of %d pods have no sidecar, such as %s", way, load, at, len(without), pods, without[0])
				}
			}
			busy.Store(false)
			slices.Sort(took)
			t.Logf("measured: by %s, %s, a set is answered after %v, at most %v; %d warnings", way, load, took[len(took)/2], took[len(took)-1], warnings.Load()-before)
			if warnings.Load()-before > mostTold(on) {
				t.Errorf("by %s, %s: %d of 20 sets were not in force within three seconds", way, load, warnings.Load()-before)
			}
		}
	}
}

// createdWithout creates pods in dry runs, ten at a time, and names those without a
// sidecar.
func createdWithout(t *testing.T, n *environment.Namespace, pod *corev1.Pod, pods int) []string {
	t.Helper()
	var mutex sync.Mutex
	var without []string
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			for range (pods + 9) / 10 {
				made := pod.DeepCopy()
				err := n.Client.Create(t.Context(), made, client.DryRunAll)
				if err == nil && len(made.Spec.Containers) == 2 {
					continue
				}
				mutex.Lock()
				without = append(without, strings.TrimSpace(fmt.Sprint(made.Name, " ", err)))
				mutex.Unlock()
			}
		})
	}
	group.Wait()
	return without
}
