// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecarset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/hooks"
	"github.com/kruise-operator/kruise-operator/internal/platform/scheme"
)

// rig is an Injection with two API servers; the test decides their marks on probes.
type rig struct {
	*Injection
	t      *testing.T
	client client.Client
	clock  *clocktesting.FakePassiveClock
	sets   []unstructured.Unstructured
	// changes counts how often the sets were replaced.
	changes int
	// wanted are the hooks by name, said the number of calls; states come from the registrar.
	wanted map[string]*hooks.Hook
	said   int
	states map[string]hooks.State
	// marks returns each server's mark on a probe for a set; nil: none.
	marks [2]func(set string) string
	// singly are the pods asked for; slow runs before the answer, unread replaces it.
	singly []string
	slow   func()
	unread error
}

func newRig(t *testing.T, preferPolicy bool, objects ...client.Object) *rig {
	t.Helper()
	types, err := scheme.New()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), states: map[string]hooks.State{}}
	shop := &corev1.Namespace{}
	shop.Name, shop.Labels = "shop", map[string]string{corev1.LabelMetadataName: "shop"}
	r.client = fake.NewClientBuilder().WithScheme(types).WithObjects(append(objects, shop)...).WithInterceptorFuncs(r.functions()).Build()
	r.Injection = NewInjection(InjectionOptions{
		Live: r.client, Pods: r.client, Namespace: "kruise-system", PreferPolicy: preferPolicy, Clock: r.clock, Hooks: registered{r}, Servers: r,
		Sets: func(context.Context) ([]unstructured.Unstructured, error) { return r.sets, nil },
	})
	return r
}

// registered is the rig's view of the registrar.
type registered struct{ *rig }

func (r registered) Want(all ...*hooks.Hook) {
	r.wanted, r.said = map[string]*hooks.Hook{}, r.said+1
	for _, hook := range all {
		r.wanted[hook.Name] = hook
	}
}

func (r registered) State(hook string) hooks.State { return r.states[hook] }

// Each asks the two API servers.
func (r *rig) Each(ctx context.Context, ask func(context.Context, client.Client) error) error {
	var errs []error
	for _, marks := range r.marks {
		errs = append(errs, ask(ctx, interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
			Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
				probe, is := object.(*appsv1alpha1.NodePodProbe)
				if !is {
					return fmt.Errorf("a dry run of %T", object)
				}
				for at := range r.sets {
					if name := r.sets[at].GetName(); marks != nil && marks(name) != "" {
						revision, called := strings.CutSuffix(marks(name), called)
						key := sidecar.PolicyMark(name)
						if called {
							key = sidecar.WebhookMark(name)
						}
						probe.Annotations[key] = revision
					}
				}
				return nil
			},
		})))
	}
	return errors.Join(errs...)
}

// Until asks them again and again.
func (r *rig) Until(ctx context.Context, ask func(context.Context, client.Client) error) error {
	for {
		if err := r.Each(ctx, ask); err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// byPolicies and byWebhooks mark the last wanted hooks; nothing without such a hook.
func (r *rig) byPolicies(set string) string {
	if hook := r.wanted[sidecar.EntryName(set)]; hook != nil && hook.Policy != "" {
		return hook.Params[0].GetName()
	}
	return r.byWebhooks(set)
}

// called is behind the revision of a mark by webhook.
const called = " webhook"

func (r *rig) byWebhooks(set string) string {
	if hook := r.wanted[sidecar.EntryName(set)]; hook != nil && (hook.Policy == "" || hook.Beside) {
		return hook.Params[0].GetName() + called
	}
	return ""
}

func (r *rig) everywhere(marks func(string) string) { r.marks = [2]func(string) string{marks, marks} }

// functions select unfinished pods: the fake server cannot.
func (r *rig) functions() interceptor.Funcs {
	return interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(options)
			named, is := list.(*metav1.PartialObjectMetadataList)
			if !is || asked.FieldSelector == nil {
				return c.List(ctx, list, options...)
			}
			if r.slow != nil {
				r.slow()
			}
			if r.unread != nil {
				return r.unread
			}
			name, _ := asked.FieldSelector.RequiresExactMatch(metav1.ObjectNameField)
			r.singly, named.Items = append(r.singly, name), nil
			pods := &corev1.PodList{}
			err := c.List(ctx, pods, client.InNamespace(asked.Namespace))
			for _, pod := range pods.Items {
				if asked.FieldSelector.Matches(fields.Set{"status.phase": string(pod.Status.Phase), metav1.ObjectNameField: pod.Name}) {
					named.Items = append(named.Items, metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta})
				}
			}
			return err
		},
	}
}

// set replaces the SidecarSets of the cluster.
func (r *rig) set(texts ...string) {
	r.sets = nil
	r.changes++
	for _, text := range texts {
		object := unstructured.Unstructured{Object: map[string]any{}}
		content := map[string]any{}
		err := yaml.Unmarshal([]byte(text), &content)
		if err == nil {
			var data []byte
			if data, err = json.Marshal(content); err == nil {
				err = kjson.Unmarshal(data, &object.Object) // whole numbers, as a server sends them
			}
		}
		if err != nil {
			r.t.Fatal(err)
		}
		object.SetAPIVersion("apps.kruise.io/v1beta1")
		object.SetKind("SidecarSet")
		object.SetUID(types.UID("uid-of-" + object.GetName()))
		object.SetResourceVersion(strconv.Itoa(r.changes))
		if object.GetGeneration() == 0 {
			object.SetGeneration(int64(r.changes))
		}
		r.sets = append(r.sets, object)
	}
}

// once makes one pass.
func (r *rig) once(name string) InjectionState {
	r.t.Helper()
	state, err := r.Reconcile(r.t.Context(), name, Latest{})
	if err != nil {
		r.t.Fatal(err)
	}
	return state
}

// pass reconciles as often as it asks for, for a while.
func (r *rig) pass(name string, during time.Duration) InjectionState {
	r.t.Helper()
	end := r.clock.Now().Add(during)
	for {
		state := r.once(name)
		if state.RecheckAfter == 0 || !r.clock.Now().Add(state.RecheckAfter).Before(end) {
			return state
		}
		r.clock.SetTime(r.clock.Now().Add(state.RecheckAfter))
	}
}

// ways says how each set is wanted, in words.
func (r *rig) ways() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(r.wanted)) {
		hook, way := r.wanted[name], "webhook"
		switch {
		case hook.Hold:
			way = "held"
		case hook.Policy != "" && hook.Beside:
			way = "both"
		case hook.Policy != "":
			way = "policy"
		}
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(name, "sidecarset-"), ".operator.kruise.io")+" "+way)
	}
	return strings.Join(all, ", ")
}

func (r *rig) is(state InjectionState, condition, ways string) {
	r.t.Helper()
	if got := state.Condition.Reason + " " + string(state.Condition.Status); got != condition || r.ways() != ways {
		r.t.Errorf("it is %s: %s; wanted are %q\nwant %s and %q", got, state.Condition.Message, r.ways(), condition, ways)
	}
}

const (
	plain  = `{metadata: {name: log}, spec: {selector: {matchLabels: {app: shop}}, containers: [{name: agent, image: a}]}}`
	merges = `{metadata: {name: log}, spec: {selector: {matchLabels: {app: shop}}, containers: [{name: agent, image: a}],
		patchPodMetadata: [{annotations: {k: "{}"}, patchPolicy: MergePatchJson}]}}`
)

// The webhook injects a set from the first moment until its policy is in force.
func TestAPolicyTakesOverWhenItIsInForce(t *testing.T) {
	r := newRig(t, true)
	r.set(plain)
	r.is(r.once("log"), "Policy Unknown", "log both")
	r.everywhere(r.byWebhooks)
	r.is(r.pass("log", time.Second), "Webhook True", "log both")
	r.marks[0] = r.byPolicies
	r.is(r.pass("log", time.Minute), "Webhook True", "log both")
	r.marks[1] = r.byPolicies
	r.is(r.pass("log", settling), "Webhook True", "log both") // Requests that came past the policies before are on their way.
	state := r.pass("log", 10*time.Minute)
	r.is(state, "Policy True", "log policy")
	if !strings.Contains(state.Condition.Message, "2 of the API servers") {
		t.Error(state.Condition.Message)
	}
	said := r.said
	r.pass("log", time.Hour)
	if r.said != said {
		t.Errorf("it was said %d times again", r.said-said)
	}

	// An API server was started without policies.
	r.marks[1] = r.byWebhooks
	r.pass("log", 2*checkEvery)
	r.is(r.pass("log", time.Minute), "Webhook True", "log both")
}

// A set's status records injection by policy. A recreated set starts anew.
func TestARestartCallsNoWebhook(t *testing.T) {
	r := newRig(t, true)
	r.set(plain, strings.NewReplacer("log", "mesh", "agent", "proxy").Replace(merges))
	for at := range r.sets {
		r.sets[at].Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": ConditionInjectionPath, "status": "True", "reason": string(PathPolicy)}}}
	}
	r.everywhere(r.byPolicies)
	r.is(r.once("log"), "Policy True", "log policy, mesh webhook")
	if r.said != 1 {
		t.Errorf("said %d times", r.said)
	}
	r.set(plain)
	r.sets[0].SetUID("another")
	r.is(r.once("log"), "Webhook True", "log both")
}

func TestOneWayForEachSet(t *testing.T) {
	for name, tc := range map[string]struct {
		set          string
		prefer       bool
		reason, ways string
	}{
		"by policy":       {set: plain, prefer: true, reason: "Policy", ways: "log policy"},
		"merging":         {set: merges, prefer: true, reason: "Webhook", ways: "log webhook"},
		"policies unused": {set: plain, reason: "Webhook", ways: "log webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tc.prefer)
			r.set(tc.set)
			r.everywhere(r.byPolicies)
			r.is(r.pass("log", time.Minute), tc.reason+" True", tc.ways)
		})
	}
}

// The former way goes once the new one is in force.
func TestASetChangesItsWay(t *testing.T) {
	r := newRig(t, true)
	r.set(merges)
	r.everywhere(r.byPolicies)
	r.pass("log", time.Second)
	r.everywhere(r.byWebhooks)
	r.set(plain)
	r.is(r.pass("log", time.Second), "Webhook True", "log both")
	r.everywhere(r.byPolicies)
	r.is(r.pass("log", time.Hour), "Policy True", "log policy")
	r.set(merges)
	r.is(r.pass("log", time.Second), "Webhook True", "log webhook")
}

// Until all API servers show an update, new pods can get the former revision.
func TestAnUpdateIsPendingUntilAllServersShowIt(t *testing.T) {
	r := newRig(t, true)
	r.set(plain)
	r.everywhere(r.byPolicies)
	r.pass("log", time.Second)
	former := r.byPolicies("log")
	r.set(strings.Replace(plain, "image: a", "image: b", 1))
	r.marks[1] = func(string) string { return former }
	if state := r.pass("log", time.Second); !state.Pending || state.Condition.Status != corev1.ConditionUnknown || state.Fault != "" {
		t.Errorf("%+v", state)
	}
	r.marks[1] = r.byPolicies
	if state := r.pass("log", time.Second); state.Pending || state.Condition.Status != corev1.ConditionTrue {
		t.Errorf("%+v", state)
	}
}

func TestWhatHasNoEffectIsToldAndStalls(t *testing.T) {
	r := newRig(t, true)
	r.set(plain)
	if state := r.pass("log", 9*time.Second); !state.Pending || state.Fault != "" {
		t.Errorf("%+v", state)
	}
	if state := r.pass("log", 10*time.Second); state.Pending || state.Fault == "" || state.Stalled || state.Condition.Status != corev1.ConditionFalse {
		t.Errorf("%+v", state)
	}
	if state := r.pass("log", time.Minute); !state.Stalled {
		t.Errorf("%+v", state)
	}
}

func TestWhatTheRegistrarSaysIsTold(t *testing.T) {
	for reason, want := range map[hooks.Reason]string{
		hooks.NoRoom: "WebhookFull False", hooks.Ownerless: "NoInstallationOwner False", hooks.Refused: "NotRegistered Unknown", hooks.Pending: "Webhook Unknown",
	} {
		r := newRig(t, false)
		r.set(plain)
		r.once("log")
		hook := r.wanted[sidecar.EntryName("log")]
		r.states[hook.Name] = hooks.State{Reason: reason, Version: hook.Version, Message: "because"}
		state := r.once("log")
		r.is(state, want, "log webhook")
		if (state.Fault == "because") != (reason != hooks.Pending) || state.Stalled != (reason == hooks.NoRoom || reason == hooks.Ownerless) {
			t.Errorf("%s: %+v", reason, state)
		}
		// A policy needs no room in the configuration of webhooks.
		r.options.PreferPolicy, r.wanted, r.Injection.wanted = true, nil, ""
		r.everywhere(r.byPolicies)
		r.pass("log", time.Minute)
		r.is(r.pass("log", time.Minute), "Policy True", "log policy")
	}
}

func TestFaultsOfOneSetLeaveTheOthersAlone(t *testing.T) {
	other := strings.NewReplacer("name: log", "name: mesh", "agent", "proxy").Replace(plain)
	for name, tc := range map[string]struct{ set, condition, ways string }{
		"it cannot be decoded": {strings.Replace(plain, "image: a", "image: a, ports: none", 1), "InvalidSpec False", "mesh policy"},
		"it is too large":      {strings.Replace(plain, "image: a", "image: a, args: ["+strings.Repeat("x", maxInjected)+"]", 1), "InvalidSpec False", "mesh policy"},
		"no such revision":     {strings.Replace(plain, "containers:", "injectionStrategy: {revision: {customVersion: '1'}}, containers:", 1), "RevisionNotFound False", "mesh policy"},
		"it is paused":         {strings.Replace(plain, "containers:", "injectionStrategy: {paused: true}, containers:", 1), "Paused False", "mesh policy"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, true)
			r.set(tc.set, other)
			r.everywhere(r.byPolicies)
			r.pass("mesh", time.Minute)
			r.is(r.once("log"), tc.condition, tc.ways)
			r.is(r.once("mesh"), "Policy True", tc.ways)
		})
	}
}

// A set for exempt namespaces was said to be injected.
func TestASetForExemptNamespacesSaysThatItInjectsNothing(t *testing.T) {
	for names, condition := range map[string]string{"[kube-system]": "NamespaceExempt False", "[kube-system, shop]": "Policy True", "[shop]": "Policy True"} {
		r := newRig(t, true)
		r.set(strings.Replace(plain, "containers:", "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: "+names+"}]}, containers:", 1))
		r.everywhere(r.byPolicies)
		state := r.pass("log", time.Minute)
		r.is(state, condition, "log policy")
		if strings.Contains(state.Condition.Message, "kube-system, which is exempt") != strings.Contains(names, "kube-system") {
			t.Errorf("%s: %s", names, state.Condition.Message)
		}
	}
}

// A paused set keeps its registration until the annotation goes.
func TestAPausedSetStaysAsItIs(t *testing.T) {
	r := newRig(t, true)
	held := strings.Replace(plain, "{name: log}", `{name: log, generation: 2, annotations: {operator.kruise.io/paused: "true"}}`, 1)
	r.set(held)
	if err := r.Refresh(t.Context()); err != nil || r.ways() != "log held" {
		t.Errorf("wanted are %s, %v", r.ways(), err)
	}
	r.set(held)
	r.sets[0].Object["status"] = map[string]any{"observedGeneration": int64(2), "latestRevision": "log-1"}
	if err := r.Refresh(t.Context()); err != nil || r.ways() != "log both" {
		t.Errorf("of the spec of before, wanted are %s, %v", r.ways(), err)
	}
}

func TestNothingIsWantedWithoutSets(t *testing.T) {
	r := newRig(t, true)
	r.set(plain)
	r.once("log")
	r.set()
	if err := r.Refresh(t.Context()); err != nil || len(r.wanted) > 0 || r.said != 2 {
		t.Errorf("wanted are %q, %v", r.ways(), err)
	}
	other := newRig(t, true)
	if err := other.Refresh(t.Context()); err != nil || other.said != 1 {
		t.Errorf("after a start without sets: said %d times, %v", other.said, err)
	}
}

func TestSetsWithTheSameContainerSayIt(t *testing.T) {
	r := newRig(t, true)
	r.set(plain, strings.Replace(plain, "name: log", "name: mesh", 1))
	r.everywhere(r.byPolicies)
	state := r.once("log")
	if len(state.Events) != 1 || state.Events[0].Reason != "ContainerNameTaken" || !strings.Contains(state.Condition.Message, "container agent of SidecarSet mesh") {
		t.Errorf("%+v", state)
	}
	if state := r.once("log"); len(state.Events) > 0 {
		t.Errorf("again: %+v", state.Events)
	}
}

// Each pass of a rollout writes a status. Compiling a hundred sets takes a tenth of a second.
func TestSetsAreCompiledOnlyWhenWhatTheyInjectMayChange(t *testing.T) {
	const text = `{metadata: {name: %s, generation: %d, annotations: {%s}}, spec: {selector: {matchLabels: {app: shop}}, containers: [{name: %s, image: %s}]}, status: %s}`
	log := func(generation int, annotations, image, status string) string {
		return fmt.Sprintf(text, "log", generation, annotations, "agent", image, status)
	}
	mesh := fmt.Sprintf(text, "mesh", 1, "", "proxy", "p", "{}")
	r := newRig(t, true)
	first, second := Latest{Generation: 1, Revision: "log-1", Hashes: sidecarspec.Hashes{Hash: "h1"}}, Latest{Generation: 2, Revision: "log-2", Hashes: sidecarspec.Hashes{Hash: "h2"}}
	hashes := shared.AnnotationSidecarSetHash + `: h1, ` + shared.AnnotationSidecarSetHashWithoutImage + `: w1`
	for _, step := range []struct {
		what     string
		sets     []string
		latest   Latest
		compiles bool
	}{
		{"the first pass", []string{log(1, "", "a", "{}"), mesh}, first, true},
		{"nothing", []string{log(1, "", "a", "{}"), mesh}, first, false},
		{"its hashes are written", []string{log(1, hashes, "a", "{}"), mesh}, first, false},
		{"its first status", []string{log(1, hashes, "a", "{observedGeneration: 1, latestRevision: log-1}"), mesh}, first, false},
		{"the counters of its pods", []string{log(1, hashes, "a", "{observedGeneration: 1, latestRevision: log-1, matchedPods: 9}"), mesh}, first, false},
		{"it fails open", []string{log(1, shared.AnnotationInjectionFailurePolicy+": Ignore", "a", "{}"), mesh}, first, true},
		{"another spec", []string{log(2, "", "b", "{}"), mesh}, second, true},
		{"the status of the other set", []string{log(2, "", "b", "{}"), strings.Replace(mesh, "status: {}", "status: {matchedPods: 1}", 1)}, second, false},
		{"the other set goes", []string{log(2, "", "b", "{}")}, second, true},
	} {
		r.set(step.sets...)
		before := r.compiled.sets["log"]
		if _, err := r.Reconcile(t.Context(), "log", step.latest); err != nil {
			t.Fatal(err)
		}
		if got := before != r.compiled.sets["log"]; got != step.compiles {
			t.Errorf("%s: compiled %v, want %v", step.what, got, step.compiles)
		}
	}
}

// The controller wants exactly the announced registration: nothing is written again.
func TestWhatIsAnnouncedIsWhatIsWanted(t *testing.T) {
	r := newRig(t, true)
	r.set(plain)
	object := r.sets[0].DeepCopy()
	r.sets = nil
	set, err := r.announced(t.Context(), object)
	if err != nil || set == nil {
		t.Fatal(set, err)
	}
	r.set(plain)
	r.once("log")
	if hook := r.wanted[sidecar.EntryName("log")]; hook.Version != set.shown || hook.Path != r.webhookOf(set).Path {
		t.Errorf("announced %s, wanted %s", set.shown, hook.Version)
	}
}

// announcer takes announcements, in force after some looks.
type announcer struct {
	announced []*hooks.Hook
	fails     error
}

func (a *announcer) Announce(_ context.Context, hook *hooks.Hook) error {
	a.announced = append(a.announced, hook)
	return a.fails
}

func TestACreationIsAnsweredWhenTheSetIsInForce(t *testing.T) {
	for name, tc := range map[string]struct {
		set      string
		stored   bool
		after    int // looks
		fails    error
		announce bool
		warned   bool
	}{
		"at once":                          {set: plain, announce: true},
		"another server is slower":         {set: plain, after: 3, announce: true},
		"it never is":                      {set: plain, after: 1e9, announce: true, warned: true},
		"there is no room":                 {set: plain, fails: errors.New("no room"), announce: true, warned: true},
		"one of its name exists":           {set: plain, stored: true},
		"injection is paused":              {set: strings.Replace(plain, "containers:", "injectionStrategy: {paused: true}, containers:", 1)},
		"nothing is to be done for it yet": {set: strings.Replace(plain, "{name: log}", `{name: log, annotations: {operator.kruise.io/paused: "true"}}`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, true)
			r.options.Clock = clock.RealClock{}
			r.set(tc.set)
			object := &r.sets[0]
			if tc.stored {
				stored := object.DeepCopy()
				stored.SetResourceVersion("")
				if err := r.client.Create(t.Context(), stored); err != nil {
					t.Fatal(err)
				}
			}
			taken, looks := &announcer{fails: tc.fails}, 0
			mark := func(string) string { return taken.announced[0].Params[0].GetName() + called }
			r.marks = [2]func(string) string{mark, func(set string) string {
				if looks++; looks <= 2*tc.after { // each look asks twice
					return ""
				}
				return mark(set)
			}}
			err := r.Announce(t.Context(), taken, object)
			if (err != nil) != tc.warned || (len(taken.announced) > 0) != tc.announce {
				t.Errorf("announced %d hooks: %v", len(taken.announced), err)
			}
			if tc.announce && (taken.announced[0].Policy != "" || len(taken.announced[0].Bindings) > 0) {
				t.Errorf("announced %+v", taken.announced[0])
			}
		})
	}
}
