// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/chaos"
)

// apply is a step applying a manifest. Words in capitals are replaced: NODES by the lane's
// node selector, others by the pairs of words and values.
func apply(manifest string, settled func(context.Context, *chaos.World) error, pairs ...string) chaos.Step {
	return chaos.Step{Settled: settled, Do: func(w *chaos.World) {
		w.T.Helper()
		w.Apply(strings.NewReplacer(append(pairs, "NODES", w.Lane.Name)...).Replace(manifest))
	}}
}

// reconciled waits until an object is observed and Reconciling is False, for one of the
// reasons if any.
func reconciled(kind, name string, reasons ...string) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		object, err := read(ctx, w, kind, name)
		if err != nil {
			return err
		}
		observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		if observed != object.GetGeneration() {
			return fmt.Errorf("generation %d is not observed", object.GetGeneration())
		}
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, item := range conditions {
			c, _ := item.(map[string]any)
			if c["type"] != "Reconciling" || c["status"] != "False" {
				continue
			}
			for _, reason := range reasons {
				if c["reason"] == reason {
					return nil
				}
			}
			if len(reasons) == 0 {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %v", conditions)
	}
}

func read(ctx context.Context, w *chaos.World, kind, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	group, version := "apps.kruise.io", "v1beta1"
	switch kind {
	case "PodUnavailableBudget":
		group = "policy.kruise.io"
	case "Rollout":
		group = "rollouts.kruise.io"
	case "TrafficRouting":
		group, version = "rollouts.kruise.io", "v1alpha1"
	}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	return object, w.Client.Get(ctx, client.ObjectKey{Namespace: w.Name, Name: name}, object)
}

// both holds when two statements do.
func both(a, b func(context.Context, *chaos.World) error) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		if err := a(ctx, w); err != nil {
			return err
		}
		return b(ctx, w)
	}
}

// pods: the namespace has so many pods, all with an image.
func pods(count int, image string) func(context.Context, *chaos.World) error {
	return func(ctx context.Context, w *chaos.World) error {
		all, err := w.ListPods(ctx)
		if err != nil {
			return err
		}
		for i := range all {
			if got := all[i].Spec.Containers[0].Image; got != image {
				return fmt.Errorf("pod %s has the image %s", all[i].Name, got)
			}
		}
		if len(all) != count {
			return fmt.Errorf("there are %d pods", len(all))
		}
		return nil
	}
}

// nodes makes nodes for pods of this lane only, or removes them: the cluster takes a minute
// to collect a deleted node's pods. All are removed at the end of the run.
func nodes(w *chaos.World, add bool, names ...string) {
	w.T.Helper()
	if !add {
		for _, name := range names {
			leave := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"chaos":null}}}`))
			if err := env.Client.Patch(w.T.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.Name + "-" + name}}, leave); err != nil {
				w.T.Fatal(err)
			}
		}
		return
	}
	remove := sync.OnceFunc(addNodes(w, names...))
	w.Tidy = append(w.Tidy, remove)
	w.T.Cleanup(remove) // if the run does not come that far
}

// addNodes makes missing nodes for pods of this lane only, and returns their removal.
func addNodes(w *chaos.World, names ...string) (remove func()) {
	w.T.Helper()
	for _, name := range names {
		name := w.Name + "-" + name
		// With the taint from the first moment, no pod of another lane gets there.
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"chaos": w.Lane.Name, corev1.LabelHostname: name}},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "chaos", Value: "own", Effect: corev1.TaintEffectNoSchedule}}},
		}
		if err := env.Client.Create(w.T.Context(), node); err != nil && !apierrors.IsAlreadyExists(err) {
			w.T.Fatal(err)
		}
		if err := env.Nodes.Add(w.T.Context(), name, nil); err != nil {
			w.T.Fatal(err)
		}
	}
	ctx, log := context.WithoutCancel(w.T.Context()), w.Lane.T.Log
	return func() {
		for _, name := range names {
			if err := env.Nodes.Remove(ctx, w.Name+"-"+name); err != nil {
				log(err)
			}
		}
	}
}

// withNodes does something to the nodes of the lane before a step.
func withNodes(step chaos.Step, add bool, names ...string) chaos.Step {
	return after(step, func(w *chaos.World) { nodes(w, add, names...) })
}

// withLastingNodes makes nodes before a step, once for all runs of a lane. A job is
// complete, rightly, once all nodes the operator sees are done: one learned of later, with
// the watch of nodes held back, would be left out.
func withLastingNodes(step chaos.Step, names ...string) chaos.Step {
	var once sync.Once
	return after(step, func(w *chaos.World) {
		w.T.Helper()
		once.Do(func() { w.Lane.T.Cleanup(addNodes(w, names...)) })
	})
}

// after runs first before a step.
func after(step chaos.Step, first func(*chaos.World)) chaos.Step {
	return chaos.Step{Settled: step.Settled, Do: func(w *chaos.World) {
		w.T.Helper()
		first(w)
		if step.Do != nil {
			step.Do(w)
		}
	}}
}
