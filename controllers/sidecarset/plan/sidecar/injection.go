// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sidecar decides the content of injected pods.
//
// A SidecarSet is compiled with the sets meeting it on pods into an Injection: plain data. Inject,
// in the webhook, and the static policy, in the API server, both interpret it, with the same result.
//
// Policies run in random order, and so may sets. Every set therefore knows the
// others' names and its position among them: the pod is the same in every order.
package sidecar

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

// OwnAnnotation reports whether SidecarSets keep their records under this key. No set chooses its value.
func OwnAnnotation(key string) bool {
	switch key {
	case shared.AnnotationSidecarSetHash, shared.AnnotationSidecarSetHashWithoutImage, shared.AnnotationSidecarSetInjectedList,
		shared.AnnotationSidecarSetWorkingContainer, shared.AnnotationSidecarSetInPlaceState, shared.AnnotationSidecarSetInPlaceEvidence:
		return true
	}
	return strings.HasPrefix(key, shared.AnnotationSidecarSetVersionPrefix) || strings.HasPrefix(key, shared.AnnotationSidecarSetVersionAltPrefix)
}

// Injection is the content one SidecarSet adds to pods, stored in a
// ControllerRevision. Lists are never absent, to spare expressions a check.
type Injection struct {
	// Set is the name of the SidecarSet.
	Set string `json:"set"`
	// Skip are this set's canaries among Others: it leaves their pods alone.
	Skip []string `json:"skip"`
	// Others are the sets possibly injecting into the same pods.
	Others []Other `json:"others"`
	// Variants are tried in order; the first match is injected. The last matches every pod.
	Variants []Variant `json:"variants"`
	// Drop are sets never on one pod with this one: a copied pod loses their records.
	Drop []string `json:"drop,omitempty"`
	// Takes: sidecars copy from the pod's containers. The API server bounds an
	// expression's cost, so the policy refuses pods with very much to copy.
	Takes bool `json:"takes,omitempty"`
}

// Match selects a set's pods.
type Match struct {
	// Labels are about the pod, Namespace about its namespace. All must hold.
	Labels    []podentry.Requirement `json:"labels"`
	Namespace []podentry.Requirement `json:"namespace"`
}

// Other describes another set: its selection of pods and its names.
type Other struct {
	Name  string   `json:"name"`
	Match Match    `json:"match"`
	Skip  []string `json:"skip"`
	// First and Last are containers before and after the pod's, InitFirst and InitLast init containers likewise.
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
	// Percent is its share of pods; nil: all.
	Percent *int32 `json:"percent,omitempty"`
	// Containers and InitContainers are in pod order.
	Containers     []Container `json:"containers"`
	InitContainers []Container `json:"initContainers"`
	// Volumes are those mounted by the containers, sorted by name; Secrets are sorted names.
	Volumes []map[string]any `json:"volumes"`
	Secrets []string         `json:"secrets"`
	// Static: the containers equal Value in every pod, without init containers. A pod without
	// sidecars, of no other set, gets them At their places. This spares the policy most of its cost.
	Static bool `json:"static,omitempty"`
	// Annotations are complete for a pod without annotations and other sets; absent if long.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Patches are for annotations, in order.
	Patches []Patch `json:"patches"`
	// Constants are always set: the versions of hot upgrade pairs.
	Constants map[string]string `json:"constants"`
	// Working are the members of shared.AnnotationSidecarSetWorkingContainer, such as "proxy":"proxy-1", and WorkingKeys their keys, such as "proxy":.
	Working     []string `json:"working"`
	WorkingKeys []string `json:"workingKeys"`
	// Entry and EntryWithoutImage are the members of the two hash annotations. Key is how both begin.
	Entry             string `json:"entry"`
	EntryWithoutImage string `json:"entryWithoutImage"`
	Key               string `json:"key"`
	// Mark is in the hash annotation of an injected pod.
	Mark string `json:"mark"`
}

// Container is one sidecar.
type Container struct {
	// Value is the injected container without its copies from others.
	Value map[string]any `json:"value"`
	Name  string         `json:"name"`
	// First: it stands before the containers of the pod.
	First bool `json:"first"`
	// At is its JSON patch path in a pod without sidecars, after those before it. Empty unless the variant is Static.
	At string `json:"at,omitempty"`
	// Hot: it is one of a pair. An upgrade swaps the images of a pod marked with
	// this revision, so only the image in Value shows the container of a new pod.
	Hot bool `json:"hot,omitempty"`
	// Beyond are sidecars between it and the block's outer end, of all sets: before it if First, else after it.
	Beyond []string `json:"beyond"`
	// ShareMounts and ShareDevices give it the volume mounts and devices of the pod's containers.
	ShareMounts  bool `json:"shareMounts"`
	ShareDevices bool `json:"shareDevices"`
	// Transfers are environment variables to copy, in order.
	Transfers []Transfer `json:"transfers"`
	// Resources computes its resources from the pod's containers; nil: as in Value.
	Resources *Resources `json:"resources,omitempty"`
}

// Transfer copies environment variables of one container of the pod.
type Transfer struct {
	// From is the container's name. Label or Annotation, if set, is the key of the name instead.
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
	// Regex matches the names of targets, unanchored.
	Regex string `json:"regex"`
	// Limits and Requests are expressions by resource.
	Limits   map[string]string `json:"limits"`
	Requests map[string]string `json:"requests"`
}

const (
	retain     = appsv1beta1.SidecarSetRetainPatchPolicy
	overwrite  = appsv1beta1.SidecarSetOverwritePatchPolicy
	mergePatch = appsv1beta1.SidecarSetMergePatchJSONPatchPolicy
)

// Patch is for one annotation.
type Patch struct {
	Key    string                            `json:"key"`
	Value  string                            `json:"value"`
	Policy appsv1beta1.SidecarSetPatchPolicy `json:"policy"`
	// Yields are sets taking precedence if they inject too.
	Yields []string `json:"yields"`
	// Then are later sets' merges into the annotation, repeated after this one: the order of sets decides, not of calls.
	Then []Merge `json:"then"`
}

// Merge is the patch of another set.
type Merge struct {
	Set   string `json:"set"`
	Value string `json:"value"`
}

// maxTakers and maxTransferred bound sidecars copying from the pod's containers, and the
// variables one copies: with more, an expression of the policy would cost too much.
const maxTakers, maxTransferred = 5, 140

// takers are the sidecars copying from the pod's containers, variables the most one copies.
func (v Variant) takers() (takers, variables int) {
	for _, c := range v.sidecars() {
		if c.takes() {
			takers++
		}
		names := 0
		for _, t := range c.Transfers {
			names += len(t.Names)
		}
		variables = max(variables, names)
	}
	return takers, variables
}

// Webhooked returns the features the policy lacks, in words, sorted. Any of them requires the webhook.
func (i Injection) Webhooked() []string {
	features := []string{}
	for _, feature := range []struct {
		words string
		of    func(Variant) bool
	}{
		{"a field that this version does not know", Variant.unknown},
		{"a revision for a share of the pods", func(v Variant) bool { return v.Percent != nil }},
		{"patchPolicy MergePatchJson", func(v Variant) bool {
			return slices.ContainsFunc(v.Patches, func(p Patch) bool { return p.Policy == mergePatch })
		}},
		{"resourcesPolicy", func(v Variant) bool {
			return slices.ContainsFunc(v.sidecars(), func(c Container) bool { return c.Resources != nil })
		}},
		{"very many sidecars or variables that take something from the pod's containers", func(v Variant) bool {
			takers, variables := v.takers()
			return takers > maxTakers || variables > maxTransferred
		}},
	} {
		if slices.ContainsFunc(i.Variants, feature.of) {
			features = append(features, feature.words)
		}
	}
	return features
}

// unknown reports whether a container or volume has a field unknown to our types.
// The API server drops it after a webhook, but refuses the pod after a policy.
func (v Variant) unknown() bool {
	strict := func(value map[string]any, into any) bool {
		return runtime.IsStrictDecodingError(runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(value, into, true))
	}
	return slices.ContainsFunc(v.sidecars(), func(c Container) bool { return strict(c.Value, &corev1.Container{}) }) ||
		slices.ContainsFunc(v.Volumes, func(volume map[string]any) bool { return strict(volume, &corev1.Volume{}) })
}

// sidecars are all containers of a variant.
func (v Variant) sidecars() []Container { return slices.Concat(v.Containers, v.InitContainers) }

// revisionHash is how many characters of the hash are in the name of a revision.
const revisionHash = 12

// Encode returns the ControllerRevision's data and name. The name is a hash of the data.
func (i Injection) Encode() (name string, data []byte, err error) {
	if data, err = json.Marshal(i); err != nil {
		return "", nil, fmt.Errorf("encoding what SidecarSet %s injects: %w", i.Set, err)
	}
	return RevisionName(i.Set, data), data, nil
}

// RevisionName is the name of the ControllerRevision for data.
func RevisionName(set string, data []byte) string {
	sum := sha256.Sum256(data)
	return "sidecarset-" + set + "-" + rand.SafeEncodeString(hex.EncodeToString(sum[:]))[:revisionHash]
}

// Decode reads the data of such a ControllerRevision. Whole numbers stay whole.
func Decode(data []byte) (Injection, error) {
	var i Injection
	if err := kjson.Unmarshal(data, &i); err != nil {
		return i, fmt.Errorf("decoding what a SidecarSet injects: %w", err)
	}
	return i, nil
}
