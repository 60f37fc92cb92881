// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package listed

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/spread"
)

// SpreadKey of the ConfigMap kruise-configuration lists further kinds of workloads, as in OpenKruise.
const SpreadKey = "WorkloadSpread_Watch_Custom_Workload_WhiteList"

// Custom reads the further kinds, when it has to and once.
type Custom func() ([]Kind, error)

// Spreads reads them by a reader that asks the API server.
func Spreads(ctx context.Context, reader client.Reader, namespace string) Custom {
	return sync.OnceValues(func() ([]Kind, error) { return Kinds(ctx, reader, namespace, SpreadKey) })
}

// Complete adds to a spread what the list says of its workload's kind; nil: the list does not have it.
func (c Custom) Complete(s *spread.Spread) (*spread.Spread, error) {
	if !s.IsCustom() {
		return s, nil
	}
	kinds, err := c()
	at := slices.IndexFunc(kinds, func(kind Kind) bool { return kind.GroupKind() == s.Target.GroupKind() })
	if err != nil || at < 0 {
		return nil, err
	}
	return s.Listed(kinds[at].SubResources, kinds[at].ReplicasPath), nil
}

// Selector selects the pods of a workload of a further kind.
func Selector(ctx context.Context, c client.Client, workload *unstructured.Unstructured) (labels.Selector, error) {
	_, selector, err := Scale(ctx, c, workload)
	if err == nil && selector.Empty() {
		err = errors.New("its scale names no selector")
	}
	return selector, err
}
