// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"cmp"
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
	addShare(input, share)
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

// addShare adds matches and headers, with their defaults, as JSON has them.
func addShare(input map[string]any, share traffic.Share) {
	matches := make([]v1beta1.HTTPRouteMatch, len(share.Matches))
	for i := range share.Matches {
		share.Matches[i].DeepCopyInto(&matches[i])
		complete(&matches[i])
	}
	text, _ := json.Marshal(v1beta1.TrafficRoutingStrategy{Matches: matches, RequestHeaderModifier: share.Headers})
	_ = json.Unmarshal(text, &input)
}

func complete(match *v1beta1.HTTPRouteMatch) {
	exact, prefix, root := "Exact", "PathPrefix", "/"
	for _, all := range [][]v1beta1.HTTPNamedMatch{match.Headers, match.QueryParams} {
		for i := range all {
			all[i].Type = cmp.Or(all[i].Type, &exact)
		}
	}
	if p := match.Path; p != nil {
		p.Type, p.Value = cmp.Or(p.Type, &prefix), cmp.Or(p.Value, &root)
	}
}
