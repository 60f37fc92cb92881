// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cluster_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
)

func TestClustersRunSideBySide(t *testing.T) {
	t.Parallel()
	first, second := controlPlane.ForTest(t), apiServer.ForTest(t)
	if first.Dir() == second.Dir() || first.APIServerURL() == second.APIServerURL() {
		t.Fatalf("the clusters share %s or %s", first.Dir(), first.APIServerURL())
	}

	createConfigMap(t, first.Config(), "only-in-first")
	_, err := clientset(t, second.Config()).CoreV1().ConfigMaps("default").
		Get(t.Context(), "only-in-first", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("reading an object of the first cluster from the second: want not found, got %v", err)
	}

	// Both accept a pod at once: the full one has the service account, the other does not ask for it.
	for _, c := range []*cluster.Cluster{first, second} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "accepted"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		}
		if _, err := clientset(t, c.Config()).CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Errorf("creating a pod: %v", err)
		}
	}

	output, err := first.Kubectl(t.Context(), "version", "--output=json").Output()
	if err != nil {
		t.Fatalf("running kubectl: %v", err)
	}
	if !strings.Contains(string(output), "\"gitVersion\": \""+first.Version()+"\"") {
		t.Errorf("kubectl and the API server do not report %s:\n%s", first.Version(), output)
	}
}

func TestRBACAppliesToUnprivilegedUser(t *testing.T) {
	t.Parallel()
	c := apiServer.ForTest(t)
	config, err := c.ConfigFor("alice", "readers")
	if err != nil {
		t.Fatal(err)
	}
	alice, admin := clientset(t, config), clientset(t, c.Config())
	if _, err := alice.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("listing without a role: want forbidden, got %v", err)
	}

	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
	}
	if _, err := admin.RbacV1().Roles("default").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "readers"}},
	}
	if _, err := admin.RbacV1().RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a member of the bound group may list", func() error {
		_, err := alice.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		return err
	})
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "forbidden"}}
	if _, err := alice.CoreV1().ConfigMaps("default").Create(t.Context(), configMap, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("creating with a role that only lists: want forbidden, got %v", err)
	}
}

// It is not parallel: others use the API server.
func TestAPIServerRestartKeepsData(t *testing.T) {
	c := controlPlane.ForTest(t)
	createConfigMap(t, c.Config(), "kept")
	client := clientset(t, c.Config())
	read := func() error {
		_, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
		return err
	}

	if err := c.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := read(); err != nil {
		t.Errorf("reading after a restart: %v", err)
	}

	if err := c.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := read(); err == nil {
		t.Error("the stopped API server answers")
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := read(); err != nil {
		t.Errorf("reading after a stop and a start: %v", err)
	}

	// The controller manager outlives the fault: it makes the service account of a new namespace.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "later"}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new namespace has its service account", func() error {
		_, err := client.CoreV1().ServiceAccounts("later").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

func clientset(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func createConfigMap(t *testing.T, config *rest.Config, name string) {
	t.Helper()
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := clientset(t, config).CoreV1().ConfigMaps("default").Create(t.Context(), configMap, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a config map: %v", err)
	}
}

func assertGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}
