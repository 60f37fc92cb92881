// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// TestCopiesStayCurrentAfterTheAPIServerRestarted: with another tool copies were no longer refreshed until it was restarted itself
// (emberstack/kubernetes-reflector #292).
func TestCopiesStayCurrentAfterTheAPIServerRestarted(t *testing.T) {
	n := env.Namespace(t)
	n.Apply(fmt.Sprintf(`
apiVersion: apps.kruise.io/v1beta1
kind: ResourceDistribution
metadata: {name: %[1]s}
spec:
  resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: hub}, data: {a: '1'}}
  targets:
    namespaceSelector: {matchLabels: {team: %[1]s}}
`, n.Name))
	object := &v1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(t.Context()), object) })
	var namespaces []string
	create := func() {
		t.Helper()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", n.Name, len(namespaces)), Labels: map[string]string{"team": n.Name}}}
		if err := env.Client.Create(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		namespaces = append(namespaces, namespace.Name)
		t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(t.Context()), namespace) })
	}
	current := func(value string) {
		t.Helper()
		n.EventuallyWithin(2*time.Minute, "all copies have the value "+value, func(ctx context.Context) error {
			for _, namespace := range namespaces {
				found := &corev1.ConfigMap{}
				if err := env.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "hub"}, found); err != nil || found.Data["a"] != value {
					return fmt.Errorf("%s has %v, %w", namespace, found.Data, err)
				}
			}
			return nil
		})
	}
	for range 3 {
		create()
	}
	current("1")
	process := env.Operator.PID()
	if err := env.Cluster.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the data is changed", func(ctx context.Context) error {
		return env.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"resource":{"data":{"a":"2"}}}}`)))
	})
	if err := env.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[0], Name: "hub"}}); err != nil {
		t.Fatal(err)
	}
	create()
	current("2")
	if is := env.Operator.PID(); is != process {
		t.Errorf("the operator was restarted: process %d, was %d", is, process)
	}
}
