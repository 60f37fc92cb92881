// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
)

func at(seconds int) time.Time { return time.Unix(1_000_000+int64(seconds), 0) }

// Standbys end one by one, the leader last, so one serves with full caches when the lease is given back.
func TestReplicasEndOneAfterAnother(t *testing.T) {
	old := func(name string) Replica { return Replica{Name: name, Configuration: "old", Ready: true} }
	leading := Replica{Name: "b", Configuration: "old", Ready: true, Leads: true}
	current := Replica{Name: "a", Configuration: "new", Ready: true}
	starting := Replica{Name: "a", Configuration: "new"}
	for name, tc := range map[string]struct {
		all   []Replica
		self  string
		leads bool
		step  Step
		want  []string
	}{
		"the first standby goes":                           {[]Replica{old("a"), leading, old("c")}, "a", false, Step{Wanted: "new"}, nil},
		"the second one waits for the first":               {[]Replica{old("a"), leading, old("c")}, "c", false, Step{Wanted: "new"}, []string{"a"}},
		"it waits until the first serves again":            {[]Replica{starting, leading, old("c")}, "c", false, Step{Wanted: "new"}, []string{"a"}},
		"then it goes, whatever the leader is called":      {[]Replica{current, leading, old("c")}, "c", false, Step{Wanted: "new"}, nil},
		"the leader waits for all others":                  {[]Replica{current, leading, old("c")}, "b", true, Step{Wanted: "new"}, []string{"c"}},
		"it goes last":                                     {[]Replica{current, leading}, "b", true, Step{Wanted: "new"}, nil},
		"without other replicas nobody waits":              {nil, "b", true, Step{Wanted: "new"}, nil},
		"a leader that has it says who does not":           {[]Replica{old("c"), current}, "b", true, Step{Wanted: "new", Current: true}, []string{"c"}},
		"a replica that starts at rest takes nothing over": {[]Replica{starting}, "b", true, Step{Wanted: "new", Current: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ahead(tc.all, tc.self, tc.leads, tc.step); !slices.Equal(got, tc.want) {
				t.Errorf("waits for %v, want %v", got, tc.want)
			}
		})
	}
}

// Pods ended, about to end, or without an announced configuration are not waited for.
func TestOnlyReplicasThatRunAreWaitedFor(t *testing.T) {
	pod := func(name, configuration string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Labels: managers(), Annotations: map[string]string{configurationAnnotation: configuration},
		}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		change(p)
		return p
	}
	c := fake.NewClientBuilder().WithObjects(
		pod("runs", "old", func(p *corev1.Pod) { p.Annotations[roleAnnotation] = "Leader" }),
		pod("comes", "", func(*corev1.Pod) {}),
		pod("failed", "old", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("goes", "old", func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: at(0)}, []string{"x/y"}
		}),
		pod("other", "old", func(p *corev1.Pod) { p.Labels = nil }),
	).Build()
	r := New(Dependencies{Client: c, Live: c, Pods: "ns", Self: "comes", Running: "new", Clock: clocktesting.NewFakePassiveClock(at(0))})
	if err := r.observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Replica{{Name: "runs", Configuration: "old", Leads: true}}, r.replicas); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := r.announce(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	said := &corev1.Pod{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "comes"}, said); err != nil {
		t.Fatal(err)
	}
	if said.Annotations[configurationAnnotation] != "new" || said.Annotations[roleAnnotation] != "Standby" {
		t.Errorf("it says %v", said.Annotations)
	}
}

// A replica beside others is unready for a while before it ends, so no request is on its way to it.
func TestAReplicaIsNotReadyBeforeItEnds(t *testing.T) {
	ended := 0
	clock := clocktesting.NewFakePassiveClock(at(0))
	r := New(Dependencies{Self: "a", Running: "old", Clock: clock, Draining: &atomic.Bool{}, End: func() { ended++ }})
	r.replicas = []Replica{{Name: "a"}, {Name: "b"}}
	if again := r.end(t.Context(), "new", false, []string{"b"}); again != poll || r.Draining.Load() {
		t.Errorf("it does not wait for its turn: again after %s", again)
	}
	if again := r.end(t.Context(), "new", false, nil); again != drain || !r.Draining.Load() || ended > 0 {
		t.Errorf("again after %s, draining %v, ended %d", again, r.Draining.Load(), ended)
	}
	clock.SetTime(at(9))
	if r.end(t.Context(), "new", false, nil); ended != 1 {
		t.Errorf("ended %d times", ended)
	}
	alone := New(Dependencies{Self: "a", Running: "old", Clock: clock, Draining: &atomic.Bool{}, End: func() { ended++ }})
	if alone.end(t.Context(), "new", true, nil); ended != 2 {
		t.Error("a replica that is alone waits for nothing")
	}
}

func TestStatus(t *testing.T) {
	kind := func(state operatorv1alpha1.State, ready metav1.ConditionStatus, reason string) []operatorv1alpha1.KindStatus {
		return []operatorv1alpha1.KindStatus{{Kind: "StatefulSet", State: state, Ready: ready, Reason: reason}}
	}
	leader := func(change func(*Facts)) Facts {
		f := Facts{
			Now: at(0), Generation: 2, Self: "a", Running: "new", Step: Step{Wanted: "new", Current: true},
			Kinds: kind(operatorv1alpha1.Enabled, "True", operatorv1alpha1.KindReady), Upgrade: UpgradeDuring(Work{}, at(0)),
		}
		change(&f)
		return f
	}
	cases := map[string]struct {
		facts Facts
		// want are conditions: type, status, reason and a part of the message; those not listed are not compared.
		want []string
	}{
		"all is well": {leader(func(*Facts) {}), []string{
			"Available True AsExpected managed: StatefulSet", "Progressing False AsExpected ", "Reconciling False AsExpected ", "Degraded False AsExpected ",
			"Stalled False AsExpected ", "Upgradeable True AsExpected ",
		}},
		"no kind is enabled": {leader(func(f *Facts) { f.Kinds = kind(operatorv1alpha1.Disabled, "False", operatorv1alpha1.KindDisabled) }), []string{
			"Available True AsExpected no kind is enabled",
		}},
		"a kind is not served": {leader(func(f *Facts) { f.Kinds = kind(operatorv1alpha1.Enabled, "False", operatorv1alpha1.KindNotServed) }), []string{
			"Available False KindsNotReady not managed: StatefulSet: NotServed",
		}},
		"a right is missing": {leader(func(f *Facts) {
			f.Kinds = []operatorv1alpha1.KindStatus{ready(Kind{Name: "StatefulSet", Enabled: true, Served: true, Synced: func() bool { return true }}, []string{"pods is forbidden", "secrets is forbidden"})}
		}), []string{"Available False KindsNotReady not managed: StatefulSet: RightsMissing (pods is forbidden; secrets is forbidden)"}},
		"a restart is near": {leader(func(f *Facts) { f.Step = Step{} }), []string{
			"Progressing True Restarting the operator restarts", "Reconciling True Restarting ", "Stalled False AsExpected ",
		}},
		"others are behind": {leader(func(f *Facts) { f.Step.WaitsFor = []string{"b"} }), []string{
			"Progressing True Restarting these replicas have yet to take over a change: b",
		}},
		"the spec has faults": {leader(func(f *Facts) { f.Faults = []string{"spec.x: wrong", "spec.y: wrong"} }), []string{
			"Degraded True InvalidConfiguration these are left out: spec.x: wrong; spec.y: wrong", "Stalled True InvalidConfiguration ", "Available True AsExpected ",
		}},
		"something could not be applied": {leader(func(f *Facts) { f.Failures = []string{"applying x: no"} }), []string{
			"Degraded True OperandsFailed applying x: no", "Stalled False AsExpected ",
		}},
		"fields have no effect": {leader(func(f *Facts) { f.Ignored = []string{"spec.manager: x"} }), []string{"FieldsIgnored True Deprecated spec.manager: x"}},
		"a kind waits to be confirmed": {leader(func(f *Facts) {
			f.Kinds = []operatorv1alpha1.KindStatus{ready(Kind{Name: "SidecarSet", Unconfirmed: "2 objects are older"}, nil)}
		}), []string{
			"ConfirmationRequired True ObjectsFromBefore SidecarSet: 2 objects are older", "Stalled True ObjectsFromBefore ", "Available True AsExpected ",
		}},
		"two node daemons are there": {leader(func(f *Facts) { f.DaemonConflict = "DaemonSet x runs" }), []string{
			"NodeDaemonConflict True OpenKruiseDaemon DaemonSet x runs", "Stalled False AsExpected ", "Available True AsExpected ",
		}},
		"a migration is under way": {leader(func(f *Facts) {
			f.Upgrade = UpgradeDuring(Work{Reason: operatorv1alpha1.ReasonMigrating, Message: "moving", Since: at(-60)}, at(0))
		}), []string{"Upgradeable False Migrating moving"}},
		"a migration takes too long": {leader(func(f *Facts) {
			f.Upgrade = UpgradeDuring(Work{Reason: operatorv1alpha1.ReasonMigrating, Message: "moving", Since: at(-600)}, at(0))
		}), []string{"Upgradeable True TookTooLong goes on after 10m0s: moving"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			status := Status(operatorv1alpha1.KruiseStatus{}, tc.facts)
			for _, line := range tc.want {
				words := strings.SplitN(line, " ", 4)
				c := meta.FindStatusCondition(status.Conditions, words[0])
				if c == nil || string(c.Status) != words[1] || c.Reason != words[2] || !strings.HasPrefix(c.Message, words[3]) || c.ObservedGeneration != 2 {
					t.Errorf("want %q, got %+v", line, c)
				}
			}
			if again := Status(status, tc.facts); cmp.Diff(status, again) != "" {
				t.Errorf("the status moves while nothing changes:\n%s", cmp.Diff(status, again))
			}
		})
	}
}

func TestTheLeaderReportsAllReplicas(t *testing.T) {
	old := operatorv1alpha1.KruiseStatus{Replicas: []operatorv1alpha1.ReplicaStatus{
		{Name: "b", Role: "Leader", ObservedGeneration: 1, ConfigurationHash: "old"}, {Name: "gone", Role: "Standby", ObservedGeneration: 1, ConfigurationHash: "old"},
	}}
	status := Status(old, Facts{
		Now: at(0), Generation: 2, Self: "c", Running: "new", Step: Step{Wanted: "new", Current: true},
		Replicas: []Replica{{Name: "b", Configuration: "old", Leads: true}, {Name: "c", Configuration: "new"}, {Name: "a", Configuration: "new"}},
	})
	want := []operatorv1alpha1.ReplicaStatus{
		{Name: "a", Role: "Standby", ObservedGeneration: 2, ConfigurationHash: "new"}, {Name: "b", Role: "Standby", ObservedGeneration: 1, ConfigurationHash: "old"},
		{Name: "c", Role: "Leader", ObservedGeneration: 2, ConfigurationHash: "new"},
	}
	if diff := cmp.Diff(want, status.Replicas); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatHasNoEffectIsWarnedOf(t *testing.T) {
	for spec, want := range map[string]string{
		`{}`: "", `{"manager":{"resources":{"limits":{"memory":"1e100000000"}}}}`: "spec.manager: deprecated, it has no effect",
		`{"featureGates":[{"name":"PodIndexLabel","state":"Enabled"},{"name":"TemplateNoDefaults","state":"Enabled"}]}`: "spec.featureGates[1]: TemplateNoDefaults: the operator always",
		`{"featureGates":[{"name":"WorkloadSpread","state":"Disabled"}]}`:                                               "", `{"kinds": 3}`: "",
	} {
		request := admission.Request{}
		request.Object.Raw = []byte(`{"spec":` + spec + `}`)
		answer := warn(t.Context(), request)
		if !answer.Allowed || !strings.HasPrefix(strings.Join(answer.Warnings, "; "), want) || (want == "") != (len(answer.Warnings) == 0) {
			t.Errorf("%s: %+v, want the warning %q", spec, answer, want)
		}
	}
}

// An event tells of waiting kinds when the first waits and when others do, not at every report.
func TestWaitingIsAnnouncedOnce(t *testing.T) {
	status := func(message string) operatorv1alpha1.KruiseStatus {
		if message == "" {
			return operatorv1alpha1.KruiseStatus{}
		}
		return operatorv1alpha1.KruiseStatus{Conditions: []metav1.Condition{{Type: operatorv1alpha1.KruiseConfirmationRequired, Status: metav1.ConditionTrue, Message: message}}}
	}
	for _, tc := range []struct{ before, after, want string }{
		{"", "", ""},
		{"", "SidecarSet: 2", "SidecarSet: 2"},
		{"SidecarSet: 2", "SidecarSet: 2", ""},
		{"SidecarSet: 2", "DaemonSet: 1; SidecarSet: 2", "DaemonSet: 1; SidecarSet: 2"},
		{"SidecarSet: 2", "", ""},
	} {
		if got := newly(operatorv1alpha1.KruiseConfirmationRequired, status(tc.before), status(tc.after)); got != tc.want {
			t.Errorf("after %q, %q is announced as %q, want %q", tc.before, tc.after, got, tc.want)
		}
	}
}
