// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"encoding/json"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/kruise-operator/kruise-operator/internal/testutil/fuzzing"
)

// FuzzCompile compiles two SidecarSets as they are stored into what the policy and the webhook interpret. It ends, and is read again as it was
// written.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"app":"web"}}}}`,
		`{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"app":"web"}},"containers":[{"name":"agent","image":"a:1"}],"volumes":[{"name":"v"}]}}`,
		`{"metadata":{"name":"b"},"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"In","values":[]}]},"containers":[{"name":"agent","image":"",
			"podInjectPolicy":"AfterAppContainer","upgradeStrategy":{"upgradeType":"HotUpgrade"},"shareVolumePolicy":{"type":"enabled"}}]}}`,
		`{"metadata":{"name":"c"},"spec":{"selector":{"matchLabels":{"app":"web"}},"initContainers":[{"name":"i","restartPolicy":"Always"}],
			"patchPodMetadata":[{"annotations":{"a":"{"},"patchPolicy":"MergePatchJson"}]}}`,
		`{"spec":{"selector":{"matchLabels":{"a":"b"}},"containers":[{"transferEnv":[{"sourceContainerName":"main","envName":"A"}]},7]}}`,
	} {
		f.Add([]byte(seed), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		fuzzing.Within(t, len(first)+len(second), func() {
			var all []*Set
			for _, data := range [][]byte{first, second} {
				var object map[string]any
				if utiljson.Unmarshal(data, &object) != nil || object == nil {
					return
				}
				set, err := ParseSet(object)
				if err != nil {
					return
				}
				all = append(all, set)
			}
			compiled, err := Compile(all[0], all)
			if err != nil {
				return
			}
			written, err := json.Marshal(compiled)
			if err != nil {
				t.Fatalf("what was compiled from %q and %q cannot be written: %v", first, second, err)
			}
			if _, err := Decode(written); err != nil {
				t.Errorf("what was compiled from %q and %q cannot be read: %v", first, second, err)
			}
		})
	})
}

// FuzzExpression computes expressions for resources as users write them.
func FuzzExpression(f *testing.F) {
	for _, seed := range []string{"cpu*50%", "max(cpu*50%, 100m)", "memory + 100Mi", "((((", "cpu/0", "cpu*1e999", "min(", "-cpu", "1/3*cpu", "cpu*cpu"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fuzzing.Within(t, len(text), func() {
			_ = CheckExpression(text, "cpu")
			_ = CheckExpression(text, "memory")
		})
	})
}
