// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// world is an API server and a registrar.
type world struct {
	*testing.T
	client client.Client
	*Registrar
	clock  *clocktesting.FakePassiveClock
	writes int
	// rejects returns the server's refusals; proven: the policy is in force.
	rejects func(*unstructured.Unstructured) bool
	proven  bool
	// applied is called once before something is applied.
	applied func()
}

func policyObjects(kind, name string) []*unstructured.Unstructured {
	object := func(kind string, spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind(kind))
		o.SetName(name)
		o.SetLabels(map[string]string{nameLabel: operatorName})
		return o
	}
	return []*unstructured.Unstructured{
		object(kind, map[string]any{"matchConstraints": map[string]any{"matchPolicy": "Equivalent"}}),
		object(kind+"Binding", map[string]any{"policyName": name}),
	}
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{T: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)), rejects: func(*unstructured.Unstructured) bool { return false }}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		mapper.Add(admissionv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	mapper.Add(revisionKind(), meta.RESTScopeNamespace)
	installation := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kruise-operator-manager", UID: "installation"}}
	w.client = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithRESTMapper(mapper).WithObjects(append(objects, installation)...).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, config runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
			if err != nil {
				return err
			}
			object := &unstructured.Unstructured{Object: content}
			if first := w.applied; first != nil && object.GetName() == MutatingConfiguration {
				w.applied = nil
				first()
			}
			if w.rejects(object) {
				return apierrors.NewInvalid(object.GroupVersionKind().GroupKind(), object.GetName(), nil)
			}
			if slices.Contains(options, client.ApplyOption(client.DryRunAll)) {
				return nil
			}
			w.writes++
			return c.Apply(ctx, config, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if content, is := object.(*unstructured.Unstructured); is && w.rejects(content) {
				return apierrors.NewInvalid(content.GroupVersionKind().GroupKind(), content.GetName(), nil)
			}
			if slices.Contains(options, client.UpdateOption(client.DryRunAll)) {
				return nil
			}
			w.writes++
			return c.Update(ctx, object, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			w.writes++
			return c.Delete(ctx, object, options...)
		},
	}).Build()
	w.Registrar = New(Options{
		Client: w.client, Live: w.client, Namespace: "kruise-system", PreferPolicy: true, Clock: w.clock,
		Call: func(path string) (admissionv1.WebhookClientConfig, error) {
			return admissionv1.WebhookClientConfig{
				Service: &admissionv1.ServiceReference{Namespace: "kruise-system", Name: "webhooks", Path: &path, Port: new(int32(443))}, CABundle: []byte("authority"),
			}, nil
		},
		Policies: []*Policy{
			{Name: "changes", Objects: policyObjects("MutatingAdmissionPolicy", "changes"), Prove: func(context.Context, client.Reader, client.Client) error {
				if w.proven {
					return nil
				}
				return errors.New("a pod was not changed")
			}},
			{Name: "refuses", Objects: policyObjects("ValidatingAdmissionPolicy", "refuses")},
		},
	})
	return w
}

func (w *world) pass() ctrl.Result {
	w.Helper()
	result, err := w.Reconcile(w.Context(), ctrl.Request{})
	if err != nil {
		w.Fatal(err)
	}
	return result
}

// entries are the names of the entries of a configuration; nil: it is not there.
func (w *world) entries(name string) []string {
	w.Helper()
	kind := mutatingKind()
	if name == ValidatingConfiguration {
		kind = validatingKind()
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := w.client.Get(w.Context(), client.ObjectKey{Name: name}, object); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		w.Fatal(err)
	}
	entries, err := entriesIn(object)
	if err != nil {
		w.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func (w *world) exists(object client.Object, name string) bool {
	w.Helper()
	err := w.client.Get(w.Context(), client.ObjectKey{Namespace: object.GetNamespace(), Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
	return err == nil
}

func hook(name string, change ...func(*Hook)) *Hook {
	h := &Hook{
		Name: name + ".operator.kruise.io", Mutates: true, Path: "/" + name, Resource: corev1.SchemeGroupVersion.WithResource("pods"),
		Verbs: []admissionv1.OperationType{admissionv1.Create},
	}
	for _, c := range change {
		c(h)
	}
	return h
}

func full(names ...string) []string {
	for i := range names {
		names[i] += ".operator.kruise.io"
	}
	return names
}

func TestNothingIsRegisteredWhileNobodyNeedsIt(t *testing.T) {
	w := newWorld(t)
	sets, guards := w.Owner("SidecarSet", nil), w.Owner("guard", nil)
	sets.Want(hook("sidecarset-logs"))
	w.pass()
	if w.writes != 0 {
		t.Fatalf("%d writes before all have said what they want", w.writes)
	}
	guards.Want()
	w.pass()
	if got := w.entries(MutatingConfiguration); !slices.Equal(got, full("sidecarset-logs")) || w.entries(ValidatingConfiguration) != nil || w.writes != 2 {
		t.Fatalf("got %v, %d writes", got, w.writes)
	}
	sets.Want()
	w.pass()
	if got := w.entries(MutatingConfiguration); got != nil {
		t.Errorf("left: %v", got)
	}
}

func TestEntriesStandInTheirOrderAndAreRestored(t *testing.T) {
	w := newWorld(t)
	later, deny := func(h *Hook) { h.Order = Arrange }, func(h *Hook) { h.Mutates, h.Order = false, Guard }
	w.Owner("all", nil).Want(hook("b"), hook("a", later), hook("c"), hook("deny", deny))
	w.pass()
	want := full("b", "c", "a")
	if got := w.entries(MutatingConfiguration); !slices.Equal(got, want) || !slices.Equal(w.entries(ValidatingConfiguration), full("deny")) {
		t.Fatalf("got %v", got)
	}
	before := w.writes
	w.pass()
	if w.writes != before {
		t.Fatalf("%d writes at rest", w.writes-before)
	}
	for name, change := range map[string]func(*admissionv1.MutatingWebhookConfiguration){
		"an entry is gone": func(c *admissionv1.MutatingWebhookConfiguration) { c.Webhooks = c.Webhooks[1:] },
		"one is changed": func(c *admissionv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].FailurePolicy = new(admissionv1.Ignore)
		},
		"the owner is gone": func(c *admissionv1.MutatingWebhookConfiguration) { c.OwnerReferences = nil },
		"one is added": func(c *admissionv1.MutatingWebhookConfiguration) {
			more := *c.Webhooks[0].DeepCopy()
			more.Name = "foreign.example.com"
			c.Webhooks = append([]admissionv1.MutatingWebhook{more}, c.Webhooks...)
		},
		"the order is another": func(c *admissionv1.MutatingWebhookConfiguration) { slices.Reverse(c.Webhooks) },
	} {
		t.Run(name, func(t *testing.T) {
			config := &admissionv1.MutatingWebhookConfiguration{}
			w.exists(config, MutatingConfiguration)
			change(config)
			if err := w.client.Update(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			w.pass()
			restored := &admissionv1.MutatingWebhookConfiguration{}
			w.exists(restored, MutatingConfiguration)
			if got := w.entries(MutatingConfiguration); !slices.Equal(got, want) || *restored.Webhooks[0].FailurePolicy != admissionv1.Fail || len(restored.OwnerReferences) != 1 {
				t.Errorf("got %v, %+v", got, restored)
			}
		})
	}
}

// On AKS, the admissions enforcer added requirements to each selector, the operator removed them, and so on for ever.
func TestTheSelectorsAreNotWrittenForEverOnAKS(t *testing.T) {
	w := newWorld(t)
	w.Owner("all", nil).Want(hook("a"), hook("deny", func(h *Hook) { h.Mutates = false }))
	w.pass()
	for name, config := range map[string]client.Object{
		MutatingConfiguration: &admissionv1.MutatingWebhookConfiguration{}, ValidatingConfiguration: &admissionv1.ValidatingWebhookConfiguration{},
	} {
		if w.exists(config, name); config.GetAnnotations()["admissions.enforcer/disabled"] != "true" {
			t.Errorf("%s is not exempt: %v", name, config.GetAnnotations())
		}
	}
}

func TestOneThatIsRefusedLeavesTheOthersCurrent(t *testing.T) {
	w := newWorld(t)
	w.rejects = func(o *unstructured.Unstructured) bool {
		entries, err := entriesIn(o)
		return err == nil && slices.ContainsFunc(entries, func(e admissionv1.MutatingWebhook) bool {
			return strings.HasPrefix(*e.ClientConfig.Service.Path, "/bad")
		})
	}
	var told []string
	all := w.Owner("all", func(hooks []string) { told = append(told, hooks...) })
	var hooks []*Hook
	for i := range 20 {
		hooks = append(hooks, hook(fmt.Sprintf("h%02d", i)))
	}
	all.Want(hooks...)
	w.pass()
	if len(w.entries(MutatingConfiguration)) != 20 || len(told) != 20 {
		t.Fatalf("got %v, told %v", w.entries(MutatingConfiguration), told)
	}
	// An existing one gets a refused version, and another one is new.
	changed := hook("h07", func(h *Hook) { h.Path, h.Version = "/bad-version", "2" })
	hooks[7] = changed
	hooks[8] = hook("h08", func(h *Hook) { h.Path, h.Version = "/better", "2" })
	all.Want(append(hooks, hook("h20", func(h *Hook) { h.Path = "/bad" }), hook("h21"))...)
	w.pass()
	w.pass() // What was refused is not tried again at once.
	got := w.entries(MutatingConfiguration)
	if len(got) != 21 || slices.Contains(got, "h20.operator.kruise.io") || !slices.Contains(got, "h07.operator.kruise.io") || !slices.Contains(got, "h21.operator.kruise.io") {
		t.Fatalf("got %v", got)
	}
	for name, want := range map[string]State{
		"h07": {Reason: Refused, Version: "2"}, "h08": {Reason: InForce, Version: "2", ByCall: true}, "h20": {Reason: Refused}, "h21": {Reason: InForce, ByCall: true},
	} {
		state := all.State(name + ".operator.kruise.io")
		state.Message = ""
		if state != want {
			t.Errorf("%s is %+v, want %+v", name, state, want)
		}
	}
}

func TestOneWithoutRoomIsLeftOutAndTold(t *testing.T) {
	w := newWorld(t)
	all := w.Owner("all", nil)
	large := func(h *Hook) {
		h.Conditions = []admissionv1.MatchCondition{{Name: "x", Expression: strings.Repeat("x", 400_000)}}
	}
	all.Want(hook("b", large), hook("c", large))
	w.pass()
	all.Want(hook("a", large), hook("b", large), hook("c", large), hook("d"))
	w.pass()
	if got := w.entries(MutatingConfiguration); !slices.Equal(got, full("b", "c", "d")) {
		t.Fatalf("got %v", got)
	}
	if got := all.State("a.operator.kruise.io"); got.Reason != NoRoom {
		t.Errorf("got %+v", got)
	}
}

func TestAPolicyThatIsProvenTakesTheRequestsFromTheCall(t *testing.T) {
	for name, beyond := range map[string][]admissionv1.MatchCondition{"all of them": nil, "but for some": {{Name: "large", Expression: "true"}}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			all := w.Owner("all", nil)
			all.Want(hook("sidecars", func(h *Hook) { h.Policy, h.Beyond = "changes", beyond }))
			config := &admissionv1.MutatingWebhookConfiguration{}
			if again := w.pass(); again.RequeueAfter != proofRetry || !w.exists(config, MutatingConfiguration) || len(config.Webhooks[0].MatchConditions) != 1 {
				t.Fatalf("not proven yet: again after %s, %+v", again.RequeueAfter, config.Webhooks)
			}
			w.proven = true
			w.clock.SetTime(w.clock.Now().Add(proofRetry))
			w.pass()
			state := all.State("sidecars.operator.kruise.io")
			if state != (State{Reason: InForce, ByPolicy: true, ByCall: beyond != nil}) {
				t.Errorf("got %+v", state)
			}
			if there := w.exists(config, MutatingConfiguration); there != (beyond != nil) || there && len(config.Webhooks[0].MatchConditions) != 2 {
				t.Errorf("the webhook: %v, %+v", there, config.Webhooks)
			}
			policy := &admissionv1.MutatingAdmissionPolicy{}
			if !w.exists(policy, "changes") || len(policy.Spec.MatchConstraints.NamespaceSelector.MatchExpressions) != 2 || len(policy.Spec.MatchConstraints.ObjectSelector.MatchExpressions) != 1 {
				t.Errorf("what is exempt: %+v", policy)
			}
			w.options.PreferPolicy = false
			w.pass()
			if w.exists(policy, "changes") || !w.exists(config, MutatingConfiguration) || len(config.Webhooks[0].MatchConditions) != 1 {
				t.Errorf("policies are not wanted any more: %+v", config.Webhooks)
			}
		})
	}
}

func TestWhatAKindThatIsOffHasLeftGoes(t *testing.T) {
	var before []client.Object
	for _, name := range []string{formerConfiguration} {
		before = append(before, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	w := newWorld(t, before...)
	w.proven = true
	w.Owner("all", nil).Want(
		hook("sidecars", func(h *Hook) { h.Policy = "changes" }),
		hook("guard", func(h *Hook) { h.Mutates, h.Path, h.Policy = false, "", "refuses" }),
	)
	w.pass()
	if !w.exists(&admissionv1.MutatingAdmissionPolicy{}, "changes") || !w.exists(&admissionv1.ValidatingAdmissionPolicyBinding{}, "refuses") {
		t.Fatal("the policies are not there")
	}
	for _, name := range []string{formerConfiguration} {
		if w.exists(&admissionv1.MutatingWebhookConfiguration{}, name) {
			t.Errorf("a configuration of version 0.4.0 is left: %s", name)
		}
	}
	next := New(w.options)
	if _, err := next.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{
		&admissionv1.MutatingAdmissionPolicy{}, &admissionv1.MutatingAdmissionPolicyBinding{}, &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{},
	} {
		if w.exists(object, "changes") || w.exists(object, "refuses") {
			t.Errorf("left: %T", object)
		}
	}
}
