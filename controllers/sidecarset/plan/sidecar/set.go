// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kruise-operator/kruise-operator/api/apps/shared"
	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/controllers/sidecarset/plan/sidecarspec"
	"github.com/kruise-operator/kruise-operator/internal/engine/podentry"
	"github.com/kruise-operator/kruise-operator/internal/quantity"
)

// Set is a SidecarSet for injection, read from the stored object:
// containers and volumes keep all fields, even unknown ones.
type Set struct {
	Name string
	// Stored is the set as far as our types know it. Read-only.
	Stored *appsv1beta1.SidecarSet
	Match  Match
	// Base is the set of this canary.
	Base string
	// Paused injects nothing.
	Paused bool
	// Latest is the spec, Pinned the revision of injectionStrategy, once found.
	Latest Payload
	Pinned *Payload
	// Revision is how injectionStrategy names a historic revision; nil: it does not.
	Revision *appsv1beta1.SidecarSetInjectRevision
	// UpdatePaused, UpdateSelector and Partition are of the update strategy. They decide whom a pinned revision concerns.
	UpdatePaused   bool
	UpdateSelector []podentry.Requirement
	Partition      *intstr.IntOrString
	// SortByName orders ordinary sidecars of all sets by name, as init containers always are.
	SortByName bool
}

// Payload is a set's injection at one revision.
type Payload struct {
	InitContainers, Containers, Volumes []map[string]any
	Secrets                             []string
	Patches                             []appsv1beta1.SidecarSetPatchPodMetadata
	// Hashes are of the sidecars. Revision is the ControllerRevision's name, Time its creation.
	sidecarspec.Hashes
	Revision string
	Time     metav1.Time
}

// ParseSet reads a stored SidecarSet. Latest gets hashes and revision from annotations and status.
func ParseSet(object map[string]any) (*Set, error) {
	stored := &appsv1beta1.SidecarSet{}
	if err := quantity.FromUnstructured(object, stored); err != nil {
		return nil, fmt.Errorf("decoding the SidecarSet: %w", err)
	}
	spec, update := &stored.Spec, &stored.Spec.UpdateStrategy
	set := &Set{
		Name: stored.Name, Stored: stored, Latest: payloadOf(spec, object),
		Paused: spec.InjectionStrategy.Paused, UpdatePaused: update.Paused, Partition: update.Partition,
	}
	set.Latest.Hashes = sidecarspec.HashesIn(stored.Annotations)
	set.Latest.Revision, set.Latest.Time = stored.Status.LatestRevision, stored.CreationTimestamp
	if stored.Annotations[shared.AnnotationSidecarSetCanary] == "true" {
		set.Base = stored.Annotations[shared.AnnotationSidecarSetBase]
	}
	if r := spec.InjectionStrategy.Revision; r != nil && (r.RevisionName != nil || r.CustomVersion != nil) {
		set.Revision = r
	}
	var err error
	if set.Match, err = MatchOf(spec.Selector, spec.NamespaceSelector); err != nil {
		return set, err
	}
	if set.UpdateSelector, err = podentry.Requirements(update.Selector); err != nil {
		return set, fmt.Errorf("spec.updateStrategy.selector: %w", err)
	}
	return set, nil
}

// ParseRevision reads a historic revision's decoded data. The caller fills in names and hashes.
func ParseRevision(data map[string]any) (*Payload, error) {
	stored := &appsv1beta1.SidecarSet{}
	if err := quantity.FromUnstructured(data, stored); err != nil {
		return nil, fmt.Errorf("decoding the revision: %w", err)
	}
	p := payloadOf(&stored.Spec, data)
	return &p, nil
}

// payloadOf is what a spec injects. Its object has the fields that our types do not know.
func payloadOf(spec *appsv1beta1.SidecarSetSpec, object map[string]any) Payload {
	stored, _ := object["spec"].(map[string]any)
	p := Payload{
		InitContainers: objects(listOf(stored, "initContainers")), Containers: objects(listOf(stored, "containers")), Volumes: objects(listOf(stored, "volumes")),
	}
	for _, secret := range spec.ImagePullSecrets {
		p.Secrets = append(p.Secrets, secret.Name)
	}
	// OpenKruise has stored any patchPolicy. Unknown ones do nothing.
	known := []appsv1beta1.SidecarSetPatchPolicy{"", retain, overwrite, mergePatch}
	p.Patches = slices.DeleteFunc(slices.Clone(spec.PatchPodMetadata), func(m appsv1beta1.SidecarSetPatchPodMetadata) bool {
		return !slices.Contains(known, m.PatchPolicy)
	})
	return p
}

// objects are those in a list.
func objects(list []any) []map[string]any {
	var all []map[string]any
	for _, one := range list {
		if fields, is := one.(map[string]any); is {
			all = append(all, fields)
		}
	}
	return all
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
