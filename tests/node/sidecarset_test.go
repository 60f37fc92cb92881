// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package node_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// TestHotUpgradeServesAllTheTime lets the API server inject a pair of containers and gives
// it another image: at every state of the pod reported by the kubelet, a container of the
// pair with a real image runs and is ready. The workload's own container is not touched.
func TestHotUpgradeServesAllTheTime(t *testing.T) {
	n := onNode(t)
	idle := repository + ":v1-again"
	set := &v1beta1.SidecarSet{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name},
		Spec: v1beta1.SidecarSetSpec{
			Selector:          &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: n.Name}},
			Containers: []v1beta1.SidecarContainer{{
				Container: corev1.Container{
					Name: "mesh", Image: repository + ":v1", ImagePullPolicy: corev1.PullAlways, Args: []string{"-listen=127.0.0.1:0"},
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
				},
				UpgradeStrategy: v1beta1.SidecarUpgradeStrategy{UpgradeType: v1beta1.HotUpgrade, HotUpgradeEmptyImage: idle},
			}},
		},
	}
	if err := n.Client.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.IgnoreNotFound(n.Client.Delete(context.WithoutCancel(t.Context()), set)) })
	read := func(ctx context.Context) (*v1beta1.SidecarSet, error) {
		is := &v1beta1.SidecarSet{}
		err := n.Client.Get(ctx, types.NamespacedName{Name: n.Name}, is)
		return is, err
	}
	n.Eventually("the set injects", func(ctx context.Context) error {
		is, err := read(ctx)
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(is.Status.Conditions, string(v1beta1.SidecarSetInjectionPath)); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
	was := startClones(t, n, guestbookClones(1))[0]
	complete := func(ctx context.Context) error {
		is, err := read(ctx)
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(is.Status.Conditions, string(v1beta1.SidecarSetReconciling))
		if c == nil || c.Reason != v1beta1.ReasonComplete || is.Status.ObservedGeneration != is.Generation || is.Status.UpdatedReadyPods != 1 {
			return fmt.Errorf("the status is %+v", is.Status)
		}
		return nil
	}
	n.Eventually("the pod counts", complete)
	was = steady(n, was)
	states := follow(t, n)
	began := time.Now()
	n.Eventually("the image is changed", func(ctx context.Context) error {
		is, err := read(ctx)
		if err != nil {
			return err
		}
		is.Spec.Containers[0].Image = repository + ":v2"
		return n.Client.Update(ctx, is)
	})
	n.Eventually("the upgrade ends", complete)
	took := time.Since(began)

	is := n.Pod(was.Name)
	assertSamePod(t, &was, is)
	assertSameContainer(t, &was, is, "web")
	if first, second := imageOf(is, "mesh-1"), imageOf(is, "mesh-2"); first != idle || second != repository+":v2" {
		t.Errorf("in the end mesh-1 has %s, mesh-2 %s", first, second)
	}
	seen := states.of(n, is)
	replaced := 0
	for _, m := range seen {
		// A container works while its status is of one made with a real image: until its
		// replacement this is the earlier one.
		works := func(name string) bool {
			c := status(m.pod, name)
			if !c.Ready || c.State.Running == nil {
				return false
			}
			if name == "mesh-1" {
				return c.ContainerID == status(&was, name).ContainerID
			}
			return c.ContainerID != status(&was, name).ContainerID
		}
		if !works("mesh-1") && !works("mesh-2") {
			t.Errorf("in resource version %s no container of the pair works: %+v", m.pod.ResourceVersion, m.pod.Status.ContainerStatuses)
		}
		if works("mesh-2") && imageOf(m.pod, "mesh-1") == idle {
			replaced++
		}
	}
	if replaced == 0 {
		t.Error("no state shows that the second container took over: nothing is proven")
	}
	t.Logf("measured: hot upgrade of one pod, with a pull: %s, %d states of the pod", seconds(took), len(seen))
}

func imageOf(pod *corev1.Pod, container string) string {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
	if i < 0 {
		return ""
	}
	return pod.Spec.Containers[i].Image
}
