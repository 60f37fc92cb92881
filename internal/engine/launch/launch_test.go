// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

// pod has a container for each word: a name, or a name and its priority as "web=5".
func pod(annotation string, words ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "shop", UID: "this"}}
	if annotation != "" {
		p.Annotations = map[string]string{shared.AnnotationLaunchPriority: annotation}
	}
	for _, word := range words {
		name, priority, asked := strings.Cut(word, "=")
		c := corev1.Container{Name: name, Env: []corev1.EnvVar{{Name: "OTHER", Value: "1"}}}
		if asked {
			c.Env = append(c.Env, corev1.EnvVar{Name: shared.EnvContainerPriority, Value: priority})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

// The priority of each container, from the annotation of the pod or the variables of its containers. Without want the pod asks for no order.
func TestPriorities(t *testing.T) {
	elsewhere := pod("", "a=1", "b")
	elsewhere.Spec.Containers[0].Env[1] = corev1.EnvVar{Name: shared.EnvContainerPriority, ValueFrom: &corev1.EnvVarSource{}}
	twice := pod("", "a=1", "b")
	twice.Spec.Containers[0].Env = append(twice.Spec.Containers[0].Env, corev1.EnvVar{Name: shared.EnvContainerPriority, Value: "7"})
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		want  []int
		fault string
	}{
		"list order": {pod: pod("Ordered", "db", "app", "log"), want: []int{0, -1, -2}},
		"list order wins over what variables say":       {pod: pod("Ordered", "db=-5", "app=9"), want: []int{0, -1}},
		"and over what they say wrongly":                {pod: pod("Ordered", "db=abc", "app"), want: []int{0, -1}},
		"one container needs no order":                  {pod: pod("Ordered", "db")},
		"nor do several that ask for none":              {pod: pod("", "a", "b", "c")},
		"another value of the annotation means nothing": {pod: pod("ordered", "a", "b")},
		"who says nothing has 0":                        {pod: pod("", "main", "mesh=1"), want: []int{0, 1}},
		"two of the same priority":                      {pod: pod("", "a=5", "b=5", "c=0"), want: []int{5, 5, 0}},
		"all of the same priority":                      {pod: pod("", "a=3", "b=3", "c=3")},
		"all of them 0":                                 {pod: pod("", "a=0", "b", "c=0")},
		"the limits":                                    {pod: pod("", "a=2147483647", "b=-2147483647"), want: []int{2147483647, -2147483647}},
		"a sign":                                        {pod: pod("", "a=+5", "b"), want: []int{5, 0}},
		"of several variables the first counts":         {pod: twice, want: []int{1, 0}},
		"a bad priority of the only container":          {pod: pod("", "a=abc")},
		"no number":                                     {pod: pod("", "a", "b=abc"), fault: `spec.containers[1].env[1].value: Invalid value: "abc"`},
		"nothing":                                       {pod: pod("", "a=", "b"), fault: `spec.containers[0].env[1].value: Invalid value: ""`},
		"a fraction":                                    {pod: pod("", "a=1.5", "b"), fault: "1.5"},
		"above the limit":                               {pod: pod("", "a=2147483648", "b"), fault: "2147483648"},
		"below the limit":                               {pod: pod("", "a=-2147483648", "b"), fault: "-2147483648"},
		"a value from elsewhere":                        {pod: elsewhere, fault: "written as a literal value"},
	} {
		t.Run(name, func(t *testing.T) {
			got, fault := Priorities(tc.pod.Annotations, tc.pod.Spec.Containers, field.NewPath("spec", "containers"))
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if (fault == nil) != (tc.fault == "") || fault != nil && !strings.Contains(fault.Error(), tc.fault) {
				t.Errorf("the fault is %v, want %q", fault, tc.fault)
			}
		})
	}
}

func TestOrder(t *testing.T) {
	p := pod("", "main", "mesh=1")
	p.Annotations = map[string]string{shared.AnnotationLaunchPriorityCompleted: "true"}
	// A copy of another pod brings its variable along.
	p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, Variable("web-0", 4, ""))
	env := p.Spec.Containers[0].Env
	for range 2 { // again changes nothing
		if ordered, fault := Order(p, ""); !ordered || fault != nil {
			t.Fatalf("ordered %v, %v", ordered, fault)
		}
	}
	if Completed(p) {
		t.Error("it is marked although nothing is released")
	}
	if len(env) != 2 || env[1].ValueFrom.ConfigMapKeyRef.Name != "web-0-barrier" {
		t.Error("the template's own list was changed")
	}
	for i, want := range []string{"OTHER p_0", "OTHER KRUISE_CONTAINER_PRIORITY p_1"} {
		var got []string
		for _, e := range p.Spec.Containers[i].Env {
			if e.Name != shared.EnvLaunchPriority {
				got = append(got, e.Name)
				continue
			}
			if ref := e.ValueFrom.ConfigMapKeyRef; ref.Name != "web-1-barrier" || ref.Optional != nil {
				t.Errorf("it refers to %+v", ref)
			}
			got = append(got, e.ValueFrom.ConfigMapKeyRef.Key)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("container %d has %v, want %s", i, got, want)
		}
	}
	p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-a"}, {Name: "kube-api-access-x7k2p"}}
	if _, fault := Order(p, ""); fault != nil || keyAt("web-1", &p.Spec.Containers[1]) != "p_1_x7k2p" {
		t.Errorf("with a token it reads %q, %v", keyAt("web-1", &p.Spec.Containers[1]), fault)
	}
	if n, ok := At("web-1", &p.Spec.Containers[1]); !ok || n != 1 {
		t.Errorf("priority %d, %v", n, ok)
	}
	if ordered, _ := Order(pod("", "a", "b"), ""); ordered {
		t.Error("a pod that asks for nothing is ordered")
	}
	long := pod("Ordered", "a", "b")
	long.Name = strings.Repeat("x", 246)
	if ordered, fault := Order(long, ""); ordered || fault == nil || fault.Field != "metadata.name" {
		t.Errorf("a name of 246 characters: %v, %v", ordered, fault)
	}
}

func TestPriorityIsReadFromTheVariable(t *testing.T) {
	for _, env := range []corev1.EnvVar{
		{Name: shared.EnvLaunchPriority, Value: "p_1"},
		{Name: shared.EnvLaunchPriority, ValueFrom: &corev1.EnvVarSource{}},
		{Name: shared.EnvLaunchPriority, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "p_x"}}},
		{Name: shared.EnvLaunchPriority, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "7"}}},
		{Name: "OTHER", ValueFrom: Variable("web-1", 3, "").ValueFrom},
	} {
		if n, ok := Priority(&corev1.Container{Env: []corev1.EnvVar{env}}); ok {
			t.Errorf("%+v has priority %d", env, n)
		}
	}
	c := &corev1.Container{Env: []corev1.EnvVar{Variable("web-1", -3, "")}}
	if n, ok := Priority(c); !ok || n != -3 {
		t.Errorf("priority %d, %v", n, ok)
	}
	if _, ok := At("web-2", c); ok {
		t.Error("it waits at the barrier of another pod")
	}
}

// started gives the containers of an ordered pod states: "ready", "running", "ended", "stuck" or nothing.
func started(p *corev1.Pod, states ...string) *corev1.Pod {
	if _, fault := Order(p, ""); fault != nil {
		panic(fault)
	}
	for i, state := range states {
		s := corev1.ContainerStatus{Name: p.Spec.Containers[i].Name}
		switch state {
		case "ready", "running":
			s.ContainerID, s.Ready = fmt.Sprint("containerd://", i), state == "ready"
			s.State.Running = &corev1.ContainerStateRunning{}
		case "ended":
			s.ContainerID, s.State.Terminated = fmt.Sprint("containerd://", i), &corev1.ContainerStateTerminated{}
		case "stuck":
			s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError"}
		default:
			continue
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
	}
	return p
}

func TestDue(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want int
		held map[string]string
	}{
		"before anything runs the highest":        {pod: started(pod("Ordered", "db", "app", "log")), want: 0, held: map[string]string{"app": "db", "log": "db,app"}},
		"while it is not ready nothing else":      {pod: started(pod("Ordered", "db", "app", "log"), "running", "stuck", "stuck"), want: 0, held: map[string]string{"app": "db", "log": "db,app"}},
		"then the next":                           {pod: started(pod("Ordered", "db", "app", "log"), "ready", "stuck", "stuck"), want: -1, held: map[string]string{"log": "app"}},
		"and the last":                            {pod: started(pod("Ordered", "db", "app", "log"), "ready", "ready", "stuck"), want: -2},
		"all that are above have to be ready":     {pod: started(pod("", "a=5", "b=5", "c=0"), "ready", "running", "stuck"), want: 5, held: map[string]string{"c": "b"}},
		"whatever order the spec has":             {pod: started(pod("", "main", "mesh=1"), "stuck", "ready"), want: 0},
		"one that has been there is held by none": {pod: started(pod("Ordered", "db", "app"), "running", "ended"), want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			containers := Containers(tc.pod)
			if got, ok := Due(containers); !ok || got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
			for _, c := range containers {
				if got := strings.Join(HeldBy(tc.pod, c.Name), ","); got != tc.held[c.Name] {
					t.Errorf("%s is held by %q, want %q", c.Name, got, tc.held[c.Name])
				}
			}
		})
	}
	if _, ok := Due(nil); ok {
		t.Error("without containers something is due")
	}
}
