// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/cloneset/convert"
)

// rounds is how many random objects each property is tried with.
const rounds = 500

func TestCloneSetRoundTripFromHub(t *testing.T) {
	for seed := range int64(rounds) {
		fill := filler(seed)
		hub := &v1beta1.CloneSet{}
		fill.Fill(hub)
		source := hub.DeepCopy()
		back := fromSpoke(t, toSpoke(t, hub))
		same(t, seed, "changed its source", source, hub)
		same(t, seed, "came back otherwise", hub, back)
	}
}

func TestCloneSetRoundTripFromSpoke(t *testing.T) {
	for seed := range int64(rounds) {
		fill := filler(seed)
		spoke := &v1alpha1.CloneSet{}
		fill.Fill(spoke)
		source := spoke.DeepCopy()
		back := toSpoke(t, fromSpoke(t, spoke))
		same(t, seed, "changed its source", source, spoke)
		same(t, seed, "came back otherwise", spoke, back)
	}
}

// Where v1alpha1 has no type, admission gives the default. It works on v1beta1, which always has one, so conversion has to.
func TestCloneSetWithoutType(t *testing.T) {
	// An earlier release kept the empty type.
	const kept = `{"apiVersion":"apps.kruise.io/v1alpha1","fields":{"updateStrategy":{}},"shown":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"ReCreate"}}}}`
	of := func(policy shared.PodUpdatePolicy, annotations map[string]string) *v1beta1.CloneSet {
		set := &v1beta1.CloneSet{}
		set.Annotations = annotations
		set.Spec.UpdateStrategy = v1beta1.CloneSetUpdateStrategy{
			Type: v1beta1.RollingUpdateCloneSetUpdateStrategyType, RollingUpdate: &v1beta1.RollingUpdateCloneSetStrategy{PodUpdatePolicy: policy},
		}
		return set
	}
	for name, tc := range map[string]struct {
		hub  *v1beta1.CloneSet
		want v1alpha1.CloneSetUpdateStrategyType
	}{
		"written":               {hub: fromSpoke(t, &v1alpha1.CloneSet{}), want: "ReCreate"},
		"kept":                  {hub: of("ReCreate", map[string]string{shared.AnnotationConversionData: kept}), want: "ReCreate"},
		"kept, then in v1beta1": {hub: of("InPlaceOnly", map[string]string{shared.AnnotationConversionData: kept}), want: "InPlaceOnly"},
	} {
		t.Run(name, func(t *testing.T) {
			spoke := toSpoke(t, tc.hub)
			if spoke.Spec.UpdateStrategy.Type != tc.want || len(spoke.Annotations) > 0 {
				t.Errorf("the type is %q, want %q; annotations %v", spoke.Spec.UpdateStrategy.Type, tc.want, spoke.Annotations)
			}
		})
	}
}

// What a client writes in either version reads back as written, whatever clients of both versions wrote before.
func TestCloneSetReadsBackAsWritten(t *testing.T) {
	for seed := range int64(rounds) {
		fill := filler(seed)
		hub := &v1beta1.CloneSet{}
		fill.Fill(hub)
		for step := range 6 {
			if step%2 == 1 {
				editHub(fill, hub, seed/6+int64(step))
				same(t, seed, fmt.Sprintf("step %d: the hub reads otherwise", step), bare(hub), bare(fromSpoke(t, toSpoke(t, hub))))
				continue
			}
			spoke := toSpoke(t, hub)
			editSpoke(fill, spoke, seed+int64(step))
			hub = fromSpoke(t, spoke)
			same(t, seed, fmt.Sprintf("step %d: the spoke reads otherwise", step), bareSpoke(spoke), bareSpoke(toSpoke(t, hub)))
		}
	}
}

// editHub writes one part of the object anew, as a client would who read it.
func editHub(fill *randfill.Filler, set *v1beta1.CloneSet, which int64) {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	switch which % 8 {
	case 0:
		fill.Fill(&set.Spec.ScaleStrategy)
	case 1:
		fill.Fill(&set.Spec.UpdateStrategy)
	case 2:
		fill.Fill(&set.Spec.UpdateStrategy.Type)
	case 3:
		set.Labels = relabel(fill, set.Labels)
	case 4:
		set.Annotations = reannotate(fill, set.Annotations)
	case 5:
		if rolling != nil {
			fill.Fill(&rolling.Partition)
		}
	case 6:
		if rolling != nil {
			fill.Fill(&rolling.InPlaceUpdateStrategy)
		}
	case 7:
		if rolling != nil {
			fill.Fill(&rolling.PodUpdatePolicy)
		}
	}
}

// editSpoke is editHub for v1alpha1.
func editSpoke(fill *randfill.Filler, set *v1alpha1.CloneSet, which int64) {
	switch which % 8 {
	case 0:
		fill.Fill(&set.Spec.ScaleStrategy)
	case 1:
		fill.Fill(&set.Spec.UpdateStrategy)
	case 2:
		fill.Fill(&set.Spec.UpdateStrategy.Type)
	case 3:
		set.Labels = relabel(fill, set.Labels)
	case 4:
		set.Annotations = reannotate(fill, set.Annotations)
	case 5:
		fill.Fill(&set.Spec.UpdateStrategy.Partition)
	case 6:
		fill.Fill(&set.Spec.UpdateStrategy.InPlaceUpdateStrategy)
	}
}

func relabel(fill *randfill.Filler, _ map[string]string) map[string]string {
	var object metav1.ObjectMeta
	fill.Fill(&object)
	return object.Labels
}

// reannotate writes other annotations and carries the one of the conversion along, as clients do that read before they write.
func reannotate(fill *randfill.Filler, before map[string]string) map[string]string {
	var object metav1.ObjectMeta
	fill.Fill(&object)
	if kept, found := before[shared.AnnotationConversionData]; found {
		object.Annotations[shared.AnnotationConversionData] = kept
	}
	return object.Annotations
}

// filler fills objects with values that matter for the conversion, valid or not. Templates pass through whole and stay small.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 2).Funcs(
		func(v *corev1.PodTemplateSpec, c randfill.Continue) {
			v.Spec.Containers = []corev1.Container{{Name: "main", Image: pick(c, "example/web:1", "example/web:2")}}
		},
		func(v *corev1.PersistentVolumeClaim, c randfill.Continue) { v.Name = pick(c, "data", "logs") },
		func(v *metav1.Time, c randfill.Continue) { *v = metav1.NewTime(time.Unix(int64(c.Uint32()), 0)) },
		func(v *metav1.TypeMeta, _ randfill.Continue) {},
		func(v *metav1.ObjectMeta, c randfill.Continue) {
			v.Name, v.Namespace, v.Generation = pick(c, "web", "api"), "default", int64(c.Intn(3))
			v.Labels = map[string]string{"app": pick(c, "web", "api")}
			if c.Bool() {
				v.Labels[v1alpha1.LabelExcludePreparingDelete] = pick(c, "true", "false", "")
			}
			v.Annotations = map[string]string{"note": pick(c, "a", "b")}
			for _, key := range []string{shared.AnnotationPreDownloadParallelism, shared.AnnotationPreDownloadTimeoutSeconds,
				shared.AnnotationPreDownloadMinUpdatedReadyPods} {
				if c.Bool() {
					v.Annotations[key] = pick(c, "0", "7", "07", "-1", "10%", "many", "")
				}
			}
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = intstr.Parse(pick(c, "0", "1", "3", "20%", "12.5%", "many"))
			if c.Intn(4) == 0 {
				*v = intstr.FromString(pick(c, "5", "07"))
			}
		},
		func(v *int32, c randfill.Continue) { *v = int32(c.Intn(5)) - 1 },
		func(v *v1beta1.CloneSetUpdateStrategyType, c randfill.Continue) {
			*v = pick[v1beta1.CloneSetUpdateStrategyType](c, "", "RollingUpdate", "OnDelete", "OnDelete", "Sideways")
		},
		func(v *v1alpha1.CloneSetUpdateStrategyType, c randfill.Continue) {
			// The empty type comes back as the default, see TestCloneSetWithoutType.
			*v = pick[v1alpha1.CloneSetUpdateStrategyType](c, "ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete", "OnDelete", "Sideways")
		},
		func(v *shared.PodUpdatePolicy, c randfill.Continue) {
			*v = pick[shared.PodUpdatePolicy](c, "", "ReCreate", "InPlaceIfPossible", "InPlaceOnly", "Sideways")
		},
	)
}

func pick[T any](c randfill.Continue, from ...T) T { return from[c.Intn(len(from))] }

func toSpoke(t *testing.T, hub *v1beta1.CloneSet) *v1alpha1.CloneSet {
	t.Helper()
	return converted[v1alpha1.CloneSet](t, hub, v1beta1.GroupVersion(), v1alpha1.GroupVersion())
}

func fromSpoke(t *testing.T, spoke *v1alpha1.CloneSet) *v1beta1.CloneSet {
	t.Helper()
	return converted[v1beta1.CloneSet](t, spoke, v1alpha1.GroupVersion(), v1beta1.GroupVersion())
}

// converted is an object of one version in another one.
func converted[To any](t *testing.T, from any, version, to schema.GroupVersion) *To {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		t.Fatal(err)
	}
	object["apiVersion"], object["kind"] = version.String(), "CloneSet"
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	raw, err = convert.Converter().Convert(t.Context(), raw, to.String())
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	if raw, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	result := new(To)
	if err := json.Unmarshal(raw, result); err != nil {
		t.Fatal(err)
	}
	return result
}

func bare(set *v1beta1.CloneSet) *v1beta1.CloneSet {
	set = set.DeepCopy()
	set.Annotations = without(set.Annotations)
	return set
}

func bareSpoke(set *v1alpha1.CloneSet) *v1alpha1.CloneSet {
	set = set.DeepCopy()
	set.Annotations = without(set.Annotations)
	return set
}

// without leaves out what the conversion keeps for itself. It may be spelled in two ways that mean the same.
func without(annotations map[string]string) map[string]string {
	annotations = maps.Clone(annotations)
	delete(annotations, shared.AnnotationConversionData)
	return annotations
}

func same(t *testing.T, seed int64, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("seed %d: %s (-want +got):\n%s", seed, what, diff)
	}
}
