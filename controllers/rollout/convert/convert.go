// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts Rollouts between their versions.
package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
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

// form is what the versions say otherwise, as JSON. In it, lists of which users change single items are objects, with indexes as names.
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
		is.Spec[name] = value
	}
	for _, strategy := range strategies(is.Spec) {
		replace(strategy, stepsField, indexed)
		for _, step := range items(strategy[stepsField]) {
			replace(step, matchesField, indexed)
		}
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
	spec := clone(will.Spec)
	for _, strategy := range strategies(spec) {
		for _, step := range items(strategy[stepsField]) {
			replace(step, matchesField, listed)
		}
		replace(strategy, stepsField, listed)
	}
	for name, value := range spec {
		text, err := json.Marshal(value)
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

// strategies are the objects with steps.
func strategies(spec tree) (found []tree) {
	strategy, _ := spec["strategy"].(tree)
	for _, name := range []string{"canary", "blueGreen"} {
		if s, isObject := strategy[name].(tree); isObject {
			found = append(found, s)
		}
	}
	return found
}

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

func replace(object tree, name string, with func(any) any) {
	if value, found := object[name]; found {
		object[name] = with(value)
	}
}

// indexed turns a list into an object, with a mark that no client writes by accident. Null items would be lost in a merge.
func indexed(value any) any {
	list, isList := value.([]any)
	if !isList || len(list) == 0 {
		return value
	}
	object := tree{}
	for i, item := range list {
		if item == nil {
			return value
		}
		object[marker+strconv.Itoa(i)] = item
	}
	return object
}

func listed(value any) any {
	object, isObject := value.(tree)
	if !isObject || len(object) == 0 {
		return value
	}
	list := make([]any, len(object))
	for name, item := range object {
		i, err := strconv.Atoi(strings.TrimPrefix(name, marker))
		if err != nil || i < 0 || i >= len(list) || !strings.HasPrefix(name, marker) {
			return value
		}
		list[i] = item
	}
	return list
}

func set(f *form, name, value string) {
	if f.Annotations == nil {
		f.Annotations = map[string]string{}
	}
	f.Annotations[name] = value
}

// clone copies a tree as deep as converting changes it.
func clone(t tree) tree {
	copied := maps.Clone(t)
	for name, value := range copied {
		if object, isObject := value.(tree); isObject {
			copied[name] = clone(object)
		}
	}
	return copied
}

func copied(f form) form { return form{Spec: clone(f.Spec), Annotations: maps.Clone(f.Annotations)} }

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
