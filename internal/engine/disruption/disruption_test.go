// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/policy/v1beta1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) // one time for all cases

// budget is counted already: its generation is observed.
func budgetOf(edits ...func(*v1beta1.PodUnavailableBudget)) *Budget {
	b := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 1}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	b.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	b.Status.ObservedGeneration = 1
	for _, edit := range edits {
		edit(b)
	}
	return Parse(b)
}

func maxUnavailable(v string) func(*v1beta1.PodUnavailableBudget) {
	return func(b *v1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable = ptr.To(intstr.Parse(v)) }
}

func minAvailable(v string) func(*v1beta1.PodUnavailableBudget) {
	return func(b *v1beta1.PodUnavailableBudget) {
		b.Spec.MaxUnavailable, b.Spec.MinAvailable = nil, ptr.To(intstr.Parse(v))
	}
}

// pod is ready for an hour.
func pod(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)), Generation: 1,
		Annotations: map[string]string{v1beta1.AnnotationRelatedBudget: "web"},
	}}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:v1"}}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func pods(n int, edits ...func(*corev1.Pod)) []*corev1.Pod {
	all := make([]*corev1.Pod, n)
	for i := range all {
		all[i] = pod(fmt.Sprint("web-", i), edits...)
	}
	return all
}

func unready(p *corev1.Pod)     { p.Status.Conditions[0].Status = corev1.ConditionFalse }
func marked(p *corev1.Pod)      { p.Labels[shared.LabelSpecifiedDelete] = "true" }
func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }

func on() Gates { return Gates{Delete: true, Update: true} }

// The worked examples of the reference, and what users reported.
func TestCount(t *testing.T) {
	for name, tc := range map[string]struct {
		budget *Budget
		pods   []*corev1.Pod
		total  int32
		gone   bool
		want   string
	}{
		"E1: ten ready pods, and 30 %":    {budgetOf(maxUnavailable("30%")), pods(10), 10, false, "allowed 3 current 10 desired 7 total 10"},
		"E2: scaled in from 10 to 5":      {budgetOf(maxUnavailable("30%")), pods(10), 5, false, "allowed 7 current 10 desired 3 total 5"},
		"E3: one of four is broken":       {budgetOf(minAvailable("3")), append(pods(3), pod("b", unready)), 4, false, "allowed 0 current 3 desired 3 total 4"},
		"E4: half of seven is rounded up": {budgetOf(minAvailable("50%")), pods(7), 7, false, "allowed 3 current 7 desired 4 total 7"},
		"E6: pods without a workload":     {budgetOf(maxUnavailable("5")), pods(15), 0, false, "allowed 15 current 15 desired 0 total 0"},
		"E6: with a total":                {budgetOf(maxUnavailable("5"), func(b *v1beta1.PodUnavailableBudget) { b.Spec.ProtectTotalReplicas = ptr.To(int32(15)) }), pods(15), 0, false, "allowed 5 current 15 desired 10 total 15"},
		"E6: with a total in the annotation": {budgetOf(maxUnavailable("5"), func(b *v1beta1.PodUnavailableBudget) {
			b.Annotations = map[string]string{v1beta1.AnnotationProtectTotalReplicas: "15"}
		}), pods(15), 0, false, "allowed 5 current 15 desired 10 total 15"},
		"the target is gone":                               {budgetOf(), pods(4), 4, true, "allowed 0 current 0 desired 0 total 0"},
		"the kind of the target has no replicas":           {budgetOf(), pods(4), -1, false, "allowed 4 current 4 desired 0 total -1"},
		"maxUnavailable above the total":                   {budgetOf(maxUnavailable("9")), pods(4), 4, false, "allowed 4 current 4 desired 0 total 4"},
		"maxUnavailable 0":                                 {budgetOf(maxUnavailable("0")), pods(4), 4, false, "allowed 0 current 4 desired 4 total 4"},
		"a limit that nobody can read protects all":        {budgetOf(maxUnavailable("x")), pods(4), 4, false, "allowed 0 current 4 desired 4 total 4"},
		"pods that terminate do not count":                 {budgetOf(), append(pods(3), pod("b", terminating)), 4, false, "allowed 0 current 3 desired 3 total 4"},
		"Q03: all are marked, none has gone":               {budgetOf(), pods(6, marked), 6, false, "allowed 1 current 6 desired 5 total 6"},
		"Q03: all are marked, and a replacement is ready":  {budgetOf(), append(pods(6, marked), pod("new")), 6, false, "allowed 1 current 7 desired 5 total 6"},
		"Q03: the last marked one, beside its replacement": {budgetOf(), append(pods(6), pod("old", marked)), 6, false, "allowed 1 current 7 desired 5 total 6"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Count(tc.budget, Observed{Now: now, Pods: tc.pods, Total: tc.total, Gone: tc.gone}).Status
			if got := fmt.Sprint("allowed ", s.UnavailableAllowed, " current ", s.CurrentAvailable, " desired ", s.DesiredAvailable, " total ", s.TotalReplicas); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// Q01 and rule 12: whatever form the image ID has, a ready pod counts unless an update is under way.
func TestAvailable(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"ready":        {pod("a"), true},
		"not ready":    {pod("a", unready), false},
		"terminating":  {pod("a", terminating), false},
		"not running":  {pod("a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }), false},
		"by its label": {pod("a", func(p *corev1.Pod) { p.Labels[v1beta1.LabelUnavailablePrefix+"drain"] = "" }), false},
		"a digest, and a bare one in the status": {pod("a", func(p *corev1.Pod) {
			p.Spec.Containers[0].Image = "web@sha256:" + strings.Repeat("a", 64)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "sha256:b", ImageID: "sha256:" + strings.Repeat("b", 64), Ready: true}}
		}), true},
		"the kubelet has not seen the spec": {pod("a", func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 2, 1 }), false},
		"the kubelet says nothing of it":    {pod("a", func(p *corev1.Pod) { p.Generation = 2 }), true},
		"in the middle of an update in place": {pod("a", func(p *corev1.Pod) {
			p.Annotations = map[string]string{shared.AnnotationInPlaceState: `{"revision":"web-2","updateTimestamp":"2026-01-02T03:04:05Z","updateImages":true,"lastContainerStatuses":{"main":{"imageID":"id-1"}}}`}
			p.Spec.Containers[0].Image = "web:v2"
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "web:v1", ImageID: "id-1", Ready: true}}
		}), false},
		"after it": {pod("a", func(p *corev1.Pod) {
			p.Annotations = map[string]string{shared.AnnotationInPlaceState: `{"revision":"web-2","updateTimestamp":"2026-01-02T03:04:05Z","updateImages":true,"lastContainerStatuses":{"main":{"imageID":"id-1"}}}`}
			p.Spec.Containers[0].Image = "web:v2"
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "web:v2", ImageID: "id-2", Ready: true}}
		}), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Available(tc.pod, now); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	room := func(n int32) func(*v1beta1.PodUnavailableBudget) {
		return func(b *v1beta1.PodUnavailableBudget) { b.Status.UnavailableAllowed, b.Status.DesiredAvailable = n, 3 }
	}
	old := metav1.NewTime(now.Add(-time.Minute))
	for name, tc := range map[string]struct {
		budget *Budget
		pod    *corev1.Pod
		op     v1beta1.PubOperation
		gates  Gates
		denied string
		takes  bool
	}{
		"there is room":                       {budgetOf(room(1)), pod("a"), "DELETE", on(), "", true},
		"there is none":                       {budgetOf(room(0)), pod("a"), "EVICT", on(), "PodUnavailableBudget web allows no more pods to be unavailable", false},
		"E3: a broken pod goes at once":       {budgetOf(room(0)), pod("a", unready), "DELETE", on(), "", false},
		"a pod that asks for no protection":   {budgetOf(room(0)), pod("a", func(p *corev1.Pod) { p.Annotations = map[string]string{v1beta1.AnnotationNoProtect: "T"} }), "DELETE", on(), "", false},
		"a pod with the label of last resort": {budgetOf(room(0)), pod("a", func(p *corev1.Pod) { p.Labels[shared.LabelAdmission] = "bypass" }), "EVICT", on(), "", false},
		"E7: an ignored pod": {budgetOf(room(0), func(b *v1beta1.PodUnavailableBudget) {
			b.Spec.IgnoredPodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "canary"}}
		}), pod("a", func(p *corev1.Pod) { p.Labels["role"] = "canary" }), "DELETE", on(), "", false},
		"E5: only evictions are checked": {budgetOf(room(0), func(b *v1beta1.PodUnavailableBudget) { b.Spec.ProtectOperations = []v1beta1.PubOperation{"EVICT"} }), pod("a"), "DELETE", on(), "", false},
		"E5: by annotation": {budgetOf(room(0), func(b *v1beta1.PodUnavailableBudget) {
			b.Annotations = map[string]string{v1beta1.AnnotationProtectOperations: " EVICT ,NONSENSE"}
		}), pod("a"), "DELETE", on(), "", false},
		"the gate of updates is off":   {budgetOf(room(0)), pod("a"), "UPDATE", Gates{Delete: true}, "", false},
		"the gate of deletions is off": {budgetOf(room(0)), pod("a"), "DELETE", Gates{Update: true}, "", false},
		"a resize is an update":        {budgetOf(room(0)), pod("a"), "RESIZE", on(), "PodUnavailableBudget web allows", false},
		"a resize counts by itself":    {budgetOf(room(0)), pod("a"), "RESIZE", Gates{Delete: true, Update: true, Resize: true}, "", false},
		"it is recorded":               {budgetOf(room(0), func(b *v1beta1.PodUnavailableBudget) { b.Status.DisruptedPods = map[string]metav1.Time{"a": old} }), pod("a"), "DELETE", on(), "", true},
		"it was recorded just now": {budgetOf(room(0), func(b *v1beta1.PodUnavailableBudget) {
			b.Status.UnavailablePods = map[string]metav1.Time{"a": metav1.NewTime(now.Add(-time.Second))}
		}), pod("a"), "DELETE", on(), "", false},
		"nobody has counted the pod":         {budgetOf(room(1)), pod("a", func(p *corev1.Pod) { p.Annotations = nil }), "EVICT", on(), "has not counted pod a yet", false},
		"an earlier pod of its name was":     {budgetOf(room(0), func(b *v1beta1.PodUnavailableBudget) { b.Status.DisruptedPods = map[string]metav1.Time{"a": old} }), pod("a", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now) }), "DELETE", on(), "PodUnavailableBudget web allows", false},
		"no count yet: nothing is allowed":   {budgetOf(room(5), func(b *v1beta1.PodUnavailableBudget) { b.Generation = 2 }), pod("a"), "DELETE", on(), "has not been counted yet", false},
		"a new budget has no count":          {budgetOf(func(b *v1beta1.PodUnavailableBudget) { b.Status = Status{} }), pod("a"), "DELETE", on(), "has not been counted yet", false},
		"no pod has to stay":                 {budgetOf(func(b *v1beta1.PodUnavailableBudget) { b.Status.DesiredAvailable = 0 }), pod("a"), "DELETE", on(), "", false},
		"the records are full":               {budgetOf(room(1), func(b *v1beta1.PodUnavailableBudget) { b.Status.DisruptedPods = manyRecords() }), pod("a"), "DELETE", on(), "has recorded 2000 pods", false},
		"a pod that the budget is not about": {budgetOf(room(0)), pod("a", func(p *corev1.Pod) { p.Labels = nil }), "DELETE", on(), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			answers, after := Decide(tc.budget, []Ask{{tc.pod, tc.op, tc.gates}}, now)
			if got := answers[0].Denied; !strings.Contains(got, tc.denied) || (got == "") != (tc.denied == "") {
				t.Errorf("denied %q", got)
			}
			if tc.takes != (after != nil) || after != nil && (after.UnavailableAllowed != 0 || !after.DisruptedPods["a"].Time.Equal(now)) {
				t.Errorf("the status becomes %+v", after)
			}
		})
	}
}

func manyRecords() map[string]metav1.Time {
	all := map[string]metav1.Time{}
	for i := range maxRecorded {
		all[fmt.Sprint("other-", i)] = metav1.NewTime(now)
	}
	return all
}

// Rules 19 and 21: records end when their pods are gone, and are given back when nothing happens.
func TestRecords(t *testing.T) {
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(now.Add(-ago)) }
	b := budgetOf(maxUnavailable("4"), func(b *v1beta1.PodUnavailableBudget) {
		b.Status.DisruptedPods = map[string]metav1.Time{"gone": at(time.Second), "going": at(time.Second), "soon": at(5 * time.Second), "late": at(20 * time.Second), "anew": at(time.Minute)}
		b.Status.UnavailablePods = map[string]metav1.Time{"updating": at(3 * time.Second), "updated": at(10 * time.Second), "gone": at(0)}
	})
	c := Count(b, Observed{Now: now, Total: 10, Pods: []*corev1.Pod{
		pod("going", terminating), pod("soon"), pod("late"), pod("updating"), pod("updated"), pod("other"),
		pod("anew", func(p *corev1.Pod) { p.CreationTimestamp = at(time.Second) }),
	}})
	if got := fmt.Sprint(keys(c.Status.DisruptedPods), keys(c.Status.UnavailablePods)); got != "[soon] [updating]" {
		t.Errorf("recorded are %s", got)
	}
	if len(c.Overdue) != 1 || c.Overdue[0].Name != "late" || c.RecheckAfter != 7*time.Second || c.Status.CurrentAvailable != 4 {
		t.Errorf("overdue %v, again after %s, %d are available", c.Overdue, c.RecheckAfter, c.Status.CurrentAvailable)
	}
}

func keys(of map[string]metav1.Time) []string {
	var all []string
	for name := range of {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func TestUpdateOf(t *testing.T) {
	sized := func(cpu string, policy ...corev1.ContainerResizePolicy) *corev1.Pod {
		return pod("a", func(p *corev1.Pod) {
			p.Spec.Containers[0].ResizePolicy = policy
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		})
	}
	restart := corev1.ContainerResizePolicy{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}
	for name, tc := range map[string]struct {
		before, after *corev1.Pod
		want          v1beta1.PubOperation
	}{
		"metadata":                   {pod("a"), pod("a", func(p *corev1.Pod) { p.Labels["x"] = "y" }), ""},
		"a label that takes it out":  {pod("a"), pod("a", func(p *corev1.Pod) { p.Labels[v1beta1.LabelUnavailablePrefix+"x"] = "" }), "UPDATE"},
		"an image":                   {pod("a"), pod("a", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "web:v2" }), "UPDATE"},
		"CPU":                        {sized("1"), sized("2"), "RESIZE"},
		"CPU, with a restart for it": {sized("1", restart), sized("2", restart), "UPDATE"},
		"another QoS class":          {pod("a"), sized("2"), "UPDATE"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := UpdateOf(tc.before, tc.after); got != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Rules 1 to 4: the link is believed only while it is right.
func TestOf(t *testing.T) {
	owned := func(kind, apiVersion, name, hash string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels[shared.LabelPodTemplateHash] = hash
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, APIVersion: apiVersion, Name: name, Controller: ptr.To(true)}}
		}
	}
	by := func(name, kind, apiVersion string) *Budget {
		return budgetOf(func(b *v1beta1.PodUnavailableBudget) {
			b.Name, b.Spec.Selector, b.Spec.TargetReference = name, nil, &v1beta1.TargetReference{APIVersion: apiVersion, Kind: kind, Name: "web"}
		})
	}
	named := func(name string) *Budget { return budgetOf(func(b *v1beta1.PodUnavailableBudget) { b.Name = name }) }
	linked := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{v1beta1.AnnotationRelatedBudgetLegacy: name} }
	}
	for name, tc := range map[string]struct {
		budgets []*Budget
		pod     *corev1.Pod
		want    string
	}{
		"the first of two":                     {[]*Budget{named("b"), named("a")}, pod("p"), "a"},
		"the one that the pod names":           {[]*Budget{named("b"), named("a")}, pod("p", linked("b")), "b"},
		"a name that is gone":                  {[]*Budget{named("a")}, pod("p", linked("old")), "a"},
		"a CloneSet of another version":        {[]*Budget{by("x", "CloneSet", "apps.kruise.io/v1alpha1")}, pod("p", owned("CloneSet", "apps.kruise.io/v1beta1", "web", "")), "x"},
		"a StatefulSet of the other group":     {[]*Budget{by("x", "StatefulSet", "apps/v1")}, pod("p", owned("StatefulSet", "apps.kruise.io/v1beta1", "web", "")), ""},
		"a Deployment, through its ReplicaSet": {[]*Budget{by("x", "Deployment", "apps/v1")}, pod("p", owned("ReplicaSet", "apps/v1", "web-7d9", "7d9")), "x"},
		"a ReplicaSet of a similar name":       {[]*Budget{by("x", "Deployment", "apps/v1")}, pod("p", owned("ReplicaSet", "apps/v1", "web-7d9", "5c5")), ""},
		"no workload":                          {[]*Budget{by("x", "Deployment", "apps/v1")}, pod("p"), ""},
		"another namespace":                    {[]*Budget{named("a")}, pod("p", func(p *corev1.Pod) { p.Namespace = "other" }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if b := Of(tc.budgets, tc.pod); b != nil {
				got = b.Name
			}
			if got != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
