// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

const zone, host = "zone", corev1.LabelHostname

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

func state(required []string, preferred ...string) *appsv1beta1.PersistentPodState {
	s := &appsv1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Name: "memory"}}
	s.Spec.TargetRef = appsv1beta1.PersistentPodStateTargetRef{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"}
	if required != nil {
		s.Spec.RequiredPersistentTopology = &appsv1beta1.NodeTopologyTerm{Keys: required}
	}
	for _, key := range preferred {
		s.Spec.PreferredPersistentTopology = append(s.Spec.PreferredPersistentTopology, appsv1beta1.PreferredTopologyTerm{Weight: 7, Preference: appsv1beta1.NodeTopologyTerm{Keys: []string{key}}})
	}
	s.Status.PodStates = map[string]appsv1beta1.PodState{
		"db-0": {NodeName: "n1", NodeTopologyLabels: map[string]string{zone: "a", host: "n1"}}, "db-1": {NodeName: "n1"},
	}
	return s
}

func term(key, value string) corev1.PreferredSchedulingTerm {
	return corev1.PreferredSchedulingTerm{Weight: 7, Preference: corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}},
	}}
}

func TestANewPodReturnsToItsPlace(t *testing.T) {
	has := nodes{"n1": {zone: "a", host: "n1"}, "n2": {zone: "a", host: "n2"}}
	lost := nodes{"n2": {zone: "a", host: "n2"}}
	unlabeled := nodes{"n1": {}}
	for name, tc := range map[string]struct {
		state    *appsv1beta1.PersistentPodState
		pod      string
		selector map[string]string
		nodes    nodes
		want     map[string]string
		terms    []corev1.PreferredSchedulingTerm
	}{
		"only required":                       {state: state([]string{zone}), nodes: has, want: map[string]string{zone: "a"}},
		"only preferred":                      {state: state(nil, host), nodes: has, terms: []corev1.PreferredSchedulingTerm{term(host, "n1")}},
		"both":                                {state: state([]string{zone}, host), nodes: has, want: map[string]string{zone: "a"}, terms: []corev1.PreferredSchedulingTerm{term(host, "n1")}},
		"no entry":                            {state: state([]string{zone}, host), pod: "db-7", nodes: has},
		"an entry without labels":             {state: state([]string{zone}, host), pod: "db-1", nodes: has},
		"a key that was not recorded":         {state: state([]string{zone, "rack"}, "rack"), nodes: has, want: map[string]string{zone: "a"}},
		"the template says something else":    {state: state([]string{zone}), selector: map[string]string{zone: "b", "disk": "ssd"}, nodes: has, want: map[string]string{zone: "a", "disk": "ssd"}},
		"the node is gone, its zone is not":   {state: state([]string{zone, host}), nodes: lost, want: map[string]string{zone: "a"}},
		"the node has no labels for a moment": {state: state([]string{zone}), nodes: unlabeled, want: map[string]string{zone: "a"}},
		"the node and its zone are gone":      {state: state([]string{zone, host}), nodes: nodes{}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-0"}, Spec: corev1.PodSpec{NodeSelector: tc.selector}}
			if tc.pod != "" {
				pod.Name = tc.pod
			}
			returns := len(tc.want) > 0 || len(tc.terms) > 0
			for range 2 { // A second call changes nothing.
				if got := Return(pod, tc.state, tc.nodes); got != returns {
					t.Errorf("returns %t", got)
				}
				if diff := cmp.Diff(tc.want, pod.Spec.NodeSelector); diff != "" {
					t.Errorf("node selector (-want +got):\n%s", diff)
				}
				var terms []corev1.PreferredSchedulingTerm
				if pod.Spec.Affinity != nil {
					terms = pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
				}
				if diff := cmp.Diff(tc.terms, terms); diff != "" {
					t.Errorf("preferences (-want +got):\n%s", diff)
				}
				if _, marked := pod.Annotations[shared.AnnotationInjectedPersistentPodState]; marked != returns {
					t.Errorf("annotations %v", pod.Annotations)
				}
			}
		})
	}
}

func TestATemplateIsNeverChanged(t *testing.T) {
	template := corev1.PodSpec{
		NodeSelector: map[string]string{"disk": "ssd"},
		Affinity:     &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: make([]corev1.PreferredSchedulingTerm, 0, 4)}},
	}
	before := template.DeepCopy()
	Return(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-0"}, Spec: template}, state([]string{zone}, host), nodes{"n1": {}})
	if diff := cmp.Diff(*before, template); diff != "" {
		t.Errorf("template (-before +after):\n%s", diff)
	}
}

func TestTheStateOfAWorkload(t *testing.T) {
	going := state([]string{zone})
	going.Name, going.DeletionTimestamp = "a", &metav1.Time{}
	later := state([]string{zone})
	later.Name = "z"
	native := schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	all := []*appsv1beta1.PersistentPodState{later, going, state([]string{zone})}
	if got := Of(all, native, "db"); got == nil || got.Name != "memory" {
		t.Errorf("state %+v", got)
	}
	if got := Of(all, schema.GroupKind{Group: "apps.kruise.io", Kind: "StatefulSet"}, "db"); got != nil {
		t.Errorf("state %+v of another group", got)
	}
}
