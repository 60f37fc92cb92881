// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
)

func TestReadSettings(t *testing.T) {
	const field = "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy."
	cases := map[string]struct {
		strategy    *shared.InPlaceUpdateStrategy
		annotations map[string]string
		want        Settings
		faults      []string
	}{
		"nothing is said": {want: Settings{Parallelism: 1, TimeoutSeconds: 300}},
		"by fields": {
			strategy: &shared.InPlaceUpdateStrategy{
				ImagePreDownloadParallelism:         ptr.To(intstr.FromInt32(5)),
				ImagePreDownloadTimeoutSeconds:      ptr.To(int32(60)),
				ImagePreDownloadMinUpdatedReadyPods: ptr.To(int32(2)),
			},
			want: Settings{Parallelism: 5, TimeoutSeconds: 60, MinUpdatedReady: 2},
		},
		"by annotations": {
			annotations: map[string]string{
				shared.AnnotationPreDownloadParallelism:         "4",
				shared.AnnotationPreDownloadTimeoutSeconds:      "30",
				shared.AnnotationPreDownloadMinUpdatedReadyPods: "3",
			},
			want: Settings{Parallelism: 4, TimeoutSeconds: 30, MinUpdatedReady: 3},
		},
		"fields win over annotations": {
			strategy:    &shared.InPlaceUpdateStrategy{ImagePreDownloadParallelism: ptr.To(intstr.FromInt32(0))},
			annotations: map[string]string{shared.AnnotationPreDownloadParallelism: "4", shared.AnnotationPreDownloadTimeoutSeconds: "30"},
			want:        Settings{Parallelism: 0, TimeoutSeconds: 30},
		},
		"parallelism in quotes": {
			strategy: &shared.InPlaceUpdateStrategy{ImagePreDownloadParallelism: ptr.To(intstr.FromString("7"))},
			want:     Settings{Parallelism: 7, TimeoutSeconds: 300},
		},
		"a percentage of updated pods is of replicas and rounded up": {
			annotations: map[string]string{shared.AnnotationPreDownloadMinUpdatedReadyPods: "25%"},
			want:        Settings{Parallelism: 1, TimeoutSeconds: 300, MinUpdatedReady: 3},
		},
		"a percentage of nodes is not known": {
			strategy: &shared.InPlaceUpdateStrategy{ImagePreDownloadParallelism: ptr.To(intstr.FromString("50%"))},
			want:     Settings{Parallelism: 1, TimeoutSeconds: 300},
			faults:   []string{field + `imagePreDownloadParallelism is ignored because "50%" is not a whole number of at least 0`},
		},
		"no job may pull for no time, or for longer than a day": {
			strategy: &shared.InPlaceUpdateStrategy{ImagePreDownloadTimeoutSeconds: ptr.To(int32(86401))},
			want:     Settings{Parallelism: 1, TimeoutSeconds: 300},
			faults:   []string{field + `imagePreDownloadTimeoutSeconds is ignored because "86401" is not a whole number from 1 to 86400`},
		},
		"what cannot be read": {
			strategy: &shared.InPlaceUpdateStrategy{ImagePreDownloadMinUpdatedReadyPods: ptr.To(int32(-1))},
			annotations: map[string]string{
				shared.AnnotationPreDownloadParallelism: "all", shared.AnnotationPreDownloadTimeoutSeconds: "5m",
				shared.AnnotationPreDownloadMinUpdatedReadyPods: "5",
			},
			want: Settings{Parallelism: 1, TimeoutSeconds: 300},
			faults: []string{
				`annotation apps.kruise.io/image-predownload-parallelism is ignored because "all" is not a whole number of at least 0`,
				`annotation apps.kruise.io/image-predownload-timeout-seconds is ignored because "5m" is not a whole number from 1 to 86400`,
				field + `imagePreDownloadMinUpdatedReadyPods is ignored because "-1" is not a number or a percentage such as "30%"`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, faults := ReadSettings(tc.strategy, tc.annotations, 9)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.faults, faults); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}
