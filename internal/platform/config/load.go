// SPDX-FileCopyrightText: The kruise-operator Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1alpha1 "github.com/kruise-operator/kruise-operator/api/operator/v1alpha1"
)

// Load reads the Kruise object past any cache, nil when there is none. served: its CRD is installed.
func Load(ctx context.Context, reader client.Reader) (object *operatorv1alpha1.Kruise, served bool, err error) {
	object = &operatorv1alpha1.Kruise{}
	err = reader.Get(ctx, client.ObjectKey{Name: operatorv1alpha1.KruiseName}, object)
	switch {
	case err == nil:
		return object, true, nil
	case meta.IsNoMatchError(err), isUnserved(err):
		return nil, false, nil
	case apierrors.IsNotFound(err):
		return nil, true, nil
	default:
		return nil, false, fmt.Errorf("reading the Kruise %s: %w", operatorv1alpha1.KruiseName, err)
	}
}

// isUnserved: the server lost a kind the client saw before. The answer comes from no registry, and names no object.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// SpecOf is the spec of an object, nil without one.
func SpecOf(object *operatorv1alpha1.Kruise) *operatorv1alpha1.KruiseSpec {
	if object == nil || object.DeletionTimestamp != nil {
		return nil
	}
	return &object.Spec
}
