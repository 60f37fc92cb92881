// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package probing

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
)

// provided is a marker of that name with probes "name container condition", of which a success is told by a label of the probe's name.
func provided(name string, probes ...string) *Marker {
	m := &Marker{Namespace: "ns", Name: name, Selector: labels.SelectorFromSet(labels.Set{"app": "game"})}
	for _, text := range probes {
		field := append(strings.Fields(text), "")
		m.Probes = append(m.Probes, appsv1alpha1.PodContainerProbe{
			Name: field[0], ContainerName: field[1], PodConditionType: field[2],
			Probe:        corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/" + field[0]}}}},
			MarkerPolicy: []appsv1alpha1.ProbeMarkerPolicy{{State: appsv1alpha1.ProbeSucceeded, Labels: map[string]string{field[0]: "yes"}}},
		})
	}
	return m
}

func gamePod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "game"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app"}}
	pod.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "mesh", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
	return pod
}

func TestForProvider(t *testing.T) {
	deleting, elsewhere := provided("a", "idle app game/idle"), provided("a", "idle app game/idle")
	deleting.Deleting, elsewhere.Namespace = true, "other"
	var many []string
	for i := range maxAsked + 3 {
		many = append(many, fmt.Sprintf("p%d app game/p%d", i, i))
	}
	long := provided("a", "long app game/long", "short app game/short")
	long.Probes[0].Probe.Exec.Command = []string{strings.Repeat("x", longestAnnotation)}
	for name, tc := range map[string]struct {
		pod     func(*corev1.Pod)
		markers []*Marker
		// want are the probes that the pod asks for, from are their markers.
		want, from string
		left       int
	}{
		"a marker":                          {markers: []*Marker{provided("a", "idle app game/idle")}, want: "idle", from: "a"},
		"a sidecar that goes on running":    {markers: []*Marker{provided("a", "idle mesh game/idle")}, want: "idle", from: "a"},
		"an init container":                 {markers: []*Marker{provided("a", "idle init game/idle")}},
		"no such container":                 {markers: []*Marker{provided("a", "idle other game/idle", "busy app game/busy")}, want: "busy", from: "a"},
		"no condition":                      {markers: []*Marker{provided("a", "idle app")}},
		"another pod":                       {pod: func(p *corev1.Pod) { p.Labels["app"] = "web" }, markers: []*Marker{provided("a", "idle app game/idle")}},
		"another namespace":                 {markers: []*Marker{elsewhere}},
		"a marker that is being deleted":    {markers: []*Marker{deleting}},
		"two markers":                       {markers: []*Marker{provided("a", "idle app game/idle"), provided("b", "busy app game/busy")}, want: "idle busy", from: "a,b"},
		"one condition twice":               {markers: []*Marker{provided("a", "idle app game/idle"), provided("b", "busy app game/idle")}, want: "idle", from: "a"},
		"one name twice in a container":     {markers: []*Marker{provided("a", "idle app game/idle"), provided("b", "idle app game/other")}, want: "idle", from: "a"},
		"one name in two containers":        {markers: []*Marker{provided("a", "idle app game/idle"), provided("b", "idle mesh game/other")}, want: "idle idle", from: "a,b"},
		"more than a pod may ask for":       {markers: []*Marker{provided("a", many...)}, want: strings.Join(first(many, maxAsked), " "), from: "a", left: 3},
		"longer than an annotation may get": {markers: []*Marker{long}, want: "short", from: "a", left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			pod := gamePod()
			if tc.pod != nil {
				tc.pod(pod)
			}
			annotations, left := ForProvider(pod, tc.markers)
			pod.Annotations = annotations
			var got []string
			for _, asked := range askedOf(pod) {
				got = append(got, asked.Name)
				if asked.MarkerPolicy != nil {
					t.Errorf("%s tells its policy", asked.Name)
				}
			}
			if from := annotations[appsv1alpha1.AnnotationPodProbeMarkers]; strings.Join(got, " ") != tc.want || from != tc.from || left != tc.left {
				t.Errorf("asked for %q of %q, %d left", got, from, left)
			}
			if tc.want == "" && annotations != nil {
				t.Errorf("annotations %v", annotations)
			}
		})
	}
}

func first(texts []string, n int) (names []string) {
	for _, text := range texts[:n] {
		names = append(names, strings.Fields(text)[0])
	}
	return names
}

// TestProvided is what is known of the probes of a marker b on a virtual node, with another marker a beside it.
func TestProvided(t *testing.T) {
	b := provided("b", "idle app game/idle", "busy app game/busy")
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		others []*Marker
		want   string
	}{
		"nothing said yet":         {want: "waiting 2"},
		"a success":                {change: says("game/idle", corev1.ConditionTrue), want: "idle Succeeded, waiting 1"},
		"a failure":                {change: says("game/busy", corev1.ConditionFalse), want: "busy Failed, waiting 1"},
		"nothing known":            {change: says("game/busy", corev1.ConditionUnknown), want: "busy Unknown, waiting 1"},
		"created without":          {change: func(p *corev1.Pod) { p.Annotations = nil }, want: "unasked idle busy"},
		"what is no list":          {change: func(p *corev1.Pod) { p.Annotations[appsv1alpha1.AnnotationPodProbe] = "x" }, want: "unasked idle busy"},
		"asked for another marker": {change: func(p *corev1.Pod) { p.Annotations[appsv1alpha1.AnnotationPodProbeMarkers] = "bb" }, want: "unasked idle busy"},
		"a container that is gone": {change: func(p *corev1.Pod) { p.Spec.Containers[0].Name = "x" },
			want: "fault probe idle: the pod has no container app, fault probe busy: the pod has no container app"},
		"another marker before it": {others: []*Marker{provided("a", "idle app game/other")}, want: "waiting 1, " +
			"fault probe idle: it shares its condition, a label or an annotation with PodProbeMarker a, whose name comes first"},
		"another marker after it": {others: []*Marker{provided("c", "idle app game/other")}, want: "waiting 2"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := gamePod()
			pod.Annotations, _ = ForProvider(pod, []*Marker{b})
			if tc.change != nil {
				tc.change(pod)
			}
			if got := told(b.Provided(pod, b.Before(tc.others))); got != tc.want {
				t.Errorf("%s", got)
			}
		})
	}
	without := provided("b", "idle app")
	if got := told(without.Provided(gamePod(), nil)); !strings.Contains(got, "needs a podConditionType") {
		t.Errorf("without a condition: %s", got)
	}
}

func says(condition string, status corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodConditionType(condition), Status: status})
	}
}

func told(p Provided) string {
	var all []string
	for _, r := range p.Results {
		all = append(all, r.Probe.Name+" "+string(r.State.State))
		if r.Probe.PodConditionType != "" {
			all = append(all, "it writes the provider's condition")
		}
	}
	if len(p.Waiting) > 0 {
		all = append(all, fmt.Sprintf("waiting %d", len(p.Waiting)))
	}
	if len(p.Unasked) > 0 {
		all = append(all, "unasked "+strings.Join(p.Unasked, " "))
	}
	for _, fault := range p.Faults {
		all = append(all, "fault "+fault)
	}
	return strings.Join(all, ", ")
}

func TestLeaving(t *testing.T) {
	pod := gamePod()
	pod.Labels["idle"], pod.Labels["busy"], pod.Labels["other"] = "yes", "yes", "yes"
	left := provided("b", "idle app game/idle", "busy app game/busy").Leaving(pod, []*Marker{provided("c", "busy app game/x")})
	var removed []string
	for key, value := range left.Labels {
		if value == nil {
			removed = append(removed, key)
		}
	}
	if diff := cmp.Diff([]string{"idle"}, removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
}

// TestWebhookNamesItsNamespaces: no other namespace pays for it, and no pod waits for an operator that is dead.
func TestWebhookNamesItsNamespaces(t *testing.T) {
	named := func(namespaces []string) []string {
		entry := Webhook("kruise-system", namespaces, admissionv1.WebhookClientConfig{})
		if *entry.FailurePolicy != admissionv1.Ignore {
			t.Errorf("the failure policy is %s", *entry.FailurePolicy)
		}
		for _, e := range entry.NamespaceSelector.MatchExpressions {
			if e.Operator == metav1.LabelSelectorOpIn {
				return e.Values
			}
		}
		return nil
	}
	if diff := cmp.Diff([]string{"a", "b"}, named([]string{"a", "b"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := named(slices.Repeat([]string{"a"}, maxNamespaces+1)); got != nil {
		t.Errorf("too many namespaces are named: %d", len(got))
	}
}
