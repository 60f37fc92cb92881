// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// Revision is a recorded template.
type Revision = revision.Of[appsv1beta1.SubsetTemplate]

// Templates records templates. A revision has OpenKruise's bytes for the same template, unless the
// template has unknown fields. It carries the labels of the pods, for the selector.
func Templates() revision.Codec[appsv1beta1.SubsetTemplate] {
	return revision.Codec[appsv1beta1.SubsetTemplate]{
		Encode: encode, Decode: decode, Same: sameTemplate,
		Labels: func(t *appsv1beta1.SubsetTemplate) map[string]string {
			for _, a := range Given(t) {
				return a.Template(t).Metadata.Labels
			}
			return nil
		},
	}
}

// RevisionLabel is the label's value for a revision: its name, or the end of a long name, with the
// hash.
func RevisionLabel(name string) string {
	const longest = 63
	if len(name) <= longest {
		return name
	}
	return strings.TrimLeft(name[len(name)-longest:], "-.")
}

func encode(t *appsv1beta1.SubsetTemplate) ([]byte, error) {
	payload := map[string]any{}
	for _, a := range Given(t) {
		template := a.Template(t)
		known := map[string]any{}
		spec, whole, err := typed(a, template.Spec.Raw)
		if err == nil && whole {
			known, err = runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
		}
		if err != nil || !whole {
			// A template unreadable as its kind's type is recorded as it is.
			if err := utiljson.Unmarshal(template.Spec.Raw, &known); err != nil {
				return nil, fmt.Errorf("encoding spec.template.%s: %w", a.Field, err)
			}
		}
		dropNulls(known)
		delete(known, "replicas")
		metadata := untyped(&template.Metadata)
		metadata["creationTimestamp"] = nil
		if pod, ok := known["template"].(map[string]any); ok {
			inner, ok := pod["metadata"].(map[string]any)
			if !ok {
				inner = map[string]any{}
				pod["metadata"] = inner
			}
			inner["creationTimestamp"] = nil
		}
		payload[a.Field] = map[string]any{"metadata": metadata, "spec": known}
	}
	return revision.Replacement(payload, "spec", "template")
}

var errNoRecordedTemplate = errors.New("its data has no spec.template")

func decode(raw []byte) (*appsv1beta1.SubsetTemplate, error) {
	var data struct {
		Spec struct {
			Template *appsv1beta1.SubsetTemplate `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &data); err != nil {
		return nil, err
	}
	if data.Spec.Template == nil || len(Given(data.Spec.Template)) != 1 {
		return nil, errNoRecordedTemplate
	}
	return data.Spec.Template, nil
}

// sameTemplate says whether two templates make the same workloads. Both are read as the type of
// their kind, with the defaults of pods. With fields unknown to it they are compared as written.
func sameTemplate(x, y *appsv1beta1.SubsetTemplate) bool {
	left, right := Given(x), Given(y)
	if len(left) != 1 || len(right) != 1 || left[0].Field != right[0].Field {
		return false
	}
	a := left[0]
	mine, theirs := a.Template(x), a.Template(y)
	if !equality.Semantic.DeepEqual(mine.Metadata.Labels, theirs.Metadata.Labels) ||
		!equality.Semantic.DeepEqual(mine.Metadata.Annotations, theirs.Metadata.Annotations) {
		return false
	}
	first, whole, err := typed(a, mine.Spec.Raw)
	second, otherWhole, otherErr := typed(a, theirs.Spec.Raw)
	if err != nil || otherErr != nil || !whole || !otherWhole {
		return sameJSON(mine.Spec.Raw, theirs.Spec.Raw)
	}
	if recorded := podTemplateOf(second); filledIn(a, recorded) {
		keepPulls(podTemplateOf(first), recorded)
	}
	fillIn(a, first)
	fillIn(a, second)
	return equality.Semantic.DeepEqual(first, second)
}

// Fixed names what differs between the specs of two templates although workloads do not let it change. Defaults of the API server make no difference:
// OpenKruise wrote them into stored templates, and a manifest has none.
func (a *Adapter) Fixed(now, before *appsv1beta1.WorkloadTemplate) []string {
	if a.changeable == nil || bytes.Equal(now.Spec.Raw, before.Spec.Raw) {
		return nil
	}
	is, _, err := typed(*a, now.Spec.Raw)
	was, _, otherErr := typed(*a, before.Spec.Raw)
	if err != nil || otherErr != nil {
		return nil
	}
	left, right := a.filled(is), a.filled(was)
	var fixed []string
	for i := range left.NumField() {
		name, _, _ := strings.Cut(left.Type().Field(i).Tag.Get("json"), ",")
		if !slices.Contains(a.changeable, name) && !equality.Semantic.DeepEqual(left.Field(i).Interface(), right.Field(i).Interface()) {
			fixed = append(fixed, name)
		}
	}
	slices.Sort(fixed)
	return fixed
}

// filled are the fields of a spec with all defaults.
func (a *Adapter) filled(spec any) reflect.Value {
	fillIn(*a, spec)
	fields := reflect.ValueOf(spec).Elem()
	if policy := fields.FieldByName("PodManagementPolicy"); policy.String() == "" {
		policy.SetString(string(appsv1.OrderedReadyPodManagement))
	}
	return fields
}

// filledIn: a recorded template of a native kind has OpenKruise's defaults, with the pull policy
// Always whatever the tag. The user's manifest has none of them.
func filledIn(a Adapter, t *corev1.PodTemplateSpec) bool {
	return a.asWritten && t.Spec.DNSPolicy != "" && t.Spec.RestartPolicy != "" && t.Spec.SchedulerName != "" && t.Spec.SecurityContext != nil &&
		!slices.ContainsFunc(t.Spec.Containers, func(c corev1.Container) bool { return c.ImagePullPolicy == "" || c.TerminationMessagePath == "" })
}

// keepPulls writes the policy Always into containers without one, as in the recorded template.
func keepPulls(t, recorded *corev1.PodTemplateSpec) {
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		if c.ImagePullPolicy == "" && slices.ContainsFunc(recorded.Spec.Containers, func(other corev1.Container) bool {
			return other.Name == c.Name && other.ImagePullPolicy == corev1.PullAlways
		}) {
			c.ImagePullPolicy = corev1.PullAlways
		}
	}
}

func sameJSON(a, b []byte) bool {
	var left, right map[string]any
	if utiljson.Unmarshal(a, &left) != nil || utiljson.Unmarshal(b, &right) != nil {
		return false
	}
	dropNulls(left)
	dropNulls(right)
	return reflect.DeepEqual(left, right)
}

// typed reads the spec of a workload as the type of its kind. whole: the type knows all of its fields.
func typed(a Adapter, raw []byte) (spec any, whole bool, err error) {
	spec = a.typed()
	if err := quantity.Unmarshal(raw, spec); err != nil {
		return nil, false, err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return spec, !quantity.Suspect(raw) && decoder.Decode(a.typed()) == nil, nil
}

// podTemplateOf is the pod template in the spec of a workload.
func podTemplateOf(spec any) *corev1.PodTemplateSpec {
	template, _ := reflect.ValueOf(spec).Elem().FieldByName("Template").Addr().Interface().(*corev1.PodTemplateSpec)
	return template
}

// fillIn fills in the defaults of pods and claims, and drops empty values from the spec of a
// workload.
func fillIn(a Adapter, spec any) {
	defaulted := podtemplate.Defaulted
	if a.asWritten {
		defaulted = podtemplate.DefaultedAsWritten
	}
	template := podTemplateOf(spec)
	*template = *defaulted(template)
	template.CreationTimestamp.Reset()
	fields := reflect.ValueOf(spec).Elem()
	if claims := fields.FieldByName("VolumeClaimTemplates"); claims.IsValid() {
		list, _ := claims.Interface().([]corev1.PersistentVolumeClaim)
		claims.Set(reflect.ValueOf(revision.DefaultedClaims(list)))
	}
	// Neither says anything here: the first is not allowed, the second follows from the UnitedDeployment.
	fields.FieldByName("Replicas").SetZero()
	fields.FieldByName("Selector").SetZero()
}
