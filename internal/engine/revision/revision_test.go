// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

func templateOf(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image}}},
	}
}

// store is the template as a stored revision.
func store(t *testing.T, owner string, number int64, template *corev1.PodTemplateSpec) Revision {
	t.Helper()
	data, err := Encode(template)
	if err != nil {
		t.Fatal(err)
	}
	cr := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: Name(owner, Hash(data, nil))}, Revision: number}
	cr.Data.Raw = data
	r, err := Decode(cr)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEncode(t *testing.T) {
	template := templateOf("web:1")
	template.Spec.Containers[0].Command = []string{"sh", "-c", "a && b > c"}
	got, err := Encode(template)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"web"}},"spec":{"containers":[` +
		`{"command":["sh","-c","a \u0026\u0026 b \u003e c"],"image":"web:1","name":"web","resources":{}}]}}}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	bare, err := Encode(&corev1.PodTemplateSpec{})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null},"spec":{"containers":null}}}}`; string(bare) != want {
		t.Errorf("an empty template: got %s", bare)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, data := range map[string]string{
		"no data":                     "",
		"broken JSON":                 `{"spec":`,
		"no template":                 `{"spec":{}}`,
		"a null template":             `{"spec":{"template":null}}`,
		"null":                        `null`,
		"a template of another shape": `{"spec":{"template":{"spec":{"containers":"none"}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			cr := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}}
			cr.Data.Raw = []byte(data)
			if _, err := Decode(cr); err == nil || !strings.Contains(err.Error(), "web-1") {
				t.Errorf("got %v, want an error that names the revision", err)
			}
		})
	}
}

func TestName(t *testing.T) {
	if got := Name("web", "abc"); got != "web-abc" {
		t.Errorf("got %s", got)
	}
	long := strings.Repeat("a", 253)
	if got := Name(long, "abc"); got != long[:223]+"-abc" {
		t.Errorf("got %s", got)
	}
}

func TestHashDependsOnTheCollisionCount(t *testing.T) {
	if Hash([]byte("x"), ptr.To[int32](1)) == Hash([]byte("x"), nil) {
		t.Error("a collision changes nothing")
	}
}

func TestSame(t *testing.T) {
	same := PodTemplates(false).Same
	change := func(f func(*corev1.PodTemplateSpec)) *corev1.PodTemplateSpec {
		template := templateOf("web:1")
		f(template)
		return template
	}
	cases := map[string]struct {
		other *corev1.PodTemplateSpec
		want  bool
	}{
		"the same":                    {templateOf("web:1"), true},
		"another image":               {templateOf("web:2"), false},
		"another label":               {change(func(p *corev1.PodTemplateSpec) { p.Labels["app"] = "db" }), false},
		"a label more":                {change(func(p *corev1.PodTemplateSpec) { p.Labels["new"] = "" }), false},
		"empty annotations":           {change(func(p *corev1.PodTemplateSpec) { p.Annotations = map[string]string{} }), true},
		"a creation time":             {change(func(p *corev1.PodTemplateSpec) { p.CreationTimestamp = metav1.Now() }), true},
		"a default written out":       {change(func(p *corev1.PodTemplateSpec) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }), true},
		"the pull policy written out": {change(func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullAlways }), true},
		"another pull policy":         {change(func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent }), false},
		"empty lists":                 {change(func(p *corev1.PodTemplateSpec) { p.Spec.Tolerations = []corev1.Toleration{} }), true},
		"another grace period":        {change(func(p *corev1.PodTemplateSpec) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](31) }), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := same(templateOf("web:1"), tc.other); got != tc.want {
				t.Errorf("got %v", got)
			}
			if got := same(tc.other, templateOf("web:1")); got != tc.want {
				t.Errorf("the other way round: got %v", got)
			}
		})
	}
	written := func(policy corev1.PullPolicy) *corev1.PodTemplateSpec {
		return change(func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].ImagePullPolicy = policy })
	}
	for policy, want := range map[corev1.PullPolicy]bool{corev1.PullIfNotPresent: true, corev1.PullAlways: false, corev1.PullNever: false} {
		t.Run("pods as the template is written, pull policy "+string(policy), func(t *testing.T) {
			owner := Owner{Namespace: "shop", Name: "web"}
			first, err := DecideOf(PodTemplates(true), owner, templateOf("web:1"), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			next, err := DecideOf(PodTemplates(true), owner, written(policy), []Revision{first.Update}, nil)
			if err != nil || (next.Create == nil) != want {
				t.Errorf("the next revision is %+v, error %v", next.Create, err)
			}
		})
	}
	t.Run("quantities in other words", func(t *testing.T) {
		with := func(cpu string) *corev1.PodTemplateSpec {
			return change(func(p *corev1.PodTemplateSpec) {
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
			})
		}
		if !same(with("1"), with("1000m")) || same(with("1"), with("1001m")) {
			t.Error("quantities are compared by what they say")
		}
	})
}

func TestDecide(t *testing.T) {
	owner := Owner{Namespace: "ns", Name: "web", Annotations: map[string]string{"note": "x"}, Reference: metav1.OwnerReference{Name: "web"}}
	v1, v2, v3 := templateOf("web:1"), templateOf("web:2"), templateOf("web:3")
	cases := map[string]struct {
		template   *corev1.PodTemplateSpec
		stored     []Revision
		collisions *int32
		want       string // create, bump or use, with revision and number
		wantCount  *int32
	}{
		"the first template becomes revision 1": {template: v1, want: "create web:1 1"},
		"the newest is used as it is":           {template: v2, stored: []Revision{store(t, "web", 1, v1), store(t, "web", 2, v2)}, want: "use web:2 2"},
		"the order of the stored ones does not matter": {
			template: v2, stored: []Revision{store(t, "web", 2, v2), store(t, "web", 1, v1)}, want: "use web:2 2",
		},
		"a new template gets the next number": {template: v3, stored: []Revision{store(t, "web", 1, v1), store(t, "web", 7, v2)}, want: "create web:3 8"},
		"a rollback bumps the older one":      {template: v1, stored: []Revision{store(t, "web", 1, v1), store(t, "web", 2, v2)}, want: "bump web:1 3"},
		"of several older ones the newest is bumped": {
			template: v1, stored: []Revision{store(t, "other", 1, v1), store(t, "web", 2, v1), store(t, "web", 5, v2)}, want: "bump web:1 6",
		},
		"of several equal ones the newest is used": {
			template: v1, stored: []Revision{store(t, "other", 1, v1), store(t, "web", 2, v1)}, want: "use web:1 2",
		},
		"a collision count is kept": {template: v1, collisions: ptr.To[int32](3), want: "create web:1 1", wantCount: ptr.To[int32](3)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := DecideOf(PodTemplates(false), owner, tc.template, tc.stored, tc.collisions)
			if err != nil {
				t.Fatal(err)
			}
			verb := "use"
			switch {
			case got.Create != nil && got.Bump != nil:
				t.Fatal("create and bump")
			case got.Create != nil:
				verb = "create"
				if got.Create.Name != got.Update.Name || got.Create.Revision != got.Update.Number || got.Update.Object != nil {
					t.Errorf("created is %s %d, decided is %s %d", got.Create.Name, got.Create.Revision, got.Update.Name, got.Update.Number)
				}
			case got.Bump != nil:
				verb = "bump"
				if got.Bump.Name != got.Update.Name || got.Bump.Revision != got.Update.Number {
					t.Errorf("bumped is %s %d, decided is %s %d", got.Bump.Name, got.Bump.Revision, got.Update.Name, got.Update.Number)
				}
			}
			text := fmt.Sprintf("%s %s %d", verb, got.Update.Template.Spec.Containers[0].Image, got.Update.Number)
			if text != tc.want {
				t.Errorf("got %s, want %s", text, tc.want)
			}
			if diff := cmp.Diff(tc.wantCount, got.CollisionCount); diff != "" {
				t.Errorf("collision count (-want +got):\n%s", diff)
			}
			for _, r := range tc.stored {
				if r.Object.Revision != r.Number {
					t.Errorf("the stored object of %s was changed", r.Name)
				}
			}
		})
	}
}

func TestDecideAvoidsATakenName(t *testing.T) {
	wanted := store(t, "web", 1, templateOf("web:2")).Name
	taken := store(t, "web", 1, templateOf("web:1"))
	taken.Name, taken.Object.Name = wanted, wanted
	got, err := DecideOf(PodTemplates(false), Owner{Name: "web"}, templateOf("web:2"), []Revision{taken}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Create == nil || got.Create.Name == wanted || ptr.Deref(got.CollisionCount, 0) != 1 {
		t.Errorf("got %v with collision count %v", got.Update.Name, got.CollisionCount)
	}
	data := got.Create.Data.Raw
	if hash := Hash(data, ptr.To[int32](1)); got.Create.Labels[shared.LabelRevisionHash] != hash || got.Create.Name != "web-"+hash {
		t.Errorf("name %s and label %s do not agree", got.Create.Name, got.Create.Labels[shared.LabelRevisionHash])
	}
}

func TestCreatedRevision(t *testing.T) {
	template := templateOf("web:1")
	owner := Owner{
		Namespace: "ns", Name: "web", Annotations: map[string]string{"note": "x"}, Reference: metav1.OwnerReference{Name: "web", UID: "u"},
		HashLabel: shared.LabelControllerRevisionHash,
	}
	got, err := DecideOf(PodTemplates(false), owner, template, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	hash := strings.TrimPrefix(got.Create.Name, "web-")
	want := metav1.ObjectMeta{
		Namespace: "ns", Name: "web-" + hash, Labels: map[string]string{"app": "web", "controller-revision-hash": hash},
		Annotations: map[string]string{"note": "x"}, OwnerReferences: []metav1.OwnerReference{owner.Reference},
	}
	if diff := cmp.Diff(want, got.Create.ObjectMeta); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got.Create.Labels["x"], got.Create.Annotations["x"] = "y", "y"
	if len(template.Labels) != 1 || len(owner.Annotations) != 1 {
		t.Error("template or owner were changed")
	}
}

// TestUnknownFieldsSurvive: a field of a newer server is no difference, and a rollback keeps the bytes.
func TestUnknownFieldsSurvive(t *testing.T) {
	cr := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-old"}, Revision: 1}
	cr.Data.Raw = []byte(`{"spec":{"template":{"$patch":"replace","fresh":true,"metadata":{"labels":{"app":"web"}},` +
		`"spec":{"containers":[{"image":"web:1","name":"web","novelty":{"a":1}}],"future":"x"}}}}`)
	old, err := Decode(cr)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecideOf(PodTemplates(false), Owner{Name: "web"}, templateOf("web:1"), []Revision{old, store(t, "web", 2, templateOf("web:2"))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Bump == nil || string(got.Bump.Data.Raw) != string(cr.Data.Raw) || got.Bump.Revision != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestSurplus(t *testing.T) {
	at := func(name string, number int64) Revision { return Revision{Name: name, Number: number} }
	history := []Revision{at("c", 3), at("a", 1), at("e", 5), at("b", 2), at("d", 4)}
	cases := map[string]struct {
		live  sets.Set[string]
		limit int
		want  string
	}{
		"as many as the limit":                   {live: sets.New("e"), limit: 4},
		"the oldest go":                          {live: sets.New("e"), limit: 2, want: "a b"},
		"a limit of zero keeps only live ones":   {live: sets.New("b", "e"), want: "a c d"},
		"live ones are not counted":              {live: sets.New("a", "b", "c"), limit: 2},
		"a negative limit is zero":               {live: sets.New("a", "b", "c", "d"), limit: -1, want: "e"},
		"names that nobody stored do not matter": {live: sets.New("x", "e"), limit: 3, want: "a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range Surplus(history, tc.live, tc.limit) {
				got = append(got, r.Name)
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("got %v, want %s", got, tc.want)
			}
		})
	}
}

func TestByAge(t *testing.T) {
	object := func(minute int) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(int64(minute)*60, 0))}}
	}
	older, newer := Revision{Name: "b", Number: 1, Object: object(1)}, Revision{Name: "a", Number: 1, Object: object(2)}
	if ByAge(older, newer) >= 0 || ByAge(newer, older) <= 0 {
		t.Error("equal numbers are told apart by creation time")
	}
	twin := Revision{Name: "c", Number: 1, Object: object(1)}
	if ByAge(older, twin) >= 0 {
		t.Error("equal times are told apart by name")
	}
}
