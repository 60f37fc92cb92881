// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
	"github.com/kruise-operator/kruise-operator/internal/platform/operands"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// namespaceCase is an installation's node daemon, and its earlier objects.
func namespaceCase(t *testing.T, needed bool, there ...client.Object) (n *NodeDaemon, c client.Client, applied *[]string) {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	own := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "op", Name: "manager"}}
	own.Spec.Template.Spec.Containers = []corev1.Container{{Name: managerContainer, Image: "example/manager:v1"}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-manager", UID: "installed"}}
	applied = new([]string)
	c = interceptor.NewClient(fake.NewClientBuilder().WithScheme(types).WithObjects(append(there, own, binding)...).Build(), interceptor.Funcs{
		Apply: applying(func(object *unstructured.Unstructured) {
			owner := ""
			if of := object.GetOwnerReferences(); len(of) > 0 {
				owner = string(of[0].UID)
			}
			*applied = append(*applied, object.GetKind()+" "+string(object.GetUID())+" "+owner)
		}),
	})
	return &NodeDaemon{
		Client: c, Deployment: client.ObjectKeyFromObject(own), Clock: clocktesting.NewFakePassiveClock(time.Now()),
		Needed: func(context.Context) (bool, error) { return needed, nil },
	}, c, applied
}

// Somebody else had made the namespace: it was labeled privileged and got a DaemonSet running as root, so its
// admin owned every node.
func TestTheNamespaceOfATenantGetsNoNodeDaemon(t *testing.T) {
	theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operands.DaemonNamespace, UID: "theirs", Labels: map[string]string{
		"app.kubernetes.io/managed-by": "kruise-operator", "app.kubernetes.io/part-of": "kruise-operator",
	}}}
	n, c, applied := namespaceCase(t, true, theirs)
	if _, err := n.Settle(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "spec.nodeDaemon.namespaceUID") || len(*applied) > 0 {
		t.Errorf("applied %v, %v", *applied, err)
	}
	marked := &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Name: operatorv1alpha1.KruiseName}}
	marked.Spec.NodeDaemon = &operatorv1alpha1.NodeDaemonSettings{NamespaceUID: "theirs"}
	if err := c.Create(t.Context(), marked); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Settle(t.Context(), marked); err != nil || len(*applied) == 0 || (*applied)[0] != "Namespace theirs " {
		t.Errorf("when an administrator has named its UID: applied %v, %v", *applied, err)
	}
}

// Nobody else can take the name once the operator runs, even without a need for the daemon.
func TestTheNamespaceIsReservedFromTheStart(t *testing.T) {
	n, _, applied := namespaceCase(t, false)
	if _, err := n.Settle(t.Context(), nil); err != nil || len(*applied) != 1 || (*applied)[0] != "Namespace  installed" {
		t.Errorf("applied %q, %v", *applied, err)
	}
}

// It does not go with the daemon: then anybody could make it.
func TestTheNamespaceStaysReservedWithoutADaemon(t *testing.T) {
	ours := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operands.DaemonNamespace, OwnerReferences: []metav1.OwnerReference{{UID: "installed"}}}}
	n, c, _ := namespaceCase(t, false, ours)
	if err := n.remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(ours), ours); err != nil {
		t.Error(err)
	}
}
