// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"slices"
	"strings"
	"testing"
)

func TestKnownIsSortedAndComplete(t *testing.T) {
	all := Names()
	if !slices.IsSorted(all) {
		t.Errorf("not sorted: %v", all)
	}
	for _, gate := range Known() {
		for _, needed := range gate.Needs {
			if !slices.Contains(all, string(needed)) {
				t.Errorf("gate %s needs the unknown gate %s", gate.Name, needed)
			}
		}
	}
}

func TestParse(t *testing.T) {
	cases := map[string]struct {
		text string
		// on and off are gates with the value they must have.
		on, off []Gate
		notes   int
		wantErr string
	}{
		"says nothing": {
			on:  []Gate{StatefulSetAutoDeletePVC, PodIndexLabel, KruiseDaemon, InPlaceUpdateEnvFromMetadata, WorkloadSpread, AdvancedDeployment},
			off: []Gate{StatefulSetStartOrdinal, StatefulSetAutoResizePVC, InPlaceWorkloadVerticalScaling, ResourcesDeletionProtection, ImagePullJob},
		},
		"turns gates on and off": {
			text: "StatefulSetStartOrdinal=true, PodIndexLabel=false,",
			on:   []Gate{StatefulSetStartOrdinal}, off: []Gate{PodIndexLabel},
		},
		"without the daemon": {
			text: "KruiseDaemon=false,PreDownloadImageForInPlaceUpdate=true,SidecarTerminator=true",
			off: []Gate{
				KruiseDaemon, PreDownloadImageForInPlaceUpdate, ImagePullJob, SidecarTerminator, InPlaceUpdateEnvFromMetadata,
				PodProbeMarker, DaemonWatchingPod,
			},
			notes: 7,
		},
		"without the pod webhook": {
			text: "PodWebhook=false,KruisePodReadinessGate=true",
			off:  []Gate{"KruisePodReadinessGate", InPlaceUpdateEnvFromMetadata}, notes: 3,
		},
		"budgets for updates": {text: "PodUnavailableBudgetUpdateGate=true", on: []Gate{PodUnavailableBudgetDelete, PodUnavailableBudgetUpdate}},
		"pulling ahead needs pull jobs": {
			text: "PreDownloadImageForDaemonSetUpdate=true",
			on:   []Gate{PreDownloadImageForDaemonSetUpdate, ImagePullJob}, notes: 1,
		},
		"protection of all kinds": {
			text: "ResourcesDeletionProtection=true,DeletionProtectionForCRDCascadingGate=true",
			on:   []Gate{ResourcesDeletionProtection, DeletionProtectionForCRDCascading},
		},
		"gates of OpenKruise's inside are ignored": {
			text: "CloneSetEventHandlerOptimization=true,TemplateNoDefaults=false", off: []Gate{"CloneSetEventHandlerOptimization"}, notes: 2,
		},
		"all alpha gates": {
			text:  "AllAlpha=true,CloneSetShortHash=false",
			on:    []Gate{StatefulSetStartOrdinal, InPlaceWorkloadVerticalScaling, PodIndexLabel},
			off:   []Gate{CloneSetShortHash, ResourcesDeletionProtection, DeletionProtectionForCRDCascading, "CloneSetEventHandlerOptimization", "RolloutHistory"},
			notes: 1,
		},
		"no beta gates": {
			text: "AllBeta=false,PodIndexLabel=true", on: []Gate{PodIndexLabel, AdvancedDeployment},
			off: []Gate{StatefulSetAutoDeletePVC, KruiseDaemon, InPlaceUpdateEnvFromMetadata, WorkloadSpread},
		},
		"all beta gates": {text: "AllBeta=true", on: []Gate{ResourcesDeletionProtection}, off: []Gate{StatefulSetStartOrdinal}},
		"a stage twice":  {text: "AllAlpha=true,AllAlpha=false", wantErr: "both values"},
		"gates that OpenKruise 1.9 knows": {
			text: "EnhancedLivenessProbe=true,EnableExternalCerts=true", on: []Gate{"EnhancedLivenessProbe"}, off: []Gate{"EnableExternalCerts"}, notes: 2,
		},
		"gates without an effect say so": {text: "KruisePodReadinessGate=true,InPlaceUpdateEnvFromMetadata=true", on: []Gate{"KruisePodReadinessGate", InPlaceUpdateEnvFromMetadata}, notes: 1},
		"an unknown name":                {text: "Nonsense=true", wantErr: "WorkloadSpread"},
		"no value":                       {text: "PodWebhook", wantErr: "neither true nor false"},
		"both values":                    {text: "PodWebhook=true,PodWebhook=false", wantErr: "both values"},
		"twice the same":                 {text: "PodWebhook=true,PodWebhook=true", on: []Gate{PodWebhook}},
		"not a truth value":              {text: "PodWebhook=maybe", wantErr: "maybe"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set, notes, err := Parse(tc.text)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, gate := range tc.on {
				if !set.Enabled(gate) {
					t.Errorf("%s is off", gate)
				}
			}
			for _, gate := range tc.off {
				if set.Enabled(gate) {
					t.Errorf("%s is on", gate)
				}
			}
			if len(notes) != tc.notes {
				t.Errorf("notes %q, want %d", notes, tc.notes)
			}
		})
	}
}
