// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/planning"
	"github.com/kruise-operator/kruise-operator/internal/testutil/fixtures"
)

func storage(size string) corev1.VolumeResourceRequirements {
	return corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}
}

func template(name, size string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "disk", "app": "other"}},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: storage(size)},
	}
}

// all asks for every claim.
func all(string) bool { return true }

func TestWanted(t *testing.T) {
	data := template("data", "1Gi")
	data.Annotations = map[string]string{"note": "x"}
	data.Status.Phase = corev1.ClaimPending
	bare := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "logs"}}
	tmpl := Template{Namespace: "ns", Claims: []corev1.PersistentVolumeClaim{data, bare}, Labels: map[string]string{"app": "web"}}
	want := []*corev1.PersistentVolumeClaim{
		{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "data-web-3", Labels: map[string]string{"tier": "disk", "app": "web"}, Annotations: map[string]string{"note": "x"},
			},
			Spec: data.Spec,
		},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "logs-web-3", Labels: map[string]string{"app": "web"}}},
	}
	if diff := cmp.Diff(want, tmpl.Wanted("web-3", all)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if data.Labels["app"] != "other" {
		t.Error("the claim template was changed")
	}
	if got := tmpl.Wanted("web-3", func(name string) bool { return name != "data-web-3" }); len(got) != 1 || got[0].Name != "logs-web-3" {
		t.Errorf("only one is asked for: got %v", got)
	}
	if got := (Template{}).Wanted("web-3", all); len(got) != 0 {
		t.Errorf("without claim templates: got %v", got)
	}
}

// TestWantedIsWhatOpenKruiseCreated compares with the claims of recorded sets.
func TestWantedIsWhatOpenKruiseCreated(t *testing.T) {
	tested := 0
	for _, name := range []string{"statefulset-midway", "statefulset-pvc-policy"} {
		objects := fixtures.Objects(t, name+"/state.yaml")
		set := fixtures.All[appsv1beta1.StatefulSet](t, objects, "apps.kruise.io/v1beta1", "StatefulSet")[0]
		tmpl := Template{Namespace: set.Namespace, Claims: set.Spec.VolumeClaimTemplates, Labels: set.Spec.Selector.MatchLabels}
		stored := map[string]*corev1.PersistentVolumeClaim{}
		for _, claim := range fixtures.All[corev1.PersistentVolumeClaim](t, objects, "v1", "PersistentVolumeClaim") {
			stored[claim.Name] = claim
		}
		var wantedPods []string
		for _, pod := range fixtures.All[corev1.Pod](t, objects, "v1", "Pod") {
			if pod.Name != "log-1" { // its ordinal is not wanted any more
				wantedPods = append(wantedPods, pod.Name)
			}
			for _, want := range tmpl.Wanted(pod.Name, all) {
				tested++
				if !Mounts(&pod.Spec, want.Name) {
					t.Errorf("%s: pod %s does not mount %s", name, pod.Name, want.Name)
				}
				got := stored[want.Name]
				if got == nil {
					t.Errorf("%s: no claim %s is stored", name, want.Name)
					continue
				}
				if diff := cmp.Diff(want.Labels, got.Labels); diff != "" {
					t.Errorf("%s: labels of %s (-want +stored):\n%s", name, want.Name, diff)
				}
				if fit := Compare(got, want); fit != Fits {
					t.Errorf("%s: claim %s: %s", name, want.Name, fit)
				}
			}
		}
		if diff := cmp.Diff(set.Status.VolumeClaims, tmpl.Status(wantedPods, stored)); diff != "" {
			t.Errorf("%s: status (-stored +ours):\n%s", name, diff)
		}
	}
	if tested != 8 {
		t.Errorf("%d claims tested, want 8", tested)
	}
}

func TestMount(t *testing.T) {
	tmpl := Template{Claims: []corev1.PersistentVolumeClaim{template("data", "1Gi"), template("logs", "1Gi")}}
	spec := corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}}
	if Mounts(&spec, "data-web-0") {
		t.Error("a volume with the name of a claim counts as the claim")
	}
	tmpl.Mount(&spec, "web-0")
	var got []string
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			got = append(got, v.Name+"="+v.PersistentVolumeClaim.ClaimName)
		} else {
			got = append(got, v.Name)
		}
	}
	if diff := cmp.Diff([]string{"data=data-web-0", "logs=logs-web-0", "tmp"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !Mounts(&spec, "data-web-0") || !Mounts(&spec, "logs-web-0") || Mounts(&spec, "data-web-1") {
		t.Error("the spec has the claims of web-0 and of nobody else")
	}
}

func owner(kind, name, uid string) metav1.OwnerReference {
	version := "v1"
	if kind == "StatefulSet" {
		version = "apps.kruise.io/v1beta1"
	}
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: types.UID(uid)}
}

func TestOwners(t *testing.T) {
	set, pod, earlier, other := owner("StatefulSet", "web", "s"), owner("Pod", "web-0", "p"), owner("Pod", "web-0", "old"), owner("Backup", "b", "b")
	older := set
	older.APIVersion = "apps.kruise.io/v1alpha1"
	type refs = []metav1.OwnerReference
	cases := map[string]struct {
		policy      Retention
		condemned   bool
		has         refs
		want        refs
		wantChanged bool
	}{
		"kept: nobody owns it":                                               {},
		"kept: the references of ours go":                                    {has: refs{set, pod}, wantChanged: true},
		"kept, condemned: nobody owns it":                                    {condemned: true},
		"deleted with the set: the set owns it":                              {policy: Retention{WhenDeleted: true}, want: refs{set}, wantChanged: true},
		"deleted with the set: it does already":                              {policy: Retention{WhenDeleted: true}, has: refs{set}, want: refs{set}},
		"deleted with the set: a reference of the older version is the same": {policy: Retention{WhenDeleted: true}, has: refs{older}, want: refs{older}},
		"deleted with the set, condemned: the set owns it still":             {policy: Retention{WhenDeleted: true}, condemned: true, has: refs{set}, want: refs{set}},
		"deleted when scaled: nobody owns it while it is wanted":             {policy: Retention{WhenScaled: true}},
		"deleted when scaled: the pod loses it when wanted again":            {policy: Retention{WhenScaled: true}, has: refs{pod}, wantChanged: true},
		"deleted when scaled, condemned: the pod owns it":                    {policy: Retention{WhenScaled: true}, condemned: true, want: refs{pod}, wantChanged: true},
		"deleted always: the set owns it while it is wanted":                 {policy: Retention{true, true}, want: refs{set}, wantChanged: true},
		"deleted always, condemned: from the set to the pod":                 {policy: Retention{true, true}, condemned: true, has: refs{set}, want: refs{pod}, wantChanged: true},
		"references of others stay":                                          {has: refs{other, set, earlier}, want: refs{other, earlier}, wantChanged: true},
		"references of others are no change":                                 {policy: Retention{WhenDeleted: true}, has: refs{other, set}, want: refs{other, set}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.has}}
			got, changed := tc.policy.Owners(claim, Owned{Set: set, Pod: pod}, tc.condemned)
			if diff := cmp.Diff(tc.want, got); diff != "" || changed != tc.wantChanged {
				t.Errorf("changed %v, want %v (-want +got):\n%s", changed, tc.wantChanged, diff)
			}
		})
	}
	t.Run("condemned without a pod: nobody can own it", func(t *testing.T) {
		got, changed := Retention{WhenScaled: true}.Owners(&corev1.PersistentVolumeClaim{}, Owned{Set: set}, true)
		if len(got) > 0 || changed {
			t.Errorf("got %v, %v", got, changed)
		}
	})
}

func TestRetentionOf(t *testing.T) {
	const remove, retain = appsv1.DeletePersistentVolumeClaimRetentionPolicyType, appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	if RetentionOf(nil) != (Retention{}) {
		t.Error("without a policy claims are kept")
	}
	got := RetentionOf(&appsv1beta1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: remove, WhenDeleted: retain})
	if got != (Retention{WhenScaled: true}) {
		t.Errorf("got %v", got)
	}
}

func TestStale(t *testing.T) {
	earlier, present := owner("Pod", "web-0", "old"), owner("Pod", "web-0", "new")
	now := metav1.Now()
	cases := map[string]struct {
		owners   []metav1.OwnerReference
		deleting bool
		uid      types.UID
		want     bool
	}{
		"a claim that nobody owns":                          {},
		"a claim of an earlier pod, now there is none":      {owners: []metav1.OwnerReference{earlier}, want: true},
		"a claim of an earlier pod, now there is another":   {owners: []metav1.OwnerReference{earlier}, uid: "new", want: true},
		"a claim of the present pod":                        {owners: []metav1.OwnerReference{present}, uid: "new"},
		"a claim of a pod with another name":                {owners: []metav1.OwnerReference{owner("Pod", "web-1", "x")}},
		"a claim of the set":                                {owners: []metav1.OwnerReference{owner("StatefulSet", "web", "s")}},
		"a claim that is terminating, without a pod":        {deleting: true, want: true},
		"a claim that is terminating, used by a pod of now": {deleting: true, uid: "new"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners}}
			if tc.deleting {
				claim.DeletionTimestamp = &now
			}
			if got := Stale(claim, "web-0", tc.uid); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	with := func(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		claim := template("data-web-0", "10Gi")
		class := "fast"
		claim.Spec.StorageClassName = &class
		change(&claim)
		return &claim
	}
	nothing := func(*corev1.PersistentVolumeClaim) {}
	cases := map[string]struct {
		claim, template func(*corev1.PersistentVolumeClaim)
		want            Fit
	}{
		"the same":                           {nothing, nothing, Fits},
		"the same size in other words":       {nothing, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources = storage("10240Mi") }, Fits},
		"a template that shrank":             {nothing, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources = storage("1Gi") }, Fits},
		"a template that grew":               {nothing, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources = storage("20Gi") }, Grows},
		"a template without a storage class": {nothing, func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }, Fits},
		"a claim without a storage class":    {func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }, nothing, Fits},
		"another storage class":              {nothing, func(c *corev1.PersistentVolumeClaim) { other := "slow"; c.Spec.StorageClassName = &other }, Differs},
		"other access modes":                 {nothing, func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes = nil }, Differs},
		"another storage class and a larger size": {nothing, func(c *corev1.PersistentVolumeClaim) {
			other := "slow"
			c.Spec.StorageClassName, c.Spec.Resources = &other, storage("20Gi")
		}, Differs},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Compare(with(tc.claim), with(tc.template)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestGrown(t *testing.T) {
	claim := template("data-web-0", "20Gi")
	if Grown(&claim, &claim) {
		t.Error("a claim without capacity has not grown")
	}
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	if Grown(&claim, &claim) {
		t.Error("a claim with less capacity has not grown")
	}
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue}}
	if !Grown(&claim, &claim) {
		t.Error("a claim that waits only for a pod to start must not be waited for")
	}
	claim.Status.Conditions, claim.Status.Capacity[corev1.ResourceStorage] = nil, resource.MustParse("20Gi")
	if !Grown(&claim, &claim) {
		t.Error("a claim with the capacity it requests has grown")
	}
	smaller := template("data-web-0", "20Gi")
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("20Ti")
	if Grown(&claim, &claim) || !Grown(&claim, &smaller) {
		t.Error("a claim whose template asks for less again must not be waited for")
	}
}

func TestResizeFault(t *testing.T) {
	claim := template("data-web-0", "20Ti")
	if message, infeasible := ResizeFault(&claim); message != "" || infeasible {
		t.Errorf("without a fault it says %q, %t", message, infeasible)
	}
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, Message: "too large"}}
	if message, infeasible := ResizeFault(&claim); message != "too large" || infeasible {
		t.Errorf("of one that is tried again it says %q, %t", message, infeasible)
	}
	claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible}
	if message, infeasible := ResizeFault(&claim); message != "too large" || !infeasible {
		t.Errorf("of one that is not it says %q, %t", message, infeasible)
	}
	claim.Status.Conditions = nil
	if message, infeasible := ResizeFault(&claim); message != "ControllerResizeInfeasible" || !infeasible {
		t.Errorf("without a condition it says %q, %t", message, infeasible)
	}
}

func TestPatches(t *testing.T) {
	claim := template("data-web-0", "10Gi")
	claim.UID, claim.ResourceVersion = "u", "7"
	wanted := template("data", "20Gi")
	grow, owners := GrowPatch(&claim, &wanted, "web"), OwnersPatch(&claim, nil)
	for name, tc := range map[string]struct {
		got  planning.Change
		want string
	}{
		"growing": {grow, `{"metadata":{"annotations":{"apps.kruise.io/owned-by-asts":"web"},"resourceVersion":"7","uid":"u"},
			"spec":{"resources":{"requests":{"storage":"20Gi"}}}}`},
		"losing all owners": {owners, `{"metadata":{"ownerReferences":[],"resourceVersion":"7","uid":"u"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var got, want any
			if err := json.Unmarshal(tc.got.(planning.RawPatch).Body, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.NewDecoder(strings.NewReader(tc.want)).Decode(&want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	tmpl := Template{Claims: []corev1.PersistentVolumeClaim{template("data", "20Gi"), template("logs", "1Gi")}}
	claim := func(name, size, capacity string) *corev1.PersistentVolumeClaim {
		c := template(name, size)
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}
		return &c
	}
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for _, c := range []*corev1.PersistentVolumeClaim{
		claim("data-web-0", "10Gi", "10Gi"), claim("data-web-1", "20Gi", "10Gi"), claim("data-web-2", "20Gi", "20Gi"), claim("data-web-9", "20Gi", "20Gi"),
		claim("logs-web-0", "1Gi", "1Gi"),
	} {
		claims[c.Name] = c
	}
	want := []appsv1beta1.VolumeClaimStatus{
		{VolumeClaimName: "data", CompatibleReplicas: 2, CompatibleReadyReplicas: 1},
		{VolumeClaimName: "logs", CompatibleReplicas: 1, CompatibleReadyReplicas: 1},
	}
	if diff := cmp.Diff(want, tmpl.Status([]string{"web-0", "web-1", "web-2"}, claims)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
