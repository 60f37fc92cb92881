// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// virtual is a virtual node by its taint, and by its label if it has one.
func virtual(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "virtual-kubelet.io/provider", Effect: corev1.TaintEffectNoSchedule}}},
	}
}

// The daemon got a pod on each virtual node that has nothing but the taint. It is kept off them by their names, and a node that goes does not replace all of
// its pods.
func TestTheDaemonIsKeptOffVirtualNodesThatTheirTaintShows(t *testing.T) {
	c := fake.NewClientBuilder().WithObjects(
		virtual("b", nil), virtual("labeled", map[string]string{"type": "virtual-kubelet"}), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
	).Build()
	r := &Reconciler{Dependencies: Dependencies{Client: c}}
	d := &NodeDaemon{Virtual: r.virtualByTaint}
	for _, step := range []struct {
		what   string
		change func() error
		want   []string
	}{
		{"at first", func() error { return nil }, []string{"b"}},
		{"another one joins", func() error { return c.Create(t.Context(), virtual("a", nil)) }, []string{"a", "b"}},
		{"one goes", func() error { return client.IgnoreNotFound(c.Delete(t.Context(), virtual("b", nil))) }, []string{"a", "b"}},
		{"a third one joins", func() error { return c.Create(t.Context(), virtual("c", nil)) }, []string{"a", "c"}},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		away, err := d.keptOff(t.Context())
		if diff := cmp.Diff(step.want, away); diff != "" || err != nil {
			t.Errorf("%s: error %v\n%s", step.what, err, diff)
		}
		d.away = away
	}
}
