// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

// parsed is a WorkloadSpread with subsets a, b, c and so on of these limits; "" is none.
func parsed(t *testing.T, kind string, limits ...string) *Spread {
	t.Helper()
	ws := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ws"}}
	ws.Spec.TargetReference = &appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: kind, Name: "web"}
	for i, limit := range limits {
		sub := appsv1beta1.WorkloadSpreadSubset{Name: string(rune('a' + i))}
		if limit != "" {
			sub.MaxReplicas = ptr.To(intstr.Parse(limit))
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, sub)
	}
	s, err := Parse(ws)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewPodsFillSubsetsInOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		limits      []string
		n, replicas int
		counts      []int
		shut        []bool
		want        []int
	}{
		"the first ones up to their limits":             {limits: []string{"3", "2", ""}, n: 6, counts: []int{0, 0, 0}, want: []int{0, 0, 0, 1, 1, 2}},
		"pods that are there take room":                 {limits: []string{"3", ""}, n: 2, counts: []int{2, 5}, want: []int{0, 1}},
		"one beyond the limit frees no room":            {limits: []string{"1", ""}, n: 1, counts: []int{2, 0}, want: []int{1}},
		"a percentage is rounded up":                    {limits: []string{"30%", ""}, n: 5, replicas: 5, counts: []int{0, 0}, want: []int{0, 0, 1, 1, 1}},
		"after scaling from 5 to 10 one more goes to a": {limits: []string{"30%", ""}, n: 5, replicas: 10, counts: []int{2, 3}, want: []int{0, 1, 1, 1, 1}},
		"a shut subset gets none":                       {limits: []string{"3", ""}, n: 2, counts: []int{0, 0}, shut: []bool{true, false}, want: []int{1, 1}},
		"without room a pod gets none":                  {limits: []string{"1", "1"}, n: 3, counts: []int{0, 0}, want: []int{0, 1, None}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := parsed(t, "Deployment", tc.limits...).Place(tc.n, tc.replicas, tc.counts, tc.shut); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestOrdinalsFillSubsetsInOrder(t *testing.T) {
	s := parsed(t, "StatefulSet", "2", "2", "")
	for _, tc := range []struct {
		shut []bool
		want []int
	}{
		{want: []int{0, 0, 1, 1, 2, 2}},
		{shut: []bool{true, false, false}, want: []int{1, 1, 2, 2, 2, 2}},
	} {
		for ordinal, want := range tc.want {
			if got := s.Ordinal(ordinal, tc.shut); got != want {
				t.Errorf("ordinal %d with %v: %d, want %d", ordinal, tc.shut, got, want)
			}
		}
	}
	if got := parsed(t, "StatefulSet", "1").Ordinal(1, nil); got != None {
		t.Errorf("beyond all limits: %d", got)
	}
}

func TestReplicasComeFromPaths(t *testing.T) {
	object := map[string]any{"spec": map[string]any{
		"replicas": int64(7), "parallelism": int64(3), "groups": []any{map[string]any{"size": int64(1)}, map[string]any{"size": int64(4), "name": "x"}},
	}}
	for name, tc := range map[string]struct {
		kind  string
		paths []string
		want  int
	}{
		"the replicas of a Deployment": {kind: "Deployment", want: 7},
		"the parallelism of a Job":     {kind: "Job", want: 3},
		"a path through a list":        {kind: "Deployment", paths: []string{"spec.groups.1.size"}, want: 4},
		"several paths are added":      {kind: "Deployment", paths: []string{"spec.groups.0.size", "spec.groups.1.size"}, want: 5},
		"a missing field counts none":  {kind: "Deployment", paths: []string{"spec.groups.2.size", "spec.none"}, want: 0},
		"a text counts none":           {kind: "Deployment", paths: []string{"spec.groups.1.name"}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := parsed(t, tc.kind, "")
			s.Paths = tc.paths
			if got := s.Replicas(object); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// OpenKruise spreads no new pod with a filter without a selector, and counts all.
func TestAFilterWithoutASelectorMeansAllPods(t *testing.T) {
	for name, tc := range map[string]struct {
		filter *appsv1beta1.TargetFilter
		want   bool
	}{
		"no filter":                 {want: true},
		"a filter without selector": {filter: &appsv1beta1.TargetFilter{}, want: true},
		"an empty selector":         {filter: &appsv1beta1.TargetFilter{Selector: &metav1.LabelSelector{}}, want: true},
		"a selector of others":      {filter: &appsv1beta1.TargetFilter{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "api"}}}},
	} {
		ws := &appsv1beta1.WorkloadSpread{}
		ws.Spec.TargetReference = &appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
		ws.Spec.Subsets, ws.Spec.TargetFilter = []appsv1beta1.WorkloadSpreadSubset{{Name: "a"}}, tc.filter
		s, err := Parse(ws)
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
		(&Placing{Spread: s}).Put(pod, nil)
		if _, marked := s.SubsetOf(pod); marked != tc.want {
			t.Errorf("%s: it is %v that the pod has a subset", name, marked)
		}
	}
}

func TestOnlyPodsOfDeploymentsHaveVersions(t *testing.T) {
	pod := map[string]string{shared.LabelPodTemplateHash: "h1"}
	for kind, want := range map[string]string{"Deployment": "h1", "ReplicaSet": "h1", "Job": AnyVersion, "CloneSet": AnyVersion} {
		if got := parsed(t, kind, "").Counted(pod); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
	if got := parsed(t, "ReplicaSet", "").Counted(nil); got != AnyVersion {
		t.Errorf("without a hash: %s", got)
	}
}

func TestInjectionLeavesSharedPartsAlone(t *testing.T) {
	term := func(key string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}}}
	}
	s := parsed(t, "Deployment", "2", "")
	zone := term("zone")
	s.Subsets[0].Required = &zone
	s.Subsets[0].Preferred = []corev1.PreferredSchedulingTerm{{Weight: 3, Preference: term("fast")}}
	s.Subsets[0].Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	s.Subsets[0].Patch = map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"subset": "a", shared.LabelPodTemplateHash: "taken"}, "name": "other"},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "web:a"}}},
	}
	affinity := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{term("own"), term("other")},
	}}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{"app": "web", shared.LabelPodTemplateHash: "h1"}},
		Spec:       corev1.PodSpec{Affinity: affinity, Containers: []corev1.Container{{Name: "main", Image: "web:1", Env: []corev1.EnvVar{{Name: "A"}}}}},
	}
	before := pod.DeepCopy()
	if err := s.Inject(pod, 0, "u1", labels.SelectorFromSet(labels.Set{"app": "web"})); err != nil {
		t.Fatal(err)
	}
	if len(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions) != 1 || len(before.Spec.Tolerations) != 0 {
		t.Error("the template was changed")
	}
	nodes := pod.Spec.Affinity.NodeAffinity
	for _, got := range nodes.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(got.MatchExpressions) != 2 {
			t.Errorf("a required term is %v", got)
		}
	}
	if len(nodes.PreferredDuringSchedulingIgnoredDuringExecution) != 1 || len(pod.Spec.Tolerations) != 1 {
		t.Errorf("the place is %+v, %+v", nodes, pod.Spec.Tolerations)
	}
	if c := pod.Spec.Containers; len(c) != 1 || c[0].Image != "web:a" || len(c[0].Env) != 1 {
		t.Errorf("the containers are %+v", c)
	}
	if pod.Name != "web-1" || pod.Labels["subset"] != "a" || pod.Labels[shared.LabelPodTemplateHash] != "h1" {
		t.Errorf("the pod is %s %v", pod.Name, pod.Labels)
	}
	if got := pod.Annotations[shared.AnnotationMatchedWorkloadSpread]; got != `{"name":"ws","subset":"a","uid":"u1"}` {
		t.Errorf("the mark is %s", got)
	}
	if got := pod.Annotations[shared.AnnotationPodDeletionCost]; got != "200" {
		t.Errorf("the deletion cost is %s", got)
	}
	if i, marked := s.SubsetOf(pod); i != 0 || !marked {
		t.Errorf("it is in subset %d", i)
	}
}

func TestAPatchThatTakesThePodAwayIsLeftOut(t *testing.T) {
	s := parsed(t, "Deployment", "")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	for _, patch := range []map[string]any{
		{"metadata": map[string]any{"labels": map[string]any{"app": "other"}}},
		{"spec": map[string]any{"containers": "none"}},
	} {
		s.Subsets[0].Patch = patch
		got := pod.DeepCopy()
		if err := s.Inject(got, 0, "", labels.SelectorFromSet(pod.Labels)); err == nil {
			t.Errorf("%v was no error", patch)
		}
		if got.Labels["app"] != "web" || got.Annotations[shared.AnnotationMatchedWorkloadSpread] == "" {
			t.Errorf("the pod is %+v", got.ObjectMeta)
		}
	}
	s.Subsets[0].Patch = map[string]any{"spec": map[string]any{"priorityClassName": "high"}}
	got := pod.DeepCopy()
	got.Spec.Priority = ptr.To[int32](1)
	if err := s.Inject(got, 0, "", nil); err != nil || got.Spec.Priority != nil {
		t.Errorf("another priority class: %v %v", err, got.Spec.Priority)
	}
}

func TestFaultsNameTheirField(t *testing.T) {
	ws := &appsv1beta1.WorkloadSpread{}
	ws.Spec.TargetReference = &appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	ws.Spec.Subsets = []appsv1beta1.WorkloadSpreadSubset{{Name: "a", Patch: runtime.RawExtension{Raw: []byte("[1]")}}}
	if _, err := Parse(ws); err == nil || err.Error()[:23] != "spec.subsets[0].patch: " {
		t.Errorf("%v", err)
	}
	for _, ws := range []*appsv1beta1.WorkloadSpread{{}, {Spec: appsv1beta1.WorkloadSpreadSpec{TargetReference: &appsv1beta1.TargetReference{}}}} {
		if _, err := Parse(ws); err == nil {
			t.Error("no error")
		}
	}
}
