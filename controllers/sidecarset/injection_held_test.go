// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// pausedByAnnotation is a set for which nothing is to be done.
func pausedByAnnotation(set string) string {
	return strings.Replace(set, "metadata: {", "metadata: {annotations: {operator.kruise.io/paused: 'true'}, ", 1)
}

// takenUp is a set of which the operator has seen the spec.
func takenUp(set string) string {
	return strings.Replace(strings.Replace(set, "metadata: {", "metadata: {generation: 7, ", 1), "spec: {", "status: {observedGeneration: 7}, spec: {", 1)
}

// What a paused set injects stays as it is, but it goes together with what other sets do: a canary takes its pods, and a pod says what it has from both.
func TestAPausedSetGoesTogetherWithOthers(t *testing.T) {
	canary := strings.Replace(plain, "name: log", "name: gray, annotations: {apps.kruise.io/sidecarset-canary: 'true', apps.kruise.io/sidecarset-base: log}", 1)
	other := strings.NewReplacer("name: log", "name: another", "name: agent", "name: b").Replace(plain)
	for _, preferPolicy := range []bool{true, false} {
		r := newRig(t, preferPolicy, installation())
		r.injects["policy"], r.injects["webhook"] = preferPolicy, !preferPolicy
		r.set(takenUp(plain))
		r.pass("log", time.Minute)
		r.set(pausedByAnnotation(takenUp(plain)), canary, other)
		r.pass("another", time.Minute)
		revisions := &appsv1.ControllerRevisionList{}
		if err := r.client.List(t.Context(), revisions, client.MatchingLabels{injectionLabel: "log"}); err != nil {
			t.Fatal(err)
		}
		for _, revision := range revisions.Items {
			injection, err := sidecar.Decode(revision.Data.Raw)
			if err != nil {
				t.Fatal(err)
			}
			if len(injection.Others) != 2 || len(injection.Skip) != 1 {
				t.Errorf("it knows %d other sets, and leaves pods to %v", len(injection.Others), injection.Skip)
			}
		}
	}
}

// A paused set does not lose its sidecars because the API server does not serve policies any more.
func TestAPausedSetIsInjectedByAnotherWay(t *testing.T) {
	other := strings.NewReplacer("name: log", "name: mesh", "name: agent", "name: b", "app: shop", "app: market").Replace(plain)
	r := newRig(t, true, installation())
	r.injects["policy"], r.injects["webhook"] = true, true
	r.set(takenUp(plain), other)
	r.pass("log", time.Minute)
	r.pass("mesh", time.Minute)
	r.without, r.injects["policy"] = true, false
	r.set(pausedByAnnotation(takenUp(plain)), other)
	r.pass("mesh", 11*time.Minute)
	r.without = false
	if got := r.registered(); !strings.Contains(got, "entry log Fail, entry mesh Fail") {
		t.Errorf("registered: %s", got)
	}
}

// A set was deleted, and another one of its name is there before anybody has seen that: what was registered for the first one is not that of the second.
func TestASetThatCameBackPausedIsNotInjected(t *testing.T) {
	other := strings.NewReplacer("name: log", "name: mesh", "name: agent", "name: b", "app: shop", "app: market").Replace(plain)
	newer := strings.Replace(plain, "image: a", "image: newer", 1)
	for way, preferPolicy := range map[string]bool{"policy": true, "webhook": false} {
		for name, tc := range map[string]struct {
			back   string
			refuse bool
			pass   func(*rig) error
		}{
			"a pass over another set": {back: pausedByAnnotation(newer), pass: func(r *rig) error {
				_, err := r.Reconcile(t.Context(), "mesh", Latest{})
				return err
			}},
			"its own pass": {back: pausedByAnnotation(newer), pass: func(r *rig) error {
				s := newShell(t, "kruise-system")
				s.Injection, s.Cache = r.Injection, undecodable{s.Cache, &r.sets[0]}
				_, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "log"}})
				return err
			}},
			"its revision is refused": {back: newer, refuse: true, pass: func(r *rig) error {
				if _, err := r.Reconcile(t.Context(), "log", Latest{}); err == nil || !strings.Contains(err.Error(), "exceeded quota") {
					return errors.New("nothing was refused")
				}
				return nil
			}},
		} {
			t.Run(way+" "+name, func(t *testing.T) {
				r := newRig(t, preferPolicy, installation())
				r.injects[way] = true
				r.set(plain, other)
				r.pass("log", time.Minute)
				r.pass("mesh", time.Minute)
				r.set(tc.back, other)
				r.sets[0].SetUID("of-the-second")
				if tc.refuse {
					r.refuse = func(client.Object) error {
						return apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), "log", errors.New("exceeded quota"))
					}
				}
				if err := tc.pass(r); err != nil {
					t.Fatal(err)
				}
				if got := r.registered(); strings.Contains(got, " log") || !strings.Contains(got, " mesh") {
					t.Errorf("registered: %s", got)
				}
				r.pass("mesh", time.Minute)
				if got := r.images("log"); got != "" {
					t.Errorf("what the first one has injected is still there: %s", got)
				}
				r.refuse = nil
				r.set(plain, other)
				r.sets[0].SetUID("of-the-second")
				if state := r.pass("log", time.Minute); state.Condition.Status != metav1.ConditionTrue || !strings.Contains(r.registered(), " log") {
					t.Errorf("when it goes on: %+v, registered: %s", state, r.registered())
				}
			})
		}
	}
}

// A quota refuses new revisions, and a set is changed: sets for the same pods, which did not change, are injected as before. They were stalled. A call goes on
// naming no revision that is not there.
func TestARefusedRevisionLeavesTheCallsOfOthersAlone(t *testing.T) {
	set := func(name, image string) string {
		return strings.NewReplacer("name: log", "name: "+name, "name: agent", "name: "+name, "image: a", "image: "+image).Replace(plain)
	}
	r := newRig(t, false, installation())
	r.injects["webhook"] = true
	pass := func() {
		t.Helper()
		for _, name := range []string{"another", "third"} {
			if state := r.pass(name, 2*time.Minute); state.Condition.Status != metav1.ConditionTrue {
				t.Errorf("%s: %+v", name, state.Condition)
			}
		}
	}
	// meets are how many other sets each call injects; all of its revisions have to be there.
	meets := func() string {
		t.Helper()
		configuration := &admissionv1.MutatingWebhookConfiguration{}
		if err := r.client.Get(t.Context(), client.ObjectKey{Name: sidecar.WebhookConfiguration}, configuration); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, entry := range configuration.Webhooks {
			call := r.revision(calledRevision(entry.ClientConfig))
			for _, name := range call.Meets {
				r.revision(name)
			}
			all = append(all, fmt.Sprint(call.Set, " ", len(call.Meets)))
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	r.set(set("log", "a"), set("another", "a"), set("third", "a"))
	r.pass("log", time.Minute)
	pass()
	if got := meets(); got != "another 2, log 2, third 2" {
		t.Fatalf("at first: %s", got)
	}
	r.refuse = func(client.Object) error {
		return apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), "log", errors.New("exceeded quota"))
	}
	r.set(set("log", "newer"), set("another", "a"), set("third", "a"))
	pass()
	if got := meets(); got != "another 0, log 2, third 0" {
		t.Errorf("while log is refused: %s", got)
	}
	if _, err := r.Reconcile(t.Context(), "log", Latest{}); err == nil || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("log: %v", err)
	}
	r.refuse = nil
	r.pass("log", time.Minute)
	pass()
	if got := meets(); got != "another 2, log 2, third 2" {
		t.Errorf("at last: %s", got)
	}
}

// The operator is called at another address: the entry of a paused set, whose changed spec is not taken up, goes on naming its revision, but there.
func TestTheEntryOfAPausedSetCallsTheOperatorWhereItIs(t *testing.T) {
	other := strings.NewReplacer("name: log", "name: mesh", "name: agent", "name: b", "app: shop", "app: market").Replace(plain)
	r := newRig(t, false, installation())
	r.injects["webhook"] = true
	r.set(plain, other)
	r.pass("log", time.Minute)
	r.pass("mesh", time.Minute)
	r.set(pausedByAnnotation(strings.Replace(plain, "image: a", "image: newer", 1)), other)
	r.pass("mesh", time.Minute)
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := r.client.Get(t.Context(), client.ObjectKey{Name: "sidecarsets.apps.kruise.io"}, definition); err != nil {
		t.Fatal(err)
	}
	definition.Spec.Conversion.Webhook.ClientConfig.URL = ptr.To("https://127.0.0.2:2/convert")
	definition.Spec.Conversion.Webhook.ClientConfig.CABundle = []byte("another")
	if err := r.client.Update(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	r.clock.SetTime(r.clock.Now().Add(verifyEvery))
	r.pass("mesh", time.Minute)
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	if err := r.client.Get(t.Context(), client.ObjectKey{Name: sidecar.WebhookConfiguration}, configuration); err != nil {
		t.Fatal(err)
	}
	if len(configuration.Webhooks) != 2 {
		t.Fatalf("registered: %s", r.registered())
	}
	for _, entry := range configuration.Webhooks {
		revision := calledRevision(entry.ClientConfig)
		want := admissionv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.2:2" + sidecar.InjectPath + revision), CABundle: []byte("another")}
		if diff := cmp.Diff(want, entry.ClientConfig); diff != "" {
			t.Errorf("%s is called like this (-want +got):\n%s", entry.Name, diff)
		}
		if image := r.revision(revision).Variants[0].Containers[0].Value["image"]; image != "a" {
			t.Errorf("%s injects the image %v", entry.Name, image)
		}
	}
}

// What is called for one set names no revision of another one that is not written because that one is paused.
func TestACallLeavesAPausedSetToItsOwn(t *testing.T) {
	other := strings.NewReplacer("name: log", "name: another", "name: agent", "name: b").Replace(plain)
	r := newRig(t, false, installation())
	r.injects["webhook"] = true
	r.set(plain, other)
	r.pass("log", time.Minute)
	r.pass("another", time.Minute)
	r.set(pausedByAnnotation(strings.Replace(plain, "image: a", "image: newer", 1)), other)
	r.pass("another", time.Minute)
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	if err := r.client.Get(t.Context(), client.ObjectKey{Name: sidecar.WebhookConfiguration}, configuration); err != nil {
		t.Fatal(err)
	}
	for _, entry := range configuration.Webhooks {
		for _, name := range r.revision(calledRevision(entry.ClientConfig)).Meets {
			r.revision(name)
		}
	}
	if len(configuration.Webhooks) != 2 || r.images("log") != "a a" { // alone, and together with the other one
		t.Errorf("%d entries, and revisions of %s", len(configuration.Webhooks), r.images("log"))
	}
}
