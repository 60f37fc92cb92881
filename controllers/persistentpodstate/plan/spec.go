// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan decides which places of pods a PersistentPodState remembers, and which PersistentPodStates annotations of
// workloads ask for.
package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/ordinal"
	"github.com/kruise-operator/kruise-operator/internal/engine/place"
)

// Kind is PersistentPodState in its stored version.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion().WithKind("PersistentPodState") }

// Spec is a parsed spec.
type Spec struct {
	State *appsv1beta1.PersistentPodState
	// Keys are all keys of node labels, sorted.
	Keys []string
	// Annotations are keys of pod annotations.
	Annotations []string
	// Retains keeps the places of pods beyond the replicas.
	Retains bool
}

// Parse parses a spec.
func Parse(state *appsv1beta1.PersistentPodState) *Spec {
	spec := &Spec{State: state, Retains: state.Spec.PersistentPodStateRetentionPolicy == appsv1beta1.RetainUntilDeleted}
	if required := state.Spec.RequiredPersistentTopology; required != nil {
		spec.Keys = slices.Clone(required.Keys)
	}
	for i := range state.Spec.PreferredPersistentTopology {
		spec.Keys = append(spec.Keys, state.Spec.PreferredPersistentTopology[i].Preference.Keys...)
	}
	slices.Sort(spec.Keys)
	spec.Keys = slices.Compact(spec.Keys)
	for _, annotation := range state.Spec.PersistentPodAnnotations {
		spec.Annotations = append(spec.Annotations, annotation.Key)
	}
	return spec
}

// Target is the workload.
type Target struct {
	// Missing: it does not exist, or is being deleted.
	Missing bool
	// Unsupported is why nothing can be known about it; empty: it can.
	Unsupported string
	UID         types.UID
	// Selector and Ordinals are those of its pods.
	Selector labels.Selector
	Ordinals ordinal.Set
}

// Snapshot is the observed state.
type Snapshot struct {
	Now    time.Time
	Target Target
	// Pods are those the target controls.
	Pods []*corev1.Pod
	// Node returns a node's labels; false: the node is not known.
	Node  func(name string) (map[string]string, bool)
	Nodes place.Nodes
	// NotSteered is why new pods start anywhere; empty: they return.
	NotSteered string
}
