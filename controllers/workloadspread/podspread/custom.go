// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package podspread

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
	"github.com/kruise-operator/kruise-operator/internal/kube/listed"
)

// Key of the ConfigMap kruise-configuration lists further kinds of workloads, as in OpenKruise.
const Key = "WorkloadSpread_Watch_Custom_Workload_WhiteList"

// Custom reads the further kinds, when it has to and once.
type Custom func() ([]listed.Kind, error)

// Lists reads them by a reader that asks the API server.
func Lists(ctx context.Context, reader client.Reader, namespace string) Custom {
	return sync.OnceValues(func() ([]listed.Kind, error) { return listed.Kinds(ctx, reader, namespace, Key) })
}

// Complete adds to a spread what the list says of its workload's kind; nil: the list does not have it.
func (c Custom) Complete(s *spread.Spread) (*spread.Spread, error) {
	if !s.IsCustom() {
		return s, nil
	}
	kinds, err := c()
	at := slices.IndexFunc(kinds, func(kind listed.Kind) bool { return kind.GroupKind() == s.Target.GroupKind() })
	if err != nil || at < 0 {
		return nil, err
	}
	return s.Listed(kinds[at].SubResources, kinds[at].ReplicasPath), nil
}

// Selector selects the pods of a workload of a further kind.
func Selector(ctx context.Context, c client.Client, workload *unstructured.Unstructured) (labels.Selector, error) {
	_, selector, err := listed.Scale(ctx, c, workload)
	if err == nil && selector.Empty() {
		err = errors.New("its scale names no selector")
	}
	return selector, err
}
