// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

func claim(name, size string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
}

// recorded is a revision from a time with these claim templates.
func recorded(t *testing.T, templates ...corev1.PersistentVolumeClaim) Revision {
	t.Helper()
	return annotated(WithClaims(map[string]string{"note": "x"}, templates))
}

func annotated(annotations map[string]string) Revision {
	return Revision{Object: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}}
}

// foreign is a revision that OpenKruise wrote.
func foreign(hash string) Revision {
	return annotated(map[string]string{shared.AnnotationClaimTemplatesHash: hash})
}

func TestWithClaims(t *testing.T) {
	none := recorded(t).Object.Annotations
	want := map[string]string{"note": "x", "kruise.io/cloneset-volumeclaimtemplate-hash": "", "operator.kruise.io/volume-claim-templates-hash": "", shared.AnnotationRecordedClaims: "null"}
	if diff := cmp.Diff(want, none); diff != "" {
		t.Errorf("without templates (-want +got):\n%s", diff)
	}
	some := recorded(t, claim("data", "1Gi")).Object.Annotations
	if _, ok := some["kruise.io/cloneset-volumeclaimtemplate-hash"]; ok || some["operator.kruise.io/volume-claim-templates-hash"] == "" || some["note"] != "x" {
		t.Errorf("with a template the annotations are %v", some)
	}
	annotations := map[string]string{"note": "x"}
	if WithClaims(annotations, nil); len(annotations) != 1 {
		t.Errorf("the annotations of the set became %v", annotations)
	}
}

func TestClaimsDiffer(t *testing.T) {
	filled := claim("data", "1Gi")
	filled.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	filled.Status.Phase = corev1.ClaimPending
	labeled := claim("data", "1Gi")
	labeled.Labels = map[string]string{"app": "web"}
	cases := map[string]struct {
		a, b Revision
		want bool
	}{
		"the same":                              {a: recorded(t, claim("data", "1Gi")), b: recorded(t, claim("data", "1Gi"))},
		"in another order":                      {a: recorded(t, claim("a", "1Gi"), claim("b", "2Gi")), b: recorded(t, claim("b", "2Gi"), claim("a", "1Gi"))},
		"the same size in other words":          {a: recorded(t, claim("data", "1Gi")), b: recorded(t, claim("data", "1024Mi"))},
		"what the server fills in":              {a: recorded(t, claim("data", "1Gi")), b: recorded(t, filled)},
		"labels, which only concern the claims": {a: recorded(t, claim("data", "1Gi")), b: recorded(t, labeled)},
		"another size":                          {a: recorded(t, claim("data", "1Gi")), b: recorded(t, claim("data", "2Gi")), want: true},
		"another name":                          {a: recorded(t, claim("data", "1Gi")), b: recorded(t, claim("store", "1Gi")), want: true},
		"one more":                              {a: recorded(t, claim("data", "1Gi")), b: recorded(t, claim("data", "1Gi"), claim("log", "1Gi")), want: true},
		"the first":                             {a: recorded(t), b: recorded(t, claim("data", "1Gi")), want: true},
		"the last":                              {a: recorded(t, claim("data", "1Gi")), b: recorded(t), want: true},
		"none and none":                         {a: recorded(t), b: recorded(t)},

		"both of OpenKruise, the same":          {a: foreign("1647947029"), b: foreign("1647947029")},
		"both of OpenKruise":                    {a: foreign("1647947029"), b: foreign("12"), want: true},
		"OpenKruise's cannot be compared":       {a: foreign("1647947029"), b: recorded(t, claim("data", "1Gi"))},
		"OpenKruise knew none, nor do we":       {a: foreign(""), b: recorded(t)},
		"OpenKruise knew none":                  {a: foreign(""), b: recorded(t, claim("data", "1Gi")), want: true},
		"OpenKruise knew some, and there is no": {a: foreign("1647947029"), b: recorded(t), want: true},
		"nothing is known of one":               {a: annotated(nil), b: recorded(t, claim("data", "1Gi"))},
		"nothing is known of one, and no claim": {a: annotated(nil), b: recorded(t)},
		"one is not stored yet":                 {a: Revision{}, b: recorded(t)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := ClaimsDiffer(tc.a, tc.b); got != tc.want {
				t.Errorf("they differ: %v, want %v", got, tc.want)
			}
			if got := ClaimsDiffer(tc.b, tc.a); got != tc.want {
				t.Errorf("the other way round they differ: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTheNewestRevisionRecordsThePresentClaimTemplates(t *testing.T) {
	template := &corev1.PodTemplateSpec{}
	data := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	large := data.DeepCopy()
	large.Annotations = map[string]string{"note": strings.Repeat("x", longestRecord)}
	owner := func(templates ...corev1.PersistentVolumeClaim) Owner {
		annotations := RecordClaims(map[string]string{"note": "x"}, templates)
		if annotations["note"] != "x" {
			t.Fatalf("annotations %v", annotations)
		}
		return Owner{Namespace: "shop", Name: "web", Annotations: annotations}
	}
	stored := func(o Owner) []Revision {
		decision, err := DecideOf(PodTemplates(false), o, template, nil, nil)
		if err != nil || decision.Create == nil {
			t.Fatalf("decision %+v, error %v", decision, err)
		}
		return []Revision{{Name: decision.Update.Name, Number: 1, Template: template, Object: decision.Create}}
	}
	unknown := Owner{Namespace: "shop", Name: "web"}
	for name, tc := range map[string]struct {
		was, is  Owner
		bumps    bool
		recorded int // -1: nothing
	}{
		"the same ones":                               {owner(data), owner(data), false, 1},
		"another one":                                 {owner(), owner(data), true, 1},
		"none any more":                               {owner(data), owner(), true, 0},
		"of a version that recorded none":             {unknown, owner(data), true, 1},
		"none, of a version that recorded none":       {unknown, owner(), false, -1},
		"too large to be recorded":                    {owner(data), owner(*large), false, 1},
		"too large to be recorded from the beginning": {owner(*large), owner(*large), false, -1},
	} {
		t.Run(name, func(t *testing.T) {
			decision, err := DecideOf(PodTemplates(false), tc.is, template, stored(tc.was), nil)
			if err != nil || decision.Create != nil || (decision.Bump != nil) != tc.bumps || decision.Update.Number != 1 {
				t.Errorf("decision %+v, error %v", decision, err)
			}
			recorded := -1
			if templates, ok := RecordedClaims(decision.Update); ok {
				recorded = len(templates)
			}
			if recorded != tc.recorded {
				t.Errorf("%d claim templates are recorded, want %d", recorded, tc.recorded)
			}
		})
	}
}
