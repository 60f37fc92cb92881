// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/daemonset/admission"
	"github.com/kruise-operator/kruise-operator/internal/testutil/admissiontest"
)

func TestDefault(t *testing.T) {
	const common = "burstReplicas: 250\nrevisionHistoryLimit: 10\n"
	cases := map[string]struct{ spec, want string }{
		"everything that is left out": {
			spec: `{}`,
			want: common + `updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: Standard, maxUnavailable: 1, maxSurge: 0}}`,
		},
		"maxUnavailable alone": {
			spec: `updateStrategy: {rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxUnavailable: 20%}}`,
			want: common + `updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: InPlaceIfPossible, maxUnavailable: 20%}}`,
		},
		"maxSurge alone": {
			spec: `updateStrategy: {rollingUpdate: {maxSurge: 1}}`,
			want: common + `updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: Standard, maxSurge: 1}}`,
		},
		"no surge": {
			spec: `updateStrategy: {rollingUpdate: {maxSurge: 0%}}`,
			want: common + `updateStrategy: {type: RollingUpdate, rollingUpdate: {rollingUpdateType: Standard, maxUnavailable: 1, maxSurge: 0%}}`,
		},
		"on delete": {
			spec: `updateStrategy: {type: OnDelete}`,
			want: common + `updateStrategy: {type: OnDelete}`,
		},
		"what is there stays": {
			spec: "burstReplicas: 5%\nrevisionHistoryLimit: 0\nupdateStrategy: {type: OnDelete, rollingUpdate: {partition: 1}}",
			want: "burstReplicas: 5%\nrevisionHistoryLimit: 0\nupdateStrategy: {type: OnDelete, rollingUpdate: {partition: 1}}",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := &appsv1beta1.DaemonSet{Spec: admissiontest.Parse[appsv1beta1.DaemonSetSpec](t, tc.spec)}
			admission.Default(set)
			if diff := cmp.Diff(admissiontest.Parse[appsv1beta1.DaemonSetSpec](t, tc.want), set.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}
