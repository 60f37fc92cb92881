// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/cloneset/admission"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
)

func TestDefault(t *testing.T) {
	cases := map[string]struct{ spec, want string }{
		"everything that is left out": {
			spec: `{}`,
			want: `
replicas: 1
revisionHistoryLimit: 10
updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate, partition: 0, maxUnavailable: 20%, maxSurge: 0}}`,
		},
		"an in-place policy": {
			spec: `updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceIfPossible}}`,
			want: `
replicas: 1
revisionHistoryLimit: 10
updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, partition: 0, maxUnavailable: 20%, maxSurge: 0, inPlaceUpdateStrategy: {}}}`,
		},
		"only in place": {
			spec: `updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly}}`,
			want: `
replicas: 1
revisionHistoryLimit: 10
updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 0, maxUnavailable: 20%, maxSurge: 0, inPlaceUpdateStrategy: {}}}`,
		},
		"on delete": {
			spec: `updateStrategy: {type: OnDelete}`,
			want: `
replicas: 1
revisionHistoryLimit: 10
updateStrategy: {type: OnDelete}`,
		},
		"what is set stays": {
			spec: `
replicas: 0
revisionHistoryLimit: 0
scaleStrategy: {enablePVCReuse: true}
updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 50%, maxUnavailable: 1, maxSurge: 0%, inPlaceUpdateStrategy: {gracePeriodSeconds: 3}}}`,
			want: `
replicas: 0
revisionHistoryLimit: 0
scaleStrategy: {enablePVCReuse: true}
updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceOnly, partition: 50%, maxUnavailable: 1, maxSurge: 0%, inPlaceUpdateStrategy: {gracePeriodSeconds: 3}}}`,
		},
		"templates stay as written": {
			spec: `
updateStrategy: {type: OnDelete}
template: {spec: {containers: [{name: main, image: example/web, ports: [{containerPort: 80}]}]}}
volumeClaimTemplates: [{metadata: {name: data}}]`,
			want: `
replicas: 1
revisionHistoryLimit: 10
updateStrategy: {type: OnDelete}
template: {spec: {containers: [{name: main, image: example/web, ports: [{containerPort: 80}]}]}}
volumeClaimTemplates: [{metadata: {name: data}}]`,
		},
		// What OpenKruise 1.9 stored needs no defaults from us, or the first write after a takeover would bring changes nobody made.
		"what was stored by OpenKruise": {
			spec: `
replicas: 5
revisionHistoryLimit: 10
scaleStrategy: {enablePVCReuse: false}
selector: {matchLabels: {app: cache}}
updateStrategy: {rollingUpdate: {inPlaceUpdateStrategy: {}, maxSurge: 0, maxUnavailable: 2, partition: 40%, podUpdatePolicy: InPlaceIfPossible}, type: RollingUpdate}`,
			want: `
replicas: 5
revisionHistoryLimit: 10
scaleStrategy: {enablePVCReuse: false}
selector: {matchLabels: {app: cache}}
updateStrategy: {rollingUpdate: {inPlaceUpdateStrategy: {}, maxSurge: 0, maxUnavailable: 2, partition: 40%, podUpdatePolicy: InPlaceIfPossible}, type: RollingUpdate}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := &appsv1beta1.CloneSet{Spec: admissiontest.Parse[appsv1beta1.CloneSetSpec](t, tc.spec)}
			admission.Default(got)
			if diff := cmp.Diff(admissiontest.Parse[appsv1beta1.CloneSetSpec](t, tc.want), got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
			again := got.DeepCopy()
			admission.Default(again)
			if diff := cmp.Diff(got.Spec, again.Spec); diff != "" {
				t.Errorf("defaulting twice changes the spec (-once +twice):\n%s", diff)
			}
		})
	}
}

func TestKeep(t *testing.T) {
	const label = `labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "true"}`
	cases := map[string]struct {
		old, set string
		want     bool
	}{
		"a manifest that cannot say it": {
			old: `{spec: {scaleStrategy: {excludePreparingDelete: true}}}`, set: `{}`, want: true,
		},
		"the label was removed": {
			old: `{metadata: {` + label + `}, spec: {scaleStrategy: {excludePreparingDelete: true}}}`, set: `{}`,
		},
		"the label says no": {
			old: `{spec: {scaleStrategy: {excludePreparingDelete: true}}}`,
			set: `{metadata: {labels: {apps.kruise.io/cloneset-scaling-exclude-preparing-delete: "false"}}}`,
		},
		"it was off": {old: `{}`, set: `{}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			old, set := admissiontest.Parse[appsv1beta1.CloneSet](t, tc.old), admissiontest.Parse[appsv1beta1.CloneSet](t, tc.set)
			admission.Keep(&set, &old)
			if got := set.Spec.ScaleStrategy.ExcludePreparingDelete; got != tc.want {
				t.Errorf("excludePreparingDelete is %t, want %t", got, tc.want)
			}
		})
	}
}
