// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

// Package listed reads which kinds of others an administrator lists, and what the scale of such a workload says.
package listed

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",namespace=kruise-system,resources=configmaps,resourceNames=kruise-configuration,verbs=get;list;watch

const (
	// ConfigMap in the operator's namespace has the lists, as OpenKruise's.
	ConfigMap = "kruise-configuration"
	// maxKinds bounds a list, maxBelow what one kind says, and maxText both.
	maxKinds, maxBelow, maxText = 50, 10, 64 << 10
)

// Kind is a kind of workloads in a list.
type Kind struct {
	schema.GroupVersionKind
	// SubResources are kinds between a workload and its pods.
	SubResources []schema.GroupVersionKind
	// ReplicasPath leads to the number of pods; empty: spec.replicas.
	ReplicasPath string
}

// Kinds are those of a list. Names of members may have any case, as in OpenKruise.
func Kinds(ctx context.Context, reader client.Reader, namespace, key string) ([]Kind, error) {
	var settings corev1.ConfigMap
	err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: ConfigMap}, &settings)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ConfigMap %s: %w", ConfigMap, err)
	}
	kinds, err := parse(settings.Data[key])
	if err != nil {
		return nil, fmt.Errorf("reading %s in the ConfigMap %s: %w", key, ConfigMap, err)
	}
	return kinds, nil
}

func parse(text string) ([]Kind, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var list struct{ Workloads []Kind }
	if len(text) > maxText {
		return nil, fmt.Errorf("it has %d bytes, and may have %d", len(text), maxText)
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	if len(list.Workloads) > maxKinds {
		return nil, fmt.Errorf("it has %d kinds, and may have %d", len(list.Workloads), maxKinds)
	}
	for i := range list.Workloads {
		if n := len(list.Workloads[i].SubResources); n > maxBelow {
			return nil, fmt.Errorf("%s has %d kinds of subResources, and may have %d", list.Workloads[i].Kind, n, maxBelow)
		}
	}
	return list.Workloads, nil
}

// Scale asks for the subresource scale of a workload: how many pods there should be, and which are its own.
func Scale(ctx context.Context, c client.Client, workload client.Object) (int32, labels.Selector, error) {
	is := &unstructured.Unstructured{}
	is.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	if err := c.SubResource("scale").Get(ctx, workload, is); err != nil {
		return 0, nil, err
	}
	replicas, _, _ := unstructured.NestedInt64(is.Object, "spec", "replicas")
	text, _, _ := unstructured.NestedString(is.Object, "status", "selector")
	selector, err := labels.Parse(text)
	if err != nil {
		return 0, nil, fmt.Errorf("the selector of its scale: %w", err)
	}
	return int32(min(max(replicas, 0), math.MaxInt32)), selector, nil //nolint:gosec // it is cut
}
