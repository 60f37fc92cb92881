// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sidecar decides what SidecarSets put into pods.
//
// A SidecarSet is compiled, together with the sets that may meet it on a pod, into an Injection: plain data that says all of it. One
// Injection is interpreted twice: by Inject, in the webhook, and by the expressions of the static policy in the API server. Both give
// the same pod.
//
// Several sets inject one after the other, in any order: policies run in random order. So every set knows the names that the others put into the
// same pod, and the position of its own among them; the pod is the same in every order.
package sidecar

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

// What is written into pods. These names are OpenKruise's, and outlive us.
const (
	// HashAnnotation holds the hash of what each set injected, as a JSON object by set.
	HashAnnotation = "kruise.io/sidecarset-hash"
	// HashWithoutImageAnnotation is the same, of the sidecars without their images.
	HashWithoutImageAnnotation = "kruise.io/sidecarset-hash-without-image"
	// InjectedListAnnotation holds the names of the sets, sorted, joined with commas.
	InjectedListAnnotation = "kruise.io/sidecarset-injected-list"
	// WorkingAnnotation says which container of each hot upgrade pair works, as a JSON object.
	WorkingAnnotation = "kruise.io/sidecarset-working-hotupgrade-container"
	// VersionPrefix, before the name of a container of a pair, is the version that it sees.
	VersionPrefix = "version.sidecarset.kruise.io/"
	// VersionAltPrefix, before the name of a container of a pair, is the version that its peer sees.
	VersionAltPrefix = "versionalt.sidecarset.kruise.io/"
	// CanaryAnnotation on a SidecarSet makes it the canary of another.
	CanaryAnnotation = "apps.kruise.io/sidecarset-canary"
	// BaseAnnotation on a canary names the SidecarSet that it is the canary of.
	BaseAnnotation = "apps.kruise.io/sidecarset-base"
	// InjectedEnv marks injected containers.
	InjectedEnv = "IS_INJECTED"
)

// OwnAnnotation says that an annotation of pods is one of those in which SidecarSets keep what a pod has from them. No set chooses their values.
func OwnAnnotation(key string) bool {
	switch key {
	case HashAnnotation, HashWithoutImageAnnotation, InjectedListAnnotation, WorkingAnnotation, shared.AnnotationSidecarSetInPlaceState, shared.AnnotationSidecarSetInPlaceEvidence:
		return true
	}
	return strings.HasPrefix(key, VersionPrefix) || strings.HasPrefix(key, VersionAltPrefix)
}

// Injection is what one SidecarSet puts into the pods that it selects. It is stored as the data of a ControllerRevision. Lists are
// never absent, so that expressions need not ask.
type Injection struct {
	// Set is the name of the SidecarSet.
	Set string `json:"set"`
	// Skip are sets, among Others, whose pods this one leaves alone: its canaries.
	Skip []string `json:"skip"`
	// Others are the sets that may inject into the same pods.
	Others []Other `json:"others"`
	// Variants are tried in order; the first that fits the pod is injected. The last one fits every pod.
	Variants []Variant `json:"variants"`
	// Drop are sets that never inject into one pod with this one: what a copied pod says of them is removed.
	Drop []string `json:"drop,omitempty"`
	// Limits are what the policy serves at most; nil: every pod.
	Limits *Limits `json:"limits,omitempty"`
}

// Match says which pods a set selects.
type Match struct {
	// Labels are about the pod, Namespace about its namespace. All must hold.
	Labels    []podentry.Requirement `json:"labels"`
	Namespace []podentry.Requirement `json:"namespace"`
}

// Other is what a set must know of another: whether it injects into the pod, too, and the names of what it brings.
type Other struct {
	Name  string   `json:"name"`
	Match Match    `json:"match"`
	Skip  []string `json:"skip"`
	// First and Last are containers before and after those of the pod, InitFirst and InitLast init containers likewise.
	First     []string `json:"first"`
	Last      []string `json:"last"`
	InitFirst []string `json:"initFirst"`
	InitLast  []string `json:"initLast"`
	Volumes   []string `json:"volumes"`
	Secrets   []string `json:"secrets"`
}

// Variant is one way of injecting.
type Variant struct {
	// When are requirements on the labels of the pod.
	When []podentry.Requirement `json:"when"`
	// Percent is the share of pods that get it; nil: all.
	Percent *int32 `json:"percent,omitempty"`
	// Containers and InitContainers are in the order in which they stand in the pod.
	Containers     []Container `json:"containers"`
	InitContainers []Container `json:"initContainers"`
	// Volumes are the ones that the containers use, sorted by name; Secrets are names, sorted.
	Volumes []map[string]any `json:"volumes"`
	Secrets []string         `json:"secrets"`
	// Static says that the containers are as in their Value in every pod, and that there are no init containers. Into a pod that has no sidecars yet, and into
	// which no other set injects, they are put At their places. The policy need not evaluate more then, which is most of what it costs.
	Static bool `json:"static,omitempty"`
	// Annotations are all that a pod without annotations gets when no other set injects into it; absent when they are long.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Patches are for annotations, in order.
	Patches []Patch `json:"patches"`
	// Constants are annotations that are always set: the versions of hot upgrade pairs.
	Constants map[string]string `json:"constants"`
	// Working are the members of WorkingAnnotation, such as "proxy":"proxy-1", and WorkingKeys their keys, such as "proxy":.
	Working     []string `json:"working"`
	WorkingKeys []string `json:"workingKeys"`
	// Entry and EntryWithoutImage are the members of the two hash annotations. Key is how both begin.
	Entry             string `json:"entry"`
	EntryWithoutImage string `json:"entryWithoutImage"`
	Key               string `json:"key"`
	// Mark is in the hash annotation of a pod that has this already.
	Mark string `json:"mark"`
}

// Container is one sidecar.
type Container struct {
	// Value is the container as it gets into the pod, but for what is taken from other containers.
	Value map[string]any `json:"value"`
	Name  string         `json:"name"`
	// First says that it stands before the containers of the pod.
	First bool `json:"first"`
	// At is the path at which a JSON patch adds it to a pod without sidecars, after those before it. Empty unless the variant is Static.
	At string `json:"at,omitempty"`
	// Hot says that it is one of a hot upgrade pair. A pod whose annotations name this revision may have the two images the other way round, as after an
	// upgrade, so only with the image in Value is it the container that a new pod gets.
	Hot bool `json:"hot,omitempty"`
	// Beyond are names of sidecars of the same block, of this set and of others, between it and the block's outer end: those that stand
	// before it when First, and after it otherwise.
	Beyond []string `json:"beyond"`
	// ShareMounts and ShareDevices give it the volume mounts and devices of the pod's containers.
	ShareMounts  bool `json:"shareMounts"`
	ShareDevices bool `json:"shareDevices"`
	// Transfers are environment variables to copy, in order.
	Transfers []Transfer `json:"transfers"`
	// Resources computes its resources from those of the pod's containers; nil leaves them as they are in Value.
	Resources *Resources `json:"resources,omitempty"`
}

// Transfer copies environment variables of one container of the pod.
type Transfer struct {
	// From is the name of the container. Label or Annotation, when set, is the key of where the name is found instead.
	From       string `json:"from"`
	Label      string `json:"label"`
	Annotation string `json:"annotation"`
	// Names are the variables, sorted.
	Names []string `json:"names"`
}

// Resources are computed from the target containers.
type Resources struct {
	// Mode is sum or max.
	Mode string `json:"mode"`
	// Regex says which containers are targets, by name; it may match anywhere in it.
	Regex string `json:"regex"`
	// Limits and Requests are expressions by resource.
	Limits   map[string]string `json:"limits"`
	Requests map[string]string `json:"requests"`
	// Amounts are the same expressions, taken apart for the policy; absent when one of them cannot be.
	Amounts []Amount `json:"amounts,omitempty"`
}

// Policies for annotations.
const (
	Retain         = "Retain"
	Overwrite      = "Overwrite"
	MergePatchJSON = "MergePatchJson"
)

// Patch is for one annotation.
type Patch struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Policy string `json:"policy"`
	// Yields are sets that decide instead when they inject into the pod, too.
	Yields []string `json:"yields"`
	// Then are merges of later sets into the same annotation. They are made again after this one, so that the order of sets decides, not
	// the order in which they were asked.
	Then []Merge `json:"then"`
}

// Merge is the patch of another set.
type Merge struct {
	Set   string `json:"set"`
	Value string `json:"value"`
}

// Webhooked are the features that the policy does not have, in words, sorted. With one of them the set is injected by webhook.
func (i Injection) Webhooked() []string {
	features := map[string]bool{}
	for _, v := range i.Variants {
		_, level := v.computing()
		features["resourcesPolicy with so many steps or sidecars"] = features["resourcesPolicy with so many steps or sidecars"] || level > maxCost || v.containers() < fewContainers
		features["a revision for a share of the pods"] = features["a revision for a share of the pods"] || v.Percent != nil
		for _, p := range v.Patches {
			features["patchPolicy "+MergePatchJSON] = features["patchPolicy "+MergePatchJSON] || p.Policy == MergePatchJSON
		}
		features["a field that this version does not know"] = features["a field that this version does not know"] || v.unknown()
		for _, c := range v.sidecars() {
			if c.Resources != nil && len(c.Resources.Amounts) < len(c.Resources.Limits)+len(c.Resources.Requests) {
				features["resourcesPolicy with an expression that is nested too deeply, or has too many digits"] = true
			}
		}
	}
	return sortedKeys(features)
}

// unknown says that a container or volume has a field that our types do not have. A webhook may set it, and the API server drops what it does not know
// either; a pod into which a policy puts such a field is refused.
func (v Variant) unknown() bool {
	strict := func(value map[string]any, into any) bool {
		return runtime.IsStrictDecodingError(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(value, into, true))
	}
	return slices.ContainsFunc(v.sidecars(), func(c Container) bool { return strict(c.Value, &corev1.Container{}) }) ||
		slices.ContainsFunc(v.Volumes, func(volume map[string]any) bool { return strict(volume, &corev1.Volume{}) })
}

// sidecars are all containers of a variant.
func (v Variant) sidecars() []Container { return slices.Concat(v.Containers, v.InitContainers) }
