// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kruise-operator/kruise-operator/internal/engine/traffic/script"
)

// scripts are those of the administrator.
func scripts(ctx context.Context, namespace string, read func(context.Context, types.NamespacedName, client.Object) error) (map[string]string, error) {
	stored := &corev1.ConfigMap{}
	if err := read(ctx, types.NamespacedName{Namespace: namespace, Name: script.ConfigMap}, stored); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the scripts: %w", err)
	}
	return stored.Data, nil
}

// Judge finds what routes cannot do, for admission.
type Judge struct {
	// Reader asks the API server. The scripts are in the Namespace of the operator.
	Reader    client.Reader
	Namespace string
}

// Faults are those that remain with the scripts of the administrator: as in a release, they win. They are read only when there are faults
// without them.
func (j Judge) Faults(ctx context.Context, with func(scripts map[string]string) field.ErrorList) field.ErrorList {
	errs := with(nil)
	if len(errs) == 0 {
		return nil
	}
	stored, err := scripts(ctx, j.Namespace, func(ctx context.Context, key types.NamespacedName, object client.Object) error {
		return j.Reader.Get(ctx, key, object)
	})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Letting routes in without a look at the scripts")
		return nil
	}
	return with(stored)
}
