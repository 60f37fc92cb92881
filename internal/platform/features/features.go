// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package features holds the feature gates: behavior users switch on or off for the whole operator. Names and
// defaults are OpenKruise's, so clusters keep their gates.
//
// The gates are one immutable value, made at the start. The engine never sees it: wiring passes plain booleans.
package features

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Gate is the name of a feature gate.
type Gate string

// The gates with an effect; Known describes each.
const (
	AdvancedDeployment                        Gate = "AdvancedDeployment"
	AppendPodSelector                         Gate = "AppendPodSelector"
	CloneSetPartitionRollback                 Gate = "CloneSetPartitionRollback"
	CloneSetShortHash                         Gate = "CloneSetShortHash"
	ContainerLaunchPriority                   Gate = "ContainerLaunchPriority"
	DaemonSetPruneIneligibleNodes             Gate = "DaemonSetPruneIneligibleNodes"
	DaemonWatchingPod                         Gate = "DaemonWatchingPod"
	DeletionProtectionForCRDCascading         Gate = "DeletionProtectionForCRDCascadingGate"
	EnableSortSidecarContainerByName          Gate = "EnableSortSidecarContainerByName"
	ImagePullJob                              Gate = "ImagePullJobGate"
	InPlacePodVerticalScaling                 Gate = "InPlacePodVerticalScaling"
	InPlaceUpdateEnvFromMetadata              Gate = "InPlaceUpdateEnvFromMetadata"
	InPlaceWorkloadVerticalScaling            Gate = "InPlaceWorkloadVerticalScaling"
	KeepWorkloadPausedOnRolloutDeletion       Gate = "KeepWorkloadPausedOnRolloutDeletion"
	KruiseDaemon                              Gate = "KruiseDaemon"
	PodIndexLabel                             Gate = "PodIndexLabel"
	PodProbeMarker                            Gate = "PodProbeMarkerGate"
	PodUnavailableBudgetDelete                Gate = "PodUnavailableBudgetDeleteGate"
	PodUnavailableBudgetUpdate                Gate = "PodUnavailableBudgetUpdateGate"
	PodWebhook                                Gate = "PodWebhook"
	PreDownloadImageForDaemonSetUpdate        Gate = "PreDownloadImageForDaemonSetUpdate"
	PreDownloadImageForInPlaceUpdate          Gate = "PreDownloadImageForInPlaceUpdate"
	PreparingUpdateAsUpdate                   Gate = "PreparingUpdateAsUpdate"
	RecreatePodWhenChangeVCTInCloneSet        Gate = "RecreatePodWhenChangeVCTInCloneSetGate"
	ResourcesDeletionProtection               Gate = "ResourcesDeletionProtection"
	RolloutPodLabels                          Gate = "RolloutPodLabels"
	SidecarSetPatchPodMetadataDefaultsAllowed Gate = "SidecarSetPatchPodMetadataDefaultsAllowed"
	SidecarTerminator                         Gate = "SidecarTerminator"
	StatefulSetAutoDeletePVC                  Gate = "StatefulSetAutoDeletePVC"
	StatefulSetAutoResizePVC                  Gate = "StatefulSetAutoResizePVCGate"
	StatefulSetStartOrdinal                   Gate = "StatefulSetStartOrdinal"
	WorkloadSpread                            Gate = "WorkloadSpread"
)

// Info describes a gate.
type Info struct {
	// Name is the gate's name.
	Name Gate
	// Default is its value when it is not set.
	Default bool
	// Effect documents the gate when on.
	Effect string
	// Ignored says why setting the gate changes nothing; empty when it does.
	Ignored string
	// Missing lists effects not built yet; empty: complete.
	Missing string
	// Needs are gates this one is forced off without.
	Needs []Gate
	// Stage is how mature OpenKruise calls it, for AllAlpha and AllBeta. Empty: alpha when it is off by default, else beta.
	Stage Stage
	// Elsewhere: the gate is of another program than OpenKruise's manager, so AllAlpha and AllBeta leave it alone.
	Elsewhere bool
}

// Stage is how mature a gate is.
type Stage string

// The stages, and the names setting all other gates of one in --feature-gates.
const (
	Alpha Stage = "AllAlpha"
	Beta  Stage = "AllBeta"
)

func (i Info) stage() Stage {
	switch {
	case i.Elsewhere:
		return ""
	case i.Stage != "":
		return i.Stage
	case i.Default:
		return Beta
	default:
		return Alpha
	}
}

const (
	always       = "the operator always acts as if it were on"
	internal     = "it tunes the way OpenKruise works inside, which this operator does not share"
	noLiveness   = "the node daemon has no such liveness probes yet, so it has no effect"
	noKind       = "the operator does not have that kind yet, so it has no effect"
	noPodWebhook = "the operator gives it to no pods of others, so it has no effect; the pods of its own workloads have the readiness gate anyway"
)

// Known lists all gates, sorted by name.
func Known() []Info {
	all := slices.Concat(ofWorkloads(), ofNodes(), ofOthers(), ofReleases())
	slices.SortFunc(all, func(a, b Info) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return all
}

// ofWorkloads are gates of the workloads.
func ofWorkloads() []Info {
	return []Info{
		{Name: "CloneSetEventHandlerOptimization", Effect: "fewer pod events trigger passes over a CloneSet", Ignored: internal},
		{Name: CloneSetPartitionRollback, Effect: "raising a CloneSet's partition brings updated pods back"},
		{Name: CloneSetShortHash, Effect: "a CloneSet's pods carry the hash of their revision instead of its full name"},
		{Name: DaemonSetPruneIneligibleNodes, Effect: "nodes that are no longer eligible do not use up a DaemonSet's limits"},
		{Name: "DefaultHostNetworkHostPortsInPodTemplates", Effect: "host ports are defaulted in templates", Ignored: "no defaults are written into templates"},
		{Name: "ForceDeleteTimeoutExpectationGate", Effect: "a workload whose writes stay unseen goes on", Ignored: always},
		{Name: InPlaceWorkloadVerticalScaling, Effect: "changed CPU and memory are applied to pods in place"},
		{Name: PodIndexLabel, Default: true, Effect: "a StatefulSet's new pods carry their ordinal as a label"},
		{Name: PreparingUpdateAsUpdate, Effect: "pods that wait for their update hook count as updated when a CloneSet scales"},
		{Name: RecreatePodWhenChangeVCTInCloneSet, Effect: "changed claim templates of a CloneSet forbid updates in place"},
		{Name: StatefulSetAutoDeletePVC, Default: true, Effect: "persistentVolumeClaimRetentionPolicy is honored"},
		{Name: StatefulSetAutoResizePVC, Effect: "volumeClaimUpdateStrategy is honored"},
		{Name: StatefulSetStartOrdinal, Effect: "ordinals.start is honored"},
		{Name: "TemplateNoDefaults", Effect: "no defaults are written into pod and claim templates", Ignored: always},
	}
}

// ofNodes are gates of the node daemon.
func ofNodes() []Info {
	return []Info{
		{Name: DaemonWatchingPod, Default: true, Effect: "the node daemon reports what containers were created from", Needs: []Gate{KruiseDaemon}},
		{
			Name: "EnablePodProbeMarkerOnServerless", Effect: "new pods ask the providers of virtual nodes for the probes of PodProbeMarkers",
			Missing: "it has no effect: pods on virtual nodes are not probed, and their PodProbeMarkers say so", Needs: []Gate{PodProbeMarker},
		},
		{
			Name: "EnhancedLivenessProbe", Effect: "liveness probes that an annotation asks for become probes of the node daemon",
			Missing: noLiveness, Needs: []Gate{KruiseDaemon, PodWebhook},
		},
		{Name: ImagePullJob, Effect: "images are pulled ahead", Missing: "it has no effect, since ImagePullJobs are carried out while their kind is on", Needs: []Gate{KruiseDaemon}},
		{
			Name: InPlaceUpdateEnvFromMetadata, Default: true, Needs: []Gate{KruiseDaemon, DaemonWatchingPod, PodWebhook},
			Effect: "when labels or annotations change that containers read through their environment, the containers restart in place",
		},
		{Name: KruiseDaemon, Default: true, Effect: "the node daemon may be used; without it, it is not deployed, and objects that need it are refused"},
		{Name: PodProbeMarker, Default: true, Effect: "PodProbeMarkers are carried out", Needs: []Gate{KruiseDaemon}},
		{
			Name: PreDownloadImageForDaemonSetUpdate, Effect: "images are pulled ahead of a DaemonSet's update; switches ImagePullJobGate on",
			Needs: []Gate{KruiseDaemon},
		},
		{
			Name: PreDownloadImageForInPlaceUpdate, Effect: "images are pulled ahead of an update in place; switches ImagePullJobGate on",
			Needs: []Gate{KruiseDaemon},
		},
		{Name: SidecarTerminator, Effect: "sidecars of finished jobs are stopped", Needs: []Gate{KruiseDaemon}},
	}
}

// ofOthers are gates about pods and objects of anybody.
func ofOthers() []Info {
	return []Info{
		{
			Name: ContainerLaunchPriority, Elsewhere: true, Needs: []Gate{PodWebhook},
			Effect: "containers of all pods start by launch priority, where the pods ask for it; with it off, only those of the operator's own workloads",
		},
		{
			Name: DeletionProtectionForCRDCascading, Effect: "the label value Cascading protects only CRDs that have objects; with the gate off, it protects every CRD with that label",
			Needs: []Gate{ResourcesDeletionProtection},
		},
		{Name: "EnableExternalCerts", Effect: "webhooks use external certificates", Ignored: "mounted certificates are always used where there are any"},
		{Name: EnableSortSidecarContainerByName, Effect: "sidecars of several SidecarSets are injected in the order of their names"},
		{Name: InPlacePodVerticalScaling, Effect: "PodUnavailableBudget treats a resize apart from other updates"},
		{Name: "KruisePodReadinessGate", Effect: "every pod gets the readiness gate KruisePodReady", Missing: noPodWebhook, Needs: []Gate{PodWebhook}},
		{Name: PodUnavailableBudgetDelete, Default: true, Effect: "PodUnavailableBudget guards deletions and evictions"},
		{Name: PodUnavailableBudgetUpdate, Effect: "PodUnavailableBudget guards updates of pods"},
		{Name: PodWebhook, Default: true, Effect: "pods may be changed where an object asks for it: launch priorities of containers are honored"},
		{Name: "ResourceDistributionGate", Effect: "ResourceDistribution works", Missing: "it has no effect, since ResourceDistributions are carried out while their kind is on"},
		{
			Name: ResourcesDeletionProtection, Effect: "the label policy.kruise.io/delete-protection is honored",
			Stage: Beta,
		},
		{Name: SidecarSetPatchPodMetadataDefaultsAllowed, Effect: "where no rule says which pod annotations a SidecarSet may patch, it may patch any"},
		{Name: WorkloadSpread, Default: true, Effect: "WorkloadSpread works"},
	}
}

// ofReleases are gates of Rollouts.
func ofReleases() []Info {
	return []Info{
		{Name: AdvancedDeployment, Elsewhere: true, Default: true, Effect: "native Deployments are released in batches without a canary Deployment"},
		{Name: AppendPodSelector, Elsewhere: true, Effect: "labels of patchPodTemplateMetadata are added to the selector of a canary Service"},
		{Name: KeepWorkloadPausedOnRolloutDeletion, Elsewhere: true, Effect: "deleting or disabling a Rollout in a release leaves its workload held"},
		{Name: "RolloutHistory", Elsewhere: true, Effect: "finished rollouts are recorded", Missing: noKind},
		{Name: RolloutPodLabels, Elsewhere: true, Default: true, Effect: "pods get the rollout-id and the batch of their release as labels, one write for each"},
	}
}

// Set holds the gates that are on. Nil has all of them off.
type Set map[Gate]bool

// Enabled tells if the gate is on.
func (s Set) Enabled(gate Gate) bool { return s[gate] }

// On lists the enabled gates, sorted.
func (s Set) On() []string {
	var on []string
	for _, gate := range slices.Sorted(maps.Keys(s)) {
		if s[gate] {
			on = append(on, string(gate))
		}
	}
	return on
}

// String lists the enabled gates.
func (s Set) String() string { return strings.Join(s.On(), ",") }

// Parse reads a list such as "A=true,B=false" on top of the defaults. AllAlpha and AllBeta set the unlisted
// gates of a stage. Notes tell the author about ignored and forced gates. An unknown name, or one with two
// values, is an error.
func Parse(text string) (set Set, notes []string, err error) {
	asked, err := parse(text)
	if err != nil {
		return nil, nil, err
	}
	known := Known()
	on := make(Set, len(known))
	for _, gate := range known {
		on[gate.Name] = gate.Default
		value, ok := asked[gate.Name]
		if !ok {
			if value, all := asked[Gate(gate.stage())]; all && gate.Ignored == "" {
				on[gate.Name] = value
			}
			continue
		}
		if gate.Ignored != "" {
			notes = append(notes, fmt.Sprintf("feature gate %s is ignored: %s", gate.Name, gate.Ignored))
			continue
		}
		on[gate.Name] = value
		if value && gate.Missing != "" {
			notes = append(notes, fmt.Sprintf("feature gate %s: %s", gate.Name, gate.Missing))
		}
	}
	for _, gate := range []Gate{PreDownloadImageForInPlaceUpdate, PreDownloadImageForDaemonSetUpdate} {
		if on[gate] && !on[ImagePullJob] {
			on[ImagePullJob] = true
			notes = append(notes, fmt.Sprintf("feature gate %s is on because %s is", ImagePullJob, gate))
		}
	}
	// Forcing one off may force others off.
	for changed := true; changed; {
		changed = false
		for _, gate := range known {
			off := slices.IndexFunc(gate.Needs, func(needed Gate) bool { return !on[needed] })
			if on[gate.Name] && off >= 0 {
				on[gate.Name], changed = false, true
				notes = append(notes, fmt.Sprintf("feature gate %s is off because %s is", gate.Name, gate.Needs[off]))
			}
		}
	}
	return on, notes, nil
}

// Override returns text, a list for Parse, with these gates set and all others unchanged.
func Override(text string, values map[Gate]bool) string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		name, _, _ := strings.Cut(part, "=")
		if _, overridden := values[Gate(strings.TrimSpace(name))]; !overridden && strings.TrimSpace(part) != "" {
			parts = append(parts, strings.TrimSpace(part))
		}
	}
	for _, gate := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, fmt.Sprintf("%s=%t", gate, values[gate]))
	}
	return strings.Join(parts, ",")
}

// Accepts reports if Parse takes the name, a gate, AllAlpha or AllBeta.
func Accepts(name Gate) bool {
	_, known := Of(name)
	return known || Stage(name) == Alpha || Stage(name) == Beta
}

// Of describes the gate of this name, if there is one.
func Of(gate Gate) (info Info, known bool) {
	all := Known()
	i := slices.IndexFunc(all, func(i Info) bool { return i.Name == gate })
	if i < 0 {
		return Info{}, false
	}
	return all[i], true
}

func parse(text string) (map[Gate]bool, error) {
	asked := map[Gate]bool{}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, word, _ := strings.Cut(part, "=")
		gate := Gate(strings.TrimSpace(name))
		if !Accepts(gate) {
			return nil, fmt.Errorf("unknown feature gate %q: know %s", gate, strings.Join(Names(), ", "))
		}
		value, err := strconv.ParseBool(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("feature gate %s: %q is neither true nor false", gate, word)
		}
		if before, ok := asked[gate]; ok && before != value {
			return nil, fmt.Errorf("feature gate %s is given both values", gate)
		}
		asked[gate] = value
	}
	return asked, nil
}

// Names lists the names of all gates, sorted.
func Names() []string {
	var all []string
	for _, gate := range Known() {
		all = append(all, string(gate.Name))
	}
	return all
}
