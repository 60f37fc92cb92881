// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package operatorconfig_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

const protectionGate = "{name: ResourcesDeletionProtection, state: Enabled}"

// deleting tries to delete an object and says what is wrong with the answer: it has to be a refusal with all these texts, or none without any.
func deleting(ctx context.Context, object *unstructured.Unstructured, texts ...string) error {
	err := env.Client.Delete(ctx, object, client.DryRunAll)
	if len(texts) == 0 {
		return err
	}
	if !apierrors.IsForbidden(err) {
		return errors.Join(fmt.Errorf("deleting %s %s is not forbidden", object.GetKind(), object.GetName()), err)
	}
	for _, text := range append(texts, "forbidden by ResourcesProtectionDeletion", "take this label away first") {
		if !strings.Contains(err.Error(), text) {
			return fmt.Errorf("deleting %s %s: %q is not in %w", object.GetKind(), object.GetName(), text, err)
		}
	}
	return nil
}

// label gives an object the label of deletion protection; an empty value takes it away.
func label(t *testing.T, object *unstructured.Unstructured, value string) {
	t.Helper()
	patch := `{"metadata":{"labels":{"policy.kruise.io/delete-protection":null}}}`
	if value != "" {
		patch = fmt.Sprintf(`{"metadata":{"labels":{"policy.kruise.io/delete-protection":%q}}}`, value)
	}
	if err := env.Client.Patch(context.WithoutCancel(t.Context()), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// widgets is a definition with two objects.
func widgets(t *testing.T, n *environment.Namespace) (definition *unstructured.Unstructured, objects []*unstructured.Unstructured) {
	t.Helper()
	plural := "widgets" + strings.ReplaceAll(n.Name, "-", "")
	definition = create(t, strings.NewReplacer("PLURAL", plural).Replace(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
		metadata: {name: PLURAL.example.com}, spec: {group: example.com, scope: Namespaced, names: {kind: Kind-PLURAL, plural: PLURAL, singular: PLURAL},
		versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`))
	t.Cleanup(func() {
		label(t, definition, "")
		if err := client.IgnoreNotFound(env.Client.Delete(context.WithoutCancel(t.Context()), definition)); err != nil {
			t.Error(err)
		}
	})
	for i := range 2 {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Kind-" + plural, "metadata": map[string]any{"namespace": n.Name, "name": fmt.Sprintf("w%d", i)},
		}}
		n.Eventually("the kind is served", func(ctx context.Context) error { return client.IgnoreAlreadyExists(env.Client.Create(ctx, object)) })
		objects = append(objects, object)
	}
	return definition, objects
}

// natives are objects of the native kinds that a policy protects by itself; replicas says of which kinds the value Cascading protects them.
func natives(t *testing.T, n *environment.Namespace) (all []*unstructured.Unstructured, replicas map[string]bool) {
	t.Helper()
	pods := "replicas: 3, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: example/main}]}}"
	for _, text := range []string{
		"apiVersion: apps/v1, kind: Deployment, spec: {" + pods + "}",
		"apiVersion: apps/v1, kind: ReplicaSet, spec: {" + pods + "}",
		"apiVersion: apps/v1, kind: StatefulSet, spec: {serviceName: web, " + pods + "}",
		"apiVersion: v1, kind: Service, spec: {ports: [{port: 80}]}",
		"apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}",
	} {
		all = append(all, create(t, fmt.Sprintf("{metadata: {namespace: %s, name: native}, %s}", n.Name, text)))
	}
	return all, map[string]bool{"Deployment": true, "ReplicaSet": true, "StatefulSet": true}
}

// TestDeletionProtectionOfNativeKinds: what a policy decides by itself holds with the operator dead, too.
func TestDeletionProtectionOfNativeKinds(t *testing.T) {
	n := env.Namespace(t)
	o := start(t, operator.Options{Name: "protection-native"})
	objects, replicas := natives(t, n)
	namespace := create(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s-always}}", n.Name))
	definition, _ := widgets(t, n)
	always := append(objects, namespace, definition)
	for _, object := range always {
		label(t, object, "Always")
	}
	if err := deleting(t.Context(), namespace); err != nil {
		t.Errorf("while the gate is off: %v", err)
	}
	mustConfigure(t, n, "{featureGates: ["+protectionGate+"]}")
	n.Eventually("the API server has taken notice of the policy", func(ctx context.Context) error { return deleting(ctx, namespace, "=Always") })
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, object := range always {
		if err := deleting(t.Context(), object, "=Always"); err != nil {
			t.Error(err)
		}
	}
	for _, object := range objects {
		label(t, object, "Cascading")
		var want []string
		if replicas[object.GetKind()] {
			want = []string{"=Cascading and replicas 3>0: to delete it, set spec.replicas to 0"}
		}
		if err := deleting(t.Context(), object, want...); err != nil {
			t.Error(err)
		}
		label(t, object, "always")
		if err := deleting(t.Context(), object); err != nil {
			t.Error(err)
		}
	}
	// An object without the label, and one with another value, never meet the webhook: nobody would answer.
	label(t, namespace, "")
	label(t, definition, "Sometimes")
	for _, object := range []*unstructured.Unstructured{namespace, definition} {
		if err := deleting(t.Context(), object); err != nil {
			t.Error(err)
		}
	}
	label(t, namespace, "Cascading")
	if err := deleting(t.Context(), namespace); err == nil || apierrors.IsForbidden(err) {
		t.Errorf("a Namespace that nobody can look into is deleted, or refused by somebody: %v", err)
	}

	// What an owner that may go takes along, it takes along.
	label(t, objects[0], "")
	owned := create(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: owned, labels: {policy.kruise.io/delete-protection: Always},
		ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: native, uid: %s}]}, spec: {ports: [{port: 80}]}}`, n.Name, objects[0].GetUID()))
	if err := env.Client.Delete(t.Context(), objects[0], client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the garbage collector has collected what belonged to it", func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(owned), owned); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it exists: %w", err)
		}
		return nil
	})
	label(t, namespace, "")
	if err := env.Client.Delete(t.Context(), namespace); err != nil {
		t.Error(err)
	}
}

// TestDeletionProtectionByCounting: a Namespace with pods or volume claims, and a definition with objects, which only the webhook can see.
func TestDeletionProtectionByCounting(t *testing.T) {
	n := env.Namespace(t)
	start(t, operator.Options{Name: "protection-counting"})
	mustConfigure(t, n, "{featureGates: ["+protectionGate+"]}")
	namespace := create(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s-cascading, labels: {policy.kruise.io/delete-protection: Cascading}}}", n.Name))
	n.Eventually("an empty namespace may go", func(ctx context.Context) error { return deleting(ctx, namespace) })
	pod := create(t, fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {namespace: %s, name: a}, spec: {containers: [{name: main, image: example/main}]}}", namespace.GetName()))
	n.Eventually("a pod keeps it", func(ctx context.Context) error {
		return deleting(ctx, namespace, "=Cascading and active pods 1>0: to delete it, delete what runs in it")
	})
	if err := env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	claim := create(t, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: %s, name: data},
		spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, storageClassName: "", volumeName: %[1]s}}`, namespace.GetName()))
	if err := deleting(t.Context(), namespace); err != nil {
		t.Errorf("a claim that is not bound keeps it: %v", err)
	}
	create(t, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
		storageClassName: "", persistentVolumeReclaimPolicy: Retain, hostPath: {path: /nowhere}, claimRef: {namespace: %[1]s, name: data}}}`, namespace.GetName()))
	n.EventuallyWithin(time.Minute, "a bound claim keeps it", func(ctx context.Context) error {
		return deleting(ctx, namespace, "and bound volume claims 1>0: to delete it, delete these claims")
	})
	if err := env.Client.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	n.Eventually("it may go again", func(ctx context.Context) error { return deleting(ctx, namespace) })
	if err := env.Client.Delete(t.Context(), namespace); err != nil {
		t.Error(err)
	}

	definition, objects := widgets(t, n)
	label(t, definition, "Cascading")
	if err := deleting(t.Context(), definition, "while the feature gate DeletionProtectionForCRDCascadingGate is off"); err != nil {
		t.Error(err)
	}
	mustConfigure(t, n, "{featureGates: ["+protectionGate+", {name: DeletionProtectionForCRDCascadingGate, state: Enabled}]}")
	plural, _, _ := strings.Cut(definition.GetName(), ".")
	n.Eventually("the refusal says which right is missing", func(ctx context.Context) error {
		return deleting(ctx, definition, fmt.Sprintf("a ClusterRole with the verb list on resource %s of API group \"example.com\"", plural))
	})
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: plural}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{plural}, Verbs: []string{"list"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: plural}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: plural},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kruise-system", Name: "kruise-operator-manager"}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := env.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(t.Context()), object) })
	}
	n.Eventually("objects of its kind keep it", func(ctx context.Context) error {
		return deleting(ctx, definition, "=Cascading and objects of its kind 2>0: to delete it, delete these objects")
	})
	for _, object := range objects {
		if err := env.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	n.Eventually("it may go without them", func(ctx context.Context) error { return deleting(ctx, definition) })

	mustConfigure(t, n, "{logLevel: Info}")
	n.Eventually("nothing is registered any more", func(ctx context.Context) error {
		for _, object := range []client.Object{
			&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
			&admissionregistrationv1.ValidatingWebhookConfiguration{},
		} {
			if err := env.Client.Get(ctx, client.ObjectKey{Name: "kruise-operator-deletion-protection"}, object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T exists: %w", object, err)
			}
		}
		return nil
	})
}
