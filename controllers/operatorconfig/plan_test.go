// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package operatorconfig

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
)

func at(seconds int) time.Time { return time.Unix(1_000_000+int64(seconds), 0) }

func report(name string, generation int64) operatorv1alpha1.ReplicaStatus {
	return operatorv1alpha1.ReplicaStatus{Name: name, Role: operatorv1alpha1.ReplicaStandby, ObservedGeneration: generation, ConfigurationHash: "x"}
}

func TestPlan(t *testing.T) {
	// leader sees that the configuration is another one, at generation 2.
	leader := func(change func(*View)) View {
		v := View{Now: at(10), Since: at(0), Self: "a", Leads: true, Running: "old", Wanted: "new", Generation: 2}
		change(&v)
		return v
	}
	cases := map[string]struct {
		view View
		want Step
	}{
		"nothing changed": {leader(func(v *View) { v.Wanted = "old" }), Step{}},
		"a standby restarts at once": {
			leader(func(v *View) {
				v.Leads, v.Now = false, at(0)
				v.Replicas = []operatorv1alpha1.ReplicaStatus{report("b", 1)}
			}), Step{Restart: true},
		},
		"without a lease nobody has to wait": {leader(func(v *View) { v.Alone, v.Now = true, at(0) }), Step{Restart: true}},
		"a leader gives others time to report": {
			leader(func(v *View) { v.Now = at(0) }), Step{Recheck: settle},
		},
		"a leader takes up a CRD that was missing, once others had the time to": {
			leader(func(v *View) { v.Wanted, v.Appeared = v.Running, "CloneSet" }), Step{Restart: true},
		},
		"it gives them that time": {
			leader(func(v *View) { v.Wanted, v.Appeared, v.Now = v.Running, "CloneSet", at(0) }), Step{Recheck: settle},
		},
		"it gives them more when nobody can report": {
			leader(func(v *View) { v.Wanted, v.Appeared, v.Now, v.Blind = v.Running, "Kruise", at(2), true }), Step{Recheck: unreportedDelay - 2*time.Second},
		},
		"a standby takes it up at once": {
			leader(func(v *View) { v.Wanted, v.Appeared, v.Now, v.Leads = v.Running, "Kruise", at(0), false }), Step{Restart: true},
		},
		"a leader waits for those behind": {
			leader(func(v *View) {
				v.Replicas = []operatorv1alpha1.ReplicaStatus{report("a", 1), report("d", 1), report("c", 2), report("b", 1)}
			}),
			Step{WaitsFor: []string{"b", "d"}, Recheck: pollInterval},
		},
		"a leader goes when all others have gone": {
			leader(func(v *View) { v.Replicas = []operatorv1alpha1.ReplicaStatus{report("a", 1), report("b", 2)} }), Step{Restart: true},
		},
		"a leader forgets who does not exist": {
			leader(func(v *View) {
				v.Replicas, v.Gone = []operatorv1alpha1.ReplicaStatus{report("a", 1), report("b", 1)}, []string{"b"}
			}),
			Step{Restart: true, Forget: []string{"b"}},
		},
		"a leader does not wait forever": {
			leader(func(v *View) {
				v.Now = at(30)
				v.Replicas = []operatorv1alpha1.ReplicaStatus{report("a", 1), report("b", 1)}
			}),
			Step{Restart: true, Forget: []string{"b"}},
		},
		"a leader that has followed waits for the others' reports": {
			leader(func(v *View) {
				v.Running = "new"
				v.Replicas = []operatorv1alpha1.ReplicaStatus{report("a", 2), report("b", 1)}
			}),
			Step{WaitsFor: []string{"b"}, Recheck: followTimeout - 10*time.Second},
		},
		"and forgets them in the end": {
			leader(func(v *View) {
				v.Running, v.Now = "new", at(31)
				v.Replicas = []operatorv1alpha1.ReplicaStatus{report("a", 2), report("b", 1)}
			}),
			Step{Forget: []string{"b"}},
		},
		"a standby waits for nobody": {
			leader(func(v *View) {
				v.Running, v.Leads = "new", false
				v.Replicas = []operatorv1alpha1.ReplicaStatus{report("b", 1)}
			}),
			Step{},
		},
		"without the object a leader waits a little": {leader(func(v *View) { v.Blind, v.Now = true, at(1) }), Step{Recheck: unreportedDelay - time.Second}},
		"without the object a leader goes then":      {leader(func(v *View) { v.Blind, v.Now = true, at(5) }), Step{Restart: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Plan(tc.view)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	kind := func(state operatorv1alpha1.State, ready metav1.ConditionStatus, reason string) []operatorv1alpha1.KindStatus {
		return []operatorv1alpha1.KindStatus{{Kind: "StatefulSet", State: state, Ready: ready, Reason: reason}}
	}
	leader := func(change func(*Facts)) Facts {
		f := Facts{
			Now: at(0), Generation: 2, Self: "a", Leads: true, Running: "new", Current: true,
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
		"a restart is near": {leader(func(f *Facts) { f.Step = Step{Restart: true} }), []string{
			"Progressing True Restarting the operator restarts", "Reconciling True Restarting ", "Stalled False AsExpected ",
		}},
		"others are behind": {leader(func(f *Facts) { f.Step = Step{WaitsFor: []string{"b"}, Recheck: pollInterval} }), []string{
			"Progressing True Restarting these replicas have yet to take over a change: b",
		}},
		"the spec has faults": {leader(func(f *Facts) { f.Faults = []string{"spec.x: wrong", "spec.y: wrong"} }), []string{
			"Degraded True InvalidConfiguration these are left out: spec.x: wrong; spec.y: wrong", "Stalled True InvalidConfiguration ", "Available True AsExpected ",
		}},
		"something could not be applied": {leader(func(f *Facts) { f.Failures = []string{"applying x: no"} }), []string{
			"Degraded True OperandsFailed applying x: no", "Stalled False AsExpected ",
		}},
		"others decide about fields": {leader(func(f *Facts) {
			f.Ignored, f.IgnoredReason = []string{"spec.manager: x"}, operatorv1alpha1.ReasonManagedByOLM
		}), []string{"FieldsIgnored True ManagedByOLM spec.manager: x"}},
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

func TestReplicasReportBesideEachOther(t *testing.T) {
	old := operatorv1alpha1.KruiseStatus{
		ObservedGeneration: 1,
		Replicas:           []operatorv1alpha1.ReplicaStatus{{Name: "a", Role: "Leader", ObservedGeneration: 1, ConfigurationHash: "old"}, {Name: "c", Role: "Leader", ObservedGeneration: 1, ConfigurationHash: "old"}},
	}
	standby := Status(old, Facts{Now: at(0), Generation: 2, Self: "b", Running: "new", Current: true})
	want := old
	want.Replicas = []operatorv1alpha1.ReplicaStatus{old.Replicas[0], {Name: "b", Role: "Standby", ObservedGeneration: 2, ConfigurationHash: "new"}, old.Replicas[1]}
	if diff := cmp.Diff(want, standby); diff != "" {
		t.Errorf("a standby (-want +got):\n%s", diff)
	}
	leader := Status(standby, Facts{Now: at(0), Generation: 2, Self: "a", Leads: true, Running: "old", Step: Step{Forget: []string{"c"}}})
	wantReplicas := []operatorv1alpha1.ReplicaStatus{{Name: "a", Role: "Leader", ObservedGeneration: 1, ConfigurationHash: "old"}, want.Replicas[1]}
	if diff := cmp.Diff(wantReplicas, leader.Replicas); diff != "" {
		t.Errorf("the leader, not current yet (-want +got):\n%s", diff)
	}
}

// An event tells of kinds that wait when they begin to, and when others do, and not at every report.
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
