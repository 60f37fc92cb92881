// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package imagepulljob

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/imagepulljob/plan"
	"github.com/kruise-operator/kruise-operator/internal/kube/workload"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// installed are the node daemon's namespace, its installation, and further objects.
func installed(more ...client.Object) []client.Object {
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-manager", UID: "installed"}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: secretNamespace, UID: "ns", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding", Name: binding.Name, UID: binding.UID,
	}}}}
	return append(more, binding, namespace)
}

// A tenant made the node daemon's namespace before the operator did, and got the pull secrets of all others.
func TestPullSecretsAreNotCopiedIntoTheNamespaceOfATenant(t *testing.T) {
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	source := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "regcred"}}
	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: secretNamespace, UID: "theirs"}}
	c := fake.NewClientBuilder().WithScheme(types).WithObjects(source, foreign).Build()
	r := New(workload.Dependencies{Client: c, Live: c, Clock: clock.RealClock{}, WriteTimeout: time.Minute})
	spec := plan.Parse(&appsv1beta1.ImagePullJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "job", Finalizers: []string{plan.Finalizer}},
		Spec:       appsv1beta1.ImagePullJobSpec{Image: "nginx", ImagePullJobTemplate: appsv1beta1.ImagePullJobTemplate{PullSecrets: []string{"regcred"}}},
	})
	copied := func() int {
		t.Helper()
		all := &corev1.SecretList{}
		if err := c.List(t.Context(), all, client.InNamespace(secretNamespace)); err != nil {
			t.Fatal(err)
		}
		return len(all.Items)
	}
	if _, err := r.copyAll(t.Context(), spec, true); err == nil || !strings.Contains(err.Error(), "namespaceUID") || copied() != 0 {
		t.Errorf("%d copies, %v", copied(), err)
	}
	marked := &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Name: operatorv1alpha1.KruiseName}}
	marked.Spec.NodeDaemon = &operatorv1alpha1.NodeDaemonSettings{NamespaceUID: "theirs"}
	if err := c.Create(t.Context(), marked); err != nil {
		t.Fatal(err)
	}
	if _, err := r.copyAll(t.Context(), spec, true); err != nil || copied() != 1 {
		t.Errorf("when an administrator has named its UID: %d copies, %v", copied(), err)
	}
}
