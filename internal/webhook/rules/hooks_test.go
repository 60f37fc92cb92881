// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

func TestHooksThatNoPodCanHaveAreWarnedOf(t *testing.T) {
	var many shared.LifecycleHook
	for i := range 50 {
		many.FinalizersHandler = append(many.FinalizersHandler, fmt.Sprintf("drain-%d", i))
	}
	for name, tc := range map[string]struct {
		hooks *shared.Lifecycle
		want  []string
		count int
	}{
		"no hooks": {},
		"labels and finalizers that pods can have": {hooks: &shared.Lifecycle{
			PreNormal:     &shared.LifecycleHook{},
			PreDelete:     &shared.LifecycleHook{LabelsHandler: map[string]string{"example.io/hold": "yes", "hold": ""}, MarkPodNotReady: true},
			InPlaceUpdate: &shared.LifecycleHook{FinalizersHandler: []string{"example.io/drain", "orphan"}, MarkPodNotReady: true},
		}},
		"a finalizer without a domain": {
			hooks: &shared.Lifecycle{PreDelete: &shared.LifecycleHook{FinalizersHandler: []string{"example.io/a", "drain"}}},
			want: []string{
				`spec.lifecycle.preDelete.finalizersHandler[1]: no pod can have the finalizer "drain": it needs a domain, such as example.io/drain`,
			},
		},
		"a label value with a space": {
			hooks: &shared.Lifecycle{InPlaceUpdate: &shared.LifecycleHook{LabelsHandler: map[string]string{"hold": "no way"}}},
			count: 1,
		},
		"a label key that is none": {
			hooks: &shared.Lifecycle{PreNormal: &shared.LifecycleHook{LabelsHandler: map[string]string{"a/b/c": "yes"}}},
			count: 1,
		},
		"out of service before it ever was in": {
			hooks: &shared.Lifecycle{PreNormal: &shared.LifecycleHook{MarkPodNotReady: true}},
			want:  []string{"spec.lifecycle.preNormal.markPodNotReady: has no effect; it is for inPlaceUpdate and preDelete"},
		},
		"many": {hooks: &shared.Lifecycle{PreDelete: &many}, count: maxHookWarnings},
	} {
		t.Run(name, func(t *testing.T) {
			got := Hooks(tc.hooks, field.NewPath("spec", "lifecycle"))
			if tc.count > 0 {
				if len(got) != tc.count {
					t.Errorf("warnings %q, want %d", got, tc.count)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
