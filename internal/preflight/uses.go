// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kruise-operator/kruise-operator/internal/platform/features"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// use is something in stored objects that depends on a feature gate, or on a part of OpenKruise that is not here.
type use string

const (
	useStartOrdinal    use = "StartOrdinal"
	useClaimDeletion   use = "ClaimDeletion"
	useClaimGrowth     use = "ClaimGrowth"
	usePartition       use = "Partition"
	useEnvironment     use = "Environment"
	useContainerLaunch use = "ContainerLaunch"
)

// What asks OpenKruise's webhook on pods for an order in which containers start.
const (
	annotationLaunchPriority = "apps.kruise.io/container-launch-priority"
	launchInOrder            = "Ordered"
	variableLaunchPriority   = "KRUISE_CONTAINER_PRIORITY"
)

// workload is what the uses are found by, of any kind and version that has it.
type workload struct {
	Spec struct {
		Ordinals *struct {
			Start int64 `json:"start"`
		} `json:"ordinals"`
		Retention *struct {
			WhenScaled  string `json:"whenScaled"`
			WhenDeleted string `json:"whenDeleted"`
		} `json:"persistentVolumeClaimRetentionPolicy"`
		ClaimUpdate *struct {
			Type string `json:"type"`
		} `json:"volumeClaimUpdateStrategy"`
		UpdateStrategy struct {
			Type          string          `json:"type"`
			Partition     json.RawMessage `json:"partition"`
			RollingUpdate *struct {
				PodUpdatePolicy string          `json:"podUpdatePolicy"`
				Partition       json.RawMessage `json:"partition"`
			} `json:"rollingUpdate"`
		} `json:"updateStrategy"`
		Template corev1.PodTemplateSpec `json:"template"`
	} `json:"spec"`
}

// usesOf are the uses of one object of a kind.
func usesOf(kind string, object map[string]any) ([]use, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding it: %w", err)
	}
	var w workload
	if err := quantity.Unmarshal(body, &w); err != nil {
		return nil, fmt.Errorf("decoding it: %w", err)
	}
	spec := &w.Spec
	policy, partition := spec.UpdateStrategy.Type, spec.UpdateStrategy.Partition
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil {
		partition = rolling.Partition
		if rolling.PodUpdatePolicy != "" {
			policy = rolling.PodUpdatePolicy
		}
	}
	var uses []use
	add := func(u use, is bool) {
		if is {
			uses = append(uses, u)
		}
	}
	const deletes = "Delete"
	add(useStartOrdinal, spec.Ordinals != nil && spec.Ordinals.Start != 0)
	add(useClaimDeletion, spec.Retention != nil && (spec.Retention.WhenScaled == deletes || spec.Retention.WhenDeleted == deletes))
	add(useClaimGrowth, spec.ClaimUpdate != nil && spec.ClaimUpdate.Type == "OnPodRollingUpdate")
	add(usePartition, kind == "CloneSet" && !slices.Contains([]string{"", "null", "0", `"0"`, `"0%"`}, string(partition)))
	add(useEnvironment, strings.HasPrefix(policy, "InPlace") && slices.ContainsFunc(spec.Template.Spec.Containers, readsMetadata))
	add(useContainerLaunch, spec.Template.Annotations[annotationLaunchPriority] == launchInOrder ||
		slices.ContainsFunc(spec.Template.Spec.Containers, hasLaunchPriority))
	return uses, nil
}

// readsMetadata says that a container reads a label or an annotation of its pod through its environment.
func readsMetadata(container corev1.Container) bool {
	return slices.ContainsFunc(container.Env, func(variable corev1.EnvVar) bool {
		if variable.ValueFrom == nil || variable.ValueFrom.FieldRef == nil {
			return false
		}
		path := variable.ValueFrom.FieldRef.FieldPath
		return strings.HasPrefix(path, "metadata.labels[") || strings.HasPrefix(path, "metadata.annotations[")
	})
}

func hasLaunchPriority(container corev1.Container) bool {
	return slices.ContainsFunc(container.Env, func(variable corev1.EnvVar) bool { return variable.Name == variableLaunchPriority })
}

// contrast is what becomes of a use when OpenKruise and this operator have its feature gate differently.
type contrast struct {
	use  use
	gate features.Gate
	// what names the use.
	what string
	// off is for a gate that is off here and on in OpenKruise, on for the other way round.
	off, on consequence
}

// consequence is what happens, and how much that matters.
type consequence struct {
	severity Severity
	what     string
}

func contrasts() []contrast {
	return []contrast{
		{
			use: useStartOrdinal, gate: features.StatefulSetStartOrdinal, what: "spec.ordinals.start",
			off: consequence{Blocker, "this operator would count from 0: it would delete the pods with the highest ordinals and create others from 0 on"},
			on:  consequence{Blocker, "this operator would count from there: it would delete the pods with the lowest ordinals and create others"},
		},
		{
			use: useClaimDeletion, gate: features.StatefulSetAutoDeletePVC, what: "spec.persistentVolumeClaimRetentionPolicy that deletes",
			off: consequence{Warning, "volume claims will no longer be deleted with their pods or sets"},
			on:  consequence{Blocker, "volume claims that OpenKruise keeps would be deleted with their pods or sets"},
		},
		{
			use: useClaimGrowth, gate: features.StatefulSetAutoResizePVC, what: "spec.volumeClaimUpdateStrategy",
			off: consequence{Warning, "volume claims will no longer grow with their templates"},
			on:  consequence{Warning, "volume claims that are smaller than their templates will grow with the next update"},
		},
		{
			use: usePartition, gate: features.CloneSetPartitionRollback, what: "a partition",
			off: consequence{Warning, "raising the partition will no longer bring updated pods back"},
			on:  consequence{Warning, "updated pods that the partition does not allow will go back to the current revision"},
		},
	}
}

// findUses compares what stored objects say with what this operator will make of it.
func findUses(c Cluster, w Options) []Finding {
	var all []Finding
	ours, _, err := features.Parse(w.FeatureGates)
	if err != nil {
		return []Finding{{
			Severity: Blocker, Subject: "--feature-gates", Finding: err.Error(), Next: "give the value that the operator will be started with",
		}}
	}
	theirs, known := c.gates()
	for _, d := range contrasts() {
		on := ours.Enabled(d.gate)
		if known && theirs.Enabled(d.gate) == on {
			continue
		}
		happens, state, other := d.off, "off", "honors"
		if on {
			happens, state, other = d.on, "on", "ignores"
		}
		// When OpenKruise's gates are unknown, it reports only fields that could cost pods, and those whose gates were most likely on.
		if !known && (on || !defaultOf(d.gate) && happens.severity != Blocker) {
			continue
		}
		for _, u := range c.Uses {
			if u.Use != d.use {
				continue
			}
			finding := fmt.Sprintf("%s, which OpenKruise %s. With the feature gate %s %s, %s", u.have(d.what), other, d.gate, state, happens.what)
			if !known {
				finding = fmt.Sprintf("%s, and no Deployment of OpenKruise says whether it honored that. If it did, with the feature gate %s off %s", u.have(d.what), d.gate, happens.what)
			}
			all = append(all, Finding{
				Severity: happens.severity, Subject: u.Resource, Finding: finding,
				Next: fmt.Sprintf("start the operator with --feature-gates=%s=%t, and give preflight what --feature-gates will be", d.gate, !on),
			})
		}
	}
	return append(all, findLost(c, theirs, known, ours)...)
}

// findLost names workloads that use what is not here, whatever the gates are.
func findLost(c Cluster, theirs features.Set, known bool, ours features.Set) []Finding {
	var all []Finding
	for _, u := range c.Uses {
		switch {
		case u.Use == useEnvironment && (!known || theirs.Enabled(features.InPlaceUpdateEnvFromMetadata)) &&
			(!ours.Enabled(features.InPlaceUpdateEnvFromMetadata) || missing(features.InPlaceUpdateEnvFromMetadata)):
			all = append(all, Finding{
				Severity: Warning, Subject: u.Resource,
				Finding: u.have("a policy to update in place, and containers that read labels or annotations through their environment") +
					". OpenKruise restarts these in place when only such metadata changes; this operator replaces the pods, and with InPlaceOnly refuses to update them",
				Next: "change such labels and annotations of a template only when pods may be replaced",
			})
		case u.Use == useContainerLaunch && (!known || theirs.Enabled(features.PodWebhook)):
			if lost, is := lostOrder(ours); is {
				lost.Subject, lost.Finding = u.Resource, u.have("an order in which containers start")+lost.Finding
				all = append(all, lost)
			}
		}
	}
	return all
}

// lostOrder is what becomes of an order in which containers start, after the words that say who has one; false when it is kept for every pod.
func lostOrder(ours features.Set) (Finding, bool) {
	switch {
	case !ours.Enabled(features.PodWebhook):
		return Finding{
			Severity: Warning, Finding: ". With the feature gate PodWebhook off, the containers of new pods start together",
			Next: "start the operator with --feature-gates=PodWebhook=true, and give preflight what --feature-gates will be",
		}, true
	case !ours.Enabled(features.ContainerLaunchPriority):
		return Finding{
			Severity: Note, Finding: ". This operator keeps it for pods of its own workloads; OpenKruise keeps it for all pods",
			Next: "if pods of Deployments, Jobs or others ask for an order, too, or sidecars that are injected, start the operator with --feature-gates=ContainerLaunchPriority=true",
		}, true
	}
	return Finding{}, false
}

// missing says that the gate has no effect yet even if it is on.
func missing(gate features.Gate) bool { return info(gate).Missing != "" }

func defaultOf(gate features.Gate) bool { return info(gate).Default }

func info(gate features.Gate) features.Info {
	known := features.Known()
	return known[slices.IndexFunc(known, func(i features.Info) bool { return i.Name == gate })]
}

// gates are the feature gates of OpenKruise's manager; false when there is no Deployment that tells. Gates that are not known here are left out.
func (c Cluster) gates() (set features.Set, known bool) {
	for _, m := range c.Managers {
		kept, _ := splitGates(flags(m.Args)["feature-gates"])
		if set, _, err := features.Parse(strings.Join(kept, ",")); err == nil {
			return set, true
		}
	}
	return features.Set{}, false
}

// Users are the objects of one kind that have a use.
type Users struct {
	Use use
	// Resource is the full name of the kind's resource.
	Resource string
	// Count is how many there are, Names are some of them.
	Count int
	Names []string
}

func (u Users) have(what string) string {
	verb := "have"
	if u.Count == 1 {
		verb = "has"
	}
	return fmt.Sprintf("%d (%s) %s %s", u.Count, some(u.Names, u.Count), verb, what)
}

// addUse counts an object as one with the use.
func (c *Cluster) addUse(u use, resource, name string) {
	i := slices.IndexFunc(c.Uses, func(known Users) bool { return known.Use == u && known.Resource == resource })
	if i < 0 {
		i = len(c.Uses)
		c.Uses = append(c.Uses, Users{Use: u, Resource: resource})
	}
	c.Uses[i].Count++
	if len(c.Uses[i].Names) < named {
		c.Uses[i].Names = append(c.Uses[i].Names, name)
	}
}
