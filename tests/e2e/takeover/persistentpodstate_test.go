// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package takeover_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// TestTakeoverOfPersistentPodStates: places recorded by OpenKruise stay, no pod is written, and the next pod returns.
func TestTakeoverOfPersistentPodStates(t *testing.T) {
	t.Parallel()
	c := cluster.StartForTest(t, cluster.Options{ControlPlane: cluster.APIServerOnly})
	direct, err := client.New(c.Config(), client.Options{Scheme: environment.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.InstallCRDs(t.Context(), "../../../config/crd/bases"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node-0", "node-1"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: "zone-a"}}}
		if err := direct.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	fixtures.Restore(t.Context(), t, client.WithFieldOwner(direct, "manager"), "persistentpodstate/state.yaml")
	before := &corev1.PodList{}
	if err := direct.List(t.Context(), before, client.InNamespace("persistentpodstate")); err != nil || len(before.Items) != 5 {
		t.Fatalf("restored are %d pods, %v", len(before.Items), err)
	}
	states := map[string]*v1beta1.PersistentPodState{"ring": {}, "auto": {}}
	for name, state := range states {
		if err := direct.Get(t.Context(), types.NamespacedName{Namespace: "persistentpodstate", Name: name}, state); err != nil || len(state.Status.PodStates) < 2 {
			t.Fatalf("restored is %+v, %v", state, err)
		}
	}
	o, err := operator.New(t.Context(), c, operator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := namespaceOf(t, c, direct)
	for name, was := range states {
		n.Eventually(name+" is taken over", func(ctx context.Context) error {
			state := &v1beta1.PersistentPodState{}
			if err := direct.Get(ctx, client.ObjectKeyFromObject(was), state); err != nil || len(state.Status.Conditions) == 0 {
				return fmt.Errorf("its status is %+v, %w", state.Status, err)
			}
			if diff := cmp.Diff(was.Status.PodStates, state.Status.PodStates) + cmp.Diff(was.Spec, state.Spec); diff != "" {
				t.Fatalf("%s (-before +after):\n%s", name, diff)
			}
			return nil
		})
	}
	n.Consistently(quiet, "no pod is written", func(ctx context.Context) error {
		for i := range before.Items {
			pod := &corev1.Pod{}
			if err := direct.Get(ctx, client.ObjectKeyFromObject(&before.Items[i]), pod); err != nil || pod.ResourceVersion != before.Items[i].ResourceVersion {
				return fmt.Errorf("pod %s is %+v, %w", pod.Name, pod.ObjectMeta, err)
			}
		}
		return nil
	})
	former := &before.Items[0]
	if err := direct.Delete(t.Context(), former, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the next pod returns", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := direct.Get(ctx, client.ObjectKeyFromObject(former), pod); err != nil || pod.UID == former.UID {
			return fmt.Errorf("it is not there: %w", err)
		}
		if pod.Spec.NodeSelector[corev1.LabelTopologyZone] != "zone-a" || pod.Annotations[shared.AnnotationInjectedPersistentPodState] == "" {
			return fmt.Errorf("it selects %v", pod.Spec.NodeSelector)
		}
		return nil
	})
}
