// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/rollouts/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/traffic"
)

const (
	// ConfigMap has the scripts, in the namespace of the operator.
	ConfigMap = "kruise-rollout-configuration"
	prefix    = "lua.traffic.routing."
)

// IngressKey is where the ConfigMap has the script of a class of Ingresses.
func IngressKey(class string) string { return prefix + "ingress." + class }

// ObjectKey is where it has that of other objects.
func ObjectKey(kind, group string) string { return prefix + kind + "." + group }

// Annotator computes the annotations of a second Ingress.
type Annotator struct{ Run Run }

// Check implements ingress.Annotator. Only the script knows.
func (Annotator) Check(traffic.Share, traffic.Names, *field.Path) field.ErrorList { return nil }

// Annotations implements ingress.Annotator.
func (a Annotator) Annotations(user map[string]string, share traffic.Share, names traffic.Names) (map[string]string, error) {
	weight := "-1"
	if share.Weight != nil {
		weight = fmt.Sprint(*share.Weight)
	}
	input := map[string]any{"annotations": named(user), "weight": weight, "canaryService": names.Canary}
	if err := addShare(input, share); err != nil {
		return nil, err
	}
	result, err := a.Run(input)
	if err != nil {
		return nil, traffic.Refuse("the script of the class: %v", err)
	}
	return texts(result, "annotation")
}

// texts are the values of a result; numbers and truths count as texts.
func texts(result map[string]any, what string) (map[string]string, error) {
	all := make(map[string]string, len(result))
	for key, value := range result {
		switch value.(type) {
		case string, int64, float64, bool:
			all[key] = fmt.Sprint(value)
		default:
			return nil, traffic.Refuse("the script returned the %s %s, and it is no text", what, key)
		}
	}
	return all, nil
}

// addShare adds matches and headers, with their defaults.
func addShare(input map[string]any, share traffic.Share) error {
	if len(share.Matches) > 0 {
		matches := make([]v1beta1.HTTPRouteMatch, len(share.Matches))
		for i := range share.Matches {
			share.Matches[i].DeepCopyInto(&matches[i])
			complete(&matches[i])
		}
		if err := add(input, "matches", matches); err != nil {
			return err
		}
	}
	if share.Headers != nil {
		return add(input, "requestHeaderModifier", share.Headers)
	}
	return nil
}

func complete(match *v1beta1.HTTPRouteMatch) {
	exact, prefix, root := "Exact", "PathPrefix", "/"
	for _, all := range [][]v1beta1.HTTPNamedMatch{match.Headers, match.QueryParams} {
		for i := range all {
			if all[i].Type == nil {
				all[i].Type = &exact
			}
		}
	}
	if p := match.Path; p != nil && p.Type == nil {
		p.Type = &prefix
	}
	if p := match.Path; p != nil && p.Value == nil {
		p.Value = &root
	}
}

// add puts a typed value into the input as JSON has it.
func add(input map[string]any, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", key, err)
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return fmt.Errorf("decoding %s: %w", key, err)
	}
	input[key] = plain
	return nil
}
