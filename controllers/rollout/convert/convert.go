// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts Rollouts between their versions.
package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kruise-operator/kruise-operator/api/rollouts/shared"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/conversion"
)

// maxStored is more than an etcd takes of an object, in bytes.
const maxStored = 3 << 19

// Converter converts Rollouts. Status is the same in both versions. A spec that v1alpha1 cannot express is kept beside it.
func Converter() conversion.Converter {
	old, hub := v1alpha1.GroupVersion(), v1beta1.GroupVersion()
	return conversion.Converter{
		GroupKind:    hub.WithKind("Rollout").GroupKind(),
		ToV1alpha1:   func(o *conversion.Object) error { return convert(o, old, lower, hub, raise) },
		FromV1alpha1: func(o *conversion.Object) error { return convert(o, hub, raise, old, lower) },
	}
}

// tree is JSON.
type tree = map[string]any

// form is what the versions say otherwise, as JSON. In it, lists are objects, with indexes as names, as users change single items.
type form struct {
	Spec tree `json:"spec"`
	// Annotations are those with a meaning in one version.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// convert brings an object to a version. back is the way back.
func convert(o *conversion.Object, to schema.GroupVersion, there func(form) form, from schema.GroupVersion, back func(form) form) error {
	kept := conversion.Take[form, form](o, to)
	is, err := read(o)
	if err != nil {
		return err
	}
	will := there(is)
	if kept != nil {
		if will, err = conversion.Rebase(kept.Fields, there(kept.Shown), will); err != nil {
			return err
		}
	}
	if err := write(o, will); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(back(will), is) {
		return nil
	}
	return conversion.Keep(o, from, is, will)
}

func annotations() []string {
	return []string{shared.AnnotationRollingStyle, shared.AnnotationTrafficRouting}
}

func read(o *conversion.Object) (form, error) {
	is := form{Spec: tree{}}
	for _, name := range annotations() {
		if value, found := o.Meta.Annotations[name]; found {
			set(&is, name, value)
		}
	}
	for name, text := range o.Spec {
		if len(text) > maxStored {
			return is, fmt.Errorf("spec.%s has %d bytes, at most %d can be stored", name, len(text), maxStored)
		}
		value, err := conversion.Tree(text)
		if err != nil {
			return is, fmt.Errorf("spec.%s: %w", name, err)
		}
		is.Spec[name] = indexed(value)
	}
	return is, nil
}

func write(o *conversion.Object, will form) error {
	for _, name := range annotations() {
		delete(o.Meta.Annotations, name)
		if value, found := will.Annotations[name]; found {
			o.Annotate(name, value)
		}
	}
	clear(o.Spec)
	for name, value := range will.Spec {
		text, err := json.Marshal(listed(value))
		if err != nil {
			return fmt.Errorf("spec.%s: %w", name, err)
		}
		o.Spec[name] = text
	}
	return nil
}

// Fields with other forms.
const (
	stepsField   = "steps"
	matchesField = "matches"
	marker       = "list of "
)

// items are the objects in an indexed list.
func items(list any) (found []tree) {
	members, _ := list.(tree)
	for _, member := range members {
		if object, isObject := member.(tree); isObject {
			found = append(found, object)
		}
	}
	return found
}

// indexed turns lists into objects with marked names; names of a client that have the mark get it again. Null items would be lost in a merge.
func indexed(value any) any {
	object := tree{}
	switch value := value.(type) {
	case tree:
		for name, member := range value {
			if strings.HasPrefix(name, marker) {
				name = marker + name
			}
			object[name] = indexed(member)
		}
		return object
	case []any:
		for i, item := range value {
			object[marker+strconv.Itoa(i)] = indexed(item)
		}
		if len(value) > 0 && !slices.Contains(value, nil) {
			return object
		}
	}
	return value
}

// listed is the opposite of indexed.
func listed(value any) any {
	members, isObject := value.(tree)
	if !isObject {
		return value
	}
	object, list, isList := tree{}, make([]any, len(members)), len(members) > 0
	for name, member := range members {
		name, marked := strings.CutPrefix(name, marker)
		object[name] = listed(member)
		if i, err := strconv.Atoi(name); marked && err == nil && 0 <= i && i < len(list) {
			list[i] = object[name]
		} else {
			isList = false
		}
	}
	if isList {
		return list
	}
	return object
}

func set(f *form, name, value string) {
	if f.Annotations == nil {
		f.Annotations = map[string]string{}
	}
	f.Annotations[name] = value
}

func copied(f form) form {
	return form{Spec: runtime.DeepCopyJSON(f.Spec), Annotations: maps.Clone(f.Annotations)}
}

// canary is the strategy that both versions have.
func canary(spec tree) tree {
	strategy, _ := spec["strategy"].(tree)
	found, _ := strategy["canary"].(tree)
	return found
}

// raise makes v1beta1 of v1alpha1.
func raise(f form) form {
	f = copied(f)
	if object, isObject := f.Spec["objectRef"].(tree); isObject {
		move(object, f.Spec, "workloadRef")
		if len(object) == 0 {
			delete(f.Spec, "objectRef")
		}
	}
	delete(f.Spec, "rolloutID")
	strategy := canary(f.Spec)
	if strategy == nil {
		return f
	}
	if f.Annotations[shared.AnnotationRollingStyle] != "partition" {
		strategy["enableExtraWorkloadForCanary"] = true
	}
	if name := f.Annotations[shared.AnnotationTrafficRouting]; name != "" {
		strategy["trafficRoutingRef"] = name
	}
	for _, step := range items(strategy[stepsField]) {
		weight, isNumber := step["weight"].(json.Number)
		if !isNumber {
			continue
		}
		delete(step, "weight")
		percent := weight.String() + "%"
		step["traffic"] = percent
		if step["replicas"] == nil {
			step["replicas"] = percent
		}
	}
	return f
}

// lower makes v1alpha1 of v1beta1.
func lower(f form) form {
	f = copied(f)
	if _, found := f.Spec["workloadRef"]; found {
		object := tree{}
		move(f.Spec, object, "workloadRef")
		f.Spec["objectRef"] = object
	}
	strategy, _ := f.Spec["strategy"].(tree)
	delete(strategy, "blueGreen")
	inside := canary(f.Spec)
	if inside == nil {
		return f
	}
	style := "partition"
	if extra, _ := inside["enableExtraWorkloadForCanary"].(bool); extra {
		style = "canary"
	}
	delete(inside, "enableExtraWorkloadForCanary")
	set(&f, shared.AnnotationRollingStyle, style)
	if name, _ := inside["trafficRoutingRef"].(string); name != "" {
		set(&f, shared.AnnotationTrafficRouting, name)
	}
	delete(inside, "trafficRoutingRef")
	for _, step := range items(inside[stepsField]) {
		lowerStep(step)
	}
	return f
}

func lowerStep(step tree) {
	delete(step, "progressDeadlineSeconds")
	if traffic, found := step["traffic"].(string); found {
		if percent, err := strconv.ParseInt(strings.TrimSuffix(traffic, "%"), 10, 32); err == nil && strings.HasSuffix(traffic, "%") {
			step["weight"] = json.Number(strconv.FormatInt(percent, 10))
		}
	}
	delete(step, "traffic")
	for _, match := range items(step[matchesField]) {
		delete(match, "path")
		delete(match, "queryParams")
	}
}

// move moves a member.
func move(from, to tree, name string) {
	if value, found := from[name]; found {
		delete(from, name)
		to[name] = value
	}
}
