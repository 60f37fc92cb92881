// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/tests/framework/environment"
)

// oneKind is a namespace with sets of one kind, with unordered pods updated in place. A
// CloneSet's have random names: a lost answer must not make a second pod of another name.
type oneKind struct {
	*environment.Namespace
	kind string
	// watching follows the pods of the namespace; nil where nobody asked for it.
	watching *observer
}

// eachKind returns a namespace for each kind, with followed pods.
func eachKind(t *testing.T) []*oneKind {
	t.Helper()
	var all []*oneKind
	for _, kind := range []string{"StatefulSet", "CloneSet"} {
		n := env.Namespace(t)
		all = append(all, &oneKind{Namespace: n, kind: kind, watching: observe(t, n)})
	}
	return all
}

// kindOf lets the sets of one namespace take turns: even numbers are StatefulSets.
func kindOf(n *environment.Namespace, i int) *oneKind {
	return &oneKind{Namespace: n, kind: []string{"StatefulSet", "CloneSet"}[i%2]}
}

func (k *oneKind) apply(name string, replicas int, maxUnavailable string) {
	manifest := environment.StatefulSetManifest(name, replicas, "maxUnavailable: 1", "maxUnavailable: "+maxUnavailable)
	if k.kind == "CloneSet" {
		manifest = strings.NewReplacer("kind: StatefulSet", "kind: CloneSet", "  serviceName: "+name+"\n", "", "  podManagementPolicy: Parallel\n", "").Replace(manifest)
	}
	k.Apply(manifest)
}

func (k *oneKind) settled(name string) {
	if k.kind == "CloneSet" {
		k.SettledCloneSet(name)
		return
	}
	k.Settled(name)
}

func (k *oneKind) setImage(name, image string) {
	if k.kind == "CloneSet" {
		k.ChangeCloneSet(name, func(set *v1beta1.CloneSet) { set.Spec.Template.Spec.Containers[0].Image = image })
		return
	}
	k.SetImage(name, image)
}

func (k *oneKind) scale(name string, replicas int32) {
	if k.kind == "CloneSet" {
		k.ChangeCloneSet(name, func(set *v1beta1.CloneSet) { set.Spec.Replicas = ptr.To(replicas) })
		return
	}
	k.Change(name, func(set *v1beta1.StatefulSet) { set.Spec.Replicas = ptr.To(replicas) })
}

// progress is how far an update is, as the status says.
type progress struct{ updated, updatedAvailable int32 }

// progress fails while the status is about an earlier spec.
func (k *oneKind) progress(ctx context.Context, name string) (progress, error) {
	key := client.ObjectKey{Namespace: k.Name, Name: name}
	var at progress
	var seen, generation int64
	if k.kind == "CloneSet" {
		set := &v1beta1.CloneSet{}
		if err := k.Client.Get(ctx, key, set); err != nil {
			return at, err
		}
		seen, generation = set.Status.ObservedGeneration, set.Generation
		at = progress{set.Status.UpdatedReplicas, set.Status.UpdatedAvailableReplicas}
	} else {
		set := &v1beta1.StatefulSet{}
		if err := k.Client.Get(ctx, key, set); err != nil {
			return at, err
		}
		seen, generation = set.Status.ObservedGeneration, set.Generation
		at = progress{set.Status.UpdatedReplicas, set.Status.UpdatedAvailableReplicas}
	}
	if seen != generation {
		return at, fmt.Errorf("the status is about generation %d, the spec is at %d", seen, generation)
	}
	return at, nil
}
