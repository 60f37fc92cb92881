// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package quantity_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	appsv1alpha1 "github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// timeLimit is far above any accepted text's time, and far below a refused one's.
const timeLimit = 5 * time.Second

func ordinary() []string {
	return []string{
		"0", "1", "500m", "1Gi", "1.5Gi", "+3", "-3", ".5", "2E", "1e3", "1E3", "12e6", "1e-9", "1e99", "1e-99", "1e+0000000000007", "100n", "4.2e+3",
		"9223372036854775807", " 1 ", "", "lots", "ready", "e9999", "1e", "1e-", "v1e9999", "1e1000x",
	}
}

func costly() []string {
	return []string{
		"1e-30000000", "1E-30000000", "1e30000000", "1e+30000000", "-1e-30000000", ".1e-30000000", "1.e-30000000", "1e-00000000100", " 1e-30000000",
		"\u00a01e-30000000", "\u30001e-30000000", "\t1e100\n", "1" + strings.Repeat("0", 128), "0." + strings.Repeat("0", 200) + "1", "1e100", "1e-100",
	}
}

func TestQuantitiesThatTakeMinutesToReadAreRefusedUnread(t *testing.T) {
	began := time.Now()
	for _, text := range costly() {
		if !quantity.Costly(text) {
			t.Errorf("%q passes", text)
		}
		if _, err := quantity.Parse(text); err == nil || !strings.Contains(err.Error(), "too many digits") || len(err.Error()) > 200 {
			t.Errorf("%q: %v", text, err)
		}
	}
	if spent := time.Since(began); spent > timeLimit {
		t.Errorf("it took %v", spent)
	}
}

// The library explains texts that are no quantities.
func TestOrdinaryQuantitiesAreReadAsTheLibraryReadsThem(t *testing.T) {
	for _, text := range ordinary() {
		want, wantErr := resource.ParseQuantity(text)
		got, err := quantity.Parse(text)
		if (err == nil) != (wantErr == nil) || got.Cmp(want) != 0 {
			if !quantity.Costly(text) || wantErr == nil {
				t.Errorf("%q: %v, %v, want %v, %v", text, got.String(), err, want.String(), wantErr)
			}
		}
	}
}

// pod has a quantity as a container's limit, and look-alikes elsewhere.
func pod(limit string) string {
	return `{"metadata":{"labels":{"commit":"12e45678","digest":"1e30000000"}},"spec":{"containers":[{"name":"main","image":"web@sha256:5e678",` +
		`"env":[{"name":"A","value":"1e-30000000"}],"args":["` + strings.Repeat("7", 300) + `"],"resources":{"limits":{"cpu":` + limit + `}}}]}}`
}

// Numbers beyond int64, and parts of a thousandth, were taken for equal.
func TestSame(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b any
		want bool
	}{
		"a text and the number":              {"2", int64(2), true},
		"two forms of one quantity":          {"1", "1000m", true},
		"two quantities":                     {"1", "100m", false},
		"a part, as a number":                {"500m", 0.5, true},
		"a small part, as a number":          {0.0005, int64(0), false},
		"two small parts":                    {0.0005, 0.0004, false},
		"a whole number with a point":        {int64(3), 3.0, true},
		"numbers beyond those of an integer": {1e20, 1e21, false},
		"one beyond them in two forms":       {1e21, "1e21", true},
		"a number that takes minutes":        {1e300, 1e300, false},
		"a text that takes minutes":          {"1e-30000000", "0", false},
		"a text that is none":                {"a", "a", false},
		"a boolean":                          {true, true, false},
		"nothing":                            {nil, nil, false},
		"a list":                             {[]any{"1"}, "1", false},
	} {
		if got := quantity.Same(tc.a, tc.b); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
		if got := quantity.Same(tc.b, tc.a); got != tc.want {
			t.Errorf("%s, the other way round: %v", name, got)
		}
	}
}

func TestWhatIsDecodedHoldsNoCostlyQuantity(t *testing.T) {
	const at = "spec.containers[0].resources.limits.cpu: quantity "
	for limit, want := range map[string]string{
		`"500m"`:                              "",
		`2`:                                   "",
		`"1e-30000000"`:                       at + `"1e-30000000" has too many digits`,
		`1e-30000000`:                         at + `"1e-30000000" has too many digits`,
		`"1` + strings.Repeat("0", 200) + `"`: at + `"1` + strings.Repeat("0", 36) + `..." has too many digits`,
		`"1","cpu":"1e-30000000"`:             at + `"1e-30000000" has too many digits`,
		// Of two members of one name, the last one is decoded, and the first one never read.
		`"1e-30000000","cpu":"1"`: "",
	} {
		began := time.Now()
		var got corev1.Pod
		err := quantity.Unmarshal([]byte(pod(limit)), &got)
		var object map[string]any
		fromErr := err
		if json.Unmarshal([]byte(pod(limit)), &object) == nil && !strings.HasPrefix(limit, "1e") {
			fromErr = quantity.FromUnstructured(object, &corev1.Pod{})
		}
		if spent := time.Since(began); spent > timeLimit {
			t.Fatalf("%s: it took %v", limit, spent)
		}
		for way, err := range map[string]error{"JSON": err, "unstructured": fromErr} {
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != want {
				t.Errorf("%s, %s: %q, want %q", way, limit, text, want)
			}
		}
		if want != "" {
			continue
		}
		if c := got.Spec.Containers[0]; c.Env[0].Value != "1e-30000000" || got.Labels["commit"] != "12e45678" || c.Resources.Limits.Cpu().IsZero() {
			t.Errorf("%s: decoded %+v", limit, got)
		}
	}
}

func TestUnmarshalFailsAsTheLibraryDoes(t *testing.T) {
	for _, text := range []string{`{"a":"1e-999"} x`, `{"a":"1e-999"`, ``, `[1e-999]`, `{"a":"1e-999"}`, `null`} {
		var one, other map[string]string
		err, want := quantity.Unmarshal([]byte(text), &one), json.Unmarshal([]byte(text), &other)
		if (err == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
		if diff := cmp.Diff(other, one); err == nil && diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// FuzzSuspect: unsuspected JSON is read in no time.
func FuzzSuspect(f *testing.F) {
	for _, text := range append(ordinary(), costly()...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw, err := json.Marshal(map[string]any{"limits": map[string]string{"cpu": text}})
		if err != nil {
			t.Skip()
		}
		began := time.Now()
		_ = quantity.Unmarshal(raw, &corev1.ResourceRequirements{})
		_ = quantity.Unmarshal([]byte(`{"limits":{"cpu":`+text+`}}`), &corev1.ResourceRequirements{})
		if spent := time.Since(began); spent > timeLimit {
			t.Errorf("it took %v", spent)
		}
	})
}

// Checks go by the names of fields.
func TestAllQuantitiesAreInFieldsThatAreLookedAt(t *testing.T) {
	paths := map[string]bool{}
	for _, object := range []any{
		corev1.Pod{}, corev1.PersistentVolumeClaim{}, corev1.Node{}, batchv1.Job{}, appsv1.Deployment{}, appsv1.StatefulSet{}, appsv1alpha1.CloneSet{},
		appsv1beta1.AdvancedCronJob{}, appsv1beta1.BroadcastJob{}, appsv1beta1.CloneSet{}, appsv1beta1.DaemonSet{}, appsv1beta1.EphemeralJob{},
		appsv1beta1.SidecarSet{}, appsv1beta1.StatefulSet{}, appsv1beta1.UnitedDeployment{},
	} {
		quantitiesIn(reflect.TypeOf(object), "", map[reflect.Type]bool{}, paths)
	}
	if len(paths) < 5 {
		t.Errorf("only %v are quantities", paths)
	}
	for name := range paths {
		raw := `{"` + name + `":"1e-30000000"}`
		if err := quantity.Unmarshal([]byte(raw), &struct{}{}); err == nil {
			t.Errorf("%s is a quantity and is not looked at", name)
		}
	}
}

// quantitiesIn adds the names of a type's quantity fields.
func quantitiesIn(t reflect.Type, field string, seen map[reflect.Type]bool, names map[string]bool) {
	if t == reflect.TypeFor[resource.Quantity]() {
		names[field] = true
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		quantitiesIn(t.Elem(), field, seen, names)
	case reflect.Struct:
		if seen[t] {
			return
		}
		seen[t] = true
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			quantitiesIn(f.Type, name, seen, names)
		}
	default:
	}
}

// Some kinds are decoded by the library wherever they are read. This is safe as long as nothing in them is a quantity.
func TestKindsThatAreReadWithTheirTypesHoldNoQuantity(t *testing.T) {
	for _, object := range []any{appsv1alpha1.PodProbeMarker{}, appsv1alpha1.NodePodProbe{}, appsv1beta1.NodeImage{}, appsv1beta1.ContainerRecreateRequest{}} {
		if path := quantityIn(reflect.TypeOf(object), map[reflect.Type]bool{}); path != "" {
			t.Errorf("%T%s is a quantity: read it by this package", object, path)
		}
	}
	if path := quantityIn(reflect.TypeFor[appsv1beta1.SidecarSet](), map[reflect.Type]bool{}); path == "" {
		t.Error("no quantity was found in a kind that has some")
	}
}

// quantityIn is the path of a quantity in a type; empty when there is none.
func quantityIn(t reflect.Type, seen map[reflect.Type]bool) string {
	if t == reflect.TypeFor[resource.Quantity]() {
		return " "
	}
	if seen[t] {
		return ""
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return quantityIn(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if path := quantityIn(f.Type, seen); path != "" {
				return "." + f.Name + path
			}
		}
	default:
	}
	return ""
}
