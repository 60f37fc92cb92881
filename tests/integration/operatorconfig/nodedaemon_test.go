// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/platform/operands"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// The node daemon is deployed with all its objects when the first object needs it, and is
// gone when turned off. All of it goes with the installation.
func TestNodeDaemonIsThereWhileItIsNeeded(t *testing.T) {
	e := take(t)
	n := e.Namespace(t)
	if err := e.start(operator.Options{Name: "before-daemon"}).Stop(); err != nil { // for the namespace
		t.Fatal(err)
	}
	e.create(`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: kruise-system, name: kruise-operator-manager},
		spec: {replicas: 0, selector: {matchLabels: {app: x}}, template: {metadata: {labels: {app: x}},
		spec: {containers: [{name: manager, image: example/manager:v1}]}}}}`)
	e.start(operator.Options{Name: "with-daemon", Args: []string{"--deployment=kruise-operator-manager"}})
	e.mustConfigure(n, "{logLevel: Info}")
	at := func(name string) client.ObjectKey {
		return client.ObjectKey{Namespace: operands.DaemonNamespace, Name: name}
	}
	daemon := &appsv1.DaemonSet{}
	if err := e.Client.Get(t.Context(), at(operands.DaemonName), daemon); client.IgnoreNotFound(err) != nil || err == nil {
		t.Fatalf("without need there is a daemon: %v", err)
	}

	n.Apply("apiVersion: apps.kruise.io/v1beta1\nkind: ImagePullJob\nmetadata: {name: pull}\nspec: {image: 'registry.example/web:v1', completionPolicy: {type: Never}}\n")
	n.EventuallyWithin(2*time.Minute, "the daemon is deployed", func(ctx context.Context) error { return e.Client.Get(ctx, at(operands.DaemonName), daemon) })
	if image := daemon.Spec.Template.Spec.Containers[0].Image; image != "example/manager:v1" {
		t.Errorf("the daemon has the image %s, want the operator's own", image)
	}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
	for name, object := range map[client.ObjectKey]client.Object{
		{Name: operands.DaemonNamespace}:            &corev1.Namespace{},
		at(operands.DaemonName):                     daemon,
		at("kruise-daemon-secrets"):                 &rbacv1.RoleBinding{},
		at("kruise-operator-pull-secrets"):          &rbacv1.RoleBinding{},
		{Name: "kruise-daemon"}:                     &rbacv1.ClusterRoleBinding{},
		{Name: "kruise-daemon-own-node"}:            policy,
		{Name: "kruise-operator-pull-secrets"}:      &rbacv1.ClusterRole{},
		{Name: "kruise-operator-read-pull-secrets"}: &rbacv1.ClusterRole{},
	} {
		if err := e.Client.Get(t.Context(), name, object); err != nil {
			t.Errorf("%T: %v", object, err)
			continue
		}
		if of := object.GetOwnerReferences(); len(of) != 1 || of[0].Kind != "ClusterRoleBinding" || of[0].Name != "kruise-operator-manager" {
			t.Errorf("%T %s has the owners %v, want the installation", object, name, of)
		}
	}
	n.Eventually("the API server understands the policy", func(ctx context.Context) error {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if policy.Status.ObservedGeneration != policy.Generation || policy.Status.TypeChecking == nil {
			return errors.New("it has not looked at it yet")
		}
		if warnings := policy.Status.TypeChecking.ExpressionWarnings; len(warnings) > 0 {
			return fmt.Errorf("it warns of %v", warnings)
		}
		return nil
	})

	e.mustConfigure(n, "{nodeDaemon: {mode: Disabled}}")
	n.EventuallyWithin(2*time.Minute, "the daemon that is turned off is gone", func(ctx context.Context) error {
		for name, object := range map[client.ObjectKey]client.Object{
			at(operands.DaemonName): &appsv1.DaemonSet{}, {Name: "kruise-daemon"}: &rbacv1.ClusterRoleBinding{},
		} {
			err := e.Client.Get(ctx, name, object)
			if err == nil {
				return fmt.Errorf("%T %s is there", object, name)
			}
			if client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		return nil
	})
}
