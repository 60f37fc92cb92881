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

// deleting tries to delete an object and checks the answer: a refusal with all these texts,
// or none without any.
func (e *testEnv) deleting(ctx context.Context, object *unstructured.Unstructured, texts ...string) error {
	err := e.Client.Delete(ctx, object, client.DryRunAll)
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
func (e *testEnv) label(object *unstructured.Unstructured, value string) {
	e.t.Helper()
	patch := `{"metadata":{"labels":{"policy.kruise.io/delete-protection":null}}}`
	if value != "" {
		patch = fmt.Sprintf(`{"metadata":{"labels":{"policy.kruise.io/delete-protection":%q}}}`, value)
	}
	if err := e.Client.Patch(context.WithoutCancel(e.t.Context()), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		e.t.Fatal(err)
	}
}

// widgets is a definition with two objects.
func (e *testEnv) widgets(n *environment.Namespace) (definition *unstructured.Unstructured, objects []*unstructured.Unstructured) {
	e.t.Helper()
	plural := "widgets" + strings.ReplaceAll(n.Name, "-", "")
	definition = e.create(strings.NewReplacer("PLURAL", plural).Replace(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
		metadata: {name: PLURAL.example.com}, spec: {group: example.com, scope: Namespaced, names: {kind: Kind-PLURAL, plural: PLURAL, singular: PLURAL},
		versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`))
	e.t.Cleanup(func() {
		e.label(definition, "")
		if err := client.IgnoreNotFound(e.Client.Delete(context.WithoutCancel(e.t.Context()), definition)); err != nil {
			e.t.Error(err)
		}
	})
	for i := range 2 {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Kind-" + plural, "metadata": map[string]any{"namespace": n.Name, "name": fmt.Sprintf("w%d", i)},
		}}
		n.Eventually("the kind is served", func(ctx context.Context) error { return client.IgnoreAlreadyExists(e.Client.Create(ctx, object)) })
		objects = append(objects, object)
	}
	return definition, objects
}

// natives are objects of the native kinds a policy protects by itself; replicas marks the
// kinds the value Cascading protects by replicas.
func (e *testEnv) natives(n *environment.Namespace) (all []*unstructured.Unstructured, replicas map[string]bool) {
	e.t.Helper()
	pods := "replicas: 3, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: example/main}]}}"
	for _, text := range []string{
		"apiVersion: apps/v1, kind: Deployment, spec: {" + pods + "}",
		"apiVersion: apps/v1, kind: ReplicaSet, spec: {" + pods + "}",
		"apiVersion: apps/v1, kind: StatefulSet, spec: {serviceName: web, " + pods + "}",
		"apiVersion: v1, kind: Service, spec: {ports: [{port: 80}]}",
		"apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}",
	} {
		all = append(all, e.create(fmt.Sprintf("{metadata: {namespace: %s, name: native}, %s}", n.Name, text)))
	}
	return all, map[string]bool{"Deployment": true, "ReplicaSet": true, "StatefulSet": true}
}

// TestDeletionProtectionOfNativeKinds: a policy's own decisions hold with the operator
// dead, too.
func TestDeletionProtectionOfNativeKinds(t *testing.T) {
	e := take(t)
	n := e.Namespace(t)
	o := e.start(operator.Options{Name: "protection-native"})
	objects, replicas := e.natives(n)
	namespace := e.create(fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s-always}}", n.Name))
	definition, _ := e.widgets(n)
	always := append(objects, namespace, definition)
	for _, object := range always {
		e.label(object, "Always")
	}
	if err := e.deleting(t.Context(), namespace); err != nil {
		t.Errorf("while the gate is off: %v", err)
	}
	e.mustConfigure(n, "{featureGates: ["+protectionGate+"]}")
	n.Eventually("the API server has taken notice of the policy", func(ctx context.Context) error { return e.deleting(ctx, namespace, "=Always") })
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, object := range always {
		if err := e.deleting(t.Context(), object, "=Always"); err != nil {
			t.Error(err)
		}
	}
	for _, object := range objects {
		e.label(object, "Cascading")
		var want []string
		if replicas[object.GetKind()] {
			want = []string{"=Cascading and replicas 3>0: to delete it, set spec.replicas to 0"}
		}
		if err := e.deleting(t.Context(), object, want...); err != nil {
			t.Error(err)
		}
		e.label(object, "always")
		if err := e.deleting(t.Context(), object); err != nil {
			t.Error(err)
		}
	}
	// An object without the label, and one with another value, never meet the webhook: nobody would answer.
	e.label(namespace, "")
	e.label(definition, "Sometimes")
	for _, object := range []*unstructured.Unstructured{namespace, definition} {
		if err := e.deleting(t.Context(), object); err != nil {
			t.Error(err)
		}
	}
	e.label(namespace, "Cascading")
	if err := e.deleting(t.Context(), namespace); err == nil || apierrors.IsForbidden(err) {
		t.Errorf("a Namespace that nobody can look into is deleted, or refused by somebody: %v", err)
	}

	// An owner allowed to go takes its objects along.
	e.label(objects[0], "")
	owned := e.create(fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: owned, labels: {policy.kruise.io/delete-protection: Always},
		ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: native, uid: %s}]}, spec: {ports: [{port: 80}]}}`, n.Name, objects[0].GetUID()))
	if err := e.Client.Delete(t.Context(), objects[0], client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the garbage collector has collected what belonged to it", func(ctx context.Context) error {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(owned), owned); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it exists: %w", err)
		}
		return nil
	})
	e.label(namespace, "")
	if err := e.Client.Delete(t.Context(), namespace); err != nil {
		t.Error(err)
	}
}

// TestDeletionProtectionByCounting: a Namespace with pods or volume claims, and a
// definition with objects, visible only to the webhook.
func TestDeletionProtectionByCounting(t *testing.T) {
	e := take(t)
	n := e.Namespace(t)
	e.start(operator.Options{Name: "protection-counting"})
	e.mustConfigure(n, "{featureGates: ["+protectionGate+"]}")
	namespace := e.create(fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s-cascading, labels: {policy.kruise.io/delete-protection: Cascading}}}", n.Name))
	n.Eventually("an empty namespace may go", func(ctx context.Context) error { return e.deleting(ctx, namespace) })
	pod := e.create(fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {namespace: %s, name: a}, spec: {containers: [{name: main, image: example/main}]}}", namespace.GetName()))
	n.Eventually("a pod keeps it", func(ctx context.Context) error {
		return e.deleting(ctx, namespace, "=Cascading and active pods 1>0: to delete it, delete what runs in it")
	})
	if err := e.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	claim := e.create(fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: %s, name: data},
		spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, storageClassName: "", volumeName: %[1]s}}`, namespace.GetName()))
	if err := e.deleting(t.Context(), namespace); err != nil {
		t.Errorf("a claim that is not bound keeps it: %v", err)
	}
	e.create(fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
		storageClassName: "", persistentVolumeReclaimPolicy: Retain, hostPath: {path: /nowhere}, claimRef: {namespace: %[1]s, name: data}}}`, namespace.GetName()))
	n.EventuallyWithin(time.Minute, "a bound claim keeps it", func(ctx context.Context) error {
		return e.deleting(ctx, namespace, "and bound volume claims 1>0: to delete it, delete these claims")
	})
	if err := e.Client.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	n.Eventually("it may go again", func(ctx context.Context) error { return e.deleting(ctx, namespace) })
	if err := e.Client.Delete(t.Context(), namespace); err != nil {
		t.Error(err)
	}

	// An owner allowed to go takes its objects along, pods and all.
	owner := e.create(fmt.Sprintf("{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %s-owner}}", n.Name))
	owned := e.create(fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: %s-owned, labels: {policy.kruise.io/delete-protection: Cascading},
		ownerReferences: [{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: %s, uid: %s}]}}`, n.Name, owner.GetName(), owner.GetUID()))
	e.create(fmt.Sprintf("{apiVersion: v1, kind: Pod, metadata: {namespace: %s, name: a}, spec: {containers: [{name: main, image: example/main}]}}", owned.GetName()))
	n.Eventually("a user may not delete it", func(ctx context.Context) error { return e.deleting(ctx, owned, "=Cascading and active pods 1>0") })
	if err := e.Client.Delete(t.Context(), owner, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	n.EventuallyWithin(time.Minute, "the garbage collector has deleted it", func(ctx context.Context) error {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(owned), owned); client.IgnoreNotFound(err) != nil {
			return err
		} else if err == nil && owned.GetDeletionTimestamp() == nil {
			return errors.New("it is not being deleted")
		}
		return nil
	})

	definition, objects := e.widgets(n)
	e.label(definition, "Cascading")
	if err := e.deleting(t.Context(), definition, "while the feature gate DeletionProtectionForCRDCascadingGate is off"); err != nil {
		t.Error(err)
	}
	e.mustConfigure(n, "{featureGates: ["+protectionGate+", {name: DeletionProtectionForCRDCascadingGate, state: Enabled}]}")
	plural, _, _ := strings.Cut(definition.GetName(), ".")
	n.Eventually("the refusal says which right is missing", func(ctx context.Context) error {
		return e.deleting(ctx, definition, fmt.Sprintf("a ClusterRole with the verb list on resource %s of API group \"example.com\"", plural))
	})
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: plural}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{plural}, Verbs: []string{"list"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: plural}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: plural},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kruise-system", Name: "kruise-operator-manager"}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := e.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Client.Delete(context.WithoutCancel(t.Context()), object) })
	}
	n.Eventually("objects of its kind keep it", func(ctx context.Context) error {
		return e.deleting(ctx, definition, "=Cascading and objects of its kind 2>0: to delete it, delete these objects")
	})
	for _, object := range objects {
		if err := e.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	n.Eventually("it may go without them", func(ctx context.Context) error { return e.deleting(ctx, definition) })

	e.mustConfigure(n, "{logLevel: Info}")
	n.Eventually("nothing is registered any more", func(ctx context.Context) error {
		for _, object := range []client.Object{
			&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
			&admissionregistrationv1.ValidatingWebhookConfiguration{},
		} {
			if err := e.Client.Get(ctx, client.ObjectKey{Name: "kruise-operator-deletion-protection"}, object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T exists: %w", object, err)
			}
		}
		return nil
	})
}

// While its gate is on, the API server refuses to delete protected objects, with or without
// a running operator.
func TestDeletionProtection(t *testing.T) {
	e := take(t)
	const gate = "featureGates: [{name: ResourcesDeletionProtection, state: Enabled}]"
	n := e.Namespace(t)
	o := e.start(operator.Options{Name: "protection"})
	e.mustConfigure(n, "{"+gate+"}")
	protectedIn := func(namespace, apiVersion, kind, name, label string, replicas int) *unstructured.Unstructured {
		t.Helper()
		template := fmt.Sprintf(`{metadata: {labels: {app: %s}}, spec: {containers: [{name: main, image: example/main}]}}`, name)
		if kind == "UnitedDeployment" { // It has no subset: this is about the object alone.
			template = fmt.Sprintf(`{cloneSetTemplate: {metadata: {labels: {app: %s}}, spec: {template: %s}}}, topology: {}`, name, template)
		} else {
			template += ", serviceName: web"
		}
		return e.create(fmt.Sprintf(`{apiVersion: %s, kind: %s, metadata: {namespace: %s, name: %s, labels: {policy.kruise.io/delete-protection: %q}},
			spec: {replicas: %d, selector: {matchLabels: {app: %[4]s}}, template: %[7]s}}`, apiVersion, kind, namespace, name, label, replicas, template))
	}
	protected := func(apiVersion, kind, name, label string, replicas int) *unstructured.Unstructured {
		t.Helper()
		return protectedIn(n.Name, apiVersion, kind, name, label, replicas)
	}
	exists := func(object *unstructured.Unstructured) bool {
		t.Helper()
		err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err == nil && object.GetDeletionTimestamp() == nil
	}
	const forbidden = "forbidden by ResourcesProtectionDeletion for policy.kruise.io/delete-protection="
	refused := func(object *unstructured.Unstructured, why string, options ...client.DeleteOption) error {
		t.Helper()
		err := e.Client.Delete(t.Context(), object, options...)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), forbidden+why+": to delete it, ") || !strings.Contains(err.Error(), "take this label away first") {
			return errors.Join(fmt.Errorf("deleting %s %s is not forbidden with %q", object.GetKind(), object.GetName(), why), err)
		}
		if !exists(object) {
			return fmt.Errorf("%s %s is being deleted", object.GetKind(), object.GetName())
		}
		return nil
	}
	mustRefuse := func(object *unstructured.Unstructured, why string, options ...client.DeleteOption) {
		t.Helper()
		if err := refused(object, why, options...); err != nil {
			t.Error(err)
		}
	}
	mustDelete := func(object *unstructured.Unstructured) {
		t.Helper()
		if err := e.Client.Delete(t.Context(), object); err != nil {
			t.Errorf("deleting %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	first := protected("apps.kruise.io/v1beta1", "CloneSet", "first", "Always", 0)
	n.Eventually("the API server has taken notice of the policy", func(context.Context) error { return refused(first, "Always", client.DryRunAll) })

	var kept []*unstructured.Unstructured
	for i, version := range []string{"v1beta1", "v1alpha1"} {
		for _, kind := range []string{"CloneSet", "StatefulSet", "UnitedDeployment"} {
			made := func(name, label string, replicas int) *unstructured.Unstructured {
				return protected("apps.kruise.io/"+version, kind, fmt.Sprintf("%s-%s-%d", name, strings.ToLower(kind), i), label, replicas)
			}
			always, cascading := made("always", "Always", 0), made("cascading", "Cascading", 3)
			for _, option := range []client.DeleteOption{
				client.DryRunAll, client.PropagationPolicy(metav1.DeletePropagationForeground), client.PropagationPolicy(metav1.DeletePropagationOrphan),
				client.PropagationPolicy(metav1.DeletePropagationBackground),
			} {
				mustRefuse(always, "Always", option)
				mustRefuse(cascading, "Cascading and replicas 3>0", option)
			}
			mustDelete(made("empty", "Cascading", 0))
			mustDelete(made("typo", "always", 1))
			kept = append(kept, always, cascading)
		}
	}
	// Deleting all deletes the unprotected ones.
	bystander := protected("apps.kruise.io/v1beta1", "CloneSet", "bystander", "Cascading", 0)
	all := &unstructured.Unstructured{}
	all.SetGroupVersionKind(bystander.GroupVersionKind())
	for _, name := range []string{"bystander", "first"} {
		err := e.Client.DeleteAllOf(t.Context(), all, client.InNamespace(n.Name), client.MatchingFields{"metadata.name": name})
		if apierrors.IsForbidden(err) != (name == "first") {
			t.Errorf("deleting all named %s: %v", name, err)
		}
	}
	if exists(bystander) || !exists(first) {
		t.Error("deleting all deleted the wrong ones")
	}

	// An object being deleted may be deleted again.
	leaving := protected("apps.kruise.io/v1beta1", "CloneSet", "leaving", "Cascading", 0)
	change := func(object *unstructured.Unstructured, patch string) {
		t.Helper()
		if err := e.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	change(leaving, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	mustDelete(leaving)
	change(leaving, `{"metadata":{"labels":{"policy.kruise.io/delete-protection":"Always"}}}`)
	mustDelete(leaving)
	change(leaving, `{"metadata":{"finalizers":null}}`)

	// Scaled down or without the label it may go.
	change(kept[1], `{"spec":{"replicas":0}}`)
	mustDelete(kept[1])
	change(kept[0], `{"metadata":{"labels":null}}`)
	mustDelete(kept[0])
	kept = kept[2:]

	// A deleted namespace takes protected sets along: refused in the middle, it would never
	// go.
	namespace := e.create(fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s-inner}}", n.Name))
	protectedIn(namespace.GetName(), "apps.kruise.io/v1beta1", "CloneSet", "db", "Always", 0)
	protectedIn(namespace.GetName(), "apps/v1", "Deployment", "front", "Cascading", 0)
	mustDelete(namespace)
	n.Eventually("the namespace is gone", func(ctx context.Context) error {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		if err == nil {
			return errors.New("it exists")
		}
		return client.IgnoreNotFound(err)
	})

	// A dead operator protects as well.
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	mustRefuse(first, "Always")
	mustRefuse(kept[0], "Always")

	// Objects of a disabled kind are not protected; nor is anything, once the gate is off.
	// The policy goes with the installation.
	e.start(operator.Options{Name: "protection-2"})
	policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	installed := &rbacv1.ClusterRoleBinding{}
	for name, object := range map[string]client.Object{
		"kruise-operator-deletion-protection": policy, "kruise-operator-manager": installed,
	} {
		if err := e.Client.Get(t.Context(), client.ObjectKey{Name: name}, object); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), binding); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{policy, binding} {
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != installed.UID {
			t.Errorf("the policy belongs to %v", owners)
		}
	}
	e.mustConfigure(n, "{kinds: [CloneSet], "+gate+"}")
	n.Eventually("only the StatefulSet may be deleted", func(ctx context.Context) error {
		return errors.Join(refused(first, "Always", client.DryRunAll), e.Client.Delete(ctx, kept[0], client.DryRunAll))
	})
	e.mustConfigure(n, "{logLevel: Info}")
	n.Eventually("there is no policy", func(ctx context.Context) error {
		for _, object := range []client.Object{policy, binding} {
			if err := e.Client.Get(ctx, client.ObjectKeyFromObject(policy), object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it exists: %w", err)
			}
		}
		return nil
	})
	n.Eventually("all may be deleted", func(ctx context.Context) error {
		var failed []error
		for _, object := range append(kept, first) {
			failed = append(failed, client.IgnoreNotFound(e.Client.Delete(ctx, object)))
		}
		return errors.Join(failed...)
	})
}
