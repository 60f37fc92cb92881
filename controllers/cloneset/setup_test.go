// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package cloneset

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kruise-operator/kruise-operator/controllers/cloneset/plan"
	"github.com/kruise-operator/kruise-operator/internal/engine/inplace"
	"github.com/kruise-operator/kruise-operator/internal/platform/config"
	"github.com/kruise-operator/kruise-operator/internal/platform/features"
)

// Each gate and flag reaches the CloneSets, as itself and alone.
func TestOptions(t *testing.T) {
	cases := map[string]struct {
		gates   string
		exclude bool
		want    plan.Options
	}{
		"the defaults":                           {},
		"CloneSetPartitionRollback":              {gates: "CloneSetPartitionRollback=true", want: plan.Options{PartitionRollback: true}},
		"PreparingUpdateAsUpdate":                {gates: "PreparingUpdateAsUpdate=true", want: plan.Options{PreparingUpdateAsUpdate: true}},
		"PreDownloadImageForInPlaceUpdate":       {gates: "PreDownloadImageForInPlaceUpdate=true", want: plan.Options{PreDownloadImages: true}},
		"CloneSetShortHash":                      {gates: "CloneSetShortHash=true", want: plan.Options{InPlace: inplace.Options{ShortHash: true}}},
		"RecreatePodWhenChangeVCTInCloneSetGate": {gates: "RecreatePodWhenChangeVCTInCloneSetGate=true", want: plan.Options{InPlace: inplace.Options{ClaimTemplates: true}}},
		"InPlaceWorkloadVerticalScaling":         {gates: "InPlaceWorkloadVerticalScaling=true", want: plan.Options{InPlace: inplace.Options{Resources: true}}},
		"the flag about pods at their hook":      {exclude: true, want: plan.Options{ExcludePreparingDelete: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			gates, _, err := features.Parse(tc.gates)
			if err != nil {
				t.Fatal(err)
			}
			got := optionsOf(&config.Config{Features: gates, CloneSetExcludePreparingDelete: tc.exclude})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}
