// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package injection_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/kube/installowner"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
)

// policyBefore is the policy of version 0.4.0.
//
//go:embed testdata/policy-v0.4.0.yaml
var policyBefore []byte

const (
	// merging was injected by policy and webhook together in version 0.4.0: pods with a value of their own by the webhook, the others by the policy.
	merging = `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: log}
spec:
  selector: {matchLabels: {app: shop}}
  containers: [{name: agent, image: "example/agent:v1"}]
  patchPodMetadata: [{annotations: {example.com/config: '{"a":1}'}, patchPolicy: MergePatchJson}]
`
	beside = `
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: mesh}
spec:
  selector: {matchLabels: {app: shop}}
  containers: [{name: proxy, image: "example/proxy:v1"}]
`
	ownValue = `
metadata: {generateName: shop-, labels: {app: shop}, annotations: {example.com/config: '{"b":2}'}}
spec: {containers: [{name: web, image: example/web}]}
`
)

// before is version 0.4.0's registration of some sets, in its order; the webhooks are last.
func (w *fixture) before(t *testing.T, sets ...*unstructured.Unstructured) []client.Object {
	t.Helper()
	owner, err := installowner.Find(t.Context(), w.client)
	if err != nil {
		t.Fatal(err)
	}
	policy := &admissionv1.MutatingAdmissionPolicy{}
	if err := yaml.UnmarshalStrict(policyBefore, policy); err != nil {
		t.Fatal(err)
	}
	policy.OwnerReferences = []metav1.OwnerReference{owner}
	anchor := sidecar.Anchor(install.Namespace)
	anchor.OwnerReferences = policy.OwnerReferences
	revision := func(name, set string, data []byte) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
			Namespace: install.Namespace, Name: name, Labels: map[string]string{hooks.OwnLabel: set}, OwnerReferences: policy.OwnerReferences,
		}, Data: runtime.RawExtension{Raw: data}}
	}
	objects := []client.Object{policy, revision(sidecar.AnchorName, sidecar.AnchorName, []byte("{}")), anchor}
	var parsed []*sidecar.Set
	for _, set := range sets {
		one, err := sidecar.ParseSet(set.Object)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, one)
	}
	for at, set := range parsed {
		name, data := dataBefore(t, set, parsed)
		of := metav1.OwnerReference{APIVersion: sets[at].GetAPIVersion(), Kind: sets[at].GetKind(), Name: set.Name, UID: sets[at].GetUID()}
		objects = append(objects, revision(name, set.Name, data), sidecar.Binding(set.Name, set.Match, name, install.Namespace, of))
		if set.Name == "log" {
			call, err := w.serving.Call(sidecar.InjectPath + name)
			if err != nil {
				t.Fatal(err)
			}
			entry := newEntry(sidecar.EntryName(set.Name), admissionv1.Fail, call)
			entry.NamespaceSelector = podentry.Selector(podentry.NamespaceExclusions(install.Namespace))
			entry.ObjectSelector = podentry.Selector(append(slices.Clone(set.Match.Labels), podentry.Bypass()))
			entry.MatchConditions = append(entry.MatchConditions, admissionv1.MatchCondition{
				Name: "beyond-the-policy", Expression: `!(object.metadata.?annotations[?'example.com/config'].orValue('') in ['', '{"a":1}'])`,
			})
			objects = append(objects, &admissionv1.MutatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: hooks.MutatingConfiguration, OwnerReferences: policy.OwnerReferences}, Webhooks: []admissionv1.MutatingWebhook{entry},
			})
		}
	}
	slices.SortStableFunc(objects, func(a, b client.Object) int {
		_, first := a.(*admissionv1.MutatingWebhookConfiguration)
		_, second := b.(*admissionv1.MutatingWebhookConfiguration)
		return map[bool]int{true: 1}[first] - map[bool]int{true: 1}[second]
	})
	return objects
}

// write writes version 0.4.0's objects, and has pods made for more than the second API
// servers take.
func (w *fixture) write(t *testing.T, namespace string, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := w.writeAsBefore(t.Context(), object); err != nil {
			t.Fatalf("writing what version 0.4.0 writes: %v", err)
		}
	}
	for range 40 {
		if err := w.injectsAll(t, namespace); err != nil {
			t.Fatal(err)
		}
	}
}

// writeAsBefore writes an object as version 0.4.0 did: it applied policies and bindings, and created or updated all else.
func (w *fixture) writeAsBefore(ctx context.Context, object client.Object) error {
	kind, err := w.client.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	if configuration, is := object.(*admissionv1.MutatingWebhookConfiguration); is {
		there := &admissionv1.MutatingWebhookConfiguration{}
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(object), there); err == nil {
			there.Webhooks = configuration.Webhooks
			return w.client.Update(ctx, there, client.FieldOwner(api.FieldManager))
		}
	}
	if !strings.HasPrefix(kind.Kind, "MutatingAdmission") {
		return client.IgnoreAlreadyExists(w.client.Create(ctx, object, client.FieldOwner(api.FieldManager)))
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	applied := &unstructured.Unstructured{Object: content}
	applied.SetGroupVersionKind(kind)
	return w.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(api.FieldManager), client.ForceOwnership)
}

// dataBefore is the revision of a set as version 0.4.0 wrote it.
func dataBefore(t *testing.T, set *sidecar.Set, all []*sidecar.Set) (string, []byte) {
	t.Helper()
	compiled, err := sidecar.Compile(set, all)
	if err != nil {
		t.Fatal(err)
	}
	_, data, err := compiled.Encode()
	content := map[string]any{}
	if err == nil {
		err = json.Unmarshal(data, &content)
	}
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(content, func(key string, _ any) bool { return key == "takes" || key == "drop" })
	if set.Name == "log" {
		content["guard"] = map[string]any{"merged": []any{map[string]any{"key": "example.com/config", "value": `{"a":1}`}}, "token": false}
	}
	if data, err = json.Marshal(content); err != nil {
		t.Fatal(err)
	}
	return sidecar.RevisionName(set.Name, data), data
}

// injectsAll reports gaps of pods with and without a value of their own.
func (w *fixture) injectsAll(t *testing.T, namespace string) error {
	for text, merged := range map[string]string{shop: `{"a":1}`, ownValue: `{"a":1,"b":2}`} {
		pod, err := w.pod(t, namespace, text)
		if err != nil {
			return err
		}
		if got := containers(pod) + " " + pod.Annotations["example.com/config"]; got != "agent proxy web "+merged {
			return fmt.Errorf("a pod has %s", got)
		}
	}
	return nil
}

// An upgrade from version 0.4.0, and the way back, inject all the time, and leave nothing behind.
func TestAnUpgradeInjectsAllTheTime(t *testing.T) {
	w := shared
	w.needsPolicies(t)
	namespace := w.namespace(t, nil)
	log, mesh := w.apply(t, merging), w.apply(t, beside)
	t.Cleanup(func() { w.switchedOff(t) })
	for _, object := range w.before(t, log, mesh) {
		if err := w.writeAsBefore(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually(t, "version 0.4.0 injects", func(context.Context) error { return w.injectsAll(t, namespace) })

	ctx, cancel := context.WithCancel(t.Context())
	gap := make(chan error, 1)
	go func() {
		defer close(gap)
		for ctx.Err() == nil {
			if err := w.injectsAll(t, namespace); err != nil && ctx.Err() == nil {
				gap <- err
				return
			}
		}
	}()
	i := w.injection(true)
	w.inForce(t, i, "log", sidecarset.PathWebhook)
	w.inForce(t, i, "mesh", sidecarset.PathPolicy)
	w.eventually(t, "what version 0.4.0 has registered is gone", func(ctx context.Context) error {
		if _, err := i.Reconcile(ctx, "log", sidecarset.Latest{}); err != nil {
			return err
		}
		return w.onlyOurs(ctx)
	})

	// Back: version 0.4.0 writes its policy first, while bindings name revisions of the later one.
	back := w.before(t, log, mesh)
	w.write(t, namespace, back[0])
	w.write(t, namespace, back[1:len(back)-1]...)
	w.write(t, namespace, back[len(back)-1])
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	if err := w.client.Get(ctx, client.ObjectKey{Name: hooks.MutatingConfiguration}, configuration); err != nil {
		t.Fatal(err)
	}
	if got := configuration.Webhooks; len(got) != 1 || len(got[0].Rules) != 1 || len(got[0].MatchConditions) != 2 || got[0].MatchConditions[1].Name != "beyond-the-policy" {
		t.Errorf("version 0.4.0 has the entries %+v", got)
	}
	cancel()
	if err := <-gap; err != nil {
		t.Error(err)
	}
}

// onlyOurs is true if, under the names known to version 0.4.0, too, only this version's
// objects are registered.
func (w *fixture) onlyOurs(ctx context.Context) error {
	bindings, revisions, configurations := &admissionv1.MutatingAdmissionPolicyBindingList{}, &appsv1.ControllerRevisionList{}, &admissionv1.MutatingWebhookConfigurationList{}
	for list, option := range map[client.ObjectList]client.ListOption{bindings: client.InNamespace(""), configurations: client.InNamespace(""), revisions: client.HasLabels{hooks.OwnLabel}} {
		if err := w.client.List(ctx, list, option); err != nil {
			return err
		}
	}
	var got []string
	for _, binding := range bindings.Items {
		got = append(got, "binding "+binding.Name)
	}
	for _, configuration := range configurations.Items {
		for _, entry := range configuration.Webhooks {
			if configuration.Name == hooks.MutatingConfiguration {
				got = append(got, fmt.Sprintf("entry %s with %d conditions, %d annotations", entry.Name, len(entry.MatchConditions), len(configuration.Annotations)))
			}
		}
	}
	for _, revision := range revisions.Items {
		got = append(got, "revision of "+revision.Labels[hooks.OwnLabel])
	}
	slices.Sort(got)
	want := []string{
		"binding kruise-operator-sidecars-anchor", "binding sidecarset-mesh.operator.kruise.io", "entry sidecarset-log.operator.kruise.io with 2 conditions, 1 annotations",
		"revision of kruise-operator-sidecars-anchor", "revision of log", "revision of mesh",
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("there are %q", got)
	}
	return nil
}
