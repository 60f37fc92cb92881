// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sidecarspec has the forms of the spec of a SidecarSet: its defaults, the hashes that pods carry, and what a revision records.
//
// The hashes and the bytes of a revision are those of OpenKruise 1.9, so a pod that OpenKruise injected has the same version here. They are
// computed from a copy with fixed defaults, since new defaults of a later Kubernetes would make every pod of a cluster differ.
package sidecarspec

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podtemplate"
	"github.com/kruise-operator/kruise-operator/internal/engine/revision"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// HistoryLimit is revisionHistoryLimit when it is omitted.
const HistoryLimit = 10

// Default fills in what the user left out, except in lists: those would be written back as our types have them, and lose fields that these
// do not know. The schema has the defaults for our own fields of containers and patches. Containers and volumes get no defaults of
// Kubernetes, which would show up as drift in whatever the manifest is kept in.
func Default(spec *v1beta1.SidecarSetSpec) {
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = ptr.To[int32](HistoryLimit)
	}
	if revision := spec.InjectionStrategy.Revision; revision != nil {
		revision.Policy = cmp.Or(revision.Policy, v1beta1.AlwaysSidecarSetInjectRevisionPolicy)
	}
	strategy := &spec.UpdateStrategy
	strategy.Type = cmp.Or(strategy.Type, v1beta1.RollingUpdateSidecarSetStrategyType)
	if strategy.Partition == nil {
		strategy.Partition = ptr.To(intstr.FromInt32(0))
	}
	if strategy.MaxUnavailable == nil {
		strategy.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	}
}

func defaultSidecars(sidecars []v1beta1.SidecarContainer, place v1beta1.SidecarInjectPolicy) {
	for i := range sidecars {
		c := &sidecars[i]
		c.PodInjectPolicy = cmp.Or(c.PodInjectPolicy, place)
		c.UpgradeStrategy.UpgradeType = cmp.Or(c.UpgradeStrategy.UpgradeType, v1beta1.ColdUpgrade)
		c.ShareVolumePolicy.Type = cmp.Or(c.ShareVolumePolicy.Type, v1beta1.ShareVolumePolicyDisabled)
		for j := range c.TransferEnv {
			if from := c.TransferEnv[j].SourceContainerNameFrom; from != nil && from.FieldRef != nil {
				from.FieldRef.APIVersion = cmp.Or(from.FieldRef.APIVersion, "v1")
			}
		}
	}
}

func defaultPatches(patches []v1beta1.SidecarSetPatchPodMetadata) {
	for i := range patches {
		patches[i].PatchPolicy = cmp.Or(patches[i].PatchPolicy, v1beta1.SidecarSetRetainPatchPolicy)
	}
}

// Fields are the fields of a spec that a revision records. Absent lists are null in it.
type Fields struct {
	Volumes          []corev1.Volume                      `json:"volumes"`
	Containers       []v1beta1.SidecarContainer           `json:"containers"`
	InitContainers   []v1beta1.SidecarContainer           `json:"initContainers"`
	ImagePullSecrets []corev1.LocalObjectReference        `json:"imagePullSecrets"`
	PatchPodMetadata []v1beta1.SidecarSetPatchPodMetadata `json:"patchPodMetadata"`
}

// Payload is what a revision records of a spec, and what pods get.
type Payload struct {
	Fields
	// raw is the same as it is stored, with fields that our types do not know; nil: there are none.
	raw map[string]any
}

// PayloadOf is the payload of a spec with all defaults. raw is the spec as it is stored, from which fields that our types do not know are
// taken; it may be nil. It changes neither.
func PayloadOf(spec *v1beta1.SidecarSetSpec, raw map[string]any) *Payload {
	spec = spec.DeepCopy()
	p := &Payload{raw: raw, Fields: Fields{
		Volumes: spec.Volumes, Containers: spec.Containers, InitContainers: spec.InitContainers,
		ImagePullSecrets: spec.ImagePullSecrets, PatchPodMetadata: spec.PatchPodMetadata,
	}}
	p.fillIn()
	return p
}

// fillIn fills in the pinned defaults. Empty lists are equal to missing ones.
func (p *Payload) fillIn() {
	defaultSidecars(p.Containers, v1beta1.BeforeAppContainer)
	defaultSidecars(p.InitContainers, v1beta1.AfterAppContainer)
	defaultPatches(p.PatchPodMetadata)
	for _, sidecars := range [][]v1beta1.SidecarContainer{p.Containers, p.InitContainers} {
		for i := range sidecars {
			podtemplate.DefaultContainer(&sidecars[i].Container)
		}
	}
	for i := range p.Volumes {
		podtemplate.DefaultVolume(&p.Volumes[i])
	}
	p.Volumes, p.Containers, p.InitContainers = orNil(p.Volumes), orNil(p.Containers), orNil(p.InitContainers)
	p.ImagePullSecrets, p.PatchPodMetadata = orNil(p.ImagePullSecrets), orNil(p.PatchPodMetadata)
}

func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// IsNative says that an init container is a native sidecar: it runs beside the containers of the pod.
func IsNative(c *v1beta1.SidecarContainer) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Hashes are what pods carry of the sidecars, to be compared.
type Hashes struct {
	// Hash is of the sidecars, WithoutImage of the same without their images.
	Hash, WithoutImage string
}

// HashesOf are the hashes of a payload. Volumes, secrets, metadata and init containers that are no native sidecars make no difference;
// once there is a native sidecar, all init containers do.
func HashesOf(p *Payload) (Hashes, error) {
	hash, err := hashOf(p.Containers, p.InitContainers)
	if err != nil {
		return Hashes{}, err
	}
	withoutImage, err := hashOf(withoutImages(p.Containers), withoutImages(p.InitContainers))
	return Hashes{Hash: hash, WithoutImage: withoutImage}, err
}

// HashesRecorded are those of what a revision records: the annotations say them, else they are computed (sidecarset.md I-10).
func HashesRecorded(recorded *appsv1.ControllerRevision) (Hashes, error) {
	hashes := Hashes{Hash: recorded.Annotations[shared.AnnotationSidecarSetHash], WithoutImage: recorded.Annotations[shared.AnnotationSidecarSetHashWithoutImage]}
	if hashes.Hash != "" && hashes.WithoutImage != "" {
		return hashes, nil
	}
	payload, err := decode(recorded.Data.Raw)
	if err != nil {
		return Hashes{}, fmt.Errorf("decoding what it records: %w", err)
	}
	return HashesOf(payload)
}

func hashOf(containers, initContainers []v1beta1.SidecarContainer) (string, error) {
	parts := map[string]any{"containers": containers}
	for i := range initContainers {
		if IsNative(&initContainers[i]) {
			parts["initContainers"] = initContainers
		}
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("encoding the sidecars: %w", err)
	}
	sum := sha256.Sum256(text)
	return rand.SafeEncodeString(hex.EncodeToString(sum[:])), nil
}

func withoutImages(sidecars []v1beta1.SidecarContainer) []v1beta1.SidecarContainer {
	copied := make([]v1beta1.SidecarContainer, len(sidecars))
	for i := range sidecars {
		copied[i] = sidecars[i]
		copied[i].Image = ""
	}
	return orNil(copied)
}

// Codec says how the payload of a set is recorded. It encodes each payload once, however often it compares it: use one for one pass.
func Codec() revision.Codec[Payload] {
	known := map[*Payload][]byte{}
	encoded := func(p *Payload) []byte {
		if text, ok := known[p]; ok {
			return text
		}
		text, err := encode(p)
		if err != nil {
			return nil
		}
		known[p] = text
		return text
	}
	return revision.Codec[Payload]{
		Encode: encode, Decode: decode,
		Same: func(a, b *Payload) bool {
			left, right := encoded(a), encoded(b)
			return left != nil && bytes.Equal(left, right)
		},
	}
}

func encode(p *Payload) ([]byte, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p.Fields)
	if err != nil {
		return nil, fmt.Errorf("encoding the sidecars: %w", err)
	}
	for name, value := range fields {
		fields[name] = withUnknown(value, p.raw[name])
	}
	data, err := revision.Replacement(fields, "spec")
	if err != nil {
		return nil, fmt.Errorf("encoding the sidecars: %w", err)
	}
	return data, nil
}

// withUnknown adds to a value the members of raw that it does not have and that say something.
func withUnknown(value, raw any) any {
	switch raw := raw.(type) {
	case map[string]any:
		members, ok := value.(map[string]any)
		if !ok {
			return value
		}
		for name, member := range raw {
			if known, has := members[name]; has {
				members[name] = withUnknown(known, member)
			} else if !isEmpty(member) {
				members[name] = member
			}
		}
	case []any:
		items, ok := value.([]any)
		if !ok || len(items) != len(raw) {
			return value
		}
		for i := range items {
			items[i] = withUnknown(items[i], raw[i])
		}
	}
	return value
}

// isEmpty says that a value is equivalent to an absent one: our types leave it out.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case bool:
		return !value
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return false
}

var errNoSpec = errors.New("its data has no spec")

func decode(data []byte) (*Payload, error) {
	var recorded struct {
		Spec *Fields `json:"spec"`
	}
	if err := quantity.Unmarshal(data, &recorded); err != nil {
		return nil, err
	}
	if recorded.Spec == nil {
		return nil, errNoSpec
	}
	var raw struct {
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	delete(raw.Spec, "$patch")
	p := &Payload{Fields: *recorded.Spec, raw: raw.Spec}
	p.fillIn()
	return p, nil
}
