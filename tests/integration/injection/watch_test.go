// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package injection_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
	"github.com/kruise-operator/kruise-operator/tests/framework/install"
)

// watched is an injection that does what its watches and its own states ask for, and nothing else.
type watched struct {
	// proofs is how many dry runs were made.
	proofs atomic.Int64
	// events are the messages of events so far, state is the last one.
	events, state atomic.Value
}

// watching runs one for the set log until the test ends.
func (w *fixture) watching(t *testing.T, preferPolicy bool) *watched {
	t.Helper()
	seen := &watched{}
	seen.events.Store("")
	seen.state.Store(sidecarset.InjectionState{})
	direct, err := client.NewWithWatch(w.cluster.Config(), client.Options{Scheme: environment.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	counting := interceptor.NewClient(direct, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if pod, is := object.(*corev1.Pod); is && pod.Labels[sidecar.ProofLabel] != "" {
				seen.proofs.Add(1)
			}
			return c.Create(ctx, object, options...)
		},
	})
	names, err := metadata.NewForConfig(w.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	i := sidecarset.NewInjection(sidecarset.InjectionOptions{
		Client: counting, Live: w.client, Namespace: install.Namespace, PreferPolicy: preferPolicy, Clock: clock.RealClock{}, Metadata: names,
		Sets: func(ctx context.Context) ([]unstructured.Unstructured, error) {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion("apps.kruise.io/v1beta1")
			list.SetKind("SidecarSetList")
			err := w.client.List(ctx, list)
			return list.Items, err
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	enqueued, done := make(chan string, 1000), make(chan struct{})
	if err := i.Watch(ctx, func(name types.NamespacedName) { enqueued <- name.Name }); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		enqueued <- "log"
		again := time.NewTimer(time.Hour)
		defer again.Stop()
		for {
			name := "log"
			select {
			case <-ctx.Done():
				return
			case name = <-enqueued:
			case <-again.C:
			}
			state, err := i.Reconcile(ctx, name, sidecarset.Latest{})
			if err != nil {
				again.Reset(time.Second)
				continue
			}
			if name == "" {
				continue
			}
			seen.state.Store(state)
			for _, event := range state.Events {
				seen.events.Store(seen.events.Load().(string) + event.Reason + ": " + event.Message + "\n")
			}
			if state.RecheckAfter > 0 {
				again.Reset(state.RecheckAfter)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return seen
}

// proven says that pods are injected by policy, which was shown.
func (s *watched) proven(ctx context.Context) error { return s.provenBy(sidecarset.PathPolicy)(ctx) }

func (s *watched) provenBy(path sidecarset.Path) func(context.Context) error {
	return func(context.Context) error {
		state := s.state.Load().(sidecarset.InjectionState)
		if state.Path != path || state.Condition.Status != metav1.ConditionTrue {
			return fmt.Errorf("the state is %+v", state)
		}
		return nil
	}
}

// wrong is how somebody takes away or changes by hand a part of what is registered.
type wrong struct {
	object client.Object
	// edit changes the object; nil: it is deleted.
	edit func()
	says string
}

// Whatever of the registration somebody deletes or changes is as it should be again without anybody asking, and without a change of a set. No pod is
// refused meanwhile. The event says what it was.
func TestWhatIsDeletedOrChangedByHandIsPutBackAtOnce(t *testing.T) {
	w := shared
	// What is registered first; the anchor and what it names stay registered beside the set.
	policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: sidecar.PolicyName}}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: sidecar.EntryName("log")}}
	anchor := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: sidecar.AnchorName}}
	ofAnchor := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: install.Namespace, Name: sidecar.AnchorName}}
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: install.Namespace}}
	webhooks := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: sidecar.WebhookConfiguration}}
	nobody := &metav1.LabelSelector{MatchLabels: map[string]string{"nobody": "has-it"}}
	const anEntry, isBack = "its entry in the webhook configuration kruise-operator-pods;", "the revision of what it injects;"
	for name, tc := range map[string]struct {
		preferPolicy bool
		path         sidecarset.Path
		wrong        map[string]wrong
	}{
		"deleted, by policy": {true, sidecarset.PathPolicy, map[string]wrong{
			"the policy":                 {policy, nil, "the policy kruise-operator-sidecars;"},
			"the binding":                {binding, nil, "its binding"},
			"the anchor":                 {anchor, nil, "the binding kruise-operator-sidecars-anchor"},
			"the revision":               {revision, nil, isBack},
			"the revision of the anchor": {ofAnchor, nil, "the revision of the policy's anchor;"},
		}},
		"changed, by policy": {true, sidecarset.PathPolicy, map[string]wrong{
			"the policy does nothing": {policy, func() {
				policy.Spec.Mutations = []admissionv1.Mutation{{
					PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: `[JSONPatch{op: "test", path: "/kind", value: "Pod"}]`},
				}}
			}, "the policy kruise-operator-sidecars;"},
			"the binding names another revision": {binding, func() { binding.Spec.ParamRef.Name = sidecar.AnchorName }, "its binding"},
			"the binding matches nobody":         {binding, func() { binding.Spec.MatchResources.ObjectSelector = nobody }, "its binding"},
			"the anchor matches all pods":        {anchor, func() { anchor.Spec.MatchResources = nil }, "the binding kruise-operator-sidecars-anchor"},
			"the anchor lacks its label":         {anchor, func() { anchor.Labels = nil }, "the binding kruise-operator-sidecars-anchor"},
		}},
		"by webhook": {false, sidecarset.PathWebhook, map[string]wrong{
			"the configuration is deleted": {webhooks, nil, anEntry},
			"the entry is removed":         {webhooks, func() { webhooks.Webhooks = nil }, anEntry},
			"the entry matches nobody":     {webhooks, func() { webhooks.Webhooks[0].ObjectSelector = nobody }, anEntry},
			"the revision is deleted":      {revision, nil, isBack},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.preferPolicy {
				w.needsPolicies(t)
			}
			namespace := w.namespace(t, nil)
			seen := w.watching(t, tc.preferPolicy)
			w.apply(t, byPolicy)
			t.Cleanup(func() { w.switchedOff(t) })
			proven := seen.provenBy(tc.path)
			w.eventually(t, "the set is injected", proven)
			revision.Name = w.revisionOfLog(t, tc.path)
			for name, what := range tc.wrong {
				t.Run(name, func(t *testing.T) { w.putRight(t, seen, namespace, what, proven) })
			}
		})
	}
}

// revisionOfLog is the name of what the set log injects, as it is registered.
func (w *fixture) revisionOfLog(t *testing.T, path sidecarset.Path) string {
	t.Helper()
	if path == sidecarset.PathPolicy {
		binding := &admissionv1.MutatingAdmissionPolicyBinding{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: sidecar.EntryName("log")}, binding); err != nil {
			t.Fatal(err)
		}
		return binding.Spec.ParamRef.Name
	}
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: sidecar.WebhookConfiguration}, configuration); err != nil {
		t.Fatal(err)
	}
	_, revision, _ := strings.Cut(*configuration.Webhooks[0].ClientConfig.URL, sidecar.InjectPath)
	return revision
}

// putRight does something wrong, and waits until it is as it was.
func (w *fixture) putRight(t *testing.T, seen *watched, namespace string, what wrong, proven func(context.Context) error) {
	t.Helper()
	const injected = "agent mesh-1 mesh-2 web"
	w.creating(t, namespace, injected)
	key, done := client.ObjectKeyFromObject(what.object), "deleted"
	if err := w.client.Get(t.Context(), key, what.object); err != nil {
		t.Fatal(err)
	}
	was := what.object.DeepCopyObject().(client.Object)
	unrefused := w.creatingMeanwhile(t, namespace)
	defer unrefused()
	earlier := len(seen.events.Load().(string))
	began, err := time.Now(), error(nil)
	if what.edit == nil {
		err = w.client.Delete(t.Context(), what.object)
	} else {
		done = "changed"
		what.edit()
		err = w.client.Update(t.Context(), what.object)
	}
	if err != nil {
		t.Fatal(err)
	}
	if wrongly := what.object.GetResourceVersion(); what.edit != nil && wrongly == was.GetResourceVersion() {
		t.Fatal("nothing was changed")
	}
	w.eventually(t, "it is as it was", func(ctx context.Context) error {
		if err := w.client.Get(ctx, key, what.object); err != nil {
			return err
		}
		if what.edit == nil && what.object.GetUID() == was.GetUID() {
			return errors.New("it is still there")
		}
		if what.edit == nil { // What there was may be of a test that registered it past the controller.
			for _, object := range []client.Object{was, what.object} {
				object.SetLabels(nil)
				object.SetOwnerReferences(nil)
			}
		}
		return sameButForVersions(was, what.object)
	})
	t.Logf("measured: put right after %d ms", time.Since(began).Milliseconds())
	w.eventually(t, "an event says so", func(context.Context) error {
		events := seen.events.Load().(string)[earlier:]
		for _, done := range []string{done, "deleted"} { // An entry that is gone was deleted, whoever changed what it was in.
			if strings.Contains(events, "InjectionRestored: somebody "+done+" "+what.says) {
				return nil
			}
		}
		return errors.New("events: " + events)
	})
	w.eventually(t, "it is proven again", proven)
	w.creating(t, namespace, injected)
}

// sameButForVersions compares two states of an object, but for what the API server writes.
func sameButForVersions(want, got client.Object) error {
	bare := func(of client.Object) client.Object {
		of = of.DeepCopyObject().(client.Object)
		of.SetResourceVersion("")
		of.SetUID("")
		of.SetGeneration(0)
		of.SetCreationTimestamp(metav1.Time{})
		of.SetManagedFields(nil)
		return of
	}
	if diff := cmp.Diff(bare(want), bare(got)); diff != "" {
		return errors.New("(-before +now)\n" + diff)
	}
	return nil
}

// creatingMeanwhile asks for pods, with sidecars or without, until the returned function is called, which says whether one was refused.
func (w *fixture) creatingMeanwhile(t *testing.T, namespace string) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	refused := make(chan error, 1)
	go func() {
		defer close(refused)
		for ctx.Err() == nil {
			if _, err := w.pod(t, namespace, namedShop); err != nil {
				refused <- err
				return
			}
		}
	}()
	return func() {
		cancel()
		if err := <-refused; err != nil {
			t.Errorf("a pod is refused: %v", err)
		}
	}
}

// Directly after a restart of the API server the proof is made again.
func TestTheProofIsRepeatedAfterARestartOfTheAPIServer(t *testing.T) {
	w := shared
	w.needsPolicies(t)
	seen := w.watching(t, true)
	w.apply(t, byPolicy)
	t.Cleanup(func() { w.switchedOff(t) })
	w.eventually(t, "the set is injected by policy", seen.proven)
	before := seen.proofs.Load()
	began := time.Now()
	if err := w.cluster.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	w.eventually(t, "another proof is made", func(context.Context) error {
		if got := seen.proofs.Load(); got <= before {
			return fmt.Errorf("%d proofs, before the restart %d", got, before)
		}
		return nil
	})
	t.Logf("measured: the API server was away for %.1f s, the proof was made again %.1f s later", back.Sub(began).Seconds(), time.Since(back).Seconds())
	w.eventually(t, "it holds", seen.proven)
}

// While a policy is in force, the API server is replaced by one that does not have policies: the webhook injects instead, and the condition says so. When the
// later one is back, the policy does. Meanwhile pods that are created have their sidecars, but for the seconds until that is noticed.
func TestAnAPIServerIsDowngraded(t *testing.T) {
	w := shared
	w.needsPolicies(t)
	namespace := w.namespace(t, nil)
	seen := w.watching(t, true)
	w.apply(t, byPolicy)
	t.Cleanup(func() { w.switchedOff(t) })
	w.eventually(t, "the set is injected by policy", seen.proven)
	for _, step := range []struct {
		flags []string
		path  sidecarset.Path
	}{{[]string{"--emulated-version=1.35"}, sidecarset.PathWebhook}, {nil, sidecarset.PathPolicy}} {
		if err := w.cluster.RestartAPIServer(t.Context(), step.flags...); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		var state sidecarset.InjectionState
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 90*time.Second, true, func(context.Context) (bool, error) {
			state = seen.state.Load().(sidecarset.InjectionState)
			return state.Path == step.path && state.Condition.Status == metav1.ConditionTrue, nil
		})
		if err != nil {
			t.Fatalf("with %v the set is not injected by %s: %+v", step.flags, step.path, state)
		}
		t.Logf("measured: with %v %.1f s until it is injected by %s: %s", step.flags, time.Since(back).Seconds(), step.path, state.Condition.Message)
		w.creating(t, namespace, "agent mesh-1 mesh-2 web")
	}
	w.eventually(t, "the webhook goes", func(context.Context) error {
		if w.registered(t) {
			return errors.New("it matches pods")
		}
		return nil
	})
}

// switchedOff takes back what is registered.
func (w *fixture) switchedOff(t *testing.T) {
	t.Helper()
	if _, err := w.off().Reconcile(context.Background(), "", sidecarset.Latest{}); err != nil {
		t.Error(err)
	}
}
