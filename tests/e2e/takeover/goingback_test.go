// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package takeover_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
	"github.com/kruise-operator/kruise-operator/tests/framework/cluster"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/operator"
)

// TestGoingBack applies workloads under this operator and goes back to OpenKruise as
// documented. The stored objects must be OpenKruise's own for the same manifests: otherwise
// the first change of an image recreated all pods.
func TestGoingBack(t *testing.T) {
	t.Parallel()
	c := cluster.StartForTest(t, cluster.Options{ControlPlane: cluster.APIServerOnly})
	types := environment.Scheme()
	if err := apiextensionsv1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	direct, err := client.New(c.Config(), client.Options{Scheme: types})
	if err != nil {
		t.Fatal(err)
	}
	o, err := operator.Start(t.Context(), c, operator.Options{LeaderElect: true})
	if err != nil {
		t.Fatal(err)
	}
	n := namespaceOf(t, c, direct)
	applied := map[string]string{"cloneset-simple": "CloneSet", "statefulset-v1alpha1": "StatefulSet", "ephemeraljob": "EphemeralJob"}
	for name, kind := range applied {
		applyLast(t, n, direct, name, kind)
	}
	before := read(t, direct)
	if len(before.pods) < 2 {
		t.Fatalf("there are %d pods", len(before.pods))
	}
	if out, err := shell(t, c, o, "kruise-preflight going-back"); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Fatalf("going back while this operator runs: %v\n%s", err, out)
	}
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}

	webhooks := filepath.Join(t.TempDir(), "webhooks.yaml")
	writeWebhooks(t, webhooks, c.CA())
	out, err := shell(t, c, o, fmt.Sprintf("CRDS=%s WEBHOOKS=%s\n%s", definitions(t), webhooks, commandsOf(t, "Going back to OpenKruise")))
	if err != nil {
		t.Fatalf("going back: %v\n%s", err, out)
	}

	after := read(t, direct)
	for name, pod := range before.pods {
		if diff := cmp.Diff(pod, after.pods[name]); diff != "" {
			t.Errorf("pod %s changed (-before +after):\n%s", name, diff)
		}
	}
	for name, kind := range applied {
		if kind != "EphemeralJob" {
			checkGivenBack(t, direct, name, kind)
		}
	}
	checkDefinitions(t, direct)
	left := &admissionv1.MutatingWebhookConfigurationList{}
	if err := direct.List(t.Context(), left); err != nil || len(left.Items) != 1 || left.Items[0].Name != "kruise-mutating-webhook-configuration" {
		t.Errorf("%d configurations of mutating webhooks are left: %v", len(left.Items), err)
	}
	if out, err := shell(t, c, o, "kubectl get ephemeraljobs.v1alpha1.apps.kruise.io --all-namespaces --output=name"); err != nil || !strings.Contains(out, "ephemeraljob") {
		t.Errorf("EphemeralJobs are read as %s: %v", out, err)
	}
	err = direct.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cloneset-simple", Name: "late"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	})
	if err == nil || !strings.Contains(err.Error(), "mpod.kb.io") {
		t.Errorf("a pod before OpenKruise answers: %v", err)
	}
}

// applyLast applies a case's last manifest in a namespace of its name, and waits for its
// revision.
func applyLast(t *testing.T, n *environment.Namespace, c client.Client, name, kind string) {
	t.Helper()
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	var manifest *unstructured.Unstructured
	for _, step := range fixtures.Applied(t, name) {
		for _, object := range step {
			if object.GetKind() == kind {
				manifest = object
			}
		}
	}
	manifest.SetNamespace(name)
	if err := c.Create(t.Context(), manifest); err != nil {
		t.Fatal(err)
	}
	n.Eventually("the "+kind+" is observed", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(manifest), manifest); err != nil {
			return err
		}
		if status, _, _ := unstructured.NestedMap(manifest.Object, "status"); len(status) == 0 {
			return fmt.Errorf("it has no status")
		}
		return nil
	})
}

// checkGivenBack finds OpenKruise's template and revision for the same manifest.
func checkGivenBack(t *testing.T, c client.Client, name, kind string) {
	t.Helper()
	recorded := fixtures.Objects(t, name+"/state.yaml")
	var want *unstructured.Unstructured
	for _, object := range recorded {
		if object.GetKind() == kind {
			want = object
		}
	}
	got := want.DeepCopy()
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: name, Name: want.GetName()}, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fixtures.Template(t, want), fixtures.Template(t, got)); diff != "" {
		t.Errorf("the template of %s (-OpenKruise's +ours):\n%s", name, diff)
	}
	revisions := &appsv1.ControllerRevisionList{}
	if err := c.List(t.Context(), revisions, client.InNamespace(name)); err != nil || len(revisions.Items) != 1 {
		t.Fatalf("%d revisions: %v", len(revisions.Items), err)
	}
	update, _, _ := unstructured.NestedString(want.Object, "status", "updateRevision")
	for _, theirs := range fixtures.Revisions(t, name, recorded) {
		if theirs.Name != update {
			continue
		}
		one := revisions.Items[0]
		if diff := cmp.Diff(string(theirs.Data.Raw), string(one.Data.Raw)); diff != "" {
			t.Errorf("the revision of %s (-OpenKruise's +ours):\n%s", name, diff)
		}
		if hash := one.Labels["controller.kubernetes.io/hash"]; hash != theirs.Labels["controller.kubernetes.io/hash"] {
			t.Errorf("the revision of %s has the hash %s", name, hash)
		}
		if now, _, _ := unstructured.NestedString(got.Object, "status", "updateRevision"); now != one.Name {
			t.Errorf("the revision is %s, the status says %s", one.Name, now)
		}
	}
}

// checkDefinitions finds OpenKruise's CRDs.
func checkDefinitions(t *testing.T, c client.Client) {
	t.Helper()
	for name, want := range map[string]struct{ stored, convertedBy string }{
		"ephemeraljobs":     {"v1alpha1", ""},
		"uniteddeployments": {"v1beta1", "kruise-webhook-service"},
		"clonesets":         {"v1beta1", "kruise-webhook-service"},
		"workloadspreads":   {"v1beta1", "kruise-webhook-service"},
	} {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: name + ".apps.kruise.io"}, crd); err != nil {
			t.Error(err)
			continue
		}
		by := ""
		if crd.Spec.Conversion.Webhook != nil {
			by = crd.Spec.Conversion.Webhook.ClientConfig.Service.Name
		}
		if got := strings.Join(crd.Status.StoredVersions, " "); got != want.stored || by != want.convertedBy {
			t.Errorf("%s are stored as %s and converted by %q", name, got, by)
		}
	}
}

// writeWebhooks writes OpenKruise's webhook configurations into a file, as its chart has them.
func writeWebhooks(t *testing.T, file string, ca []byte) {
	t.Helper()
	var text []byte
	for _, object := range fixtures.Objects(t, "cluster/installation.yaml") {
		if !strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
			continue
		}
		trust(t, object, ca)
		object.Object["metadata"] = map[string]any{"name": object.GetName()}
		one, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, "---\n"...), one...)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
