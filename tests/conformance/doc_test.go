// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package conformance_test uses the public typed client of OpenKruise against KUBECONFIG's
// cluster, like programs for OpenKruise. It has its own go.mod: the client brings older
// Kubernetes libraries.
//
// The cluster must serve our kinds and our webhooks; a controller may run or not.
package conformance_test

import (
	"context"
	"os"
	"testing"

	"github.com/openkruise/kruise-api/client/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// connect returns the client and a namespace, deleted at the end of the test.
func connect(t *testing.T) (*versioned.Clientset, string) {
	t.Helper()
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		t.Skip("skipped: KUBECONFIG names no cluster; tests/integration/admission runs these tests with one")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitTimeout)
		defer cancel()
		for _, all := range []interface {
			DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
		}{c.AppsV1beta1().StatefulSets(ns.Name), c.AppsV1alpha1().CloneSets(ns.Name)} {
			if err := all.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Errorf("deleting what the test left: %v", err)
			}
		}
		if err := core.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("deleting the namespace of the test: %v", err)
		}
	})
	return c, ns.Name
}
