// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"encoding/json"
	"maps"
	"strconv"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1alpha1"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
)

const (
	typeField    = "type"
	rollingField = "rollingUpdate"
	policyField  = "podUpdatePolicy"
	inPlaceField = "inPlaceUpdateStrategy"
	graceField   = "gracePeriodSeconds"

	typeRolling  = string(v1beta1.RollingUpdateCloneSetUpdateStrategyType)
	typeOnDelete = string(v1beta1.OnDeleteCloneSetUpdateStrategyType)
)

// fields are the parts of a CloneSet that the versions say otherwise, as one of them has them.
type fields struct {
	// Annotations are those about pulling images ahead, and no others.
	Annotations map[string]string `json:"annotations,omitempty"`
	// ExcludeLabel is the value of v1alpha1.LabelExcludePreparingDelete, empty when there is none.
	ExcludeLabel string `json:"excludeLabel,omitempty"`
	// ExcludePreparingDelete is the field of v1beta1.
	ExcludePreparingDelete bool `json:"excludePreparingDelete,omitempty"`
	UpdateStrategy         any  `json:"updateStrategy"`
}

func (f *fields) annotate(key, value string) {
	if f.Annotations == nil {
		f.Annotations = map[string]string{}
	}
	f.Annotations[key] = value
}

// strategy are the members of updateStrategy. A strategy that is no object has none, and is what it is in both versions.
func (f fields) strategy() (members map[string]any, isObject bool) {
	members, isObject = f.UpdateStrategy.(map[string]any)
	return members, isObject || f.UpdateStrategy == nil
}

// withType fills in the type that admission of v1alpha1 gives where there is none. Admission works on v1beta1, which says it always.
func (f fields) withType() fields {
	members, isObject := f.strategy()
	if given := members[typeField]; isObject && (given == nil || given == "") {
		strategy := map[string]any{}
		maps.Copy(strategy, members)
		strategy[typeField] = string(v1alpha1.RecreateCloneSetUpdateStrategyType)
		f.UpdateStrategy = strategy
	}
	return f
}

func (f fields) onDelete() bool {
	members, _ := f.strategy()
	return members[typeField] == typeOnDelete
}

// sharesStrategyWith says whether a written strategy of v1alpha1 is the kept one with changes. When the type OnDelete came or went, it is
// another one. It also is when the kept one is OnDelete without rollingUpdate: v1alpha1 has no way to ask for an empty one.
func (f fields) sharesStrategyWith(written fields) bool {
	if f.onDelete() {
		members, _ := f.strategy()
		return written.onDelete() && members[rollingField] != nil
	}
	return !written.onDelete()
}

// lower is the rule from v1beta1 to v1alpha1: one type for both choices, and annotations for pulling images ahead.
func lower(from fields) fields {
	to := fields{Annotations: maps.Clone(from.Annotations), ExcludeLabel: from.ExcludeLabel, UpdateStrategy: from.UpdateStrategy}
	members, isObject := from.strategy()
	if !isObject {
		return to
	}
	strategy := map[string]any{}
	rolling, _ := members[rollingField].(map[string]any)
	maps.Copy(strategy, rolling)
	delete(strategy, policyField)
	if inPlace, isObject := rolling[inPlaceField].(map[string]any); isObject {
		delete(strategy, inPlaceField)
		if rest := to.annotateFrom(inPlace); rest != nil {
			strategy[inPlaceField] = rest
		}
	}
	strategy[typeField] = string(v1alpha1.RecreateCloneSetUpdateStrategyType)
	if policy := rolling[policyField]; policy == string(shared.InPlaceIfPossible) || policy == string(shared.InPlaceOnly) {
		strategy[typeField] = policy
	}
	given := members[typeField]
	if _, isText := given.(string); given == typeOnDelete || given != nil && !isText {
		strategy[typeField] = given
	}
	to.UpdateStrategy = strategy
	return to
}

// annotateFrom writes the fields about pulling images ahead as annotations, and returns the others. An empty object stays one, or tools would see a
// difference to the manifest that has it.
func (f *fields) annotateFrom(inPlace map[string]any) (rest map[string]any) {
	rest = maps.Clone(inPlace)
	for _, key := range preDownload() {
		text, isText := inPlace[key.field].(string)
		number, isNumber := inPlace[key.field].(json.Number)
		if isText || isNumber {
			f.annotate(key.annotation, cmp.Or(text, number.String()))
			delete(rest, key.field)
		}
	}
	if grace, found := rest[graceField]; len(rest) < len(inPlace) && (len(rest) == 0 || len(rest) == 1 && found && grace == json.Number("0")) {
		return nil
	}
	return rest
}

// raise is the rule from v1alpha1 to v1beta1. With the type OnDelete no other field has a meaning, so only those are raised that have to be refused.
func raise(from fields) fields {
	to := raiseWhole(from)
	if !from.onDelete() {
		return to
	}
	strategy := map[string]any{typeField: typeOnDelete}
	members, _ := to.strategy()
	rolling, _ := members[rollingField].(map[string]any)
	maps.DeleteFunc(rolling, func(name string, value any) bool {
		text, err := json.Marshal(map[string]any{name: value})
		return err == nil && json.Unmarshal(text, &v1beta1.RollingUpdateCloneSetStrategy{}) == nil
	})
	if len(rolling) > 0 {
		strategy[rollingField] = rolling
	}
	to.UpdateStrategy = strategy
	return to
}

// raiseWhole is raise that raises the other fields of OnDelete too, for telling what a client changed.
func raiseWhole(from fields) fields {
	to := from
	to.Annotations, to.ExcludePreparingDelete = maps.Clone(from.Annotations), from.ExcludeLabel == "true"
	members, isObject := from.strategy()
	if !isObject {
		return to
	}
	rolling := map[string]any{}
	maps.Copy(rolling, members)
	delete(rolling, typeField)
	if inPlace, isObject := members[inPlaceField].(map[string]any); isObject || members[inPlaceField] == nil {
		delete(rolling, inPlaceField)
		if read := inPlaceStrategy(inPlace, from.Annotations); len(read) > 0 || inPlace != nil {
			rolling[inPlaceField] = read
		}
	}
	strategy := map[string]any{typeField: typeRolling, rollingField: rolling}
	rolling[policyField] = string(shared.RecreatePods)
	given := members[typeField]
	_, isText := given.(string)
	switch {
	case given == typeOnDelete:
		strategy[typeField] = given // the type has the place of the policy
		delete(rolling, policyField)
	case given == string(shared.InPlaceIfPossible), given == string(shared.InPlaceOnly):
		rolling[policyField] = given
	case given != nil && !isText:
		strategy[typeField] = given
	}
	to.UpdateStrategy = strategy
	return to
}

// preDownloadKey is an annotation of v1alpha1 and the field of inPlaceUpdateStrategy of v1beta1 that it is.
type preDownloadKey struct{ annotation, field string }

func preDownload() []preDownloadKey {
	return []preDownloadKey{
		{shared.AnnotationPreDownloadParallelism, "imagePreDownloadParallelism"},
		{shared.AnnotationPreDownloadTimeoutSeconds, "imagePreDownloadTimeoutSeconds"},
		{shared.AnnotationPreDownloadMinUpdatedReadyPods, "imagePreDownloadMinUpdatedReadyPods"},
	}
}

// inPlaceStrategy reads the annotations into the strategy. What is not a whole number of at least 0 is ignored, percentages
// included: the fields hold none. The fields of the strategy that the annotations stand for have no effect in v1alpha1.
func inPlaceStrategy(strategy map[string]any, annotations map[string]string) map[string]any {
	read := map[string]any{}
	maps.Copy(read, strategy)
	for _, key := range preDownload() {
		delete(read, key.field)
		if n, err := strconv.ParseInt(annotations[key.annotation], 10, 32); err == nil && n >= 0 {
			read[key.field] = json.Number(strconv.FormatInt(n, 10))
		}
	}
	return read
}
