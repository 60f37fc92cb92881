// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package sticky tells which workloads have pods with places to return to.
package sticky

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/kruise-operator/kruise-operator/api/apps/v1beta1"
	"github.com/kruise-operator/kruise-operator/internal/engine/place"
)

// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=configmaps,resourceNames=kruise-configuration,verbs=get

const (
	// ConfigMap in the operator's namespace lists further kinds under Key, as OpenKruise's.
	ConfigMap = "kruise-configuration"
	// Key is the list's.
	Key = "PPS_Watch_Custom_Workload_WhiteList"
	// maxListed bounds the kinds, and maxText the list.
	maxListed, maxText = 50, 64 << 10
)

// Own is our StatefulSet.
func Own() schema.GroupKind { return appsv1beta1.GroupVersion().WithKind("StatefulSet").GroupKind() }

// Native is the StatefulSet of Kubernetes.
func Native() schema.GroupKind { return appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind() }

// Supports is true for kinds of workloads with stable names of pods.
func Supports(ctx context.Context, reader client.Reader, namespace string, kind schema.GroupKind) (bool, error) {
	if kind == Own() || kind == Native() {
		return true, nil
	}
	listed, err := Listed(ctx, reader, namespace)
	return slices.ContainsFunc(listed, func(k schema.GroupVersionKind) bool { return k.GroupKind() == kind }), err
}

// Listed are the further kinds. Names of members may have any case, as in OpenKruise.
func Listed(ctx context.Context, reader client.Reader, namespace string) ([]schema.GroupVersionKind, error) {
	var settings corev1.ConfigMap
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ConfigMap}, &settings)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ConfigMap %s: %w", ConfigMap, err)
	}
	return parse(settings.Data[Key])
}

func parse(text string) ([]schema.GroupVersionKind, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var list struct{ Workloads []schema.GroupVersionKind }
	if len(text) > maxText {
		return nil, fmt.Errorf("%s in the ConfigMap %s has %d bytes, and may have %d", Key, ConfigMap, len(text), maxText)
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("reading %s in the ConfigMap %s: %w", Key, ConfigMap, err)
	}
	if len(list.Workloads) > maxListed {
		return nil, fmt.Errorf("%s in the ConfigMap %s has %d kinds, and may have %d", Key, ConfigMap, len(list.Workloads), maxListed)
	}
	return list.Workloads, nil
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
