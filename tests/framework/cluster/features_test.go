// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kruise-operator/kruise-operator/tests/framework/audit"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
)

func TestLogsOfTheAPIServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := cluster.StartForTest(t, cluster.Options{
		ControlPlane: cluster.APIServerOnly,
		Audit:        &cluster.Audit{},
		LogDir:       dir,
		Flags:        map[string][]string{cluster.APIServer: {"--v=2"}},
	})
	log, err := audit.Open(c.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	config, err := c.ConfigFor("alice", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	alice := clientset(t, config).CoreV1().ConfigMaps("default")
	const creates = 20
	for range creates {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "counted-"}}
		if _, err := alice.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := alice.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}

	// Right after the last answer, even if the API server dies then.
	if err := c.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	events, err := log.Next(audit.ByUser("alice"))
	if err != nil {
		t.Fatal(err)
	}
	got := audit.Count(events)
	want := audit.Counts{
		{Verb: "create", Resource: "configmaps", Code: http.StatusCreated}: creates,
		{Verb: "list", Resource: "configmaps", Code: http.StatusOK}:        1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}

	// A log folder's name outlives the cluster.
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if got, want := c.Logs(cluster.APIServer), filepath.Join(dir, "kube-apiserver.log"); got != want {
		t.Errorf("the API server's log is %s, want %s", got, want)
	}
	info, err := os.Stat(c.Logs(cluster.APIServer))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() == 0 {
		t.Error("the API server's log is empty")
	}
}

func TestInstalledCRDsAreServed(t *testing.T) {
	t.Parallel()
	c := apiServer.ForTest(t)
	if err := c.InstallCRDs(t.Context(), "testdata"); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.kruise.io/v1",
		"kind":       "Widget",
		"metadata":   map[string]any{"name": "web"},
	}}
	resource := schema.GroupVersionResource{Group: "test.kruise.io", Version: "v1", Resource: "widgets"}
	if _, err := client.Resource(resource).Namespace("default").Create(t.Context(), widget, metav1.CreateOptions{}); err != nil {
		t.Errorf("creating an object of the new kind: %v", err)
	}
	if err := c.InstallCRDs(t.Context(), "testdata"); err != nil {
		t.Errorf("installing again: %v", err)
	}
	if err := c.InstallCRDs(t.Context(), "testdata/missing"); err == nil {
		t.Error("installing from a missing folder succeeds")
	}
}

// Simulated and real nodes rely on it: a kubelet's certificate gives the rights of its own
// node only.
func TestNodeCertificateActsForItsNodeOnly(t *testing.T) {
	t.Parallel()
	c := apiServer.ForTest(t)
	path, err := c.KubeconfigFile("system:node:node-1", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	nodes := clientset(t, config).CoreV1().Nodes()
	for name, allowed := range map[string]bool{"node-1": true, "node-2": false} {
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := nodes.Create(t.Context(), object, metav1.CreateOptions{})
		if allowed && err != nil {
			t.Errorf("registering %s: %v", name, err)
		}
		if !allowed && !apierrors.IsForbidden(err) {
			t.Errorf("registering %s: want forbidden, got %v", name, err)
		}
	}
}

func TestFullControlPlaneSchedulesAndCollects(t *testing.T) {
	t.Parallel()
	c := controlPlane.ForTest(t)
	core := clientset(t, c.Config()).CoreV1()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	if _, err := core.Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	owner, err := core.ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
		}},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "web", Image: "web:1"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	if _, err := core.Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The scheduler wants to know how many pods the node takes.
	patch := []byte(`{"status":{"capacity":{"pods":"10"},"allocatable":{"pods":"10"}}}`)
	if _, err := core.Nodes().Patch(t.Context(), node.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the scheduler binds the pod", func() error {
		return expectPod(t.Context(), core.Pods("default"), func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node.Name })
	})
	if err := core.ConfigMaps("default").Delete(t.Context(), owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// There is no kubelet: a bound pod stays, marked for deletion.
	eventually(t, "the garbage collector deletes the pod of a deleted owner", func() error {
		return expectPod(t.Context(), core.Pods("default"), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	})
}

// expectPod returns an error unless the pod named web is as expected.
func expectPod(ctx context.Context, pods typedcorev1.PodInterface, expected func(*corev1.Pod) bool) error {
	pod, err := pods.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !expected(pod) {
		return fmt.Errorf("the pod is on node %q and deleted at %v", pod.Spec.NodeName, pod.DeletionTimestamp)
	}
	return nil
}
