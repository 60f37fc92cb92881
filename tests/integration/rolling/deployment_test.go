// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rolling_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/kruise-operator/kruise-operator/internal/engine/rolling"
	"github.com/kruise-operator/kruise-operator/internal/engine/rolling/testutil"
)

// name is that of each Deployment; versionKey is where its template has the version.
const (
	name       = "web"
	versionKey = "version"
)

// deployment is a Deployment in a namespace of its own, moved by the test as the operator does.
type deployment struct {
	*testing.T
	client    kubernetes.Interface
	namespace string
	plan      testutil.Plan
}

func newDeployment(t *testing.T, client kubernetes.Interface, plan testutil.Plan, replicas int) *deployment {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "rolling-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d := &deployment{T: t, client: client, namespace: namespace.Name, plan: plan}
	t.Cleanup(func() {
		_ = client.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), d.namespace, metav1.DeleteOptions{})
	})
	labels := map[string]string{"app": name}
	object := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: pointer(int32(replicas)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: numbers(plan.Surge, plan.Unavailable)},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{versionKey: "0"}},
			Spec: corev1.PodSpec{TerminationGracePeriodSeconds: pointer(int64(0)), Containers: []corev1.Container{{Name: "main", Image: "web:1"}}}},
	}}
	if _, err := client.AppsV1().Deployments(d.namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d.until("it has its pods", func() bool { s := d.read(); return s.caughtUp() && s.ready() == replicas })
	return d
}

func pointer[T any](v T) *T { return &v }

func numbers(surge, unavailable int) *appsv1.RollingUpdateDeployment {
	return &appsv1.RollingUpdateDeployment{MaxSurge: pointer(intstr.FromInt(surge)), MaxUnavailable: pointer(intstr.FromInt(unavailable))}
}

func (d *deployment) until(what string, done func() bool) {
	d.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !done() {
		if time.Now().After(deadline) {
			d.Fatalf("in vain: %s\n%s", what, d.read())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// edit updates the Deployment, again on a conflict.
func (d *deployment) edit(change func(*appsv1.Deployment)) {
	d.Helper()
	for {
		object, err := d.client.AppsV1().Deployments(d.namespace).Get(d.Context(), name, metav1.GetOptions{})
		if err != nil {
			d.Fatal(err)
		}
		change(object)
		_, err = d.client.AppsV1().Deployments(d.namespace).Update(d.Context(), object, metav1.UpdateOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			d.Fatal(err)
		}
	}
}

// template sets the template to a version; the pause is the brake's.
func (d *deployment) template(version int) {
	d.edit(func(o *appsv1.Deployment) {
		o.Spec.Template.Annotations[versionKey] = strconv.Itoa(version)
		o.Spec.Paused = true
	})
}

func (d *deployment) scale(replicas int) {
	d.edit(func(o *appsv1.Deployment) { o.Spec.Replicas = pointer(int32(replicas)) })
}

// restore gives the Deployment back to its user.
func (d *deployment) restore() {
	d.edit(func(o *appsv1.Deployment) { write(d, o, d.numbers(), false) })
}

// write gives a Deployment other numbers.
func write(d *deployment, o *appsv1.Deployment, n rolling.Numbers, paused bool) {
	d.Helper()
	o.Spec.Strategy, o.Spec.ProgressDeadlineSeconds = appsv1.DeploymentStrategy{}, nil
	text, err := json.Marshal(n.Fields(paused))
	if err == nil {
		err = json.Unmarshal(text, &o.Spec)
	}
	if err != nil {
		d.Fatal(err)
	}
}

// numbers are those of the user.
func (d *deployment) numbers() rolling.Numbers {
	r := numbers(d.plan.Surge, d.plan.Unavailable)
	return rolling.Numbers{MaxSurge: r.MaxSurge, MaxUnavailable: r.MaxUnavailable}
}

// state is what was read, consistently: the Deployment has not changed while its ReplicaSets were read.
type state struct {
	deployment *appsv1.Deployment
	// sets are by version; nil where there is none.
	sets [testutil.Versions]*appsv1.ReplicaSet
}

func (d *deployment) read() state {
	d.Helper()
	for {
		before, err := d.client.AppsV1().Deployments(d.namespace).Get(d.Context(), name, metav1.GetOptions{})
		if err != nil {
			d.Fatal(err)
		}
		list, err := d.client.AppsV1().ReplicaSets(d.namespace).List(d.Context(), metav1.ListOptions{})
		if err != nil {
			d.Fatal(err)
		}
		after, err := d.client.AppsV1().Deployments(d.namespace).Get(d.Context(), name, metav1.GetOptions{})
		if err != nil {
			d.Fatal(err)
		}
		if before.ResourceVersion != after.ResourceVersion {
			continue
		}
		s := state{deployment: after}
		for i := range list.Items {
			s.sets[version(&list.Items[i].Spec.Template)] = &list.Items[i]
		}
		return s
	}
}

func version(t *corev1.PodTemplateSpec) int {
	v, err := strconv.Atoi(t.Annotations[versionKey])
	if err != nil {
		panic(err)
	}
	return v
}

func (s state) String() string {
	text := fmt.Sprintf("%+v %+v", s.deployment.Spec, s.deployment.Status)
	for _, set := range s.sets {
		if set != nil {
			text += fmt.Sprintf("\n%d %+v", *set.Spec.Replicas, set.Status)
		}
	}
	return text
}

func (s state) sizes() (sizes [testutil.Versions]int) {
	for i, set := range s.sets {
		if set != nil {
			sizes[i] = int(*set.Spec.Replicas)
		}
	}
	return sizes
}

func (s state) ready() int {
	n := int32(0)
	for _, set := range s.sets {
		if set != nil {
			n += set.Status.ReadyReplicas
		}
	}
	return int(n)
}

func (s state) caughtUp() bool {
	v, _, _ := s.read(rolling.Numbers{})
	return v.CaughtUp
}

// read is the view by package rolling.
func (s state) read(n rolling.Numbers) (v rolling.View, newest *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	return rolling.Read(s.deployment, slices.DeleteFunc(slices.Clone(s.sets[:]), func(set *appsv1.ReplicaSet) bool { return set == nil }), n)
}

// view is what the mover is given.
func (d *deployment) view(s state, step int) rolling.View {
	v, _, _ := s.read(d.numbers())
	v.Limit, v.Last = d.plan.Limit(step, v.Replicas), d.plan.Last(step)
	v.Patient = v.New.Ready < v.Limit
	return v
}

// act carries out a step, unless its object has changed since it was read.
func (d *deployment) act(s state, step rolling.Step, v rolling.View) {
	d.Helper()
	var err error
	switch step.Verb {
	case rolling.Uncount, rolling.Move, rolling.Reached, rolling.Free, rolling.Stop:
		o := s.deployment.DeepCopy()
		switch step.Verb {
		case rolling.Uncount:
			write(d, o, rolling.NumbersOf(o).Uncounting(), true)
		case rolling.Move:
			write(d, o, rolling.Moving(step.Surge), false)
		case rolling.Free:
			write(d, o, d.numbers(), false)
		case rolling.Stop:
			o.Spec.Paused = true
		default:
			write(d, o, d.numbers().Parked(v), true)
		}
		_, err = d.client.AppsV1().Deployments(d.namespace).Update(d.Context(), o, metav1.UpdateOptions{})
	case rolling.Lower, rolling.Note:
		_, _, old := s.read(d.numbers())
		set := old[step.Set].DeepCopy()
		set.Spec.Replicas = pointer(int32(step.Replicas))
		if step.Verb == rolling.Note {
			set.Annotations[rolling.DesiredAnnotation] = strconv.Itoa(v.Replicas)
		}
		_, err = d.client.AppsV1().ReplicaSets(d.namespace).Update(d.Context(), set, metav1.UpdateOptions{})
	case rolling.Wait:
	}
	if err != nil && !apierrors.IsConflict(err) {
		d.Fatal(err)
	}
}
