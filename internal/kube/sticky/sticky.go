// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sticky tells which workloads have pods with places to return to.
package sticky

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/place"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
)

// Key of the ConfigMap kruise-configuration lists further kinds, as in OpenKruise.
const Key = "PPS_Watch_Custom_Workload_WhiteList"

// Own is our StatefulSet.
func Own() schema.GroupKind { return appsv1beta1.GroupVersion().WithKind("StatefulSet").GroupKind() }

// Native is the StatefulSet of Kubernetes.
func Native() schema.GroupKind { return appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind() }

// Supports is true for kinds of workloads with stable names of pods.
func Supports(ctx context.Context, reader client.Reader, namespace string, kind schema.GroupKind) (bool, error) {
	if kind == Own() || kind == Native() {
		return true, nil
	}
	kinds, err := listed.Kinds(ctx, reader, namespace, Key)
	return slices.ContainsFunc(kinds, func(k listed.Kind) bool { return k.GroupKind() == kind }), err
}

// Nodes reads nodes by a reader. What cannot be read is taken to exist.
func Nodes(ctx context.Context, reader client.Reader) place.Nodes { return nodes{ctx, reader} }

type nodes struct {
	ctx    context.Context
	reader client.Reader
}

// Exists implements place.Nodes.
func (n nodes) Exists(name string) bool {
	return !apierrors.IsNotFound(n.reader.Get(n.ctx, types.NamespacedName{Name: name}, &corev1.Node{}, client.UnsafeDisableDeepCopy))
}

// Carries implements place.Nodes.
func (n nodes) Carries(key, value string) bool {
	var list corev1.NodeList
	err := n.reader.List(n.ctx, &list, client.MatchingLabels{key: value}, client.Limit(1), client.UnsafeDisableDeepCopy)
	return err != nil || len(list.Items) > 0
}
