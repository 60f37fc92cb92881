// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
)

// Set is a SidecarSet for injection, read from the stored object:
// containers and volumes keep all fields, even unknown ones.
type Set struct {
	Name  string
	Match Match
	// Base is the set of this canary.
	Base string
	// Paused injects nothing.
	Paused bool
	// Latest is the spec, Pinned the revision of injectionStrategy, once found.
	Latest Payload
	Pinned *Payload
	// Revision is how injectionStrategy names a historic revision; nil: it does not.
	Revision *RevisionChoice
	// UpdatePaused, UpdateSelector and Partition are of the update strategy. They decide whom a pinned revision concerns.
	UpdatePaused   bool
	UpdateSelector []podentry.Requirement
	Partition      *intstr.IntOrString
	// SortByName orders ordinary sidecars of all sets by name, as init containers always are.
	SortByName bool
}

// RevisionChoice names a historic revision.
type RevisionChoice struct {
	Name, CustomVersion, Policy string
}

// Payload is a set's injection at one revision.
type Payload struct {
	InitContainers, Containers, Volumes []map[string]any
	Secrets                             []string
	Patches                             []appsv1beta1.SidecarSetPatchPodMetadata
	// Hash and HashWithoutImage are of the sidecars. Revision is the ControllerRevision's name, Time its creation.
	Hash, HashWithoutImage, Revision, Time string
}

// stored is the decoded part of a SidecarSet.
type stored struct {
	Spec struct {
		payload           `json:",inline"`
		Selector          *metav1.LabelSelector                   `json:"selector,omitempty"`
		NamespaceSelector *metav1.LabelSelector                   `json:"namespaceSelector,omitempty"`
		UpdateStrategy    appsv1beta1.SidecarSetUpdateStrategy    `json:"updateStrategy,omitempty"`
		InjectionStrategy appsv1beta1.SidecarSetInjectionStrategy `json:"injectionStrategy,omitempty"`
	} `json:"spec,omitempty"`
	Status struct {
		LatestRevision string `json:"latestRevision,omitempty"`
	} `json:"status,omitempty"`
}

// payload is common to a spec and a historic revision.
type payload struct {
	InitContainers   []map[string]any                         `json:"initContainers,omitempty"`
	Containers       []map[string]any                         `json:"containers,omitempty"`
	Volumes          []map[string]any                         `json:"volumes,omitempty"`
	ImagePullSecrets []corev1.LocalObjectReference            `json:"imagePullSecrets,omitempty"`
	PatchPodMetadata []appsv1beta1.SidecarSetPatchPodMetadata `json:"patchPodMetadata,omitempty"`
}

// ParseSet reads a stored SidecarSet. Latest gets hashes and revision from annotations and status.
func ParseSet(object map[string]any) (*Set, error) {
	var from stored
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": object["spec"], "status": object["status"]}, &from); err != nil {
		return nil, fmt.Errorf("decoding the SidecarSet: %w", err)
	}
	var meta struct {
		Metadata struct {
			Name              string            `json:"name"`
			CreationTimestamp string            `json:"creationTimestamp"`
			Annotations       map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"metadata": object["metadata"]}, &meta); err != nil {
		return nil, fmt.Errorf("decoding the metadata of the SidecarSet: %w", err)
	}
	spec, annotations := from.Spec, meta.Metadata.Annotations
	set := &Set{
		Name: meta.Metadata.Name, Paused: spec.InjectionStrategy.Paused, UpdatePaused: spec.UpdateStrategy.Paused, Partition: spec.UpdateStrategy.Partition,
		Latest: spec.payload.payload(),
	}
	set.Latest.Hash, set.Latest.HashWithoutImage = annotations[HashAnnotation], annotations[HashWithoutImageAnnotation]
	set.Latest.Revision, set.Latest.Time = from.Status.LatestRevision, meta.Metadata.CreationTimestamp
	if annotations[CanaryAnnotation] == "true" {
		set.Base = annotations[BaseAnnotation]
	}
	if r := spec.InjectionStrategy.Revision; r != nil && (r.RevisionName != nil || r.CustomVersion != nil) {
		set.Revision = &RevisionChoice{Policy: string(r.Policy)}
		if r.RevisionName != nil {
			set.Revision.Name = *r.RevisionName
		} else {
			set.Revision.CustomVersion = *r.CustomVersion
		}
	}
	return set, set.selectors(spec.Selector, spec.NamespaceSelector, spec.UpdateStrategy.Selector)
}

func (s *Set) selectors(pods, namespaces, update *metav1.LabelSelector) error {
	var err error
	if s.Match, err = MatchOf(pods, namespaces); err != nil {
		return err
	}
	if s.UpdateSelector, err = podentry.Requirements(update); err != nil {
		return fmt.Errorf("spec.updateStrategy.selector: %w", err)
	}
	return nil
}

// ParseRevision reads a historic revision's decoded data. The caller fills in names and hashes.
func ParseRevision(data map[string]any) (*Payload, error) {
	var from struct {
		Spec payload `json:"spec"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(data, &from); err != nil {
		return nil, fmt.Errorf("decoding the revision: %w", err)
	}
	p := from.Spec.payload()
	return &p, nil
}

func (p payload) payload() Payload {
	secrets := make([]string, len(p.ImagePullSecrets))
	for i := range p.ImagePullSecrets {
		secrets[i] = p.ImagePullSecrets[i].Name
	}
	// OpenKruise has stored any patchPolicy. Unknown ones do nothing.
	patches := slices.DeleteFunc(slices.Clone(p.PatchPodMetadata), func(m appsv1beta1.SidecarSetPatchPodMetadata) bool {
		return !slices.Contains([]appsv1beta1.SidecarSetPatchPolicy{"", Retain, Overwrite, MergePatchJSON}, m.PatchPolicy)
	})
	return Payload{InitContainers: p.InitContainers, Containers: p.Containers, Volumes: p.Volumes, Secrets: secrets, Patches: patches}
}

// template is one sidecar, split into the container and the set's own fields.
type template struct {
	container map[string]any
	name      string
	extra     appsv1beta1.SidecarContainer // without the fields of a container
}

// extraFields are the SidecarContainer's own fields, unknown to containers.
func extraFields() []string {
	return []string{"podInjectPolicy", "upgradeStrategy", "shareVolumePolicy", "shareVolumeDevicePolicy", "transferEnv", "resourcesPolicy"}
}

// split takes a SidecarContainer apart.
func split(sidecar map[string]any) (template, error) {
	var t template
	part := map[string]any{}
	t.container = runtime.DeepCopyJSON(sidecar)
	for _, field := range extraFields() {
		if value, has := t.container[field]; has && value != nil {
			part[field] = value
		}
		delete(t.container, field)
	}
	dropNulls(t.container)
	t.name, _ = t.container["name"].(string)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(part, &t.extra); err != nil {
		return t, fmt.Errorf("decoding container %s: %w", t.name, err)
	}
	return t, nil
}

// dropNulls removes null fields: absent for an API server, but present for an expression.
func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if member == nil {
				delete(value, name)
			}
			dropNulls(member)
		}
	case []any:
		for _, item := range value {
			dropNulls(item)
		}
	}
}
