// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// split is a set that goes by policy and by webhook.
var split = strings.Replace(plain, "containers:", "patchPodMetadata: [{annotations: {a: '{}'}, patchPolicy: MergePatchJson}], containers:", 1)

// all are the objects that are registered, as watches show them.
func (r *rig) all() map[watchedKind][]client.Object {
	r.t.Helper()
	policies, bindings := &admissionv1.MutatingAdmissionPolicyList{}, &admissionv1.MutatingAdmissionPolicyBindingList{}
	webhooks, revisions := &admissionv1.MutatingWebhookConfigurationList{}, &appsv1.ControllerRevisionList{}
	for _, list := range []client.ObjectList{policies, bindings, webhooks, revisions} {
		if err := r.client.List(r.t.Context(), list); err != nil {
			r.t.Fatal(err)
		}
	}
	all := map[watchedKind][]client.Object{}
	for at := range policies.Items {
		all[watchedPolicy] = append(all[watchedPolicy], &policies.Items[at])
	}
	for at := range bindings.Items {
		all[watchedBinding] = append(all[watchedBinding], &bindings.Items[at])
	}
	for at := range webhooks.Items {
		all[watchedWebhooks] = append(all[watchedWebhooks], &webhooks.Items[at])
	}
	for at := range revisions.Items {
		all[watchedRevision] = append(all[watchedRevision], &revisions.Items[at])
	}
	return all
}

// show shows an object to the registry as a watch does.
func (r *rig) show(kind watchedKind, object client.Object, gone bool) {
	shown := &metav1.PartialObjectMetadata{}
	shown.Name, shown.Labels, shown.ResourceVersion = object.GetName(), object.GetLabels(), object.GetResourceVersion()
	r.registry.sees(kind, shown, gone)
}

// What somebody else does to anything that is registered is put right in the next pass, which the watch asks for. The status says what happened
// until a proof has shown that pods are injected again, and an event tells it.
func TestWhatSomebodyElseDoesIsPutRightAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		kind   watchedKind
		object string
		change func(client.Object)
		says   string
		keeps  bool
	}{
		"the policy is deleted": {kind: watchedPolicy, object: sidecar.PolicyName, says: "somebody deleted the policy kruise-operator-sidecars"},
		"the policy does nothing": {kind: watchedPolicy, object: sidecar.PolicyName, says: "somebody changed the policy", change: func(o client.Object) {
			o.(*admissionv1.MutatingAdmissionPolicy).Spec.Mutations[0].JSONPatch.Expression = "[]"
		}},
		"the anchor is deleted":  {kind: watchedBinding, object: sidecar.AnchorName, says: "somebody deleted the binding kruise-operator-sidecars-anchor"},
		"the binding is deleted": {kind: watchedBinding, object: sidecar.EntryName("log"), says: "somebody deleted its binding"},
		"the binding names another revision": {kind: watchedBinding, object: sidecar.EntryName("log"), says: "somebody changed its binding", change: func(o client.Object) {
			o.(*admissionv1.MutatingAdmissionPolicyBinding).Spec.ParamRef.Name = "else"
		}},
		"the revision is deleted":          {kind: watchedRevision, says: "somebody deleted the revision of what it injects"},
		"the anchor's revision is deleted": {kind: watchedRevision, object: sidecar.AnchorName, says: "somebody deleted the revision of the policy's anchor"},
		"the entries are deleted":          {kind: watchedWebhooks, object: sidecar.WebhookConfiguration, says: "somebody deleted its entry in the webhook configuration"},
		"the entry fails open": {kind: watchedWebhooks, object: sidecar.WebhookConfiguration, says: "somebody changed its entry", change: func(o client.Object) {
			o.(*admissionv1.MutatingWebhookConfiguration).Webhooks[0].FailurePolicy = ptr.To(admissionv1.Ignore)
		}},
		"another certificate is trusted, which is nobody's fault": {kind: watchedWebhooks, object: sidecar.WebhookConfiguration, keeps: true, change: func(o client.Object) {
			o.(*admissionv1.MutatingWebhookConfiguration).Webhooks[0].ClientConfig.CABundle = []byte("other")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, true, installation())
			r.injects["policy"], r.injects["webhook"] = true, true
			r.set(split)
			if state := r.pass("log", time.Minute); state.Condition.Status != metav1.ConditionTrue || len(state.Events) > 0 {
				t.Fatalf("%+v", state)
			}
			before := r.registered()
			all := r.all()[tc.kind]
			object := all[slices.IndexFunc(all, func(o client.Object) bool {
				return o.GetName() == tc.object || tc.object == "" && o.GetName() != sidecar.AnchorName
			})]
			var err error
			if tc.change != nil {
				tc.change(object)
				err = r.client.Update(t.Context(), object)
			} else {
				err = r.client.Delete(t.Context(), object)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.show(tc.kind, object, tc.change == nil)
			if !slices.Equal(r.enqueued, []string{"log"}) {
				t.Fatalf("enqueued: %v", r.enqueued)
			}
			state, err := r.Reconcile(t.Context(), "log", Latest{})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.registered(); got != before || r.revisions() != 2 {
				t.Errorf("registered: %s, %d revisions; before: %s", got, r.revisions(), before)
			}
			if tc.keeps {
				if len(state.Events) > 0 || state.Condition.Status != metav1.ConditionTrue {
					t.Errorf("%+v", state)
				}
				return
			}
			if state.Condition.Status != metav1.ConditionUnknown || !strings.Contains(state.Condition.Message, tc.says) || state.RecheckAfter > effectDelay {
				t.Errorf("%+v", state)
			}
			if len(state.Events) != 1 || state.Events[0].Reason != "InjectionRestored" || !strings.HasPrefix(state.Events[0].Message, tc.says) {
				t.Errorf("events: %+v", state.Events)
			}
			if state := r.pass("log", 10*time.Second); state.Condition.Status != metav1.ConditionTrue || len(state.Events) > 0 {
				t.Errorf("in the end: %+v", state)
			}
		})
	}
}

// With no set left, the anchor of the policy is put back, too: without it an API server forgets how to read revisions. A policy that goes with
// the installation does not come back.
func TestTheAnchorIsPutBackWithoutASet(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"] = true
	r.set(plain)
	r.pass("log", time.Minute)
	r.set()
	r.pass("log", time.Minute)
	anchor := r.all()[watchedBinding][0]
	gone := func() {
		t.Helper()
		if err := r.client.Delete(t.Context(), anchor); err != nil {
			t.Fatal(err)
		}
		r.show(watchedBinding, anchor, true)
		if _, err := r.Reconcile(t.Context(), "", Latest{}); err != nil {
			t.Fatal(err)
		}
	}
	if gone(); r.registered() != "binding kruise-operator-sidecars-anchor" {
		t.Errorf("registered: %s", r.registered())
	}
	r.clock.SetTime(r.clock.Now().Add(time.Minute))
	if err := r.client.Delete(t.Context(), installation()); err != nil {
		t.Fatal(err)
	}
	if gone(); r.registered() != "" {
		t.Errorf("registered after the installation has gone: %s", r.registered())
	}
}

// A new set is registered by its own pass, which knows its revision, and not by one that puts something else right.
func TestASetIsRegisteredByItsOwnPassAlone(t *testing.T) {
	r := newRig(t, true, installation())
	r.set(plain)
	if _, err := r.Reconcile(t.Context(), "", Latest{}); err != nil || r.writes > 0 {
		t.Errorf("%d writes, registered: %s, %v", r.writes, r.registered(), err)
	}
	// It may also come while what an earlier one of its name injected is taken back.
	if _, err := r.Gone(t.Context(), "log"); err != nil || r.writes > 0 {
		t.Errorf("with an earlier one gone: %d writes, registered: %s, %v", r.writes, r.registered(), err)
	}
	r.pass("log", time.Minute)
	r.set()
	if _, err := r.Gone(t.Context(), "log"); err != nil || strings.Contains(r.registered(), "log") {
		t.Errorf("a set that has gone is registered: %s, %v", r.registered(), err)
	}
}

// What the operator has written itself is no reason to look at anything again, in whichever order a write and its event arrive.
func TestOwnWritesTriggerNoPass(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"], r.injects["webhook"] = true, true
	r.set(split)
	early := &metav1.PartialObjectMetadata{}
	early.Name, early.ResourceVersion = sidecar.PolicyName, "1"
	r.registry.sees(watchedPolicy, early, false)
	r.pass("log", time.Minute)
	r.enqueued = nil
	count := 0
	for kind, objects := range r.all() {
		for _, object := range objects {
			count++
			r.show(kind, object, false)
		}
	}
	foreign := &metav1.PartialObjectMetadata{}
	foreign.Name, foreign.ResourceVersion = "kruise-operator-launch-priority", "7"
	r.registry.sees(watchedBinding, foreign, false)
	r.registry.sees(watchedBinding, cache.DeletedFinalStateUnknown{Obj: foreign}, true)
	if count != 6 || len(r.enqueued) > 0 || r.registry.touched() {
		t.Errorf("%d objects were shown, enqueued: %v", count, r.enqueued)
	}
}

// The operator is installed in another way, as by the Operator Lifecycle Manager after manifests: what is registered belongs to the new installation, and does
// not go with the old one.
func TestWhatIsRegisteredFollowsTheInstallation(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"], r.injects["webhook"] = true, true
	r.set(split)
	r.pass("log", time.Minute)
	later := &rbacv1.ClusterRoleBinding{}
	later.Name, later.UID = "kruise-operator-manager-service-system:auth-delegator", "later"
	if err := r.client.Create(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	r.clock.SetTime(r.clock.Now().Add(verifyEvery))
	if state := r.pass("log", time.Second); state.Condition.Status != metav1.ConditionTrue || len(state.Events) > 0 {
		t.Errorf("%+v", state)
	}
	for kind, objects := range r.all() {
		for _, object := range objects {
			owners := object.GetOwnerReferences()
			if ofSet := kind == watchedBinding && object.GetName() != sidecar.AnchorName; len(owners) != 1 || (owners[0].UID == later.UID) == ofSet {
				t.Errorf("%s %s belongs to %+v", kind, object.GetName(), owners)
			}
		}
	}
	if r.registry.touched() {
		t.Error("its own writes are taken for those of somebody else")
	}
	before := r.writes
	r.clock.SetTime(r.clock.Now().Add(verifyEvery))
	if r.pass("log", time.Second); r.writes > before {
		t.Errorf("%d writes after that", r.writes-before)
	}
}

// Somebody who deletes again and again what is registered gets no race.
func TestRepairsThatFollowEachOtherWait(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"] = true
	r.set(plain)
	r.pass("log", time.Minute)
	began := r.clock.Now()
	repaired := 0
	for r.clock.Now().Sub(began) < 4*time.Minute {
		if policies := r.all()[watchedPolicy]; len(policies) > 0 {
			repaired++
			if err := r.client.Delete(t.Context(), policies[0]); err != nil {
				t.Fatal(err)
			}
			r.show(watchedPolicy, policies[0], true)
		}
		state, err := r.Reconcile(t.Context(), "log", Latest{})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.all()[watchedPolicy]) == 0 && (state.RecheckAfter == 0 || state.RecheckAfter > lastRepairPause) {
			t.Fatalf("the next look is in %s", state.RecheckAfter)
		}
		r.clock.SetTime(r.clock.Now().Add(100 * time.Millisecond))
	}
	if repaired < 5 || repaired > 12 {
		t.Errorf("repaired %d times in four minutes", repaired)
	}
}

// A policy that had no effect is tried again soon, and later less and less often; as soon as it acts, it injects again, and the webhook goes.
func TestAPolicyWithoutEffectIsTriedAgain(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["webhook"] = true
	r.set(plain)
	began := r.clock.Now()
	var tries []int // in seconds
	bound := false
	step := func() InjectionState {
		t.Helper()
		state, err := r.Reconcile(t.Context(), "log", Latest{})
		if err != nil {
			t.Fatal(err)
		}
		is := strings.Contains(r.registered(), "binding log")
		if is && !bound {
			tries = append(tries, int(r.clock.Now().Sub(began).Seconds()))
		}
		bound = is
		r.clock.SetTime(r.clock.Now().Add(min(max(state.RecheckAfter, firstTry), countEvery)))
		return state
	}
	var state InjectionState
	for r.clock.Now().Sub(began) < 5*time.Minute {
		state = step()
		if n := len(tries); n > 1 && (state.Path != PathWebhook || !strings.Contains(state.Condition.Message, "the policy has no effect")) {
			t.Fatalf("while it is tried again: %+v", state)
		}
	}
	if len(tries) != 5 || tries[1]-tries[0] > 45 || tries[4]-tries[3] < 2*(tries[3]-tries[2])-45 {
		t.Errorf("tried after %v seconds", tries)
	}
	r.injects["policy"] = true
	for state.Path != PathPolicy && r.clock.Now().Sub(began) < time.Hour {
		state = step()
	}
	if got := r.registered(); got != "binding kruise-operator-sidecars-anchor, binding log" || state.Condition.Status != metav1.ConditionTrue {
		t.Errorf("registered: %s, %+v", got, state)
	}
}

// A policy that acts for a moment only does not make a set go to and fro.
func TestAPolicyThatComesAndGoesIsTriedLessAndLessOften(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["webhook"] = true
	r.set(plain)
	began, changes, before := r.clock.Now(), 0, Path("")
	for r.clock.Now().Sub(began) < time.Hour {
		state, err := r.Reconcile(t.Context(), "log", Latest{})
		if err != nil {
			t.Fatal(err)
		}
		if state.Path != before {
			changes++
		}
		before = state.Path
		// It acts when it is tried again, and stops when it has been seen to.
		r.injects["policy"] = state.Path != PathPolicy && r.clock.Now().Sub(began) > 20*time.Second
		if state.Path == PathPolicy {
			r.registry.lost() // has it proven again
		}
		r.clock.SetTime(r.clock.Now().Add(min(max(state.RecheckAfter, firstTry), countEvery)))
	}
	if changes > 24 {
		t.Errorf("the way changed %d times in an hour", changes)
	}
}

// A policy that could not be written for a moment is tried again within seconds, and the webhook, which injects meanwhile, goes.
func TestAPolicyThatCouldNotBeWrittenIsTriedAgain(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"], r.injects["webhook"] = true, true
	r.set(plain)
	r.fails = 1
	state, err := r.Reconcile(t.Context(), "log", Latest{})
	if err != nil || state.Path != PathWebhook || !strings.Contains(state.Condition.Message, "the policy could not be written") || state.RecheckAfter > afterFault {
		t.Errorf("%+v, %v", state, err)
	}
	if state = r.pass("log", 15*time.Second); state.Path != PathPolicy || r.registered() != "binding kruise-operator-sidecars-anchor, binding log" {
		t.Errorf("registered: %s, %+v", r.registered(), state)
	}
	for try, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute} {
		p := failedWrites{fault: "it cannot", at: r.clock.Now(), count: try + 1}
		if got := p.left(r.clock.Now()); got != want {
			t.Errorf("after %d faults it is left alone for %s, want %s", try+1, got, want)
		}
	}
}

// What the entries of sets name that the policy cannot serve for a moment is there: without it, their pods were refused for minutes.
func TestSetsThatThePolicyDoesNotServeForAMomentAreInjected(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"], r.injects["webhook"] = true, true
	r.set(plain, strings.NewReplacer("name: log", "name: trace", "name: agent", "name: tracer").Replace(plain))
	r.fails = 1
	if _, err := r.Reconcile(t.Context(), "log", Latest{}); err != nil {
		t.Fatal(err)
	}
	if got := r.registered(); got != "entry log Fail, entry trace Fail" {
		t.Fatalf("registered: %s", got)
	}
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	if err := r.client.Get(t.Context(), client.ObjectKey{Name: sidecar.WebhookConfiguration}, configuration); err != nil {
		t.Fatal(err)
	}
	for _, entry := range configuration.Webhooks {
		_, revision, _ := strings.Cut(*entry.ClientConfig.URL, sidecar.InjectPath)
		if err := r.client.Get(t.Context(), client.ObjectKey{Namespace: "kruise-system", Name: revision}, &appsv1.ControllerRevision{}); err != nil {
			t.Errorf("%s: %v", entry.Name, err)
		}
	}
}

// Proofs are made again when the API server was restarted, and what it says about fields is asked again.
func TestARestartOfTheAPIServerHasTheProofRepeated(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"] = true
	r.set(plain)
	r.pass("log", time.Minute)
	before := r.asked
	if r.pass("log", time.Second); r.asked != before {
		t.Fatalf("%d proofs at rest", r.asked-before)
	}
	r.registry.lost()
	if !slices.Equal(r.enqueued, []string{"log"}) {
		t.Errorf("enqueued: %v", r.enqueued)
	}
	if state := r.pass("log", time.Second); r.asked != before+1 || state.Condition.Status != metav1.ConditionTrue {
		t.Errorf("%d proofs after a restart, %+v", r.asked-before, state)
	}
	r.injects["policy"] = false
	r.registry.lost()
	if state := r.pass("log", time.Second); state.Path != PathWebhook {
		t.Errorf("after a restart without the policy: %+v", state)
	}
}

// A server before Kubernetes 1.36 is not asked in each pass whether it serves policies: each time takes a request. After an upgrade it is.
func TestAnOlderServerIsRarelyAskedForPolicies(t *testing.T) {
	r := newRig(t, true, installation())
	r.injects["policy"], r.injects["webhook"], r.older = true, true, true
	r.set(plain)
	if state := r.pass("log", time.Minute); state.Path != PathWebhook || state.Condition.Status != metav1.ConditionTrue {
		t.Fatalf("%+v", state)
	}
	asks := func(want int) {
		t.Helper()
		before := r.mapped
		for range 5 {
			if _, err := r.Reconcile(t.Context(), "log", Latest{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.mapped - before; got != want {
			t.Errorf("in five passes it is asked %d times, want %d", got, want)
		}
	}
	r.clock.SetTime(r.clock.Now().Add(askServedAgain))
	asks(1)
	asks(0)
	r.registry.lost()
	asks(1)
	r.older = false
	r.registry.lost()
	if state := r.pass("log", time.Minute); state.Path != PathPolicy || state.Condition.Status != metav1.ConditionTrue {
		t.Errorf("after an upgrade: %+v", state)
	}
}

func TestLostConnections(t *testing.T) {
	const asked = int64(300)
	cases := map[string]struct {
		after time.Duration
		fails int
		want  int
	}{
		"it ended when it should":               {after: 300 * time.Second},
		"it ended early":                        {after: 10 * time.Second, want: 1},
		"it ended when it should, then nothing": {after: 300 * time.Second, fails: 3, want: 1},
		"it ended early, then nothing":          {after: 10 * time.Second, fails: 3, want: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clock, lost := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), 0
			l := &line{clock: clock, lost: func() { lost++ }}
			l.began(nil, errors.New("not served yet"))
			l.began(ptr.To(asked), nil)
			clock.SetTime(clock.Now().Add(tc.after))
			for range tc.fails {
				l.began(ptr.To(asked), context.DeadlineExceeded)
			}
			if lost > 0 {
				t.Error("it is said to be back while it is away")
			}
			l.began(ptr.To(asked), nil)
			if lost != tc.want {
				t.Errorf("lost %d times, want %d", lost, tc.want)
			}
		})
	}
}
