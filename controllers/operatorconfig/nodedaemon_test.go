// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
)

// What the Kruise object says about the rights of the node daemon is in its DaemonSet, and so is a later change.
func TestTheNodeDaemonGetsTheRightsOfTheSettings(t *testing.T) {
	own := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "op", Name: "manager"}}
	own.Spec.Template.Spec.Containers = []corev1.Container{{Name: managerContainer, Image: "example/manager:v1"}}
	installed := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-manager", UID: "installed"}}
	var applied *appsv1.DaemonSet
	c := interceptor.NewClient(fake.NewClientBuilder().WithObjects(own, installed).Build(), interceptor.Funcs{
		Apply: applying(func(object *unstructured.Unstructured) {
			if object.GetKind() != "DaemonSet" {
				return
			}
			applied = &appsv1.DaemonSet{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, applied); err != nil {
				t.Fatal(err)
			}
		}),
	})
	n := &NodeDaemon{
		Client: c, Deployment: client.ObjectKeyFromObject(own), Clock: clocktesting.NewFakePassiveClock(time.Now()),
		Needed: func(context.Context) (bool, error) { return true, nil },
	}
	kruise := &operatorv1alpha1.Kruise{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	settled := func(settings operatorv1alpha1.NodeDaemonSettings) *corev1.SecurityContext {
		t.Helper()
		kruise.Generation++
		kruise.Spec.NodeDaemon = &settings
		if _, err := n.Settle(t.Context(), kruise); err != nil {
			t.Fatal(err)
		}
		return applied.Spec.Template.Spec.Containers[0].SecurityContext
	}
	if got := settled(operatorv1alpha1.NodeDaemonSettings{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}); got.SELinuxOptions == nil || got.SELinuxOptions.Type != "spc_t" || *got.Privileged {
		t.Errorf("with an SELinux type: %+v", got)
	}
	if got := settled(operatorv1alpha1.NodeDaemonSettings{Privileged: true}); got.SELinuxOptions != nil || !*got.Privileged {
		t.Errorf("privileged: %+v", got)
	}
	if got := settled(operatorv1alpha1.NodeDaemonSettings{}); got.SELinuxOptions != nil || *got.Privileged {
		t.Errorf("without settings: %+v", got)
	}
}
