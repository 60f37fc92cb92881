// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sidecarspec handles a SidecarSet's spec: its defaults, hashes and revisions.
//
// Hashes and revisions are those of OpenKruise 1.9: its pods keep their version here. They
// use fixed defaults: new ones of a later Kubernetes would change every pod's version.
package sidecarspec

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

// Default fills in omissions, except in lists: written back by our types, they would
// lose unknown fields. The schema has the defaults for our own fields of containers
// and patches. Kubernetes' defaults would show as drift in the manifest's source.
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
		podtemplate.DefaultContainer(&c.Container)
		for j := range c.TransferEnv {
			if from := c.TransferEnv[j].SourceContainerNameFrom; from != nil && from.FieldRef != nil {
				from.FieldRef.APIVersion = cmp.Or(from.FieldRef.APIVersion, "v1")
			}
		}
	}
}

// Fields are the recorded fields of a spec. Absent lists are null.
type Fields struct {
	Volumes          []corev1.Volume                      `json:"volumes"`
	Containers       []v1beta1.SidecarContainer           `json:"containers"`
	InitContainers   []v1beta1.SidecarContainer           `json:"initContainers"`
	ImagePullSecrets []corev1.LocalObjectReference        `json:"imagePullSecrets"`
	PatchPodMetadata []v1beta1.SidecarSetPatchPodMetadata `json:"patchPodMetadata"`
}

// Payload is the recorded spec, injected into pods.
type Payload struct {
	Fields
	// raw is the stored form with fields unknown to our types; nil: none.
	raw map[string]any
	// encoded is how it is recorded, once somebody has asked.
	encoded []byte
}

// PayloadOf is a spec's payload with all defaults. raw, the stored spec,
// adds fields unknown to our types; it may be nil. Neither is changed.
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
	for i := range p.PatchPodMetadata {
		p.PatchPodMetadata[i].PatchPolicy = cmp.Or(p.PatchPodMetadata[i].PatchPolicy, v1beta1.SidecarSetRetainPatchPolicy)
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

// Kept names other fields beside containers. Running pods never follow them.
func Kept(is, was *Payload) (fields []string) {
	compare := func(name string, is, was any) {
		if !equality.Semantic.DeepEqual(is, was) {
			fields = append(fields, name)
		}
	}
	compare("spec.initContainers", is.InitContainers, was.InitContainers)
	compare("spec.volumes", is.Volumes, was.Volumes)
	compare("spec.imagePullSecrets", is.ImagePullSecrets, was.ImagePullSecrets)
	return fields
}

// IsNative reports whether an init container is a native sidecar, running beside the pod's containers.
func IsNative(c *v1beta1.SidecarContainer) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Hashes identify the sidecars on pods.
type Hashes struct {
	// Hash is of the sidecars, WithoutImage of the same without their images.
	Hash, WithoutImage string
}

// HashesOf hashes a payload. Volumes, secrets, metadata and ordinary init
// containers are left out; one native sidecar includes all init containers.
func HashesOf(p *Payload) (Hashes, error) {
	hash, err := hashOf(p.Containers, p.InitContainers)
	if err != nil {
		return Hashes{}, err
	}
	withoutImage, err := hashOf(withoutImages(p.Containers), withoutImages(p.InitContainers))
	return Hashes{Hash: hash, WithoutImage: withoutImage}, err
}

// HashesIn are the hashes in the annotations of a set or its revision.
func HashesIn(annotations map[string]string) Hashes {
	return Hashes{Hash: annotations[shared.AnnotationSidecarSetHash], WithoutImage: annotations[shared.AnnotationSidecarSetHashWithoutImage]}
}

// HashesRecorded returns a revision's hashes from its annotations, else computed (sidecarset.md I-10).
func HashesRecorded(recorded *appsv1.ControllerRevision) (Hashes, error) {
	hashes := HashesIn(recorded.Annotations)
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
	if slices.ContainsFunc(initContainers, func(c v1beta1.SidecarContainer) bool { return IsNative(&c) }) {
		parts["initContainers"] = initContainers
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("encoding the sidecars: %w", err)
	}
	sum := sha256.Sum256(text)
	return rand.SafeEncodeString(hex.EncodeToString(sum[:])), nil
}

func withoutImages(sidecars []v1beta1.SidecarContainer) []v1beta1.SidecarContainer {
	copied := slices.Clone(sidecars)
	for i := range copied {
		copied[i].Image = ""
	}
	return copied
}

// Codec records payloads.
func Codec() revision.Codec[Payload] {
	return revision.Codec[Payload]{
		Encode: encode, Decode: decode,
		Same: func(a, b *Payload) bool {
			left, err := encode(a)
			right, other := encode(b)
			return err == nil && other == nil && bytes.Equal(left, right)
		},
	}
}

func encode(p *Payload) ([]byte, error) {
	if p.encoded != nil {
		return p.encoded, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p.Fields)
	if err != nil {
		return nil, fmt.Errorf("encoding the sidecars: %w", err)
	}
	for name, value := range fields {
		fields[name] = withUnknown(value, p.raw[name])
	}
	if p.encoded, err = revision.Replacement(fields, "spec"); err != nil {
		return nil, fmt.Errorf("encoding the sidecars: %w", err)
	}
	return p.encoded, nil
}

// withUnknown adds raw's unknown, nonempty members to a value.
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

// isEmpty reports whether the value equals an absent one, omitted by our types.
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

// openKruise is OpenKruise's namespace for revisions of SidecarSets.
const openKruise = "kruise-system"

// RevisionNamespaces may hold revisions of SidecarSets: the operator's, and OpenKruise's
// with old ones. Users may write any number elsewhere, and would decide over others' pods.
func RevisionNamespaces(operator string) []string {
	if operator == openKruise {
		return []string{operator}
	}
	return []string{operator, openKruise}
}
