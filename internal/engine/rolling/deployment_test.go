// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rolling

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func deployment(version string) *appsv1.Deployment {
	return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](4), MinReadySeconds: 5, ProgressDeadlineSeconds: ptr.To[int32](600),
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge: ptr.To(intstr.FromString("30%")), MaxUnavailable: ptr.To(intstr.FromInt32(1)),
		}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"version": version}}},
	}}
}

func replicaSet(name, version string, created int64, replicas, ready int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(created, 0), Annotations: map[string]string{DesiredAnnotation: "4"}},
		Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To(replicas), Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{"version": version}, Labels: map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: name},
		}}},
		Status: appsv1.ReplicaSetStatus{Replicas: replicas, ReadyReplicas: ready, AvailableReplicas: ready},
	}
}

func TestRead(t *testing.T) {
	d := deployment("2")
	d.Spec.Template.Labels = map[string]string{}
	sets := []*appsv1.ReplicaSet{replicaSet("c", "2", 30, 1, 0), replicaSet("b", "1", 20, 2, 2), replicaSet("a", "0", 10, 1, 1)}
	d.Status = appsv1.DeploymentStatus{Replicas: 4, ReadyReplicas: 3, AvailableReplicas: 3}
	v, newest, old := Read(d, sets, NumbersOf(d))
	want := View{
		Replicas: 4, Surge: 2, Unavailable: 1, Loose: true, Observed: true, CaughtUp: true, New: Set{Replicas: 1, Desired: 4},
		Old: []Set{{Replicas: 1, Ready: 1, Desired: 4}, {Replicas: 2, Ready: 2, Desired: 4}},
	}
	if !equality.Semantic.DeepEqual(v, want) || newest != sets[0] || old[0] != sets[2] || old[1] != sets[1] {
		t.Errorf("got %+v", v)
	}
	d.Status.ReadyReplicas = 4
	if v, _, _ := Read(d, sets, NumbersOf(d)); v.CaughtUp {
		t.Error("a status with another sum has caught up")
	}
	d.Generation = 1
	if v, _, _ := Read(d, sets, NumbersOf(d)); v.Observed {
		t.Error("a spec that nobody has seen is observed")
	}
}

func TestLimitsInPods(t *testing.T) {
	number := func(text string) *intstr.IntOrString { return ptr.To(intstr.Parse(text)) }
	for _, tc := range []struct {
		surge, unavailable *intstr.IntOrString
		replicas           int
		s, u               int
	}{
		{nil, nil, 10, 3, 2}, {number("0"), number("10%"), 4, 0, 1}, {number("1"), number("0"), 4, 1, 0}, {number("10%"), number("9"), 4, 1, 4},
	} {
		if s, u := (Numbers{MaxSurge: tc.surge, MaxUnavailable: tc.unavailable}).limits(tc.replicas); s != tc.s || u != tc.u {
			t.Errorf("%v and %v of %d: %d and %d", tc.surge, tc.unavailable, tc.replicas, s, u)
		}
	}
}

// write gives a Deployment other numbers.
func write(t *testing.T, d *appsv1.Deployment, n Numbers, paused bool) {
	t.Helper()
	d.Spec.Strategy, d.Spec.ProgressDeadlineSeconds = appsv1.DeploymentStrategy{}, nil
	text, err := json.Marshal(n.Fields(paused))
	if err == nil {
		err = json.Unmarshal(text, &d.Spec)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A Deployment that was moved, parked and restored is what its user wrote.
func TestRestored(t *testing.T) {
	d := deployment("1")
	want := d.DeepCopy()
	numbers := DecodeNumbers(NumbersOf(d).Encode())
	write(t, d, Moving(0), false)
	if d.Spec.Paused || d.Spec.MinReadySeconds != MinReadySeconds || d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 1 {
		t.Errorf("moving: %+v", d.Spec)
	}
	write(t, d, numbers.Parked(View{Replicas: 4, New: Set{Replicas: 2}, Old: []Set{{Replicas: 3}}}), true)
	if !d.Spec.Paused || d.Spec.MinReadySeconds != 5 || d.Spec.Strategy.RollingUpdate.MaxSurge.IntValue() != 1 {
		t.Errorf("parked: %+v", d.Spec)
	}
	write(t, d, numbers, false)
	if !equality.Semantic.DeepEqual(d, want) {
		t.Errorf("restored: %+v", d.Spec)
	}
}

// TestFullest: what is left of an ended release may be older than the version that has requests.
func TestFullest(t *testing.T) {
	d := deployment("9")
	older, newer := replicaSet("a", "0", 10, 2, 2), replicaSet("b", "1", 20, 4, 4)
	for name, tc := range map[string]struct {
		sets      []*appsv1.ReplicaSet
		preferred *appsv1.ReplicaSet
		want      *appsv1.ReplicaSet
	}{
		"the most ready pods": {[]*appsv1.ReplicaSet{older, newer}, older, newer},
		"the preferred":       {[]*appsv1.ReplicaSet{replicaSet("a", "0", 10, 4, 4), newer}, newer, newer},
		"the oldest":          {[]*appsv1.ReplicaSet{replicaSet("a", "0", 10, 4, 4), newer}, replicaSet("c", "2", 30, 0, 0), older},
		"none is ready":       {[]*appsv1.ReplicaSet{replicaSet("a", "0", 10, 4, 0), replicaSet("b", "1", 20, 4, 0)}, newer, older},
	} {
		if got := Fullest(d, tc.sets, Revision(&tc.preferred.Spec.Template)); got != Revision(&tc.want.Spec.Template) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// Numbers that a user wrote one by one are such as the API server takes together.
func TestNumbersThatDoNotAgree(t *testing.T) {
	for text, want := range map[string]string{
		`{"maxSurge":0,"maxUnavailable":"0%"}`:                      `{"maxSurge":0,"maxUnavailable":1,"minReadySeconds":0}`,
		`{"maxSurge":0}`:                                            `{"maxSurge":0,"minReadySeconds":0}`,
		`{"minReadySeconds":600,"progressDeadlineSeconds":600}`:     `{"minReadySeconds":600,"progressDeadlineSeconds":601}`,
		`{"maxSurge":"1%","maxUnavailable":0,"minReadySeconds":60}`: `{"maxSurge":"1%","maxUnavailable":0,"minReadySeconds":60}`,
	} {
		if numbers := DecodeNumbers(text); numbers.Encode() != want {
			t.Errorf("%s: %s", text, numbers.Encode())
		}
	}
}
