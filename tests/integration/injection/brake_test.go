// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/controllers/rollout"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
)

// rolledOut is a workload with a Rollout; no node runs its pods.
const rolledOut = `
apiVersion: apps/v1
kind: KIND
metadata: {name: NAME, namespace: NAMESPACE, labels: {rollouts.kruise.io/workload-type: x}, annotations: {rollouts.kruise.io/rollout: shop}}
spec:
  selector: {matchLabels: {app: NAME}}
  template: {metadata: {labels: {app: NAME}}, spec: {containers: [{name: main, image: "example/main:v1"}]}}
`

// held are the kinds, with the field that holds a new template.
var heldBy = map[string]struct {
	path []string
	want any
}{
	"Deployment":  {[]string{"spec", "paused"}, true},
	"StatefulSet": {[]string{"spec", "updateStrategy", "rollingUpdate", "partition"}, int64(32767)},
	"DaemonSet":   {[]string{"spec", "updateStrategy", "type"}, "OnDelete"},
}

// braked is a workload in a test.
type braked struct {
	*fixture
	t               *testing.T
	kind, namespace string
}

func (b braked) manifest(name string) string {
	return strings.NewReplacer("KIND", b.kind, "NAMESPACE", b.namespace, "NAME", name).Replace(rolledOut)
}

func (b braked) object(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(b.kind))
	object.SetNamespace(b.namespace)
	object.SetName(name)
	return object
}

// patch returns the answer to a merge patch.
func (b braked) patch(name, body string, options ...client.PatchOption) (*unstructured.Unstructured, error) {
	object := b.object(name)
	return object, b.client.Patch(b.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(body)), options...)
}

// check wants a new template to be held.
func (b braked) check(object *unstructured.Unstructured, err error) error {
	if err != nil {
		return err
	}
	field := heldBy[b.kind]
	got, _, _ := unstructured.NestedFieldNoCopy(object.Object, field.path...)
	if got != field.want || object.GetAnnotations()["rollouts.kruise.io/in-progressing"] != `{"rolloutName":"shop"}` {
		return fmt.Errorf("%v is %v, the annotations are %v", field.path, got, object.GetAnnotations())
	}
	return nil
}

const (
	newTemplate = `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":7}}}}`
	noLabel     = `{"metadata":{"labels":{"rollouts.kruise.io/workload-type":null}}}`
)

// braking registers the brake until the test ends.
func (w *fixture) braking(t *testing.T, byPolicy bool) (*hooks.Registrar, *hooks.Owner) {
	t.Helper()
	policies, err := rollout.Policies(&config.Config{Namespace: install.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	r := w.hooks(byPolicy, policies...)
	owner := r.Owner("Rollout", nil)
	owner.Want(rollout.Hook())
	t.Cleanup(func() {
		owner.Want()
		if _, err := r.Reconcile(context.Background(), ctrl.Request{}); err != nil {
			t.Error(err)
		}
	})
	return r, owner
}

// The brake holds workloads of Kubernetes that have a Rollout. As a webhook, which servers before 1.36 need, it keeps from nothing else.
func TestWorkloadsAreBraked(t *testing.T) {
	w := shared
	for name, byPolicy := range map[string]bool{"by policy": true, "by webhook": false} {
		t.Run(name, func(t *testing.T) {
			if byPolicy {
				w.needsPolicies(t)
			}
			namespace := w.namespace(t, nil)
			r, owner := w.braking(t, byPolicy)
			var all []braked
			for kind := range heldBy {
				b := braked{fixture: w, t: t, kind: kind, namespace: namespace}
				for _, name := range []string{"shop", "at-rest", "taken-over"} {
					w.apply(t, b.manifest(name))
				}
				w.apply(t, environment.Edited(b.manifest("free"), "rollouts.kruise.io/workload-type", "kind"))
				all = append(all, b)
			}
			for _, b := range all {
				w.eventually(t, b.kind+" is braked", func(ctx context.Context) error {
					if _, err := r.Reconcile(ctx, ctrl.Request{}); err != nil {
						return err
					}
					if state := owner.State(rollout.Hook().Name); state.ByPolicy != byPolicy || state.ByCall == byPolicy {
						return fmt.Errorf("the hook is %+v", state)
					}
					return b.check(b.patch("shop", newTemplate, client.DryRunAll))
				})
			}
			for _, b := range all {
				t.Run(b.kind, func(t *testing.T) {
					b.t = t
					b.byApply()
					if err := b.check(b.patch("taken-over", newTemplate)); err != nil {
						t.Error(err)
					}
				})
			}
			t.Run("with the operator dead", func(t *testing.T) {
				w.stop()
				defer w.serve(t.Context())
				for _, b := range all {
					b.t = t
					b.alone(byPolicy)
				}
			})
		})
	}
}

// byApply changes a template by server-side apply, and again.
func (b braked) byApply() {
	b.t.Helper()
	apply := func() *unstructured.Unstructured {
		b.t.Helper()
		object := &unstructured.Unstructured{}
		manifest := environment.Edited(b.manifest("applied"), "labels: {rollouts.kruise.io/workload-type: x}, annotations: {rollouts.kruise.io/rollout: shop}", "labels: {team: a}")
		if object := b.object("applied"); b.client.Get(b.t.Context(), client.ObjectKeyFromObject(object), object) == nil {
			manifest = environment.Edited(manifest, "main:v1", "main:v2")
		}
		if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
			b.t.Fatal(err)
		}
		if err := b.client.Apply(b.t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("git")); err != nil {
			b.t.Fatal(err)
		}
		return object
	}
	apply()
	b.t.Cleanup(func() { b.remove(b.t, b.object("applied")) })
	if _, err := b.patch("applied", `{"metadata":{"labels":{"rollouts.kruise.io/workload-type":"x"},"annotations":{"rollouts.kruise.io/rollout":"shop"}}}`); err != nil {
		b.t.Fatal(err)
	}
	first := apply()
	if err := b.check(first, nil); err != nil {
		b.t.Fatal(err)
	}
	// What the brake writes belongs to nobody: who applies again has no conflict, and takes nothing back.
	for _, entry := range first.GetManagedFields() {
		if fields := entry.FieldsV1.GetRawString(); entry.Subresource == "" && (strings.Contains(fields, "f:paused") || strings.Contains(fields, "f:partition") ||
			strings.Contains(fields, "in-progressing") || strings.Contains(fields, "OnDelete")) {
			b.t.Errorf("%s owns what the brake wrote: %s", entry.Manager, fields)
		}
	}
	again := apply()
	if err := b.check(again, nil); err != nil {
		b.t.Error(err)
	}
	if diff := cmp.Diff(first.Object["spec"], again.Object["spec"]); diff != "" || first.GetGeneration() != again.GetGeneration() {
		b.t.Errorf("applied again, it changed: generation %d and %d, %s", first.GetGeneration(), again.GetGeneration(), diff)
	}
}

// alone is what passes without the operator.
func (b braked) alone(byPolicy bool) {
	b.t.Helper()
	held, err := b.patch("shop", newTemplate)
	if byPolicy {
		err = b.check(held, err)
	} else if err == nil || !strings.Contains(err.Error(), `failed calling webhook "`+rollout.Hook().Name) {
		err = errors.New("a new template is not refused: " + fmt.Sprint(err))
	} else {
		err = nil
	}
	if err != nil {
		b.t.Errorf("%s: %v", b.kind, err)
	}
	pass := func(what string, err error) {
		b.t.Helper()
		if err != nil {
			b.t.Errorf("%s: %s: %v", b.kind, what, err)
		}
	}
	if b.kind != "DaemonSet" {
		err = b.client.SubResource("scale").Patch(b.t.Context(), b.object("taken-over"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`)))
		pass("scale in a release", err)
		_, err = b.patch("at-rest", `{"spec":{"replicas":3}}`)
		pass("replicas at rest", err)
	}
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`))
	pass("status", b.client.SubResource("status").Patch(b.t.Context(), b.object("taken-over"), status))
	_, err = b.patch("at-rest", `{"metadata":{"annotations":{"note":"of the user"}}}`)
	pass("an annotation of the user", err)
	_, err = b.patch("free", newTemplate)
	pass("a new template without a Rollout", err)
	_, err = b.patch("taken-over", noLabel)
	pass("the label goes in a release", err)
	free, err := b.patch("taken-over", `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":9}}}}`)
	pass("a new template after the label", err)
	if _, labeled := free.GetLabels()["rollouts.kruise.io/workload-type"]; labeled {
		b.t.Errorf("%s: the label is back", b.kind)
	}
	pass("deleting", b.client.Delete(b.t.Context(), b.object("at-rest")))
}
