// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/conditions"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
)

const zone, host = "topology.kubernetes.io/zone", corev1.LabelHostname

// nodes are the labels of nodes by name.
type nodes map[string]map[string]string

func (n nodes) Exists(name string) bool { _, found := n[name]; return found }
func (n nodes) Carries(key, value string) bool {
	for _, labels := range n {
		if labels[key] == value {
			return true
		}
	}
	return false
}

func cluster() nodes {
	return nodes{
		"n1": {zone: "a", host: "n1"}, "n2": {zone: "b", host: "n2"}, "n3": {zone: "c", host: "n3"}, "n4": {zone: "b", host: "n4"}, "bare": {host: "bare"},
	}
}

func stateOf(places map[string]appsv1beta1.PodState) *appsv1beta1.PersistentPodState {
	return &appsv1beta1.PersistentPodState{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", Generation: 2},
		Spec: appsv1beta1.PersistentPodStateSpec{
			TargetRef:                   appsv1beta1.PersistentPodStateTargetRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"},
			PersistentPodAnnotations:    []appsv1beta1.PersistentPodAnnotation{{Key: "example.com/ip"}},
			RequiredPersistentTopology:  &appsv1beta1.NodeTopologyTerm{Keys: []string{zone}},
			PreferredPersistentTopology: []appsv1beta1.PreferredTopologyTerm{{Weight: 100, Preference: appsv1beta1.NodeTopologyTerm{Keys: []string{host}}}},
		},
		Status: appsv1beta1.PersistentPodStateStatus{PodStates: places},
	}
}

func on(node, zoneValue string) appsv1beta1.PodState {
	return appsv1beta1.PodState{NodeName: node, NodeTopologyLabels: map[string]string{zone: zoneValue, host: node}}
}

func pod(name, node string, ready bool) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}}
	return p
}

func terminating(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return p
}

func ordinals(t *testing.T, start, replicas int32, reserved ...intstr.IntOrString) ordinal.Set {
	t.Helper()
	set, err := ordinal.New(start, replicas, reserved)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func snapshot(t *testing.T, has nodes, replicas int32, pods ...*corev1.Pod) *Snapshot {
	t.Helper()
	return &Snapshot{
		Now: time.Unix(1000, 0), Target: Target{Ordinals: ordinals(t, 0, replicas)}, Pods: pods, Nodes: has,
		Node: func(name string) (map[string]string, bool) { labels, found := has[name]; return labels, found },
	}
}

func TestPlacesAreThoseOfReadyPods(t *testing.T) {
	annotated := pod("db-0", "n1", true)
	annotated.Annotations = map[string]string{"example.com/ip": "10.0.0.7", "other": "x"}
	withIP := on("n1", "a")
	withIP.Annotations = map[string]string{"example.com/ip": "10.0.0.7"}
	for name, tc := range map[string]struct {
		before map[string]appsv1beta1.PodState
		pod    *corev1.Pod
		want   map[string]appsv1beta1.PodState
	}{
		"a ready pod":                           {nil, pod("db-0", "n1", true), map[string]appsv1beta1.PodState{"db-0": on("n1", "a")}},
		"its annotations":                       {nil, annotated, map[string]appsv1beta1.PodState{"db-0": withIP}},
		"a pod that is not ready":               {nil, pod("db-0", "n1", false), map[string]appsv1beta1.PodState{}},
		"a ready pod without a node":            {nil, pod("db-0", "", true), map[string]appsv1beta1.PodState{}},
		"a node that is not known":              {nil, pod("db-0", "gone", true), map[string]appsv1beta1.PodState{}},
		"a key that the node does not have":     {nil, pod("db-0", "bare", true), map[string]appsv1beta1.PodState{"db-0": {NodeName: "bare", NodeTopologyLabels: map[string]string{host: "bare"}}}},
		"a pod that has moved":                  {map[string]appsv1beta1.PodState{"db-0": on("n1", "a")}, pod("db-0", "n2", true), map[string]appsv1beta1.PodState{"db-0": on("n2", "b")}},
		"a pod that has moved and is not ready": {map[string]appsv1beta1.PodState{"db-0": on("n1", "a")}, pod("db-0", "n2", false), map[string]appsv1beta1.PodState{"db-0": on("n1", "a")}},
		"a node that has another zone by now":   {map[string]appsv1beta1.PodState{"db-0": on("n1", "z")}, pod("db-0", "n1", true), map[string]appsv1beta1.PodState{"db-0": on("n1", "a")}},
		"a pod deleted when just ready":         {map[string]appsv1beta1.PodState{"db-0": on("n1", "a")}, terminating(pod("db-0", "n2", true)), map[string]appsv1beta1.PodState{"db-0": on("n2", "b")}},
		"a pod that is going":                   {map[string]appsv1beta1.PodState{"db-0": on("n1", "a")}, terminating(pod("db-0", "n2", false)), map[string]appsv1beta1.PodState{"db-0": on("n1", "a")}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := Places(Parse(stateOf(tc.before)), snapshot(t, cluster(), 3, tc.pod))
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
		})
	}
}

// Q07: restarting a kubelet dropped the zone of its node for a while.
func TestALabelMissingForAMomentStaysRecorded(t *testing.T) {
	has := cluster()
	delete(has["n1"], zone)
	before := map[string]appsv1beta1.PodState{"db-0": on("n1", "a")}
	got, _ := Places(Parse(stateOf(before)), snapshot(t, has, 1, pod("db-0", "n1", true)))
	if diff := cmp.Diff(before, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

// Q09: node 1 died, the pod was forced to node 4, and moved back when node 1 was there again.
func TestThePlaceIsTheLastOneWhereThePodWasReady(t *testing.T) {
	state := stateOf(map[string]appsv1beta1.PodState{"db-0": on("n2", "b")})
	got, _ := Places(Parse(state), snapshot(t, cluster(), 1, pod("db-0", "n4", true)))
	if diff := cmp.Diff(map[string]appsv1beta1.PodState{"db-0": on("n4", "b")}, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

func TestRetention(t *testing.T) {
	places := map[string]appsv1beta1.PodState{"db-0": on("n1", "a"), "db-1": on("n2", "b"), "db-3": on("n3", "c"), "odd": on("n3", "c")}
	for name, tc := range map[string]struct {
		retains  bool
		ordinals ordinal.Set
		pods     []*corev1.Pod
		want     []string
	}{
		"scaled in":                           {ordinals: ordinals(t, 0, 2), want: []string{"db-0", "db-1", "odd"}},
		"scaled in, with the pod still there": {ordinals: ordinals(t, 0, 2), pods: []*corev1.Pod{pod("db-3", "n3", false)}, want: []string{"db-0", "db-1", "db-3", "odd"}},
		"scaled in, and the pod is going":     {ordinals: ordinals(t, 0, 2), pods: []*corev1.Pod{terminating(pod("db-3", "n3", true))}, want: []string{"db-0", "db-1", "odd"}},
		"scaled in, places are retained":      {retains: true, ordinals: ordinals(t, 0, 2), want: []string{"db-0", "db-1", "db-3", "odd"}},
		"scaled to none":                      {ordinals: ordinals(t, 0, 0), want: []string{"odd"}},
		"scaled to none, places are retained": {retains: true, ordinals: ordinals(t, 0, 0), want: []string{"db-0", "db-1", "db-3", "odd"}},
		"a reserved ordinal":                  {ordinals: ordinals(t, 0, 3, intstr.FromInt32(1)), want: []string{"db-0", "db-3", "odd"}},
		"ordinals that do not begin at 0":     {ordinals: ordinals(t, 1, 3), want: []string{"db-1", "db-3", "odd"}},
	} {
		t.Run(name, func(t *testing.T) {
			state := stateOf(places)
			if tc.retains {
				state.Spec.PersistentPodStateRetentionPolicy = appsv1beta1.RetainUntilDeleted
			}
			s := snapshot(t, cluster(), 0, tc.pods...)
			s.Target.Ordinals = tc.ordinals
			got, _ := Places(Parse(state), s)
			if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutItsWorkloadNothingIsRemembered(t *testing.T) {
	places := map[string]appsv1beta1.PodState{"db-0": on("n1", "a")}
	s := snapshot(t, cluster(), 1)
	s.Target = Target{Missing: true}
	if status := Status(Parse(stateOf(places)), s); status.PodStates != nil {
		t.Errorf("remembered %v", status.PodStates)
	}
	s.Target = Target{Unsupported: "no rights"}
	if status := Status(Parse(stateOf(places)), s); len(status.PodStates) != 1 {
		t.Errorf("an unreadable workload has places %v", status.PodStates)
	}
}

func TestTheStatusSaysWhatHoldsPods(t *testing.T) {
	pending := pod("db-0", "", false)
	pending.Annotations = map[string]string{shared.AnnotationInjectedPersistentPodState: "db"}
	pending.Spec.NodeSelector = map[string]string{zone: "a"}
	pending.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	gone := map[string]appsv1beta1.PodState{"db-0": on("lost", "z")}
	for name, tc := range map[string]struct {
		places  map[string]appsv1beta1.PodState
		change  func(*Snapshot)
		reason  string
		stalled bool
	}{
		"all is well":                {nil, func(*Snapshot) {}, appsv1beta1.ReasonRemembering, false},
		"a pod waits for its place":  {nil, func(s *Snapshot) { s.Pods = []*corev1.Pod{pending} }, appsv1beta1.ReasonPlaceTaken, true},
		"a place is gone":            {gone, func(*Snapshot) {}, appsv1beta1.ReasonPlaceGone, false},
		"the workload is missing":    {nil, func(s *Snapshot) { s.Target.Missing = true }, appsv1beta1.ReasonTargetNotFound, false},
		"the kind is not supported":  {nil, func(s *Snapshot) { s.Target.Unsupported = "why" }, appsv1beta1.ReasonTargetUnsupported, true},
		"the hook is not registered": {nil, func(s *Snapshot) { s.NotSteered = "no room" }, appsv1beta1.ReasonNotSteered, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot(t, cluster(), 1)
			tc.change(s)
			state := stateOf(tc.places)
			status := Status(Parse(state), s)
			all := conditions.From(status.Conditions)
			reconciling, _ := conditions.Find(all, appsv1beta1.PersistentPodStateReconciling)
			stalled, _ := conditions.Find(all, appsv1beta1.PersistentPodStateStalled)
			if reconciling.Reason != tc.reason || (stalled.Status == corev1.ConditionTrue) != tc.stalled {
				t.Errorf("conditions %+v", status.Conditions)
			}
			again := *state
			again.Status = status
			if next := Status(Parse(&again), s); Urgent(&status, &next) || !conditions.EqualIgnoringMessages(status.Conditions, next.Conditions) || len(Events(&status, &next)) > 0 {
				t.Errorf("the next pass has news: %+v", next)
			}
		})
	}
}

func TestNoMorePlacesThanFit(t *testing.T) {
	places := map[string]appsv1beta1.PodState{}
	for n := range MaxStates + 2 {
		places[ordinal.PodName("db", n)] = on("n1", "a")
	}
	got, over := Places(Parse(stateOf(places)), snapshot(t, cluster(), MaxStates+2))
	if len(got) != MaxStates || len(over) != 2 || over[0] != ordinal.PodName("db", MaxStates) {
		t.Errorf("%d places, left out %v", len(got), over)
	}
}

func TestGeneration(t *testing.T) {
	kind := appsv1beta1.GroupVersion().WithKind("StatefulSet")
	web := func(annotations map[string]string) *appsv1beta1.StatefulSet {
		return &appsv1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", Annotations: annotations}}
	}
	on := func(more ...string) map[string]string {
		all := map[string]string{shared.AnnotationAutoGeneratePersistentPodState: "true"}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	preferred := on(shared.AnnotationPreferredPersistentTopology, host)
	made := func(annotations map[string]string) *appsv1beta1.PersistentPodState {
		todo, _ := Generate(kind, web(annotations), nil)
		if len(todo) != 1 || todo[0].Verb != planning.VerbCreate || todo[0].Success.Reason != "Generated" || todo[0].Failure.Reason != "FailedGenerate" {
			t.Fatalf("planned %+v", todo)
		}
		return todo[0].Object.(*appsv1beta1.PersistentPodState)
	}
	created := made(preferred)
	if created.Name != "web" || created.Spec.PreferredPersistentTopology[0].Weight != 100 || created.Spec.RequiredPersistentTopology != nil || created.OwnerReferences[0].BlockOwnerDeletion != nil {
		t.Fatalf("created %+v", created)
	}
	users := created.DeepCopy()
	users.OwnerReferences = nil
	retained := created.DeepCopy()
	retained.Spec.PersistentPodStateRetentionPolicy = appsv1beta1.RetainUntilDeleted
	blanks := on(shared.AnnotationRequiredPersistentTopology, "a, b,,a", shared.AnnotationPersistentPodAnnotations, "x")
	if keys := made(blanks).Spec.RequiredPersistentTopology.Keys; !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("keys %q", keys)
	}
	const taken = "taken"
	for name, tc := range map[string]struct {
		annotations map[string]string
		existing    *appsv1beta1.PersistentPodState
		want        planning.Verb
	}{
		"nothing new":                         {preferred, created, ""},
		"its user retains places":             {preferred, retained, ""},
		"no topology, and none exists":        {on(), nil, ""},
		"no topology, and one exists":         {on(), created, ""},
		"switched off":                        {map[string]string{shared.AnnotationAutoGeneratePersistentPodState: "false"}, created, planning.VerbDelete},
		"the annotation is gone":              {nil, created, planning.VerbDelete},
		"switched off, and its user made one": {nil, users, ""},
		"its user made one":                   {preferred, users, taken},
	} {
		t.Run(name, func(t *testing.T) {
			var got planning.Verb
			todo, isTaken := Generate(kind, web(tc.annotations), tc.existing)
			for _, action := range todo {
				got += action.Verb
			}
			if isTaken {
				got += taken
			}
			if got != tc.want {
				t.Errorf("planned %q, want %q", got, tc.want)
			}
		})
	}
	other, _ := Generate(kind, web(on(shared.AnnotationRequiredPersistentTopology, zone)), created)
	if len(other) != 1 || other[0].Verb != planning.VerbPatch || other[0].Object.GetName() != "web" {
		t.Fatalf("other keys: %+v", other)
	}
	patch, _ := other[0].Change.(planning.RawPatch)
	want := `"spec":{"persistentPodAnnotations":null,"preferredPersistentTopology":null,"requiredPersistentTopology":{"keys":["topology.kubernetes.io/zone"]}}`
	if !strings.Contains(string(patch.Body), want) {
		t.Errorf("the change is %s", patch.Body)
	}
}
