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
	"github.com/kruise-operator/kruise-operator/internal/engine/sidecar"
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
func (w *fixture) watching(t *testing.T) *watched {
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
		Client: counting, Live: w.client, Namespace: install.Namespace, PreferPolicy: true, Clock: clock.RealClock{}, Metadata: names,
		Sets: func(ctx context.Context) ([]unstructured.Unstructured, error) {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion("apps.kruise.io/v1beta1")
			list.SetKind("SidecarSetList")
			err := w.client.List(ctx, list)
			return list.Items, err
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	woken, done := make(chan string, 1000), make(chan struct{})
	if err := i.Watch(ctx, func(name types.NamespacedName) { woken <- name.Name }); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		woken <- "log"
		again := time.NewTimer(time.Hour)
		defer again.Stop()
		for {
			name := "log"
			select {
			case <-ctx.Done():
				return
			case name = <-woken:
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
func (s *watched) proven(context.Context) error {
	state := s.state.Load().(sidecarset.InjectionState)
	if state.Path != sidecarset.PathPolicy || state.Condition.Status != metav1.ConditionTrue {
		return fmt.Errorf("the state is %+v", state)
	}
	return nil
}

// Whatever of the registration somebody deletes is back without anybody asking, and without a change of a set. The event says what it was.
func TestWhatIsDeletedIsPutBackAtOnce(t *testing.T) {
	w := shared
	w.needsPolicies(t)
	namespace := w.namespace(t, nil)
	seen := w.watching(t)
	w.apply(t, byPolicy)
	t.Cleanup(func() { w.switchedOff(t) })
	w.eventually(t, "the set is injected by policy", seen.proven)
	binding := &admissionv1.MutatingAdmissionPolicyBinding{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: sidecar.EntryName("log")}, binding); err != nil {
		t.Fatal(err)
	}
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: install.Namespace, Name: binding.Spec.ParamRef.Name}}
	for name, tc := range map[string]struct {
		object client.Object
		says   string
	}{
		"the policy":   {&admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: sidecar.PolicyName}}, "the policy kruise-operator-sidecars;"},
		"the binding":  {&admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: sidecar.EntryName("log")}}, "its binding"},
		"the anchor":   {&admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: sidecar.AnchorName}}, "the binding kruise-operator-sidecars-anchor"},
		"the revision": {revision, "the revision of what it injects"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(tc.object), tc.object); err != nil {
				t.Fatal(err)
			}
			deleted, began := tc.object.GetUID(), time.Now()
			if err := w.client.Delete(t.Context(), tc.object); err != nil {
				t.Fatal(err)
			}
			w.eventually(t, "it is back", func(ctx context.Context) error {
				if err := w.client.Get(ctx, client.ObjectKeyFromObject(tc.object), tc.object); err != nil {
					return err
				}
				if tc.object.GetUID() == deleted {
					return errors.New("it is still there")
				}
				return nil
			})
			t.Logf("measured: back after %d ms", time.Since(began).Milliseconds())
			w.eventually(t, "an event says so", func(context.Context) error {
				if events := seen.events.Load().(string); !strings.Contains(events, "InjectionRestored: somebody deleted "+tc.says) {
					return errors.New("events: " + events)
				}
				return nil
			})
			w.eventually(t, "it is proven again", seen.proven)
			w.creating(t, namespace, "agent mesh-1 mesh-2 web")
		})
	}
}

// Directly after a restart of the API server the proof is made again.
func TestTheProofIsRepeatedAfterARestartOfTheAPIServer(t *testing.T) {
	w := shared
	w.needsPolicies(t)
	seen := w.watching(t)
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
	seen := w.watching(t)
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
