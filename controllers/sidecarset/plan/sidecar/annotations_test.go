// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"strings"
	"testing"

	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecar"
)

// Each policy on pods without the annotation, with their own, and with an unmergeable one.
func TestAnnotationsByPolicy(t *testing.T) {
	const absent = "absent"
	for name, tc := range map[string]struct {
		policy, has, wants, gets string
		// refused is why the pod cannot be created.
		refused string
	}{
		"retained, and absent":           {policy: "Retain", has: absent, wants: "set", gets: "set"},
		"retained, and there":            {policy: "Retain", has: "pod", wants: "set", gets: "pod"},
		"retained, and there but empty":  {policy: "Retain", has: "", wants: "set", gets: ""},
		"no policy retains":              {has: "pod", wants: "set", gets: "pod"},
		"overwritten, and absent":        {policy: "Overwrite", has: absent, wants: "set", gets: "set"},
		"overwritten, and there":         {policy: "Overwrite", has: "pod", wants: "set", gets: "set"},
		"overwritten, what is no JSON":   {policy: "Overwrite", has: "{", wants: `{"a":1}`, gets: `{"a":1}`},
		"merged, and absent":             {policy: "MergePatchJson", has: absent, wants: `{"a":1}`, gets: `{"a":1}`},
		"merged, and empty":              {policy: "MergePatchJson", has: "", wants: `{"a":1}`, gets: `{"a":1}`},
		"merged, and there":              {policy: "MergePatchJson", has: `{"a":2,"b":{"c":3}}`, wants: `{"a":1,"b":{"c":null,"d":4}}`, gets: `{"a":1,"b":{"d":4}}`},
		"merged, and the same":           {policy: "MergePatchJson", has: `{ "a": 1 }`, wants: `{"a":1}`, gets: `{ "a": 1 }`},
		"merged into a list":             {policy: "MergePatchJson", has: `[1]`, wants: `{"a":1}`, gets: `{"a":1}`},
		"merged into what is no JSON":    {policy: "MergePatchJson", has: "{", wants: `{"a":1}`, refused: "the value that the pod has is no JSON"},
		"merged, and no JSON to merge":   {policy: "MergePatchJson", has: `{"b":2}`, wants: "{", refused: "the value in patchPodMetadata is no JSON"},
		"merged beside a large number":   {policy: "MergePatchJson", has: `{"id":9007199254740993}`, wants: `{"a":1}`, gets: `{"a":1,"id":9007199254740993}`},
		"merged with a large number":     {policy: "MergePatchJson", has: `{"b":1}`, wants: `{"id":9007199254740993}`, gets: `{"b":1,"id":9007199254740993}`},
		"merged, a number after another": {policy: "MergePatchJson", has: `{"id":9007199254740992}`, wants: `{"id":9007199254740993}`, gets: `{"id":9007199254740993}`},
		"merged beside a decimal number": {policy: "MergePatchJson", has: `{"ratio":1.50}`, wants: `{"a":1}`, gets: `{"a":1,"ratio":1.50}`},
		"merged beside signs of HTML":    {policy: "MergePatchJson", has: `{"b":"<&>"}`, wants: `{"a":1}`, gets: `{"a":1,"b":"<&>"}`},
		"a policy that does not exist":   {policy: "Add", has: absent, wants: "set", gets: absent},
	} {
		t.Run(name, func(t *testing.T) {
			s := set(t, "log", "selector: {matchLabels: {app: shop}}\ncontainers: [{name: agent, image: a}]\n"+
				"patchPodMetadata: [{annotations: {k: '"+tc.wants+"'}, patchPolicy: '"+tc.policy+"'}]")
			pod := object(t, shopPod)
			if tc.has != absent {
				pod["metadata"].(map[string]any)["annotations"] = map[string]any{"k": tc.has}
			}
			after, err := injected(t, pod, []*sidecar.Set{s})
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), "SidecarSet log: merging into annotation k: "+tc.refused) {
					t.Errorf("the pod is answered with %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			annotations, _ := after["metadata"].(map[string]any)["annotations"].(map[string]any)
			value, is := annotations["k"]
			if !is {
				value = absent
			}
			if value != tc.gets {
				t.Errorf("the pod has %v, want %s", value, tc.gets)
			}
			sameInEveryOrder(t, pod, []*sidecar.Set{s}, after)
		})
	}
}
